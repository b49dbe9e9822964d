"""Processes that are killed: servers under a step, and clients that wait."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.scope import Scope
from tests.serve.clusters import ProcessCluster, in_process, processes
from tests.serve.conftest import Background, Blocked
from tests.serve.punctual import soon

Start = Callable[[Callable[[], Any]], Background]


@pytest.fixture(params=["off", "unix", "tcp"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProcessCluster]:
    """A process each for a ps and two workers, who notice broken connections and nothing else."""
    monkeypatch.setenv("HEADRACE_LANE", request.param)
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", "0")
    with processes({"ps": 1, "worker": 2}) as cluster:
        yield cluster


class Program:
    """A step that blocks in a queue of the ps; worker:1 would get the value, and gives nothing back."""

    def __init__(self, name: str) -> None:
        with tf.container(name):
            with tf.device("/job:ps"):
                begun = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="begun")
                never = tf.FIFOQueue(1, [tf.float32], [[]], shared_name="never")
                with tf.control_dependencies([begun.enqueue(1)]):
                    taken = self.taken = never.dequeue()
                self.has_begun = begun.dequeue()
            with tf.device("/job:worker/task:1"):
                self.there = taken + 1.0


def test_a_server_that_is_killed_under_a_step_is_named(
    cluster: ProcessCluster, background: Start
) -> None:
    """worker:1 waits for a value, and once gives nothing back; ps:0 holds the queues, worker:0 is the master."""
    numbers = itertools.count()
    dead: list[str] = []

    def killed(task: str, fetched: str) -> float:
        """The seconds until the step has failed."""
        if dead:
            cluster.start(dead.pop())
        program = Program(f"program{next(numbers)}")
        fetch = {"the value": program.there, "nothing": program.there.op, "ps": program.taken}
        with tf.Session(cluster.target("worker:0")) as session:
            step = background(lambda: session.run(fetch[fetched]))
            assert session.run(program.has_begun) == 1
            began = time.monotonic()
            cluster.kill(task)
            error = step.error()
            took = time.monotonic() - began
        assert isinstance(error, tf.errors.UnavailableError)
        assert cluster.address(task) in str(error)
        if task != "worker:0":
            assert cluster.full_name(task) in str(error)
        dead.append(task)
        return took

    soon(lambda: killed("worker:1", "nothing"), 1.0)
    soon(lambda: killed("worker:1", "the value"), 1.0)
    soon(lambda: killed("ps:0", "the value"), 1.0)
    soon(lambda: killed("ps:0", "ps"), 1.0)
    soon(lambda: killed("worker:0", "the value"), 1.0)


@pytest.mark.parametrize("cluster", ["unix"], indirect=True)
def test_a_cluster_goes_on_after_a_killed_task_came_back(cluster: ProcessCluster) -> None:
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0)
    with tf.device("/job:worker/task:1"):
        total = variable + 1.0
    init = tf.global_variables_initializer()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(init)
        assert session.run(total) == 2.0
        cluster.kill("worker:1")
        with pytest.raises(tf.errors.UnavailableError, match="/job:worker/replica:0/task:1"):
            session.run(total)
        assert session.run(variable) == 1.0  # the others go on
        cluster.start("worker:1")
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run(total) == 2.0  # and the ps has kept its state


CLIENT = """
import sys
import headrace as tf
queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
tf.Session(sys.argv[1]).run(queue.dequeue())
"""


def test_a_client_that_is_killed_takes_nothing_from_the_queue(blocked: Blocked) -> None:
    with in_process({"local": 1}) as cluster:
        client = subprocess.Popen([sys.executable, "-c", CLIENT, cluster.target("local:0")])
        try:
            blocked.wait()
        finally:
            client.kill()
            client.wait()
        server = cluster.servers["local:0"]
        refused = errors.unavailable("draining")
        server.master.drain(refused, Scope(30.0))  # its step ends by itself
        server.worker.drain(refused, Scope(30.0))
        (queue,) = server.worker.runtime.resources.all()
        queue.enqueue([tf.int32.as_numpy_dtype(1)])  # type: ignore[attr-defined]
        assert queue.size() == 1  # type: ignore[attr-defined]
