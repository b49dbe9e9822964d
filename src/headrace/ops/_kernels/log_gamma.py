"""log |Γ(x)| and its derivative of arrays of single precision, without a call of the C library for each number.

Stirling's series in double precision, for numbers that were moved up to where a few terms of it suffice; rounded once.
Ten steps up are one product: x (x + 9), (x + 1) (x + 8), … differ by whole numbers, of which t = x² + 9x is the first.
Called by: ops.math.special.  Threads: any; large arrays are shared by the task's worker pool.
Source: Abramowitz & Stegun 6.1.15 and 6.3.6 (recurrence), 6.1.17 and 6.3.7 (reflection), 6.1.41 and 6.3.18 (series)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.scratch import scratch
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_MOVED: Final = 10
_SERIES: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SLOPES: Final = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_HALF_LOG_2PI: Final = 0.9189385332046727
_PAIRS: Final = tuple(k * (_MOVED - 1 - k) for k in range(_MOVED // 2))  # 0, 8, 14, 18, 20
_PRODUCT: Final = np.polynomial.Polynomial.fromroots([-each for each in _PAIRS])
_TOGETHER: Final = 1 << 16  # numbers, so many that threads seldom wait for the interpreter
_SHARED: Final = 1 << 17  # numbers from which on threads share them
_DOUBLE: Final = np.dtype(np.float64)
_T, _NEAR, _SUM, _SERIES_SUM = range(4)  # slots of scratch memory


def _of_singles(function: Callable[[Array], Array], x: Array) -> Array:
    flat = np.ascontiguousarray(x).reshape(-1)
    out = np.empty(flat.shape, np.float32)

    def some(first: int) -> None:
        which = slice(first, first + _TOGETHER)
        with np.errstate(all="ignore"):
            out[which] = function(flat[which].astype(np.float64))

    pieces = range(0, len(flat), _TOGETHER)
    if len(flat) >= _SHARED:
        parallel_for(some, pieces)
    else:
        for first in pieces:
            some(first)
    return out.reshape(x.shape)


def log_gamma_of_singles(x: Array) -> Array:
    """float32 of float32 of any shape, or of float16 and bfloat16; ∞ at the poles."""
    return _of_singles(_log_gamma, x)


def digamma_of_singles(x: Array) -> Array:
    """float32 of float32 of any shape, or of float16 and bfloat16; NaN at the poles."""
    return _of_singles(_digamma, x)


def _log_gamma(x: Array) -> Array:
    (below,) = (x < 0.5).nonzero()
    if not below.size:
        return _log_gamma_above(x)
    given = x[below]
    x[below] = 1 - given
    found = _log_gamma_above(x)
    off = given - np.round(given)  # the sine of what is near a pole
    mirrored = np.log(np.pi / np.abs(np.sin(np.pi * off))) - found[below]
    # So far down that the mirror's own argument has lost what is behind the point: there are poles alone.
    found[below] = np.where((off == 0) | np.isinf(given), np.inf, mirrored)
    return found


def _digamma(x: Array) -> Array:
    (below,) = (x < 0.5).nonzero()
    if not below.size:
        return _digamma_above(x)
    given = x[below]
    x[below] = 1 - given
    found = _digamma_above(x)
    off = given - np.round(given)
    mirrored = found[below] - np.pi / np.tan(np.pi * off)
    found[below] = np.where((given <= 0) & (off == 0), np.nan, mirrored)
    return found


def _moved(x: Array) -> tuple[Array, Array | None, Array]:
    """y, which are x or 10 more; which of them were moved, if any; and t of those, 0 of others."""
    small = x < _MOVED
    t = scratch(_T, x.shape, _DOUBLE)
    if not small.any():
        return x, None, t
    near = scratch(_NEAR, x.shape, _DOUBLE)
    np.multiply(x, small, out=near)
    near[~np.isfinite(near)] = 0
    np.add(near, _MOVED - 1, out=t)
    t *= near
    return x + np.multiply(small, float(_MOVED)), small, t


def _horner(coefficients: tuple[float, ...], at: Array, slot: int) -> Array:
    """The polynomial, the coefficient of the highest power first."""
    found = scratch(slot, at.shape, _DOUBLE)
    np.multiply(at, coefficients[0], out=found)
    found += coefficients[1]
    for each in coefficients[2:]:
        found *= at
        found += each
    return found


def _log_gamma_above(x: Array) -> Array:
    """Of numbers from 0.5 on, or NaN."""
    y, small, t = _moved(x)
    inverse = 1 / y
    series = _horner(_SERIES[::-1], inverse * inverse, _SERIES_SUM)
    series *= inverse
    series += _HALF_LOG_2PI
    log = np.log(y)
    found = log - 1
    found *= y
    log *= 0.5
    found -= log
    found += series
    if small is not None:
        product = t + _PAIRS[1]
        for each in _PAIRS[2:]:
            product *= t + each
        product *= t
        found -= np.log(np.where(small, product, 1.0))
    found[(x == 1) | (x == 2)] = 0.0  # but for rounding
    found[x == np.inf] = np.inf
    return found


def _digamma_above(x: Array) -> Array:
    """Of numbers from 0.5 on, or NaN."""
    y, small, t = _moved(x)
    inverse = 1 / y
    square = inverse * inverse
    found = np.log(y)
    inverse *= 0.5
    found -= inverse
    series = _horner(_SLOPES[::-1], square, _SERIES_SUM)
    series *= square
    found -= series
    if small is not None:
        total = _horner(_slope_of_product(), t, _SUM)
        total /= _horner(_of_product(), t, _SERIES_SUM)
        total *= 2 * x + (_MOVED - 1)
        found -= np.where(small, total, 0.0)
    return found


@functools.cache
def _of_product() -> tuple[float, ...]:
    return tuple(np.rint(_PRODUCT.coef[::-1]).tolist())


@functools.cache
def _slope_of_product() -> tuple[float, ...]:
    return tuple(np.rint(_PRODUCT.deriv().coef[::-1]).tolist())
