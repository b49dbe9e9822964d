"""Clients that are gone: what they had on the servers is ended, and nobody else's."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.client.remote_session import RemoteSession
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.master.session_reaper import SessionReaper, session_idle_s
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.pool import GrowingPool
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS, Background, Blocked
from tests.serve.endings import WITHIN_S, Endings

Start = Callable[[Callable[[], Any]], Background]


@pytest.fixture(params=["grpc", "unix", "tcp"])
def cluster(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, endings: Endings
) -> Iterator[Cluster]:
    TRANSPORTS[request.param](monkeypatch)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


def sessions(cluster: Cluster) -> int:
    return len(cluster.servers["worker:0"].master._sessions)


CLIENT = """
import sys
import headrace as tf
with tf.device("/job:ps"):
    queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
    take, size = queue.dequeue(), queue.size()
session = tf.Session(sys.argv[1])
session.run(size)
if sys.argv[2] == "waits":
    session.run(take)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["waits", "is idle"])
def test_a_client_that_is_killed_leaves_no_session(
    cluster: Cluster, endings: Endings, monkeypatch: pytest.MonkeyPatch, blocked: Blocked, how: str
) -> None:
    monkeypatch.setattr(LIMITS, "close_within_s", WITHIN_S)
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, cluster.target("worker:0"), how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        if how == "waits":
            blocked.wait()
        else:
            assert client.stdout is not None
            assert client.stdout.readline() == "ready\n"
        assert sessions(cluster) == 1
        monkeypatch.setattr(LIMITS, "client_gone_after_s", 0.05)
    finally:
        client.kill()
        client.communicate()
    assert "its client" in endings.wait()
    assert sessions(cluster) == 0
    refused = errors.unavailable("draining")
    for server in cluster.servers.values():
        server.worker.drain(refused, Scope(WITHIN_S))  # no step of it is under way any more
    (queue,) = cluster.servers["ps:0"].worker.runtime.resources.all()
    assert queue.size() == 0  # type: ignore[attr-defined]
    assert not cluster.servers["ps:0"].worker._sessions


def test_a_client_that_lives_keeps_its_session_however_idle(
    cluster: Cluster, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one, that does not keep its session alive, says when an idle session would be gone."""
    one = tf.constant(1)
    with in_process({"local": 1}) as own:
        monkeypatch.setenv("HEADRACE_SESSION_IDLE_S", "0.05")
        own.servers["local:0"].stop()
        server = own.start("local:0")
        with tf.Session(server.target) as session:
            assert session.run(one) == 1
            stranger(server.target)
            assert "no step for 0.05 s" in endings.wait()
            assert session.run(one) == 1
        assert len(endings.errors) == 1


def test_a_client_that_dies_before_it_attends_leaves_no_session_either(
    cluster: Cluster, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "client_gone_after_s", 0.05)
    monkeypatch.setattr(RemoteSession, "_send_keep_alive", lambda self, handle: None)
    with tf.Session(cluster.target("worker:0")) as session:
        with contextlib.suppress(tf.errors.AbortedError):  # it may be over so soon
            session.list_devices()
        assert "its client" in endings.wait()


@pytest.mark.parametrize("session_ends", [True, False])
def test_a_session_that_is_attended_takes_no_thread_of_its_master(
    monkeypatch: pytest.MonkeyPatch, session_ends: bool
) -> None:
    """Thousands may be idle.  Every job of the server's threads is done while the keep-alive goes on."""
    TRANSPORTS["grpc"](monkeypatch)
    jobs: list[Future[Any]] = []
    submit = GrowingPool.submit

    def counted(pool: GrowingPool, *job: Any) -> Future[Any]:
        jobs.append(submit(pool, *job))
        return jobs[-1]

    monkeypatch.setattr(GrowingPool, "submit", counted)
    with in_process({"local": 1}) as cluster:
        handle = stranger(cluster.target("local:0"))
        watched = cluster.servers["local:0"].master._session_reaper._watched[handle]
        has_come = threading.Event()
        monkeypatch.setattr(SessionReaper, "keep_alive", told(SessionReaper.keep_alive, has_come))
        with closing(GrpcPeer(cluster.address("local:0"))) as peer:
            attending = Scope()
            request = pb.AttendSessionRequest(session_handle=handle)
            keep_alive = peer.call(methods.ATTEND_SESSION, request, attending)
            assert has_come.wait(WITHIN_S)
            assert not wait(list(jobs), WITHIN_S).not_done
            assert len(watched.keep_alives) == 1
            if session_ends:
                close = pb.CloseSessionRequest(session_handle=handle)
                peer.call_now(methods.CLOSE_SESSION, close, Scope(WITHIN_S))
                assert "closed" in keep_alive.wait(Scope(WITHIN_S)).reason.message
            else:
                has_left = threading.Event()
                monkeypatch.setattr(SessionReaper, "_left", told(SessionReaper._left, has_left))
                attending.cancel(errors.cancelled("no more"))
                assert has_left.wait(WITHIN_S)


def told(function: Callable[..., Any], event: threading.Event) -> Callable[..., Any]:
    """`function`, which sets an event when it has returned."""

    def call(*args: Any) -> Any:
        result = function(*args)
        event.set()
        return result

    return call


def stranger(target: str) -> str:
    """A session of a client that is not ours; its handle."""
    peer = GrpcPeer(target.removeprefix("grpc://"))
    try:
        made = peer.call_now(methods.CREATE_SESSION, pb.CreateSessionRequest(), Scope(WITHIN_S))
    finally:
        peer.close()
    handle: str = made.session_handle
    return handle


def test_a_connection_that_breaks_is_made_again_and_the_session_goes_on(
    cluster: Cluster, endings: Endings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "client_gone_after_s", WITHIN_S)
    ours = cluster.servers["worker:0"].master
    kept_alive = threading.Semaphore(0)
    original = ours._session_reaper.keep_alive
    ours._session_reaper.keep_alive = lambda handle: (original(handle), kept_alive.release())[0]  # type: ignore[method-assign,func-returns-value]
    one = tf.constant(1)
    with tf.Session(cluster.target("worker:0")) as session:
        assert session.run(one) == 1
        assert kept_alive.acquire(timeout=WITHIN_S)
        (watched,) = ours._session_reaper._watched.values()
        (first,) = watched.keep_alives
        first.reject(errors.unavailable("the connection broke"))
        assert kept_alive.acquire(timeout=WITHIN_S)
        assert session.run(one) == 1
    assert not endings.errors


@pytest.mark.parametrize("under_way", [True, False])
def test_a_client_that_was_given_up_and_lives_is_told_once_and_goes_on(
    cluster: Cluster, endings: Endings, blocked: Blocked, background: Start,
    monkeypatch: pytest.MonkeyPatch, under_way: bool,
) -> None:  # fmt: skip
    """As one that was stopped for long, or cut off."""
    monkeypatch.setattr(LIMITS, "client_gone_after_s", WITHIN_S)
    monkeypatch.setattr(RemoteSession, "_send_keep_alive", lambda self, handle: None)
    with tf.device("/job:ps"):
        variable = tf.Variable(1.0)
        queue = tf.FIFOQueue(1, [tf.int32], [[]])
        put, take, size = queue.enqueue(3), queue.dequeue(), queue.size()
    add = variable.assign_add(1.0)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(variable.initializer)
        if under_way:
            step = background(lambda: session.run(take))
            blocked.wait()
        ours = cluster.servers["worker:0"].master
        (handle,) = ours._sessions
        monkeypatch.setattr(LIMITS, "client_gone_after_s", 0.0)
        ours._session_reaper._check_within(handle, 0.0)
        endings.wait()
        monkeypatch.setattr(LIMITS, "client_gone_after_s", WITHIN_S)
        error = step.error() if under_way else failure(lambda: session.run(add))
        assert type(error) is tf.errors.AbortedError
        assert "its client" in error.message
        assert session.run(add) == 2.0
        session.run(put)
        assert session.run(size) == 1  # the dequeue that was under way has left no trace
    assert sessions(cluster) == 0


def failure(call: Callable[[], Any]) -> tf.errors.OpError:
    with pytest.raises(tf.errors.OpError) as caught:
        call()
    return caught.value


def test_a_session_that_is_closed_in_time_is_forgotten(cluster: Cluster, endings: Endings) -> None:
    ours = cluster.servers["worker:0"].master
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.constant(1))
    assert not ours._session_reaper._watched
    assert ours._session_reaper._timers.empty


# -- the idle limit -------------------------------------------------------------------------------


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch, endings: Endings) -> Iterator[Cluster]:
    """A server with an idle limit, a long one."""
    TRANSPORTS["grpc"](monkeypatch)
    monkeypatch.setenv("HEADRACE_SESSION_IDLE_S", "600")
    with in_process({"local": 1}) as cluster:
        yield cluster


def hurry(cluster: Cluster) -> None:
    """Make the limit a short one, for the sessions that there are."""
    keeper = cluster.servers["local:0"].master._session_reaper
    with keeper._lock:
        keeper._idle_s = 0.05
        for handle in keeper._watched:
            keeper._check_within(handle, 0.0)


def test_who_comes_back_to_a_session_that_was_idle_too_long_is_told(
    limited: Cluster, endings: Endings
) -> None:
    handle = stranger(limited.target("local:0"))
    hurry(limited)
    endings.wait()
    peer = GrpcPeer(limited.address("local:0"))
    try:
        for method, request in [
            (methods.RUN_STEP, methods.m.RunStepRequest(handle, [], [], [])),
            (methods.ATTEND_SESSION, pb.AttendSessionRequest(session_handle=handle)),
        ]:
            with pytest.raises(errors.AbortedError, match=r"no step for 0\.05 s .*HEADRACE_SESS"):
                peer.call_now(method, request, Scope(WITHIN_S))
    finally:
        peer.close()


def test_a_session_with_a_step_is_not_idle(
    limited: Cluster, endings: Endings, blocked: Blocked, background: Start,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    take_over = SessionReaper.take  # as if the client were TensorFlow's
    monkeypatch.setattr(SessionReaper, "take", lambda self, made, _: take_over(self, made, False))
    monkeypatch.setattr(RemoteSession, "_send_keep_alive", lambda self, handle: None)
    take = tf.FIFOQueue(1, [tf.int32], [[]]).dequeue()
    with tf.Session(limited.target("local:0")) as session:
        step = background(lambda: session.run(take))
        blocked.wait()
        hurry(limited)
        endings.wait_for_looks(8)  # twice the limit
        assert not step.done
        (queue,) = limited.servers["local:0"].worker.runtime.resources.all()
        queue.enqueue([tf.int32.as_numpy_dtype(3)])  # type: ignore[attr-defined]
        assert step.value() == 3
        assert "no step for 0.05 s" in endings.wait()
        with pytest.raises(tf.errors.AbortedError, match="make a new session"):
            session.run(take)


@pytest.mark.parametrize(("text", "limit"), [("", None), ("0", None), ("1.5", 1.5)])
def test_the_limit(text: str, limit: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SESSION_IDLE_S", text)
    assert session_idle_s() == limit


@pytest.mark.parametrize("text", ["soon", "-1"])
def test_a_limit_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SESSION_IDLE_S", text)
    with pytest.raises(errors.InvalidArgumentError, match="HEADRACE_SESSION_IDLE_S"):
        tf.train.Server.create_local_server()


def test_without_a_limit_nothing_is_looked_at(cluster: Cluster) -> None:
    stranger(cluster.target("worker:0"))
    keeper = cluster.servers["worker:0"].master._session_reaper
    assert keeper._timers.empty
