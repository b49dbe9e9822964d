"""Array kernels of quantization there and back: floats in the steps that integers of a few bits would have.

Called by: ops._portable.table.  Threads: any.
Source: as ops.quantization.fake
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from headrace.ops._portable.table import arrays, check, device_of, require


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


# -- there and back ---------------------------------------------------------------------------------------------------


def _there_and_back(
    xp: Any,
    x: Any,
    low: Any,
    high: Any,
    bits: int,
    signed: bool,
    given: bool,
    half_up: bool,
    narrow: bool,
    axis: int,
) -> Any:
    check(0 < bits < (64 if signed else 63) and -1 <= axis < x.ndim and math.prod(x.shape) > 0)
    along = tuple([size if at == axis else 1 for at, size in enumerate(x.shape)])
    kind = xp.float64 if x.dtype == xp.float64 else xp.float32
    wide = xp.astype(x, kind)
    if given:
        count = x.shape[axis] if axis >= 0 else 1
        fits = [each.shape == (count,) if axis >= 0 else each.ndim == 0 for each in (low, high)]
        check(all(fits))
        low, high = (xp.reshape(xp.astype(each, kind), along) for each in (low, high))
        require(xp, low <= high, "a range that is none")
    else:
        others = tuple([at for at in range(x.ndim) if at != axis])
        ends = (
            (wide, wide) if not others else (xp.min(wide, axis=others), xp.max(wide, axis=others))
        )
        low, high = (xp.reshape(each, along) for each in ends)
    first = float(-(1 << (bits - 1)) + narrow if signed else 0)
    last = float((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    by_low, by_high = _factor(xp, first, low), _factor(xp, last, high)
    low_rules = by_low < by_high
    scale = xp.where(low_rules, by_low, by_high)
    back = xp.where(low_rules, low / first if first else low, high / last)
    steps = wide
    if given:
        ends = xp.where(low_rules, low, first * back), xp.where(low_rules, last * back, high)
        steps = xp.minimum(xp.maximum(wide, ends[0]), ends[1])
    steps = steps * scale
    steps = xp.floor(steps + 0.5) if half_up else xp.round(steps)
    return xp.astype(steps * back, x.dtype)


def _factor(xp: Any, end: float, value: Any) -> Any:
    """By how much a number is multiplied, so that `value` becomes `end`, if they have one sign."""
    most = xp.full_like(value, float(xp.finfo(value.dtype).max))
    alike = end * value > 0
    return xp.where(alike, end / xp.where(alike, value, xp.ones_like(value)), most)


@arrays("QuantizeAndDequantizeV2", reals=True)
def _by_ends(
    xp: Any,
    input: Any,
    input_min: Any,
    input_max: Any,
    *,
    signed_input: bool,
    num_bits: int,
    range_given: bool,
    round_mode: bytes,
    narrow_range: bool,
    axis: int,
) -> Any:
    half_up = round_mode == b"HALF_UP"
    how = (num_bits, signed_input, range_given, half_up, narrow_range, axis)
    return _there_and_back(xp, input, input_min, input_max, *how)


@arrays("QuantizeAndDequantizeV3", reals=True, host=(3,))
def _by_ends_and_bits(
    xp: Any,
    input: Any,
    input_min: Any,
    input_max: Any,
    num_bits: Any,
    *,
    signed_input: bool,
    range_given: bool,
    narrow_range: bool,
    axis: int,
) -> Any:
    check(num_bits.ndim == 0)
    how = (int(num_bits), signed_input, range_given, False, narrow_range, axis)
    return _there_and_back(xp, input, input_min, input_max, *how)
