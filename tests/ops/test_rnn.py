"""Recurrent cells and networks against NumPy: formulas, lengths, names of variables, dropout, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf

RNG = np.random.default_rng(11)
BATCH, TIME, DEPTH, UNITS = 3, 5, 2, 4
X = RNG.normal(size=(BATCH, TIME, DEPTH))
LENGTHS = np.array([5, 0, 2])
cells = tf.nn.rnn_cell


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def basic(x: Any, h: Any, w: dict[str, Any]) -> Any:
    h = np.tanh(np.concatenate([x, h], 1) @ w["kernel"] + w["bias"])
    return h, h


def gru(x: Any, h: Any, w: dict[str, Any]) -> Any:
    gates = sigmoid(np.concatenate([x, h], 1) @ w["gates/kernel"] + w["gates/bias"])
    reset, update = np.split(gates, 2, 1)
    new = np.concatenate([x, reset * h], 1) @ w["candidate/kernel"] + w["candidate/bias"]
    h = update * h + (1 - update) * np.tanh(new)
    return h, h


def lstm(x: Any, state: Any, w: dict[str, Any], forget_bias: float = 1.0) -> Any:
    c, h = state
    enter, new, forget, leave = np.split(np.concatenate([x, h], 1) @ w["kernel"] + w["bias"], 4, 1)
    c = sigmoid(forget + forget_bias) * c + sigmoid(enter) * np.tanh(new)
    h = sigmoid(leave) * np.tanh(c)
    return h, (c, h)


def lstm_with_all(x: Any, state: Any, w: dict[str, Any]) -> Any:
    c, h = state
    enter, new, forget, leave = np.split(np.concatenate([x, h], 1) @ w["kernel"] + w["bias"], 4, 1)
    kept = sigmoid(forget + 1 + w["w_f_diag"] * c) * c
    c = np.clip(kept + sigmoid(enter + w["w_i_diag"] * c) * np.tanh(new), -0.3, 0.3)
    h = sigmoid(leave + w["w_o_diag"] * c) * np.tanh(c) @ w["projection/kernel"]
    return np.clip(h, -0.2, 0.2), (c, np.clip(h, -0.2, 0.2))


CELLS: dict[str, tuple[Callable[[], Any], Callable[..., Any], str]] = {
    "basic": (lambda: cells.BasicRNNCell(UNITS), basic, "basic_rnn_cell"),
    "gru": (lambda: cells.GRUCell(UNITS), gru, "gru_cell"),
    "basic lstm": (lambda: cells.BasicLSTMCell(UNITS), lstm, "basic_lstm_cell"),
    "lstm": (lambda: cells.LSTMCell(UNITS), lstm, "lstm_cell"),
    "lstm, all of it": (
        lambda: cells.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.3, num_proj=3, proj_clip=0.2),
        lstm_with_all,
        "lstm_cell",
    ),
}


def weights(session: Any, scope: str) -> dict[str, Any]:
    """The variables of `scope`, which get random values, by the rest of their names."""
    found = {}
    for variable in tf.global_variables():
        assert variable.op.name.startswith(scope + "/")
        value = RNG.normal(size=variable.shape.as_list()) * 0.7
        variable.load(value, session)
        found[variable.op.name.removeprefix(scope + "/")] = value
    return found


def along_time(step: Callable[..., Any], w: dict[str, Any], cell: Any, lengths: Any = None) -> Any:
    """(outputs [batch, time, size], last state) by the formula, one sequence at a time."""
    sizes = cell.state_size
    outputs = np.zeros((BATCH, TIME, cell.output_size))
    last = []
    for row in range(BATCH):
        state = (
            tuple(np.zeros((1, n)) for n in sizes)
            if isinstance(sizes, tuple)
            else np.zeros((1, sizes))
        )
        for time in range(TIME if lengths is None else lengths[row]):
            outputs[row, time], state = step(X[row : row + 1, time], state, w)
        last.append(state)
    if isinstance(sizes, tuple):
        return outputs, tuple(np.concatenate(part) for part in zip(*last, strict=True))
    return outputs, np.concatenate(last)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CELLS)
def test_a_loop_over_time_is_the_formula_step_by_step(name: str, known: bool, lengths: Any) -> None:
    make, step, scope = CELLS[name]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float64, [BATCH if known else None, TIME if known else None, DEPTH])
        cell = make()
        outputs, state = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float64)
        w = weights(session, f"rnn/{scope}")
        wanted, last = along_time(step, w, cell, lengths)
        found, found_last = session.run([outputs, state], {x: X})
        assert outputs.shape.is_compatible_with(wanted.shape)
        assert outputs.shape[2] == wanted.shape[2]
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_allclose(
            np.concatenate(found_last, -1), np.concatenate(last, -1), atol=1e-12
        )
        assert cell.variables == tf.global_variables() == cell.trainable_variables


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
def test_unrolled_backwards_and_time_first_agree_with_the_loop(lengths: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(X)
        steps = tf.unstack(x, axis=1)
        kwargs: dict[str, Any] = {"sequence_length": lengths, "dtype": tf.float64}
        with tf.variable_scope("all", reuse=tf.AUTO_REUSE):
            looped, last = tf.nn.dynamic_rnn(
                cells.GRUCell(4, name="c", reuse=tf.AUTO_REUSE), x, **kwargs
            )
            unrolled, last_unrolled = tf.nn.static_rnn(
                cells.GRUCell(4, name="c", reuse=tf.AUTO_REUSE), steps, **kwargs
            )
            first, _ = tf.nn.dynamic_rnn(
                cells.GRUCell(4, name="c", reuse=tf.AUTO_REUSE),
                tf.transpose(x, [1, 0, 2]),
                time_major=True,
                **kwargs,
            )
        assert len(tf.global_variables()) == 4
        session.run(tf.global_variables_initializer())
        a, b, c, d, e = session.run(
            [looped, tf.stack(unrolled, 1), tf.transpose(first, [1, 0, 2]), last, last_unrolled]
        )
        np.testing.assert_allclose(a, b, atol=1e-12)
        np.testing.assert_allclose(a, c, atol=1e-12)
        np.testing.assert_allclose(d, e, atol=1e-12)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
def test_both_directions(lengths: Any) -> None:
    """The backward half is a forward run of the sequences turned round, turned back."""
    turned = X[:, ::-1].copy()
    if lengths is not None:
        for row, n in enumerate(lengths):
            turned[row, :n] = X[row, :n][::-1]
    with tf.Graph().as_default(), tf.Session() as session:
        forward, backward = cells.GRUCell(4), cells.GRUCell(3)
        (ahead, back), (_, last) = tf.nn.bidirectional_dynamic_rnn(
            forward, backward, X, lengths, dtype=tf.float64
        )
        again, last_again = tf.nn.dynamic_rnn(backward, turned, lengths, dtype=tf.float64)
        names = [v.op.name for v in tf.global_variables()]
        assert [n for n in names if "gates/kernel" in n] == [
            "bidirectional_rnn/fw/gru_cell/gates/kernel", "bidirectional_rnn/bw/gru_cell/gates/kernel",
        ]  # fmt: skip
        session.run(tf.global_variables_initializer())
        one, two, a, b, f = session.run([back, again, last, last_again, ahead])
        for row in range(BATCH):
            n = TIME if lengths is None else lengths[row]
            np.testing.assert_allclose(one[row, :n], two[row, :n][::-1], atol=1e-12)
            assert not one[row, n:].any()
            assert not f[row, n:].any()
        np.testing.assert_allclose(a, b, atol=1e-12)


class Leaky(cells.RNNCell):  # type: ignore[misc, name-defined]
    """A cell without variables, for gradients."""

    def __init__(self, w: Any) -> None:
        super().__init__()
        self._w = w

    state_size = output_size = property(lambda self: UNITS)

    def call(self, inputs: Any, state: Any) -> Any:
        new = tf.tanh(tf.matmul(inputs, self._w) + 0.5 * state)
        return new * state, new


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["all", "lengths"])
def test_gradients_run_back_through_time(lengths: Any, check_gradient: Callable[..., Any]) -> None:
    def network(x: Any, w: Any, start: Any) -> Any:
        outputs, last = tf.nn.dynamic_rnn(Leaky(w), x, lengths, initial_state=start)
        return [outputs, last]

    check_gradient(network, [X, RNG.normal(size=(DEPTH, UNITS)), RNG.normal(size=(BATCH, UNITS))])


def test_a_cell_of_ones_own_finds_its_variables_again() -> None:
    class Mine(cells.RNNCell):  # type: ignore[misc, name-defined]
        state_size = output_size = property(lambda self: 3)

        def call(self, inputs: Any, state: Any) -> Any:
            new = tf.matmul(inputs, tf.get_variable("w", [DEPTH, 3])) + state
            return new, new

    with tf.Graph().as_default(), tf.Session() as session:
        cell = Mine()
        x = tf.ones([2, 4, DEPTH])
        first, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        second, _ = tf.nn.dynamic_rnn(cell, x, initial_state=state)
        assert [v.op.name for v in tf.global_variables()] == ["rnn/mine/w"]
        assert [v.op.name for v in cell.variables] == ["rnn/mine/w"]
        session.run(tf.global_variables_initializer())
        a, b = session.run([first, second])
        np.testing.assert_allclose(b, a + a[:, -1:], rtol=1e-5)


def test_cells_above_each_other() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        below, above = cells.BasicLSTMCell(4), cells.GRUCell(3)
        stacked = cells.MultiRNNCell([below, above])
        assert stacked.state_size == (cells.LSTMStateTuple(4, 4), 3)
        outputs, state = tf.nn.dynamic_rnn(stacked, X, dtype=tf.float64)
        lower, c_and_h = tf.nn.dynamic_rnn(below, X, dtype=tf.float64)
        upper, h = tf.nn.dynamic_rnn(above, lower, dtype=tf.float64)
        assert {v.op.name.rpartition("/")[0] for v in tf.global_variables()} == {
            "rnn/multi_rnn_cell/cell_0/basic_lstm_cell",
            "rnn/multi_rnn_cell/cell_1/gru_cell/gates",
            "rnn/multi_rnn_cell/cell_1/gru_cell/candidate",
        }
        session.run(tf.global_variables_initializer())
        found, wanted = session.run([[outputs, *state[0], state[1]], [upper, *c_and_h, h]])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def test_states_side_by_side_are_states_in_tuples() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        joined = cells.BasicLSTMCell(4, state_is_tuple=False, name="one", reuse=tf.AUTO_REUSE)
        parted = cells.BasicLSTMCell(4, name="one", reuse=tf.AUTO_REUSE)
        assert joined.state_size == 8
        c, h = RNG.normal(size=(2, BATCH, 4))
        out, state = parted(X[:, 0], cells.LSTMStateTuple(c, h))
        other, flat = joined(X[:, 0], tf.constant(np.concatenate([c, h], 1)))
        session.run(tf.global_variables_initializer())
        found = session.run([out, tf.concat(state, 1), other, flat])
        np.testing.assert_allclose(found[0], found[2])
        np.testing.assert_allclose(found[1], found[3])


def test_dropout_drops_a_share_and_scales_the_rest() -> None:
    ones = np.ones((50, 40))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        cell = cells.DropoutWrapper(
            Leaky(tf.eye(40, dtype=tf.float64)), input_keep_prob=0.5, seed=2
        )
        _, state = cell(tf.constant(ones), tf.zeros([50, 40], tf.float64))
        values = np.arctanh(session.run(state))
        assert set(np.round(values.ravel(), 6)) == {0.0, 2.0}
        assert 0.4 < (values > 0).mean() < 0.6
        assert cell.state_size == cell.output_size == UNITS


def test_variational_dropout_drops_the_same_elements_in_every_step() -> None:
    class Passing(cells.RNNCell):  # type: ignore[misc, name-defined]
        state_size = output_size = property(lambda self: 20)

        def call(self, inputs: Any, state: Any) -> Any:
            return inputs, state

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        cell = cells.DropoutWrapper(
            Passing(), output_keep_prob=0.5, variational_recurrent=True, dtype=tf.float32, seed=3
        )
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.ones([4, 6, 20]), dtype=tf.float32)
        found, again = session.run(outputs), session.run(outputs)
        assert (found == found[:1, :1]).all()
        assert set(found.ravel().tolist()) == {0.0, 2.0}
        assert (found != again).any()


def test_a_residual_cell_adds_its_inputs() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        inner = Leaky(tf.eye(4, dtype=tf.float64))
        x, h = RNG.normal(size=(2, 3, 4))
        plain = inner(tf.constant(x), tf.constant(h))
        summed = cells.ResidualWrapper(inner)(tf.constant(x), tf.constant(h))
        a, b = session.run([plain, summed])
        np.testing.assert_allclose(b[0], a[0] + x)
        np.testing.assert_array_equal(b[1], a[1])


def test_activations_by_name() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        cell = cells.BasicRNNCell(UNITS, activation="relu")
        out, _ = cell(X[:, 0], cell.zero_state(BATCH, tf.float64))
        session.run(tf.global_variables_initializer())
        assert (session.run(out) >= 0).all()
        with pytest.raises(ValueError, match="tanh"):
            cells.BasicRNNCell(UNITS, activation="sine")


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda c, x: tf.nn.dynamic_rnn(c, x), ValueError, "dtype"),
        (lambda c, x: tf.nn.dynamic_rnn("c", x, dtype=tf.float32), TypeError, "RNNCell"),
        (lambda c, x: tf.nn.dynamic_rnn(c, x, [[1, 2, 3]], dtype=tf.float32), ValueError, "vector"),
        (lambda c, x: tf.nn.dynamic_rnn(c, x[0], dtype=tf.float32), ValueError, "rank"),
        (lambda c, x: tf.nn.dynamic_rnn(c, tf.placeholder(tf.float32), dtype=tf.float32), ValueError, "rank"),
        (
            lambda c, x: tf.nn.dynamic_rnn(c, tf.placeholder(tf.float32, [3, 5, None]), dtype=tf.float32),
            ValueError, "depth",
        ),
        (lambda c, x: tf.nn.static_rnn(c, x, dtype=tf.float32), TypeError, "a sequence"),
        (lambda c, x: tf.nn.static_rnn(c, [], dtype=tf.float32), ValueError, "not be empty"),
        (lambda c, x: tf.nn.static_rnn(c, [x[0]]), ValueError, "dtype"),
        (lambda c, x: tf.nn.static_bidirectional_rnn(c, c, x), TypeError, "a sequence"),
        (lambda c, x: tf.nn.bidirectional_dynamic_rnn(c, 3, x), TypeError, "cell_bw"),
        (lambda c, x: c(x, None), ValueError, "batch, depth"),
        (lambda c, x: cells.MultiRNNCell([]), ValueError, "at least one cell"),
        (lambda c, x: cells.MultiRNNCell(c), TypeError, "list"),
        (lambda c, x: cells.MultiRNNCell([c])(x[0], c), ValueError, "tuple of length 1"),
        (lambda c, x: cells.DropoutWrapper(c, output_keep_prob=1.5), ValueError, "output_keep_prob"),
        (lambda c, x: cells.DropoutWrapper(c, variational_recurrent=True), ValueError, "dtype"),
        (lambda c, x: cells.DropoutWrapper(3), TypeError, "not an RNNCell"),
        (lambda c, x: cells.BasicRNNCell(3, units=4), TypeError, "units"),
        (lambda c, x: c.get_initial_state(batch_size=3), ValueError, "dtype"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call: Any, kind: type[Exception], text: str) -> None:
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call(cells.BasicRNNCell(UNITS), tf.ones([BATCH, TIME, DEPTH]))


def test_lengths_must_be_as_many_as_sequences() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        lengths = tf.placeholder(tf.int32, [None])
        cell = Leaky(tf.ones([DEPTH, UNITS]))
        outputs, _ = tf.nn.dynamic_rnn(cell, tf.ones([3, 5, DEPTH]), lengths, dtype=tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="Expected shape"):
            session.run(outputs, {lengths: [1, 2]})
