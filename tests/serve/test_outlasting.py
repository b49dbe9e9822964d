"""A step whose limit is shorter than the making of its plan: the plan is made all the same, for whoever asks next."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.master import planner
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.support.limits import deadline_that_says
from tests.support.until import until

LIMIT_MS = 100
BRIEFLY = tf.RunOptions(timeout_in_ms=LIMIT_MS)
WITHIN_S = 20.0


class Gate:
    """What keeps registration on ps:0 waiting until it is opened.  came: the tasks that were asked for it.

    error: what registration fails with.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.came: list[str] = []
        self.error: tf.errors.OpError | None = None
        register = Worker.register_graph

        def registering(worker: Worker, request: pb.RegisterGraphRequest, scope: Scope) -> Any:
            self.came.append(worker.task)
            if worker.task.endswith("ps/replica:0/task:0"):
                assert self.opened.wait(WITHIN_S)
            reply = register(worker, request, scope)
            if self.error is not None:
                raise self.error
            return reply

        monkeypatch.setattr(Worker, "register_graph", registering)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.opened.set()


@pytest.fixture(params=["grpc", "unix"])
def cluster(
    gate: Gate, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    TRANSPORTS[request.param](monkeypatch)
    with in_process({"ps": 2, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def on_both() -> list[tf.Tensor]:
    """A value of each ps."""
    found = []
    for task in range(2):
        with tf.device(f"/job:ps/task:{task}"):
            found.append(tf.random_uniform([]) * 0.0 + float(task))
    return found


def made(cluster: Cluster, config: tf.ConfigProto | None = None) -> tf.Session:
    """A session that its master knows."""
    with tf.device("/job:worker"):
        first = tf.no_op()
    session = tf.Session(cluster.target("worker:0"), config=config)
    session.run(first, options=tf.RunOptions(timeout_in_ms=60_000))
    return session


def fails_late(session: tf.Session, fetches: object, **more: Any) -> str:
    """What the error of a step says whose limit passes.  On a busy machine it may pass before all servers answer."""
    while True:
        try:
            with pytest.raises(tf.errors.DeadlineExceededError) as caught:
                session.run(fetches, **more)
        except tf.errors.UnavailableError as error:
            if "not answered for 0.1 s" not in error.message:
                raise
        else:
            return str(caught.value)


def registered(cluster: Cluster) -> int:
    """How many parts the ps hold."""
    return sum(len(cluster.servers[f"ps:{task}"].worker._graphs) for task in range(2))


def test_what_a_step_began_to_register_outlasts_it(cluster: Cluster, gate: Gate) -> None:
    values = on_both()
    with made(cluster) as session:
        fails_late(session, values, options=BRIEFLY)
        late = deadline_that_says(lambda options: session.run(values, options=options), "/job:ps")
        assert "/job:ps/replica:0/task:0" in str(late)
        assert "task:1" not in str(late)
        gate.opened.set()
        assert session.run(values) == [0.0, 1.0]
        assert sorted(gate.came)[:-1] == [f"/job:ps/replica:0/task:{task}" for task in range(2)]


def test_the_limit_of_a_session_ends_no_registration_either(cluster: Cluster, gate: Gate) -> None:
    values = on_both()
    config = tf.ConfigProto(operation_timeout_in_ms=LIMIT_MS)
    with made(cluster, config) as session:
        assert "/job:ps/replica:0/task:0" in fails_late(session, values)
        gate.opened.set()
        until(lambda: registered(cluster) == 2)
        assert session.run(values, options=tf.RunOptions(timeout_in_ms=60_000)) == [0.0, 1.0]
        assert len(gate.came) == 3


def test_neither_does_one_that_passes_while_nodes_are_placed(
    cluster: Cluster, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what the client gives up meanwhile, and the tasks have not been asked for anything yet."""
    gate.opened.set()
    values, place = on_both(), planner.place
    given_up = threading.Event()

    def slow(*args: Any, **how: Any) -> Any:
        assert given_up.wait(WITHIN_S)
        return place(*args, **how)

    with made(cluster) as session:
        monkeypatch.setattr(planner, "place", slow)
        fails_late(session, values, options=BRIEFLY)
        given_up.set()
        until(lambda: registered(cluster) == 2)
        assert session.run(values) == [0.0, 1.0]
        assert registered(cluster) == 2


def test_closing_the_session_ends_the_registration(cluster: Cluster, gate: Gate) -> None:
    values = on_both()
    session = made(cluster)
    fails_late(session, values, options=BRIEFLY)
    session.close()
    gate.opened.set()
    until(lambda: registered(cluster) == 0 and not cluster.servers["worker:0"].master._sessions)


def test_what_registration_fails_with_is_told_to_whoever_asks_next(
    cluster: Cluster, gate: Gate
) -> None:
    values = on_both()
    with made(cluster) as session:
        gate.error = tf.errors.InvalidArgumentError(None, None, "not this one")
        fails_late(session, values, options=BRIEFLY)
        gate.opened.set()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not this one"):
            session.run(values)
        gate.error = None
        assert session.run(values) == [0.0, 1.0]


def test_a_task_that_is_missing_is_named(cluster: Cluster, gate: Gate) -> None:
    gate.opened.set()
    values = on_both()
    cluster.servers["ps:0"].stop()
    with (
        tf.Session(cluster.target("worker:0")) as session,
        pytest.raises(tf.errors.UnavailableError, match=r"/job:ps/replica:0/task:0 at .* has not"),
    ):
        deadline_that_says(
            lambda options: session.run(values, options=options), "it is Unavailable"
        )


def test_a_restart_while_nobody_waits_is_told_once(cluster: Cluster, gate: Gate) -> None:
    """It is the registration that notices it, long after the step has failed; the client hears of it in the next."""
    gate.opened.set()
    with tf.device("/job:ps/task:0"):
        kept = tf.Variable(1.0)
    values = on_both()
    with made(cluster) as session:
        session.run(kept.initializer)
        gate.opened.clear()
        fails_late(session, values, options=BRIEFLY)
        stopping = threading.Thread(target=cluster.servers["ps:0"].stop)
        stopping.start()
        until(lambda: cluster.servers["ps:0"].worker.closed)
        gate.opened.set()
        stopping.join()
        cluster.start("ps:0")
        with pytest.raises(tf.errors.AbortedError, match="restarted"):
            session.run(values)
        assert session.run(values) == [0.0, 1.0]
