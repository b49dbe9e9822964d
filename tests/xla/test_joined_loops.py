"""Loops that are one program together, with what is computed between them: they give what their nodes give alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.plan.explain import explaining
from headrace.run.exec import joined_loops
from headrace.run.exec.fused import compiler
from headrace.run.exec.joined_loops import JoinedProgram
from headrace.run.exec.tuning import AFTER
from headrace.run.exec.whole_loops import LoopProgram
from tests.xla.test_fusion import COMPILED_WITHIN_S, warm

RUNS = AFTER + 6
CPU = "/device:CPU:0"
FED = np.linspace(-1, 1, 72).reshape(4, 6, 3).astype(np.float32)


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    with tf.Graph().as_default(), tf.device(CPU):
        yield


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Which programs were to run, "joined" or "alone", and whether they did."""
    original, found = LoopProgram.run, []

    def noting(program: LoopProgram, *given: Any) -> Any:
        values = original(program, *given)
        kind = "joined" if isinstance(program, JoinedProgram) else "alone"
        found.append((kind, values is not None))
        return values

    monkeypatch.setattr(LoopProgram, "run", noting)
    return found


def steps(how: str, make: Any, seed: int = 5) -> list[Any]:
    """What each of some steps gives."""
    with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default(), tf.device(CPU):
        patch.setenv("HEADRACE_XLA", how)
        tf.set_random_seed(seed)
        fetched, fed = make()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = []
            for _ in range(RUNS):
                found.append(session.run(fetched, fed))
                assert compiler.wait(COMPILED_WITHIN_S)
            return found


def agree(make: Any, ran: list[tuple[str, bool]]) -> None:
    """Steps in which the loops are joined give what they give node by node."""
    found = steps("on", make)
    assert ran[-3:] == [("joined", True)] * 3
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(steps("off", make)), strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)
            assert type(one) is type(other)


def trained(outputs: Any, state: Any) -> Any:
    """A loss of what a network gives by way of one more layer, and a step of training."""
    logits = tf.layers.dense(outputs, 2, tf.nn.relu)
    loss = tf.reduce_mean(tf.square(logits)) + sum(map(tf.reduce_sum, tf.nest.flatten(state)))
    return [loss, tf.train.AdamOptimizer(0.01).minimize(loss)]


def lstm() -> Any:
    x = tf.placeholder(tf.float32, [4, 6, 3])
    cell = tf.nn.rnn_cell.LSTMCell(5)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    return trained(outputs, state), {x: FED}


def gru_of_lengths() -> Any:
    x, ends = tf.placeholder(tf.float32, [None, 6, 3]), tf.placeholder(tf.int32, [None])
    cell = tf.nn.rnn_cell.GRUCell(5)
    outputs, state = tf.nn.dynamic_rnn(cell, x, ends, dtype=tf.float32)
    return trained(outputs, state), {x: FED, ends: [1, 3, 5, 6]}


def with_dropout() -> Any:
    """In the cell and behind it."""
    x = tf.placeholder(tf.float32, [4, 6, 3])
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.BasicRNNCell(5), 0.7, seed=2)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    return trained(tf.nn.dropout(outputs, 0.8, seed=3), state), {x: FED}


def two_layers() -> Any:
    hidden = x = tf.placeholder(tf.float32, [4, 6, 3])
    for number in range(2):
        with tf.variable_scope(f"layer{number}"):
            cell = tf.nn.rnn_cell.GRUCell(5)
            hidden, state = tf.nn.dynamic_rnn(cell, hidden, dtype=tf.float32)
    return trained(hidden, state), {x: FED}


def both_ways() -> Any:
    x = tf.placeholder(tf.float32, [4, 6, 3])
    cells = [tf.nn.rnn_cell.GRUCell(4) for _ in range(2)]
    outputs, state = tf.nn.bidirectional_dynamic_rnn(*cells, x, dtype=tf.float32)
    return trained(tf.concat(outputs, -1), state), {x: FED}


def scanned() -> Any:
    """Gradients of gradients, too."""
    x = tf.placeholder(tf.float32, [6, 3])
    y = tf.reduce_sum(tf.scan(lambda a, b: tf.tanh(a * 0.5 + b), x))
    slope = tf.gradients(y, x)[0]
    return [y, slope, tf.map_fn(lambda row: tf.tanh(row) * 2.0, slope)], {x: FED[0]}


@pytest.mark.parametrize(
    "make", [lstm, gru_of_lengths, with_dropout, two_layers, both_ways, scanned]
)
def test_loops_and_what_is_between_are_one_program(make: Any, ran: list[tuple[str, bool]]) -> None:
    agree(make, ran)


def test_what_others_look_at_later_is_given_back(ran: list[tuple[str, bool]]) -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [3])
        array = tf.TensorArray(tf.float32, 5, clear_after_read=False, element_shape=[3])
        _, y, array = tf.while_loop(
            lambda i, *_: i < 4,
            lambda i, y, kept: (i + 1, tf.tanh(y) * 1.5, kept.write(i, y)),
            [tf.constant(0), x, array],
        )
        z = y * 2.0 + 1.0
        z = tf.while_loop(
            lambda i, _: i < 4,
            lambda i, z: (i + 1, tf.tanh(z) + array.read(i)),
            [tf.constant(0), z],
        )[1]
        with tf.control_dependencies([z]):
            later = array.gather([2, 1])
        return [y, z, later, array.read(4), array.size()], {x: [0.5, 1.0, 1.5]}

    agree(make, ran)


def test_variables_that_are_updated_between_have_changed(ran: list[tuple[str, bool]]) -> None:
    def make() -> Any:
        x, total = tf.placeholder(tf.float32, [3]), tf.get_variable("total", initializer=[0.0] * 3)
        y = tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, tf.tanh(y)), [0, x])[1]
        updated = tf.assign_add(total, y * 2.0)
        z = tf.while_loop(lambda i, _: i < 4, lambda i, y: (i + 1, tf.sin(y)), [0, updated + 0.0])
        return [z[1], total.read_value()], {x: [0.5, 1.0, 1.5]}

    agree(make, ran)


def slopes() -> tuple[list[Any], Any, Any]:
    """A loop of so many iterations, and its gradient."""
    x, times = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.int32, [])
    y = tf.while_loop(
        lambda i, _: i < times, lambda i, y: (i + 1, tf.tanh(y) * 1.01), [tf.constant(0), x]
    )[1]
    return [y, tf.gradients(y * y, x)[0]], x, times


def check_slopes(found: Any, count: int) -> None:
    value, slope = np.array([0.5, 1.0, 1.5]), np.ones(3)
    for _ in range(count):
        slope = slope * 1.01 * (1 - np.tanh(value) ** 2)
        value = np.tanh(value) * 1.01
    np.testing.assert_allclose(found, [value, 2 * value * slope], 1e-3)


def test_longer_loops_have_another_program(ran: list[tuple[str, bool]]) -> None:
    fetched, x, times = slopes()
    with tf.Session() as session:
        warm(session, fetched, {x: [0.5, 1.0, 1.5], times: 3})
        assert ran[-1] == ("joined", True)
        for count in (2, 3, 20, 20, 20, 20, 3, 30, 33, 33, 33, 5):
            found = session.run(fetched, {x: [0.5, 1.0, 1.5], times: count})
            assert compiler.wait(COMPILED_WITHIN_S)
            check_slopes(found, count)
        assert ran[-1] == ("joined", True)


def test_very_long_loops_are_alone(ran: list[tuple[str, bool]]) -> None:
    """A program of several loops cannot be interrupted, so it is to be short."""
    fetched, x, times = slopes()
    with tf.Session() as session, pytest.MonkeyPatch.context() as patch:
        fed = {x: [0.5, 1.0, 1.5], times: 7}
        warm(session, fetched, fed)
        assert ran[-1] == ("joined", True)
        patch.setattr(joined_loops, "LONG_S", -1.0)
        for _ in range(8):
            found = session.run(fetched, fed)
            assert compiler.wait(COMPILED_WITHIN_S)
            check_slopes(found, 7)
        assert ran[-2:] == [("alone", True)] * 2
        fed[times] = (1 << 31) - 1
        late = tf.RunOptions(timeout_in_ms=200)
        with pytest.raises(errors.DeadlineExceededError):
            session.run(fetched[0], fed, options=late)


def test_more_iterations_are_made_of_loops_that_need_them(ran: list[tuple[str, bool]]) -> None:
    fetched, x, times = slopes()
    with tf.Session() as session:
        fed = {x: [0.5, 1.0, 1.5], times: 600}
        warm(session, fetched, fed)
        for _ in range(3):
            check_slopes(session.run(fetched, fed), 600)
            assert compiler.wait(COMPILED_WITHIN_S)
        assert ran[-1] == ("joined", True)


def test_what_fails_names_its_node(ran: list[tuple[str, bool]]) -> None:
    again = tf.placeholder(tf.int32, [])
    array = tf.TensorArray(tf.float32, 4, clear_after_read=False, name="once")

    def body(i: Any, y: Any, out: Any) -> Any:
        y = tf.tanh(y) + tf.exp(y) * 0.1
        return i + 1, y, out.write(tf.minimum(i, again), y, name="write")

    _, y, out = tf.while_loop(lambda i, *_: i < 4, body, [tf.constant(0), tf.ones([2]), array])
    z = tf.while_loop(lambda i, _: i < 4, lambda i, z: (i + 1, tf.sin(z)), [0, y + 1.0])[1]
    fetched = [out.stack(), z]
    with tf.Session() as session:
        warm(session, fetched, {again: 9})
        assert ran[-1] == ("joined", True)
        with pytest.raises(errors.InvalidArgumentError, match="already been written to") as info:
            session.run(fetched, {again: 2})
        assert info.value.op.type == "TensorArrayWriteV3"  # type: ignore[attr-defined]
        session.run(fetched, {again: 9})
        assert ran[-1] == ("joined", True)


def test_lists_of_tensors_keep_loops_apart(ran: list[tuple[str, bool]]) -> None:
    tf.enable_control_flow_v2()
    try:
        found = steps("on", lstm)
    finally:
        tf.disable_control_flow_v2()
    assert ran[-2:] == [("alone", True)] * 2
    assert found[-1][0] < found[0][0]


def test_it_is_said_what_is_joined() -> None:
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        fetched, x, times = slopes()
        warm(session, fetched, {x: [0.5, 1.0, 1.5], times: 3})
    joined = "".join(said).partition("\njoin:")[2].partition("\nfuse:")[0]
    assert joined.count("joined: ") == 1
    assert joined.count("while v") == 2
