"""Plain PNGs, sooner than Pillow reads them: not interlaced, without a palette or transparency, 8 bits a channel.

Those of 16 bits Pillow only reads with one channel; they are read and written here.

Most of a PNG's time is inflating, which Pillow does a row at a time and holding the interpreter.  Here zlib inflates
all rows at once, while other threads run; Pillow undoes the filters, of rows that are handed to it as if compressed.
Of many pictures that are alike it gets the rows as those of one, with a row of zeros between each two: what a filter
sees above a picture's first row.
Whatever is not quite as it should be is left to `codec.images`, and Pillow decides what to say of it.
Writing them takes zlib alone.
Called by: codec.images, codec.summary_values.  Threads: pure functions.
Source: the PNG specification, 2nd edition, chapters 5 and 11
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.limits import EXPANDED_BYTES

Array = np.ndarray[Any, Any]
Share = Callable[[Callable[[Any], object], Iterable[Any]], None]
"""As `run.exec.worker_pool.parallel_for`."""

_START: Final = b"\x89PNG\r\n\x1a\n"
_MODES: Final = {0: "L", 2: "RGB", 4: "LA", 6: "RGBA"}
"""By colour type."""
_COLOURS: Final = {len(mode): colour for colour, mode in _MODES.items()}
_UP: Final = 2
_SIZES: Final = {b"gAMA": 4, b"pHYs": 9, b"sRGB": 1, b"tIME": 7}
"""Of chunks that may stand before the pixels, and change none."""
_LARGEST: Final = 1 << 24  # bytes of all rows: larger ones are there three times for a while
_HEADER: Final = struct.Struct(">II5B")
_CHUNK: Final = struct.Struct(">I4s")
_CRC: Final = struct.Struct(">I")
_BEFORE_HEADER: Final = _START + _CHUNK.pack(_HEADER.size, b"IHDR")
_AFTER_HEADER: Final = len(_BEFORE_HEADER) + _HEADER.size + _CRC.size
_END: Final = _CHUNK.pack(0, b"IEND") + _CRC.pack(zlib.crc32(b"IEND"))
_ZLIB: Final = b"\x78\x01"
_STORED: Final = struct.Struct("<BHH")
_BLOCK: Final = (1 << 16) - 1
_INFLATE: Final = type(zlib.decompressobj()).decompress
_PART: Final = 4  # pictures: fewer are not worth asking a thread
_KEPT: Final = 5 << 10  # bytes for whose sum zlib does not let go of the interpreter


class _Kind(NamedTuple):
    """Pictures of one mode and size are alike."""

    mode: str
    width: int
    height: int

    def size(self, depth: int) -> int:
        """Bytes of its rows, each behind the number of its filter."""
        return self.height * (1 + self.width * len(self.mode) * depth // 8)


class _Plain(NamedTuple):
    """A plain picture.  size: of its rows, each behind the number of its filter, when they are inflated."""

    kind: _Kind
    compressed: bytes
    size: int


def one_by_one(function: Callable[[Any], object], parts: Iterable[Any]) -> None:
    """A `Share`."""
    for part in parts:
        function(part)


def decoded(image: Any, content: bytes, depth: int = 8) -> Array | None:
    """[height, width, channels] uint8, or uint16 for a depth of 16; None if it is not plain, or of another depth.

    image: the module PIL.Image.
    """
    plain = _plain(image, content, depth, _most())
    rows = None if plain is None else _inflated([plain])[0]
    if plain is None or rows is None:
        return None
    if depth == 16:
        return _of_planes(image, plain.kind, rows)
    pixels = _unfiltered(image, plain.kind, [rows])
    return None if pixels is None else pixels[0]


def decoded_together(
    image: Any, contents: Sequence[bytes], share: Share = one_by_one, threads: int = 1
) -> list[tuple[list[int], Array]]:
    """As `decoded` of each, 8 bits deep: pictures that are alike, uint8 [n, height, width, channels], and their places
    among all.  Those that are not plain are missing.

    share: calls a function for each of several parts, in so many `threads`.
    Raises ValueError: they are large, and take too much memory together.
    """
    alike: dict[_Kind, list[int]] = {}
    size = 0
    for at, content in enumerate(contents):
        kind = _kind(content[:_AFTER_HEADER], 8)
        if kind is not None:
            alike.setdefault(kind, []).append(at)
            size += kind.size(8)
    if size > _LARGEST:
        raise ValueError(f"the pictures take {size} bytes together, more than {_LARGEST}")
    found = []
    for kind, places in alike.items():
        pixels = np.empty((len(places), kind.height, kind.width, len(kind.mode)), np.uint8)
        good = np.zeros(len(places), bool)
        each = max(_PART, -(-len(places) // max(threads, 1)))
        parts = [slice(at, at + each) for at in range(0, len(places), each)]

        def some(
            part: slice,
            kind: _Kind = kind,
            places: list[int] = places,
            pixels: Array = pixels,
            good: Array = good,
        ) -> None:
            made = _of_kind(image, kind, [contents[at] for at in places[part]])
            if made is not None:
                pixels[part], good[part] = made, True

        share(some, parts)
        if good.all():
            found.append((places, pixels))
        elif good.any():
            wanted = np.flatnonzero(good).tolist()
            found.append(([places[at] for at in wanted], pixels[good]))
    return found


def _of_kind(image: Any, kind: _Kind, contents: Sequence[bytes]) -> Array | None:
    """Of pictures whose headers say that they are alike; None if one is broken, or not plain after all.

    The interpreter is let go of where there is much to do, and else kept: threads that took it from each other for
    every few lines would take longer than one.
    """
    most = _most()
    plain = [_plain(image, content, 8, most) for content in contents]
    pictures = [each for each in plain if each is not None]
    if len(pictures) < len(contents):
        return None
    rows = [each for each in _inflated(pictures) if each is not None]
    return _unfiltered(image, kind, rows) if len(rows) == len(contents) else None


def _plain(image: Any, content: bytes, depth: int, most: int) -> _Plain | None:
    """None if it is not plain, or of another depth.  most: bytes of its rows."""
    kind = _kind(content[:_AFTER_HEADER], depth)
    if kind is None:
        return None
    size = kind.size(depth)
    limit = image.MAX_IMAGE_PIXELS
    if size > most or (limit and kind.width * kind.height > limit):
        return None
    compressed = _compressed(content)
    return None if compressed is None else _Plain(kind, compressed, size)


@lru_cache(maxsize=64)
def _kind(start: bytes, depth: int) -> _Kind | None:
    """Of what a PNG begins with, its header; None if it is none, or that of a picture that is not plain."""
    if len(start) < _AFTER_HEADER or not start.startswith(_BEFORE_HEADER):
        return None
    header = start[len(_BEFORE_HEADER) : -_CRC.size]
    if zlib.crc32(header, zlib.crc32(b"IHDR")) != _CRC.unpack(start[-_CRC.size :])[0]:
        return None
    width, height, bits, colour, compression, filtering, interlaced = _HEADER.unpack(header)
    mode = _MODES.get(colour)
    if bits != depth or mode is None or compression or filtering or interlaced:
        return None
    return _Kind(mode, width, height) if width and height else None


def _most() -> int:
    """Bytes of rows that are inflated at once."""
    return min(_LARGEST, EXPANDED_BYTES.value())


def _inflated(pictures: Sequence[_Plain]) -> list[bytes | None]:
    """The rows of each, each behind the number of its filter; None if they are too few, too many or broken."""
    streams = [zlib.decompressobj() for _ in pictures]
    try:
        found = list(
            map(_INFLATE, streams, [p.compressed for p in pictures], [p.size + 1 for p in pictures])
        )
    except zlib.error:
        return [None] if len(pictures) == 1 else [_inflated([each])[0] for each in pictures]
    return [
        rows if len(rows) == each.size and stream.eof and not stream.unused_data else None
        for rows, each, stream in zip(found, pictures, streams, strict=True)
    ]


def _unfiltered(image: Any, kind: _Kind, pictures: Sequence[bytes]) -> Array | None:
    """[n, height, width, channels] of the rows of pictures, 8 bits deep; None if one has a filter that there is not."""
    mode, width, height = kind
    count, channels = len(pictures), len(mode)
    rows = _as_if_compressed(pictures, bytes(1 + width * channels))
    try:
        made = image.frombytes(mode, (width, count * (height + 1)), rows, "zip", mode, 0)
    except ValueError:
        return None
    pixels = np.frombuffer(made.tobytes(), np.uint8)
    return pixels.reshape(count, height + 1, width, channels)[:, :height]


def _as_if_compressed(pictures: Sequence[bytes], between: bytes) -> bytes:
    """Each, and what follows each, in blocks that are stored as they are; no block says that it is the last one."""
    parts = [_ZLIB]
    for rows in chain.from_iterable((each, between) for each in pictures):
        for at in range(0, len(rows), _BLOCK):
            block = rows[at : at + _BLOCK]
            parts += (_STORED.pack(0, len(block), len(block) ^ _BLOCK), block)
    return b"".join(parts)


def _of_planes(image: Any, kind: _Kind, content: bytes) -> Array | None:
    """uint16 [height, width, channels]; None if a row has a filter that there is not.  content: the rows.

    A filter puts together bytes at the same place in neighbouring pixels, so each place is a gray image of its own.
    """
    mode, width, height = kind
    places = 2 * len(mode)
    rows = np.frombuffer(content, np.uint8).reshape(height, 1 + places * width)
    found = np.empty((height, width, places), np.uint8)
    for at in range(places):
        plane = np.concatenate([rows[:, :1], rows[:, 1 + at :: places]], axis=1)
        gray = _unfiltered(image, _Kind("L", width, height), [plane.tobytes()])
        if gray is None:
            return None
        found[..., at] = gray[0, ..., 0]
    return found.view(">u2").astype(np.uint16)


def encoded(pixels: Array, level: int = -1) -> bytes:
    """A PNG of [height, width, 1 to 4 channels] uint8 or uint16, each row as its differences from the one above.

    level: zlib's, -1 for its default.
    """
    height, width, channels = pixels.shape
    depth = 8 * pixels.dtype.itemsize
    if depth == 16:
        pixels = np.ascontiguousarray(pixels, ">u2").view(np.uint8)
    flat = pixels.reshape(height, width * channels * depth // 8)
    rows = np.empty((height, 1 + flat.shape[1]), np.uint8)
    rows[:, 0] = _UP
    rows[0, 1:] = flat[0]
    np.subtract(flat[1:], flat[:-1], out=rows[1:, 1:])
    header = _HEADER.pack(width, height, depth, _COLOURS[channels], 0, 0, 0)
    content = zlib.compress(rows.tobytes(), level)
    chunks = ((b"IHDR", header), (b"IDAT", content), (b"IEND", b""))
    return _START + b"".join(
        _CHUNK.pack(len(data), kind) + data + _CRC.pack(zlib.crc32(data, zlib.crc32(kind)))
        for kind, data in chunks
    )


def _compressed(content: bytes) -> bytes | None:
    """What its IDATs hold; None unless the chunks behind the header are sound, few in kind, and all there is."""
    if not content.endswith(_END):
        return None
    at, end = _AFTER_HEADER, len(content) - len(_END)
    data: list[bytes] = []
    while at < end:
        size, kind = _CHUNK.unpack_from(content, at)
        start, after = at + 8, at + 8 + size
        if after + 4 > end or _sum(content, at + 4, after) != _CRC.unpack_from(content, after)[0]:
            return None
        if kind == b"IDAT":
            data.append(content[start:after])
        elif data or _SIZES.get(kind) != size:
            return None
        at = after + 4
    if not data:
        return None
    return data[0] if len(data) == 1 else b"".join(data)


def _sum(content: bytes, at: int, end: int) -> int:
    """The checksum.  Short pieces are not worth letting go of the interpreter, for which another thread may wait."""
    if end - at > 8 * _KEPT:
        return zlib.crc32(content[at:end])
    found = 0
    for start in range(at, end, _KEPT):
        found = zlib.crc32(content[start : min(start + _KEPT, end)], found)
    return found
