"""What the lane's two ends agree on: numbers of methods, tensors out of band, who may speak.

Called by: serve.lane.server, serve.lane.client.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.codec import frames
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.methods import (
    MASTER_METHODS,
    RUN_KNOWN,
    RUN_PART,
    SEND_TENSOR,
    WORKER_METHODS,
    Method,
    parse,
)

METHODS = (*MASTER_METHODS, *WORKER_METHODS)
NUMBERS = {method.path: number for number, method in enumerate(METHODS)}
BETWEEN_TASKS = range(len(MASTER_METHODS), len(METHODS))
"""Numbers of methods whose caller is a task, which only reads the values that it is sent."""

_REVISION = "5"  # of messages that are not protobuf's, see serve.rpc.methods
VERSION = (frames.VERSION << 32) | zlib.crc32(" ".join([_REVISION, *NUMBERS]).encode())
"""Of frames, messages and the table of methods; peers of different versions talk gRPC."""

HANDSHAKE = 0xFFFF
"""The number of the frame that a server sends first, a LaneAddress that says who it is; and of the error
that it sends last.
"""

PROOF = 0xFFFE
"""The number of the frames that prove to either side that the other knows the secret."""

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


_MOST_KNOWN = 256  # requests that are remembered

_NUMBER: Final = Struct("<Q")  # of 8 bytes
_number: Final = _NUMBER.unpack_from
_PART: Final = Struct("<Q?")  # the step, whether its client asks for it by itself
_part: Final = _PART.unpack_from
_SENT: Final = Struct("<QBI")  # the step, whether it is dead, how many were taken


def _encode_run_known(request: m.RunKnownRequest) -> tuple[bytes, Sequence[Any]]:
    return _NUMBER.pack(request.signature) + request.session_handle.encode(), request.feeds


def _decode_run_known(data: bytes, values: list[Any]) -> m.RunKnownRequest:
    return _run_known(data, values) if values else _run_known_again(data)


def _run_known(data: bytes, values: list[Any]) -> m.RunKnownRequest:
    if len(data) < 8:
        raise errors.invalid_argument(f"{len(data)} bytes are no request to run a known step")
    (number,) = _number(data)
    return m.RunKnownRequest(data[8:].decode("utf-8", "replace"), number, values, True)


@lru_cache(_MOST_KNOWN)
def _run_known_again(data: bytes) -> m.RunKnownRequest:
    """The same each time: whoever answers it changes nothing in it."""
    return _run_known(data, [])


def _encode_run_part(request: m.RunPartRequest) -> tuple[bytes, Sequence[Any]]:
    return _PART.pack(
        request.step_id, request.direct
    ) + request.graph_handle.encode(), request.feeds


def _decode_run_part(data: bytes, values: list[Any]) -> m.RunPartRequest:
    if len(data) < 9:
        raise errors.invalid_argument(f"{len(data)} bytes are no request to run a partition")
    number, direct = _part(data)
    return _part_of((data[9:].decode("utf-8", "replace"), number, values, direct))


_part_of: Final[Callable[[tuple[str, int, list[Any], bool]], m.RunPartRequest]] = partial(
    tuple.__new__, m.RunPartRequest
)
"""Makes one in a third of the time that its class takes."""


def _decode_values(data: bytes, values: list[Any]) -> m.ValuesReply:
    return m.ValuesReply(values)


def encode_sent(request: m.SendTensorRequest) -> tuple[bytes, Sequence[Any]]:
    """A value that is sent: SEND_TENSOR."""
    fixed = _SENT.pack(request.step_id, request.is_dead, request.taken)
    header = fixed + request.rendezvous_key.encode()
    return header, () if request.is_dead else (request.value,)


def decode_sent(data: bytes, values: list[Any]) -> m.SendTensorRequest:
    """As it was encoded.  Raises InvalidArgument."""
    if len(data) >= _SENT.size:
        step_id, dead, taken = _SENT.unpack_from(data)
        if len(values) + dead == 1:
            name = data[_SENT.size :].decode("utf-8", "replace")
            value = None if dead else values[0]
            return m.SendTensorRequest(step_id, name, value, bool(dead), taken)
    raise errors.invalid_argument(f"{len(data)} bytes beside {len(values)} tensors send no value")


def _encode_message(message: Any) -> tuple[bytes, Sequence[Any]]:
    return message.SerializeToString(), ()


# Messages of every step: nothing of them is protobuf's, which takes longer than all the rest.
_BRIEF: Final[dict[Method, tuple[Any, Any, Any, Any]]] = {
    RUN_KNOWN: (_encode_run_known, _decode_run_known, None, _decode_values),
    RUN_PART: (_encode_run_part, _decode_run_part, None, _decode_values),
    SEND_TENSOR: (
        encode_sent, decode_sent, _encode_message, lambda data, _: parse(pb.SendTensorResponse, data),
    ),
}  # fmt: skip

CODECS: Final = {
    method: Codec(number, *_BRIEF[method], number in BETWEEN_TASKS)
    if method in _BRIEF
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
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
