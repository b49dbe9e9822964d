"""What a session that asks tasks for steps by itself makes of the end of its keep-alive call at the master."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.client.remote_session import RemoteSession
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.rpc import methods
from headrace.serve.rpc.pool import GrowingPool


class Master:
    """Stands for a peer: a test answers what it was asked."""

    remote, stale, name = True, False, "the server at nowhere:1"

    def __init__(self) -> None:
        self.asked: list[tuple[methods.Method, Any, Pending[Any]]] = []

    def call(self, method: methods.Method, request: Any, scope: Scope, **_: Any) -> Pending[Any]:
        pending: Pending[Any] = Pending()
        self.asked.append((method, request, pending))
        return pending

    def next(self) -> tuple[Any, Pending[Any]]:
        """The oldest question that was not looked at yet."""
        _, request, pending = self.asked.pop(0)
        return request, pending


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def remote(master: Master, graph: tf.Graph) -> Iterator[RemoteSession]:
    """A session on its master, kept alive."""
    pool = GrowingPool("test")
    remote = RemoteSession(master, "grpc://nowhere:1", graph, tf.ConfigProto(), Scope(), pool)  # type: ignore[arg-type]
    remote._create([])
    _, creating = master.next()
    lane = pb.LaneAddress(server=7)
    creating.resolve(pb.CreateSessionResponse(session_handle="s", headrace_lane=lane))
    yield remote
    pool.shutdown()


GONE = errors.unavailable("the connection broke")


def broken(master: Master) -> Pending[Any]:
    """Break the keep-alive call; the question whether the master has the session still."""
    _, keep_alive = master.next()
    keep_alive.reject(GONE)
    again, _ = master.asked[0][1:]
    assert not again.only_asks
    (asks, pending) = master.asked[1][1:]
    assert asks.only_asks
    return pending


def test_a_master_that_has_the_session_still_lets_steps_go_on(
    remote: RemoteSession, master: Master
) -> None:
    before = remote.direct
    assert before is not None
    question = broken(master)
    assert remote.direct is None  # until it is known
    question.resolve(pb.AttendSessionResponse())
    assert remote.direct is before
    assert before.error is None


def test_a_master_that_does_not_answer_ends_the_steps(
    remote: RemoteSession, master: Master
) -> None:
    before = remote.direct
    assert before is not None
    broken(master).reject(errors.deadline_exceeded("too late"))
    assert isinstance(before.error, errors.UnavailableError)
    assert "nowhere:1" in before.error.message
    assert remote.direct is None
    _, last = master.asked[-1][1:]
    last.resolve(pb.AttendSessionResponse())  # much later
    assert remote.direct is not None
    assert remote.direct is not before


def test_a_master_that_was_restarted_ends_the_steps_for_good(
    remote: RemoteSession, master: Master
) -> None:
    before = remote.direct
    assert before is not None
    broken(master).reject(errors.aborted("session 's' is not known"))
    assert isinstance(before.error, errors.AbortedError)
    _, last = master.asked[-1][1:]
    last.reject(errors.aborted("session 's' is not known"))
    assert remote.direct is None


def test_a_session_that_its_master_has_closed_ends_the_steps_with_its_reason(
    remote: RemoteSession, master: Master
) -> None:
    before = remote.direct
    assert before is not None
    _, keep_alive = master.next()
    reason = pb.ErrorDetail(code=errors.ABORTED, message="closed by tf.Session.reset")
    keep_alive.resolve(pb.AttendSessionResponse(reason=reason))
    assert isinstance(before.error, errors.AbortedError)
    assert "tf.Session.reset" in before.error.message
    assert remote.direct is None
