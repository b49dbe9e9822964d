"""What a frame says of a tensor, checked, and its elements where they are no plain numbers.

All of it comes from another process and is distrusted.
Called by: codec.frames.  Threads: any.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.codec.fields import Array, message, objects, parse

LENGTH: Final = np.dtype("<u8")
"""Of an element without a fixed size."""
ELEMENT_WEIGHT: Final = 64
"""What a bytes object takes beside its bytes."""
MAX_EXTENT: Final = (1 << 63) - 1
"""NumPy refuses larger arrays even if another size of theirs is 0."""


def memory(dtype: dtypes.DType, itemsize: int, shape: tuple[int, ...], nbytes: int) -> int:
    """What a tensor takes, in bytes.  itemsize: 0 for elements without a fixed size.

    Raises InvalidArgument if none of that shape has that many bytes.
    """
    count = math.prod(shape)
    needed = nbytes
    if itemsize:
        fits = nbytes == count * itemsize
    else:
        fits = nbytes >= count * LENGTH.itemsize if count else not nbytes
        needed = 2 * nbytes + ELEMENT_WEIGHT * count
    if not fits:
        raise errors.invalid_argument(
            f"{nbytes} bytes cannot be a {dtype.name} tensor of shape {_text(shape)}"
        )
    if not count and math.prod([size for size in shape if size]) * (itemsize or 8) > MAX_EXTENT:
        raise errors.invalid_argument(f"NumPy has no arrays of shape {_text(shape)}")
    return needed


def _text(shape: tuple[int, ...]) -> str:
    """A shape from outside, cut short."""
    sizes = ",".join(map(str, shape[:8]))
    return f"[{sizes}]" if len(shape) <= 8 else f"[{sizes},... {len(shape)} dimensions]"


def bad_bools() -> errors.OpError:
    """The error for bytes that are no bools."""
    return errors.invalid_argument("a bool tensor came with bytes that are neither 0 nor 1")


def unplain(content: memoryview, dtype: dtypes.DType, shape: tuple[int, ...]) -> Array:
    """A small tensor of bools or objects."""
    if dtype is not dtypes.bool:
        return to_objects(content, dtype, shape)
    array = np.ndarray(shape, np.bool_, content).copy()
    if content.tobytes().translate(None, b"\0\1"):
        raise bad_bools()
    return array


def to_objects(content: memoryview, dtype: dtypes.DType, shape: tuple[int, ...]) -> Array:
    """Raises InvalidArgument unless lengths and bytes fill the content exactly, and for bytes that are no message."""
    count = math.prod(shape)
    at = count * LENGTH.itemsize
    lengths = content[:at].cast("Q").tolist()
    if at + sum(lengths) != len(content):
        raise errors.invalid_argument(
            f"a {dtype.name} tensor came in {len(content)} bytes, {at} of them lengths that announce {sum(lengths)}"
        )
    elements: list[Any] = []
    for length in lengths:
        elements.append(content[at : at + length].tobytes())
        at += length
    kind = message(dtype)
    if kind is not None:
        elements = [parse(kind, element) for element in elements]
    return objects(elements).reshape(shape)
