"""Over every transport: what a session and a server say of steps that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, Jobs
from tests.serve.conftest import Background
from tests.waiting_steps import WaitingSteps

PS = "/job:ps/task:0"


def ended(step: Background) -> None:
    """Wait for a step that its session's end has cancelled."""
    assert isinstance(step.error(), tf.errors.OpError)


def test_a_session_says_what_its_steps_wait_for(
    cluster: Cluster, waiting_steps: WaitingSteps
) -> None:
    with tf.device(PS), tf.container("c"):
        queue = tf.FIFOQueue(5, tf.int32, shapes=[[]], shared_name="numbers")
        batch = queue.dequeue_many(4, name="batch")
        enqueue = queue.enqueue_many([[1, 2, 3]])
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.blocked_steps() == []
        session.run(enqueue)
        assert session.blocked_steps() == []
        waiting = Background(lambda: session.run(batch))
        waiting_steps.until("batch")
        (step,) = session.blocked_steps()
        (same,) = cluster.servers["ps:0"].blocked_steps()
    ended(waiting)
    assert step.session == same.session
    assert (step.node, step.op, step.kind) == ("batch", "QueueDequeueManyV2", "dequeue_many")
    assert (step.task, step.wanted, step.so_far) == ("/job:ps/replica:0/task:0", 4, 3)
    assert step.built_at.endswith(f"test_blocked_steps.py:{batch.op.built_at.rpartition(':')[2]}")
    assert step.queue is not None
    assert (step.queue.name, step.queue.container) == ("numbers", "c")
    assert (step.queue.size, step.queue.set_aside, step.queue.entered) == (0, 3, 3)
    assert (step.queue.capacity, step.queue.closed, step.others) == (5, False, ())
    assert 0 <= step.unmoved_s <= step.waited_s
    assert "pid" in step.client
    assert "3 of the 4 set aside for this" in str(step)
    assert step.cause.startswith("nobody enqueues; ")
    assert "fills it, but no QueueRunner runs that" in step.cause
    assert same.cause == "nobody enqueues"


def test_sessions_see_who_else_waits(cluster: Cluster, waiting_steps: WaitingSteps) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(2, tf.int32, shared_name="numbers")
        take = queue.dequeue(name="take")
    with (
        tf.Session(cluster.target("worker:0")) as one,
        tf.Session(cluster.target("worker:1")) as two,
    ):
        first = Background(lambda: one.run(take))
        waiting_steps.until("take")
        second = Background(lambda: two.run(take))
        waiting_steps.until("take", 2)
        (mine,) = one.blocked_steps()
        (theirs,) = two.blocked_steps()
        everybody = cluster.servers["ps:0"].blocked_steps()
        assert [step.session for step in everybody] == [mine.session, theirs.session]
        assert [other.session for other in mine.others] == [theirs.session]
        assert [other.session for other in theirs.others] == [mine.session]
        assert theirs.others[0].node == "take"
        assert "also waiting: 1 dequeue ('take')" in str(mine)
    ended(first)
    ended(second)


def test_a_step_that_waits_for_a_task_that_waits_is_one(
    cluster: Cluster, waiting_steps: WaitingSteps
) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="numbers")
        take = queue.dequeue(name="take")
    with tf.device("/job:worker/task:0"):
        doubled = tf.multiply(take, 2.0, name="doubled")
    with tf.Session(cluster.target("worker:1")) as session:
        waiting = Background(lambda: session.run(doubled))
        waiting_steps.until("take")
        steps = session.blocked_steps()
    ended(waiting)
    assert [step.node for step in steps] == ["take"]


def test_a_recv_from_a_task_that_does_not_answer_says_so(
    cluster_of: Callable[[Jobs], Cluster],
    monkeypatch: pytest.MonkeyPatch,
    waiting_steps: WaitingSteps,
) -> None:
    inspect = Worker.inspect

    def out_of_order(worker: Worker, request: Any, scope: Any) -> Any:
        if worker.task == "/job:worker/replica:0/task:0":
            raise tf.errors.UnavailableError(None, None, "it is out of order")
        return inspect(worker, request, scope)

    monkeypatch.setattr(Worker, "inspect", out_of_order)
    cluster = cluster_of({"ps": 1, "worker": 1})
    with tf.device("/job:worker/task:0"):
        queue = tf.FIFOQueue(2, tf.float32, shapes=[[]], shared_name="numbers")
        take = queue.dequeue(name="take")
    with tf.device(PS):
        # The ps has something to do before, so its master does not wait for the value in its place.
        doubled = tf.add(take, tf.random_uniform([]), name="doubled")
    with tf.Session(cluster.target("ps:0")) as session:
        waiting = Background(lambda: session.run(doubled))
        waiting_steps.until("take")
        waiting_steps.until("take/_1")
        (step,) = session.blocked_steps()
    ended(waiting)
    assert (step.kind, step.source) == ("recv", "/job:worker/replica:0/task:0")
    assert step.cause == "/job:worker/replica:0/task:0 does not answer: it is out of order"
    assert f"recv of {step.on!r} from /job:worker/replica:0/task:0; " in str(step)


def test_a_partial_run_that_was_not_fed_yet_is_not_blocked(
    cluster: Cluster, waiting_steps: WaitingSteps
) -> None:
    first, second = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [], name="second")
    more = first + 1
    product = more * second
    with tf.Session(cluster.target("ps:0")) as session:
        handle = session.partial_run_setup([more, product], [first, second])
        assert session.partial_run(handle, more, {first: 1}) == 2
        waiting_steps.until("_recv_second_0")
        assert session.blocked_steps() == []
        assert session.partial_run(handle, product, {second: 3}) == 6


def test_a_session_that_was_closed_says_nothing(cluster: Cluster) -> None:
    session = tf.Session(cluster.target("worker:0"))
    assert session.blocked_steps() == []
    session.close()
    with pytest.raises(tf.errors.CancelledError):
        session.blocked_steps()


def test_a_queue_that_may_have_been_meant_is_named(
    cluster: Cluster, waiting_steps: WaitingSteps
) -> None:
    with tf.device(PS):
        with tf.container("loader"):
            filled = tf.FIFOQueue(5, tf.int32, shared_name="examples")
        meant = tf.FIFOQueue(5, tf.int32, shared_name="examples")
        fill, take = filled.enqueue(1), meant.dequeue(name="take")
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(fill)
        waiting = Background(lambda: session.run(take))
        waiting_steps.until("take")
        (step,) = session.blocked_steps()
    ended(waiting)
    assert step.cause == (
        "nobody has ever enqueued anything; was another queue meant? There is FIFOQueue 'examples' in container "
        "'loader', which holds 1 element of the same types: see shared_name and container"
    )
