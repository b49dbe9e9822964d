"""log |Γ(x)| of arrays of single precision, where the C library's function is called number by number.

Stirling's series in double precision, for numbers that were moved up to where a few terms of it suffice; rounded once.
Called by: ops.math.special.  Threads: pure functions.
Source: Abramowitz & Stegun 6.1.15 (recurrence), 6.1.17 (reflection), 6.1.41 (series)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_MOVED: Final = 10
_SERIES: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_2PI: Final = 0.9189385332046727
_TOGETHER: Final = 1 << 14  # numbers, which stay in a processor's cache


def log_gamma_of_singles(x: Array) -> Array:
    """float32 of float32 of any shape, or of float16 and bfloat16; ∞ at the poles."""
    flat = np.ascontiguousarray(x).reshape(-1)
    out = np.empty(flat.shape, np.float32)
    with np.errstate(all="ignore"):
        for first in range(0, len(flat), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            out[some] = _log_gamma(flat[some].astype(np.float64))
    return out.reshape(x.shape)


def _log_gamma(x: Array) -> Array:
    below = x < 0.5
    if not below.any():
        return _above(x)
    found = _above(np.where(below, 1 - x, x))
    off = x - np.round(x)  # the sine of what is near a pole
    mirrored = np.log(np.pi / np.abs(np.sin(np.pi * off))) - found
    # So far down that the mirror's own argument has lost what is behind the point: there are poles alone.
    return np.where(below, np.where((off == 0) | np.isinf(x), np.inf, mirrored), found)


def _above(x: Array) -> Array:
    """Of numbers from 0.5 on, or NaN."""
    small = x < _MOVED
    near = np.where(small, x, 1.0)
    product = near.copy()
    for step in range(1, _MOVED):
        product *= near + step
    y = np.where(small, x + _MOVED, x)
    inverse = 1 / y
    square = inverse * inverse
    series = np.full(x.shape, _SERIES[-1])
    for each in _SERIES[-2::-1]:
        series *= square
        series += each
    log = np.log(y)
    found = y * (log - 1) - 0.5 * log + (_HALF_LOG_2PI + series * inverse)
    found -= np.log(np.where(small, product, 1.0))
    found[(x == 1) | (x == 2)] = 0.0  # but for rounding
    return np.where(np.isposinf(x), np.inf, found)
