"""Attacks from outside that a server once gave way to, or might: those who say little, slowly, or the unexpected."""

from __future__ import annotations

import math
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import grpc
import numpy as np
import pytest
from google.protobuf.message import EncodeError

import headrace as tf
from headrace.base import errors
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Kind
from headrace.run.thread_group import ThreadGroup
from headrace.serve.grpc.server import PATIENCE_KEY
from headrace.serve.lane.shared_memory import AVAILABLE
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import NUMBERS, PROOF
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import as_op_error
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import TRANSPORTS
from tests.serve.raw_lane import connected, frames_from, lane_of

SECRET = "correct horse battery staple"
STATUS = b"".join(frames.pack(Kind.REQUEST, NUMBERS[methods.GET_STATUS.path], 0, b""))
WITHIN_S = 60.0


@pytest.fixture(params=["unix", "tcp"])
def guarded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A ps that asks for SECRET."""
    TRANSPORTS[request.param](monkeypatch)
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)
    with in_process({"ps": 1}) as cluster:
        yield cluster


@pytest.fixture
def impatient(guarded: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """One that does not wait for it for long."""
    monkeypatch.setattr(LIMITS, "prove_within_s", 0.2)
    return guarded


def hello(nonce: bytes) -> bytes:
    """The proof that its sender knows the secret."""
    proof = Security(SECRET).proof(b"client", nonce, bytes(16))
    return b"".join(frames.pack(Kind.REQUEST, PROOF, 0, bytes(16) + proof))


# -- the lane -------------------------------------------------------------------------------------

BEGINNINGS: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda nonce: b"",
    "a byte": lambda nonce: b"H",
    "half a proof": lambda nonce: hello(nonce)[:50],
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_who_does_not_prove_to_know_the_secret_in_time_is_cut_off(
    impatient: Cluster, beginning: str
) -> None:
    with connected(lane_of(impatient)) as sock:
        sock.settimeout(WITHIN_S)
        said = frames_from(sock)
        nonce = pb.LaneAddress.FromString(next(said).header).nonce
        with suppress(BrokenPipeError, ConnectionResetError):  # it is over already
            sock.sendall(BEGINNINGS[beginning](nonce))
        assert list(said) == []  # it ends


def test_who_sends_a_byte_now_and_then_is_cut_off_too(impatient: Cluster) -> None:
    slowly = b"".join(frames.pack(Kind.REQUEST, PROOF, 0, bytes(2000)))
    with connected(lane_of(impatient)) as sock:
        next(frames_from(sock))
        sock.settimeout(0.01)  # between two bytes
        sent = 0
        with suppress(BrokenPipeError, ConnectionResetError):
            for byte in slowly:
                sock.sendall(bytes([byte]))
                sent += 1
                with suppress(TimeoutError):
                    assert not sock.recv(1)
                    break
    assert sent < len(slowly)


def test_who_has_proved_it_in_time_stays(guarded: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that follow the proof at once are understood, and so are those that come later."""
    for within_s in (1.0, 5.0, 25.0):  # on a busy machine nobody may be in time
        monkeypatch.setattr(LIMITS, "prove_within_s", within_s)
        if proves_it_and_stays(guarded):
            return
    pytest.fail("nobody was in time")


def proves_it_and_stays(guarded: Cluster) -> bool:
    """Whether it was in time."""
    with connected(lane_of(guarded)) as sock, connected(lane_of(guarded)) as stranger:
        said = frames_from(sock)
        proved = None
        with suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(hello(pb.LaneAddress.FromString(next(said).header).nonce))
            proved = next(said, None)
        if proved is None:
            return False
        assert proved.method == PROOF
        sock.sendall(STATUS)
        assert next(said).kind is Kind.REPLY
        assert (
            len(list(frames_from(stranger))) == 1
        )  # its handshake, and then the end, when its time is over
        for _ in range(3):
            sock.sendall(STATUS)
            assert next(said).kind is Kind.REPLY
        return True


def test_a_second_hello_is_answered_once(guarded: Cluster) -> None:
    with connected(lane_of(guarded)) as sock:
        said = frames_from(sock)
        nonce = pb.LaneAddress.FromString(next(said).header).nonce
        sock.sendall(hello(nonce) * 2)
        assert [next(said).kind, next(said).kind] == [Kind.REPLY, Kind.ERROR]
        sock.sendall(STATUS)
        assert next(said).kind is Kind.REPLY


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """This process may open that many files more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)  # the lowest that is free
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif(not AVAILABLE, reason="no memory files on this system")
def test_shared_memory_for_which_there_is_no_descriptor_left_is_an_error_that_says_so() -> None:
    ours, theirs = (LaneSocket(sock, 1 << 20) for sock in socket.socketpair())
    value = np.zeros(1 << 14)
    with closing(ours), closing(theirs):
        for end in (ours, theirs):
            end.trust(1 << 24)
        with ThreadGroup("the other end") as group:
            group.start(ours.send_frame, Kind.REQUEST, 0, b"", [value])
            assert theirs.read() is not None
        ours.send_frame(Kind.REQUEST, 0, b"", [value])  # now in shared memory
        with descriptors_left(0), pytest.raises(errors.ResourceExhaustedError, match="ulimit -n"):
            theirs.read()


@pytest.mark.parametrize("error", [MemoryError(), EncodeError("Failed to serialize proto")])
def test_a_call_for_which_there_is_no_memory_left_says_so(error: Exception) -> None:
    """Protobuf has an error of its own for that."""
    found = as_op_error(error, "RunStep")
    assert isinstance(found, errors.ResourceExhaustedError)
    assert "out of memory in RunStep" in found.message


# -- gRPC -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", ["", "soon", "nan", "inf", "-inf", "-1", "1e400"])
def test_a_patience_that_is_no_number_of_seconds_counts_as_none(
    monkeypatch: pytest.MonkeyPatch, patience: str
) -> None:
    TRANSPORTS["grpc"](monkeypatch)
    with in_process({"ps": 1}) as cluster, grpc.insecure_channel(cluster.address("ps:0")) as there:
        call = there.unary_unary(methods.GET_STATUS.path)
        assert call(b"", metadata=[(PATIENCE_KEY, patience)], timeout=WITHIN_S)


@pytest.mark.parametrize("transport", ["grpc", "unix"])
@pytest.mark.parametrize("bits", [40, 53, 62, 63])
def test_a_time_limit_may_be_as_long_as_its_field_holds(
    monkeypatch: pytest.MonkeyPatch, transport: str, bits: int
) -> None:
    TRANSPORTS[transport](monkeypatch)
    limit = tf.RunOptions(timeout_in_ms=(1 << bits) - 1)
    with in_process({"ps": 1}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        assert session.run(tf.constant(math.pi), options=limit) == np.float32(math.pi)
