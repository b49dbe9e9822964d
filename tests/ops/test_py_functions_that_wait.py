"""Functions of one step that wait for each other, and for what other steps do."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import in_process
from tests.support.limits import deadline_that_says

LIMIT_S = 60.0


@pytest.fixture(params=["local", "server"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "local":
        yield ""
    else:
        with in_process({"worker": 1}) as cluster:
            yield cluster.target("worker:0")


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def meeting(count: int) -> Any:
    """A function that returns when `count` of its calls are under way."""
    barrier = threading.Barrier(count, timeout=LIMIT_S)

    def meet(number: Any = 0) -> Any:
        barrier.wait()
        return np.int64(number)

    return meet


@pytest.mark.parametrize("count", [2, 100])
@pytest.mark.parametrize("stateful", [True, False])
def test_functions_of_a_step_may_wait_for_each_other(
    count: int, stateful: bool, target: str
) -> None:
    meet = meeting(count)
    made = [
        tf.py_func(meet, [tf.constant(n, tf.int64)], tf.int64, stateful=stateful)
        for n in range(count)
    ]
    with tf.Session(target) as session:
        for _ in range(3):
            assert session.run(made) == list(range(count))
            assert session.run(tf.add_n(made)) == sum(range(count))


def test_one_that_needs_anothers_result_runs_after_it_while_a_third_waits_for_both(
    target: str,
) -> None:
    done = threading.Event()
    first = tf.py_func(lambda: 1.0, [], tf.float64)

    def set_done(x: Any) -> Any:
        done.set()
        return x + 1.0

    second = tf.py_func(set_done, [first * 2.0], tf.float64)
    third = tf.py_func(lambda: done.wait(LIMIT_S), [], tf.bool)
    with tf.Session(target) as session:
        assert session.run([third, second]) == [True, 3.0]


def test_they_meet_in_branches_and_in_iterations(target: str) -> None:
    meet, choose = meeting(2), tf.placeholder_with_default(True, [])
    chosen = tf.cond(
        choose,
        lambda: tf.add_n([tf.py_func(meet, [n], tf.int64) for n in (1, 2)]),
        lambda: tf.constant(0, tf.int64),
    )

    def body(i: Any, total: Any) -> Any:
        met = [tf.reshape(tf.py_func(meet, [total + n], tf.int64), []) for n in (1, 2)]
        return i + 1, tf.add_n(met)

    looped = tf.while_loop(lambda i, _: i < 3, body, [0, tf.constant(0, tf.int64)])
    with tf.Session(target) as session:
        assert session.run(chosen) == 3
        assert session.run(chosen, {choose: False}) == 0
        assert session.run(looped) == (3, 21)


def test_control_inputs_order_them(target: str) -> None:
    order: list[int] = []
    counter = tf.Variable(0, name="counter")
    counted = counter.assign_add(1)
    after: list[Any] = [counted]
    for number in range(5):
        with tf.control_dependencies(after):
            seen = tf.py_func(lambda n: order.append(int(n)), [number], [])
            after = [seen, tf.py_func(lambda: 1.0, [], tf.float64)]
    with tf.Session(target) as session:
        session.run(counter.initializer)
        session.run(after)
        assert session.run(counter) == 1
    assert order == [0, 1, 2, 3, 4]


def test_a_function_waits_for_what_another_step_dequeues(target: str) -> None:
    queue = tf.FIFOQueue(1, tf.int32, [[]], shared_name="q")
    put, taken = queue.enqueue(7), queue.dequeue()
    with tf.Session(target) as session:

        def fill(_: Any) -> None:
            session.run(put)
            session.run(put)  # waits until the first element is taken

        found: list[int] = []
        taker = threading.Thread(target=lambda: found.append(session.run(taken)))
        taker.start()
        session.run(tf.py_func(fill, [0], []))
        taker.join(LIMIT_S)
        assert found == [7]
        assert session.run(taken) == 7


def test_what_one_raises_ends_the_step_and_not_the_others(target: str) -> None:
    begun, go_on, ended = (threading.Event() for _ in range(3))

    def stay() -> None:
        begun.set()
        go_on.wait(LIMIT_S)
        ended.set()

    def fail() -> Any:
        begun.wait(LIMIT_S)
        raise ValueError("boo")

    made = [tf.py_func(stay, [], [], name="stays"), tf.py_func(fail, [], tf.float32, name="fails")]
    with tf.Session(target) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="ValueError: boo") as caught:
            session.run(made)
        assert caught.value.op is made[1].op
        assert not ended.is_set()
        go_on.set()
        assert ended.wait(LIMIT_S)
        assert session.run(tf.py_func(lambda: 3, [], tf.int64)) == 3


@pytest.mark.parametrize("count", [1, 2])
def test_a_time_limit_ends_the_step_though_the_function_goes_on(count: int, target: str) -> None:
    go_on = threading.Event()
    made = [tf.py_func(lambda: go_on.wait(LIMIT_S), [], tf.bool, name="slow") for _ in range(count)]
    with tf.Session(target) as session:
        session.run(tf.constant(1))  # the limit is not for finding the server
        deadline_that_says(lambda limited: session.run(made, options=limited), "slow")
        go_on.set()
        assert session.run(made) == [True] * count


def test_closing_the_session_ends_the_step_though_its_functions_go_on(target: str) -> None:
    go_on, begun = threading.Event(), threading.Barrier(3, timeout=LIMIT_S)

    def stay() -> None:
        begun.wait()
        go_on.wait(LIMIT_S)

    made = [tf.py_func(stay, [], []) for _ in range(2)]
    session, failed = tf.Session(target), []

    def step() -> None:
        try:
            session.run(made)
        except tf.errors.CancelledError as error:
            failed.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    begun.wait()
    session.close()
    thread.join(LIMIT_S)
    assert len(failed) == 1
    go_on.set()


@pytest.mark.parametrize("count", [1, 2])
def test_ctrl_c_ends_the_step(count: int, target: str) -> None:
    go_on = threading.Event()

    def interrupt() -> None:
        _thread.interrupt_main()
        go_on.wait(LIMIT_S)

    made = [
        tf.py_func(interrupt, [], []),
        *(tf.py_func(go_on.wait, [LIMIT_S], []) for _ in range(1, count)),
    ]
    with tf.Session(target) as session:
        with pytest.raises(KeyboardInterrupt):
            session.run(made)
        go_on.set()
        assert session.run(tf.constant(1) + 1) == 2


def test_nothing_of_the_callers_is_the_default_in_a_function(graph: tf.Graph, target: str) -> None:
    def look() -> Any:
        return np.array([tf.get_default_session() is None, tf.get_default_graph() is not graph])

    with tf.Session(target):
        one, two = tf.py_func(look, [], tf.bool), tf.py_func(look, [], tf.bool)
        assert one.eval().tolist() == [True, True]
        assert [each.tolist() for each in tf.get_default_session().run([one, two])] == [
            [True] * 2
        ] * 2
        assert tf.get_default_graph() is graph


def test_the_only_function_of_a_step_is_called_in_its_thread() -> None:
    here = threading.current_thread()
    queue = tf.FIFOQueue(9, tf.bool)
    value = tf.py_func(lambda: threading.current_thread() is here, [], tf.bool)
    doubled = tf.py_func(lambda x: x and threading.current_thread() is here, [value], tf.bool)
    with tf.Session() as session:
        assert session.run(value)
        assert session.run(doubled)
        session.run(queue.enqueue(doubled))
        assert session.run(tf.py_func(lambda x: x, [queue.dequeue()], tf.bool))


def test_threads_are_used_again_and_end_with_the_session() -> None:
    seen: set[threading.Thread] = set()

    def look() -> None:
        seen.add(threading.current_thread())

    with tf.Session() as session:
        pair = [tf.py_func(look, [], []) for _ in range(2)]
        for _ in range(50):
            session.run(pair)
    assert len(seen) < 20
    for thread in seen:
        thread.join(LIMIT_S)  # one that is just done is waited for by nobody else
        assert not thread.is_alive()
