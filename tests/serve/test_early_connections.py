"""Connections of the lane that are made before one is wanted: they are used, or nobody notices them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.lane import connect
from headrace.serve.lane.client import LanePeer
from headrace.serve.rpc import methods
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.transport import Unreachable
from tests.serve.clusters import Cluster, in_process
from tests.serve.raw_lane import lane_of

SOON = 30.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that anybody has connected to by the unix socket."""
    found: list[str] = []
    original = connect.address_of

    def noting(path: str) -> Any:
        found.append(path)
        return original(path)

    monkeypatch.setattr(connect, "address_of", noting)
    return found


@pytest.fixture
def peer(cluster: Cluster, connected: list[str]) -> Iterator[LanePeer]:
    rpcs = OutstandingRpcs("", pytest.fail)
    with closing(rpcs):
        peer = LanePeer(lane_of(cluster), "127.0.0.1", "ps:0", 1 << 20, rpcs, Security())
        with closing(peer):
            yield peer


def ask(peer: LanePeer) -> pb.GetStatusResponse:
    found: pb.GetStatusResponse = peer.call_now(
        methods.GET_STATUS, pb.GetStatusRequest(), Scope(SOON)
    )
    return found


def test_the_first_call_takes_the_connection_that_is_there(
    peer: LanePeer, connected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "EARLY_FOR_S", SOON)
    peer.connect_early()
    assert len(connected) == 1
    for _ in range(2):
        assert ask(peer).device_attributes
    assert len(connected) == 1


def test_one_that_is_old_is_not_trusted(
    peer: LanePeer, connected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.connect_early()
    monkeypatch.setattr(connect, "EARLY_FOR_S", 0.0)
    assert ask(peer).device_attributes
    assert len(connected) == 2


def test_one_that_has_broken_is_replaced(peer: LanePeer, connected: list[str]) -> None:
    peer.connect_early()
    ((sock, _),) = peer._connector._early
    sock.shutdown(socket.SHUT_RDWR)
    assert ask(peer).device_attributes
    assert len(connected) == 2


def test_one_that_nobody_wanted_is_closed_with_its_peer(peer: LanePeer) -> None:
    peer.connect_early()
    ((sock, _),) = peer._connector._early
    peer.close()
    assert sock.fileno() == -1


def test_where_nobody_listens_the_first_call_says_so(cluster: Cluster) -> None:
    lane = pb.LaneAddress()
    lane.CopyFrom(lane_of(cluster))
    lane.unix_path += "-gone"
    lane.tcp_port = 0
    rpcs = OutstandingRpcs("", pytest.fail)
    with closing(rpcs):
        peer = LanePeer(lane, "127.0.0.1", "ps:0", 1 << 20, rpcs, Security())
        with closing(peer):
            peer.connect_early()
            with pytest.raises(Unreachable, match="the lane of ps:0 cannot be reached"):
                ask(peer)


def test_a_peer_that_was_closed_begins_none_that_stays(cluster: Cluster) -> None:
    peer = RoutedPeer(cluster.address("ps:0"), "ps:0")
    asked = peer.call(methods.GET_STATUS, pb.GetStatusRequest(), Scope(SOON), wait_for_ready=True)
    asked.wait(Scope(SOON))
    peer.close()
    peer._learn(asked)
    assert peer._fast is None
