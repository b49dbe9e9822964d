"""Floats in the steps of a range that has 0 as one of them, and where their gradients go.

A range is two scalars, or two vectors as long as the last dimension.
Called by: ops.quantization.fake.  Threads: any; large arrays are shared by the task's worker pool.
Source: behaviour of TF 1.15 (core/kernels/fake_quant_ops.cc)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text
from headrace.ops._kernels.blocks import in_parts
from headrace.ops._kernels.choosing import where as chosen

__all__: list[str] = []

Array = np.ndarray[Any, Any]
F = np.float32


class _Nudged(NamedTuple):
    """A range whose zero is one of its steps."""

    low: Array
    high: Array
    scale: Array
    zero: Array  # which step


def _nudged(low: Array, high: Array, bits: int, narrow: bool) -> _Nudged:
    first, last = F(1 if narrow else 0), F((1 << bits) - 1)
    scale = ((high - low) / (last - first)).astype(F)
    with np.errstate(divide="ignore", invalid="ignore"):
        zero = first - low / scale
    zero = np.where(zero < first, first, np.where(zero > last, last, np.floor(zero + F(0.5))))
    return _Nudged((first - zero) * scale, (last - zero) * scale, scale, zero - first)


def _check_bits(bits: int) -> None:
    if not 2 <= bits <= 16:
        raise errors.invalid_argument(
            f"num_bits must be between 2 and 16, inclusive, and is {bits}"
        )


def quantized(
    x: Array, low: Array, high: Array, bits: int, narrow: bool, by_inverse: bool = False
) -> Array:
    """x in steps of the range; 0 where that is 0 to 0.

    by_inverse: times the steps in a unit, not by the step's size: other numbers lie half way then.
    """
    _check_bits(bits)
    none = (low == 0) & (high == 0)
    where = _nudged(low, high, bits, narrow)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = (F((1 << bits) - 1 - narrow) / (high - low)).astype(F)

    def in_steps(x: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            made = np.asarray(np.minimum(x, where.high))
            np.maximum(made, where.low, out=made)
            made -= where.low
            if by_inverse:
                made *= inverse
            else:
                made /= where.scale
            made -= where.zero
            made += F(0.5)
            np.floor(made, out=made)
            made *= where.scale
        return made

    if none.ndim:
        return np.where(none, F(0), in_steps(x)).astype(F)
    return np.zeros(x.shape, F) if none else in_parts(in_steps, x)


def gradients_of(
    gradients: Array, x: Array, low: Array, high: Array, bits: int, narrow: bool
) -> tuple[Array, Array, Array]:
    """The gradient within the range, below and above it."""
    inside = gradient_inside(gradients, x, low, high, bits, narrow)
    where = _nudged(low, high, bits, narrow)
    some = ~((low == 0) & (high == 0))
    below, above = (x < where.low) & some, (x > where.high) & some
    nothing = np.zeros(x.shape, F)
    return inside, chosen(below, gradients, nothing), chosen(above, gradients, nothing)


def gradient_inside(
    gradients: Array, x: Array, low: Array, high: Array, bits: int, narrow: bool
) -> Array:
    """The gradient within the range.  Raises InvalidArgument."""
    _check_bits(bits)
    if gradients.shape != x.shape:
        raise errors.invalid_argument(
            f"gradient and input must be the same size: {text(gradients.shape)} and {text(x.shape)}"
        )
    where = _nudged(low, high, bits, narrow)
    none = (low == 0) & (high == 0)

    def kept(x: Array, gradients: Array) -> Any:
        inside = x >= where.low
        inside &= x <= where.high
        inside |= none
        return chosen(inside, gradients, np.zeros(x.shape, F))

    found: Array = kept(x, gradients) if none.ndim else in_parts(kept, x, gradients)
    return found
