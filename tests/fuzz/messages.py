"""Valid messages, made up: arrays of every dtype, protobuf messages of every type."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from headrace.base import dtypes
from headrace.codec.fields import FIELDS, MESSAGES, objects
from headrace.codec.fields import message as message_of

DTYPES = sorted(FIELDS, key=lambda dtype: dtype.name)
SIGNED = {FieldDescriptor.CPPTYPE_INT32: 32, FieldDescriptor.CPPTYPE_INT64: 64}
UNSIGNED = {FieldDescriptor.CPPTYPE_UINT32: 32, FieldDescriptor.CPPTYPE_UINT64: 64}


def array(rng: Random, handles: bool = False) -> Any:
    """Any run-time value: a few elements, now and then some thousands; `handles` too if wanted."""
    dtype = rng.choice(DTYPES)
    if dtype in MESSAGES and not handles:
        dtype = dtypes.string
    shape = tuple(rng.choice((0, 1, 2, 3, 5)) for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 6))))
    if rng.random() < 0.05 and dtype.np.kind != "O":
        shape = (rng.randrange(6_000),)
    count = math.prod(shape)
    if dtype in MESSAGES:
        elements = [message(rng, message_of(dtype), 1) for _ in range(count)]
        return objects(elements).reshape(shape)
    if dtype is dtypes.string:
        return objects([text(rng) for _ in range(count)]).reshape(shape)
    data = rng.randbytes(count * dtype.np.itemsize)
    if dtype is dtypes.bool:
        data = bytes(byte & 1 for byte in data)
    return np.frombuffer(data, dtype.np).reshape(shape)


def text(rng: Random) -> bytes:
    return b"".join([b"%x" % rng.getrandbits(16)] * rng.choice((0, 1, 1, 2, 9)))


def named(rng: Random) -> list[tuple[str, Any]]:
    """Values with names."""
    return [(text(rng).decode(), array(rng)) for _ in range(rng.choice((0, 1, 2, 4)))]


def message(rng: Random, kind: Any, depth: int = 3) -> Any:
    """A message of the class with some of its fields set, messages within it down to `depth`."""
    result = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < 0.5 or (field.message_type and not depth):
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            fill_map(rng, getattr(result, field.name), field.message_type, depth)
        elif field.is_repeated:
            getattr(result, field.name).extend(
                [value(rng, field, depth) for _ in range(rng.choice((1, 1, 2, 5)))]
            )
        elif field.message_type:
            getattr(result, field.name).CopyFrom(value(rng, field, depth))
        else:
            setattr(result, field.name, value(rng, field, depth))
    return result


def fill_map(rng: Random, target: Any, entry: Any, depth: int) -> None:
    """One entry."""
    key = value(rng, entry.fields_by_name["key"], depth)
    field = entry.fields_by_name["value"]
    if field.message_type:
        target[key].CopyFrom(value(rng, field, depth))
    else:
        target[key] = value(rng, field, depth)


def value(rng: Random, field: Any, depth: int) -> Any:
    """A value for one element of the field."""
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_MESSAGE:
        return message(rng, GetMessageClass(field.message_type), depth - 1)
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return float(rng.randrange(-100, 100))
    if kind == FieldDescriptor.CPPTYPE_STRING:
        found = text(rng)
        return found if field.type == FieldDescriptor.TYPE_BYTES else found.decode()
    if kind in UNSIGNED:
        return rng.getrandbits(rng.choice((1, 7, UNSIGNED[kind])))
    return rng.getrandbits(rng.choice((1, 7, SIGNED[kind] - 1))) - (1 << SIGNED[kind] - 1) * (
        rng.random() < 0.2
    )
