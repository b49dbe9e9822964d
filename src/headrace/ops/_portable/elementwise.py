"""Array kernels of elementwise arithmetic.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from headrace.ops._portable.table import arrays, check, require

_UNARY: Final = {
    "Abs": "abs",
    "Neg": "negative",
    "Square": "square",
    "LogicalNot": "logical_not",
    "Conj": "conj",
    "IsNan": "isnan",
    "IsInf": "isinf",
    "IsFinite": "isfinite",
    "Invert": "bitwise_invert",
}
_UNARY_REALS: Final = {
    "Exp": "exp",
    "Expm1": "expm1",
    "Log": "log",
    "Log1p": "log1p",
    "Sqrt": "sqrt",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Tanh": "tanh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "Floor": "floor",
    "Ceil": "ceil",
    "Rint": "round",
    "Round": "round",
    "Sign": "sign",
}
_BINARY: Final = {
    "Add": "add",
    "AddV2": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Less": "less",
    "LessEqual": "less_equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "Equal": "equal",
    "NotEqual": "not_equal",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
_BINARY_REALS: Final = {
    "RealDiv": "divide",
    "Div": "divide",
    "FloorDiv": "floor_divide",
    "FloorMod": "remainder",
    "Pow": "pow",
    "Atan2": "atan2",
}
"""For whole numbers a divisor of zero is an error, which is found on the host."""


def _unary(function: str) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any) -> Any:
        return getattr(xp, function)(x)

    return kernel


def _binary(function: str) -> Callable[..., Any]:
    def kernel(xp: Any, x: Any, y: Any) -> Any:
        return getattr(xp, function)(x, y)

    return kernel


for _name, _function in _UNARY.items():
    arrays(_name)(_unary(_function))
for _name, _function in _UNARY_REALS.items():
    arrays(_name, reals=True)(_unary(_function))
for _name, _function in _BINARY.items():
    arrays(_name)(_binary(_function))
for _name, _function in _BINARY_REALS.items():
    arrays(_name, reals=True)(_binary(_function))


@arrays("Reciprocal", "Inv", reals=True)
def _reciprocal(xp: Any, x: Any) -> Any:
    return 1.0 / x


@arrays("Rsqrt", reals=True)
def _rsqrt(xp: Any, x: Any) -> Any:
    return 1.0 / xp.sqrt(x)


@arrays("SquaredDifference", reals=True)
def _squared_difference(xp: Any, x: Any, y: Any) -> Any:
    difference = x - y
    if xp.isdtype(difference.dtype, "complex floating"):
        return difference * xp.conj(difference)
    return xp.square(difference)


@arrays("DivNoNan", reals=True)
def _div_no_nan(xp: Any, x: Any, y: Any) -> Any:
    zero = y == 0.0
    found = x / xp.where(zero, xp.ones_like(y), y)
    return xp.where(xp.broadcast_to(zero, found.shape), xp.zeros_like(found), found)


@arrays("MulNoNan", reals=True)
def _mul_no_nan(xp: Any, x: Any, y: Any) -> Any:
    found = x * y
    return xp.where(xp.broadcast_to(y == 0.0, found.shape), xp.zeros_like(found), found)


def _zero_where_x_is(name: str, function: Callable[[Any, Any, Any], Any]) -> None:
    @arrays(name, reals=True)
    def kernel(xp: Any, x: Any, y: Any) -> Any:
        found = function(xp, x, y)
        return xp.where(xp.broadcast_to(x == 0.0, found.shape), xp.zeros_like(found), found)


_zero_where_x_is("Xlogy", lambda xp, x, y: x * xp.log(y))
_zero_where_x_is("Xlog1py", lambda xp, x, y: x * xp.log1p(y))
_zero_where_x_is("Xdivy", lambda xp, x, y: x / y)


@arrays("TruncateDiv", reals=True)
def _truncated_quotient(xp: Any, x: Any, y: Any) -> Any:
    return xp.trunc(x / y)


def _shift(function: str) -> Callable[..., Any]:
    """By no more than there are bits less one, and no less than nothing."""

    def kernel(xp: Any, x: Any, y: Any) -> Any:
        most = xp.full_like(y, xp.iinfo(y.dtype).bits - 1)
        by = xp.minimum(xp.maximum(y, xp.zeros_like(y)), most)
        return getattr(xp, function)(x, by)

    return kernel


arrays("LeftShift")(_shift("bitwise_left_shift"))
arrays("RightShift")(_shift("bitwise_right_shift"))


@arrays("ApproximateEqual", reals=True, alike=True)
def _approximate_equal(xp: Any, x: Any, y: Any, *, tolerance: float) -> Any:
    return xp.abs(x - y) < tolerance


def _of_complex(name: str, function: Callable[[Any, Any], Any]) -> None:
    @arrays(name)
    def kernel(xp: Any, input: Any, *, Tout: Any) -> Any:
        return xp.astype(function(xp, input), getattr(xp, Tout.base_dtype.name))


_of_complex("Real", lambda xp, x: xp.real(x))
_of_complex("Imag", lambda xp, x: xp.imag(x))
_of_complex("ComplexAbs", lambda xp, x: xp.abs(x))
_of_complex("Angle", lambda xp, x: xp.atan2(xp.imag(x), xp.real(x)))


@arrays("Cross", reals=True, alike=True)
def _cross(xp: Any, a: Any, b: Any) -> Any:
    check(a.ndim > 0 and a.shape[-1] == 3)
    (x, y, z), (u, v, w) = ([each[..., at] for at in range(3)] for each in (a, b))
    return xp.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-1)


@arrays("AddN", "AccumulateNV2", alike=True)
def _sum_of_many(xp: Any, *inputs: Any) -> Any:
    return reduce(xp.add, inputs) if len(inputs) > 1 else xp.asarray(inputs[0], copy=True)


@arrays("Select")
def _select(xp: Any, condition: Any, t: Any, e: Any) -> Any:
    check(t.shape == e.shape and condition.shape in (t.shape, t.shape[:1], ()))
    if condition.ndim == 1 and t.ndim > 1:
        condition = xp.reshape(condition, (condition.shape[0], *[1] * (t.ndim - 1)))
    return xp.where(condition, t, e)


@arrays("SelectV2")
def _select_v2(xp: Any, condition: Any, t: Any, e: Any) -> Any:
    return xp.where(condition, t, e)


@arrays("ClipByValue", reals=True)
def _clip_by_value(xp: Any, t: Any, clip_value_min: Any, clip_value_max: Any) -> Any:
    check(clip_value_min.shape in ((), t.shape) and clip_value_max.shape in ((), t.shape))
    return xp.maximum(xp.minimum(t, clip_value_max), clip_value_min)


@arrays("Cast")
def _cast(xp: Any, x: Any, *, SrcT: Any, DstT: Any) -> Any:
    if SrcT.is_complex and not DstT.is_complex:
        x = xp.real(x)
    if DstT.is_integer and xp.isdtype(x.dtype, "real floating"):
        info = xp.iinfo(getattr(xp, DstT.base_dtype.name))
        above = x >= float(info.min) if info.min else x > -1.0
        fits = xp.logical_and(above, x < float(info.max // 2 + 1) * 2.0)
        require(xp, fits, "what does not fit is the processor's to say")
    return xp.astype(x, getattr(xp, DstT.base_dtype.name))


@arrays("BiasAdd", "BiasAddV1")
def _bias_add(xp: Any, value: Any, bias: Any, *, data_format: bytes = b"NHWC") -> Any:
    check(value.ndim >= 2 and bias.ndim == 1)
    check(bias.shape[0] == value.shape[1 if data_format == b"NCHW" else -1])
    if data_format == b"NCHW":
        bias = xp.reshape(bias, (bias.shape[0], *[1] * (value.ndim - 2)))
    return value + bias


# -- gradients ----------------------------------------------------------------------------------------------------


def _conjugate(xp: Any, y: Any) -> Any:
    return xp.conj(y) if xp.isdtype(y.dtype, "complex floating") else y


@arrays("TanhGrad", reals=True, alike=True)
def _tanh_grad(xp: Any, y: Any, dy: Any) -> Any:
    return dy * (1.0 - xp.square(y))


@arrays("SigmoidGrad", reals=True, alike=True)
def _sigmoid_grad(xp: Any, y: Any, dy: Any) -> Any:
    return dy * y * (1.0 - y)


def _zero_where(xp: Any, dy: Any, made: Any) -> Any:
    return xp.where(dy == 0, xp.zeros_like(made), made)


@arrays("SqrtGrad", reals=True, alike=True)
def _sqrt_grad(xp: Any, y: Any, dy: Any) -> Any:
    return _zero_where(xp, dy, dy * 0.5 / _conjugate(xp, y))


@arrays("RsqrtGrad", reals=True, alike=True)
def _rsqrt_grad(xp: Any, y: Any, dy: Any) -> Any:
    y = _conjugate(xp, y)
    return _zero_where(xp, dy, dy * -0.5 * (xp.square(y) * y))


@arrays("ReciprocalGrad", "InvGrad", reals=True, alike=True)
def _reciprocal_grad(xp: Any, y: Any, dy: Any) -> Any:
    return _zero_where(xp, dy, -dy * xp.square(_conjugate(xp, y)))
