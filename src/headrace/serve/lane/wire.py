"""What the lane's two ends agree on: numbers of methods, tensors out of band, who may speak.

Called by: serve.lane.server, serve.lane.client.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.serve.rpc.methods import (
    MASTER_METHODS,
    WORKER_METHODS,
    Method,
)

METHODS = (*MASTER_METHODS, *WORKER_METHODS)
NUMBERS = {method.path: number for number, method in enumerate(METHODS)}
BETWEEN_TASKS = range(len(MASTER_METHODS), len(METHODS))
"""Numbers of methods whose caller is a task, which only reads the values that it is sent."""

_REVISION = "9"  # of messages that are not protobuf's, see serve.rpc.brief
VERSION = (frames.VERSION << 32) | zlib.crc32(" ".join([_REVISION, *NUMBERS]).encode())
"""Of frames, messages and the table of methods; peers of different versions talk gRPC."""

HANDSHAKE = 0xFFFF
"""The number of the frame that a server sends first, a LaneAddress that says who it is; and of the error
that it sends last.
"""

PROOF = 0xFFFE
"""The number of the frames that prove to either side that the other knows the secret."""

CONTEXT = 0xFFFD
"""The number of the frame that goes ahead of a request for a step, on the same connection, where the caller records
what it does: the context of its span (`run.spans`).  There is no reply.
"""

UNTRUSTED_BYTES = 4096
"""The most that a frame may announce before that."""


class OutOfBand:
    """Tensors out of band (see `wire.Tensors`)."""

    __slots__ = ("_taken", "values")

    def __init__(self, values: list[Any] | None = None) -> None:
        self.values: list[Any] = [] if values is None else values
        self._taken = 0

    def put(self, value: Any, into: pb.TensorProto) -> None:
        """Put it out of band, if it is a Lease as that; its place in the message stays empty."""
        self.values.append(value)

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        """The next ones.  Raises InvalidArgument if there are fewer than the message says."""
        start, end = self._taken, self._taken + len(protos)
        if end > len(self.values):
            raise errors.invalid_argument("a message has more places for tensors than came with it")
        self._taken = end
        return self.values[start:end]


class Codec(NamedTuple):
    """How a method's messages pass: bytes, and tensors out of band.

    encode_reply: None where the reply is the tensors, and nothing else.
    in_place: both sides are tasks or only read what they are sent, see `LaneSocket.send_frame`.
    """

    number: int
    encode_request: Callable[[Any], tuple[bytes, Sequence[Any]]]
    decode_request: Callable[[bytes, list[Any]], Any]
    encode_reply: Callable[[Any], tuple[bytes, Sequence[Any]]] | None
    decode_reply: Callable[[bytes, list[Any]], Any]
    in_place: bool


def _as_on_grpc(number: int, method: Method) -> Codec:
    """A protobuf message, whose places for tensors stay empty."""

    def encoded(encode: Callable[[Any, OutOfBand], bytes], message: Any) -> tuple[bytes, list[Any]]:
        out_of_band = OutOfBand()
        return encode(message, out_of_band), out_of_band.values

    return Codec(
        number,
        partial(encoded, method.encode_request),
        lambda data, values: method.decode_request(data, OutOfBand(values)),
        partial(encoded, method.encode_reply),
        lambda data, values: method.decode_reply(data, OutOfBand(values)),
        number in BETWEEN_TASKS,
    )


Answer = Callable[[bytes], bytes | None]
"""The frame that answers that of a request; empty: it has been answered.  None: it is to be read as any other."""
KnownAnswers = dict[bytes, Answer]
"""What answers requests that come again, by their frames without the step (see `rpc.again`)."""

CODECS: Final = {
    method: Codec(number, *method.brief, number in BETWEEN_TASKS)
    if method.brief is not None
    else _as_on_grpc(number, method)
    for number, method in enumerate(METHODS)
}


def handshake(server: int, nonce: bytes, call: int) -> bytes:
    """The frame that a server sends first.  nonce: empty if it takes everybody.  call: see
    `serve.rpc.cancelled_calls`.
    """
    found = pb.LaneAddress(version=VERSION, server=server, nonce=nonce, call=call)
    header = found.SerializeToString()
    return b"".join(frames.pack(Kind.REPLY, HANDSHAKE, 0, header))


def checked_handshake(frame: Frame, server: int) -> pb.LaneAddress:
    """The handshake of that server.  Raises ConnectionRefusedError for any other frame."""
    if frame.kind is Kind.REPLY and frame.method == HANDSHAKE:
        with contextlib.suppress(DecodeError):
            found = pb.LaneAddress.FromString(frame.header)
            if found.version == VERSION and found.server == server:
                return found
    raise ConnectionRefusedError("what listens there is not the server's lane")


def host_id() -> str:
    """A name for this machine's present run, the same for all its processes; "" if it has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
