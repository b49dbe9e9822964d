"""Connections of the lane that are made before one is wanted: they are used, or nobody notices them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect import local_servers, peers
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.connect.peers import Peers
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.lane import connect
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.transport import TRANSPORT as LANE
from headrace.serve.rpc import methods
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.transport import Destination, Unreachable
from tests.serve.clusters import Cluster, in_process
from tests.serve.raw_lane import lane_of

SOON = 30.0
A_MOMENT_S = 0.1  # for a thread that need not get on


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


class Meanwhile:
    """The transport of the lane; while it connects for the first time, another thread may do `also`."""

    def __init__(self, also: Callable[[], object]) -> None:
        self.made: list[LanePeer] = []
        self.other = threading.Thread(target=also)

    def connect(self, to: Destination) -> LanePeer:
        self.made.append(LANE.connect(to))
        if len(self.made) == 1:
            self.other.start()
            self.other.join(A_MOMENT_S)
        return self.made[-1]


@pytest.mark.parametrize("change", [0, 1], ids=["the same start", "another start"])
def test_threads_that_learn_of_the_lane_at_once_leave_no_connection(
    cluster: Cluster, change: int
) -> None:
    """Two tasks that are answered at the same time, say."""
    offer, again = lane_of(cluster), pb.LaneAddress()
    again.CopyFrom(offer)
    again.server += change
    with closing(RoutedPeer(cluster.address("ps:0"), "ps:0")) as peer:
        meanwhile: Any = Meanwhile(lambda: peer._lead_to(again))
        peer._beside = meanwhile
        peer._lead_to(offer)
        meanwhile.other.join(SOON)
        assert [each for each in meanwhile.made if not each._closed] == [peer._fast]
    assert all(each._closed for each in meanwhile.made)


def test_a_task_that_has_ended_leaves_no_connection_to_whom_it_is_just_asking_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections are closed while another thread makes one more."""
    task = "/job:ps/replica:0/task:0"
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    pool = GrowingPool("test")
    mine = Peers({task: cluster.address("ps:0")}, "/job:worker/replica:0/task:0", None, pool)
    connect_to = peers.connect

    def closing_meanwhile(*args: Any) -> Any:
        mine.close()
        return connect_to(*args)

    monkeypatch.setattr(peers, "connect", closing_meanwhile)
    peer = mine.get(task)
    pool.shutdown()
    assert isinstance(peer, RoutedPeer)
    assert peer._nearby is None
    with pytest.raises(errors.OpError):
        peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(SOON))
