"""Tasks that are killed and started again, with the sessions that knew them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from tests.serve.clusters import Cluster, ProcessCluster, aborted, in_process, processes


@pytest.fixture(params=["off", "on"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProcessCluster]:
    """A process each for a ps and a worker."""
    monkeypatch.setenv("HEADRACE_LANE", request.param)
    with processes({"ps": 1, "worker": 1}) as cluster:
        yield cluster


class Program:
    """A variable on the ps, read by way of the worker."""

    def __init__(self) -> None:
        with tf.device("/job:ps"):
            self.variable = tf.Variable(1.0)
            self.other = self.variable * 3.0
        with tf.device("/job:worker"):
            self.total = self.variable + 1.0
        self.init = tf.global_variables_initializer()


def test_a_session_works_on_with_a_task_that_came_back(cluster: ProcessCluster) -> None:
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        total = session.make_callable(program.total)
        assert total() == session.run(program.total) == 2.0
        assert session.run(program.other) == 3.0
        cluster.kill("ps:0")
        with pytest.raises(tf.errors.UnavailableError, match="/job:ps/replica:0/task:0"):
            session.run(program.total)
        cluster.start("ps:0")
        error = aborted(lambda: session.run(program.total))
        assert "/job:ps/replica:0/task:0 was restarted" in str(error)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
            session.run(program.total)
        session.run(program.init)
        assert total() == session.run(program.total) == 2.0
        assert session.run(program.other) == 3.0


def test_a_session_is_made_anew_on_a_master_that_came_back(cluster: ProcessCluster) -> None:
    program = Program()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(program.init)
        total = session.make_callable(program.total)
        assert total() == session.run(program.total) == 2.0
        cluster.kill("worker:0")
        with pytest.raises(tf.errors.UnavailableError):
            session.run(program.total)
        cluster.start("worker:0")
        assert "was restarted" in str(aborted(lambda: session.run(program.total)))
        assert session.run(program.total) == 2.0  # the ps has kept its state
        assert total() == 2.0


@pytest.fixture
def here() -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


@pytest.mark.parametrize("task", ["ps:0", "worker:0"])
def test_sessions_within_a_process_work_on_as_well(here: Cluster, task: str) -> None:
    program = Program()
    with tf.Session(here.target("worker:0")) as session:
        session.run(program.init)
        assert session.run(program.total) == 2.0
        here.servers[task].stop()
        here.start(task)
        assert "was restarted" in str(aborted(lambda: session.run(program.total)))
        session.run(program.init)
        assert session.run(program.total) == 2.0


def test_a_session_that_was_reset_stays_closed(here: Cluster) -> None:
    program = Program()
    with tf.Session(here.target("worker:0")) as session:
        session.run(program.init)
        tf.Session.reset(here.target("worker:0"))
        for _ in range(2):
            with pytest.raises(tf.errors.AbortedError, match="session"):
                session.run(program.total)
