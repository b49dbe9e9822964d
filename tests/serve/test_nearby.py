"""Servers of the same host and user, found by their addresses alone: the lane from the first call on."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.lane import known
from headrace.serve.lane.known import Nearby
from headrace.serve.lane.transport import TRANSPORT as LANE
from headrace.serve.master.session_reaper import SessionReaper
from headrace.serve.rpc import methods
from headrace.serve.rpc.gather import Gather
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.security import Security
from tests.serve.clusters import Cluster, in_process, processes

SOON = 30.0
STATUS = pb.GetStatusRequest()
ALREADY = 0.001  # s, for what is there or never comes


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(LIMITS, "nearby_within_s", SOON)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with in_process({"ps": 1}) as cluster:
        yield cluster


@pytest.fixture
def peer(cluster: Cluster) -> Iterator[RoutedPeer]:
    with closing(RoutedPeer(cluster.address("ps:0"), "ps:0")) as peer:
        yield peer


def knows_grpc(peer: RoutedPeer) -> bool:
    return peer._main_channel is not None


def start_of(peer: RoutedPeer) -> int:
    """The incarnation of the server that is there now, asked for as whoever needs the server to be ready asks."""
    asked = peer.call(methods.GET_STATUS, STATUS, Scope(SOON), wait_for_ready=True)
    found: int = asked.wait(Scope(SOON)).device_attributes[0].incarnation
    return found


def asked_with_others(peer: RoutedPeer) -> None:
    with Scope(SOON) as scope, Gather(scope, 1.0) as gather:
        gather.add(peer.begin(methods.GET_STATUS, STATUS, scope))
        assert gather.replies()[0].device_attributes


FIRST_CALLS = {
    "call": lambda peer: peer.call(methods.GET_STATUS, STATUS, Scope(SOON)).wait(Scope(SOON)),
    "call_now": lambda peer: peer.call_now(methods.GET_STATUS, STATUS, Scope(SOON)),
    "begin": asked_with_others,
    "that waits": start_of,
    "prepare": lambda peer: peer.prepare(),
}


@pytest.mark.parametrize("first", FIRST_CALLS.values(), ids=FIRST_CALLS.keys())
def test_the_first_call_goes_over_the_lane(peer: RoutedPeer, first: Any) -> None:
    first(peer)
    assert peer.call_now(methods.GET_STATUS, STATUS, Scope(SOON)).device_attributes
    assert not knows_grpc(peer)


def test_a_client_of_this_host_loads_no_grpcio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_FROZEN_AFTER_S", "0")  # else a slow server is asked if it lives
    program = (  # of a slow server it is also tried over gRPC why it is
        "from headrace.serve.rpc.limits import LIMITS; LIMITS.nearby_within_s = LIMITS.first_probe_s = 30.0; "
        "import sys, headrace as tf; s = tf.Session(sys.argv[1]); x = tf.Variable(2.0); s.run(x.initializer); "
        "print(s.run(x * 3), 'grpc' in sys.modules); s.close()"
    )
    with processes({"worker": 1}) as cluster:
        found = subprocess.run(
            [sys.executable, "-c", program, cluster.target("worker:0")],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert found.stdout == "6.0 False\n", found.stderr


def test_a_server_that_was_started_anew_is_found_at_the_next_call_that_waits_for_one(
    cluster: Cluster, peer: RoutedPeer
) -> None:
    first = start_of(peer)
    cluster.servers["ps:0"].stop()
    cluster.start("ps:0")
    assert start_of(peer) not in (0, first)
    assert not knows_grpc(peer)


def test_a_peer_that_was_made_before_its_server_finds_it_all_the_same(cluster: Cluster) -> None:
    cluster.servers["ps:0"].stop()
    with closing(RoutedPeer(cluster.address("ps:0"), "ps:0")) as peer:
        cluster.start("ps:0")
        assert start_of(peer)
        assert not knows_grpc(peer)


def test_another_name_of_the_address_is_asked_over_grpc(cluster: Cluster) -> None:
    address = cluster.address("ps:0").replace("127.0.0.1", "localhost")
    with closing(RoutedPeer(address, "ps:0")) as peer:
        assert start_of(peer)
        assert knows_grpc(peer)


def test_nobody_looks_for_servers_beside_tls_or_where_there_is_no_unix_socket(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = cluster.address("ps:0")
    assert LANE.nearby(address, Security(authorities=b"somebody")) is None
    found = LANE.nearby(address, Security())
    assert found is not None
    found.close()
    for setting in ("tcp", "off"):
        monkeypatch.setenv("HEADRACE_LANE", setting)
        assert LANE.nearby(address, Security()) is None


def test_who_has_another_secret_hears_so_from_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_SECRET", "a secret of ours")
    with in_process({"ps": 1}) as cluster:
        address = cluster.address("ps:0")
        with closing(RoutedPeer(address, "ps:0")) as peer:
            assert start_of(peer)
            assert not knows_grpc(peer)
        for trusting in (Security(), Security("a secret of theirs")):
            with (
                closing(RoutedPeer(address, "ps:0", trusting)) as peer,
                pytest.raises(tf.errors.UnauthenticatedError),
            ):
                start_of(peer)


def test_a_server_that_listens_elsewhere_than_at_its_address_has_no_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_BIND", "127.0.0.2")
    with in_process({"ps": 1}) as cluster:
        assert LANE.nearby(cluster.address("ps:0"), Security()) is None


SAID = {"nothing": b"", "no frame": b"x" * 64, "the end": None}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID.keys())
def test_what_is_no_server_offers_nothing(said: bytes | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        address = f"127.0.0.1:{elsewhere.getsockname()[1]}"
        listener = known.bound(address)
        assert listener is not None
        with listener:
            assert known.bound(address) is None
            listener.listen()
            nearby = Nearby(address, Security())
            with closing(nearby), contextlib.ExitStack() as stack:
                there, _ = listener.accept()
                stack.enter_context(there)
                there.sendall(said) if said is not None else there.close()
                assert nearby.offer(ALREADY) is None
                assert nearby.sock is None


def test_who_is_interrupted_on_the_way_leaves_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(known.Parser):
        def put(self, data: Any) -> None:
            raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        address = f"127.0.0.1:{elsewhere.getsockname()[1]}"
        listener = known.bound(address)
        assert listener is not None
        with listener:
            listener.listen()
            nearby = Nearby(address, Security())
            there, _ = listener.accept()
            with there:
                there.sendall(b"x")
                monkeypatch.setattr(known, "Parser", Interrupted)
                with pytest.raises(KeyboardInterrupt):
                    nearby.offer(SOON)
                assert nearby.sock is None
                with pytest.raises(ConnectionResetError):  # it had not been read
                    there.recv(1)


def test_a_way_that_cannot_be_taken_leaves_no_connection(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of threads, say."""

    def connect(to: Any) -> Any:
        raise RuntimeError("can't start new thread")

    with closing(RoutedPeer(cluster.address("ps:0"), "ps:0")) as peer:
        nearby = peer._nearby
        assert isinstance(nearby, Nearby)
        monkeypatch.setattr(type(LANE), "connect", lambda self, to: connect(to))
        with pytest.raises(RuntimeError, match="new thread"):
            peer.call_now(methods.GET_STATUS, STATUS, Scope(SOON))
        assert nearby.sock is None


def test_a_session_that_is_being_closed_connects_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread's first step comes just then."""
    session = tf.Session(cluster.target("ps:0"), graph=tf.Graph())
    engine: Any = session._engine
    cancel, refused = Scope.cancel, []

    def after_a_step(scope: Scope, error: Any) -> None:
        if scope is engine.scope:
            with pytest.raises(tf.errors.CancelledError, match="the session was closed"):
                engine._remote()
            refused.append(True)
        cancel(scope, error)

    monkeypatch.setattr(Scope, "cancel", after_a_step)
    session.close()
    assert refused == [True]
    assert engine._current is None


# -- calls that last ------------------------------------------------------------------------------


@pytest.fixture
def handle(peer: RoutedPeer) -> str:
    """Of a session."""
    request = pb.CreateSessionRequest(headrace_attends=True)
    asked = peer.call(methods.CREATE_SESSION, request, Scope(SOON), wait_for_ready=True)
    found: str = asked.wait(Scope(SOON)).session_handle
    return found


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a session is attended."""
    keep_alive, begun = SessionReaper.keep_alive, threading.Event()

    def tell(reaper: SessionReaper, handle: str) -> Any:
        found = keep_alive(reaper, handle)
        begun.set()
        return found

    monkeypatch.setattr(SessionReaper, "keep_alive", tell)
    return begun


def attended(peer: RoutedPeer, handle: str) -> Any:
    request = pb.AttendSessionRequest(session_handle=handle)
    return peer.call(methods.ATTEND_SESSION, request, Scope(SOON), wait_for_ready=True)


def test_a_session_is_attended_over_the_lane_until_it_is_closed(
    peer: RoutedPeer, handle: str, begun: threading.Event
) -> None:
    attending = attended(peer, handle)
    assert begun.wait(SOON)  # the next call goes over another connection, and may be there first
    peer.call_now(methods.CLOSE_SESSION, pb.CloseSessionRequest(session_handle=handle), Scope(SOON))
    assert "closed" in attending.wait(Scope(SOON)).reason.message
    assert start_of(peer)  # over the connections that are left
    assert not knows_grpc(peer)


def test_attending_what_is_not_there_fails_as_it_does_over_grpc(peer: RoutedPeer) -> None:
    start_of(peer)
    with pytest.raises(tf.errors.AbortedError, match="nowhere"):
        attended(peer, "nowhere").wait(Scope(SOON))
    assert not knows_grpc(peer)


def test_a_server_that_stops_ends_the_calls_that_last(
    cluster: Cluster, peer: RoutedPeer, handle: str, begun: threading.Event
) -> None:
    attending = attended(peer, handle)
    assert begun.wait(SOON)
    cluster.servers["ps:0"].stop()
    with contextlib.suppress(tf.errors.UnavailableError):
        assert attending.wait(Scope(SOON)).reason.message
