"""Plain PNGs, sooner than Pillow reads them: not interlaced, without a palette or transparency, 8 bits a channel.

Those of 16 bits Pillow only reads with one channel; they are read and written here.

Most of a PNG's time is inflating, which Pillow does a row at a time and holding the interpreter.  Here zlib inflates
all rows at once, while other threads run; Pillow undoes the filters, of rows that are handed to it as if compressed.
Whatever is not quite as it should be is left to `codec.images`, and Pillow decides what to say of it.
Writing them takes zlib alone.
Called by: codec.images, codec.summary_values.  Threads: pure functions.
Source: the PNG specification, 2nd edition, chapters 5 and 11
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import numpy as np

from headrace.base.limits import EXPANDED_BYTES

Array = np.ndarray[Any, Any]

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


def decoded(image: Any, content: bytes, depth: int = 8) -> Array | None:
    """[height, width, channels] uint8, or uint16 for a depth of 16; None if it is not plain, or of another depth.

    image: the module PIL.Image.
    """
    chunks = _chunks(content)
    if chunks is None:
        return None
    header, compressed = chunks
    width, height, bits, colour, compression, filtering, interlaced = _HEADER.unpack(header)
    mode = _MODES.get(colour)
    if bits != depth or mode is None or compression or filtering or interlaced:
        return None
    row = width * len(mode) * depth // 8
    size = height * (1 + row)
    limit = image.MAX_IMAGE_PIXELS
    most = min(_LARGEST, EXPANDED_BYTES.value())
    if not row or not height or size > most or (limit and width * height > limit):
        return None
    inflate = zlib.decompressobj()
    try:
        rows = inflate.decompress(compressed, size + 1)
        if len(rows) != size or not inflate.eof or inflate.unused_data:
            return None
        if depth == 16:
            return _of_planes(image, np.frombuffer(rows, np.uint8).reshape(height, 1 + row), width)
        made = image.frombytes(mode, (width, height), zlib.compress(rows, 0), "zip", mode, 0)
    except (zlib.error, ValueError):
        return None
    return np.frombuffer(made.tobytes(), np.uint8).reshape(height, width, len(mode))


def _of_planes(image: Any, rows: Array, width: int) -> Array:
    """uint16 [height, width, channels].  rows: of bytes, each behind the number of its filter.

    A filter puts together bytes at the same place in neighbouring pixels, so each place is a gray image of its own.
    """
    height, places = len(rows), (rows.shape[1] - 1) // width
    found = np.empty((height, width, places), np.uint8)
    for at in range(places):
        plane = np.concatenate([rows[:, :1], rows[:, 1 + at :: places]], axis=1)
        gray = zlib.compress(plane.tobytes(), 0)
        made = image.frombytes("L", (width, height), gray, "zip", "L", 0)
        found[..., at] = np.frombuffer(made.tobytes(), np.uint8).reshape(height, width)
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


def _chunks(content: bytes) -> tuple[bytes, bytes] | None:
    """The header and all IDATs; None unless the chunks are sound, few in kind, and end with the content."""
    if not content.startswith(_START):
        return None
    at, end = len(_START), len(content)
    header, data = b"", []
    while at + 12 <= end:
        size, kind = _CHUNK.unpack_from(content, at)
        after = at + 8 + size
        if after + 4 > end:
            return None
        checked = content[at + 4 : after]
        if zlib.crc32(checked) != _CRC.unpack_from(content, after)[0]:
            return None
        at = after + 4
        if kind == b"IDAT" and header:
            data.append(checked[4:])
        elif kind == b"IHDR" and not header and size == _HEADER.size:
            header = checked[4:]
        elif kind == b"IEND" and not size and data:
            return (header, b"".join(data)) if at == end else None
        elif data or not header or _SIZES.get(kind) != size:
            return None
    return None
