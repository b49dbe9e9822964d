"""Loops that are one program: they give what their nodes give one by one, and keep what those keep."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.plan import joined_loops
from headrace.plan.explain import explaining
from headrace.run.devices.table import of_name
from headrace.run.exec.fused import compiler
from headrace.run.exec.tuning import AFTER
from headrace.run.exec.whole_loops import LoopProgram
from tests.xla.test_fusion import COMPILED_WITHIN_S, warm

GPU, CPU = "/device:GPU:0", "/device:CPU:0"
SOFT = tf.ConfigProto(allow_soft_placement=True)
RUNS = AFTER + 4

Make = Callable[[], tuple[Any, dict[Any, Any]]]
"""(what is fetched, what is fed), of nodes in the default graph."""


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    monkeypatch.setattr(joined_loops, "FEWEST", 1 << 20)  # each by itself
    with tf.Graph().as_default():
        yield


def runs_of(make: Make, device: str, how: str) -> list[Any]:
    """What each of some steps gives."""
    with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default():
        patch.setenv("HEADRACE_XLA", how)
        with tf.device(device):
            fetched, fed = make()
        with tf.Session(config=SOFT) as session:
            session.run(tf.global_variables_initializer())
            values = []
            for _ in range(RUNS + 3):
                values.append(session.run(fetched, fed))
                assert compiler.wait(COMPILED_WITHIN_S)
            return values


def agree(make: Make, device: str, ran: list[bool], programs: int) -> None:
    """A step gives what it gives on the host node by node, and has so many programs in the end."""
    there = runs_of(make, device, "on")
    assert ran[-programs:] == [True] * programs
    assert len(ran) % programs == 0
    here = runs_of(make, CPU, "off")
    for one, other in zip(tf.nest.flatten(there), tf.nest.flatten(here), strict=True):
        if one is not None:
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)
            assert type(one) is type(other)


def with_all_inside() -> tuple[Any, dict[Any, Any]]:
    """Branches in branches, loops in loops, and shapes that depend on what is fed."""
    x = tf.placeholder(tf.float32, [None, 3])
    sizes = tf.placeholder(tf.int32, [2])

    def reshaped(y: Any) -> Any:
        found = tf.reshape(tf.reshape(y, [-1]), sizes)
        found.set_shape([None, 3])
        return found

    def body(i: Any, y: Any) -> Any:
        z = tf.cond(
            tf.equal(i % 2, 0),
            lambda: y * 2.0,
            lambda: tf.cond(i > 3, lambda: y - 1.0, lambda: reshaped(y)),
        )
        inner = tf.while_loop(
            lambda j, _: j < i, lambda j, w: (j + 1, tf.tanh(w) + 0.1 * z), [tf.constant(0), z]
        )
        return i + 1, inner[1] + tf.cast(tf.shape(y)[0], tf.float32)

    found = tf.while_loop(lambda i, _: i < 6, body, [tf.constant(0), x])
    return found, {x: np.linspace(-1, 1, 6).reshape(2, 3), sizes: [2, 3]}


def recurrent(cell: Any, lengths: bool, v2: bool) -> Make:
    def make() -> tuple[Any, dict[Any, Any]]:
        if v2:
            tf.enable_control_flow_v2()
        x = tf.placeholder(tf.float32, [None, 6, 3])
        fed: dict[Any, Any] = {x: np.linspace(-1, 1, 72).reshape(4, 6, 3)}
        ends = None
        if lengths:
            ends = tf.placeholder(tf.int32, [None])
            fed[ends] = [1, 3, 5, 6]
        start = tf.constant_initializer(0.3)
        with tf.variable_scope("network", initializer=start):
            outputs, state = tf.nn.dynamic_rnn(cell(4), x, ends, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_sum(state)
        return [loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)], fed

    return make


@pytest.fixture
def flow() -> Iterator[None]:
    yield
    tf.disable_control_flow_v2()


@pytest.mark.parametrize("device", [CPU, GPU])
def test_what_is_inside_goes_along(device: str, ran: list[bool]) -> None:
    agree(with_all_inside, device, ran, 1)


@pytest.mark.usefixtures("flow")
@pytest.mark.parametrize(
    ("device", "cell", "lengths", "v2"),
    [
        (CPU, tf.nn.rnn_cell.BasicRNNCell, False, True),
        (CPU, tf.nn.rnn_cell.GRUCell, True, False),
        (GPU, tf.nn.rnn_cell.BasicRNNCell, True, True),
    ],
)
def test_a_recurrent_network_trains_in_two_programs(
    device: str, cell: Any, lengths: bool, v2: bool, ran: list[bool]
) -> None:
    agree(recurrent(cell, lengths, v2), device, ran, 2)


def test_a_longer_loop_has_another_program(ran: list[bool]) -> None:
    x, times = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.int32, [])
    y = tf.while_loop(
        lambda i, _: i < times, lambda i, y: (i + 1, tf.tanh(y) * 1.01), [tf.constant(0), x]
    )[1]
    fetched = [y, tf.gradients(y, x)[0]]
    with tf.Session() as session:
        warm(session, fetched, {x: [0.5, 1.0, 1.5], times: 3})
        assert ran[-2:] == [True, True]
        for count, goes in ((4, True), (20, False), (20, False), (20, True), (2, True)):
            given = {x: [0.5, 1.0, 1.5], times: count}
            found = session.run(fetched, given)
            assert compiler.wait(COMPILED_WITHIN_S)
            assert all(ran[-2:]) == goes
            value, slope = np.array([0.5, 1.0, 1.5]), np.ones(3)
            for _ in range(count):
                slope = slope * 1.01 * (1 - np.tanh(value) ** 2)
                value = np.tanh(value) * 1.01
            np.testing.assert_allclose(found, [value, slope], 1e-4)


def test_arrays_grow_and_are_read_again(ran: list[bool]) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, [4, 3])
        array = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
        grows = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False)

        def body(i: Any, total: Any, out: Any) -> Any:
            value = array.read(i) * array.read(3 - i)
            return i + 1, total + value, out.write(i, value[:2]).write(i + 4, value[1:])

        _, total, out = tf.while_loop(
            lambda i, *_: i < 4, body, [tf.constant(0), tf.zeros([3]), grows]
        )
        return [total, out.stack(), out.size()], {x: np.arange(12.0).reshape(4, 3)}

    agree(make, CPU, ran, 1)


def test_what_fails_names_its_node(ran: list[bool]) -> None:
    again = tf.placeholder(tf.int32, [])
    array = tf.TensorArray(tf.float32, 4, clear_after_read=False, name="once")

    def body(i: Any, y: Any, out: Any) -> Any:
        y = tf.tanh(y) + tf.exp(y) * 0.1
        return i + 1, y, out.write(tf.minimum(i, again), y, name="write")

    _, _, out = tf.while_loop(lambda i, *_: i < 4, body, [tf.constant(0), tf.ones([2]), array])
    found = out.stack()
    with tf.Session() as session:
        warm(session, found, {again: 9})
        assert ran[-1]
        with pytest.raises(errors.InvalidArgumentError, match="already been written to") as info:
            session.run(found, {again: 2})
        assert info.value.op.type == "TensorArrayWriteV3"  # type: ignore[attr-defined]
        session.run(found, {again: 9})
        assert ran[-1]


@pytest.fixture
def endless(ran: list[bool]) -> Iterator[tuple[tf.Session, Any, Any]]:
    """A loop that is a program, and goes on for as long as it is told."""
    times = tf.placeholder(tf.int64, [])
    count = tf.constant(0, tf.int64)
    found = tf.while_loop(
        lambda i, _: i < times,
        lambda i, y: (i + 1, tf.tanh(y) + tf.exp(-y)),
        [count, tf.constant([0.5])],
    )
    with tf.Session() as session:
        warm(session, found, {times: 5})
        assert ran[-1]
        yield session, found, times


def test_a_deadline_ends_a_program(endless: tuple[tf.Session, Any, Any]) -> None:
    session, found, times = endless
    with pytest.raises(errors.DeadlineExceededError):
        session.run(found, {times: 1 << 50}, options=tf.RunOptions(timeout_in_ms=200))
    assert session.run(found, {times: 7})[0] == 7


def test_ctrl_c_ends_a_program(
    endless: tuple[tf.Session, Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    session, found, times = endless
    original, calls = LoopProgram._form_for, []

    def pressing(program: LoopProgram, *given: Any) -> Any:
        form = original(program, *given)

        def run(*arrays: Any) -> Any:
            calls.append(1)
            if len(calls) == 3:
                signal.raise_signal(signal.SIGINT)
            return form(*arrays)  # type: ignore[misc]

        return run

    monkeypatch.setattr(LoopProgram, "_form_for", pressing)
    with pytest.raises(KeyboardInterrupt):
        session.run(found, {times: 1 << 50})
    assert session.run(found, {times: 7})[0] == 7


def test_what_cannot_be_a_program_is_none(ran: list[bool]) -> None:
    x = tf.placeholder(tf.float32, [3])
    drawn = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, y: (i + 1, tf.tanh(y) + 0.0 * tf.truncated_normal([3])),
        [tf.constant(0), x],
    )
    sized = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, y: (i + 1, tf.tanh(y) + tf.reduce_sum(tf.fill([i], 1.0))),
        [tf.constant(0), x],
    )
    plain = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y)), [0, x])
    said: list[str] = []
    fetched = [drawn[1], sized[1], plain[1]]
    with tf.Session() as session, explaining(said.append):
        before = session.run(fetched, {x: [1.0, 2.0, 3.0]})
        warm(session, fetched, {x: [1.0, 2.0, 3.0]})
        np.testing.assert_allclose(session.run(fetched, {x: [1.0, 2.0, 3.0]}), before, 1e-5)
    assert ran[-1]
    loops = "".join(said).partition("\nloops:")[2].partition("\nfuse:")[0]
    assert loops.count("while v") == 3
    assert loops.count("one program") == 1
    assert re.search("no program: TruncatedNormal .* has no kernel", loops)
    assert "no program: a size or an axis is made of what while_1/Merge:0 holds" in loops


def test_lists_stay_on_the_device(monkeypatch: pytest.MonkeyPatch, flow: None) -> None:
    monkeypatch.setenv("HEADRACE_XLA", "off")
    gpu, moved = of_name(GPU), []
    for time in (3, 9):
        with tf.Graph().as_default(), tf.Session(config=SOFT) as session:
            tf.enable_control_flow_v2()
            x = tf.placeholder(tf.float32, [time, 3])
            with tf.device(GPU):
                array = tf.TensorArray(tf.float32, time).unstack(x)
                out = tf.TensorArray(tf.float32, time)

                def body(i: Any, y: Any, out: Any, array: Any = array) -> Any:
                    y = tf.tanh(y * array.read(i))
                    return i + 1, y, out.write(i, y)

                def goes_on(i: Any, *_: Any, time: int = time) -> Any:
                    return i < time

                _, y, out = tf.while_loop(goes_on, body, [tf.constant(0), tf.ones([3]), out])
                fetched = [y, tf.gradients(y, x)[0], out.stack(), out.concat()]
            for _ in range(2):
                before = gpu.transfers["put"], gpu.transfers["got"]
                session.run(fetched, {x: np.ones([time, 3])})
            moved.append((gpu.transfers["put"] - before[0], gpu.transfers["got"] - before[1]))
    assert moved[0] == moved[1]


def test_sequences_of_any_length_share_programs(
    ran: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = tf.constant_initializer(0.3)
    with tf.device(CPU), tf.variable_scope("network", initializer=start):
        x = tf.placeholder(tf.float32, [None, None, 3])
        outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(4), x, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_sum(state)
        fetched = [loss, outputs, tf.gradients(loss, x)[0]]
    lengths = [4, 5, 12, 6, 7, 9, 10, 11, 3, 8, 13, 2]
    rows = np.linspace(-1, 1, 78).reshape(2, 13, 3)

    def found(session: tf.Session) -> list[Any]:
        session.run(tf.global_variables_initializer())
        warm(session, fetched, {x: rows[:, :4]})
        given = []
        for _ in range(3):
            del given[:], ran[:]
            for length in lengths:
                given += session.run(fetched, {x: rows[:, :length]})
                assert compiler.wait(COMPILED_WITHIN_S)
        return given

    with tf.Session() as session:
        compiled = found(session)
    assert ran == [True] * (2 * len(lengths))
    monkeypatch.setenv("HEADRACE_XLA", "off")
    with tf.Session() as session:
        for one, other in zip(compiled, found(session), strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def test_an_array_with_room_to_spare_is_as_long_as_it_was_made(ran: list[bool]) -> None:
    size, at = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
    with tf.device(CPU):
        array = tf.TensorArray(tf.float32, size)

    def body(i: Any, array: Any) -> Any:
        return i + 1, array.write(i + at, tf.tanh(tf.ones([3])) * tf.cast(array.size(), tf.float32))

    with tf.device(CPU):
        _, array = tf.while_loop(lambda i, _: i < size, body, [tf.constant(0), array])
        found = array.stack()
    with tf.Session() as session:
        for length in (3, 4, 5, 6, 5, 7):
            warm(session, found, {size: length, at: 0})
            wanted = np.full((length, 3), np.tanh(1) * length)
            np.testing.assert_allclose(session.run(found, {size: length, at: 0}), wanted, 1e-5)
        assert ran[-1]
        with pytest.raises(errors.InvalidArgumentError, match=r"index 7 .* size is: 7"):
            session.run(found, {size: 7, at: 1})
