"""Deadlines over every transport: kept, explained, and without a trace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.master.master_session import MasterSession
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster
from tests.serve.conftest import WITHIN_S, Background, Blocked

LIMIT_MS = 150
LATE_MS = 100
ATTEMPTS = 50  # a busy machine may be late, again and again


def lateness_ms(call: Callable[[], Any], node: str = "take") -> tuple[float, tf.errors.OpError]:
    """By how much the deadline was passed, and the error, which should name the node; the best of some attempts.

    A task that a busy machine keeps from running for longer than its caller's patience cannot say where it waited.
    """
    best = float("inf")
    for _ in range(ATTEMPTS):
        started = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError) as caught:
            call()
        best = min(best, (time.monotonic() - started) * 1000 - LIMIT_MS)
        if best < LATE_MS and caught.value.node == node:
            break
    return best, caught.value


@pytest.fixture(params=["ps:0", "worker:0", "worker:1"])
def dequeue(request: pytest.FixtureRequest, cluster: Cluster) -> Any:
    """(queue, dequeue, its device) on each of the tasks."""
    job, _, index = request.param.partition(":")
    device = f"/job:{job}/replica:0/task:{index}/device:CPU:0"
    with tf.device(device):
        queue = tf.FIFOQueue(10, [tf.int32], [[]], name="empty_queue")
        return queue, queue.dequeue(name="take"), device


def test_run_options_limit_a_step(cluster: Cluster, dequeue: Any) -> None:
    queue, take, device = dequeue
    options = tf.RunOptions(timeout_in_ms=LIMIT_MS)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(queue.size())
        late, error = lateness_ms(lambda: session.run(take, options=options))
        assert -5 < late < LATE_MS
        assert error.node == "take"
        assert error.device == device
        assert "empty_queue" in error.message
        session.run(queue.enqueue([1]))
        assert session.run(queue.size()) == 1  # nobody waits for it any more
        assert session.run(take) == 1


def test_the_session_limits_every_step(cluster: Cluster, dequeue: Any) -> None:
    queue, take, _ = dequeue
    config = tf.ConfigProto(operation_timeout_in_ms=LIMIT_MS)
    longer = tf.RunOptions(timeout_in_ms=60_000)
    with tf.Session(cluster.target("worker:0"), config=config) as session:
        session.run(
            queue.size(), options=longer
        )  # a busy machine may take its time to make the session
        late, error = lateness_ms(lambda: session.run(take))
        assert -5 < late < LATE_MS
        assert "empty_queue" in error.message
        session.run(queue.enqueue([2]), options=longer)
        assert session.run(take, options=longer) == 2


def test_a_consumer_on_another_task_is_told_what_its_producer_waits_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "step_patience_s", 0.06)  # machines may be busy
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(10, [tf.float32], [[]], name="empty_queue")
        taken = queue.dequeue(name="take")
    with tf.device("/job:worker/task:0"):
        here = taken + 1.0
    with tf.device("/job:worker/task:1"):
        there = here + 1.0
        known = tf.random_uniform([])
    with tf.Session(cluster.target("worker:0")) as session:
        session.run([queue.size(), known])  # the limit is not for finding the tasks
        options = tf.RunOptions(timeout_in_ms=LIMIT_MS)
        late, error = lateness_ms(lambda: session.run([here, there], options=options))
        assert late < LATE_MS
        assert (error.node, error.op_type) == ("take", "QueueDequeueV2")
        assert "empty_queue" in error.message


def test_a_server_may_limit_the_steps_of_its_sessions(transport: str) -> None:
    config = tf.ConfigProto(operation_timeout_in_ms=LIMIT_MS)
    with tf.train.Server({"local": ["127.0.0.1:0"]}, config=config) as server:
        take = tf.FIFOQueue(10, [tf.int32], [[]]).dequeue(name="take")
        with tf.Session(server.target) as session:
            longer = tf.RunOptions(timeout_in_ms=60_000)
            session.run(tf.constant(1), options=longer)  # the limit is not for the first contact
            late, _ = lateness_ms(lambda: session.run(take))
    assert late < LATE_MS


def test_a_limit_that_passes_while_the_graph_is_sent_is_none_of_a_server_that_is_not_there(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, extend = threading.Event(), MasterSession.extend

    def slowly(session: MasterSession, addition: pb.GraphDef) -> int:
        assert go_on.wait(WITHIN_S)
        return extend(session, addition)

    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.constant(1))
        monkeypatch.setattr(MasterSession, "extend", slowly)
        more = tf.identity(2)
        with pytest.raises(tf.errors.DeadlineExceededError, match="ExtendSession"):
            session.run(more, options=tf.RunOptions(timeout_in_ms=20))
        go_on.set()
        assert session.run(more) == 2


def test_a_deadline_ends_one_step_of_many(
    cluster: Cluster, blocked: Blocked, background: Callable[[Callable[[], Any]], Background]
) -> None:
    queue = tf.FIFOQueue(10, [tf.int32], [[]])
    take = queue.dequeue()
    with tf.Session(cluster.target("worker:0")) as session:
        patient = background(lambda: session.run(take))
        blocked.wait()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(take, options=tf.RunOptions(timeout_in_ms=20))
        session.run(queue.enqueue([5]))
        assert patient.value() == 5
