"""Tensor bundles: the bytes of checkpoints (format V2), an index that is a sorted table and shards of plain data.

``PREFIX.index`` has a `BundleHeaderProto` under the empty key and a `BundleEntryProto` for each tensor: type, shape,
and where in which shard its bytes are, with their masked CRC-32C.  ``PREFIX.data-00000-of-00002`` is the bytes of
tensors, one behind the other: numbers as they lie in memory, little-endian; strings as their lengths (varints), a
checksum of the lengths, and then their bytes; variants as `codec.variant_content` says.
A tensor that was saved in parts has an entry with the whole shape and
the parts' places instead of data, and an entry of its own for each part (`codec.ordered`).
No I/O here: a `Writer` hands on pieces for a shard, a `Reader` asks for ranges of shards.
Called by: run.checkpoints.  Threads: a Writer one; a Reader any, one at a time.
Source: TF 1.15 core/util/tensor_bundle/tensor_bundle.cc and core/protobuf/tensor_bundle.proto, for the format
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec import sorted_table, variant_content
from headrace.codec.checksums import Buffer, crc32c
from headrace.codec.ordered import Extent, slice_key
from headrace.codec.parts import sizes_of, slice_proto
from headrace.codec.records import masked
from headrace.codec.tensors import shape_to_proto
from headrace.codec.varints import packed, unpacked

Array = np.ndarray[Any, Any]
VERSION: Final = 1
"""Of the format, as TensorFlow writes it."""

HEADER_KEY: Final = b""
CHECKED_APART: Final = (pb.DT_STRING, pb.DT_VARIANT)
"""Types whose checksums are not those of their bytes as they lie in the file."""

_LENGTHS_CHECK: Final = struct.Struct("<I")
_MOST_SHORT: Final = 0xFFFFFFFF


def index_name(prefix: str) -> str:
    """The file of the index."""
    return f"{prefix}.index"


def shard_name(prefix: str, shard: int, count: int) -> str:
    """The file of a shard's data."""
    return f"{prefix}.data-{shard:05d}-of-{count:05d}"


# -- values to bytes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Encoded:
    """A tensor's bytes in a shard: `head`, then `content`.  crc: of what comes before the content."""

    head: bytes
    content: Buffer
    crc: int


def encoded(value: Array, dtype: dtypes.DType) -> Encoded:
    """The bytes of a tensor; without a copy where `value` is contiguous.

    Raises Unimplemented for what is no data (resources, and variants that are of use in their own process only).
    """
    if dtype is dtypes.string:
        return _encoded_strings(value)
    if dtype is dtypes.variant:
        variants, crc = variant_content.written(value)
        return Encoded(variants, b"", crc)
    if dtype is dtypes.resource:
        raise errors.unimplemented(
            f"tensors of type {dtype.name} have no place in a checkpoint; save what they stand for"
        )
    content = np.ascontiguousarray(_little_endian(value)).reshape(-1).view(np.uint8)
    return Encoded(b"", content, 0)


def _little_endian(value: Array) -> Array:
    if sys.byteorder == "big":
        return value.byteswap()
    return value


def _encoded_strings(value: Array) -> Encoded:
    strings = [bytes(each) for each in value.reshape(-1)]
    lengths, crc = b"".join(packed(len(each)) for each in strings), _length_crc(map(len, strings))
    check = _LENGTHS_CHECK.pack(masked(crc))
    return Encoded(lengths + check, b"".join(strings), crc32c(check, crc))


def _length_crc(lengths: Iterable[int]) -> int:
    """Of lengths as numbers of four bytes, of eight where four are too few."""
    return crc32c(
        b"".join(each.to_bytes(4 if each <= _MOST_SHORT else 8, "little") for each in lengths)
    )


# -- bytes to values ------------------------------------------------------------------------------


def decoded(content: Buffer, dtype: dtypes.DType, sizes: tuple[int, ...]) -> Array:
    """The tensor, an array of its own; `content` itself if that is an array which can be changed.

    Raises ValueError for bytes that do not fit, Unimplemented for its type.
    """
    if dtype is dtypes.string:
        return _decoded_strings(bytes(content), sizes)
    if dtype is dtypes.variant:
        return variant_content.read(bytes(content), _count(sizes)).reshape(sizes)
    if dtype is dtypes.resource:
        raise errors.unimplemented(
            f"tensors of type {dtype.name} cannot be restored from a checkpoint"
        )
    kind = np.dtype(dtype.as_numpy_dtype)
    count = _count(sizes)
    if len(content) != count * kind.itemsize:
        raise ValueError(f"{len(content)} bytes are no {count} elements of {kind.itemsize}")
    own = isinstance(content, np.ndarray) and content.flags.writeable
    raw = content if own else np.frombuffer(bytearray(content), np.uint8)
    assert isinstance(raw, np.ndarray)
    if kind == np.bool_ and raw.size and raw.max() > 1:
        raise ValueError("a bool is 0 or 1")
    return _little_endian(raw.view(kind)).reshape(sizes)


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _decoded_strings(content: bytes, sizes: tuple[int, ...]) -> Array:
    count, at, lengths = _count(sizes), 0, []
    for _ in range(count):
        length, at = unpacked(content, at)
        lengths.append(length)
    check = _LENGTHS_CHECK.pack(masked(_length_crc(lengths)))
    if content[at : at + len(check)] != check:
        raise ValueError("the checksum of the strings' lengths does not fit")
    at += len(check)
    if at + sum(lengths) != len(content):
        raise ValueError(f"{len(content) - at} bytes are no strings of {sum(lengths)} together")
    found = np.empty(count, object)
    for place, length in enumerate(lengths):
        found[place] = content[at : at + length]
        at += length
    return found.reshape(sizes)


def content_crc(entry: pb.BundleEntryProto, content: Buffer) -> int:
    """What the entry's checksum should be, of the bytes that were read."""
    if entry.dtype not in CHECKED_APART:
        return masked(crc32c(content))
    content = bytes(content)
    if entry.dtype == pb.DT_VARIANT:
        return masked(variant_content.checksum(content, _count(sizes_of(entry.shape))))
    at, lengths = 0, []
    for _ in range(_count(sizes_of(entry.shape))):
        length, at = unpacked(content, at)
        lengths.append(length)
    return masked(crc32c(content[at:], _length_crc(lengths)))


# -- bundles --------------------------------------------------------------------------------------


class Writer:
    """One shard and its index, as it is written."""

    def __init__(
        self,
        write: Callable[[Buffer], object],
        write_checked: Callable[[Buffer, int], int] | None = None,
    ) -> None:
        """write: takes the next bytes of the shard.

        write_checked: takes them too, with the checksum of what they belong to, and gives it with them behind.
        """
        self._write = write
        self._write_checked = write_checked or self._written_and_checked
        self._offset = 0
        self._entries: dict[bytes, pb.BundleEntryProto] = {}

    def add(self, name: str, value: Array, dtype: dtypes.DType) -> None:
        """A tensor.  Raises InvalidArgument if the name was there before, Unimplemented for its type."""
        self._claim(name.encode(), name or "a tensor")
        self._entries[name.encode()] = self._stored(value, dtype)

    def add_slice(
        self,
        name: str,
        sizes: Sequence[int],
        extents: Sequence[Extent],
        value: Array,
        dtype: dtypes.DType,
    ) -> None:
        """A part of a tensor of `sizes`; several calls make the whole, or one does, which is stored as one.

        Raises InvalidArgument: the parts do not agree on shape and type, or one comes twice.
        """
        key = name.encode()
        if tuple(value.shape) == tuple(sizes) and key not in self._entries:
            self.add(name, value, dtype)
            return
        whole = self._entries.get(key)
        shape = shape_to_proto(tuple(sizes))
        if whole is None:
            if not name:
                self._claim(key, "a part")
            whole = self._entries[key] = pb.BundleEntryProto(dtype=_number(dtype), shape=shape)
        elif not whole.slices:
            raise errors.invalid_argument(
                f"tensor {name!r} is in the checkpoint as a whole, and a part of it comes"
            )
        elif whole.dtype != dtype.as_datatype_enum or whole.shape != shape:
            raise errors.invalid_argument(
                f"parts of {name!r} do not agree: one is of {list(sizes_of(whole.shape))}, another of {list(sizes)} "
                f"{dtype.name}"
            )
        part = slice_key(name, extents)
        self._claim(part, f"{name}, part {list(extents)}")
        whole.slices.append(slice_proto(extents))
        self._entries[part] = self._stored(value, dtype)

    @property
    def entries(self) -> dict[bytes, pb.BundleEntryProto]:
        """What the index will say, by key."""
        return self._entries

    def index(self, shards: int = 1) -> Iterator[bytes]:
        """The index of all that was added, in pieces."""
        return written(self._entries, shards)

    def _claim(self, key: bytes, what: str) -> None:
        if not key or key in self._entries:
            raise errors.invalid_argument(
                f"{what} needs a name"
                if not key
                else f"Adding duplicate key: {what} comes twice in one checkpoint"
            )

    def _stored(self, value: Array, dtype: dtypes.DType) -> pb.BundleEntryProto:
        data = encoded(value, dtype)
        if data.head:
            self._write(data.head)
        entry = pb.BundleEntryProto(
            dtype=_number(dtype),
            shape=shape_to_proto(np.shape(value)),
            offset=self._offset,
            size=len(data.head) + len(data.content),
            crc32c=masked(self._write_checked(data.content, data.crc)),
        )
        self._offset += entry.size
        return entry

    def _written_and_checked(self, content: Buffer, crc: int) -> int:
        self._write(content)
        return crc32c(content, crc)


def _number(dtype: dtypes.DType) -> Any:
    return dtype.as_datatype_enum


def written(entries: dict[bytes, pb.BundleEntryProto], shards: int) -> Iterator[bytes]:
    """An index, in pieces."""
    header = pb.BundleHeaderProto(num_shards=shards, version=pb.VersionDef(producer=VERSION))
    rows = [(HEADER_KEY, header.SerializeToString())]
    rows += [(key, entries[key].SerializeToString()) for key in sorted(entries)]
    return sorted_table.written(rows)
