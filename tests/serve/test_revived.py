"""Calls to a peer that was silent, which are made when it has answered a question."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.liveness import OutstandingRpcs, ResumedCall
from headrace.serve.rpc import methods
from headrace.serve.rpc.methods import Method

TOO_LATE = errors.deadline_exceeded("the time limit passed")


class Peer:
    """Answers when the test wants it to.  Whoever gives a call up hears of it, as over the lane."""

    name, remote, stale = "/job:ps", True, False

    def __init__(self) -> None:
        self.calls: list[tuple[Method, Pending[Any]]] = []

    def call(
        self, method: Method, request: Any, scope: Scope, wait_for_ready: bool = False
    ) -> Pending[Any]:
        reply: Pending[Any] = Pending(None, lambda _: True)  # type: ignore[arg-type]
        self.calls.append((method, reply))
        return reply


@pytest.fixture
def peer() -> Peer:
    return Peer()


@pytest.fixture
def call(peer: Peer) -> Iterator[ResumedCall]:
    rpcs = OutstandingRpcs("/job:ps", lambda answer_s: peer)  # type: ignore[arg-type,return-value]
    yield ResumedCall(peer, rpcs, methods.RUN_STEP, None, Scope())  # type: ignore[arg-type]
    rpcs.close()


def test_it_is_made_when_the_peer_has_answered(peer: Peer, call: ResumedCall) -> None:
    ((method, status),) = peer.calls
    assert method is methods.GET_STATUS
    status.resolve(pb.GetStatusResponse())
    method, reply = peer.calls[1]
    assert method is methods.RUN_STEP
    reply.resolve("done")
    assert call.result() == "done"


def test_who_gives_up_before_the_answer_makes_no_call(peer: Peer, call: ResumedCall) -> None:
    assert call.abandon(TOO_LATE)
    assert call.error is TOO_LATE
    assert peer.calls[0][1].error is not None
    assert len(peer.calls) == 1


def test_who_gives_up_the_call_gets_an_error_of_their_own(peer: Peer, call: ResumedCall) -> None:
    peer.calls[0][1].resolve(pb.GetStatusResponse())
    assert call.abandon(TOO_LATE)
    assert call.error is TOO_LATE
    assert peer.calls[1][1].error is not None
