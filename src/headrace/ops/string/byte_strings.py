"""Strings as bytes: raw decoding, parts, base64.

Called by: input pipelines, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/decode_raw_op.cc, decode_padded_raw_op.cc, substr_op.cc,
base64_ops.cc), GraphDefs as 2.21.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.limits import Growth
from headrace.base.shapes import Shape, text
from headrace.base.traits import OF_RAGGED, PER_RECORD
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_scalar
from headrace.ops.string.strings import mapped

__all__ = ["decode_base64", "decode_raw", "encode_base64", "substr"]

# -- raw bytes --------------------------------------------------------------------------------


def _raw_shape(c: ShapeContext) -> Shape:
    whole = c.shape(0)
    if whole is None:
        return None
    count = None
    if len(c.op.inputs) == 2:
        length = c.value(1)
        count = None if length is None else int(length) // c.attr("out_type").size
    return (*whole, count)


def _decoded(
    rows: list[bytes], sizes: tuple[int, ...], length: int, kind: DType, little_endian: bool
) -> Any:
    if length % kind.size:
        raise errors.invalid_argument(
            f"Input to DecodeRaw has length {length} that is not a multiple of {kind.size}, the size of "
            f"{dtypes.spelled(kind)}"
        )
    whole = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), length)
    if not little_endian and kind.size > 1:
        unit = kind.size // 2 if kind.is_complex else kind.size
        whole = whole.reshape(len(rows), length // unit, unit)[..., ::-1]
    data = np.ascontiguousarray(whole).reshape(-1)
    if kind is dtypes.bool and data.size and data.max() > 1:
        raise errors.invalid_argument(
            "bytes of bools must be 0 or 1, and one of the input is neither"
        )
    out = data.view(kind.np)
    return out.reshape(*sizes, length // kind.size).copy()


@op(
    "DecodeRaw",
    inputs="bytes: string",
    outputs="output: out_type",
    attrs="out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, "
    "bool, bfloat16}; little_endian: bool = true",
    shape=_raw_shape,
    traits={PER_RECORD},
    differentiable=False,
)
def decode_raw_op(xp: Any, bytes: Any, *, out_type: DType, little_endian: bool) -> Any:
    """The bytes of each string as elements of out_type: [...] to [..., n].

    Raises InvalidArgument if the strings differ in length, or it is no multiple of the type's size.
    """
    rows = np.reshape(bytes, -1).tolist()
    length = len(rows[0]) if rows else 0
    for index, row in enumerate(rows):
        if len(row) != length:
            raise errors.invalid_argument(
                f"DecodeRaw requires input strings to all be the same size, but element {index} has {len(row)} bytes "
                f"and element 0 {length}"
            )
    return _decoded(rows, np.shape(bytes), length, out_type, little_endian)


@op(
    "DecodePaddedRaw",
    inputs="input_bytes: string; fixed_length: int32",
    outputs="output: out_type",
    attrs="out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; "
    "little_endian: bool = true",
    shape=_raw_shape,
    differentiable=False,
)
def decode_padded_raw_op(
    xp: Any, input_bytes: Any, fixed_length: Any, *, out_type: DType, little_endian: bool
) -> Any:
    """DecodeRaw of strings cut or filled with zeros to fixed_length bytes.

    Raises InvalidArgument if that is not positive or no multiple of the type's size, ResourceExhausted (`base.limits`).
    """
    length = checked_scalar(fixed_length, "fixed_length")
    if length <= 0:
        raise errors.invalid_argument(f"fixed_length must be > 0, but is {length}")
    Growth(f"strings filled with zeros to {length} bytes").add(length * np.size(input_bytes))
    rows = [row[:length].ljust(length, b"\0") for row in np.reshape(input_bytes, -1).tolist()]
    return _decoded(rows, np.shape(input_bytes), length, out_type, little_endian)


def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """The bytes of each string as elements of `out_type`: [...] to [..., n]; `bytes` is an old name of the input."""
    source = bytes if input_bytes is None else input_bytes
    made: Tensor = decode_raw_op(source, out_type=out_type, little_endian=little_endian, name=name)
    return made


# -- parts ------------------------------------------------------------------------------------


def _substr_shape(c: ShapeContext) -> Shape:
    pos, length = c.shape("pos"), c.shape("len")
    if not shape_rules.compatible(pos, length):
        raise ValueError(f"pos and len shapes must match: {text(pos)} vs. {text(length)}")
    if pos is not None and length is not None and len(pos) != len(length):
        raise ValueError(f"pos {text(pos)} and len {text(length)} must have one rank")
    return shape_rules.broadcast(c.shape("input"), pos)


def _start(size: int, value: bytes, pos: int, index: int) -> int:
    """Where a part begins of `size` units of `value`.  Raises InvalidArgument."""
    if not -size <= pos <= size:
        raise errors.invalid_argument(
            f"pos {pos} out of range for string {value!r} at index {index}"
        )
    return pos + size if pos < 0 else pos


def _part(value: bytes, pos: int, count: int, index: int) -> bytes:
    """Of characters."""
    whole = value.decode(errors="surrogateescape")
    start = _start(len(whole), value, pos, index)
    found = whole[start:] if count < 0 else whole[start : start + count]
    return found.encode(errors="surrogateescape")


def _parts_of_bytes(strings: list[bytes], starts: list[int], counts: list[int]) -> list[bytes]:
    found = []
    for index, value in enumerate(strings):
        pos, count, size = starts[index], counts[index], len(value)
        if not 0 <= pos <= size:
            pos = _start(size, value, pos, index)
        found.append(value[pos:] if count < 0 else value[pos : pos + count])
    return found


@op(
    "Substr",
    inputs="input: string; pos: T; len: T",
    outputs="output: string",
    attrs="T: {int32, int64}; unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'",
    shape=_substr_shape,
    traits={PER_RECORD},
    differentiable=False,
)
def substr_op(xp: Any, input: Any, pos: Any, len: Any, *, unit: bytes) -> Any:
    """len units of each string from pos on (negative: from the end), fewer if it ends before.

    pos and len: one shape, broadcast with input.  Raises InvalidArgument if pos is outside a string.
    """
    if np.shape(pos) != np.shape(len):
        raise errors.invalid_argument(
            f"pos and len must have one shape, but have {list(np.shape(pos))} and {list(np.shape(len))}"
        )
    try:
        strings, starts, counts = np.broadcast_arrays(input, pos, len)
    except ValueError:
        raise errors.invalid_argument(
            f"Incompatible shapes: {list(np.shape(input))} vs. {list(np.shape(pos))}: input and pos do not broadcast"
        ) from None
    out = np.empty(strings.shape, object)
    flat = [each.reshape(-1).tolist() for each in (strings, starts, counts)]
    if unit == b"BYTE":
        out.reshape(-1)[:] = _parts_of_bytes(*flat)
    else:
        rows = zip(*flat, range(out.size), strict=True)
        out.reshape(-1)[:] = [_part(*row) for row in rows]
    return out


@of_ragged
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """`len` units of each string from `pos` on; a negative pos counts from the end."""
    made: Tensor = substr_op(input, pos, len, unit=unit, name=name)
    return made


# -- base64 -----------------------------------------------------------------------------------

_BASE64 = re.compile(rb"[A-Za-z0-9_-]*=*\Z")


@op(
    "EncodeBase64",
    inputs="input: string",
    outputs="output: string",
    attrs="pad: bool = false",
    shape=unchanged,
    differentiable=False,
)
def encode_base64_op(xp: Any, input: Any, *, pad: bool) -> Any:
    """The strings in web-safe base64, filled up with '=' if `pad`."""

    def encode(value: bytes) -> bytes:
        coded = base64.urlsafe_b64encode(value)
        return coded if pad else coded.rstrip(b"=")

    return mapped(encode, input)


@of_ragged
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """The strings in web-safe base64, filled up with '=' if `pad`."""
    made: Tensor = encode_base64_op(input, pad=pad, name=name)
    return made


@op(
    "DecodeBase64",
    inputs="input: string",
    outputs="output: string",
    shape=unchanged,
    traits={PER_RECORD, OF_RAGGED},
    differentiable=False,
)
def decode_base64(xp: Any, input: Any) -> Any:
    """The strings that web-safe base64, filled up or not, stands for.

    Raises InvalidArgument on another character or an impossible length.
    """

    def decode(value: bytes) -> bytes:
        bare = value.rstrip(b"=")
        if len(bare) % 4 == 1:
            raise errors.invalid_argument(
                f"Base64 string length cannot be 1 modulo 4: it is {len(bare)} in {value!r}"
            )
        if not _BASE64.match(value) or len(value) - len(bare) > 2:
            raise errors.invalid_argument(f"Invalid character found in base64: that is {value!r}")
        try:
            return base64.urlsafe_b64decode(bare + b"=" * (-len(bare) % 4))
        except binascii.Error as error:
            raise errors.invalid_argument(f"{value!r} is not base64: {error}") from None

    return mapped(decode, input)
