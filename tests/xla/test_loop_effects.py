"""Loops that are one program and do more than compute: draws, updates of variables, assertions, whole TensorArrays."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.ops._kernels.random_streams import Stream, Streams
from headrace.plan import joined_loops
from headrace.plan.explain import explaining
from headrace.run.exec.fused import compiler
from headrace.run.exec.whole_loops import LoopProgram
from tests.xla.test_fusion import COMPILED_WITHIN_S, warm
from tests.xla.test_whole_loops import CPU, GPU, Make, agree, runs_of


@pytest.fixture(autouse=True)
def graph(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADRACE_XLA", "on")
    monkeypatch.setattr(joined_loops, "FEWEST", 1 << 20)  # each by itself
    with tf.Graph().as_default(), tf.device(CPU):
        yield


def repeated(times: Any, body: Callable[..., Any], *starts: Any) -> Any:
    """The values after so many rounds of body(number, …)."""
    found = tf.while_loop(
        lambda i, *_: i < times,
        lambda i, *values: (i + 1, *tf.nest.flatten(body(i, *values))),
        [tf.constant(0), *starts],
    )
    return found[1:]


# -- draws ------------------------------------------------------------------------------------------------------------


def keeping(draw: Callable[[Any], Any], dtype: Any, times: int = 5) -> Any:
    """What is drawn in each iteration of a loop, as one tensor, and what is made of it."""
    kept = tf.TensorArray(dtype, times)

    def body(i: Any, y: Any, kept: Any) -> Any:
        drawn = draw(y)
        y = tf.exp(-tf.square(y)) * 0.9 + tf.cast(drawn, tf.float32)[0]
        return i + 1, tf.tanh(y) - 0.1, kept.write(i, drawn)

    _, y, kept = tf.while_loop(lambda i, *_: i < times, body, [tf.constant(0), tf.ones([3]), kept])
    return [kept.stack(), y]


DRAWS: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
    "uniform": (lambda y: tf.random_uniform([7], seed=5), tf.float32, 0),
    "wide": (lambda y: tf.random_uniform([2, 3], seed=5, dtype=tf.float64)[0], tf.float64, 0),
    "normal": (lambda y: tf.random_normal([5], seed=5), tf.float32, 4),
    "whole": (lambda y: tf.random_uniform([6], -3, 1000, tf.int32, seed=5), tf.int32, 0),
    "by shape": (lambda y: tf.random_uniform(tf.shape(y), seed=5), tf.float32, 0),
    "classes": (lambda y: tf.multinomial([y, -y], 4, seed=5)[1], tf.int64, 0),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_program_draws_what_the_host_does(kind: str, device: str, ran: list[bool]) -> None:
    draw, dtype, ulp = DRAWS[kind]

    def make() -> Any:
        return keeping(draw, dtype), {}

    there = runs_of(make, device, "on")
    assert ran[-1]
    here = runs_of(make, CPU, "off")
    assert len({each[0].tobytes() for each in here}) == len(here)
    for (one, made), (other, wanted) in zip(there, here, strict=True):
        np.testing.assert_allclose(made, wanted, 1e-5)
        if ulp:
            np.testing.assert_array_max_ulp(one, other, ulp)
        else:
            np.testing.assert_array_equal(one, other)


def test_draws_go_along_in_branches_and_loops_inside(ran: list[bool]) -> None:
    def make() -> Any:
        def inner(_: Any, y: Any) -> Any:
            return y + tf.random_uniform([3], seed=1)

        def body(i: Any, y: Any) -> Any:
            y = tf.cond(
                tf.random_uniform([], seed=2) < 0.5,
                lambda: y + tf.random_uniform([3], seed=3),
                lambda: y * 0.5,
            )
            return repeated(i, inner, y)[0]

        return repeated(5, body, tf.zeros([3])), {}

    agree(make, CPU, ran, 1)


def test_a_condition_that_draws_has_drawn_once_more(ran: list[bool]) -> None:
    def make() -> Any:
        def goes_on(i: Any, y: Any) -> Any:
            return tf.logical_and(tf.random_uniform([], seed=4) < 0.8, i < 50)

        return tf.while_loop(
            goes_on, lambda i, y: (i + 1, tf.tanh(y) + 1.0), [tf.constant(0), tf.zeros([3])]
        ), {}

    agree(make, CPU, ran, 1)


def dropping(v2: bool) -> Make:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [None, 6, 3])
        with tf.variable_scope("network", initializer=tf.constant_initializer(0.3)):
            cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(4), 0.7, 0.8, 0.9, seed=3)
            outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
        loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_sum(state)
        trained = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
        return [loss, trained], {x: np.linspace(-1, 1, 72).reshape(4, 6, 3)}

    return make


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_recurrent_network_with_dropout_trains_in_two_programs(
    device: str, ran: list[bool]
) -> None:
    agree(dropping(False), device, ran, 2)


def test_who_runs_node_by_node_draws_on_from_there(ran: list[bool]) -> None:
    times, counts = tf.placeholder(tf.int32, []), [3] * 22 + [40, 3, 2, 40]
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True)

    def body(i: Any, array: Any) -> Any:
        return i + 1, array.write(i, tf.random_uniform([2], seed=6) * 2.0)

    _, array = tf.while_loop(lambda i, _: i < times, body, [tf.constant(0), array])
    drawn = array.stack()
    found: dict[str, list[Any]] = {}
    for how in ("on", "off"):
        with pytest.MonkeyPatch.context() as patch, tf.Session() as session:
            patch.setenv("HEADRACE_XLA", how)
            warm(session, drawn, {times: 3})
            found[how] = []
            for count in counts:
                found[how].append(session.run(drawn, {times: count}))
                assert compiler.wait(COMPILED_WITHIN_S)
    assert ran[-4:] == [False, False, True, True]  # the first has shown how many there may be
    for one, other in zip(found["on"], found["off"], strict=True):
        np.testing.assert_array_equal(one, other)


def test_streams_go_on_together_or_not_at_all() -> None:
    one, other, free = Stream(1, 2), Stream(3, 4), Stream(0, 0)
    streams = Streams([lambda: one, lambda: other, lambda: free])
    before = streams.now()
    after = [each + np.array([0, 0, 512], np.uint64) for each in before]
    assert streams.advance(before, after)
    assert [one.reserve(0), other.reserve(0)] == [512, 512]
    assert not np.array_equal(streams.now()[2], before[2])  # of numbers that are not fixed
    before = streams.now()
    other.reserve(1)
    after = [each + np.array([0, 0, 256], np.uint64) for each in before]
    assert not streams.advance(before, after)
    assert [one.reserve(0), other.reserve(0)] == [512, 513]


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Have that done while the next program runs."""
    original, left = LoopProgram._form_for, [do]

    def interfering(program: LoopProgram, *given: Any) -> Any:
        form = original(program, *given)

        def run(*arrays: Any) -> Any:
            if left:
                left.pop()()
            return form(*arrays)  # type: ignore[misc]

        return None if form is None else run

    monkeypatch.setattr(LoopProgram, "_form_for", interfering)


def test_what_another_step_has_drawn_meanwhile_is_not_drawn_again(
    monkeypatch: pytest.MonkeyPatch, ran: list[bool]
) -> None:
    drawn = keeping(lambda y: tf.random_uniform([4], seed=7), tf.float32, 3)
    with tf.Session() as session:
        warm(session, drawn)
        assert ran[-1]
        found = list[Any]()
        meanwhile(monkeypatch, lambda: found.append(session.run(drawn)))
        found.append(session.run(drawn))
        assert ran[-2:] == [True, False]
        found.append(session.run(drawn))
    monkeypatch.setenv("HEADRACE_XLA", "off")
    with tf.Session() as session:
        wanted = [session.run(drawn) for _ in range(19 + 3)][-3:]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one[0], other[0])


# -- variables --------------------------------------------------------------------------------------------------------


def updating(resource: bool) -> Make:
    def make() -> Any:
        with tf.variable_scope("v", use_resource=resource):
            total = tf.get_variable("total", initializer=np.zeros(3, np.float32))
            count = tf.get_variable("count", initializer=np.int64(0))
            table = tf.get_variable("table", initializer=np.ones((4, 3), np.float32))

        def body(i: Any, y: Any) -> Any:
            added = tf.assign_add(total, tf.tanh(y))
            with tf.control_dependencies([added]):
                counted = tf.assign_add(count, 2)
                put = tf.scatter_add(table, [i % 4], [tf.identity(total) * 0.1])
            with tf.control_dependencies([put, counted]):
                seen = table.read_value() if resource else tf.identity(table)
                return tf.tanh(y) + tf.reduce_sum(seen, 0)

        (y,) = repeated(6, body, tf.ones([3]))
        with tf.control_dependencies([y]):
            return [y, *[tf.identity(each.read_value()) for each in (total, count, table)]], {}

    return make


@pytest.mark.parametrize("resource", [False, True], ids=["references", "resources"])
def test_what_updates_variables_is_a_program(resource: bool, ran: list[bool]) -> None:
    agree(updating(resource), CPU, ran, 1)


def test_an_update_of_another_step_meanwhile_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, ran: list[bool]
) -> None:
    total = tf.get_variable("total", initializer=0.0, use_resource=True)

    def body(_: Any, y: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(total, 1.0)]):
            return tf.tanh(y) + tf.exp(-y)

    looped, more = repeated(5, body, tf.ones([3])), tf.assign_add(total, 100.0)
    with tf.Session() as session:
        session.run(total.initializer)
        warm(session, looped)
        assert ran[-1]
        before = session.run(total)
        meanwhile(monkeypatch, lambda: session.run(more.op))
        session.run(looped)
        assert ran[-1] is False
        assert session.run(total) == before + 105.0
        session.run(looped)
        assert ran[-1]
        assert session.run(total) == before + 110.0


def test_what_an_update_does_not_fit_names_its_node(ran: list[bool]) -> None:
    table = tf.get_variable("table", initializer=np.ones((4, 3), np.float32), use_resource=True)
    row = tf.placeholder(tf.int32, [])

    def body(_: Any, y: Any) -> Any:
        with tf.control_dependencies([tf.scatter_add(table, [row], [tf.tanh(y)])]):
            return tf.tanh(y) + tf.exp(-y)

    looped = repeated(3, body, tf.ones([3]))
    with tf.Session() as session:
        session.run(table.initializer)
        warm(session, looped, {row: 3})
        assert ran[-1]
        before = session.run(table)
        with pytest.raises(errors.InvalidArgumentError, match="4") as info:
            session.run(looped, {row: 4})
        assert info.value.op.type == "ResourceScatterAdd"  # type: ignore[attr-defined]
        np.testing.assert_array_equal(session.run(table), before)


def test_a_variable_without_a_value_is_named_by_who_reads_it(ran: list[bool]) -> None:
    added = tf.get_variable("added", initializer=np.ones(3, np.float32), use_resource=True)
    looped = repeated(3, lambda _, y: tf.tanh(y) + tf.exp(-y) + added.read_value(), tf.ones([3]))
    with tf.Session() as session:
        session.run(added.initializer)
        warm(session, looped)
        assert ran[-1]
        session.run(tf.raw_ops.DestroyResourceOp(resource=added.handle))
        with pytest.raises(errors.FailedPreconditionError, match="added") as info:
            session.run(looped)
        assert info.value.op.type == "ReadVariableOp"  # type: ignore[attr-defined]
        session.run(added.initializer)
        session.run(looped)
        assert ran[-1]


def test_steps_of_several_threads_lose_and_repeat_nothing(
    monkeypatch: pytest.MonkeyPatch, ran: list[bool]
) -> None:
    threads, steps = 3, 30
    count = tf.get_variable("count", initializer=0, use_resource=True)

    def draw(y: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(count, 1)]):
            return tf.random_uniform([4], seed=7) + 0.0 * y[0]

    drawn = keeping(draw, tf.float32, 3)

    def all_drawn(threads: int, steps: int) -> Any:
        found = list[Any]()
        with tf.Session() as session:
            session.run(count.initializer)
            warm(session, drawn)

            def run() -> None:
                for _ in range(steps):
                    found.append(session.run(drawn)[0])

            pool = [threading.Thread(target=run) for _ in range(threads)]
            for thread in pool:
                thread.start()
            for thread in pool:
                thread.join()
            assert session.run(count) == 3 * (19 + threads * steps)
        return np.sort(np.concatenate(found), None)

    together = all_drawn(threads, steps)
    assert True in ran
    monkeypatch.setenv("HEADRACE_XLA", "off")
    np.testing.assert_array_equal(together, all_drawn(1, threads * steps))


# -- assertions -------------------------------------------------------------------------------------------------------


def test_an_assertion_that_fails_says_so(ran: list[bool]) -> None:
    limit = tf.placeholder(tf.int32, [])

    def body(i: Any, y: Any) -> Any:
        checked = tf.Assert(i < limit, ["too many rounds:", i, y], name="checked")
        with tf.control_dependencies([checked, tf.assert_less(i, limit + 1)]):
            return tf.tanh(y) + tf.exp(-y)

    looped = repeated(4, body, tf.ones([3]))
    with tf.Session() as session:
        warm(session, looped, {limit: 4})
        assert ran[-1]
        with pytest.raises(errors.InvalidArgumentError, match=r"too many rounds:.*3") as info:
            session.run(looped, {limit: 3})
        assert info.value.op.type == "Assert"  # type: ignore[attr-defined]
        session.run(looped, {limit: 5})
        assert ran[-1]


# -- TensorArrays as a whole ------------------------------------------------------------------------------------------


def test_elements_are_gathered_and_scattered_inside(ran: list[bool]) -> None:
    def make() -> Any:
        x = tf.placeholder(tf.float32, [4, 3])
        source = tf.TensorArray(tf.float32, 4, clear_after_read=False).unstack(x)
        out = tf.TensorArray(tf.float32, 8, clear_after_read=False)

        def body(i: Any, y: Any, out: Any) -> Any:
            order = tf.cond(i > 1, lambda: tf.constant([3, 0]), lambda: tf.constant([1, 1]))
            rows = source.gather(order)
            out = out.scatter([2 * i, 2 * i + 1], rows * y)
            return i + 1, tf.tanh(y + tf.reduce_sum(source.gather([0, 1, 2, 3]), 0)), out

        _, y, out = tf.while_loop(lambda i, *_: i < 4, body, [tf.constant(0), tf.ones([3]), out])
        stacked = out.stack()
        slope = tf.gradients([stacked, y], x)[0]
        return [y, stacked, slope], {x: np.linspace(-1, 1, 12).reshape(4, 3)}

    agree(make, CPU, ran, 2)


@pytest.mark.parametrize(("where", "says"), [([0, 0], "already been written to"), ([0, 9], "9")])
def test_what_is_scattered_out_of_turn_is_refused(
    where: list[int], says: str, ran: list[bool]
) -> None:
    at = tf.placeholder(tf.int32, [2])
    out = tf.TensorArray(tf.float32, 4)

    def body(i: Any, out: Any) -> Any:
        return i + 1, out.scatter(at + 2 * i, tf.tanh(tf.ones([2, 3])))

    _, out = tf.while_loop(lambda i, _: i < 2, body, [tf.constant(0), out])
    found = out.stack()
    with tf.Session() as session:
        warm(session, found, {at: [1, 0]})
        assert ran[-1]
        with pytest.raises(errors.InvalidArgumentError, match=says) as info:
            session.run(found, {at: where})
        assert info.value.op.type == "TensorArrayScatterV3"  # type: ignore[attr-defined]


# -- why not ----------------------------------------------------------------------------------------------------------


def test_what_is_no_program_says_why() -> None:
    x = tf.placeholder(tf.float32, [3])

    def inside(_: Any, y: Any) -> Any:
        array = tf.TensorArray(tf.float32, 3).unstack(y)
        return tf.tanh(y) + array.read(0)

    bodies: dict[str, Callable[..., Any]] = {
        "RandomShuffle .* draws what only the host can": lambda _, y: tf.random_shuffle(y) * 2.0,
        "TensorArray.* is made in the loop": inside,
    }
    fetched = [repeated(3, body, x) for body in bodies.values()]
    said: list[str] = []
    with tf.Session() as session, explaining(said.append):
        warm(session, fetched, {x: [1.0, 2.0, 3.0]})
    for why in bodies:
        assert re.search(f"no program: {why}", "".join(said))
