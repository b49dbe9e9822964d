"""Ordered codes: bytes whose order is that of the values they stand for; keys of parts of tensors in checkpoints.

A part's key is 0, the tensor's name, its rank, and (start, length) of each dimension; the whole of a dimension has
start 0 and length -1.  Names end with 00 01; 00 within one is 00 FF, and FF is FF 00.
Called by: codec.tensor_bundle.  Pure.
Source: TF 1.15 core/lib/strings/ordered_code.cc and core/util/saved_tensor_slice_util.cc, for the format
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

WHOLE = -1
"""The length of a dimension that is not cut."""

Extent = tuple[int, int]
"""(start, length); (0, WHOLE) for all of it."""

_SPECIAL: Final = re.compile(rb"[\x00\xff]")
_ESCAPED: Final = {b"\x00": b"\x00\xff", b"\xff": b"\xff\x00"}


def number(value: int) -> bytes:
    """`value`, at least 0: the number of its bytes, then those, the highest first."""
    content = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([len(content)]) + content


def text(value: bytes) -> bytes:
    """A string of any bytes."""
    return _SPECIAL.sub(lambda found: _ESCAPED[found[0]], value) + b"\x00\x01"


def signed(value: int) -> bytes:
    """A number of 64 bits with a sign: as many leading bits as it has bytes say which it is."""
    bits = (~value if value < 0 else value).bit_length()
    length = bits // 7 + 1
    content = (value & (1 << 80) - 1).to_bytes(10, "big")[10 - length :]
    header = (0xFFFF << (16 - length) & 0xFFFF).to_bytes(2, "big")
    first = bytes(
        byte ^ mask for byte, mask in zip(content, header, strict=False)
    )  # of one byte only the first mask counts
    return first + content[len(first) :]


def slice_key(name: str, extents: Sequence[Extent]) -> bytes:
    """The key of a part of the tensor `name`."""
    parts = [number(0), text(name.encode()), number(len(extents))]
    for start, length in extents:
        parts += [signed(start), signed(length)]
    return b"".join(parts)
