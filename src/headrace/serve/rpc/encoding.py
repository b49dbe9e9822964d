"""Messages as bytes: protobuf's, and where their tensors go.

Called by: serve.rpc.methods, the transports.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from google.protobuf.message import DecodeError, EncodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec import tensors
from headrace.codec.fields import kind_of_objects
from headrace.run.state.variable import Lease
from headrace.serve.rpc import messages as m

_MOST_INLINE = (1 << 31) - 1


class Tensors(Protocol):
    """Where the tensors of a message are: `put` and `get` are called in the same order."""

    def put(self, value: Any, into: pb.TensorProto) -> None:
        """Send `value`, an array or a Lease of one, for which `into` has a place in the message."""

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        """The values that were put for `protos`.  writable: they are to belong to the caller."""


class _Inline:
    """Tensors in the message itself, as TensorFlow has them."""

    def put(self, value: Any, into: pb.TensorProto) -> None:
        if isinstance(value, Lease):
            value = value.array
        if value.nbytes > _MOST_INLINE:  # found before gigabytes are copied for nothing
            raise _too_large(f"a tensor of {value.nbytes} bytes")
        kind = dtypes.from_numpy(value.dtype)
        if kind is dtypes.string:
            kind = kind_of_objects(value)
        tensors.encode(value, kind, into)

    def get(self, protos: Sequence[pb.TensorProto], writable: bool = False) -> list[Any]:
        return tensors.decode_all(protos, writable=writable)


INLINE: Tensors = _Inline()


def put_named(values: m.Named, into: Any, t: Tensors) -> None:
    """Send named values: `into` is the message's field, to which each adds an entry."""
    for name, value in values:
        t.put(value, into.add(name=name).tensor)


def unnamed(protos: Any, t: Tensors, writable: bool = False) -> m.Named:
    """The named values of a field.  writable: see `Tensors.get`."""
    values = t.get([item.tensor for item in protos], writable)
    return [(item.name, value) for item, value in zip(protos, values, strict=True)]


def parse(kind: Any, data: bytes) -> Any:
    """A protobuf message of that kind.  Raises InvalidArgument."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise errors.invalid_argument(
            f"the bytes are not a {kind.DESCRIPTOR.name} message: {error}"
        ) from None


def serialized(message: Any) -> bytes:
    """Its bytes.  Raises ResourceExhausted for more than protobuf can have."""
    try:
        data: bytes = message.SerializeToString()
    except EncodeError:
        raise _too_large(f"a {message.DESCRIPTOR.name} message") from None
    return data


def _too_large(what: str) -> errors.OpError:
    return errors.resource_exhausted(
        f"{what} has more than the 2 GiB that gRPC and protobuf can carry. Between processes of headrace tensors go "
        "over the lane, which has no such limit (see HEADRACE_LANE); in graphs use variables instead of large constants"
    )
