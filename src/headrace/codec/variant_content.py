"""Variants as the bytes of a checkpoint: positions of iterators, above all.

Each is the length of its message (a varint), the message, and a masked CRC-32C that goes on from those before it: of
the lengths as numbers of eight bytes, the messages, and the checksums that were written.
Called by: codec.tensor_bundle, codec.bundle_reader.  Pure.
Source: TF 1.15 core/util/tensor_bundle/tensor_bundle.cc, for the format
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.checksums import crc32c
from headrace.codec.fields import objects
from headrace.codec.records import masked
from headrace.codec.varints import packed, unpacked

_CHECK: Final = struct.Struct("<I")
_LENGTH: Final = struct.Struct("<Q")
LEAST_BYTES: Final = 1 + _CHECK.size
"""Of an element."""


def written(value: np.ndarray[Any, Any]) -> tuple[bytes, int]:
    """(the bytes, their checksum).

    Raises InvalidArgument for what is of use in its own process only, Unimplemented for what is no variant.
    """
    out: list[bytes] = []
    crc = 0
    for each in value.reshape(-1):
        message = _message(each)
        check = _CHECK.pack(masked(_extended(crc, message)))
        crc = crc32c(check, _extended(crc, message))
        out += [packed(len(message)), message, check]
    return b"".join(out), crc


def _message(element: Any) -> bytes:
    message = element if isinstance(element, pb.VariantTensorDataProto) else None
    if message is None and hasattr(element, "to_message"):
        message = element.to_message()
    if message is None:
        raise errors.unimplemented(
            f"a tensor of type variant that is a {type(element).__name__} has no place in a checkpoint; save what it "
            "stands for"
        )
    found: bytes = message.SerializeToString()
    return found


def _extended(crc: int, message: bytes) -> int:
    return crc32c(message, crc32c(_LENGTH.pack(len(message)), crc))


def _read(content: bytes, count: int) -> Iterator[tuple[bytes, int]]:
    """Each message, and the checksum of all up to its own.  Raises ValueError."""
    at = crc = 0
    for number in range(count):
        length, at = unpacked(content, at)
        message = content[at : at + length]
        at += length
        check = content[at : at + _CHECK.size]
        at += _CHECK.size
        crc = _extended(crc, message)
        if check != _CHECK.pack(masked(crc)):
            raise ValueError(f"the checksum of variant {number} of {count} does not fit")
        crc = crc32c(check, crc)
        yield message, crc
    if at != len(content):
        raise ValueError(f"there are {len(content) - at} bytes behind the last of {count} variants")


def checksum(content: bytes, count: int) -> int:
    """What `written` gave as such, of the bytes of `count` variants.  Raises ValueError."""
    found = 0
    for _, crc in _read(content, count):
        found = crc
    return found


def read(content: bytes, count: int) -> np.ndarray[Any, Any]:
    """The messages, [count].  Raises ValueError."""
    found = []
    for message, _ in _read(content, count):
        try:
            found.append(pb.VariantTensorDataProto.FromString(message))
        except DecodeError as error:
            raise ValueError(f"a variant cannot be read: {error}") from None
    return objects(found)
