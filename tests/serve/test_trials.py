"""What tests.serve.trials lets pass, and what it does not."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.scope import Scope
from headrace.serve.rpc import messages as m
from headrace.serve.worker.worker import Worker
from tests.serve import trials
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import Background, Blocked
from tests.serve.proxies import ENDS, Faults, Proxy
from tests.serve.trials import Trial

PS = "/job:ps/replica:0/task:0"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "WORD_WITHIN_S", 0.0)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


def trial(cluster: Cluster, *, broken: bool = True, **fixtures: Any) -> Any:
    """Around what a test does; a connection was broken or not."""
    faults = Faults(0, 1)
    faults.done += ["closed"] * broken
    return Trial(cluster, faults, "see the test").of(SimpleNamespace(funcargs=fixtures))  # type: ignore[arg-type]


def unavailable(text: str = f"{PS} is gone") -> tf.errors.UnavailableError:
    return tf.errors.UnavailableError(None, None, text)


def test_the_error_of_a_fault_ends_a_test_well(cluster: Cluster) -> None:
    with trial(cluster):
        raise unavailable()


def test_so_does_an_error_that_came_of_a_fault(cluster: Cluster) -> None:
    with trial(cluster):
        raise tf.errors.OutOfRangeError(None, None, "closed") from unavailable()


def test_so_does_the_error_of_a_fault_in_the_place_of_another(cluster: Cluster) -> None:
    with trial(cluster), pytest.raises(tf.errors.UnavailableError, match="out of order"):
        raise unavailable()


def test_so_does_what_was_lost_with_a_step_in_another_thread(cluster: Cluster) -> None:
    def failing() -> None:
        raise unavailable()

    blocked = Blocked()
    with trial(cluster, blocked=blocked):
        Background(failing)
        blocked.wait()


BAD: list[tuple[str, Callable[[], BaseException], bool]] = [
    ("no connection was broken", unavailable, False),
    ("no task is named", lambda: unavailable("somebody is gone"), True),
    ("a wrong value", lambda: AssertionError("1 == 2"), True),
    ("another error", lambda: tf.errors.InternalError(None, None, PS), True),
    ("the time is over", lambda: pytest.fail.Exception("Timeout"), True),
]


@pytest.mark.parametrize(("what", "error", "broken"), BAD, ids=[what for what, _, _ in BAD])
def test_everything_else_fails_it_and_says_how_to_repeat_it(
    cluster: Cluster, what: str, error: Callable[[], BaseException], broken: bool
) -> None:
    raised = error()
    with pytest.raises(type(raised)) as caught, trial(cluster, broken=broken):
        raise raised
    assert caught.value is raised
    assert "again: see the test" in caught.value.__notes__[0]


def a_step_fails_its_trial(cluster: Cluster, complaint: str) -> None:
    with tf.device("/job:ps"):
        total = tf.random_uniform([]) + 1.0
    with (
        pytest.raises(AssertionError, match=complaint),
        trial(cluster),
        tf.Session(cluster.target("worker:0")) as session,
    ):
        session.run(total)


def test_a_step_that_is_begun_twice_fails_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_graph = Worker.run_graph

    def twice(worker: Worker, request: m.RunGraphRequest, scope: Scope) -> Any:
        run_graph(worker, request, scope)
        return run_graph(worker, request, scope)

    monkeypatch.setattr(Worker, "run_graph", twice)
    monkeypatch.setattr(Worker, "_end_step", lambda *args: None)
    a_step_fails_its_trial(cluster, "begun twice")


def test_a_step_that_is_asked_for_twice_fails_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = type(cluster.servers["worker:0"].master)
    run_step = master.run_step

    def twice(self: Any, request: m.RunStepRequest, scope: Scope) -> Any:
        run_step(self, request, scope)
        return run_step(self, request, scope)

    monkeypatch.setattr(master, "run_step", twice)
    a_step_fails_its_trial(cluster, "2 steps were begun, and 1 asked for")


def test_an_operation_that_is_left_in_a_queue_fails_it(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        size = tf.FIFOQueue(1, tf.int32, [[]], shared_name="full").size()
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(size)
    (queue,) = cluster.servers["ps:0"].worker.runtime.resources.all()
    for number in range(2):
        queue.enqueue([np.int32(number)])
    with pytest.raises(AssertionError, match="waits in 'full'"), trial(cluster):
        assert queue.size() == 1


# -- what ends connections ------------------------------------------------------------------------


def received(sock: socket.socket) -> tuple[bytes, bool]:
    """What comes until the end, and whether that is a reset."""
    content = b""
    try:
        while more := sock.recv(100):
            content += more
    except ConnectionResetError:
        return content, True
    return content, False


@pytest.mark.parametrize("how", ENDS)
def test_a_fault_ends_a_connection_in_the_middle_of_what_it_carries(how: str) -> None:
    faults = Faults(0, 1)
    faults._plan = [(3, how)]
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        proxy = stack.enter_context(Proxy(listener.getsockname(), faults=faults))
        client = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.port), 30.0))
        server = stack.enter_context(listener.accept()[0])
        server.settimeout(30.0)
        faults.begin()
        client.sendall(b"12345")
        assert received(server) == (b"123", how == "reset")
        if how == "half":
            client.sendall(b"6")
            server.sendall(b"answer")
            assert client.recv(100) == b"answer"
        else:
            assert received(client) == (b"", how == "reset")
    assert faults.done == [how]


def test_moments_are_a_seeds() -> None:
    plans = [Faults(seed, 1000)._plan for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert all(1 <= len(plan) <= 3 for plan in plans)
