"""Calls that are made once more, because the connection broke before the reply came."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.retries import RetriedCall, call_with_retries
from headrace.serve.rpc import methods as wire
from headrace.serve.rpc.methods import Method

LOST = errors.unavailable("the connection to /job:ps broke")
TWICE = errors.already_exists("was there before")


class Peer:
    """Answers with what it was given, one after the other."""

    name, remote, stale = "/job:ps", True, False

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[Method] = []

    def call(
        self, method: Method, request: Any, scope: Scope, wait_for_ready: bool = False
    ) -> Pending[Any]:
        self.asked.append(method)
        answer = self._answers.pop(0)
        failed = isinstance(answer, errors.OpError)
        return Pending.failed_with(answer) if failed else Pending.done_with(answer)


def asked(method: Method, *answers: Any) -> tuple[RetriedCall, list[Method]]:
    peer = Peer(*answers)
    return RetriedCall(peer, method, None, Scope()), peer.asked  # type: ignore[arg-type]


def test_a_call_is_made_again_where_somebody_is_there() -> None:
    call, methods = asked(wire.RECV_TENSOR, LOST, pb.GetStatusResponse(), "the value")
    assert call.result() == "the value"
    assert methods == [wire.RECV_TENSOR, wire.GET_STATUS, wire.RECV_TENSOR]


def test_a_call_is_made_again_only_once() -> None:
    call, methods = asked(wire.RECV_TENSOR, LOST, pb.GetStatusResponse(), LOST)
    assert call.error is LOST
    assert len(methods) == 3


def test_who_is_not_there_is_not_asked_again() -> None:
    call, methods = asked(wire.SEND_TENSOR, LOST, errors.deadline_exceeded("nobody"))
    assert call.error is LOST
    assert methods == [wire.SEND_TENSOR, wire.GET_STATUS]


def test_a_value_that_had_arrived_when_the_reply_was_lost_was_sent() -> None:
    call, _ = asked(wire.SEND_TENSOR, LOST, pb.GetStatusResponse(), TWICE)
    assert call.result() == pb.SendTensorResponse()


def test_a_value_that_was_taken_when_the_reply_was_lost_is_lost() -> None:
    call, _ = asked(wire.RECV_TENSOR, LOST, pb.GetStatusResponse(), TWICE)
    assert call.error is LOST


@pytest.mark.parametrize("method", [wire.SEND_TENSOR, wire.RECV_TENSOR], ids=lambda m: m.name)
def test_twice_at_the_first_attempt_is_an_error(method: Method) -> None:
    call, _ = asked(method, TWICE)
    assert isinstance(call.error, tf.errors.AlreadyExistsError)


def insisted(*answers: Any) -> tuple[Pending[Any], list[Method]]:
    peer = Peer(*answers)
    return call_with_retries(peer, wire.CLEANUP_GRAPH, None, Scope()), peer.asked  # type: ignore[arg-type]


def test_what_is_insisted_on_is_asked_until_it_is_heard() -> None:
    first, methods = insisted(LOST, LOST, pb.CleanupGraphResponse())
    assert first.error is LOST  # the rest is done behind the caller's back
    assert methods == [wire.CLEANUP_GRAPH] * 3


def test_who_was_heard_and_refused_is_left_alone() -> None:
    _, methods = insisted(LOST, TWICE)
    assert methods == [wire.CLEANUP_GRAPH] * 2


def test_who_refuses_at_once_is_not_asked_without_end() -> None:
    _, methods = insisted(*[LOST] * 1000)
    assert methods == [wire.CLEANUP_GRAPH] * 11
