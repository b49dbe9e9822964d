"""What a session that asks tasks for steps by itself makes of the end of its attendance on the master."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.client.link import Link
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
def link(master: Master, graph: tf.Graph) -> Iterator[Link]:
    """A session's link, attended."""
    pool = GrowingPool("test")
    link = Link(master, "grpc://nowhere:1", graph, tf.ConfigProto(), Scope(), pool)  # type: ignore[arg-type]
    link._create([])
    _, creating = master.next()
    lane = pb.LaneAddress(server=7)
    creating.resolve(pb.CreateSessionResponse(session_handle="s", headrace_lane=lane))
    yield link
    pool.shutdown()


GONE = errors.unavailable("the connection broke")


def broken(master: Master) -> Pending[Any]:
    """Break the attendance; the question whether the master has the session still."""
    _, attendance = master.next()
    attendance.reject(GONE)
    again, _ = master.asked[0][1:]
    assert not again.only_asks
    (asks, pending) = master.asked[1][1:]
    assert asks.only_asks
    return pending


def test_a_master_that_has_the_session_still_lets_steps_go_on(link: Link, master: Master) -> None:
    before = link.direct
    assert before is not None
    question = broken(master)
    assert link.direct is None  # until it is known
    question.resolve(pb.AttendSessionResponse())
    assert link.direct is before
    assert before.error is None


def test_a_master_that_does_not_answer_ends_the_steps(link: Link, master: Master) -> None:
    before = link.direct
    assert before is not None
    broken(master).reject(errors.deadline_exceeded("too late"))
    assert isinstance(before.error, errors.UnavailableError)
    assert "nowhere:1" in before.error.message
    assert link.direct is None
    _, last = master.asked[-1][1:]
    last.resolve(pb.AttendSessionResponse())  # much later
    assert link.direct is not None
    assert link.direct is not before


def test_a_master_that_was_restarted_ends_the_steps_for_good(link: Link, master: Master) -> None:
    before = link.direct
    assert before is not None
    broken(master).reject(errors.aborted("session 's' is not known"))
    assert isinstance(before.error, errors.AbortedError)
    _, last = master.asked[-1][1:]
    last.reject(errors.aborted("session 's' is not known"))
    assert link.direct is None


def test_a_session_that_its_master_has_closed_ends_the_steps_with_its_reason(
    link: Link, master: Master
) -> None:
    before = link.direct
    assert before is not None
    _, attendance = master.next()
    reason = pb.ErrorDetail(code=errors.ABORTED, message="closed by tf.Session.reset")
    attendance.resolve(pb.AttendSessionResponse(reason=reason))
    assert isinstance(before.error, errors.AbortedError)
    assert "tf.Session.reset" in before.error.message
    assert link.direct is None
