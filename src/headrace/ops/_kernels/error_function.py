"""The error function of arrays of single precision, and what is left to 1, in a fraction of what Python's take.

A quotient of two polynomials of the square, in double precision, rounded once.  What it is off before that, 2e-9 of the
value at most, is a thirtieth of what rounding may be; from 4 on the value is 1.  What is left of 1 is exp(-x²) times a
polynomial, as exact.
Called by: ops.math.special.  Threads: any; large ones are shared by the task's worker pool.
Source: coefficients fitted to `math.erf` by least squares, with weights that even out the relative error
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.choosing import where
from headrace.ops._kernels.scratch import scratch
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_END: Final = 4.0
_VALUE, _SQUARE, _SUM, _SIZE = range(4)  # slots of scratch memory
_TOGETHER: Final = 1 << 16  # numbers; with fewer, threads wait for the interpreter
_ABOVE: Final = (
    -1.320197404922e-08,
    4.684724302567e-06,
    3.796071773283e-04,
    3.849617985914e-03,
    5.431690540198e-02,
    1.852035100787e-01,
    1.128379169367e00,
)
_BELOW: Final = (
    6.311008061370e-05,
    1.307568981962e-03,
    1.546209605836e-02,
    1.139584963228e-01,
    4.974657510617e-01,
    1.000000000000e00,
)
"""Coefficients, of the highest power first."""
_END_OF_TAIL: Final = 10.5  # from where on there is nothing left in single precision
_TAIL: Final = (
    -2.8332091090136e-02,
    2.1425973149925e-01,
    -6.8861406753461e-01,
    1.1898896796829e00,
    -1.1383943486920e00,
    5.8125162345298e-01,
    -2.5999006746320e-01,
    1.5433025978404e-01,
    1.6308294868622e-01,
    2.4843641119807e-01,
    2.8198160613321e-01,
    2.8209831469861e-01,
)
"""Of erfc(x) exp(x²) / t, as a polynomial of t = 2 / (2 + x), for x >= 0."""


def erf_of_singles(x: Array) -> Array:
    """float32 of float32 of any shape, or of float16 and bfloat16."""
    return _in_pieces(_erf, x)


def _erf(value: Array) -> Array:
    np.minimum(value, _END, out=value)
    np.maximum(value, -_END, out=value)
    square = np.multiply(value, value, out=scratch(_SQUARE, value.shape, value.dtype))
    value *= _polynomial(square, _ABOVE)
    value /= _polynomial(square, _BELOW)
    return value


def erfc_of_singles(x: Array) -> Array:
    """1 - erf(x), as `erf_of_singles`."""
    return _in_pieces(_erfc, x)


def _erfc(value: Array) -> Array:
    size, ratio = (scratch(slot, value.shape, value.dtype) for slot in (_SIZE, _SQUARE))
    np.abs(value, out=size)
    np.minimum(size, _END_OF_TAIL, out=size)
    np.add(size, 2, out=ratio)
    np.divide(2, ratio, out=ratio)
    found = _polynomial(ratio, _TAIL)
    found *= ratio
    np.square(size, out=size)
    np.negative(size, out=size)
    np.exp(size, out=size)
    found *= size
    np.subtract(2, found, out=size)
    chosen: Array = where(value < 0, size, found)
    return chosen


def _in_pieces(function: Callable[[Array], Array], x: Array) -> Array:
    """float32 of function(float64, which is its to change), of some elements after the others."""
    flat = np.ascontiguousarray(x).reshape(-1)
    out = np.empty(flat.shape, np.float32)

    def some(first: int) -> None:
        which = slice(first, first + _TOGETHER)
        given = flat[which]
        value = scratch(_VALUE, given.shape, np.dtype(np.float64))
        value[...] = given
        out[which] = function(value)

    pieces = range(0, len(flat), _TOGETHER)
    if len(flat) >= LARGE:
        parallel_for(some, pieces)
    else:
        for first in pieces:
            some(first)
    return out.reshape(x.shape)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """In memory that the next one is made in."""
    found = scratch(_SUM, x.shape, x.dtype)
    np.multiply(x, coefficients[0], out=found)
    for each in coefficients[1:-1]:
        found += each
        found *= x
    found += coefficients[-1]
    return found
