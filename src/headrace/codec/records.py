"""TFRecord files: records of bytes, each between its length and checksums, the whole perhaps compressed.

A record on file: length (uint64), masked CRC of the length (uint32), the data, masked CRC of the data (uint32), all
little-endian.  A masked CRC is a CRC-32C turned by 15 bits plus a constant, so that files of files stay checkable.
No I/O here: readers bring the file in pieces, of any sizes; the writer gives pieces back.
Called by: run.readers.record_readers, ops.io.record_files.  Threads: one at a time per object.
Source: TF 1.15 core/lib/io/record_{reader,writer}.cc, for the format and for what ends quietly; RFC 1950, 1952
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.base import errors
from headrace.base.limits import EXPANDED_BYTES, Growth

NONE: Final = ""
ZLIB: Final = "ZLIB"
GZIP: Final = "GZIP"
COMPRESSIONS: Final = (NONE, ZLIB, GZIP)

_HEADER: Final = struct.Struct("<QI")
_CRC: Final = struct.Struct("<I")
_HEADER_BYTES: Final = _HEADER.size
_FRAME_BYTES: Final = _HEADER.size + _CRC.size
_MASK_DELTA: Final = 0xA282EAD8
_INFLATED_BYTES: Final = 1 << 20
_WINDOW: Final = {ZLIB: zlib.MAX_WBITS, GZIP: zlib.MAX_WBITS + 16}


def masked(crc: int) -> int:
    """A CRC-32C as files have it."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def masked_crc(data: bytes) -> int:
    """The checksum of `data` as files have it."""
    from google_crc32c import value  # takes its time to load

    return masked(value(data))


def framed(record: bytes) -> bytes:
    """A record as it stands in an uncompressed file."""
    length = struct.pack("<Q", len(record))
    return b"".join((length, _CRC.pack(masked_crc(length)), record, _CRC.pack(masked_crc(record))))


def window_bits(compression: str) -> int:
    """What zlib calls the format.  Raises KeyError for NONE."""
    return _WINDOW[compression]


def inflated(pieces: Iterable[bytes], compression: str, name: str) -> Iterator[bytes]:
    """The content of a compressed file, in pieces of at most 1 MB.

    gzip: one member after the other; zlib: what follows the stream's end is left alone.  A stream that stops short
    gives what it has.  Raises DataLoss, naming the file.
    """
    if compression == NONE:
        yield from pieces
        return
    stream = zlib.decompressobj(_WINDOW[compression])
    read = 0
    for piece in pieces:
        rest = piece
        while rest:
            if stream.eof:
                if compression == ZLIB:
                    return
                stream = zlib.decompressobj(_WINDOW[compression])
            try:
                content = stream.decompress(rest, _INFLATED_BYTES)
            except zlib.error as error:
                raise errors.data_loss(
                    "inflate() failed with error "
                    f"{str(error).removeprefix('Error ').replace(' while decompressing data', '')}: "
                    f"{name} cannot be read as {compression} near byte {read} of the file"
                ) from error
            if content:
                yield content
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
        read += len(piece)


def inflated_whole(
    pieces: Iterable[bytes], compression: str, name: str, growth: Growth | None = None
) -> bytes:
    """The content of a compressed file at once.  growth: what it counts towards, else it may grow by itself.

    Raises as `inflated` does, and ResourceExhausted.
    """
    growth = Growth(f"the content of {name}") if growth is None else growth
    found = []
    for piece in inflated(pieces, compression, name):
        growth.add(len(piece))
        found.append(piece)
    return b"".join(found)


def records(
    pieces: Iterable[bytes], name: str, compression: str = NONE
) -> Iterator[tuple[int, bytes]]:
    """Each record with its offset in the uncompressed file; see `runs`."""
    for offsets, values in runs(pieces, name, compression):
        yield from zip(offsets, values, strict=True)


def runs(
    pieces: Iterable[bytes], name: str, compression: str = NONE
) -> Iterator[tuple[list[int], list[bytes]]]:
    """Records that came with one piece, at least one each time: offsets in the uncompressed file, and values.

    pieces: of the file.  If that is compressed, a few of its bytes may stand for any number, so that no record may be
    larger than EXPANDED_BYTES allows.

    Fewer bytes at the end than a header has are the end too, as in TensorFlow: a file that is still being written.
    Raises DataLoss, naming file and offset, for a wrong checksum or a record that stops short, and ResourceExhausted,
    after the records before it.
    """
    most = None if compression == NONE else EXPANDED_BYTES.value()
    source = inflated(pieces, compression, name)
    held, at, base = b"", 0, 0  # `held[at:]` is unread; `held` begins at `base` of the file
    while True:
        base += at
        held, at = _more(held[at:], _HEADER_BYTES, source), 0
        if len(held) < _HEADER_BYTES:
            return
        length, crc = _HEADER.unpack_from(held)
        if masked_crc(held[:8]) != crc:
            raise _corrupt(name, base, "the checksum of its length is wrong", base == 0)
        if most is not None and length > most:
            raise EXPANDED_BYTES.exceeded(
                f"{name}: the record at offset {base} of the inflated file has {length} bytes", most
            )
        whole = _FRAME_BYTES + length
        held = _more(held, whole, source)
        if len(held) < whole:
            raise errors.data_loss(
                f"truncated record at {base}' failed with Read less bytes than requested: it should have "
                f"{length} bytes, "
                f"and {name} ends after {max(0, len(held) - _HEADER_BYTES)} of them"
            )
        places, values, at = _sound(held)
        if not values:
            raise _corrupt(name, base, f"the checksum of its {length} bytes is wrong")
        yield [base + place for place in places], values


def _sound(held: bytes) -> tuple[list[int], list[bytes], int]:
    """The whole records at the beginning of `held`, up to one that is wrong: where, values, and where they end."""
    from google_crc32c import value

    unpack = _CRC.unpack_from
    places: list[int] = []
    values: list[bytes] = []
    end = len(held)
    at = 0
    known, length = b"", 0  # a header that was checked: many records are as long as the one before
    while end - at >= _HEADER_BYTES:
        start = at + _HEADER_BYTES
        header = held[at:start]
        if header != known:
            length, crc = _HEADER.unpack(header)
            if masked_crc(header[:8]) != crc:
                break
            known = header
        stop = start + length
        if stop + 4 > end:
            break
        record = held[start:stop]
        found = value(record)  # masked_crc, written out: this is the inner loop of reading
        if ((found >> 15 | found << 17) + _MASK_DELTA) & 0xFFFFFFFF != unpack(held, stop)[0]:
            break
        places.append(at)
        values.append(record)
        at = stop + 4
    return places, values, at


def _more(held: bytes, wanted: int, source: Iterator[bytes]) -> bytes:
    """`held` and what follows it, at least `wanted` bytes if there are so many."""
    pieces, size = [held], len(held)
    while size < wanted:
        piece = next(source, None)
        if piece is None:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _corrupt(name: str, offset: int, why: str, first: bool = False) -> errors.OpError:
    hint = (
        " (Is this even a TFRecord file, and is its compression the one that was given?)"
        if first
        else ""
    )
    return errors.data_loss(f"corrupted record at {offset}{hint}: {why}, in {name}")
