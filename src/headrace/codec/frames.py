"""Frames: messages with tensors beside them, on a stream of bytes between two headrace processes.

A frame, all numbers little-endian:

    prefix    32 bytes: magic "HR" | version u8 | kind u8 | method u16 | zero u16 | call u32 | tensors u32 |
              timeout u64, in microseconds, 0 for none | length of the header u32 | length of the table u32
    header    bytes that mean nothing here
    table     per tensor: dtype u16 (number of `DataType`) | rank u8 | zero u8 | elsewhere u32 | nbytes u64 |
              rank sizes u64
    data      per tensor nbytes, none if it is elsewhere; one after the other, row-major.  An element of a string tensor
              is bytes, of a resource or variant tensor a serialized message: the lengths of all elements u64, then the
              bytes of all of them.

`pack` leaves large arrays where they are, for sendmsg; `codec.frame_parser` has the other direction.
A tensor may be elsewhere, by a number other than 0, where the two sides have agreed on what the number means.
Does no I/O.  Called by: serve's sockets.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec.contents import LENGTH
from headrace.codec.fields import FIELDS, Array, as_messages, kind_of_objects, message

MAGIC: Final = b"HR"
VERSION: Final = 1
MAX_RANK: Final = 64  # NumPy's

PREFIX: Final = Struct("<2sBBHHIIQII")
ENTRY: Final = Struct("<HBBIQ")  # of the table, without the sizes
SIZES: Final = tuple(Struct(f"<{rank}Q") for rank in range(MAX_RANK + 1))

_BYTES: Final = np.dtype(np.uint8)

BUFFER: Final = 1 << 16
"""Bytes that a parser reads ahead."""
LARGE: Final = 1 << 13
"""Bytes from which `pack` refers to an array instead of copying it, and a parser receives it where it will be."""

REMEMBERED: Final = 64  # shapes, and forms of frames

_SMALL: Final[dict[tuple[np.dtype[Any], tuple[int, ...]], bytes]] = {}
"""Lines in the table, of plain arrays that are copied into the frame."""

_PREFIXES: Final[dict[tuple[int, int, int], bytes]] = {}
"""Of frames without tensors, by kind, method and length of the header."""

_BEGINNINGS: Final[dict[tuple[Any, ...], tuple[bytes, bytes]]] = {}
"""Prefix and table of frames with one plain array that is copied into them, by the same and its dtype and shape; of
those with a NumPy scalar by the same and its class, of those with one elsewhere by the same and that.
"""

_LATEST: Final[dict[int, tuple[np.dtype[Any], tuple[int, ...], int, int, tuple[bytes, bytes]]]] = {}
"""The last one of a plain array, by method: its dtype, shape, kind and length of the header, and how it begins.

Hashing a dtype touches more memory than all the rest of a frame.
"""

BytesLike: TypeAlias = bytes | memoryview


class Kind(IntEnum):
    """What a frame is to its receiver."""

    REQUEST = 0
    REPLY = 1
    ERROR = 2
    ONE_WAY = 3


KINDS: Final = tuple(Kind)


class Frame(NamedTuple):
    """A received frame.

    method, call: the sender's numbers, 16 and 32 bits.  timeout_us: time that the sender has left, 0 if it has no
    deadline.  values: arrays of their own, writable unless they are elsewhere; handles as the messages that stand for
    them.
    """

    kind: Kind
    method: int
    call: int
    timeout_us: int
    header: bytes
    values: list[Array]


frame_of: Final[Callable[[tuple[Kind, int, int, int, bytes, list[Array]]], Frame]] = partial(
    tuple.__new__, Frame
)
"""Makes one in a third of the time that its class takes."""


class ExternalTensor(NamedTuple):
    """A tensor whose bytes are not in the stream.  number: 1 to 2**32 - 1; dtype: not bool, not object."""

    number: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


# -- out ------------------------------------------------------------------------------------------

_NUMBERS: Final[dict[np.dtype[Any], int]] = {
    dtype.np: dtype.as_datatype_enum for dtype in FIELDS if dtype.np.kind not in "Ob"
}


def pack(
    kind: Kind,
    method: int,
    call: int,
    header: bytes = b"",
    values: Sequence[Array | np.generic | ExternalTensor] = (),
    timeout_us: int = 0,
) -> list[BytesLike]:
    """The frame's bytes, in order, none of the parts empty.

    Large contiguous arrays are not copied: they must not change until the parts have been sent.  Elements of object
    arrays are bytes, or all messages of one type.  sendmsg takes 1024 parts at most at once.

    Raises InvalidArgument for an array that no tensor holds.
    """
    in_one = len(header) < LARGE
    if not values and in_one:
        prefix = PREFIX.pack(MAGIC, VERSION, kind, method, 0, call, 0, timeout_us, len(header), 0)
        if not (call or timeout_us):
            _remember(_PREFIXES, (kind, method, len(header)), prefix)
        return [prefix + header]
    table = []
    data: list[BytesLike] = []
    for value in values:
        if isinstance(value, ExternalTensor):
            table.append(_external(value))
            continue
        entry = _SMALL.get((value.dtype, value.shape))
        if entry is not None:
            chunk: BytesLike = value.tobytes()
        else:
            entry, chunk = _described(value)
            in_one = in_one and len(chunk) < LARGE
        table.append(entry)
        data.append(chunk)
    entries = b"".join(table) if len(table) != 1 else table[0]
    prefix = PREFIX.pack(
        MAGIC, VERSION, kind, method, 0, call, len(values), timeout_us, len(header), len(entries)
    )
    if in_one:
        if len(values) == 1 and not (call or timeout_us):
            known = _kind_of(value)
            if known is not None:
                _remember(_BEGINNINGS, (kind, method, len(header), *known), (prefix, entries))
        return [b"".join((prefix, header, entries, *data))]
    return _joined([prefix, header, entries, *data])


def whole(kind: Kind, method: int, header: bytes, values: Sequence[Any]) -> bytes | None:
    """As `pack`, of one array or none, for call 0 and without a timeout, if one of that form has come before that was
    small or elsewhere.

    None: it has not, or that is no array, or there are more.
    """
    if not values:
        prefix = _PREFIXES.get((kind, method, len(header)))
        return None if prefix is None else prefix + header
    if len(values) > 1:
        return None
    value = values[0]
    if value.__class__ is np.ndarray:
        latest = _LATEST.get(method)
        if latest is not None:
            dtype, shape, of, length, beginning = latest
            if (
                value.dtype is dtype
                and value.shape == shape
                and length == len(header)
                and kind is of
            ):
                return _join((beginning[0], header, beginning[1], value.tobytes()))
        found = _BEGINNINGS.get((kind, method, len(header), value.dtype, value.shape))
        if found is not None:
            _LATEST[method] = value.dtype, value.shape, kind, len(header), found
    else:
        found = _BEGINNINGS.get((kind, method, len(header), value.__class__))
    if found is None:
        if value.__class__ is ExternalTensor:
            found = _BEGINNINGS.get((kind, method, len(header), value))
        return None if found is None else found[0] + header + found[1]
    prefix, entries = found
    return _join((prefix, header, entries, value.tobytes()))  # a buffer of NumPy's costs more


_join: Final[Callable[[tuple[bytes, ...]], bytes]] = b"".join


def _kind_of(value: Any) -> tuple[Any, ...] | None:
    """What `whole` knows it by: finding the dtype of a scalar takes longer than all the rest.  None: it does not."""
    kind = type(value)
    if kind is ExternalTensor or kind is np.bool_:  # a scalar, which is 0 or 1, other than arrays
        return (value,) if kind is ExternalTensor else (kind,)
    if (value.dtype, value.shape) not in _SMALL:
        return None
    if isinstance(value, np.generic) and np.dtype(kind) == value.dtype:
        return (kind,)
    return value.dtype, value.shape


def _remember(forms: dict[Any, Any], form: Any, begins: Any) -> None:
    if len(forms) >= REMEMBERED:
        forms.clear()
    forms[form] = begins


def _described(value: Array | np.generic) -> tuple[bytes, BytesLike]:
    """The line in the table, and the bytes.  Raises InvalidArgument for what no tensor holds."""
    number = _NUMBERS.get(value.dtype)
    small = number is not None and value.nbytes < LARGE
    chunk: BytesLike
    if number is None:
        number, chunk = _unusual(value)
    else:
        chunk = value.tobytes() if small else _bytes_of(value)
    shape = value.shape
    entry = ENTRY.pack(number, len(shape), 0, 0, len(chunk)) + SIZES[len(shape)].pack(*shape)
    if small:
        _remember(_SMALL, (value.dtype, shape), entry)
    return entry, chunk


def _external(value: ExternalTensor) -> bytes:
    """The line in the table."""
    nbytes = math.prod(value.shape) * value.dtype.itemsize
    rank = len(value.shape)
    number = _NUMBERS[value.dtype]
    return ENTRY.pack(number, rank, 0, value.number, nbytes) + SIZES[rank].pack(*value.shape)


def _joined(pieces: list[BytesLike]) -> list[BytesLike]:
    """The same bytes, small neighbours in one part."""
    parts: list[BytesLike] = []
    small: list[BytesLike] = []
    for piece in pieces:
        if len(piece) < LARGE:
            small.append(piece)
            continue
        if small:
            parts.append(b"".join(small))
            small = []
        parts.append(piece)
    last = b"".join(small)
    return [*parts, last] if last else parts


def _bytes_of(value: Array | np.generic) -> memoryview:
    """Row-major bytes, in place if they are so already."""
    return np.ascontiguousarray(value).reshape(-1).view(_BYTES).data


def _unusual(value: Array | np.generic) -> tuple[int, BytesLike]:
    """(number of the dtype, bytes): bools, objects, other byte orders.  Raises InvalidArgument for other dtypes."""
    kind = value.dtype.kind
    if kind == "b":
        return dtypes.bool.as_datatype_enum, _from_bools(value)
    if kind == "O":
        return _from_objects(np.asarray(value))
    try:
        dtype = dtypes.from_numpy(value.dtype)
    except TypeError as error:
        raise errors.invalid_argument(str(error)) from None
    if dtype.np.kind == "O":
        raise errors.invalid_argument(
            f"text is sent as an object array of bytes, not as NumPy's {value.dtype}"
        )
    return dtype.as_datatype_enum, _bytes_of(value.astype(dtype.np))


def _from_bools(value: Array | np.generic) -> BytesLike:
    """0 and 1; NumPy takes any byte for True."""
    if value.nbytes < LARGE:
        content = value.tobytes()
        if not content.translate(None, b"\0\1"):
            return content
    flat = np.ascontiguousarray(value).reshape(-1).view(_BYTES)
    if flat.max() > 1:
        flat = (flat != 0).view(_BYTES)
    return flat.data


def _from_objects(array: Array) -> tuple[int, bytes]:
    """(number of the dtype, lengths and bytes).

    Raises InvalidArgument unless all elements are bytes, or messages of one type.
    """
    elements = array.reshape(-1).tolist()
    dtype = kind_of_objects(array)
    wanted = message(dtype) or bytes
    if wanted is not bytes:
        elements = as_messages(elements)
    for element in elements:
        if not isinstance(element, wanted):
            raise errors.invalid_argument(
                f"elements of an object array are sent as bytes or as messages of one type, "
                f"not as {type(element).__name__}"
            )
    if wanted is not bytes:
        elements = [element.SerializeToString() for element in elements]
    lengths = np.array([len(element) for element in elements], LENGTH).tobytes()
    return dtype.as_datatype_enum, b"".join((lengths, *elements))
