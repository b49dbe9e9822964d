"""Array kernels of fake quantization: floats in the steps that integers of a few bits would have.

Called by: ops._portable.table.  Threads: any.
Source: as ops.quantization.fake
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from headrace.ops._portable.table import arrays, check, device_of


class _Nudged(NamedTuple):
    """A range whose zero is one of its steps, by number."""

    low: Any
    high: Any
    scale: Any
    zero: Any


def _nudged(xp: Any, low: Any, high: Any, bits: int, narrow: bool) -> _Nudged:
    first, last = float(narrow), float((1 << bits) - 1)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    inner = xp.where(zero > last, xp.full_like(zero, last), xp.floor(zero + 0.5))
    zero = xp.where(zero < first, xp.full_like(zero, first), inner)
    return _Nudged((first - zero) * scale, (last - zero) * scale, scale, zero - first)


def _is_nothing(xp: Any, low: Any, high: Any) -> Any:
    return xp.logical_and(low == 0.0, high == 0.0)


def _quantized(
    xp: Any, x: Any, low: Any, high: Any, bits: int, narrow: bool, by_inverse: bool = False
) -> Any:
    check(2 <= bits <= 16 and math.prod(x.shape) > 0)
    where = _nudged(xp, low, high, bits, narrow)
    inside = xp.maximum(xp.minimum(x, where.high), where.low) - where.low
    if by_inverse:
        steps = inside * (float((1 << bits) - 1 - narrow) / (high - low))
    else:
        steps = inside / where.scale
    made = xp.floor(steps - where.zero + 0.5) * where.scale
    return xp.where(_is_nothing(xp, low, high), xp.zeros_like(made), made)


def _parts(
    xp: Any, gradients: Any, x: Any, low: Any, high: Any, bits: int, narrow: bool
) -> tuple[Any, Any, Any]:
    """The gradient within the range, below and above it."""
    check(2 <= bits <= 16 and gradients.shape == x.shape and math.prod(x.shape) > 0)
    where = _nudged(xp, low, high, bits, narrow)
    some = xp.logical_not(_is_nothing(xp, low, high))
    below, above = xp.logical_and(x < where.low, some), xp.logical_and(x > where.high, some)
    within = xp.logical_and(x >= where.low, x <= where.high)
    zero = xp.zeros_like(gradients)
    inside = xp.where(xp.logical_or(within, xp.logical_not(some)), gradients, zero)
    return inside, xp.where(below, gradients, zero), xp.where(above, gradients, zero)


def _ends(xp: Any, like: Any, low: float, high: float) -> tuple[Any, Any]:
    check(low < high)
    first, last = (
        xp.asarray(each, dtype=like.dtype, device=device_of(like)) for each in (low, high)
    )
    return first, last


@arrays("FakeQuantWithMinMaxArgs")
def _by_attrs(xp: Any, x: Any, *, min: float, max: float, num_bits: int, narrow_range: bool) -> Any:
    return _quantized(xp, x, *_ends(xp, x, min, max), num_bits, narrow_range, True)


@arrays("FakeQuantWithMinMaxArgsGradient")
def _by_attrs_grad(
    xp: Any,
    gradients: Any,
    x: Any,
    *,
    min: float,
    max: float,
    num_bits: int,
    narrow_range: bool,
) -> Any:
    return _parts(xp, gradients, x, *_ends(xp, x, min, max), num_bits, narrow_range)[0]


@arrays("FakeQuantWithMinMaxVars")
def _by_range(xp: Any, x: Any, low: Any, high: Any, *, num_bits: int, narrow_range: bool) -> Any:
    check(low.ndim == high.ndim == 0)
    return _quantized(xp, x, low, high, num_bits, narrow_range)


@arrays("FakeQuantWithMinMaxVarsGradient")
def _by_range_grad(
    xp: Any, gradients: Any, x: Any, low: Any, high: Any, *, num_bits: int, narrow_range: bool
) -> tuple[Any, ...]:
    check(low.ndim == high.ndim == 0)
    inside, *outside = _parts(xp, gradients, x, low, high, num_bits, narrow_range)
    return inside, *[xp.sum(each) for each in outside]


def _a_channel(x: Any, low: Any, high: Any) -> None:
    check(x.ndim > 0 and low.shape == high.shape == x.shape[-1:])


@arrays("FakeQuantWithMinMaxVarsPerChannel")
def _by_channel(xp: Any, x: Any, low: Any, high: Any, *, num_bits: int, narrow_range: bool) -> Any:
    _a_channel(x, low, high)
    return _quantized(xp, x, low, high, num_bits, narrow_range, True)


@arrays("FakeQuantWithMinMaxVarsPerChannelGradient")
def _by_channel_grad(
    xp: Any, gradients: Any, x: Any, low: Any, high: Any, *, num_bits: int, narrow_range: bool
) -> tuple[Any, ...]:
    _a_channel(x, low, high)
    inside, *outside = _parts(xp, gradients, x, low, high, num_bits, narrow_range)
    axes = tuple(range(x.ndim - 1))
    return inside, *[xp.sum(each, axis=axes) if axes else each for each in outside]
