"""Special functions: the error function and its inverses, log Γ and its derivatives, Hurwitz' zeta.

All are computed in double precision and rounded to the type asked for.
Called by: users, nn, random ops.  Threads: any.
Source: TF 1.15 core/kernels/cwise_op_erf.cc and its neighbours (domains, special values); formulas
from Abramowitz & Stegun 6.3, 6.4, 7.1, 23.2; gradient nodes as 2.21
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base.traits import ELEMENTWISE, NONE, OF_RAGGED, OF_SPARSE, PER_RECORD, SHARES, Traits
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.registry import Gradient, OpSpec, op
from headrace.graph.shape_fns import broadcast, unchanged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.error_function import erf_of_singles, erfc_of_singles
from headrace.ops._kernels.log_gamma import digamma_of_singles, log_gamma_of_singles
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import shape
from headrace.ops.math.arithmetic import add_v2, mul, neg, truediv
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import conj
from headrace.ops.math.elementwise import exp
from headrace.ops.math.magnitudes import square
from headrace.ops.tables import FLOATS, make, type_attr

__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfcinv",
    "erfinv",
    "lgamma",
    "ndtri",
    "polygamma",
    "zeta",
]

Array = np.ndarray[Any, Any]


def _special(
    name: str,
    doc: str,
    function: Callable[[Array], Array],
    gradient: Gradient,
    traits: Traits = NONE,
    singles: Callable[[Array], Array] | None = None,
) -> OpSpec:
    """Op `name` of one input; `function` takes and gives float64 arrays.

    singles: the same for all other types, giving float32 arrays, where that takes less time.
    """

    def kernel(xp: Any, x: Any) -> Any:
        if singles is not None and x.dtype != np.float64:
            return singles(np.asarray(x)).astype(x.dtype, copy=False)
        return np.asarray(function(np.asarray(x, np.float64))).astype(x.dtype)

    kernel.__doc__ = doc
    spec = op(
        name, inputs="x: T", outputs="y: T", attrs=type_attr(FLOATS), shape=unchanged, traits=traits
    )(kernel)
    spec.gradient(gradient)
    return spec


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python floats as one of float64 arrays."""
    mapped = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(mapped(x), np.float64)


# -- error function ---------------------------------------------------------------------------


def _gaussian(factor: float) -> Gradient:
    """dy · factor · exp(-x²)."""

    def gradient(op: Operation, dout: Any) -> Tensor:
        scaled = mul(dout, constant(factor, dout.dtype.base_dtype), name="mul")
        with control_dependencies([dout]):
            made: Tensor = mul(scaled, exp(neg(square(op.inputs[0]))), name="mul")
            return made

    return gradient


_SLOPE_AT_0 = 2 / math.sqrt(math.pi)

erf = _special(
    "Erf",
    "The error function.",
    _each(math.erf),
    _gaussian(_SLOPE_AT_0),
    traits={PER_RECORD, ELEMENTWISE, SHARES, OF_SPARSE, OF_RAGGED},
    singles=erf_of_singles,
)
erfc = _special(
    "Erfc",
    "1 - erf(x).",
    _each(math.erfc),
    _gaussian(-_SLOPE_AT_0),
    traits={SHARES, OF_RAGGED},
    singles=erfc_of_singles,
)


@functools.cache
def _inverse_normal() -> Callable[[float], float]:
    from statistics import NormalDist  # takes its time to load

    return NormalDist().inv_cdf


def _ndtri(p: float) -> float:
    if 0 < p < 1:
        return _inverse_normal()(p)
    return -math.inf if p == 0 else math.inf if p == 1 else math.nan


def _erfinv(x: float) -> float:
    size = abs(x)
    if size >= 0.5:
        return math.copysign(-_ndtri((1 - size) / 2), x) / math.sqrt(2) if size <= 1 else math.nan
    near = _ndtri((1 + x) / 2) / math.sqrt(2)
    # A step of Newton's: near 0 the line above is only absolutely exact.
    return near - (math.erf(near) - x) / (_SLOPE_AT_0 * math.exp(-near * near))


def _erfinv_gradient(op: Operation, dout: Any) -> Tensor:
    scaled = mul(dout, constant(1 / _SLOPE_AT_0, dout.dtype.base_dtype), name="mul")
    with control_dependencies([dout]):
        made: Tensor = mul(scaled, exp(square(op.outputs[0])), name="mul")
        return made


def _ndtri_gradient(op: Operation, dout: Any) -> Tensor:
    scaled = mul(dout, constant(math.sqrt(2 * math.pi), dout.dtype.base_dtype), name="mul")
    with control_dependencies([dout]):
        made: Tensor = mul(scaled, exp(truediv(square(op.outputs[0]), 2.0)), name="mul")
        return made


erfinv_op = _special(
    "Erfinv", "The inverse of erf; NaN outside [-1, 1].", _each(_erfinv), _erfinv_gradient
)
ndtri_op = _special(
    "Ndtri",
    "The quantile of the standard normal; NaN outside [0, 1].",
    _each(_ndtri),
    _ndtri_gradient,
)


def erfinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erf; NaN outside [-1, 1]."""
    with name_scope(name, "erfinv", [x]):
        made: Tensor = erfinv_op(x)
        return made


def ndtri(x: Any, name: str | None = None) -> Tensor:
    """The quantile of the standard normal; NaN outside [0, 1]."""
    with name_scope(name, "ndtri", [x]):
        made: Tensor = ndtri_op(x)
        return made


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc; NaN outside [0, 2]."""
    with name_scope(name, "erfcinv", [x]):
        made: Tensor = neg(ndtri(0.5 * x)) * math.sqrt(0.5)
        return made


# -- Γ ----------------------------------------------------------------------------------------


def _lgamma(x: float) -> float:
    if x <= 0 and x % 1 == 0:
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _of_input(derivative: Callable[[Tensor], Tensor]) -> Gradient:
    def gradient(op: Operation, dout: Any) -> Tensor:
        with control_dependencies([dout]):
            made: Tensor = mul(dout, derivative(conj(op.inputs[0])), name="mul")
            return made

    return gradient


# B_2k / 2k of the asymptotic series of digamma.
_DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_LARGE = 10.0  # from here on the series give doubles to the last digits


def _digamma(x: Array) -> Array:
    reflected = x < 0.5
    y = np.where(reflected, 1 - x, x)
    total = np.zeros(x.shape)
    for _ in range(int(_LARGE)):
        small = y < _LARGE
        total -= np.where(small, 1 / y, 0)
        y = np.where(small, y + 1, y)
    inverse_square = 1 / (y * y)
    series = np.zeros(x.shape)
    for coefficient in reversed(_DIGAMMA_SERIES):
        series = (series + coefficient) * inverse_square
    total += np.log(y) - 0.5 / y - series
    fraction = x - np.round(x)
    total -= np.where(reflected, np.pi / np.tan(np.pi * fraction), 0)
    return np.where((x <= 0) & (fraction == 0), np.nan, total)


lgamma = _special(
    "Lgamma",
    "log |Γ(x)|.",
    _each(_lgamma),
    _of_input(lambda x: make.Digamma(x)),
    traits={OF_RAGGED, SHARES},
    singles=log_gamma_of_singles,
)
digamma = _special(
    "Digamma",
    "The derivative of log Γ; NaN at its poles.",
    _digamma,
    _of_input(lambda x: make.Polygamma(constant(1, x.dtype.base_dtype), x)),
    traits={OF_RAGGED, SHARES},
    singles=digamma_of_singles,
)

# B_2k / (2k)!, k = 1 …, of the Euler-Maclaurin series of zeta.
_ZETA_SERIES = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)


def _zeta(s: Array, q: Array) -> Array:
    """Σ (q + k)^-s over k ≥ 0, for s > 1."""
    s, q = np.broadcast_arrays(s, q)
    total, a = np.zeros(s.shape), q.copy()
    steps = int(min(np.max(np.where(np.isfinite(q), _LARGE - q, 0), initial=0), 1e6)) + 1
    for _ in range(steps):
        small = a < _LARGE
        if not small.any():
            break
        total += np.where(small, np.power(a, -s), 0)
        a = np.where(small, a + 1, a)
    power = np.power(a, -s)
    total += power * a / (s - 1) + 0.5 * power
    factor = s * power / a
    for index, coefficient in enumerate(_ZETA_SERIES):
        total += coefficient * factor
        factor = factor * (s + 2 * index + 1) * (s + 2 * index + 2) / (a * a)
    poles = (q <= 0) & (np.floor(q) == q)
    total = np.where((s > 1) & (np.isposinf(q) | (np.isposinf(s) & (q > 1))), 0, total)
    undefined = (s < 1) | ((q <= 0) & (np.floor(s) != s))
    return np.where(s == 1, np.inf, np.where(undefined, np.nan, np.where(poles, np.inf, total)))


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except (OverflowError, ValueError):
        return math.inf


def _polygamma(n: Array, x: Array) -> Array:
    n, x = np.broadcast_arrays(n, x)
    higher = np.where(n % 2 == 1, 1.0, -1.0) * _each(_gamma)(n + 1) * _zeta(n + 1, x)
    pole = (n > 0) & (n % 2 == 0) & (x <= 0) & (np.floor(x) == x)
    improper = (n < 0) | (np.floor(n) != n) | pole
    return np.where(improper, np.nan, np.where(n == 0, _digamma(x), higher))


@op("Zeta", inputs="x: T; q: T", outputs="z: T", attrs="T: {float, double}", shape=broadcast)
def zeta(xp: Any, x: Any, q: Any) -> Any:
    """Hurwitz' zeta function Σ (q + k)^-x over k ≥ 0; infinite at x = 1, NaN for x < 1.

    Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_zeta.cc
    """
    return _zeta(np.asarray(x, np.float64), np.asarray(q, np.float64)).astype(x.dtype)


@zeta.gradient
def _(op: Operation, dout: Any) -> tuple[None, Tensor]:
    x, q = op.inputs
    shape_x, shape_q = shape(x), shape(q)
    axes = broadcast_gradient_args(shape_x, shape_q)[1]
    with control_dependencies([dout]):
        minus_x = neg(x)
        one = constant(1, x.dtype.base_dtype, name="add/y")
        slope = mul(minus_x, zeta(add_v2(x, one, name="add"), q), name="mul")
        return None, make.Reshape(make.Sum(mul(slope, dout, name="mul"), axes), shape_q)


@op("Polygamma", inputs="a: T; x: T", outputs="z: T", attrs="T: {float, double}", shape=broadcast)
def polygamma(xp: Any, a: Any, x: Any) -> Any:
    """The a-th derivative of digamma at x; NaN unless a is 0, 1, 2, …

    Raises as Zeta.

    Source: TF 1.15 core/kernels/cwise_op_polygamma.cc
    """
    return _polygamma(np.asarray(a, np.float64), np.asarray(x, np.float64)).astype(x.dtype)


@polygamma.gradient
def _(op: Operation, dout: Any) -> tuple[None, Tensor]:
    n, x = op.inputs
    shape_n, shape_x = shape(n), shape(x)
    axes = broadcast_gradient_args(shape_n, shape_x)[1]
    with control_dependencies([dout]):
        one = constant(1, n.dtype.base_dtype, name="add/y")
        slope = polygamma(add_v2(n, one, name="add"), x)
        return None, make.Reshape(make.Sum(mul(slope, dout, name="mul"), axes), shape_x)
