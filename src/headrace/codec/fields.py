"""TensorProto's fields: which of them holds a dtype's values, and how to put values in and take them out.

A TensorProto holds its values either as `tensor_content` (the raw little-endian, row-major bytes) or in one typed
repeated field per family of dtypes, where a last value that repeats to the end of the shape is written once.
Called by: codec.tensors only.  Threads: pure functions.
Source: TF 1.15 core/framework/tensor.proto and tensor.cc; 2.21 for the later dtypes
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb

Array = np.ndarray[Any, Any]


class Field(NamedTuple):
    """The typed field of one dtype: its name, and the NumPy type of what stands in it.

    `graphs_use_content`: in a graph's constants, more than one value go into tensor_content.
    """

    name: str
    carrier: np.dtype[Any]
    graphs_use_content: bool


def _fields() -> dict[dtypes.DType, Field]:
    table: list[tuple[str, Any, bool, tuple[dtypes.DType, ...]]] = [
        ("float_val", np.float32, True, (dtypes.float32,)),
        ("double_val", np.float64, True, (dtypes.float64,)),
        ("int_val", np.int32, True, (dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint8)),
        ("int_val", np.int32, True, (dtypes.qint8, dtypes.quint8, dtypes.qint16, dtypes.quint16)),
        ("int_val", np.int32, True, (dtypes.qint32,)),
        ("int_val", np.int32, False, (dtypes.uint16, dtypes.int4, dtypes.uint4)),
        ("int_val", np.int32, False, (dtypes.int2, dtypes.uint2)),
        ("int64_val", np.int64, True, (dtypes.int64,)),
        ("uint32_val", np.uint32, True, (dtypes.uint32,)),
        ("uint64_val", np.uint64, True, (dtypes.uint64,)),
        ("bool_val", np.bool_, False, (dtypes.bool,)),
        ("half_val", np.uint16, True, (dtypes.float16, dtypes.bfloat16)),
        ("float8_val", np.uint8, True, (dtypes.float8_e5m2, dtypes.float8_e4m3fn)),
        ("float8_val", np.uint8, True, (dtypes.float8_e4m3fnuz, dtypes.float8_e4m3b11fnuz)),
        ("float8_val", np.uint8, True, (dtypes.float8_e5m2fnuz, dtypes.float4_e2m1fn)),
        ("scomplex_val", np.float32, False, (dtypes.complex64,)),
        ("dcomplex_val", np.float64, False, (dtypes.complex128,)),
        ("string_val", np.object_, False, (dtypes.string,)),
        ("resource_handle_val", np.object_, False, (dtypes.resource,)),
        ("variant_val", np.object_, False, (dtypes.variant,)),
    ]
    return {
        dtype: Field(name, np.dtype(carrier), content)
        for name, carrier, content, members in table
        for dtype in members
    }


FIELDS = _fields()
"""Every base dtype's typed field."""

MESSAGES = {dtypes.resource: "ResourceHandleProto", dtypes.variant: "VariantTensorDataProto"}
"""The messages that elements of these dtypes are, by name: loading them takes its time."""


def message(dtype: dtypes.DType) -> Any:
    """The class of the messages that elements of `dtype` are; None for other dtypes."""
    name = MESSAGES.get(dtype)
    return None if name is None else getattr(pb, name)


def kind_of_objects(array: Array) -> dtypes.DType:
    """The dtype that a tensor of objects has, by its first element: string, resource or variant; of none string."""
    if not array.size:
        return dtypes.string
    first = array.reshape(-1)[0]
    if isinstance(first, bytes):
        return dtypes.string
    if hasattr(first, "to_message"):
        return dtypes.variant
    found = [dtype for dtype in MESSAGES if isinstance(first, message(dtype))]
    return found[0] if found else dtypes.string


def as_messages(values: list[Any]) -> list[Any]:
    """Elements of an object array as they are written: of those that know the message that stands for them, that."""
    return [value.to_message() if hasattr(value, "to_message") else value for value in values]


def put_typed(proto: pb.TensorProto, array: Array, dtype: dtypes.DType) -> None:
    """Append all elements of `array`, in row-major order, to the dtype's typed field.

    Raises InvalidArgument for elements that cannot be written: a string that is not bytes, a handle that is no message.
    """
    field = FIELDS[dtype]
    if field.name == "float8_val":
        proto.float8_val += array.tobytes()
        return
    flat = array.reshape(-1)
    if field.carrier.kind == "O":
        values = flat.tolist()
        wanted = message(dtype) or bytes
        if wanted is not bytes:
            values = as_messages(values)
        for value in values:
            if not isinstance(value, wanted):
                raise errors.invalid_argument(
                    f"an element of a {dtype.name} tensor is written as {wanted.__name__}; "
                    f"this one is of type {type(value).__name__}"
                )
        getattr(proto, field.name).extend(values)
    elif field.name in ("half_val", "scomplex_val", "dcomplex_val"):
        getattr(proto, field.name).extend(np.ascontiguousarray(flat).view(field.carrier).tolist())
    else:
        getattr(proto, field.name).extend(
            plain(flat, dtype).astype(field.carrier, copy=False).tolist()
        )


def plain(array: Array, dtype: dtypes.DType) -> Array:
    """Integers in place of the one-field records that hold quantized values."""
    return array[dtype.name] if dtype.is_quantized else array


def get_typed(proto: pb.TensorProto, dtype: dtypes.DType) -> Array:
    """Values of the typed field as they stand there, without repetition: [n] of dtype.np.

    Integers too large for the dtype wrap.  Half a complex number at the end is dropped.
    """
    field = FIELDS[dtype]
    stored = getattr(proto, field.name)
    if field.name == "float8_val":
        return np.frombuffer(stored, dtype.np)
    if field.carrier.kind == "O":
        return objects(list(stored))
    if field.name == "half_val":  # int32 on the wire, of which the lower 16 bits count
        return np.fromiter(stored, np.int32, len(stored)).astype(np.uint16).view(dtype.np)
    values: Array = np.fromiter(stored, field.carrier, len(stored))
    if dtype.is_complex:
        return values[: len(values) // 2 * 2].view(dtype.np)
    if dtype.is_quantized:
        return values.astype(dtype.np[0]).view(dtype.np)
    return values.astype(dtype.np, copy=False)


def objects(values: list[Any]) -> Array:
    """[n] of dtype object; NumPy itself would look inside the elements."""
    array = np.empty(len(values), np.object_)
    array[:] = values
    return array


def from_content(content: bytes, count: int, dtype: dtypes.DType) -> Array:
    """`count` values out of tensor_content: [count], a read-only view of `content` where that is possible.

    Raises InvalidArgument unless the content is exactly that many values.
    """
    if FIELDS[dtype].carrier.kind == "O":
        return objects(from_string_list(content, count, dtype))
    if len(content) != count * dtype.np.itemsize:
        raise errors.invalid_argument(
            f"{len(content)} bytes of tensor content cannot be {count} elements of {dtype.name}, "
            f"which take {count * dtype.np.itemsize}"
        )
    if dtype is dtypes.bool and content.translate(None, b"\0\1"):
        raise errors.invalid_argument(
            "tensor content of a bool tensor has bytes that are neither 0 nor 1"
        )
    return np.frombuffer(content, dtype.np)


def from_string_list(content: bytes, count: int, dtype: dtypes.DType) -> list[Any]:
    """Strings or messages: `count` lengths as varints, then the bytes of all of them.

    Raises InvalidArgument unless lengths and bytes fill the content exactly.
    """
    if count > len(content):
        raise errors.invalid_argument(
            f"{len(content)} bytes of tensor content cannot be {count} elements"
        )
    lengths, at = [], 0
    for _ in range(count):
        length, at = varint(content, at)
        lengths.append(length)
    if at + sum(lengths) != len(content):
        raise errors.invalid_argument(
            f"tensor content of {len(content)} bytes announces {count} elements of "
            f"{sum(lengths)} bytes in all behind {at} bytes of lengths"
        )
    values: list[Any] = []
    for length in lengths:
        values.append(content[at : at + length])
        at += length
    kind = message(dtype)
    return values if kind is None else [parse(kind, value) for value in values]


def varint(content: bytes, at: int) -> tuple[int, int]:
    """(unsigned 32-bit value, position behind it).  Raises InvalidArgument if it does not end."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(content):
            break
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise errors.invalid_argument(
        "tensor content ends, or runs on, within the length of an element"
    )


def parse(message: Any, data: bytes) -> Any:
    """The message in `data`.  Raises InvalidArgument if there is none."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        raise errors.invalid_argument(
            f"tensor content holds no {message.DESCRIPTOR.name}: {error}"
        ) from error


def to_string_list(values: Iterable[bytes]) -> bytes:
    """Strings as `from_string_list` reads them."""
    strings = list(values)
    lengths = bytearray()
    for string in strings:
        length = len(string)
        while length > 0x7F:
            lengths.append(length & 0x7F | 0x80)
            length >>= 7
        lengths.append(length)
    return bytes(lengths) + b"".join(strings)
