"""More cells of tf.contrib.rnn, cuDNN's, and monotonic attention: one step each beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf

rnn, cudnn, seq2seq = tf.contrib.rnn, tf.contrib.cudnn_rnn, tf.contrib.seq2seq
Values = dict[str, Any]
rng = np.random.RandomState(2)
X, C, H = (rng.standard_normal((2, n)) for n in (4, 4, 4))


def sig(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(gates: Any, c: Any, forget_bias: float) -> tuple[Any, Any]:
    enter, new, forget, leave = np.split(gates, 4, 1)
    c = sig(forget + forget_bias) * c + sig(enter) * np.tanh(new)
    return np.tanh(c) * sig(leave), c


def indy_gru(v: Values) -> Any:
    gates = X @ v["gates/kernel_w"] + np.hstack([H, H]) * v["gates/kernel_u"] + v["gates/bias"]
    reset, update = np.split(sig(gates), 2, 1)
    new = X @ v["candidate/kernel_w"] + reset * H * v["candidate/kernel_u"] + v["candidate/bias"]
    return update * H + (1 - update) * np.tanh(new)


def sru(v: Values) -> Any:
    x, forget, reset, direct = np.split(X @ v["kernel"], 4, 1)
    forget, reset = np.split(sig(np.hstack([forget, reset]) + v["bias"]), 2, 1)
    c = forget * H + (1 - forget) * x
    return reset * np.tanh(c) + (1 - reset) * direct, c


def minimal(v: Values) -> Any:
    new = np.tanh(X @ v["kernel"])
    kept = sig(np.hstack([H, new]) @ v["recurrent_kernel"] + v["bias"])
    return kept * H + (1 - kept) * new


def chaos_free(v: Values) -> Any:
    made = X @ v["kernel"]
    gates = sig(made[:, 4:] + H @ v["recurrent_kernel"] + v["bias"])
    return gates[:, :4] * np.tanh(H) + gates[:, 4:] * np.tanh(made[:, :4])


def grouped(v: Values) -> Any:
    parts = [
        np.hstack([X[:, at], H[:, at]]) @ v[f"group{n}/kernel"] + v[f"group{n}/bias"]
        for n, at in enumerate((slice(0, 2), slice(2, 4)))
    ]
    split = [np.split(part, 4, 1) for part in parts]
    return lstm(np.hstack([each[gate] for gate in range(4) for each in split]), C, 1.0)


def layer_norm(v: Values) -> Any:
    def normal(x: Any, name: str) -> Any:
        centred = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-12)
        return centred * v[f"{name}/gamma"] + v[f"{name}/beta"]

    gates = np.split(np.hstack([X, H]) @ v["kernel"], 4, 1)
    names = "input", "transform", "forget", "output"
    enter, new, forget, leave = (normal(g, n) for g, n in zip(gates, names, strict=True))
    c = sig(forget + 1) * C + sig(enter) * np.tanh(new)
    c = normal(c, "state")
    return sig(leave) * np.tanh(c), c


def cudnn_gru(v: Values) -> Any:
    gates = sig(np.hstack([X, H]) @ v["gates/kernel"] + v["gates/bias"])
    reset, update = np.split(gates, 2, 1)
    inputs, hidden = (
        each @ v[f"candidate/{part}_projection/kernel"] + v[f"candidate/{part}_projection/bias"]
        for each, part in ((X, "input"), (H, "hidden"))
    )
    return (1 - update) * np.tanh(inputs + reset * hidden) + update * H


CELLS: dict[str, tuple[Any, Any]] = {
    "ind_rnn_cell": (
        lambda: rnn.IndRNNCell(4),
        lambda v: np.tanh(X @ v["kernel_w"] + H * v["kernel_u"] + v["bias"]),
    ),
    "indy_gru_cell": (lambda: rnn.IndyGRUCell(4), indy_gru),
    "indy_lstm_cell": (
        lambda: rnn.IndyLSTMCell(4),
        lambda v: lstm(X @ v["kernel_w"] + np.tile(H, 4) * v["kernel_u"] + v["bias"], C, 1.0),
    ),
    "sru_cell": (lambda: rnn.SRUCell(4), sru),
    "minimal_rnn_cell": (lambda: rnn.MinimalRNNCell(4), minimal),
    "cfn_cell": (lambda: rnn.CFNCell(4), chaos_free),
    "glstm_cell": (lambda: rnn.GLSTMCell(4, number_of_groups=2), grouped),
    "layer_norm_lstm_cell": (lambda: rnn.LayerNormLSTMCell(4, layer_norm=True), layer_norm),
    "cudnn_compatible_lstm_cell": (
        lambda: cudnn.CudnnCompatibleLSTMCell(4),
        lambda v: lstm(np.hstack([X, H]) @ v["kernel"] + v["bias"], C, 0.0),
    ),
    "cudnn_compatible_gru_cell": (lambda: cudnn.CudnnCompatibleGRUCell(4), cudnn_gru),
}


def test_one_step_of_each_cell() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        made = {}
        x, c, h = (tf.constant(each, tf.float32) for each in (X, C, H))
        for name, (make, _) in CELLS.items():
            cell = make()
            state = rnn.LSTMStateTuple(c, h) if isinstance(cell.state_size, tuple) else h
            made[name] = cell(x, state)
            assert made[name][0].shape == [2, 4]
        session.run(tf.global_variables_initializer())
        drawn = np.random.RandomState(4)
        for variable in tf.global_variables():
            variable.load(drawn.standard_normal(variable.shape.as_list()), session)
        found = session.run(made)
        values = session.run({v.op.name: v for v in tf.global_variables()})
    for name, (_, step) in CELLS.items():
        own = {k.removeprefix(f"{name}/"): v for k, v in values.items() if k.startswith(f"{name}/")}
        output, state = found[name]
        expected = step(own)
        if isinstance(expected, tuple):
            last = state.c if isinstance(state, rnn.LSTMStateTuple) else state
            np.testing.assert_allclose(last, expected[1], rtol=1e-4, atol=1e-5, err_msg=name)
            expected = expected[0]
        np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_cells_that_are_refused() -> None:
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="divisible by number_of_groups: 4, None, 3"):
            rnn.GLSTMCell(4, number_of_groups=3)
        cell = rnn.SRUCell(4)
        with pytest.raises(ValueError, match="to be known, saw shape"):
            cell(tf.placeholder(tf.float32, [2, None]), tf.zeros([2, 4]))
    for name in ("CudnnLSTM", "CudnnGRU", "CudnnLSTMSaveable"):
        with pytest.raises(AttributeError, match="CudnnCompatibleLSTMCell"):
            getattr(cudnn, name)


def _recursive(chosen: Any, before: Any) -> Any:
    found = np.zeros_like(chosen)
    for row in range(len(chosen)):
        reached = 0.0
        for at in range(chosen.shape[1]):
            reached = reached * (1 - chosen[row, at - 1] if at else 1) + before[row, at]
            found[row, at] = chosen[row, at] * reached
    return found


def test_monotonic_attention_goes_on_from_where_it_was() -> None:
    drawn = np.random.RandomState(0)
    chosen, before = drawn.rand(2, 5), drawn.dirichlet(np.ones(5), 2)
    hard = np.array([[0, 1.0, 0, 1, 1], [1, 0, 0, 1, 0]])
    at = np.eye(5)[[2, 1]]
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(
            [
                seq2seq.monotonic_attention(chosen, before, "recursive"),
                seq2seq.monotonic_attention(chosen, before, "parallel"),
                seq2seq.monotonic_attention(hard, at, "hard"),
                seq2seq.safe_cumprod(tf.constant([0.5, 0.0, 0.5])),
            ]
        )
        with pytest.raises(ValueError, match="mode must be 'recursive'"):
            seq2seq.monotonic_attention(chosen, before, "soft")
    np.testing.assert_allclose(found[0], _recursive(chosen, before), rtol=1e-10)
    np.testing.assert_allclose(found[1], _recursive(chosen, before), rtol=1e-8)
    np.testing.assert_array_equal(found[2], np.eye(5)[[3, 3]])
    np.testing.assert_allclose(found[3], [0.5, 0, 0], atol=1e-30)


def test_monotonic_mechanisms_align_memories() -> None:
    memory = np.random.RandomState(1).standard_normal((2, 3, 4)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        query = tf.constant(H, tf.float32)
        found = {}
        for kind in (seq2seq.BahdanauMonotonicAttention, seq2seq.LuongMonotonicAttention):
            mechanism = kind(4, memory, [3, 2], score_bias_init=0.5, mode="recursive")
            start = mechanism.initial_alignments(2, tf.float32)
            found[kind.__name__] = start, mechanism(query, start)[0]
            noisy = kind(4, memory, sigmoid_noise=1.0, sigmoid_noise_seed=3, mode="hard")
            found[f"hard {kind.__name__}"] = start, noisy(query, start)[0]
        names = sorted(v.op.name for v in tf.global_variables())
        session.run(tf.global_variables_initializer())
        values = session.run(found)
        luong = session.run({v.op.name: v for v in tf.global_variables()})
    assert "bahdanau_monotonic_attention/attention_score_bias" in names
    assert "luong_monotonic_attention/attention_score_bias" in names
    masked = memory * np.array([[1, 1, 1], [1, 1, 0]])[..., None]
    keys = masked @ luong["memory_layer_2/kernel"]
    score = np.einsum("bd,btd->bt", H, keys) + 0.5
    chosen = sig(np.where([[1, 1, 1], [1, 1, 0]], score, -np.inf))
    start, aligned = values["LuongMonotonicAttention"]
    np.testing.assert_array_equal(start, [[1, 0, 0], [1, 0, 0]])
    np.testing.assert_allclose(aligned, _recursive(chosen, start), rtol=1e-4, atol=1e-6)
    for name, (_, alignments) in values.items():
        assert (alignments.sum(1) <= 1 + 1e-5).all(), name
        assert not name.startswith("hard") or np.isin(alignments, [0, 1]).all()
