"""Integers as levels of a range of floats: the arithmetic that ops on quantized numbers have in common.

A range is given by its ends; the lowest integer of the type is the one, the highest the other.  Zero is made to be a
level.  What is rounded where, and how wide, decides the last bits: it is as in TensorFlow.
Called by: the other files of ops.quantization.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/quantization_utils.h)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, text
from headrace.graph.shape_fns import ShapeContext

__all__: list[str] = []

Array = np.ndarray[Any, Any]
F = np.float32
TYPES: Final = "{qint8, quint8, qint32, qint16, quint16}"


def plain(kind: dtypes.DType) -> np.dtype[Any]:
    """The integers that values of the type are."""
    return np.dtype(kind.name.removeprefix("q"))


def ends(kind: dtypes.DType) -> tuple[int, int]:
    """The lowest and the highest integer of the type."""
    found = np.iinfo(plain(kind))
    return int(found.min), int(found.max)


def rounded(x: Any) -> Any:
    """To whole numbers, halves away from zero."""
    return np.where(x < 0, np.ceil(x - 0.5), np.floor(x + 0.5))


def integers(x: Array, kind: dtypes.DType) -> Array:
    """Quantized values as int64."""
    return x.astype(plain(kind)).astype(np.int64)


def quantized(x: Array, kind: dtypes.DType) -> Array:
    """Whole numbers as values of the type, which they fit."""
    return x.astype(plain(kind)).astype(kind.np)


def value_of_level(
    low: Any, high: Any, kind: dtypes.DType, *, symmetric: bool = False
) -> np.float32:
    """What one level is worth; symmetric: there are as many above 0 as below."""
    first, last = ends(kind)
    return F(float(F(high) - F(low)) / (last - first - symmetric))


def floats(numbers: Any, low: Any, high: Any, kind: dtypes.DType) -> Array:
    """float32: what integers stand for, of which only the first 24 bits are looked at."""
    numbers = np.asarray(numbers).astype(F).astype(np.float64)
    if low == high:
        return np.full(numbers.shape, F(low))
    first, last = ends(kind)
    level = float(F(high) - F(low)) / (last - first)
    lowest = float(F(float(rounded(float(F(low) / F(level)))) * level))
    found: Array = (lowest + (numbers - first) * level).astype(F)
    return found


def nearest(
    x: Any,
    low: Any,
    high: Any,
    kind: dtypes.DType,
    *,
    clipped: bool = True,
    around_zero: bool = False,
) -> Array:
    """int64: the levels nearest to floats.

    clipped: those of the type alone; around_zero: of a range that has its middle there, which is level 0.
    """
    x = np.asarray(x, np.float64)
    if low == high:
        return np.zeros(x.shape, np.int64)
    first, last = ends(kind)
    steps = float(last - first + 1)
    in_one = steps / (float(F(high) - F(low)) * (steps / (steps - 1.0)))
    found = rounded(x * in_one)
    if not around_zero:
        found = found - rounded(float(low) * in_one) + first
    levels: Array = (np.clip(found, first, last) if clipped else found).astype(np.int64)
    return levels


def zero(low: Any, high: Any, kind: dtypes.DType) -> int:
    """The integer that stands for 0, or would, were the type wider."""
    return int(nearest(0.0, low, high, kind, clipped=False))


def shifted(
    numbers: Array, low: np.float32, high: np.float32, new_low: np.float32, new_high: np.float32
) -> Array:
    """int64 in 0 .. 255: integers of 32 bits as levels of another range, in fixed point of 16 bits."""
    old, new = high - low, new_high - new_low
    scale, offset, origin = 0, 0, 0
    if new != 0:
        in_one = F(255.0 / float(new))
        middle = (float(low) + float(high)) / 2.0
        scale = int(255.0 * (1 << 16) * float(old) / float(new))
        offset = int(F(F(middle) * in_one) * F(1 << 16))
        origin = int(rounded((1 << 16) * (float(new_low) * 255.0) / float(new)))
    moved = ((numbers * scale) >> 32) + offset - origin
    found: Array = np.clip((moved + (1 << 15)) >> 16, 0, 255)
    return found


def range_of_sums(level: Any) -> tuple[Array, Array]:
    """The range of 32 bits of which a level is worth that: of sums of products, the product of the factors' levels."""
    first, last = ends(dtypes.qint32)
    return np.asarray(level * F(first), F), np.asarray(level * F(last), F)


def checked_scalars(**given: Array) -> None:
    """Raises InvalidArgument unless each is one number."""
    for name, each in given.items():
        if each.ndim:
            raise errors.invalid_argument(
                f"`{name}` must be rank 0 but is rank {each.ndim}: it has shape {text(each.shape)}"
            )


def checked_ranges(**given: tuple[Array, Array]) -> None:
    """Raises InvalidArgument unless each range begins before it ends."""
    for name, (low, high) in given.items():
        if not low < high:
            raise errors.invalid_argument(
                f"max_{name} must be larger than min_{name}: they are {float(high):g} and {float(low):g}"
            )


def checked_type(op: str, kind: dtypes.DType, *known: dtypes.DType) -> None:
    """Raises InvalidArgument unless there is a kernel for the type, as in TensorFlow."""
    if kind not in known:
        raise errors.invalid_argument(
            f"No OpKernel was registered to support Op '{op}' with these attrs: values of {kind.name}, where it takes "
            f"{' or '.join(each.name for each in known)}; dequantize, compute, and quantize again"
        )


def scalar_ends(c: ShapeContext, *names: str) -> None:
    """Raises ValueError unless the inputs of these names are scalars, as far as is known."""
    for name in names:
        c.with_rank(name, 0)


def with_range(shape: Shape) -> list[Shape]:
    """Static shapes of values and the two ends of their range."""
    return [shape, (), ()]
