"""Sorted tables: keys in order, a value each, in blocks with checksums; the files of TensorFlow's checkpoints.

A file is data blocks, an empty block for other information, an index block (the last key of each data block, or one a
little after it, and where the block is), and a footer of 48 bytes: where those two are, and a magic number.  A block is
entries, then the places of those that do not lean on the key before them (*restarts*), then their number.  An entry is
the length of what its key shares with the key before, of the rest of the key and of the value, then both.  Each block
is followed by its compression and a masked CRC-32C.
No I/O here: a writer gives pieces to whoever asks, a `Table` asks for the bytes of a range.
Called by: codec.tensor_bundle.  Threads: a Table any, if its `read` allows it; a writer one.
Source: TF 1.15 core/lib/io/{table_builder,format,block}.cc and LevelDB's doc/table_format.md, for the format
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from headrace.base import errors
from headrace.codec.records import masked_crc
from headrace.codec.varints import packed, unpacked

BLOCK_BYTES: Final = 1 << 18
"""A data block ends with the first entry that makes it as large as this."""

_RESTART_EVERY: Final = 16
_MAGIC: Final = struct.pack("<Q", 0xDB4775248B80FB57)
FOOTER_BYTES: Final = 48
_TRAILER: Final = struct.Struct("<BI")
_UNCOMPRESSED: Final = 0
_NUMBER: Final = struct.Struct("<I")

Read = Callable[[int, int], bytes]
"""(offset, count) -> the bytes there; fewer where the file ends."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Of a block in its file, without its trailer."""

    offset: int
    size: int

    def packed(self) -> bytes:
        return packed(self.offset) + packed(self.size)


class _Block:
    """A block that is being made."""

    def __init__(self, restart_every: int) -> None:
        self._every = restart_every
        self._content = bytearray()
        self._restarts = [0]
        self._since = 0
        self.last = b""
        self.count = 0

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since < self._every:
            shared = _shared(self.last, key)
        else:
            self._restarts.append(len(self._content))
            self._since = 0
        self._content += packed(shared) + packed(len(key) - shared) + packed(len(value))
        self._content += key[shared:]
        self._content += value
        self.last = key
        self.count += 1
        self._since += 1

    @property
    def size(self) -> int:
        return len(self._content) + _NUMBER.size * (len(self._restarts) + 1)

    def finished(self) -> bytes:
        restarts = [*self._restarts, len(self._restarts)]
        return bytes(self._content) + struct.pack(f"<{len(restarts)}I", *restarts)


def _shared(a: bytes, b: bytes) -> int:
    """How many bytes both begin with."""
    most = min(len(a), len(b))
    if a[:most] == b[:most]:
        return most
    return next(at for at in range(most) if a[at] != b[at])


def written(items: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """A table of `items`, in pieces: a block each, the rest at the end.

    items: in the order of their keys, as bytes.  Raises ValueError for keys out of order or twice.
    """
    index, block, offset = _Block(1), _Block(_RESTART_EVERY), 0
    last: bytes | None = None
    full: bytes | None = None  # the place of a block that the index does not have yet
    for key, value in items:
        if last is not None and key <= last:
            raise ValueError(
                f"key {key!r} comes after {last!r}: a table has each key once, in order"
            )
        if full is not None and last is not None:
            index.add(_between(last, key), full)
            full = None
        block.add(key, value)
        last = key
        if block.size >= BLOCK_BYTES:
            yield _sealed(block)
            full = _Place(offset, block.size).packed()
            offset += block.size + _TRAILER.size
            block = _Block(_RESTART_EVERY)
    if block.count:
        yield _sealed(block)
        full = _Place(offset, block.size).packed()
        offset += block.size + _TRAILER.size
    if full is not None and last is not None:
        index.add(_behind(last), full)
    other = _Place(offset, _Block(1).size)
    offset += other.size + _TRAILER.size
    footer = other.packed() + _Place(offset, index.size).packed()
    ending = footer.ljust(FOOTER_BYTES - len(_MAGIC), b"\0") + _MAGIC
    yield _sealed(_Block(1)) + _sealed(index) + ending


def _between(key: bytes, following: bytes) -> bytes:
    """The shortest that is not before `key`, and before `following`, of those that are found by looking at one byte."""
    at = _shared(key, following)
    if at < min(len(key), len(following)) and key[at] + 1 < following[at]:
        return key[:at] + bytes([key[at] + 1])
    return key


def _behind(key: bytes) -> bytes:
    """A short one that is not before `key`."""
    for at, byte in enumerate(key):
        if byte < 0xFF:
            return key[:at] + bytes([byte + 1])
    return key


def _sealed(block: _Block) -> bytes:
    content = block.finished() + bytes([_UNCOMPRESSED])
    return content + _NUMBER.pack(masked_crc(content))


class Table:
    """A table that is read: one key, or all in order.

    Every method raises DataLoss, with file and offset, for what is damaged, and Unimplemented for blocks that are
    compressed, which TensorFlow writes in no checkpoint.
    """

    def __init__(self, read: Read, size: int, name: str) -> None:
        """size: of the file, in bytes.  name: what errors call it."""
        self._read, self._size, self.name = read, size, name
        index = self._footer()
        self._index = list(self._entries(index))
        self._last_keys = [key for key, _ in self._index]
        self._cached: tuple[_Place, list[tuple[bytes, bytes]]] | None = None

    def get(self, key: bytes) -> bytes | None:
        """The value of `key`, or None."""
        at = bisect_left(self._last_keys, key)
        if at == len(self._index):
            return None
        entries = self._block(at)
        found = bisect_left(entries, (key,))
        return entries[found][1] if found < len(entries) and entries[found][0] == key else None

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and their values, in order."""
        for at in range(len(self._index)):
            yield from self._block(at)

    def _block(self, at: int) -> list[tuple[bytes, bytes]]:
        """The entries of a data block; the latest is kept."""
        place = self._place(self._index[at][1], "its index")
        cached = self._cached
        if cached is not None and cached[0] == place:
            return cached[1]
        entries = list(self._entries(place))
        self._cached = (place, entries)
        return entries

    def _footer(self) -> _Place:
        """Where the index is."""
        if self._size < FOOTER_BYTES:
            raise self._damaged(0, f"{self._size} bytes are too few for a table")
        footer = self._read(self._size - FOOTER_BYTES, FOOTER_BYTES)
        if footer[-len(_MAGIC) :] != _MAGIC:
            raise self._damaged(
                self._size - len(_MAGIC),
                "not an sstable (bad magic number): this is no table, or its end is missing",
            )
        try:
            _, end = unpacked(footer, 0)
            _, end = unpacked(footer, end)
        except ValueError as error:
            raise self._damaged(self._size - FOOTER_BYTES, f"bad footer: {error}") from error
        return self._place(footer[end:], "its footer")

    def _place(self, content: bytes, of: str) -> _Place:
        try:
            offset, end = unpacked(content, 0)
            size, _ = unpacked(content, end)
        except ValueError as error:
            raise self._damaged(0, f"{of} names no block: {error}") from error
        if offset + size + _TRAILER.size > self._size:
            raise self._damaged(offset, f"{of} names {size} bytes there, beyond its end")
        return _Place(offset, size)

    def _entries(self, place: _Place) -> Iterator[tuple[bytes, bytes]]:
        content = self._checked(place)
        count = _NUMBER.unpack_from(content, place.size - _NUMBER.size)[0]
        end = place.size - _NUMBER.size * (count + 1)
        if end < 0:
            raise self._damaged(place.offset, f"a block of {place.size} bytes has {count} restarts")
        key, at = b"", 0
        try:
            while at < end:
                shared, at = unpacked(content, at)
                rest, at = unpacked(content, at)
                size, at = unpacked(content, at)
                if shared > len(key) or at + rest + size > end:
                    raise ValueError(f"an entry before byte {at} is longer than its block")
                key = key[:shared] + content[at : at + rest]
                at += rest + size
                yield key, content[at - size : at]
        except ValueError as error:
            raise self._damaged(place.offset, f"bad entry in block: {error}") from error

    def _checked(self, place: _Place) -> bytes:
        """The block and its compression, whose checksum fits."""
        wanted = place.size + _TRAILER.size
        content = self._read(place.offset, wanted)
        if len(content) < wanted or place.size < _NUMBER.size:
            raise self._damaged(
                place.offset, f"truncated block read: {len(content)} of {wanted} bytes"
            )
        kind, crc = _TRAILER.unpack_from(content, place.size)
        found = masked_crc(content[: place.size + 1])
        if found != crc:
            raise self._damaged(
                place.offset,
                f"block checksum mismatch: the {place.size} bytes there have {found:#010x}, the file says {crc:#010x}",
            )
        if kind != _UNCOMPRESSED:
            raise errors.unimplemented(
                f"{self.name}: the block at byte {place.offset} is compressed (kind {kind}), which TensorFlow's "
                "checkpoints are not; write the checkpoint again without compression"
            )
        return content

    def _damaged(self, offset: int, what: str) -> errors.OpError:
        return errors.data_loss(
            f"{what} (file {self.name!r}, byte {offset}); restore from another checkpoint"
        )
