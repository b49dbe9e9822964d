"""Who is let in: secrets, TLS, and addresses that strangers can reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Kind
from headrace.run.scope import Scope
from headrace.serve.lane.connect import has_socket
from headrace.serve.lane.wire import NUMBERS, PROOF, OutOfBand, host_id
from headrace.serve.rpc import methods
from headrace.serve.rpc.security import Security, security
from headrace.serve.rpc.transport import Unreachable
from tests.serve.authority import Authority
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.serve.raw_lane import connected, frames_from, lane_of, lane_peer

SECRET = "correct horse battery staple"
WRONG = {
    "none": "",
    "another": "incorrect horse battery staple",
    "truncated": SECRET[:-1],
}
SOCKETS = ["grpc", "unix", "tcp"]


@pytest.fixture(params=SOCKETS)
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A ps and a worker that ask for SECRET, over each kind of socket."""
    TRANSPORTS[request.param](monkeypatch)
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        yield cluster


def test_who_knows_the_secret_is_let_in(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        x = tf.Variable(2.0)
    with tf.device("/job:worker"):
        y = x * np.ones(100_000, np.float32)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            assert session.run(y).sum() == 200_000


@pytest.fixture(params=["unix", "tcp"])
def lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The same, only where there is a lane."""
    TRANSPORTS[request.param](monkeypatch)
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)
    with in_process({"ps": 1}) as cluster:
        yield cluster


@pytest.mark.parametrize("wrong", WRONG)
def test_the_lane_lets_no_stranger_in(lane: Cluster, wrong: str) -> None:
    with (
        lane_peer(lane_of(lane), Security(WRONG[wrong])) as peer,
        pytest.raises(Unreachable, match="secret"),
    ):
        peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(30.0))


STATUS = frames.pack(Kind.REQUEST, NUMBERS[methods.GET_STATUS.path], 0, b"")
FIRST = {
    "a call": STATUS,
    "a proof too short": frames.pack(Kind.REQUEST, PROOF, 0, b"short"),
    "a proof that is none": frames.pack(Kind.REQUEST, PROOF, 0, bytes(48)),
    "a frame too large": frames.pack(Kind.REQUEST, PROOF, 0, bytes(100_000)),
    "no frame": [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(64)],
}


@pytest.mark.parametrize("first", FIRST)
def test_what_is_said_before_the_proof_ends_the_connection(lane: Cluster, first: str) -> None:
    with connected(lane_of(lane)) as sock:
        said = frames_from(sock)
        next(said)
        sock.sendall(b"".join([*FIRST[first], *STATUS]))
        replies = list(said)
    assert [frame.kind for frame in replies] in ([Kind.ERROR], [])
    with tf.Session(lane.target("ps:0")) as session:
        assert session.run(tf.constant(1)) == 1


def test_an_answer_does_for_one_connection(lane: Cluster) -> None:
    address = lane_of(lane)
    knows = Security(SECRET.encode())
    said: list[bytes] = []
    for _ in range(2):
        with connected(address) as sock:
            heard = frames_from(sock)
            nonce = pb.LaneAddress.FromString(next(heard).header).nonce
            said = said or [bytes(16) + knows.proof(b"client", nonce, bytes(16))]
            sock.sendall(b"".join(frames.pack(Kind.REQUEST, PROOF, 0, said[0])))
            reply = next(heard)
            if reply.kind is Kind.REPLY:
                assert knows.proves(b"server", nonce, bytes(16), reply.header)
    assert reply.kind is Kind.ERROR  # the second time


def test_who_has_a_secret_does_not_talk_to_a_lane_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    TRANSPORTS["unix"](monkeypatch)
    with (
        in_process({"ps": 1}) as cluster,
        lane_peer(lane_of(cluster), Security(SECRET)) as peer,
        pytest.raises(Unreachable, match="this process has a secret"),
    ):
        peer.call_now(methods.GET_STATUS, pb.GetStatusRequest(), Scope(30.0))


@pytest.mark.parametrize(
    ("ips", "settings", "allowed"),
    [
        (["127.0.0.1", "[::1]"], Security(), True),
        (["127.0.0.1", "192.0.2.1"], Security(), False),
        (["0.0.0.0"], Security(), False),
        (["[::]"], Security(insecure=True), True),
        (["192.0.2.1"], Security(SECRET.encode()), True),
        (["192.0.2.1"], Security(certificate=b"c", key=b"k"), False),
        (
            ["192.0.2.1"],
            Security(certificate=b"c", key=b"k", authorities=b"a", clients_too=True),
            True,
        ),
    ],
)
def test_an_address_that_strangers_reach_needs_something_that_keeps_them_out(
    ips: list[str], settings: Security, allowed: bool
) -> None:
    if allowed:
        settings.check_may_listen(ips, "/job:ps/task:0")
    else:
        with pytest.raises(errors.FailedPreconditionError, match="HEADRACE_INSECURE=1"):
            settings.check_may_listen(ips, "/job:ps/task:0")


def test_a_server_refuses_to_start_where_strangers_reach_it() -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"/job:local/.*0\.0\.0\.0"):
        tf.train.Server({"local": ["0.0.0.0:0"]})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"HEADRACE_SECRET_FILE": "/no/such/file"}, "cannot be read"),
        ({"HEADRACE_SECRET": "short"}, "has 5 bytes"),
        ({"HEADRACE_TLS_CERT": __file__}, "go together"),
        ({"HEADRACE_TLS_CLIENTS": "1"}, "HEADRACE_TLS_CA"),
        ({"HEADRACE_INSECURE": "maybe"}, "say 1 or 0"),
        ({"HEADRACE_MAX_MESSAGE_BYTES": "much"}, "number of bytes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(errors.InvalidArgumentError, match=said):
        tf.train.Server.create_local_server()


def test_a_secret_is_read_from_its_file_without_its_last_newline(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    assert security({"HEADRACE_SECRET_FILE": str(path)}).secret == SECRET.encode()
    assert SECRET not in repr(Security(SECRET.encode()))


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o640, 0), (0o644, 1)])
def test_a_secret_that_every_user_may_read_is_warned_of_once(
    mode: int, warnings: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(mode)
    for _ in range(2):
        security({"HEADRACE_SECRET_FILE": str(path)})
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == warnings
    assert all(f"chmod o-r {path}" in text for text in said)


# -- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.mark.parametrize("garbage", ["certificate", "key"])
def test_certificates_that_are_none_are_not_taken_for_a_port_in_use(
    authority: Authority, garbage: str
) -> None:
    pair: dict[str, Any] = {"certificate": authority.cert, "key": authority.key, garbage: b"no PEM"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="HEADRACE_TLS_CERT"):
        tf.train.Server({"ps": ["127.0.0.1:0"]}, security=tf.train.Security(**pair))


def use(monkeypatch: pytest.MonkeyPatch, **settings: str | None) -> None:
    for name in ("CERT", "KEY", "CA", "CLIENTS"):
        value = settings.get(name.lower())
        if value is None:
            monkeypatch.delenv(f"HEADRACE_TLS_{name}", raising=False)
        else:
            monkeypatch.setenv(f"HEADRACE_TLS_{name}", value)


def quickly() -> tf.ConfigProto:
    return tf.ConfigProto(operation_timeout_in_ms=1500)


@pytest.mark.parametrize("transport", SOCKETS)
def test_a_cluster_over_tls(
    transport: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS[transport](monkeypatch)
    use(monkeypatch, cert=authority.cert, key=authority.key, ca=authority.ca, clients="1")
    with in_process({"ps": 1, "worker": 1}) as cluster:
        lane = cluster.servers["ps:0"].worker.lane
        assert lane is None or not lane.tcp_port  # a port beside TLS would be one without
        with tf.device("/job:ps"):
            x = tf.Variable(3.0)
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(x.initializer)
            assert session.run(x) == 3.0


def test_a_client_needs_a_certificate_where_servers_ask_for_one(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    use(monkeypatch, cert=authority.cert, key=authority.key, ca=authority.ca, clients="1")
    other = Authority(tmp_path / "others")
    with in_process({"local": 1}) as cluster:
        for settings in (
            {"ca": authority.ca},
            {"ca": authority.ca, "cert": other.cert, "key": other.key},
            {},
        ):
            use(monkeypatch, **settings)
            with (
                tf.Session(cluster.target("local:0"), config=quickly()) as session,
                pytest.raises(tf.errors.OpError),
            ):
                session.run(tf.constant(1))


def test_a_server_that_somebody_else_vouches_for_is_not_believed(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    use(monkeypatch, cert=authority.cert, key=authority.key)
    with in_process({"local": 1}) as cluster:
        use(monkeypatch, ca=Authority(tmp_path / "others").ca)
        with (
            tf.Session(cluster.target("local:0"), config=quickly()) as session,
            pytest.raises(tf.errors.OpError),
        ):
            session.run(tf.constant(1))


@pytest.mark.parametrize(
    ("offered", "leads"),
    [
        (pb.LaneAddress(tcp_port=1), True),
        (pb.LaneAddress(unix_path="/p", host=host_id()), True),
        (pb.LaneAddress(unix_path="/p", host="another machine"), False),
        (pb.LaneAddress(unix_path="/p", host="another machine", tcp_port=1), True),
        (pb.LaneAddress(), False),
    ],
)
def test_a_lane_without_a_socket_for_this_machine_is_not_tried(
    offered: pb.LaneAddress, leads: bool
) -> None:
    """Such as that of a server with TLS on another one."""
    assert has_socket(offered) is leads


def test_over_tls_without_a_lane_nothing_is_complained_about(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    TRANSPORTS["tcp"](monkeypatch)
    use(monkeypatch, cert=authority.cert, key=authority.key, ca=authority.ca)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        with tf.device("/job:ps"):
            x = tf.Variable(3.0)
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(x.initializer)
            for _ in range(5):
                assert session.run(x) == 3.0
    assert caplog.records == []


# -- the cap ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", SOCKETS)
def test_a_message_beyond_the_cap_is_refused_and_the_server_goes_on(
    transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS[transport](monkeypatch)
    monkeypatch.setenv("HEADRACE_MAX_MESSAGE_BYTES", str(1 << 20))
    x = tf.placeholder(tf.float32, [None])
    y = tf.reduce_sum(x)
    with in_process({"local": 1}) as cluster, tf.Session(cluster.target("local:0")) as session:
        assert session.run(y, {x: np.ones(1000, np.float32)}) == 1000
        with pytest.raises((tf.errors.ResourceExhaustedError, tf.errors.UnavailableError)):
            session.run(y, {x: np.ones(1 << 20, np.float32)})
        assert session.run(y, {x: np.ones(1000, np.float32)}) == 1000


def test_places_for_tensors_that_did_not_come_are_an_error() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="more places"):
        OutOfBand([np.float32(1)]).get([pb.TensorProto()] * 2)
