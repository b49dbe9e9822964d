"""Each session that has used a task is told of its restart by one AbortedError, whatever it asks for, by which way."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.client.direct import RouteToOne
from tests.serve.clusters import Cluster, ProcessCluster, in_process, processes
from tests.serve.conftest import TRANSPORTS, Background
from tests.serve.restarts import JOBS, Model, Program
from tests.serve.ways import Ways

Start = Callable[[Callable[[], Any]], Background]

WAYS = {
    "calls": ("direct", "on"),
    "grpc": ("grpc", "on"),
    "unix": ("unix", "on"),
    "tcp": ("tcp", "on"),
    "unix, every step by its master": ("unix", "off"),
}


FIRST, COUNT = map(int, os.environ.get("HEADRACE_TEST_RESTARTS", "0:2").split(":"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
@pytest.mark.parametrize("way", WAYS)
def test_a_restart_is_told_once_and_before_anything_is_read(
    way: str, seed: int, monkeypatch: pytest.MonkeyPatch, background: Start
) -> None:
    transport, direct = WAYS[way]
    TRANSPORTS[transport](monkeypatch)
    monkeypatch.setenv("HEADRACE_DIRECT", direct)
    with in_process(JOBS) as cluster:
        model = Model(cluster, seed, background)
        model.run(5)
        assert model.operations > 5


PROCESSES = {"lane": ("on", "on"), "grpc": ("off", "on"), "lane, no direct steps": ("on", "off")}


class Numbers:
    """A variable of the ps and steps with it; one of them waits in a queue there."""

    def __init__(self) -> None:
        with tf.device("/job:ps"):
            self.variable = tf.Variable(1.0)
            begun = tf.FIFOQueue(9, [tf.int32], [[]], shared_name="begun")
            with tf.control_dependencies([begun.enqueue(1)]):
                self.blocked = tf.FIFOQueue(9, [tf.float32], [[]], shared_name="empty").dequeue()
            self.has_begun = begun.dequeue()
            self.new = self.variable + 1.0
        with tf.device("/job:worker"):
            self.five = tf.identity(tf.constant(2.0)) + 3.0
        self.init = tf.global_variables_initializer()


@pytest.mark.parametrize("way", PROCESSES)
def test_a_ps_that_was_killed_under_a_step_is_told_of_and_reached_at_once_when_it_is_up(
    way: str, monkeypatch: pytest.MonkeyPatch, background: Start
) -> None:
    lane, direct = PROCESSES[way]
    monkeypatch.setenv("HEADRACE_LANE", lane)
    monkeypatch.setenv("HEADRACE_DIRECT", direct)
    with processes({"ps": 1, "worker": 1}) as cluster:
        target, numbers = cluster.target("worker:0"), Numbers()
        with tf.Session(target) as one, tf.Session(target) as other, tf.Session(target) as none:
            one.run(numbers.init)
            for _ in range(4):
                assert other.run(numbers.variable) == one.run(numbers.variable) == 1.0
                assert none.run(numbers.five) == 5.0
            called = other.make_callable(numbers.variable)
            killed_under_a_step(cluster, one, numbers, background)
            with pytest.raises(tf.errors.UnavailableError, match=cluster.full_name("ps:0")):
                other.run(numbers.variable)
            cluster.start("ps:0")
            with pytest.raises(tf.errors.AbortedError, match="ps/replica:0/task:0 was restarted"):
                one.run(numbers.new)  # which was never planned
            with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
                one.run(numbers.new)
            none.run(numbers.init)
            assert one.run(numbers.new) == 2.0
            with pytest.raises(tf.errors.AbortedError, match="ps/replica:0/task:0 was restarted"):
                called()
            assert called() == other.run(numbers.variable) == one.run(numbers.variable) == 1.0


def killed_under_a_step(
    cluster: ProcessCluster, session: tf.Session, numbers: Numbers, background: Start
) -> None:
    step = background(lambda: session.run(numbers.blocked))
    session.run(numbers.has_begun)
    cluster.kill("ps:0")
    assert isinstance(step.error(), tf.errors.UnavailableError)


# -- steps at once ----------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["direct", "grpc", "unix"], indirect=True)
def test_of_the_steps_that_are_under_way_at_once_one_is_told(
    cluster: Cluster, background: Start
) -> None:
    """Others that were begun before are Unavailable; the variable may not be initialized for a moment."""
    program = Program()
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(program.inits["ps:0"], {program.given: 0})
    with tf.Session(cluster.target("worker:0")) as session:
        read = program.variables["ps:0"]
        with tf.device("/job:worker/task:1"):
            through = read + 0
        begun, up = threading.Barrier(7), threading.Event()

        def use() -> list[BaseException]:
            session.run([read, through])
            begun.wait(60)
            errors: list[BaseException] = []
            while len(errors) < 10_000:
                for step in (read, through, [read, through]):
                    try:
                        if np.max(session.run(step)):
                            return errors
                    except tf.errors.UnavailableError as error:
                        errors.append(error)
                        up.wait(60)  # asking again and again only keeps it from starting
                    except tf.errors.OpError as error:
                        errors.append(error)
            raise errors[-1]

        users = [background(use) for _ in range(6)]
        begun.wait(60)
        cluster.servers["ps:0"].stop()
        cluster.start("ps:0")
        up.set()
        with tf.Session(cluster.target("ps:0")) as anew:
            anew.run(program.inits["ps:0"], {program.given: 1})
        errors = [error for user in users for error in user.value()]
    told = [error for error in errors if isinstance(error, tf.errors.AbortedError)]
    assert len(told) == 1, [str(error) for error in told]
    others = (tf.errors.UnavailableError, tf.errors.FailedPreconditionError)
    assert all(isinstance(error, (*others, tf.errors.AbortedError)) for error in errors), errors


@pytest.mark.parametrize("transport", ["grpc", "unix"], indirect=True)
def test_a_step_without_time_for_it_does_not_use_up_what_is_told(cluster: Cluster) -> None:
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.inits["ps:0"], {program.given: 3})
        with tf.device("/job:worker/task:1"):
            read = program.variables["ps:0"] + 0
        assert session.run(read) == 3
        cluster.servers["ps:0"].stop()
        cluster.start("ps:0")
        options = tf.RunOptions(timeout_in_ms=1)
        for _ in range(5):
            try:
                session.run(read, options=options)
            except tf.errors.DeadlineExceededError:
                continue
            except tf.errors.AbortedError:
                break
            raise AssertionError("it has read the new state")
        else:
            with pytest.raises(tf.errors.AbortedError, match="was restarted"):
                session.run(read)
        session.run(program.inits["ps:0"], {program.given: 4})
        assert session.run(read) == 4


@pytest.mark.parametrize("transport", ["unix", "tcp"], indirect=True)
def test_a_direct_step_that_loses_its_task_is_told_of_its_restart(
    cluster: Cluster, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection broke when the step was under way, and the task is up again by then."""
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.inits["ps:0"], {program.given: 3})
        read = program.variables["ps:0"]
        ways.open(session, read)

        def lost(route: RouteToOne, *args: Any) -> list[Any]:
            cluster.servers["ps:0"].stop()
            cluster.start("ps:0")
            route.to.leave()
            raise tf.errors.UnavailableError(None, None, "the connection broke")

        with monkeypatch.context() as patched:
            patched.setattr(RouteToOne, "run", lost)
            with pytest.raises(tf.errors.AbortedError, match="ps/replica:0/task:0 was restarted"):
                session.run(read)
        session.run(program.inits["ps:0"], {program.given: 4})
        assert session.run(read) == 4


@pytest.mark.parametrize("transport", ["direct", "grpc", "unix"], indirect=True)
@pytest.mark.parametrize("told_by", ["its next piece", "a step"])
def test_a_partial_run_that_was_under_way_is_over(cluster: Cluster, told_by: str) -> None:
    with tf.device("/job:ps"):
        first, second = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        doubled, sum_ = first * 2.0, first + second
    with tf.Session(cluster.target("worker:0")) as session:
        handle = session.partial_run_setup([doubled, sum_], [first, second])
        assert session.partial_run(handle, doubled, {first: 1.0}) == 2.0
        cluster.servers["ps:0"].stop()
        cluster.start("ps:0")
        whole = {first: 1.0, second: 2.0}
        told, lost = tf.errors.AbortedError, tf.errors.UnavailableError
        if told_by == "a step":
            with pytest.raises(told, match="ps/replica:0/task:0 was restarted"):
                session.run(sum_, whole)
            assert session.run(sum_, whole) == 3.0
        with pytest.raises(lost if told_by == "a step" else told, match="was restarted"):
            session.partial_run(handle, sum_, {second: 2.0})
        assert session.run(sum_, whole) == 3.0
