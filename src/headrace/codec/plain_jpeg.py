"""Plain JPEGs, sooner than Pillow opens them: 8 bits, gray or in colours, whole, and in the size that they have.

Pillow reads every segment of a file in Python before it hands the file to libjpeg: a quarter of the time of 224 by 224
pixels, in which no other thread runs.  Here only the frame's header is looked for, and libjpeg reads the rest.
Whatever is not quite as it should be is left to `codec.images`, and Pillow decides what to say of it.
Called by: codec.images.  Threads: pure functions.
Source: ITU-T T.81, annex B
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np

from headrace.base.limits import EXPANDED_BYTES

Array = np.ndarray[Any, Any]

_START: Final = b"\xff\xd8"
_END: Final = b"\xff\xd9"
_FRAMES: Final = frozenset((0xC0, 0xC1, 0xC2))  # baseline, extended, progressive
_BEFORE: Final = frozenset((0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)))
"""Segments that may stand before the frame: tables, the restart interval, comments, applications'."""
_MODES: Final = {1: "L", 3: "RGB"}
"""By the number of components."""
_LARGEST: Final = 1 << 24  # bytes of pixels: larger ones are there several times for a while
_LENGTH: Final = struct.Struct(">H")
_FRAME: Final = struct.Struct(">BHHB")


def decoded(image: Any, content: bytes) -> Array | None:
    """[height, width, 1 or 3] uint8, or None if it is not plain.  image: the module PIL.Image."""
    frame = _frame(content)
    if frame is None:
        return None
    depth, height, width, components = frame
    mode = _MODES.get(components)
    if mode is None or depth != 8 or not height or not width:
        return None
    limit = image.MAX_IMAGE_PIXELS
    most = min(_LARGEST, EXPANDED_BYTES.value())
    if height * width * components > most or (limit and height * width > limit):
        return None
    try:
        made = image.frombytes(mode, (width, height), content, "jpeg", mode, "")
    except (ValueError, OSError):
        return None
    return np.frombuffer(made.tobytes(), np.uint8).reshape(height, width, components)


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
