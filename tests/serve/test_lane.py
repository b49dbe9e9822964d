"""The lane between headrace processes: how peers find it, when they do without, who may speak there."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frame_parser import Parser
from headrace.codec.frames import Kind
from headrace.run.exec.keys import key
from headrace.run.scope import Scope
from headrace.serve.connect.routed import RoutedPeer
from headrace.serve.grpc.client import GrpcPeer
from headrace.serve.lane import accepting as accepting_of
from headrace.serve.lane import answers
from headrace.serve.lane import client as lane_client
from headrace.serve.lane import connect as lane_connect
from headrace.serve.lane import connection as lane_connection
from headrace.serve.lane import socket as lane_socket
from headrace.serve.lane.call import Call
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.connection import Connection
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.options import lane_options
from headrace.serve.lane.server import LaneServer
from headrace.serve.lane.socket import LaneSocket, NothingSent
from headrace.serve.lane.unix_socket import address_of
from headrace.serve.lane.wire import NUMBERS
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.security import Security
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster, addresses, in_process
from tests.serve.conftest import TRANSPORTS, Background
from tests.serve.proxies import before
from tests.serve.raw_lane import lane_of, lane_peer, shell_of

Start = Callable[[Callable[[], Any]], Background]
STATUS = pb.GetStatusRequest()
WITHIN_S = 60.0


class Carried:
    """The transports that calls took: ("lane" or "grpc", method), in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        monkeypatch.setattr(GrpcPeer, "call", self._noting("grpc", GrpcPeer.call))
        for name in ("call", "call_now", "tell"):
            monkeypatch.setattr(LanePeer, name, self._noting("lane", getattr(LanePeer, name)))

    def _noting(self, kind: str, call: Any) -> Any:
        def noting(peer: Any, method: methods.Method, *args: Any, **kwargs: Any) -> Any:
            result = call(peer, method, *args, **kwargs)
            self.calls.append((kind, method.name))
            return result

        return noting

    def take(self) -> list[tuple[str, str]]:
        """Those since the last time."""
        taken, self.calls = self.calls, []
        return taken


@pytest.fixture
def carried(monkeypatch: pytest.MonkeyPatch) -> Carried:
    return Carried(monkeypatch)


@pytest.fixture(params=["unix", "tcp"])
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which lane there is.  No server is found by its address, so that it is asked for its lane: see test_nearby."""
    TRANSPORTS[request.param](monkeypatch)
    monkeypatch.setenv("HEADRACE_BIND", "localhost")
    return str(request.param)


@pytest.fixture
def cluster(lane: str) -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


def status(peer: RoutedPeer) -> pb.GetStatusResponse:
    reply: pb.GetStatusResponse = peer.call_now(methods.GET_STATUS, STATUS, Scope(WITHIN_S))
    return reply


@contextmanager
def routed(cluster: Cluster, task: str = "ps:0") -> Iterator[RoutedPeer]:
    """A peer that has been told where the lane is, if there is one."""
    with closing(RoutedPeer(cluster.address(task), task)) as peer:
        introduce(peer)
        yield peer


def introduce(peer: RoutedPeer) -> None:
    """Ask over gRPC, and wait until the answer has been understood."""
    known, learn = threading.Event(), peer._learn
    peer._learn = lambda reply: (learn(reply), known.set())[0]  # type: ignore[method-assign,func-returns-value]
    peer.call(methods.GET_STATUS, STATUS, Scope(WITHIN_S), wait_for_ready=True)
    assert known.wait(WITHIN_S)


# -- discovery ------------------------------------------------------------------------------------


def test_a_peer_asks_over_grpc_and_then_takes_the_lane(cluster: Cluster, carried: Carried) -> None:
    with routed(cluster) as peer:
        assert carried.take() == [("grpc", "GetStatus")]
        for _ in range(3):
            status(peer)
        peer.call(methods.GET_STATUS, STATUS, Scope(WITHIN_S)).wait(Scope(WITHIN_S))
        assert carried.take() == [("lane", "GetStatus")] * 4


def test_all_that_a_session_does_after_its_start_goes_over_the_lane(
    cluster: Cluster, carried: Carried
) -> None:
    with tf.device("/job:ps"):
        x = tf.Variable(tf.fill([100_000], True))  # no bools are lent
    with tf.device("/job:worker"):
        y = tf.reduce_sum(tf.cast(x, tf.float32) + tf.random_uniform([]) * 0.0)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(x.initializer)
        assert session.run(y) == 100_000.0
        for _ in range(100):  # the ps asks the worker for its lane while the first steps go on
            carried.take()
            assert session.run(y) == 100_000.0
            calls = carried.take()
            if {kind for kind, _ in calls} == {"lane"}:
                break
    assert {"SendTensor"} < {method for _, method in calls}
    assert {kind for kind, _ in calls} == {"lane"}


SETTINGS = {
    "": (True, True), "on": (True, True), "ON ": (True, True),
    "unix": (True, False), "tcp": (False, True), "off": (False, False),
}  # fmt: skip


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_environment_says_which_sockets_there_are(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LANE", setting)
    with tf.train.Server.create_local_server() as server:
        offered = server.worker.lane or pb.LaneAddress()
        assert (bool(offered.unix_path), bool(offered.tcp_port)) == SETTINGS[setting]
        path = offered.unix_path
        assert os.path.exists(path) == bool(path)
    assert not os.path.exists(os.path.dirname(path) or "/nothing")


def test_the_environment_fixes_the_tcp_port(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, port = addresses({"any": 1})["any"][0].rpartition(":")
    monkeypatch.setenv("HEADRACE_LANE_PORT", port)
    with tf.train.Server.create_local_server() as server:
        assert server.worker.lane.tcp_port == int(port)
        with pytest.raises(tf.errors.UnknownError, match=f"{port}.*HEADRACE_LANE_PORT"):
            tf.train.Server.create_local_server()


@pytest.mark.parametrize(
    ("name", "value"),
    [("HEADRACE_LANE", "udp"), ("HEADRACE_LANE_PORT", "65536"), ("HEADRACE_LANE_PORT", "-1"),
     ("HEADRACE_LANE_PORT", "first")],
)  # fmt: skip
def test_a_setting_that_means_nothing_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name}='{value}'"):
        lane_options()


def test_a_client_may_do_without_though_the_server_has_a_lane(
    cluster: Cluster, carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LANE", "off")
    with routed(cluster) as peer:
        assert status(peer).headrace_lane.server
    assert {kind for kind, _ in carried.take()} == {"grpc"}


def test_a_restarted_server_is_found_again(cluster: Cluster, carried: Carried) -> None:
    with routed(cluster) as peer:
        first = status(peer).headrace_lane.server
        cluster.servers["ps:0"].stop()
        with pytest.raises(tf.errors.UnavailableError):
            status(peer)
        cluster.start("ps:0")
        introduce(peer)
        carried.take()
        assert status(peer).headrace_lane.server not in (0, first)
        assert carried.take() == [("lane", "GetStatus")]


# -- without --------------------------------------------------------------------------------------


class Warnings(logging.Handler):
    """What headrace warns of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self._come = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self._come.release()

    def wait(self) -> None:
        """Block until there is one more."""
        assert self._come.acquire(timeout=WITHIN_S)


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    handler = Warnings()
    logger = logging.getLogger("headrace")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def nobody_listens(cluster: Cluster, task: str = "ps:0") -> pb.LaneAddress:
    lane = cluster.servers[task].worker.lane
    _, _, port = addresses({"any": 1})["any"][0].rpartition(":")
    return pb.LaneAddress(
        version=lane.version, server=lane.server, host=lane.host,
        unix_path="/nowhere/lane", tcp_port=int(port),
    )  # fmt: skip


def another_server(cluster: Cluster) -> pb.LaneAddress:
    lane = pb.LaneAddress()
    lane.CopyFrom(cluster.servers["worker:0"].worker.lane)
    lane.server = cluster.servers["ps:0"].worker.lane.server
    return lane


def sending_partition(number: int) -> pb.RegisterGraphRequest:
    """One of the ps that sends the worker `number`."""
    with tf.Graph().as_default() as graph:
        tf.constant(number, name="number")
    request = pb.RegisterGraphRequest(
        session_handle="s", graph_def=graph.as_graph_def(), headrace_pushes_to=[WORKER]
    )
    node = request.graph_def.node.add(name="send", op="_Send", input=["number"])
    node.attr["T"].type = pb.DT_INT32
    node.attr["tensor_name"].s = b"number"
    node.attr["send_device"].s = b"/job:ps/replica:0/task:0/device:CPU:0"
    node.attr["recv_device"].s = f"{WORKER}/device:CPU:0".encode()
    node.attr["send_device_incarnation"].i = 1
    node.attr["client_terminated"].b = False
    return request


WORKER = "/job:worker/replica:0/task:0"


class Sent:
    """Steps of the ps that send the worker a number, with nobody who asked for them."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ps, self._worker = (cluster.servers[task].worker for task in ("ps:0", "worker:0"))
        self._current = threading.Event()
        learn = RoutedPeer._learn

        def learning(peer: RoutedPeer, reply: Any) -> None:
            learn(peer, reply)
            self._current.set()

        monkeypatch.setattr(RoutedPeer, "_learn", learning)
        request = sending_partition(7)
        self._graph = self._ps.register_graph(request, Scope()).graph_handle

    def wait_until_looked(self) -> None:
        """Block until the worker has said whether it has a lane."""
        assert self._current.wait(WITHIN_S)

    def run(self, step_id: int) -> int:
        """What has arrived."""
        self._ps.run_graph(m.RunGraphRequest(self._graph, step_id, [], []), Scope(WITHIN_S))
        device = "/job:ps/replica:0/task:0/device:CPU:0"
        the_key = key(device, 1, f"{WORKER}/device:CPU:0", "number")
        arrived = self._worker._rendezvous(step_id).local.recv(the_key)
        value, _ = arrived.wait(Scope(WITHIN_S))
        self._worker._end_step(step_id, None)
        return int(value)


def test_a_task_is_asked_for_its_lane_before_it_is_sent_anything(
    cluster: Cluster, carried: Carried, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = Sent(cluster, monkeypatch)
    sent.wait_until_looked()
    assert carried.take() == [("grpc", "GetStatus")]
    assert [sent.run(step_id) for step_id in (1, 2)] == [7, 7]
    assert carried.take() == [("lane", "SendTensor")] * 2


def test_a_task_without_a_lane_is_asked_once(
    cluster: Cluster, carried: Carried, monkeypatch: pytest.MonkeyPatch, warnings: Warnings
) -> None:
    cluster.servers["worker:0"].worker.lane = None
    sent = Sent(cluster, monkeypatch)
    sent.wait_until_looked()
    assert [sent.run(step_id) for step_id in (1, 2)] == [7, 7]
    assert carried.take() == [("grpc", "GetStatus"), *[("grpc", "SendTensor")] * 2]
    assert warnings.texts == []


def test_a_task_whose_lane_leads_nowhere_gets_it_over_grpc_which_is_said_once(
    cluster: Cluster, carried: Carried, monkeypatch: pytest.MonkeyPatch, warnings: Warnings
) -> None:
    cluster.servers["worker:0"].worker.lane = nobody_listens(cluster, "worker:0")
    sent = Sent(cluster, monkeypatch)
    sent.wait_until_looked()
    assert sent.run(1) == 7
    warnings.wait()
    assert [sent.run(step_id) for step_id in (2, 3)] == [7, 7]
    assert [call for call in carried.take() if call[1] == "SendTensor"] == [
        ("grpc", "SendTensor")
    ] * 3
    (warning,) = warnings.texts
    assert "cannot be reached" in warning


def test_a_server_that_stops_sends_nobody_to_its_lane_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a peer that finds the lane closed says that it goes on over gRPC, which is about to close, too."""
    offered = []
    with tf.train.Server({"local": ["127.0.0.1:0"]}) as server:

        def status() -> pb.GetStatusResponse:
            return server.worker.get_status(STATUS, Scope())

        def stop(lane: LaneServer, *args: Any) -> None:
            offered.append(status().HasField("headrace_lane"))
            stop_lane(lane, *args)

        stop_lane = LaneServer.stop
        monkeypatch.setattr(LaneServer, "stop", stop)
        assert status().HasField("headrace_lane")
    assert offered == [False]


@pytest.mark.parametrize("offer", [nobody_listens, another_server])
def test_a_lane_that_cannot_be_reached_is_given_up_once_and_said_once(
    cluster: Cluster,
    carried: Carried,
    warnings: Warnings,
    offer: Callable[[Cluster], pb.LaneAddress],
) -> None:
    cluster.servers["ps:0"].worker.lane = offer(cluster)
    with routed(cluster) as peer:
        status(peer)
        warnings.wait()
        for _ in range(5):
            status(peer)
            introduce(peer)
    assert {kind for kind, _ in carried.take()} == {"grpc"}
    (warning,) = warnings.texts
    assert "the lane of ps:0" in warning
    assert "cannot be reached" in warning
    assert "going on over gRPC" in warning


def test_who_has_no_descriptor_left_goes_on_without_the_lane(
    cluster: Cluster, warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(lane_connect, "socket", SimpleNamespace(**{**vars(socket), "socket": full}))
    with routed(cluster) as peer:
        status(peer)
        warnings.wait()
        assert status(peer).headrace_pushes
    (warning,) = warnings.texts
    assert "Too many open files" in warning
    assert "going on over gRPC" in warning


def test_a_listener_without_descriptors_asks_again_when_some_may_be_free(
    warnings: Warnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so once, and does not ask all the time meanwhile."""
    asked: list[str] = []

    class Watching:
        def arm(self, _: object, wants_input: bool) -> None:
            asked.append("at once")

        def later(self, delay_s: float, callback: Callable[[], object]) -> None:
            assert delay_s > 0
            callback()
            asked[-1] = "later"

    class Listener:
        def __init__(self, *outcomes: int) -> None:
            self._outcomes = list(outcomes)

        def accept(self) -> tuple[str, object]:
            outcome = self._outcomes.pop(0)
            if outcome:
                raise OSError(outcome, os.strerror(outcome))
            return "a connection", None

    monkeypatch.setattr(accepting_of, "event_loop", Watching)
    taken: list[Any] = []
    outcomes = errno.EMFILE, errno.EMFILE, 0, errno.EAGAIN, 0, errno.EMFILE
    accepting = accepting_of._Accepting(Listener(*outcomes), taken.append)  # type: ignore[arg-type]
    for _ in range(4):
        accepting(False)
    assert asked == ["later", "later", "at once", "later"]
    assert len(taken) == 2
    assert ["ulimit -n" in text for text in warnings.texts] == [True, True]


def test_steps_go_on_over_grpc_when_no_lane_can_be_reached(
    cluster: Cluster, warnings: Warnings
) -> None:
    for server in cluster.servers.values():
        server.worker.lane = nobody_listens(cluster)
    with tf.device("/job:ps"):
        x = tf.Variable(tf.ones([10_000]))
    with tf.device("/job:worker"):
        y = tf.reduce_sum(x)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(x.initializer)
        assert [session.run(y) for _ in range(3)] == [10_000.0] * 3
    assert all("going on over gRPC" in warning for warning in warnings.texts)


def test_a_server_of_another_version_is_asked_over_grpc(
    cluster: Cluster, carried: Carried, warnings: Warnings
) -> None:
    cluster.servers["ps:0"].worker.lane.version += 1
    with routed(cluster) as peer:
        status(peer)
        status(peer)
    assert carried.take() == [("grpc", "GetStatus")] * 3
    assert warnings.texts == []


# -- who may speak --------------------------------------------------------------------------------

PREFIX = frames.PREFIX
HOSTILE = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + bytes(32),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "zeros": bytes(64),
    "another version of frames": PREFIX.pack(b"HR", frames.VERSION + 1, 0, 0, 0, 0, 0, 0, 0, 0),
    "an unknown kind": PREFIX.pack(b"HR", frames.VERSION, 9, 0, 0, 0, 0, 0, 0, 0),
    "a table that is too large": PREFIX.pack(
        b"HR", frames.VERSION, 0, 0, 0, 0, 1, 0, 0, 0xFFFFFFFF
    ),
    "a tensor of 2**62 bytes": PREFIX.pack(b"HR", frames.VERSION, 0, 0, 0, 0, 1, 0, 0, 24)
    + frames.ENTRY.pack(1, 1, 0, 0, 1 << 62)
    + frames.SIZES[1].pack(1 << 60),
    "random bytes": random.Random(4).randbytes(4096),
}


def raw(cluster: Cluster, lane: str) -> socket.socket:
    """A connection to the ps's lane that has had the handshake."""
    address = cluster.servers["ps:0"].worker.lane
    family = socket.AF_UNIX if lane == "unix" else socket.AF_INET
    sock = socket.socket(family)
    sock.settimeout(WITHIN_S)
    if lane == "unix":
        with address_of(address.unix_path) as where:
            sock.connect(where)
    else:
        sock.connect(("127.0.0.1", address.tcp_port))
    parser = Parser(1 << 20)
    while parser.next() is None:
        parser.received(sock.recv_into(parser.buffer()))
    return sock


def read_to_end(sock: socket.socket) -> bytes:
    received = b""
    try:
        while content := sock.recv(1 << 16):
            received += content
    except ConnectionResetError:  # the server had not read everything
        pass
    return received


def test_a_small_frame_too_waits_for_room_and_looks_meanwhile_whether_it_still_may() -> None:
    near, far = socket.socketpair()
    with near, far:
        lane = LaneSocket(near, 1 << 20)
        assert not lane.send_frame(Kind.REPLY, 1, b"x", limit_s=0.001)  # its form has come before
        near.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                near.send(bytes(1 << 16))
        near.setblocking(True)
        looks: list[int] = []

        def look() -> None:
            looks.append(1)
            if len(looks) == 3:
                raise errors.aborted("enough")

        with pytest.raises(errors.AbortedError, match="enough"):
            lane.send_frame(Kind.REPLY, 1, b"x", limit_s=0.001, check=look)


def test_a_small_frame_that_cannot_be_sent_at_all_says_so() -> None:
    near, far = socket.socketpair()
    with near:
        lane = LaneSocket(near, 1 << 20)
        lane.send_frame(Kind.REPLY, 1, b"x")
        far.close()
        with pytest.raises(NothingSent):
            lane.send_frame(Kind.REPLY, 1, b"x")


def test_of_a_small_frame_that_was_sent_in_part_the_rest_follows() -> None:
    near, far = socket.socketpair()

    class Reluctant:
        """Takes five bytes at a time."""

        def __getattr__(self, name: str) -> Any:
            return getattr(near, name)

        def send(self, data: bytes) -> int:
            return near.send(data[:5])

    with near, far:
        lane = LaneSocket(Reluctant(), 1 << 20)  # type: ignore[arg-type]
        value = np.array([1.5, 2.5])
        for _ in range(2):
            lane.send_frame(Kind.REPLY, 1, b"x", [value])
        parser = Parser(1 << 20)
        for _ in range(2):
            while (frame := parser.next()) is None:
                parser.received(far.recv_into(parser.buffer()))
            assert frame.header == b"x"
            np.testing.assert_array_equal(frame.values[0], value)


def test_a_connection_that_is_closed_while_somebody_looks_after_it_has_hung_up() -> None:
    """As its server ends it while the event loop says that its caller is gone."""
    near, far = socket.socketpair()

    class Closed:
        def __getattr__(self, name: str) -> Any:
            return getattr(near, name)

        def fileno(self) -> int:
            found = near.fileno()
            near.close()
            return found

    with near, far:
        assert LaneSocket(Closed(), 1 << 20).hung_up()  # type: ignore[arg-type]


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_frame_closes_its_connection_and_no_other(
    cluster: Cluster, lane: str, what: str, warnings: Warnings
) -> None:
    with routed(cluster) as peer, raw(cluster, lane) as sock:
        status(peer)
        sock.sendall(HOSTILE[what])
        read_to_end(sock)
        warnings.wait()
        (warning,) = warnings.texts
        assert "a connection of the lane was closed" in warning
        assert status(peer).headrace_pushes


@pytest.mark.parametrize("bytes_sent", [0, 1, 31, 32, 40])
def test_a_connection_that_ends_within_a_frame_leaves_nothing(
    cluster: Cluster, lane: str, bytes_sent: int
) -> None:
    transport = shell_of(cluster)
    gone = threading.Event()
    forget = transport.forget
    transport.forget = lambda connection: (forget(connection), gone.set())  # type: ignore[method-assign,func-returns-value,assign]
    number = NUMBERS[methods.GET_STATUS.path]
    whole = b"".join(frames.pack(Kind.REQUEST, number, 0, b"", [np.zeros(4)]))
    with raw(cluster, lane) as sock:
        sock.sendall(whole[:bytes_sent])
    assert gone.wait(WITHIN_S)
    assert not transport._connections


def test_a_method_that_does_not_exist_is_answered_with_an_error(
    cluster: Cluster, lane: str
) -> None:
    connection = LaneSocket(raw(cluster, lane), 1 << 20)
    for number in (len(NUMBERS), 0xFFFF):
        connection.send(frames.pack(Kind.REQUEST, number, 0))
        frame = connection.read(WITHIN_S)
        assert frame is not None
        assert frame.kind is Kind.ERROR
        detail = pb.ErrorDetail.FromString(frame.header)
        assert detail.code == errors.UNIMPLEMENTED
    connection.close()


@pytest.mark.parametrize(
    ("detail", "error"),
    [
        (b"\xff\xff\xff", tf.errors.InvalidArgumentError),
        (b"", tf.errors.UnknownError),
        (pb.ErrorDetail(code=99, message="new").SerializeToString(), tf.errors.UnknownError),
    ],
    ids=["no message", "no code", "an unknown code"],
)
def test_an_error_that_is_none_is_a_typed_one(
    cluster: Cluster, lane: str, detail: bytes, error: type[Exception], monkeypatch: Any
) -> None:
    with routed(cluster) as peer:
        status(peer)

        class Garbage:
            @staticmethod
            def SerializeToString() -> bytes:
                return detail

        def failing(*_: object) -> None:
            raise errors.aborted("never mind")

        with monkeypatch.context() as patch:
            patch.setattr(answers, "to_detail", lambda error: Garbage)
            patch.setattr(Worker, "device_attributes", failing)
            for _ in range(2):
                with pytest.raises(error):
                    status(peer)
                with pytest.raises(error):
                    peer.call(methods.GET_STATUS, STATUS, Scope(WITHIN_S)).wait(Scope(WITHIN_S))
        assert status(peer).headrace_pushes


# -- what all connections share -------------------------------------------------------------------


def test_a_timer_that_fails_is_logged_and_stops_no_other(
    cluster: Cluster, lane: str, warnings: Warnings
) -> None:
    rang = threading.Event()

    def fail() -> None:
        raise ZeroDivisionError("a timer's own fault")

    with routed(cluster) as peer:
        event_loop().later(0.0, fail)
        event_loop().later(0.0, rang.set)
        assert rang.wait(WITHIN_S)
        warnings.wait()
        assert "a timer's callback failed" in warnings.texts
        assert status(peer).headrace_pushes


def test_a_large_tensor_that_nobody_reads_is_given_up_at_the_limit() -> None:
    """Also where the first bytes carry descriptors of shared memory, which are closed then."""
    near, far = socket.socketpair()
    with far:
        lane = LaneSocket(near, 1 << 20)
        lane.trust(1 << 30)
        fill(near)
        large = np.zeros(1 << 18)
        looked: list[int] = []

        def check() -> None:
            looked.append(len(looked))
            if len(looked) == 3:
                raise errors.deadline_exceeded("enough")

        descriptors = set(os.listdir("/proc/self/fd"))
        for _ in range(2):  # from the second time on a size goes through shared memory
            looked.clear()
            with pytest.raises(tf.errors.DeadlineExceededError):
                lane.send_frame(Kind.REQUEST, 1, b"", [large], 0, 0.001, check)
            assert looked == [0, 1, 2]
        lane.close()
        assert len(set(os.listdir("/proc/self/fd")) - descriptors) == 0


def fill(sock: socket.socket) -> None:
    """Write until there is no more room."""
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(bytes(1 << 16))
    sock.setblocking(True)


# -- giving up ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "call_now"])
def test_a_dequeue_that_was_given_up_has_ended_before_the_caller_goes_on(
    cluster: Cluster, background: Start, blocked: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(
        lane_connection, "_CONFIRM_WITHIN_S", WITHIN_S
    )  # however busy the machine is
    with tf.device("/job:worker"):
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
        take, size = queue.dequeue(), queue.size()
    with tf.Session(cluster.target("worker:0")) as session, routed(cluster, "worker:0") as peer:
        session.run(size)
        (held,) = cluster.servers["worker:0"].worker.runtime.resources.all()
        remote = session._engine._current
        request = methods.m.RunStepRequest(remote.handle, [], [take.name], [])
        for number in range(10):
            scope = Scope()

            def step(scope: Scope = scope, number: int = number) -> Any:
                if how == "call":
                    return peer.call(methods.RUN_STEP, request, scope).wait(scope)
                try:
                    return peer.call_now(methods.RUN_STEP, request, scope)
                finally:
                    held.enqueue([np.int32(number)])  # right behind the call, in the same thread

            waiting = background(step)
            blocked.wait()
            scope.cancel(errors.cancelled("changed my mind"))
            assert isinstance(waiting.error(), tf.errors.CancelledError)
            if how == "call":
                held.enqueue([np.int32(number)])
            assert held.size() == 1
            assert session.run(take) == number


def test_who_ended_an_earlier_scope_leaves_the_connections_next_call_alone() -> None:
    near, far = socket.socketpair()
    with near, far:
        connection = lane_connection.Connection(None, LaneSocket(near, 1 << 20))  # type: ignore[arg-type]
        earlier, now = Scope(), Scope()
        connection.scope = earlier
        earlier.attach(connection, connection.follow)
        late = connection.follow  # taken out to be called, by a thread that comes to it only later
        earlier.detach(connection)
        for scope in (None, now):
            connection.scope = scope
            earlier.cancel(errors.cancelled("changed my mind"))
            late()
            near.send(b"x")
            assert far.recv(10) == b"x"
        now.cancel(errors.cancelled("this one"))
        connection.follow()
        assert far.recv(10) == b""
        connection.close()


# -- the end --------------------------------------------------------------------------------------


def test_a_stopped_server_leaves_no_connection_busy_or_parked(
    lane: str, graph: tf.Graph, background: Start, blocked: Any
) -> None:
    with in_process({"ps": 1, "worker": 1}) as cluster:
        with tf.device("/job:ps"):
            take = tf.FIFOQueue(10, [tf.int32], [[]]).dequeue()
        session = tf.Session(cluster.target("worker:0"))
        steps = [background(lambda: session.run(take)) for _ in range(3)]
        blocked.wait(3)
        parked = [raw(cluster, lane) for _ in range(20)]
        transport = shell_of(cluster)
        assert len(transport._connections) > 20
        last = when_none_is_left(transport)
        cluster.servers["ps:0"].stop()
        for sock in parked:
            assert read_to_end(sock) == b""
            sock.close()
        for step in steps:
            assert isinstance(step.error(), tf.errors.UnavailableError)
        assert last.wait(WITHIN_S)
        session.close()


def when_none_is_left(transport: Any) -> threading.Event:
    """Set when the transport forgets its last connection."""
    event, forget = threading.Event(), transport.forget

    def forgetting(connection: Any) -> None:
        forget(connection)
        if not transport._connections:
            event.set()

    transport.forget = forgetting
    return event


def test_a_proxy_that_breaks_nothing_is_not_noticed(
    monkeypatch: pytest.MonkeyPatch, carried: Carried
) -> None:
    """What the tests of broken connections rest on."""
    TRANSPORTS["tcp"](monkeypatch)
    with in_process({"ps": 1}) as cluster, before(cluster.servers["ps:0"]) as proxy:
        proxy.stand_before(cluster.servers["ps:0"])
        with routed(cluster) as peer:
            for _ in range(2):
                status(peer)
    assert [kind for kind, _ in carried.take()] == ["grpc", "lane", "lane"]
    assert proxy.connections == 1
    assert proxy.cuts == 0


# -- connections that nobody has used for a while ------------------------------------------------


def test_a_call_over_a_connection_that_has_ended_meanwhile_is_made_over_a_new_one(
    cluster: Cluster, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with routed(cluster) as peer:
        status(peer)
        lane_peer = peer._fast
        assert isinstance(lane_peer, LanePeer)
        monkeypatch.setattr(lane_peer, "forget", lambda connection: None)  # not yet noticed
        calls: list[Callable[[], Any]] = [
            lambda: status(peer),
            lambda: peer.call(methods.GET_STATUS, STATUS, Scope(WITHIN_S)).wait(Scope(WITHIN_S)),
            lambda: peer.tell(
                methods.SEND_TENSOR, m.SendTensorRequest(1, "x", np.zeros(2)), Scope(WITHIN_S)
            ),
        ]
        for call in calls:
            (idle,) = lane_peer._idle
            idle.socket.shut()
            idle.gone = False
            call()
            (made,) = lane_peer._idle
            assert made is not idle


def test_a_call_is_made_over_a_new_connection_though_the_event_loop_sees_first_that_the_idle_one_has_ended(
    cluster: Cluster, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, event, send = threading.Event(), Call.event, LanePeer._send

    def seeing(call: Call) -> None:
        event(call)
        seen.set()

    def sending(lane_peer: LanePeer, connection: Connection, *args: Any) -> Any:
        if connection is idle:
            connection.socket.shut()
            assert seen.wait(WITHIN_S)
        return send(lane_peer, connection, *args)

    monkeypatch.setattr(Call, "event", seeing)
    monkeypatch.setattr(LanePeer, "_send", sending)
    with routed(cluster) as peer:
        for watched in (True, False):
            seen.clear()
            idle = None
            status(peer)
            assert isinstance(peer._fast, LanePeer)
            (idle,) = peer._fast._idle
            scope = Scope(WITHIN_S)
            assert peer.call(methods.GET_STATUS, STATUS, scope, watched=watched).wait(scope)
            assert idle not in peer._fast._idle


def test_a_request_of_which_something_was_sent_is_not_made_again(
    cluster: Cluster, lane: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0
    with routed(cluster) as peer:
        status(peer)
        encode = LaneSocket.send_frame

        def breaking(connection: LaneSocket, *args: Any, **kwargs: Any) -> None:
            nonlocal made
            if args[0] is not Kind.REQUEST:
                encode(connection, *args, **kwargs)
                return
            made += 1
            connection.send([b"H"])
            connection.shut()
            encode(connection, *args, **kwargs)

        def sent_some(connection: LaneSocket, *args: Any, **kwargs: Any) -> None:
            try:
                breaking(connection, *args, **kwargs)
            except lane_socket.NothingSent as error:
                raise BrokenPipeError(*error.args) from error

        with monkeypatch.context() as patch:
            patch.setattr(LaneSocket, "send_frame", sent_some)
            with pytest.raises(tf.errors.UnavailableError):
                status(peer)
        assert made == 1


def test_connections_that_nobody_uses_are_closed_but_for_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the peer is not called again: a client that ran eight steps at once, and now does nothing."""
    timers: list[tuple[float, Callable[[], object]]] = []

    class Later:
        def later(self, delay_s: float, callback: Callable[[], object]) -> None:
            timers.append((delay_s, callback))

        def __getattr__(self, name: str) -> Any:
            return getattr(event_loop(), name)

    def ring() -> None:
        ((delay_s, callback),) = timers
        assert delay_s >= 1
        timers.clear()
        callback()

    with lane_peer(lane_of(cluster), Security()) as peer:
        monkeypatch.setattr(lane_client, "event_loop", Later)
        first, second, last = [peer._take(Scope(WITHIN_S), fresh=True) for _ in range(3)]
        for connection in (first, second, last):
            peer.give_back(connection)
        first.idle_since -= 1000
        ring()
        assert peer._idle == [second, last]
        for connection in (second, last):
            connection.idle_since -= 1000
        ring()
        assert peer._idle == [last]
        assert not timers
        peer.call_now(methods.GET_STATUS, STATUS, Scope(WITHIN_S))
        assert peer._idle == [last]
        peer.give_back(peer._take(Scope(WITHIN_S), fresh=True))
        assert len(timers) == 1


def test_idle_connections_give_back_the_memory_that_they_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    monkeypatch.setattr(LIMITS, "keeps_memory_s", 0.0)
    closed = threading.Event()
    close = lane_connection.Connection.close

    def noting(connection: lane_connection.Connection) -> None:
        shared = connection.socket.shares
        close(connection)
        if shared:
            closed.set()

    with in_process({"ps": 1, "worker": 1}) as cluster:
        with tf.device("/job:ps"):
            large = tf.Variable(tf.ones([500_000]))
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(large.initializer)
            monkeypatch.setattr(lane_connection.Connection, "close", noting)
            for _ in range(5):
                assert session.run(large).sum() == 500_000
            assert closed.wait(WITHIN_S)
            assert session.run(large).sum() == 500_000
