"""Loops whose parts lie on several tasks, and how they end early: everywhere, and nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from tests.serve.clusters import Cluster
from tests.serve.conftest import Background, Blocked

Start = Callable[[Callable[[], Any]], Background]

MASTER, PS, OTHER = "/job:worker/task:0", "/job:ps/task:0", "/job:worker/task:1"
PLACES = {"one task": (PS, PS), "two tasks": (MASTER, PS), "neither the master's": (OTHER, PS)}
"""Where the loop is, and where a part of its body is."""


def endless(loop_on: str, part_on: str, mark: Any = None) -> Any:
    """A loop without end; `mark(i)`, on `part_on`, is needed in every iteration."""
    with tf.device(loop_on):

        def body(i: Any) -> Any:
            with tf.device(part_on):
                marked = [] if mark is None else [mark(i)]
                with tf.control_dependencies(marked):
                    return tf.minimum(i + 1, 7)

        return tf.while_loop(lambda i: i < 8, body, [tf.constant(0)])


def nothing_runs(cluster: Cluster) -> None:
    """No step is under way on any task."""
    for server in cluster.servers.values():
        assert not server.worker._running


@pytest.fixture(params=PLACES)
def places(request: pytest.FixtureRequest) -> tuple[str, str]:
    return PLACES[request.param]


@pytest.fixture
def count() -> Any:
    """A counter on the ps."""
    with tf.device(PS):
        return tf.Variable(0, name="count")


def test_closing_the_session_ends_a_loop_without_end(
    cluster: Cluster, blocked: Blocked, background: Start, places: tuple[str, str]
) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(1, tf.int32, [[]], shared_name="full")
    loop = endless(*places, mark=lambda i: queue.enqueue(i))
    session = tf.Session(cluster.target("worker:0"))
    step = background(lambda: session.run(loop))
    blocked.wait()  # the second iteration finds the queue full
    session.close()
    assert isinstance(step.error(), tf.errors.CancelledError)
    nothing_runs(cluster)
    with tf.Session(cluster.target("worker:1")) as other:
        assert other.run(queue.size()) == 1


def test_an_error_in_an_iteration_ends_the_loop_on_every_task(
    cluster: Cluster, places: tuple[str, str], count: Any
) -> None:
    loop_on, part_on = places
    with tf.device(loop_on):

        def body(i: Any) -> Any:
            with tf.device(part_on), tf.control_dependencies([count.assign_add(1)]):
                return tf.floordiv(i + 3 - i, 2 - i, name="divided") * 0 + i + 1

        loop = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)], parallel_iterations=1)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(count.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(loop)
        assert caught.value.node == "while/divided"
        assert caught.value.device == f"{part_on.replace('/task', '/replica:0/task')}/device:CPU:0"
        assert __file__ in str(caught.value.built_at)
        assert session.run(count) == 3
    nothing_runs(cluster)


def test_a_stopped_task_ends_the_loop_and_is_named(
    cluster: Cluster, blocked: Blocked, background: Start
) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(1, tf.int32, [[]], shared_name="full")
    loop = endless(OTHER, PS, mark=lambda i: queue.enqueue(i))
    session = tf.Session(cluster.target("worker:0"))
    step = background(lambda: session.run(loop))
    blocked.wait()
    cluster.servers["ps:0"].stop()
    error = step.error()
    assert isinstance(error, tf.errors.UnavailableError)
    assert cluster.address("ps:0") in str(error)
    session.close()
    del cluster.servers["ps:0"]
    nothing_runs(cluster)


def test_many_loops_of_one_session_do_not_meet(
    cluster: Cluster, background: Start, count: Any
) -> None:
    """Steps of one plan at once: frames and iterations of each are its own."""
    with tf.device(MASTER):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any, total: Any) -> Any:
            with tf.device(PS):
                more = total + i
            return i + 1, more

        _, total = tf.while_loop(lambda i, _: i < limit, body, [tf.constant(0), tf.constant(0)])
    with tf.Session(cluster.target("worker:0")) as session:
        sums = [background(lambda n=n: session.run(total, {limit: n})) for n in range(2, 14)]  # type: ignore[misc]
        assert [int(each.value()) for each in sums] == [sum(range(n)) for n in range(2, 14)]


def test_a_deadline_ends_a_loop_without_end_and_leaves_its_plan_whole(
    cluster: Cluster, places: tuple[str, str]
) -> None:
    loop_on, part_on = places
    with tf.device(loop_on):
        limit = tf.placeholder(tf.int32, [])

        def body(i: Any) -> Any:
            with tf.device(part_on):
                return tf.minimum(i + 1, 4)

        loop = tf.while_loop(lambda i: i < limit, body, [tf.constant(0)])
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(3):
            assert session.run(loop, {limit: 4}) == 4
            with pytest.raises(tf.errors.DeadlineExceededError):
                session.run(loop, {limit: 5}, options=tf.RunOptions(timeout_in_ms=20))
    nothing_runs(cluster)
