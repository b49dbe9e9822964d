"""What is fuzzed: how to make a valid message, and what must hold for any bytes instead of it.

A check returns whether the bytes were accepted.  It fails by any exception: an error that is not one of the typed
errors of its target, or an assertion about what was accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest import mock

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import frames, tensors
from headrace.codec import protos as pb
from headrace.codec.frame_parser import Parser
from headrace.serve.lane.wire import CODECS, METHODS
from headrace.serve.rpc import encoding, methods
from headrace.serve.rpc import messages as m
from tests.codec.arrays import identical
from tests.fuzz import checkpoints
from tests.fuzz.messages import array, message, named, text

CAP = 1 << 20
"""Bytes that a message may make its reader allocate."""


@dataclass(frozen=True, slots=True)
class Target:
    """`valid` makes a message that `check` accepts; both depend on nothing but their Random and bytes."""

    name: str
    valid: Callable[[Random], bytes]
    check: Callable[[Random, bytes], bool]


# -- frames ---------------------------------------------------------------------------------------


def valid_stream(rng: Random) -> bytes:
    """A few frames."""
    return b"".join(
        packed(frame) for frame in (made_up(rng) for _ in range(rng.choice((1, 1, 2, 4))))
    )


def made_up(rng: Random) -> frames.Frame:
    return frames.Frame(
        rng.choice(list(frames.Kind)), rng.getrandbits(16), rng.getrandbits(32), rng.getrandbits(64),
        text(rng) * rng.choice((0, 1, 1, 900)), [value(rng) for _ in range(rng.choice((0, 1, 1, 2, 6)))],
    )  # fmt: skip


def value(rng: Random) -> Any:
    """An array, or a place where one is."""
    made = array(rng, handles=True)
    if made.dtype.kind in "Ob" or rng.random() < 0.8:
        return made
    return frames.ExternalTensor(rng.randrange(1, 9), made.dtype, made.shape)


def packed(frame: frames.Frame) -> bytes:
    return b"".join(
        frames.pack(
            frame.kind, frame.method, frame.call, frame.header, frame.values, frame.timeout_us
        )
    )


def check_stream(rng: Random, data: bytes) -> bool:
    """Frames or a typed error, the same however the stream is cut; what was accepted can be sent on."""
    whole, refused = parsed(data, lambda: len(data))
    sizes = (1, 9, 64, 1000) if len(data) < 5000 else (64, 1000, 8191, 70_000)
    pieces, refused_in_pieces = parsed(data, lambda: rng.choice(sizes))
    assert refused == refused_in_pieces
    for one, other in zip(whole, pieces, strict=True):
        (again,), error = parsed(packed(one), lambda: 1 << 20)
        assert not error
        assert alike(one, other)
        assert alike(one, again)
    return not refused


def parsed(data: bytes, size: Callable[[], int]) -> tuple[list[frames.Frame], str]:
    """The frames in pieces of that size, and what was said at the end of them."""
    parser = Parser(CAP, lambda number, dtype, shape: np.zeros(shape, dtype))
    got: list[frames.Frame] = []
    at = 0
    while True:
        try:
            while (frame := parser.next()) is not None:
                got.append(frame)
        except (errors.InvalidArgumentError, errors.ResourceExhaustedError) as error:
            return got, error.message
        if at == len(data):
            return got, ""
        buffer = parser.buffer()
        piece = data[at : at + min(size(), len(buffer))]
        buffer[: len(piece)] = piece
        parser.received(len(piece))
        at += len(piece)


def alike(one: frames.Frame, other: frames.Frame) -> bool:
    plain = [
        (f.kind, f.method, f.call, f.timeout_us, f.header, len(f.values)) for f in (one, other)
    ]
    return plain[0] == plain[1] and all(map(identical, one.values, other.values))


# -- tensors --------------------------------------------------------------------------------------


def valid_tensor(rng: Random) -> bytes:
    """In either of the two encodings."""
    value = array(rng)
    dtype = dtypes.from_numpy(value.dtype)
    if rng.random() < 0.5:
        return tensors.encode(value, dtype).SerializeToString()
    return tensors.make_tensor_proto(value, dtype).SerializeToString()


def check_tensor(rng: Random, data: bytes) -> bool:
    """An array of the dtype and shape that the message names, which encodes to a message that means the same."""
    try:
        proto = pb.TensorProto.FromString(data)
    except DecodeError:
        return False
    try:
        value = tensors.decode(proto, max_fill_bytes=CAP // 2, writable=rng.random() < 0.5)
    except errors.InvalidArgumentError:
        return False
    dtype = dtypes.DType(proto.dtype)
    assert value.dtype == dtype.np
    assert value.shape == tuple(dim.size for dim in proto.tensor_shape.dim)
    assert identical(tensors.decode(tensors.encode(value, dtype)), value)
    return True


# -- the messages of the services -----------------------------------------------------------------


def tensor_messages(rng: Random) -> dict[str, tuple[Any, Any]]:
    """(request, reply) of the methods whose messages are not the protobuf ones."""
    number, word = rng.getrandbits(20), text(rng).decode()
    words = [text(rng).decode() for _ in range(3)]
    values = [value for _, value in named(rng)]
    return {
        "RunStep": (
            m.RunStepRequest(word, named(rng), words, words, message(rng, pb.RunOptions), word, True, number),
            m.RunStepReply(named(rng), message(rng, pb.RunMetadata), number, message(rng, pb.DirectStep)),
        ),
        "RunGraph": (
            m.RunGraphRequest(word, number, named(rng), words, word, True),
            m.RunGraphReply(named(rng), message(rng, pb.StepStats)),
        ),
        "RecvTensor": (
            m.RecvTensorRequest(number, word, number),
            m.RecvTensorReply(None, True) if number % 2 else m.RecvTensorReply(array(rng), False, number),
        ),
        "SendTensor": (
            m.SendTensorRequest(number, word, None, True) if number % 2
            else m.SendTensorRequest(number, word, array(rng)),
            pb.SendTensorResponse(),
        ),
        "RunCallable": (
            m.RunCallableRequest(word, number, values, number),
            m.RunCallableReply(values, message(rng, pb.RunMetadata)),
        ),
        "RunKnown": (m.RunKnownRequest(word, number, values), m.ValuesReply(values)),
        "RunPart": (m.RunPartRequest(word, number, values), m.ValuesReply(values)),
    }  # fmt: skip


def valid_request(method: methods.Method) -> Callable[[Random], bytes]:
    def valid(rng: Random) -> bytes:
        special = tensor_messages(rng).get(method.name)
        if special is not None:
            return method.encode_request(special[0], encoding.INLINE)
        return some(rng, method, 0)

    return valid


def valid_reply(method: methods.Method) -> Callable[[Random], bytes]:
    def valid(rng: Random) -> bytes:
        special = tensor_messages(rng).get(method.name)
        if special is not None:
            return method.encode_reply(special[1], encoding.INLINE)
        return some(rng, method, 1)

    return valid


def some(rng: Random, method: methods.Method, which: int) -> bytes:
    """A request (0) or reply (1) of a method without tensors."""
    return (
        text(rng) if method.plain is None else message(rng, method.plain[which]).SerializeToString()
    )


def check_request(method: methods.Method) -> Callable[[Random, bytes], bool]:
    def check(rng: Random, data: bytes) -> bool:
        try:
            with mock.patch.object(tensors, "MAX_FILL_BYTES", CAP // 2):
                request = method.decode_request(data, encoding.INLINE)
        except errors.InvalidArgumentError:
            return False
        method.encode_request(request, encoding.INLINE)
        return True

    return check


def check_reply(method: methods.Method) -> Callable[[Random, bytes], bool]:
    """A reply may be an error of any kind."""

    def check(rng: Random, data: bytes) -> bool:
        try:
            with mock.patch.object(tensors, "MAX_FILL_BYTES", CAP // 2):
                method.decode_reply(data, encoding.INLINE)
        except errors.OpError:
            return False
        return True

    return check


# -- the same on the lane -------------------------------------------------------------------------


def valid_lane_request(rng: Random) -> bytes:
    """A request with its tensors beside it."""
    method = rng.choice(METHODS)
    special = tensor_messages(rng).get(method.name)
    codec = CODECS[method]
    if special is None:
        header, values = valid_request(method)(rng), ()
    else:
        header, values = codec.encode_request(special[0])
    return b"".join(frames.pack(frames.Kind.REQUEST, codec.number, 0, header, values))


def check_lane_request(rng: Random, data: bytes) -> bool:
    """Requests or a typed error."""
    got, refused = parsed(data, lambda: len(data))
    for frame in got:
        if frame.method >= len(METHODS):
            return False
        codec = CODECS[METHODS[frame.method]]
        try:
            request = codec.decode_request(frame.header, frame.values)
        except errors.InvalidArgumentError:
            return False
        codec.encode_request(request)
    return not refused


TARGETS = {
    target.name: target
    for target in (
        Target("frames", valid_stream, check_stream),
        Target("tensors", valid_tensor, check_tensor),
        Target("lane", valid_lane_request, check_lane_request),
        Target("bundles", checkpoints.valid_bundle, checkpoints.check_bundle),
        Target("slice tables", checkpoints.valid_slices, checkpoints.check_slices),
        Target("tables", checkpoints.valid_table, checkpoints.check_table),
        *(Target(f"{e.name}.request", valid_request(e), check_request(e)) for e in METHODS),
        *(Target(f"{e.name}.reply", valid_reply(e), check_reply(e)) for e in METHODS),
    )
}
