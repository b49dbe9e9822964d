"""Processes that are killed or stopped under a step that its client has asked of its task without the master."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from tests.serve.clusters import ProcessCluster, aborted, processes
from tests.serve.conftest import Background
from tests.serve.punctual import soon
from tests.serve.ways import Ways

Start = Callable[[Callable[[], Any]], Background]


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProcessCluster]:
    """A process each for a ps and a worker, who notice broken connections, and others that do not live if told when."""
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", getattr(request, "param", "0"))
    with processes({"ps": 1, "worker": 1}) as cluster:
        yield cluster


class Program:
    """A step that blocks in a queue of the ps, and counts there when it has got something."""

    def __init__(self) -> None:
        with tf.device("/job:ps"):
            begun = tf.FIFOQueue(9, [tf.int32], [[]], shared_name="begun")
            queue = tf.FIFOQueue(9, [tf.float32], [[]], shared_name="queue")
            self.counter = tf.Variable(0.0, name="counter")
            with tf.control_dependencies([begun.enqueue(1)]):
                taken = queue.dequeue()
            with tf.control_dependencies([taken]):
                self.step = self.counter.assign_add(1.0)
            self.has_begun, self.put, self.size = begun.dequeue(), queue.enqueue(5.0), queue.size()
        self.init = tf.global_variables_initializer()

    def open(self, cluster: ProcessCluster, ways: Ways) -> tf.Session:
        """A session whose steps have been run, so that the next ones go straight to the ps."""
        session = tf.Session(cluster.target("worker:0"))
        session.run(self.init)
        self.lead(session, ways)
        return session

    def lead(self, session: tf.Session, ways: Ways) -> None:
        """Run the steps, once."""
        ways.open(session, self.counter)
        session.run(self.put)
        assert session.run(self.step) == 1.0
        session.run(self.has_begun)
        assert ways.of(session, self.counter) == 1.0

    def begin(self, session: tf.Session, ways: Ways, background: Start) -> Background:
        """The step, blocked."""
        before = ways.direct
        step = background(lambda: session.run(self.step))
        session.run(self.has_begun)
        assert ways.direct == before + 2
        return step


def test_processes_that_are_killed_are_named_and_used_again(
    cluster: ProcessCluster, ways: Ways, background: Start
) -> None:
    program = Program()
    with program.open(cluster, ways) as session:
        soon(lambda: task_killed_under_a_step(cluster, ways, background, program, session), 1.0)
        task_restarted_between_two_steps(cluster, ways, program, session)
        soon(lambda: master_killed_under_a_step(cluster, ways, background, program, session), 1.0)


def task_killed_under_a_step(
    cluster: ProcessCluster, ways: Ways, background: Start, program: Program, session: tf.Session
) -> float:
    """The seconds until the step has failed."""
    step = program.begin(session, ways, background)
    began = time.monotonic()
    cluster.kill("ps:0")
    error = step.error()
    took = time.monotonic() - began
    assert isinstance(error, tf.errors.UnavailableError)
    assert f"{cluster.full_name('ps:0')} at {cluster.address('ps:0')}" in str(error)
    with pytest.raises(tf.errors.UnavailableError, match=cluster.full_name("ps:0")):
        session.run(program.counter)
    cluster.start("ps:0")
    assert "was restarted" in str(aborted(lambda: session.run(program.counter)))
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
        session.run(program.counter)
    session.run(program.init)
    program.lead(session, ways)  # for another attempt, too
    return took


def task_restarted_between_two_steps(
    cluster: ProcessCluster, ways: Ways, program: Program, session: tf.Session
) -> None:
    cluster.kill("ps:0")
    cluster.start("ps:0")
    assert "was restarted" in str(aborted(lambda: session.run(program.counter)))
    session.run(program.init)
    assert session.run(program.counter) == 0.0
    program.lead(session, ways)


def master_killed_under_a_step(
    cluster: ProcessCluster, ways: Ways, background: Start, program: Program, session: tf.Session
) -> float:
    """The seconds until the step has failed."""
    step = program.begin(session, ways, background)
    began = time.monotonic()
    cluster.kill("worker:0")
    error = step.error()
    took = time.monotonic() - began
    assert isinstance(error, tf.errors.UnavailableError)
    assert cluster.address("worker:0") in str(error)
    before = ways.direct
    with pytest.raises(tf.errors.UnavailableError):
        session.run(program.counter)
    assert ways.direct == before
    cluster.start("worker:0")
    assert "was restarted" in str(aborted(lambda: session.run(program.counter)))
    assert session.run(program.counter) == 1.0  # the step has counted nothing
    session.run(program.put)
    assert session.run(program.size) == 1  # and takes nothing
    ways.open(session, program.counter)
    assert ways.of(session, program.counter) == 1.0
    assert session.run(program.step) == 2.0  # the next time it must block
    session.run(program.has_begun)
    session.run(program.init)
    program.lead(session, ways)  # for another attempt
    return took


@pytest.mark.parametrize("cluster", ["4"], indirect=True)  # sooner than usual
def test_processes_that_are_stopped(cluster: ProcessCluster, ways: Ways, background: Start) -> None:
    program = Program()
    with program.open(cluster, ways) as session:
        cluster.freeze("worker:0")  # the master, which has nothing to do with it
        try:
            assert ways.of(session, program.counter) == 1.0
        finally:
            cluster.thaw("worker:0")
        step = program.begin(session, ways, background)
        cluster.freeze("ps:0")
        try:
            error = step.error()
        finally:
            cluster.thaw("ps:0")
        assert isinstance(error, tf.errors.UnavailableError)
        assert f"{cluster.full_name('ps:0')} at {cluster.address('ps:0')}" in str(error)
        assert "stopped or frozen" in str(error)
        session.run(program.put)
        assert session.run(program.size) == 1
        assert session.run(program.counter) == 1.0
        ways.open(session, program.counter)
        assert ways.of(session, program.counter) == 1.0
