"""tf.contrib.rnn against NumPy: formulas, names of variables, and that cells of one op are those of many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf

RNG = np.random.default_rng(5)
BATCH, TIME, DEPTH, UNITS = 2, 5, 4, 4
X = RNG.normal(size=(BATCH, DEPTH)).astype(np.float32)
C, H = (RNG.normal(size=(BATCH, UNITS)).astype(np.float32) for _ in range(2))
rnn = tf.contrib.rnn
Values = dict[str, Any]


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def beside(*parts: Any) -> Any:
    return np.concatenate(parts, 1)


def normal(x: Any, w: Values, scope: str) -> Any:
    scaled = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
    return scaled * w[f"{scope}/gamma"] + w[f"{scope}/beta"]


def lstm(x: Any, c: Any, h: Any, w: Values) -> Any:
    i, j, f, o = np.split(beside(x, h) @ w["kernel"] + w["bias"], 4, 1)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    return sigmoid(o) * np.tanh(c), c


def layer_norm(x: Any, c: Any, h: Any, w: Values) -> Any:
    gates = np.split(beside(x, h) @ w["kernel"], 4, 1)
    names = ("input", "transform", "forget", "output")
    i, j, f, o = (normal(gate, w, name) for gate, name in zip(gates, names, strict=True))
    c = normal(c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j), w, "state")
    return np.tanh(c) * sigmoid(o), c


def coupled(x: Any, c: Any, h: Any, w: Values) -> Any:
    j, f, o = np.split(beside(x, h) @ w["W_0"] + w["B"], 3, 1)
    kept = sigmoid(f + 1 + w["W_F_diag"] * c)
    c = kept * c + (1 - kept) * np.tanh(j)
    return sigmoid(o + w["W_O_diag"] * c) * np.tanh(c), c


def nas(x: Any, c: Any, h: Any, w: Values) -> Any:
    m = np.split(h @ w["recurrent_kernel"] + w["bias"], 8, 1)
    i = np.split(x @ w["kernel"], 8, 1)
    of = [sigmoid, relu, sigmoid, relu, np.tanh, sigmoid, np.tanh, sigmoid]
    first = [
        f(a * b if at == 3 else a + b) for at, (f, a, b) in enumerate(zip(of, i, m, strict=True))
    ]
    second = [
        np.tanh(np.tanh(first[0] * first[1]) + c),
        np.tanh(first[2] + first[3]),
        np.tanh(first[4] * first[5]),
        sigmoid(first[6] + first[7]),
    ]
    c = second[0] * second[1]
    return np.tanh(c * np.tanh(second[2] + second[3])), c


def weight_norm(x: Any, c: Any, h: Any, w: Values) -> Any:
    parts = [
        part / np.sqrt((part**2).sum(0)) * w[f"wn/norm_{at}"]
        for at, part in enumerate(np.split(w["wn/kernel"], [DEPTH]))
    ]
    return lstm(x, c, h, {"kernel": np.concatenate(parts), "bias": w["wn/bias"]})


def ugrnn(x: Any, _: Any, h: Any, w: Values) -> Any:
    gate, new = np.split(beside(x, h) @ w["kernel"] + w["bias"], 2, 1)
    gate = sigmoid(gate + 1)
    return gate * h + (1 - gate) * np.tanh(new), None


def intersection(x: Any, _: Any, h: Any, w: Values) -> Any:
    _, _, gy, y = np.split(beside(x, h) @ w["kernel"] + w["bias"], 4, 1)
    gy = sigmoid(gy + 1)
    return gy * x + (1 - gy) * relu(y), None


def gru(x: Any, _: Any, h: Any, w: Values, names: Any = ("w_ru", "b_ru", "w_c", "b_c")) -> Any:
    w_ru, b_ru, w_c, b_c = (w[name] for name in names)
    r, u = np.split(sigmoid(beside(x, h) @ w_ru + b_ru), 2, 1)
    return u * h + (1 - u) * np.tanh(beside(x, r * h) @ w_c + b_c), None


def gru_v2(x: Any, c: Any, h: Any, w: Values) -> Any:
    return gru(x, c, h, w, ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"))


def phased(x: Any, c: Any, h: Any, w: Values) -> Any:
    def gate(name: str, size: int) -> Any:
        return beside(x, h) @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    enter, forget = np.split(sigmoid(gate("mask_gates", 2)), 2, 1)
    new_c = c * forget + enter * np.tanh(gate("new_input", 1))
    new_h = np.tanh(new_c) * sigmoid(gate("output_gate", 1))
    period = np.abs(w["period"]) + 1
    at = np.mod(3.0 - w["phase"], period) / period
    share = w["ratio_on"]
    opened = np.where(
        at < share / 2, 2 * at / share, np.where(at < share, 2 - 2 * at / share, 0.001 * at)
    )
    return opened * new_h + (1 - opened) * h, opened * new_c + (1 - opened) * c


CELLS: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "lstm_cell": (lambda: rnn.LSTMBlockCell(UNITS), lstm),
    "layer_norm_basic_lstm_cell": (lambda: rnn.LayerNormBasicLSTMCell(UNITS), layer_norm),
    "coupled_input_forget_gate_lstm_cell": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(UNITS, use_peepholes=True),
        coupled,
    ),
    "nas_cell": (lambda: rnn.NASCell(UNITS, use_bias=True), nas),
    "weight_norm_lstm_cell": (lambda: rnn.WeightNormLSTMCell(UNITS), weight_norm),
    "ugrnn_cell": (lambda: rnn.UGRNNCell(UNITS), ugrnn),
    "intersection_rnn_cell": (lambda: rnn.IntersectionRNNCell(UNITS), intersection),
    "gru_cell": (lambda: rnn.GRUBlockCell(UNITS), gru),
    "gru_cell/2": (lambda: rnn.GRUBlockCellV2(UNITS), gru_v2),
    "phased_lstm_cell": (lambda: rnn.PhasedLSTMCell(UNITS), phased),
}


def filled(session: tf.Session, scope: str) -> Values:
    """The variables by the rest of their names, with random values."""
    values = {}
    for variable in tf.global_variables():
        value = RNG.normal(size=variable.shape.as_list()).astype(np.float32)
        if variable.op.name.endswith("period"):
            value = np.abs(value) + 1
        variable.load(value, session)
        assert variable.op.name.startswith(scope + "/")
        values[variable.op.name.removeprefix(scope + "/")] = value
    if "period" in values:
        values["period"] = values["period"] - 1
    return values


@pytest.mark.parametrize("name", CELLS)
def test_a_step_is_the_formula(name: str) -> None:
    build, formula = CELLS[name]
    cell = build()
    two = isinstance(cell.state_size, tuple)
    state = rnn.LSTMStateTuple(tf.constant(C), tf.constant(H)) if two else tf.constant(H)
    given: Any = tf.constant(X)
    if name == "phased_lstm_cell":
        given = (tf.fill([BATCH, 1], 3.0), given)
    output, new = cell(given, state)
    with tf.Session() as session:
        values = filled(session, name.partition("/")[0])
        found, found_state = session.run([output, new])
    wanted, c = formula(X, C, H, values)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-5)
    if two:
        np.testing.assert_allclose(found_state.c, c, rtol=2e-5, atol=1e-5)
        np.testing.assert_allclose(found_state.h, wanted, rtol=2e-5, atol=1e-5)
    assert output.shape.as_list() == [BATCH, UNITS]


@pytest.mark.parametrize("peepholes", [False, True])
def test_a_cell_goes_over_windows_of_frequencies(peepholes: bool) -> None:
    cell = rnn.TimeFreqLSTMCell(
        UNITS, peepholes, cell_clip=0.9, num_unit_shards=2, feature_size=3, frequency_skip=2
    )
    x, state = RNG.normal(size=(BATCH, 8)), RNG.normal(size=(BATCH, 3 * 2 * UNITS))
    x, state = x.astype(np.float32), state.astype(np.float32)
    output, new = cell(tf.constant(x), tf.constant(state))
    assert (output.shape[1], new.shape[1]) == (3 * UNITS, 6 * UNITS)
    with tf.Session() as session:
        w = filled(session, "time_freq_lstm_cell")
        found, found_state = session.run([output, new])
    kernel, side = np.concatenate((w["W_0"], w["W_1"])), np.zeros((BATCH, UNITS))
    forget_by, enter_by, leave_by = (w.get(f"W_{gate}_diag", 0.0) for gate in "FIO")
    outputs, states = [], []
    for at in range(3):
        c, h = np.split(state[:, 2 * UNITS * at : 2 * UNITS * (at + 1)], 2, 1)
        made = np.concatenate((x[:, 2 * at : 2 * at + 3], h, side), 1) @ kernel + w["B"]
        i, j, f, o = np.split(made, 4, 1)
        new_c = sigmoid(f + 1 + forget_by * c) * c + sigmoid(i + enter_by * c) * np.tanh(j)
        new_c = np.clip(new_c, -0.9, 0.9)
        side = sigmoid(o + leave_by * new_c) * np.tanh(new_c)
        outputs.append(side)
        states += [new_c, side]
    np.testing.assert_allclose(found, np.concatenate(outputs, 1), rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(found_state, np.concatenate(states, 1), rtol=2e-5, atol=1e-5)
    with pytest.raises(ValueError, match="feature_size must be above 0"):
        rnn.TimeFreqLSTMCell(UNITS, feature_size=9)(tf.constant(x), tf.constant(state))


def outputs_of(build: Callable[[Any, Any], Any], lengths: Any) -> Any:
    """Outputs and state along time, and the gradients; variables as drawn from one seed."""
    rng = np.random.default_rng(9)
    x = tf.constant(rng.normal(size=(TIME, BATCH, DEPTH)).astype(np.float32))
    outputs, state = build(x, lengths)
    slopes = tf.gradients(tf.reduce_sum(outputs * outputs) + tf.reduce_sum(state.c), [x])
    slopes += tf.gradients(tf.reduce_sum(outputs), tf.trainable_variables())
    with tf.Session() as session:
        for variable in tf.global_variables():
            variable.load(rng.normal(size=variable.shape.as_list()), session)
        return session.run([outputs, *state, *slopes])


RUNS: dict[str, Callable[[Any, Any], Any]] = {
    "of one op": lambda x, n: rnn.LSTMBlockFusedCell(UNITS)(x, dtype=tf.float32, sequence_length=n),
    "of one op a step": lambda x, n: tf.nn.dynamic_rnn(
        rnn.LSTMBlockCell(UNITS), x, n, dtype=tf.float32, time_major=True
    ),
    "a cell as fused": lambda x, n: rnn.FusedRNNCellAdaptor(rnn.LSTMBlockCell(UNITS))(
        x, dtype=tf.float32, sequence_length=n
    ),
    "a cell as fused, in a loop": lambda x, n: rnn.FusedRNNCellAdaptor(
        rnn.BasicLSTMCell(UNITS), use_dynamic_rnn=True
    )(x, dtype=tf.float32, sequence_length=n),
    "turned twice": lambda x, n: rnn.TimeReversedFusedRNN(
        rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(UNITS))
    )(x, dtype=tf.float32, sequence_length=n),
}


@pytest.mark.parametrize("lengths", [None, [3, 5], [0, 2]], ids=str)
def test_an_lstm_is_the_same_whatever_it_is_made_of(lengths: Any) -> None:
    found = {}
    for name, build in {
        "plain": lambda x, n: tf.nn.dynamic_rnn(
            rnn.BasicLSTMCell(UNITS), x, n, dtype=tf.float32, time_major=True
        ),
        **RUNS,
    }.items():
        with tf.Graph().as_default():
            found[name] = outputs_of(build, lengths)
    for name, values in found.items():
        for value, wanted in zip(values, found["plain"], strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5, err_msg=name)


def test_projections_embeddings_and_highways_have_their_variables_beside_the_cells() -> None:
    x = tf.constant(RNG.normal(size=(BATCH, TIME, UNITS)).astype(np.float32))
    ids = tf.constant(RNG.integers(0, 7, (BATCH, TIME, 1)))
    for scope, cell, given in (
        ("a", rnn.InputProjectionWrapper(rnn.GRUCell(UNITS), 3), x),
        ("b", rnn.OutputProjectionWrapper(rnn.GRUCell(UNITS), 3, activation=tf.tanh), x),
        ("c", rnn.EmbeddingWrapper(rnn.GRUCell(UNITS), 7, 3), ids),
        ("d", rnn.HighwayWrapper(rnn.GRUCell(UNITS), couple_carry_transform_gates=False), x),
    ):
        with tf.variable_scope(scope):
            outputs, _ = tf.nn.dynamic_rnn(cell, given, dtype=tf.float32)
        assert outputs.shape.as_list() == [BATCH, TIME, cell.output_size]
    names = {v.op.name: v.shape.as_list() for v in tf.global_variables()}
    assert {name: shape for name, shape in names.items() if "gru" not in name} == {
        "a/rnn/input_projection_wrapper/kernel": [4, 3],
        "a/rnn/input_projection_wrapper/bias": [3],
        "b/rnn/output_projection_wrapper/kernel": [4, 3],
        "b/rnn/output_projection_wrapper/bias": [3],
        "c/rnn/embedding_wrapper/embedding": [7, 3],
        "d/rnn/carry_w": [4, 4],
        "d/rnn/carry_b": [4],
        "d/rnn/transform_w": [4, 4],
        "d/rnn/transform_b": [4],
    }
    assert "c/rnn/embedding_wrapper/gru_cell/gates/kernel" in names
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(outputs)


def test_a_cell_attends_to_its_last_outputs() -> None:
    cell = rnn.AttentionCellWrapper(rnn.GRUCell(UNITS), 3)
    state = (H, RNG.normal(size=(BATCH, UNITS)), RNG.normal(size=(BATCH, 3 * UNITS)))
    state = tuple(part.astype(np.float32) for part in state)
    output, new = cell(tf.constant(X), tuple(map(tf.constant, state)))
    with tf.Session() as session:
        w = filled(session, "attention_cell_wrapper")
        found, found_state = session.run([output, new])
    x = beside(X, state[1]) @ w["kernel"] + w["bias"]
    names = [
        f"gru_cell/{each}"
        for each in ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
    ]
    h, _ = gru(x, None, H, w, names)
    kept = state[2].reshape(BATCH, 3, UNITS)
    asked = h @ w["attention/kernel"] + w["attention/bias"]
    score = (
        w["attention/attn_v"] * np.tanh(kept @ w["attention/attn_w"][0, 0] + asked[:, None])
    ).sum(2)
    weights = np.exp(score) / np.exp(score).sum(1, keepdims=True)
    attended = (weights[:, :, None] * kept).sum(1)
    scope = "attn_output_projection"
    wanted = beside(h, attended) @ w[f"{scope}/kernel"] + w[f"{scope}/bias"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found_state[1], attended, rtol=1e-4, atol=1e-5)
    last = np.concatenate([kept[:, 1:], wanted[:, None]], 1).reshape(BATCH, -1)
    np.testing.assert_allclose(found_state[2], last, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_an_lstm_of_images_with_windows_of_one_is_an_lstm_of_each_pixel(dims: int) -> None:
    sizes = [3, 2, 2][:dims]
    cell = rnn.ConvLSTMCell(dims, [*sizes, DEPTH], UNITS, [1] * dims, skip_connection=True)
    x, c, h = (
        RNG.normal(size=(BATCH, *sizes, n)).astype(np.float32) for n in (DEPTH, UNITS, UNITS)
    )
    output, _ = cell(tf.constant(x), rnn.LSTMStateTuple(tf.constant(c), tf.constant(h)))
    with tf.Session() as session:
        w = filled(session, "conv_lstm_cell")
        found = session.run(output)
    flat = [each.reshape(-1, each.shape[-1]) for each in (x, c, h)]
    kernel = w["kernel"].reshape(-1, 4 * UNITS)
    wanted, _ = lstm(*flat, {"kernel": kernel, "bias": w["biases"]})
    np.testing.assert_allclose(found[..., :UNITS].reshape(-1, UNITS), wanted, rtol=1e-4, atol=1e-5)
    assert (found[..., UNITS:] == x).all()
    assert cell.output_size.as_list() == [*sizes, UNITS + DEPTH]


def test_stacks_of_both_directions_name_their_layers() -> None:
    x = tf.constant(RNG.normal(size=(BATCH, TIME, DEPTH)).astype(np.float32))

    def cells() -> Any:
        return [rnn.GRUCell(3), rnn.GRUCell(2)]

    outputs, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
        cells(), cells(), x, dtype=tf.float32, sequence_length=[5, 3]
    )
    with tf.variable_scope("s"):
        steps, *_ = rnn.stack_bidirectional_rnn(
            cells(), cells(), tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=[5, 3]
        )
    assert (len(forward), len(backward), outputs.shape.as_list()) == (2, 2, [BATCH, TIME, 4])
    names = [v.op.name for v in tf.global_variables()]
    half = len(names) // 2
    assert names[0] == "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/gru_cell/gates/kernel"
    assert [f"s/{name}" for name in names[:half]] == names[half:]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for one, other in zip(
            tf.global_variables()[:half], tf.global_variables()[half:], strict=True
        ):
            session.run(tf.assign(other, one))
        found, other = session.run([outputs, tf.stack(steps, 1)])
    np.testing.assert_allclose(found, other, rtol=1e-5, atol=1e-6)


def test_what_is_not_here_says_what_to_use() -> None:
    with pytest.raises(AttributeError, match="leave the wrapper out"):
        _ = rnn.CompiledWrapper
    with pytest.raises(ValueError, match="num_in_proj"):
        rnn.IntersectionRNNCell(3)(tf.constant(X), tf.zeros([BATCH, 3]))
    with pytest.raises(ValueError, match="same depth"):
        rnn.stack_bidirectional_rnn([rnn.GRUCell(2)], [rnn.GRUCell(2)] * 2, [tf.constant(X)])
