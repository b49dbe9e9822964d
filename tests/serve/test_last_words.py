"""A lane that is stopped while a call is being answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc import methods
from headrace.serve.rpc.security import Security
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.serve.raw_lane import lane_of, lane_peer, shell_of

Handle = Callable[[Callable[[Any], None]], None]


@pytest.fixture(params=["unix", "tcp"])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    TRANSPORTS[request.param](monkeypatch)
    with in_process({"ps": 1}) as cluster:
        yield cluster


@pytest.fixture
def during_calls(cluster: Cluster) -> Handle:
    """during_calls(f) has every method of the lane call f(transport), and answer with a status."""
    transport = shell_of(cluster)

    def use(act: Callable[[Any], None]) -> None:
        def handle(request: Any, scope: Scope) -> pb.GetStatusResponse:
            act(transport)
            return pb.GetStatusResponse(headrace_clock_ns=7)

        transport.handlers = {
            number: found._replace(handle=handle) for number, found in transport.handlers.items()
        }

    return use


def ask(cluster: Cluster) -> int:
    with lane_peer(lane_of(cluster), Security()) as peer:
        reply = peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(30.0))
        return int(reply.headrace_clock_ns)


def test_a_call_that_ends_while_the_server_stops_is_answered(
    cluster: Cluster, during_calls: Handle
) -> None:
    during_calls(lambda transport: [each.finish() for each in list(transport._connections)])
    assert ask(cluster) == 7


def test_a_call_that_does_not_end_in_time_is_cut_off(
    cluster: Cluster, during_calls: Handle
) -> None:
    during_calls(lambda transport: transport.stop())
    with pytest.raises(tf.errors.UnavailableError, match="the server"):
        ask(cluster)
