"""Brief messages: those of every step, where tensors go out of band: a few bytes, and the tensors.

Nothing of them is protobuf's, which takes longer than all the rest.
Called by: serve.rpc.methods (rows).  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from struct import Struct
from typing import Any, Final, NamedTuple

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.encoding import parse


class Brief(NamedTuple):
    """Both messages of a method, as (bytes, tensors).

    encode_reply: None where the reply is the tensors, and nothing else.
    """

    encode_request: Callable[[Any], tuple[bytes, Sequence[Any]]]
    decode_request: Callable[[bytes, list[Any]], Any]
    encode_reply: Callable[[Any], tuple[bytes, Sequence[Any]]] | None
    decode_reply: Callable[[bytes, list[Any]], Any]


_MOST_KNOWN = 256  # requests that are remembered

_NUMBER: Final = Struct("<Q")  # of 8 bytes
STEP_BYTES: Final = 8
"""At the end of a request for a step that comes again: its number, or that of its signature; all else is the same each
time.
"""
_DIRECT: Final = (  # whether its client asks for it by itself; then the partition, and the step
    b"\0",
    bytes([m.DIRECT]),
    bytes([m.DIRECT_TOO]),
)
_SENT: Final = Struct("<QBI")  # the step, whether it is dead, how many were taken


def _encode_run_known(request: m.RunKnownRequest) -> tuple[bytes, Sequence[Any]]:
    return request.session_handle.encode() + _NUMBER.pack(request.signature), request.feeds


def _decode_run_known(data: bytes, values: list[Any]) -> m.RunKnownRequest:
    return _run_known(data, values) if values else _run_known_again(data)


def _run_known(data: bytes, values: list[Any]) -> m.RunKnownRequest:
    if len(data) < STEP_BYTES:
        raise errors.invalid_argument(f"{len(data)} bytes are no request to run a known step")
    number = int.from_bytes(data[-STEP_BYTES:], "little")
    handle = data[:-STEP_BYTES].decode("utf-8", "replace")
    return m.RunKnownRequest(handle, number, values, True)


@lru_cache(_MOST_KNOWN)
def _run_known_again(data: bytes) -> m.RunKnownRequest:
    """The same each time: whoever answers it changes nothing in it."""
    return _run_known(data, [])


def _encode_run_part(request: m.RunPartRequest) -> tuple[bytes, Sequence[Any]]:
    handle, step_id, feeds, direct = request
    return _DIRECT[direct] + handle.encode() + step_id.to_bytes(STEP_BYTES, "little"), feeds


def _decode_run_part(data: bytes, values: list[Any]) -> m.RunPartRequest:
    if len(data) <= STEP_BYTES:
        raise errors.invalid_argument(f"{len(data)} bytes are no request to run a partition")
    number = int.from_bytes(data[-STEP_BYTES:], "little")
    handle = data[1:-STEP_BYTES].decode("utf-8", "replace")
    return part_of((handle, number, values, data[0]))


part_of: Final[Callable[[tuple[str, int, list[Any], int]], m.RunPartRequest]] = partial(
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


def _decode_sent_reply(data: bytes, values: list[Any]) -> pb.SendTensorResponse:
    found: pb.SendTensorResponse = parse(pb.SendTensorResponse, data)
    return found


RUN_KNOWN: Final = Brief(_encode_run_known, _decode_run_known, None, _decode_values)
RUN_PART: Final = Brief(_encode_run_part, _decode_run_part, None, _decode_values)
SEND_TENSOR: Final = Brief(encode_sent, decode_sent, _encode_message, _decode_sent_reply)
