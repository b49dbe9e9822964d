"""Reading tensor bundles: what a checkpoint has, and the values of tensors and of parts of them.

A tensor that was saved in parts is put together from those that a wanted part meets, however it was cut then.
No I/O here: a `Reader` asks for ranges of the index and of shards.
Called by: run.checkpoints.  Threads: any, one at a time.
Source: TF 1.15 core/util/tensor_bundle/tensor_bundle.cc, for the format; phrases of errors as of 2.21
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.codec.checksums import Buffer
from headrace.codec.ordered import WHOLE, Extent, slice_key
from headrace.codec.parts import (
    assembled,
    check_described,
    check_extents,
    extents_of,
    ranges,
    sizes_of,
)
from headrace.codec.sorted_table import Table
from headrace.codec.tensor_bundle import (
    HEADER_KEY,
    VERSION,
    content_crc,
    decoded,
    shard_name,
)
from headrace.codec.variant_content import LEAST_BYTES

Array = np.ndarray[Any, Any]


_MOST_SHARDS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor's bytes in a shard.  where: as errors call it."""

    where: str
    entry: pb.BundleEntryProto

    @property
    def dtype(self) -> dtypes.DType:
        """Of the tensor."""
        return dtypes.as_dtype(self.entry.dtype)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of the tensor."""
        return sizes_of(self.entry.shape)

    def decoded(self, content: Buffer, crc: int | None = None) -> Array:
        """The tensor whose bytes `content` is; see `codec.tensor_bundle.decoded`.  Raises DataLoss.

        crc: the checksum (masked) of the content, if it is known.
        """
        self.check_size(len(content))
        try:
            self.check(content_crc(self.entry, content) if crc is None else crc)
            return decoded(content, self.dtype, self.sizes)
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def check_size(self, size: int) -> None:
        """Raise DataLoss if there are fewer bytes than there should be."""
        if size < self.entry.size:
            raise errors.data_loss(
                f"Unable to read {self.entry.size} bytes of {self.where}: there are {size}"
            )

    def check(self, crc: int) -> None:
        """Raise DataLoss if that is not the checksum (masked)."""
        if crc != self.entry.crc32c:
            raise errors.data_loss(
                f"Checksum does not match: stored {self.entry.crc32c} vs. calculated on the restored bytes {crc} "
                f"({self.where}); restore from another checkpoint"
            )

    def _damaged(self, what: str) -> errors.OpError:
        return errors.data_loss(f"{self.where}: {what}; restore from another checkpoint")


ReadStored = Callable[[Stored], Array]
"""Brings a tensor's bytes, and gives what `Stored.decoded` makes of them."""


class Reader:
    """A checkpoint of format V2.

    Methods raise DataLoss, naming tensor, file and offset, for what is damaged, and NotFound for what is not there.
    """

    def __init__(self, index: Table, read: ReadStored, prefix: str) -> None:
        """prefix: what errors call the checkpoint."""
        self._index, self._read, self.prefix = index, read, prefix
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
                try:
                    name = key.decode()
                except UnicodeDecodeError:
                    raise self._damaged(f"{key!r} is no name") from None
                yield name, self._entry_of(key, content)

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
        return self._read(self._located(name, entry))

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
        return np.array(self._read(self._located(name, entry))[ranges(extents, sizes)])

    def stored(self, name: str, extents: Sequence[Extent] | None = None) -> Stored | None:
        """Where the bytes of a tensor, or of a part of it, are; None if they are not together, or are strings.

        Raises NotFound, DataLoss.
        """
        entry = self.entry(name)
        if extents is not None and any(length != WHOLE for _, length in extents):
            if tuple(extents) not in map(extents_of, entry.slices):
                return None
            entry = self._part(name, entry, extents)
        elif entry.slices:
            return None
        return None if entry.dtype == pb.DT_STRING else self._located(name, entry)

    def _located(self, name: str, entry: pb.BundleEntryProto) -> Stored:
        where = f"{name} in {shard_name(self.prefix, entry.shard_id, self.header.num_shards)}, byte {entry.offset}"
        return Stored(where, entry)

    def _assembled(self, name: str, entry: pb.BundleEntryProto, extents: Sequence[Extent]) -> Array:
        """A part of a tensor that was saved in parts."""
        taken: dict[int, list[tuple[int, int]]] = {}

        def read(part: tuple[Extent, ...]) -> Array:
            found = self._part(name, entry, part)
            self._take(name, found, taken)
            return self._read(self._located(name, found))

        return assembled(
            f"{name} of checkpoint {self.prefix}",
            dtypes.as_dtype(entry.dtype),
            sizes_of(entry.shape),
            extents,
            map(extents_of, entry.slices),
            read,
        )

    def _take(
        self, name: str, part: pb.BundleEntryProto, taken: dict[int, list[tuple[int, int]]]
    ) -> None:
        """Raise DataLoss if bytes of a part are those of another one: a small file is no large tensor."""
        begin, end = part.offset, part.offset + part.size
        others = taken.setdefault(part.shard_id, [])
        at = bisect_left(others, (begin, end))
        if (at and others[at - 1][1] > begin) or (at < len(others) and others[at][0] < end):
            raise self._damaged(
                f"two parts of {name} have the same bytes of shard {part.shard_id}, at byte {begin}"
            )
        others.insert(at, (begin, end))

    def _part(
        self, name: str, entry: pb.BundleEntryProto, extents: Sequence[Extent]
    ) -> pb.BundleEntryProto:
        """The entry of a part."""
        part = self._entry(slice_key(name, extents))
        if part is None:
            raise self._damaged(f"it names a part {list(extents)} of {name} and does not have it")
        sizes = tuple(each.stop - each.start for each in ranges(extents, sizes_of(entry.shape)))
        if part.slices or part.dtype != entry.dtype or sizes_of(part.shape) != sizes:
            raise self._damaged(
                f"the part {list(extents)} of {name} is of {list(sizes_of(part.shape))}, type {part.dtype}, and should "
                f"be of {list(sizes)}, type {entry.dtype}"
            )
        return part

    def _entry(self, key: bytes) -> pb.BundleEntryProto | None:
        content = self._index.get(key)
        return None if content is None else self._entry_of(key, content)

    def _entry_of(self, key: bytes, content: bytes) -> pb.BundleEntryProto:
        entry = pb.BundleEntryProto()
        self._parsed(entry, content, repr(key))
        try:
            self._check(entry)
        except ValueError as error:
            raise self._damaged(f"{key!r}: {error}") from None
        return entry

    def _check(self, entry: pb.BundleEntryProto) -> None:
        """Raise ValueError, or Unimplemented, for what cannot be the entry of a tensor."""
        check_described(entry.dtype, entry.shape, no_data=(dtypes.resource,))
        sizes = sizes_of(entry.shape)
        for each in entry.slices:
            check_extents(extents_of(each), sizes)
        if entry.slices:
            return
        if not 0 <= entry.shard_id < self.header.num_shards:
            raise ValueError(
                f"it is in shard {entry.shard_id}, and there are {self.header.num_shards}"
            )
        if entry.offset < 0 or entry.size < 0:
            raise ValueError(f"it is {entry.size} bytes at byte {entry.offset}")
        count = math.prod(sizes)
        if entry.dtype == pb.DT_STRING:
            if entry.size < count:
                raise ValueError(f"{entry.size} bytes are no {count} strings")
            return
        if entry.dtype == pb.DT_VARIANT:
            if entry.size < count * LEAST_BYTES:
                raise ValueError(f"{entry.size} bytes are no {count} variants")
            return
        wanted = count * np.dtype(dtypes.as_dtype(entry.dtype).as_numpy_dtype).itemsize
        if entry.size != wanted:
            raise ValueError(f"it is {entry.size} bytes, and of its shape and type {wanted}")

    def _parsed(self, message: Any, content: bytes, what: str) -> Any:
        try:
            message.ParseFromString(content)
        except DecodeError as error:
            raise self._damaged(f"{what} cannot be read: {error}") from error
        return message

    def _damaged(self, what: str) -> errors.OpError:
        return errors.data_loss(f"{self._index.name}: {what}; restore from another checkpoint")


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
            try:
                if key == HEADER_KEY:
                    header.ParseFromString(content)
                    continue
                entry = pb.BundleEntryProto.FromString(content)
            except DecodeError as error:
                raise errors.data_loss(f"of the checkpoints to merge, {key!r}: {error}") from error
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
        if not 0 <= header.num_shards <= _MOST_SHARDS:
            raise errors.data_loss(f"a checkpoint to merge says it has {header.num_shards} shards")
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
