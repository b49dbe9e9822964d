"""What waits in branches and loops: in the step's program where that can be told from nothing else, else in the general
executor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.plan.compile import compile_program
from headrace.plan.prune import needed
from headrace.run.exec.program import Program
from tests.support.limits import deadline_that_says

WITHIN_S = 60.0
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def is_straight(*fetches: Any) -> bool:
    """Whether a step of these runs on the step's program."""
    pruned = needed([], fetches, [])
    devices = dict.fromkeys(pruned.ops, DEVICE)
    made = compile_program(pruned, [], list(fetches), devices=devices, memos={})
    return isinstance(made, Program)


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def meanwhile(*steps: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        for step in steps:
            step()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_branch_waits_as_what_is_in_it(session: tf.Session) -> None:
    queues = [tf.FIFOQueue(9, [tf.int32], [[]]) for _ in range(2)]
    first = tf.placeholder_with_default(True, [])
    taken = tf.cond(first, queues[0].dequeue, queues[1].dequeue)
    doubled = 2 * taken
    puts = [queue.enqueue(tf.constant(7 + at)) for at, queue in enumerate(queues)]
    assert is_straight(doubled)
    session.run(puts)
    assert session.run(doubled, {first: False}) == 16
    assert session.run(doubled) == 14
    thread = meanwhile(lambda: session.run(puts))
    assert session.run(doubled) == 14
    thread.join()
    assert session.run([queue.size() for queue in queues]) == [0, 1]


def test_a_branch_that_waits_keeps_nothing_else_from_running(session: tf.Session) -> None:
    """Its element comes of the same step."""
    queue = tf.FIFOQueue(9, [tf.int32], [[]])
    fed = tf.placeholder_with_default(True, [])
    taken = tf.cond(fed, queue.dequeue, lambda: tf.constant(0))
    put = queue.enqueue(tf.constant(3))
    for _ in range(3):
        assert session.run([taken, put]) == [3, None]


def test_an_enqueue_in_a_branch_puts_what_a_variable_holds(session: tf.Session) -> None:
    queue = tf.FIFOQueue(9, [tf.float32], [[2]])
    variable = tf.Variable([1.0, 2.0])
    session.run(variable.initializer)
    fed = tf.placeholder_with_default(True, [])
    put = tf.cond(fed, lambda: queue.enqueue(variable), lambda: tf.no_op())
    session.run(put)
    session.run(put, {fed: False})
    session.run(variable.assign([5.0, 6.0]))
    session.run(put)
    assert session.run(queue.size()) == 2
    np.testing.assert_array_equal(session.run(queue.dequeue_many(2)), [[1, 2], [5, 6]])


def taking_in_turn(queue: Any, count: int, **how: Any) -> Any:
    """A loop, each of whose iterations takes what comes after what the one before took."""

    def body(i: Any, sum_of: Any) -> Any:
        with tf.control_dependencies([sum_of]):
            return i + 1, sum_of * 10 + queue.dequeue(name="taken")

    return tf.while_loop(lambda i, _: i < count, body, [0, 0], **how)[1]


def test_a_loop_waits_for_each_of_its_elements(session: tf.Session) -> None:
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    found = taking_in_turn(queue, 4)
    assert is_straight(found + 1)
    puts = [queue.enqueue(tf.constant(at)) for at in range(1, 5)]
    thread = meanwhile(*[lambda put=put: session.run(put) for put in puts])
    assert session.run(found + 1) == 1235
    thread.join()


def test_its_deadline_names_what_it_waits_for_and_takes_nothing(session: tf.Session) -> None:
    queue = tf.FIFOQueue(9, [tf.int32], [[]], name="slow")
    found = taking_in_turn(queue, 2)
    session.run(queue.enqueue(tf.constant(1)))
    deadline_that_says(
        lambda limited: session.run(found, options=limited),
        r"while/taken.*dequeue on FIFOQueue 'slow'",
    )
    session.run(queue.enqueue_many([[4, 5]]))
    assert session.run(found) == 45


def test_a_session_that_is_closed_ends_it(session: tf.Session) -> None:
    found = taking_in_turn(tf.FIFOQueue(9, [tf.int32], [[]]), 2)
    raised: list[type] = []

    def take() -> None:
        try:
            session.run(found)
        except (tf.errors.OpError, RuntimeError) as error:
            raised.append(type(error))

    began = threading.Event()
    tell = tf.py_func(began.set, [], [])
    with tf.control_dependencies([tell]):
        found = taking_in_turn(tf.FIFOQueue(9, [tf.int32], [[]]), 2)
    thread = meanwhile(take)
    assert began.wait(WITHIN_S)
    session.close()
    thread.join(WITHIN_S)
    assert raised == [tf.errors.CancelledError]


def test_a_queue_that_is_closed_ends_it(session: tf.Session) -> None:
    queue = tf.FIFOQueue(9, [tf.int32], [[]], name="ends")
    found = taking_in_turn(queue, 2)
    session.run(queue.enqueue(tf.constant(1)))
    thread = meanwhile(lambda: session.run(queue.close()))
    with pytest.raises(tf.errors.OutOfRangeError, match="ends") as raised:
        session.run(found)
    thread.join()
    assert raised.value.op.name == "while/taken"


def test_users_functions_of_iterations_in_turn_are_called_in_the_steps_thread(
    session: tf.Session,
) -> None:
    called: list[tuple[int, threading.Thread]] = []

    def function(i: np.int32, so_far: np.int32) -> np.int32:
        called.append((int(i), threading.current_thread()))
        return np.int32(so_far + i)

    def body(i: Any, so_far: Any) -> Any:
        after = tf.py_func(function, [i, so_far], tf.int32)
        after.set_shape([])
        return i + 1, after

    found = tf.while_loop(lambda i, _: i < 5, body, [0, 0])[1]
    assert is_straight(found)
    assert session.run(found) == 10
    assert called == [(i, threading.current_thread()) for i in range(5)]


def test_what_fails_in_a_loop_names_its_node(session: tf.Session) -> None:
    def function(so_far: np.int32) -> np.int32:
        raise ValueError("not this one")

    def body(so_far: Any) -> Any:
        after = tf.py_func(function, [so_far], tf.int32, name="raises")
        after.set_shape([])
        return after

    found = tf.while_loop(lambda so_far: so_far < 5, body, [0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not this one") as raised:
        session.run(found)
    assert raised.value.op.name == "while/raises"


@pytest.mark.parametrize("parallel", [1, 10])
def test_iterations_that_may_wait_side_by_side_do(session: tf.Session, parallel: int) -> None:
    """What one wants is put by the next, which may not begin before where only one is under way."""
    queue = tf.FIFOQueue(9, [tf.int32], [[]])

    def body(i: Any, total: Any) -> Any:
        put = tf.cond(i > 0, lambda: queue.enqueue(i), lambda: tf.no_op())
        taken = tf.cond(i < 2, queue.dequeue, lambda: tf.constant(0))
        with tf.control_dependencies([put]):
            return i + 1, total + taken

    total = tf.while_loop(lambda i, _: i < 3, body, [0, 0], parallel_iterations=parallel)[1]
    assert not is_straight(total)
    if parallel == 1:
        deadline_that_says(
            lambda limited: session.run(total, options=limited), "dequeue on FIFOQueue"
        )
    else:
        limited = tf.RunOptions(timeout_in_ms=int(WITHIN_S * 1000))
        assert session.run(total, options=limited) == 1 + 2


def test_nodes_that_wait_beside_each_other_in_a_loop_are_left_to_the_general_executor(
    session: tf.Session,
) -> None:
    """Either may be the one that lets the other go on."""
    queue = tf.FIFOQueue(9, [tf.int32], [[]])

    def body(i: Any) -> Any:
        taken = queue.dequeue()
        with tf.control_dependencies([queue.enqueue(i)]):
            return taken + 1

    found = tf.while_loop(lambda i: i < 5, body, [0])
    assert not is_straight(found)
    assert session.run(found, options=tf.RunOptions(timeout_in_ms=int(WITHIN_S * 1000))) == 5


def test_a_loop_beside_which_something_waits_is_left_to_the_general_executor(
    session: tf.Session,
) -> None:
    """It is fed by the rest of its step."""
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    found = taking_in_turn(queue, 3)
    first = queue.enqueue(tf.constant(1))
    with tf.control_dependencies([first]):
        second = queue.enqueue(tf.constant(2))
    with tf.control_dependencies([second]):
        third = tf.group(queue.enqueue(tf.constant(3)))
    limited = tf.RunOptions(timeout_in_ms=int(WITHIN_S * 1000))
    assert session.run([found, third], options=limited)[0] == 123


def test_loops_in_loops_and_branches_wait(session: tf.Session) -> None:
    queue = tf.FIFOQueue(99, [tf.int32], [[]])
    fed = tf.placeholder_with_default(True, [])

    def outer(i: Any, total: Any) -> Any:
        def inner(j: Any, total: Any) -> Any:
            with tf.control_dependencies([total]):
                taken = tf.cond(j % 2 < 1, queue.dequeue, lambda: tf.constant(100))
            return j + 1, total + taken

        return i + 1, tf.while_loop(lambda j, _: j < 3, inner, [0, total])[1]

    looped = lambda: tf.while_loop(lambda i, _: i < 2, outer, [0, 0])[1]  # noqa: E731
    found = tf.cond(fed, looped, lambda: tf.constant(-1))
    assert is_straight(found)
    session.run(queue.enqueue_many([[1, 2, 3, 4, 5]]))
    assert session.run(found, {fed: False}) == -1
    assert session.run(found) == 1 + 100 + 2 + 3 + 100 + 4
    assert session.run(queue.size()) == 1


def test_what_does_not_need_a_loop_that_waits_is_done_before(session: tf.Session) -> None:
    variable, queue = tf.Variable(0), tf.FIFOQueue(9, [tf.int32], [[]])
    session.run(variable.initializer)
    found = taking_in_turn(queue, 1)
    assigned = variable.assign(5)
    assert is_straight(found, assigned)
    deadline_that_says(
        lambda limited: session.run([found, assigned], options=limited), "dequeue on FIFOQueue"
    )
    assert session.run(variable) == 5


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.booleans(),
)
def test_a_loop_takes_what_the_general_executor_takes(ways: list[int], traced: bool) -> None:
    """ways: in each iteration the queue that is taken from; 2: none.  A traced step runs node by node."""
    with tf.Graph().as_default(), tf.Session() as session:
        queues = [tf.FIFOQueue(99, [tf.int32], [[]]) for _ in range(2)]
        where = tf.constant(ways)

        def body(i: Any, total: Any) -> Any:
            with tf.control_dependencies([total]):
                way = where[i]
            taken = tf.cond(
                way < 1,
                queues[0].dequeue,
                lambda: tf.cond(way < 2, queues[1].dequeue, lambda: tf.constant(7)),
            )
            return i + 1, total * 3 + taken

        found = tf.while_loop(lambda i, _: i < len(ways), body, [0, 0])[1]
        session.run(queues[0].enqueue_many([[*range(10, 20)]]))
        session.run(queues[1].enqueue_many([[*range(20, 30)]]))
        how = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if traced else None
        got = session.run(found, options=how, run_metadata=tf.RunMetadata() if traced else None)
        expected, left = 0, [iter(range(10, 20)), iter(range(20, 30))]
        for way in ways:
            expected = expected * 3 + (7 if way == 2 else next(left[way]))
        assert got == np.int32(expected)
        sizes = session.run([queue.size() for queue in queues])
        assert sizes == [10 - ways.count(0), 10 - ways.count(1)]
