"""Blocked steps whose cause is on another task: one that says nothing, one that has the queue that was meant."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.connect import local_servers
from headrace.serve.observe.blocked import BlockedStep
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, in_process
from tests.serve.ways import Ways
from tests.waiting_steps import WaitingSteps, waiting_steps  # noqa: F401  (a fixture)

PS = "/job:ps/replica:0/task:0"
WITHIN_S = 60.0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Servers of this process, reached as those of another are."""
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


class Deaf:
    """Makes a worker's methods answer only when it is told to hear again."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.hears = threading.Event()
        self.hears.set()

    def put_before(self, method: str, monkeypatch: pytest.MonkeyPatch, task: str) -> None:
        real = getattr(Worker, method)

        def late(worker: Worker, *arguments: Any) -> Any:
            if worker.task == task and not self.hears.is_set():
                self.asked.set()
                assert self.hears.wait(WITHIN_S)
            return real(worker, *arguments)

        monkeypatch.setattr(Worker, method, late)


@pytest.fixture
def deaf_ps(monkeypatch: pytest.MonkeyPatch) -> Deaf:
    """Before the servers are made, which bind their methods."""
    deaf = Deaf()
    deaf.put_before("run_part", monkeypatch, PS)
    deaf.put_before("inspect", monkeypatch, PS)
    # Reads that come again are answered without run_part.
    monkeypatch.setattr(Worker, "bind_part", lambda worker, request: None)
    return deaf


@pytest.mark.parametrize("way", ["relayed", "through the master", "direct"])
def test_a_step_that_waits_for_a_silent_task_says_for_which(
    way: str, monkeypatch: pytest.MonkeyPatch, deaf_ps: Deaf, ways: Ways,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    monkeypatch.setenv("HEADRACE_DIRECT", "on" if way == "direct" else "off")
    cluster: Cluster = request.getfixturevalue("cluster")
    with tf.device("/job:ps"):
        x = tf.Variable(3.0, name="x")
    with tf.device("/job:worker"):
        fetch = x * 2.0 if way == "relayed" else x
    with tf.Session(cluster.target("worker:0")) as session, ThreadPoolExecutor(1) as pool:
        session.run(x.initializer)
        expected = [session.run(fetch) for _ in range(3)][-1]
        if way == "direct":
            ways.open(session, fetch)
        deaf_ps.hears.clear()
        try:
            step = pool.submit(session.run, fetch)
            assert deaf_ps.asked.wait(WITHIN_S)
            monkeypatch.setattr(LIMITS, "task_answers_within_s", 0.2)
            (blocked,) = session.blocked_steps()
        finally:
            deaf_ps.hears.set()
        assert step.result(WITHIN_S) == expected
        assert [each.source for each in session.blocked_steps()] == []
    assert (blocked.kind, blocked.task, blocked.source) == ("reply", PS, PS)
    assert "x" in blocked.on
    assert blocked.cause == f"{PS} has not answered for 0.2 s"
    assert f": reply of {PS}, which makes {blocked.on}; " in str(blocked)


def only(steps: list[BlockedStep], node: str) -> BlockedStep:
    (found,) = [step for step in steps if step.node == node]
    return found


def test_a_queue_of_another_task_may_have_been_meant(
    cluster: Cluster,
    waiting_steps: WaitingSteps,  # noqa: F811
) -> None:
    with tf.device("/job:worker"):
        loaded = tf.FIFOQueue(9, tf.int32, shared_name="examples", name="loaded")
        put = loaded.enqueue(7)
    with tf.device("/job:ps"):
        example = tf.FIFOQueue(9, tf.int32, shared_name="examples", name="mine").dequeue(
            name="take"
        )
    with tf.Session(cluster.target("worker:0")) as session, ThreadPoolExecutor(1) as pool:
        session.run(put)
        step = pool.submit(session.run, example)
        waiting_steps.until("take")
        blocked = only(session.blocked_steps(), "take")
        state = session._engine.inspect()
        session.close()
        assert isinstance(step.exception(WITHIN_S), tf.errors.OpError)
    assert (
        "There is FIFOQueue 'examples' in container 'localhost' of /job:worker/replica:0/task:0, another task, "
        "which holds 1 element of the same types: see shared_name and container"
    ) in blocked.cause
    assert all(isinstance(task, pb.TaskState) and not task.resource for task in state.task)
