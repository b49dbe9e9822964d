"""Plain JPEGs by simplejpeg: 8 bits, gray or in colours, and whole.

It is libjpeg-turbo, which decodes into the array and lets other threads run; with the fast DCT, TensorFlow's default,
that Pillow does not offer, it gives TensorFlow's pixels.  The frame's header says what it would take.
Whatever is not quite as it should be is left to `codec.images`, and Pillow decides what to say of it.
Called by: codec.images.  Threads: pure functions.
Source: ITU-T T.81, annex B
"""

from __future__ import annotations

import importlib
import math
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from headrace.base.limits import EXPANDED_BYTES
from headrace.codec.plain_png import Share, one_by_one

Array = np.ndarray[Any, Any]

_START: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_FRAMES: Final = frozenset((0xC0, 0xC1, 0xC2))  # baseline, extended, progressive
_BEFORE: Final = frozenset((0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)))
"""Segments that may stand before the frame: tables, the restart interval, comments, applications'."""
_SPACES: Final = {1: "GRAY", 3: "RGB"}
"""By the number of components."""
_LARGEST: Final = 1 << 24  # bytes of pixels: larger ones are there several times for a while
_LENGTH: Final = struct.Struct(">H")
_FRAME: Final = struct.Struct(">BHHB")


def decoded(
    image: Any,
    content: bytes,
    channels: int = 0,
    ratio: int = 1,
    fast: bool = True,
    fancy: bool = True,
) -> Array | None:
    """[height, width, 1 or 3] uint8, or None if it is not plain.  image: the module PIL.Image.

    channels: 0 (as in the file), 1 or 3.  ratio: so many times smaller.  fast: whether the DCT is.  fancy: whether
    colours of less resolution are made smooth.
    """
    shape = _shape(image, content, channels, ratio)
    return None if shape is None else _into(None, content, shape, ratio, fast, fancy)


def decoded_together(
    image: Any,
    contents: Sequence[bytes],
    channels: int = 0,
    ratio: int = 1,
    fast: bool = True,
    fancy: bool = True,
    share: Share = one_by_one,
) -> Array | None:
    """As `decoded` of each, [n, height, width, 1 or 3]; None if one is not plain, or is not as large as the others.

    share: see `plain_png`.
    Raises ValueError: they are large, and take too much memory together.
    """
    shapes = {_shape(image, content, channels, ratio) for content in contents}
    shape = shapes.pop()
    if shape is None or shapes:
        return None
    if math.prod(shape) * len(contents) > _LARGEST:
        raise ValueError(f"the pictures take more than {_LARGEST} bytes together")
    made: Array = np.empty((len(contents), *shape), np.uint8)
    broken: list[int] = []

    def one(at: int) -> None:
        if _into(made[at], contents[at], shape, ratio, fast, fancy) is None:
            broken.append(at)

    share(one, range(len(contents)))
    return None if broken else made


def _shape(image: Any, content: bytes, channels: int, ratio: int) -> tuple[int, int, int] | None:
    """Height, width and channels of what is made of it; None if it is not plain."""
    frame = _frame(content)
    if frame is None or _turbo() is None:
        return None
    depth, height, width, components = frame
    if components not in _SPACES or depth != 8 or not height or not width:
        return None
    wanted = channels or components
    limit = image.MAX_IMAGE_PIXELS
    most = min(_LARGEST, EXPANDED_BYTES.value())
    if height * width * max(wanted, components) > most or (limit and height * width > limit):
        return None
    return -(-height // ratio), -(-width // ratio), wanted


def _into(
    buffer: Array | None,
    content: bytes,
    shape: tuple[int, int, int],
    ratio: int,
    fast: bool,
    fancy: bool,
) -> Array | None:
    """Decoded, into `buffer` if there is one; None if that fails."""
    height, width, channels = shape
    try:
        made: Array = _turbo().decode_jpeg(
            content,
            _SPACES[channels],
            fastdct=fast,
            fastupsample=not fancy,
            min_height=height if ratio > 1 else 0,
            min_width=width if ratio > 1 else 0,
            min_factor=ratio,
            buffer=buffer,
        )
    except ValueError:
        return None
    return made if made.shape == shape else None


@cache
def _turbo() -> Any:
    """The package simplejpeg; None where it is not installed."""
    try:
        return importlib.import_module("simplejpeg")
    except ImportError:
        return None


def _frame(content: bytes) -> tuple[int, int, int, int] | None:
    """Bits, height, width and components, of the first frame; None where anything else comes before it."""
    if not content.startswith(_START) or not content.endswith(_END):
        return None
    at = len(_START)
    while at + 4 + _FRAME.size <= len(content) and content[at] == 0xFF:
        kind = content[at + 1]
        if kind in _FRAMES:
            return _FRAME.unpack_from(content, at + 4)
        if kind not in _BEFORE:
            return None
        at += 2 + _LENGTH.unpack_from(content, at + 2)[0]
    return None
