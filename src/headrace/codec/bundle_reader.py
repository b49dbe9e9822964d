"""Reading tensor bundles: what a checkpoint has, and the values of tensors and of parts of them.

A tensor that was saved in parts is put together from those that a wanted part meets, however it was cut then.
No I/O here: a `Reader` asks for ranges of the index and of shards.
Called by: run.checkpoints.  Threads: any, one at a time.
Source: TF 1.15 core/util/tensor_bundle/tensor_bundle.cc, for the format; phrases of errors as of 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.ordered import WHOLE, Extent, slice_key
from headrace.codec.sorted_table import Table
from headrace.codec.tensor_bundle import (
    HEADER_KEY,
    VERSION,
    Buffer,
    content_crc,
    decoded,
    extents_of,
    ranges,
    shard_name,
)

Array = np.ndarray[Any, Any]
ReadShard = Callable[[int, int, int, int], Buffer]
"""(shard, of how many, offset, count) -> its bytes there; fewer where the file ends.  An array that can be changed is
the caller's own from then on: numbers are not copied out of it.
"""


class Reader:
    """A checkpoint of format V2.

    Methods raise DataLoss, naming tensor, file and offset, for what is damaged, and NotFound for what is not there.
    """

    def __init__(self, index: Table, read_shard: ReadShard, prefix: str) -> None:
        """prefix: what errors call the checkpoint."""
        self._index, self._read_shard, self.prefix = index, read_shard, prefix
        content = index.get(HEADER_KEY)
        if content is None:
            raise errors.data_loss(f"{index.name} has no header: it is the index of no checkpoint")
        self.header = self._parsed(pb.BundleHeaderProto(), content, "its header")
        if self.header.endianness != pb.BundleHeaderProto.LITTLE:
            raise errors.unimplemented(
                f"{prefix} was written by a big-endian machine, which headrace does not read"
            )
        if self.header.version.min_consumer > VERSION:
            raise errors.invalid_argument(
                f"{prefix} needs a reader of version {self.header.version.min_consumer}; this one is of {VERSION}"
            )

    def names(self) -> Iterator[str]:
        """The tensors, in order; parts are not listed."""
        for name, _ in self.entries():
            yield name

    def entries(self) -> Iterator[tuple[str, pb.BundleEntryProto]]:
        """The tensors and what the index says of each."""
        for key, content in self._index.items():
            if key and not key.startswith(b"\0"):
                yield key.decode(), self._parsed(pb.BundleEntryProto(), content, repr(key))

    def entry(self, name: str) -> pb.BundleEntryProto:
        """What the index says of a tensor.  Raises NotFound."""
        found = self._entry(name.encode())
        if found is None:
            raise errors.not_found(
                f"Key {name} not found in checkpoint {self.prefix}: it was saved by a graph without a variable of that "
                "name; see tf.train.list_variables"
            )
        return found

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        return bool(name) and self._entry(name.encode()) is not None

    def tensor(self, name: str) -> Array:
        """The value of a tensor, all of it."""
        entry = self.entry(name)
        if entry.slices:
            return self._assembled(name, entry, [(0, WHOLE)] * len(entry.shape.dim))
        return self._value(name, entry)

    def part(self, name: str, extents: Sequence[Extent]) -> Array:
        """A part of a tensor, saved whole or in parts.  Raises InvalidArgument for one that it does not have."""
        entry = self.entry(name)
        sizes = [dim.size for dim in entry.shape.dim]
        if len(extents) != len(sizes) or any(
            length != WHOLE and not 0 <= start <= start + length <= size
            for (start, length), size in zip(extents, sizes, strict=False)
        ):
            raise errors.invalid_argument(
                f"{name} is of shape {sizes} in checkpoint {self.prefix}, which has no part {list(extents)}"
            )
        if entry.slices:
            return self._assembled(name, entry, extents)
        return np.array(self._value(name, entry)[ranges(extents, sizes)])

    def _assembled(self, name: str, entry: pb.BundleEntryProto, extents: Sequence[Extent]) -> Array:
        """A part of a tensor that was saved in parts."""
        sizes = [dim.size for dim in entry.shape.dim]
        wanted = ranges(extents, sizes)
        dtype = dtypes.as_dtype(entry.dtype)
        found = np.empty([each.stop - each.start for each in wanted], dtype.as_numpy_dtype)
        missing = np.ones(found.shape, np.bool_)
        for proto in entry.slices:
            stored = extents_of(proto)
            there = ranges(stored, sizes)
            common = [
                slice(max(a.start, b.start), min(a.stop, b.stop))
                for a, b in zip(wanted, there, strict=True)
            ]
            if any(each.start >= each.stop for each in common):
                continue
            value = self._stored(name, stored)
            into = tuple(
                slice(c.start - w.start, c.stop - w.start)
                for c, w in zip(common, wanted, strict=True)
            )
            out_of = tuple(
                slice(c.start - t.start, c.stop - t.start)
                for c, t in zip(common, there, strict=True)
            )
            found[into] = value[out_of]
            missing[into] = False
        if missing.any():
            raise errors.invalid_argument(
                f"checkpoint {self.prefix} has {len(entry.slices)} parts of {name}, and in none of them "
                f"{int(missing.sum())} of the {missing.size} elements of the part {list(extents)}"
            )
        return found

    def _stored(self, name: str, extents: Sequence[Extent]) -> Array:
        part = self._entry(slice_key(name, extents))
        if part is None:
            raise errors.data_loss(
                f"checkpoint {self.prefix} names a part {list(extents)} of {name} and does not have it"
            )
        return self._value(name, part)

    def _value(self, name: str, entry: pb.BundleEntryProto) -> Array:
        count = self.header.num_shards
        content = self._read_shard(entry.shard_id, count, entry.offset, entry.size)
        where = f"{name} in {shard_name(self.prefix, entry.shard_id, count)}, byte {entry.offset}"
        if len(content) < entry.size:
            raise errors.data_loss(
                f"Unable to read {entry.size} bytes of {where}: there are {len(content)}"
            )
        sizes = tuple(dim.size for dim in entry.shape.dim)
        try:
            found = content_crc(entry, content)
            if found == entry.crc32c:
                return decoded(content, dtypes.as_dtype(entry.dtype), sizes)
        except ValueError as error:
            raise errors.data_loss(f"{where}: {error}; restore from another checkpoint") from error
        raise errors.data_loss(
            f"Checksum does not match: stored {entry.crc32c} vs. calculated on the restored bytes {found} ({where}); "
            "restore from another checkpoint"
        )

    def _entry(self, key: bytes) -> pb.BundleEntryProto | None:
        content = self._index.get(key)
        return None if content is None else self._parsed(pb.BundleEntryProto(), content, repr(key))

    def _parsed(self, message: Any, content: bytes, what: str) -> Any:
        try:
            message.ParseFromString(content)
        except DecodeError as error:
            raise errors.data_loss(f"{self._index.name}: {what} cannot be read: {error}") from error
        return message


def merged(
    indexes: Sequence[Sequence[tuple[bytes, bytes]]],
) -> tuple[dict[bytes, pb.BundleEntryProto], list[int]]:
    """The entries of several bundles as those of one, and at which of its shards each one's shards begin.

    indexes: the rows of each index.  Raises InvalidArgument: two bundles have a tensor, or parts that do not agree.
    """
    entries: dict[bytes, pb.BundleEntryProto] = {}
    begins, shards = [], 0
    for rows in indexes:
        begins.append(shards)
        header = pb.BundleHeaderProto()
        for key, content in rows:
            if key == HEADER_KEY:
                header.ParseFromString(content)
                continue
            entry = pb.BundleEntryProto.FromString(content)
            if entry.slices:
                _join(entries, key, entry)
                continue
            if key in entries:
                raise errors.invalid_argument(
                    f"Duplicate tensor keyed by {key.decode(errors='backslashreplace')} encountered, when merging: two "
                    "of the checkpoints to merge have it"
                )
            entry.shard_id += shards
            entries[key] = entry
        shards += header.num_shards
    begins.append(shards)
    return entries, begins


def _join(
    entries: dict[bytes, pb.BundleEntryProto], key: bytes, entry: pb.BundleEntryProto
) -> None:
    """The places of parts, those of other bundles included."""
    there = entries.setdefault(key, entry)
    if there is entry:
        return
    if not there.slices or there.dtype != entry.dtype or there.shape != entry.shape:
        raise errors.invalid_argument(
            f"the checkpoints to merge do not agree on shape or type of {key!r}"
        )
    there.slices.extend(entry.slices)
