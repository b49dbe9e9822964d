"""Every method over every socket, asked by those who have no, wrong or truncated credentials: none answers, and nothing
of what they send is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import headrace as tf
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Kind
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.grpc.server import TOKEN_KEY
from headrace.serve.lane.wire import METHODS, NUMBERS, PROOF
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.transport import Unreachable
from tests.serve.authority import Authority
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.serve.proxies import Fate, Proxy
from tests.serve.raw_lane import connected, frames_from, lane_of, lane_peer, shell_of

SECRET = "correct horse battery staple"
TOKEN = Security(SECRET).token
WITHIN_S = 60.0

PATHS = [
    *(method.path for method in (*methods.MASTER_METHODS, *methods.WORKER_METHODS)),
    "/tensorflow.MasterService/NoSuchMethod",
    "/somebody.Else/Method",
]
WRONG_TOKENS: dict[str, Any] = {
    "none": None,
    "empty": "",
    "another secret's": Security("incorrect horse battery staple").token,
    "a truncated secret's": Security(SECRET[:-1]).token,
    "truncated": TOKEN[:-1],
    "one digit": TOKEN[:1],
    "longer": TOKEN + "0",
    "upper case": TOKEN.upper(),
    "the secret itself": SECRET,
}
NOT_PARSED = b"\xff" * 64  # a message of no kind


@contextmanager
def guarded(transport: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A ps that asks for SECRET."""
    TRANSPORTS[transport](monkeypatch)
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)
    with in_process({"ps": 1}) as cluster:
        yield cluster


@pytest.fixture
def over_grpc(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with guarded("grpc", monkeypatch) as cluster:
        yield cluster


@pytest.fixture(params=["unix", "tcp"])
def over_lane(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with guarded(request.param, monkeypatch) as cluster:
        yield cluster


def still_serves(cluster: Cluster) -> None:
    """Who knows the secret, which is in the environment, is let in."""
    with tf.Session(cluster.target("ps:0")) as session:
        assert session.run(tf.constant(1)) == 1


def test_every_method_is_tried() -> None:
    assert {method.path for method in METHODS} <= set(PATHS)
    assert len(METHODS) == len(methods.MASTER_METHODS) + len(methods.WORKER_METHODS) == len(NUMBERS)


# -- gRPC -----------------------------------------------------------------------------------------


def codes(
    channel: grpc.Channel, metadata: Any, message: bytes = NOT_PARSED
) -> dict[str, grpc.StatusCode]:
    """What each path answers."""
    found = {}
    for path in PATHS:
        call = channel.unary_unary(path)
        with pytest.raises(grpc.RpcError) as refused:
            call(message, metadata=metadata, timeout=WITHIN_S)
        found[path] = refused.value.code()
    return found


def refused_everywhere(code: grpc.StatusCode) -> dict[str, grpc.StatusCode]:
    return dict.fromkeys(PATHS, code)


def shown(token: str | None) -> list[tuple[str, str]] | None:
    return None if token is None else [(TOKEN_KEY, token)]


@pytest.mark.parametrize("wrong", WRONG_TOKENS)
def test_over_grpc_a_stranger_can_call_nothing(over_grpc: Cluster, wrong: str) -> None:
    with grpc.insecure_channel(over_grpc.address("ps:0")) as channel:
        found = codes(channel, shown(WRONG_TOKENS[wrong]))
    assert found == refused_everywhere(grpc.StatusCode.UNAUTHENTICATED)
    still_serves(over_grpc)


def test_over_grpc_a_token_of_bytes_is_none(over_grpc: Cluster) -> None:
    with grpc.insecure_channel(over_grpc.address("ps:0")) as channel:
        found = codes(channel, [(f"{TOKEN_KEY}-bin", TOKEN.encode())])
    assert found == refused_everywhere(grpc.StatusCode.UNAUTHENTICATED)


def test_over_grpc_who_has_the_token_is_heard(over_grpc: Cluster) -> None:
    """So that the tests above would fail if every call did."""
    with grpc.insecure_channel(over_grpc.address("ps:0")) as channel:
        call = channel.unary_unary(methods.GET_STATUS.path)
        assert call(b"", metadata=shown(TOKEN), timeout=WITHIN_S)
        with pytest.raises(grpc.RpcError, match="not a GetStatusRequest"):
            call(NOT_PARSED, metadata=shown(TOKEN), timeout=WITHIN_S)


def test_over_grpc_a_strangers_message_is_not_received(over_grpc: Cluster) -> None:
    """Most of it never comes, and the answer does."""
    host, port = over_grpc.address("ps:0").split(":")
    with (
        Proxy((host, int(port)), lambda: Fate(hold_up=20_000)) as proxy,
        grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        call = channel.unary_unary(methods.RUN_STEP.path)
        with pytest.raises(grpc.RpcError) as refused:
            call(bytes(1 << 20), timeout=WITHIN_S)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


# -- the lane -------------------------------------------------------------------------------------

KNOWS = Security(SECRET)
THEIRS = bytes(16)


def proof(security: Security, side: bytes = b"client") -> Callable[[bytes], bytes]:
    return lambda nonce: THEIRS + security.proof(side, nonce, THEIRS)


WRONG_PROOFS: dict[str, Callable[[bytes], bytes] | None] = {
    "none": None,
    "empty": lambda nonce: b"",
    "another secret's": proof(Security("incorrect horse battery staple")),
    "a truncated secret's": proof(Security(SECRET[:-1])),
    "truncated": lambda nonce: proof(KNOWS)(nonce)[:-1],
    "longer": lambda nonce: proof(KNOWS)(nonce) + b"\0",
    "the other side's": proof(KNOWS, b"server"),
    "of another connection": lambda nonce: proof(KNOWS)(bytes(16)),
    "the secret itself": lambda nonce: THEIRS + SECRET.encode(),
    "gRPC's token": lambda nonce: THEIRS + bytes.fromhex(TOKEN),
}


class Handled(dict[int, Any]):
    """What a lane has for each number of a method; `numbers`: those that were looked up."""

    def __init__(self, handlers: dict[int, Any]) -> None:
        super().__init__(handlers)
        self.numbers: list[int] = []

    def get(self, number: int, default: Any = None) -> Any:
        self.numbers.append(number)
        return super().get(number, default)


@pytest.fixture
def handled(over_lane: Cluster) -> list[int]:
    """Numbers of the methods whose handlers the lane has looked up."""
    lane = shell_of(over_lane)
    lane.handlers = found = Handled(lane.handlers)
    return found.numbers


def answers(cluster: Cluster, wrong: str, kind: Kind, number: int) -> list[tuple[Kind, int]]:
    """What is said to an untrusted peer who shows that proof and calls that method, the handshake aside."""
    with connected(lane_of(cluster)) as sock:
        said = frames_from(sock)
        nonce = pb.LaneAddress.FromString(next(said).header).nonce
        first = WRONG_PROOFS[wrong]
        parts = frames.pack(kind, number, 0, NOT_PARSED)
        if first is not None:
            parts = [*frames.pack(Kind.REQUEST, PROOF, 0, first(nonce)), *parts]
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have heard enough
            sock.sendall(b"".join(parts))
        found = []
        for frame in said:
            detail = pb.ErrorDetail.FromString(frame.header)
            found.append((frame.kind, detail.code))
        return found


@pytest.mark.parametrize("wrong", WRONG_PROOFS)
def test_over_the_lane_a_stranger_can_call_nothing(
    over_lane: Cluster, wrong: str, handled: list[int]
) -> None:
    """A connection that is closed with bytes unread may take its last words with it."""
    numbers = [*range(len(METHODS)), len(METHODS), 0xFFFD]
    for kind in (Kind.REQUEST, Kind.ONE_WAY):
        for number in numbers:
            assert answers(over_lane, wrong, kind, number) in (
                [(Kind.ERROR, tf.errors.UNAUTHENTICATED)],
                [],
            )
    assert handled == []
    still_serves(over_lane)


def test_over_the_lane_who_proves_to_know_the_secret_is_heard(
    over_lane: Cluster, handled: list[int]
) -> None:
    with connected(lane_of(over_lane)) as sock:
        said = frames_from(sock)
        nonce = pb.LaneAddress.FromString(next(said).header).nonce
        sock.sendall(b"".join(frames.pack(Kind.REQUEST, PROOF, 0, proof(KNOWS)(nonce))))
        assert next(said).kind is Kind.REPLY
        number = NUMBERS[methods.GET_STATUS.path]
        sock.sendall(b"".join(frames.pack(Kind.REQUEST, number, 0, b"")))
        assert next(said).kind is Kind.REPLY
    assert handled == [number]


# -- our own client, whichever way it goes --------------------------------------------------------

REQUESTS: dict[str, Any] = {
    "RunStep": m.RunStepRequest("s", [], [], []),
    "RunKnown": m.RunKnownRequest("s", 1, []),
    "RunCallable": m.RunCallableRequest("s", 1, []),
    "RunGraph": m.RunGraphRequest("g", 1, [], []),
    "RunPart": m.RunPartRequest("g", 1, []),
    "RecvTensor": m.RecvTensorRequest(1, "k"),
    "SendTensor": m.SendTensorRequest(1, "k", np.float32(1)),
}
WRONG_SECRETS = {
    "none": None,
    "another": "incorrect horse battery staple",
    "truncated": SECRET[:-1],
}


def request_of(method: methods.Method) -> Any:
    """Some request of a method."""
    if method.plain is not None:
        return method.plain[0]()
    return REQUESTS.get(method.name, b"")


@pytest.mark.parametrize("transport", ["grpc", "unix", "tcp"])
@pytest.mark.parametrize("wrong", WRONG_SECRETS)
def test_a_client_with_another_secret_can_call_nothing(
    transport: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    security = Security(WRONG_SECRETS[wrong])
    with guarded(transport, monkeypatch) as cluster:
        pool = GrowingPool("stranger")
        peer = connect(cluster.address("ps:0"), "worker", pool, "the server", security)
        try:
            for method in METHODS:
                with pytest.raises(tf.errors.UnauthenticatedError, match="HEADRACE_SECRET_FILE"):
                    peer.call_now(method, request_of(method), Scope(WITHIN_S))
        finally:
            peer.close()
            pool.shutdown()
        if transport != "grpc":
            with lane_peer(lane_of(cluster), security) as lane:
                for method in METHODS:
                    with pytest.raises(Unreachable, match="secret"):
                        lane.call_now(method, request_of(method), Scope(WITHIN_S))
        still_serves(cluster)


# -- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "others")


def pem(path: str) -> bytes:
    return Path(path).read_bytes()


def certified(ours: Authority, monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """Servers get TLS from the environment."""
    TRANSPORTS["grpc"](monkeypatch)
    settings = {"CERT": ours.cert, "KEY": ours.key, "CA": ours.ca, **more}
    for name, value in settings.items():
        monkeypatch.setenv(f"HEADRACE_TLS_{name}", value)


@pytest.mark.parametrize("wrong", ["plaintext", "none", "another's", "truncated"])
def test_over_tls_who_has_no_certificate_can_call_nothing(
    ours: Authority, others: Authority, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials: dict[str, Callable[[], Any]] = {
        "none": lambda: grpc.ssl_channel_credentials(pem(ours.ca)),
        "another's": lambda: grpc.ssl_channel_credentials(
            pem(ours.ca), pem(others.key), pem(others.cert)
        ),
        "truncated": lambda: grpc.ssl_channel_credentials(
            pem(ours.ca), pem(ours.key), pem(ours.cert)[: len(pem(ours.cert)) // 2]
        ),
    }
    certified(ours, monkeypatch, CLIENTS="1")
    with in_process({"ps": 1}) as cluster:
        address = cluster.address("ps:0").replace("127.0.0.1", "localhost")
        channel = (
            grpc.insecure_channel(address)
            if wrong == "plaintext"
            else grpc.secure_channel(address, credentials[wrong]())
        )
        with closing(channel):
            assert codes(channel, None) == refused_everywhere(grpc.StatusCode.UNAVAILABLE)
        still_serves(cluster)


@pytest.mark.parametrize("wrong", ["none", "a truncated secret's", "truncated"])
def test_over_tls_a_stranger_to_the_secret_can_call_nothing(
    ours: Authority, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    certified(ours, monkeypatch)
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)
    with in_process({"ps": 1}) as cluster:
        address = cluster.address("ps:0")
        credentials = grpc.ssl_channel_credentials(pem(ours.ca))
        with grpc.secure_channel(address, credentials) as channel:
            found = codes(channel, shown(WRONG_TOKENS[wrong]))
        assert found == refused_everywhere(grpc.StatusCode.UNAUTHENTICATED)
        still_serves(cluster)


# -- the cap --------------------------------------------------------------------------------------

CAP = 1 << 20


@pytest.fixture
def capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_MAX_MESSAGE_BYTES", str(CAP))


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_over_the_lane_a_message_beyond_the_cap_is_refused_when_it_is_announced(
    transport: str, capped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = NUMBERS[methods.RUN_STEP.path]
    parts = frames.pack(Kind.REQUEST, number, 0, b"", [np.zeros(CAP, np.uint8)])
    announced = b"".join(bytes(part) for part in parts)[:-CAP]
    TRANSPORTS[transport](monkeypatch)
    with in_process({"ps": 1}) as cluster:
        with connected(lane_of(cluster)) as sock:
            said = frames_from(sock)
            next(said)
            sock.sendall(announced)
            (refusal,) = said
        detail = pb.ErrorDetail.FromString(refusal.header)
        assert (refusal.kind, detail.code) == (Kind.ERROR, tf.errors.RESOURCE_EXHAUSTED)
        still_serves(cluster)


def test_over_grpc_a_message_beyond_the_cap_is_refused_when_it_is_announced(
    capped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"ps": 1}) as cluster:
        host, port = cluster.address("ps:0").split(":")
        with (
            Proxy((host, int(port)), lambda: Fate(hold_up=20_000)) as proxy,
            grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
        ):
            call = channel.unary_unary(methods.RUN_STEP.path)
            with pytest.raises(grpc.RpcError) as refused:
                call(bytes(CAP + 1), timeout=WITHIN_S)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        still_serves(cluster)


def test_over_grpc_a_message_that_unpacks_beyond_the_cap_is_refused(
    capped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"ps": 1}) as cluster:
        with grpc.insecure_channel(cluster.address("ps:0")) as channel:
            call = channel.unary_unary(methods.RUN_STEP.path)
            with pytest.raises(grpc.RpcError) as refused:
                call(bytes(8 * CAP), compression=grpc.Compression.Gzip, timeout=WITHIN_S)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        still_serves(cluster)
