"""Arithmetic on two tensors: + - * / // % **, min and max; and -x.

Kernels are the array namespace's own functions wherever TensorFlow's results are theirs; integer
division checks its divisor.  The Tensor operators that these stand behind are in `operators`.
Called by: every family, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/cwise_ops.h, python/ops/math_ops.py; GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.traits import (
    AGGREGATE,
    COMMUTATIVE,
    ELEMENTWISE,
    LIGHT,
    NEVER_FAILS,
    OF_SPARSE,
    OF_TWO_RAGGED,
    PER_RECORD,
)
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.ragged import of_ragged, of_two_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import broadcast
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.math.broadcasting import equal_and_known, unbroadcast
from headrace.ops.math.casting import cast, conj
from headrace.ops.tables import (
    ARITHMETIC,
    FLOATS,
    FLOATS_AND_COMPLEXES,
    SIGNED,
    binary,
    make,
    type_attr,
    unary,
)

__all__ = [
    "add",
    "div",
    "div_no_nan",
    "divide",
    "floor_div",
    "floordiv",
    "floormod",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "multiply_no_nan",
    "negative",
    "pow",
    "realdiv",
    "squared_difference",
    "subtract",
    "truediv",
    "truncatediv",
    "truncatemod",
]

_PLAIN = {NEVER_FAILS, PER_RECORD, LIGHT}
_XY = "x: T; y: T"


# -- + and - ----------------------------------------------------------------------------------


def _add_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    if equal_and_known(x, y, dout):
        return dout, dout
    return unbroadcast(x, y, dout, dout)


@op(
    "Add",
    inputs=_XY,
    outputs="z: T",
    attrs=f"T: {{{FLOATS}, uint8, int8, int16, int32, int64, complex64, complex128, string}}",
    shape=broadcast,
    traits=_PLAIN,
)
def add_op(xp: Any, x: Any, y: Any) -> Any:
    """x + y; strings are joined.  Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_add_1.cc
    """
    if x.dtype == object:
        joined = np.empty(np.broadcast_shapes(x.shape, y.shape), object)
        joined[...] = np.add(x, y)
        return joined
    return xp.add(x, y)


add_op.gradient(_add_gradient)
add_v2 = binary(
    "AddV2",
    "add",
    f"{FLOATS}, uint8, uint16, uint32, uint64, int8, int16, int32, int64, complex64, complex128",
    _add_gradient,
    traits={*_PLAIN, COMMUTATIVE, AGGREGATE},
)


def _subtract_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    negated = make.Neg(dout)
    if equal_and_known(x, y, dout):
        return dout, negated
    return unbroadcast(x, y, dout, negated)


sub = binary("Sub", "subtract", ARITHMETIC, _subtract_gradient, traits=_PLAIN)


@of_two_ragged
def add(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x + y; strings are joined."""
    with name_scope(name, "Add", [x, y]) as scope:
        x = convert(x, name="x")
        kind = add_op if x.dtype.base_dtype is dtypes.string else add_v2
        total: Tensor = kind(x, y, name=scope)
        return total


@of_two_ragged
def subtract(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x - y."""
    difference: Tensor = sub(x, y, name=name)
    return difference


# -- * and / ----------------------------------------------------------------------------------


def _multiply_gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    if equal_and_known(x, y, dout) and dout.dtype in (dtypes.int32, dtypes.float32):
        return mul(dout, y), mul(dout, x)
    dx = mul(dout, conj(y))
    return unbroadcast(x, y, dx, mul(conj(x), dout))


mul = binary("Mul", "multiply", ARITHMETIC, _multiply_gradient, traits={*_PLAIN, COMMUTATIVE})


@mul.same
def _(op: Operation, known: Sequence[Any]) -> int | None:
    """The other factor of a 1."""
    return next((1 - at for at, each in enumerate(known) if _is_one(each)), None)


def _is_one(value: Any) -> bool:
    """Whether it is the number 1, for which nothing is stretched."""
    return value is not None and not value.ndim and value.dtype.kind in "fiu" and value == 1


@of_two_ragged
def multiply(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x · y, element by element."""
    product: Tensor = mul(x, y, name=name)
    return product


@op("MulNoNan", inputs=_XY, outputs="z: T", attrs=type_attr(FLOATS_AND_COMPLEXES), shape=broadcast)
def mul_no_nan(xp: Any, x: Any, y: Any) -> Any:
    """x · y, and 0 where y is 0, whatever x is.  Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_mul_2.cc
    """
    return xp.where(y == 0, np.zeros((), y.dtype), xp.multiply(x, y))


@mul_no_nan.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    dx, dy = mul_no_nan(dout, y), mul_no_nan(x, dout)
    return (dx, dy) if equal_and_known(x, y, dout) else unbroadcast(x, y, dx, dy)


def multiply_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x · y, and 0 where y is 0, even if x is infinite or NaN."""
    with name_scope(name, "multiply_no_nan", [x, y]) as scope:
        x = convert(x, name="x")
        y = convert(y, x.dtype.base_dtype, name="y")
        product: Tensor = mul_no_nan(x, y, name=scope)
        return product


def _is_empty(x: Any, y: Any) -> bool:
    """Whether what x and y broadcast to has no elements, so that nothing is done with either's."""
    return 0 in np.broadcast_shapes(x.shape, y.shape)


def check_divisor(x: Any, y: Any) -> None:
    """Raises InvalidArgument if an element of x is divided by a 0 in y, an integer array."""
    if y.dtype.kind in "iu" and not y.all() and not _is_empty(x, y):
        raise errors.invalid_argument(
            f"Integer division by zero: y ({y.dtype}, shape {list(y.shape)}) holds a 0"
        )


def _no_integers(x: Any, name: str) -> None:
    if x.dtype.kind in "iu":
        raise errors.invalid_argument(
            f"{name} has no kernel for {x.dtype}; use tf.truediv, which casts, or tf.floordiv"
        )


def _no_complex(x: Any, name: str) -> None:
    if x.dtype.kind == "c":
        raise errors.invalid_argument(
            f"{name} has no kernel for {x.dtype}: complex numbers have no order"
        )


def _quotient_gradient(op: Operation, dout: Any, divide: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    cx, cy = conj(x), conj(y)
    dx = divide(dout, cy)
    dy = divide(divide(make.Neg(cx), cy), cy)
    return unbroadcast(x, y, dx, mul(dout, dy, name="mul"))


@op(
    "RealDiv",
    inputs=_XY,
    outputs="z: T",
    attrs=type_attr(ARITHMETIC),
    shape=broadcast,
    traits={*_PLAIN, ELEMENTWISE, OF_TWO_RAGGED},
)
def realdiv(xp: Any, x: Any, y: Any) -> Any:
    """x / y of floats and complex numbers.

    Raises InvalidArgument for integers.
    Source: TF 1.15 core/kernels/cwise_op_div.cc
    """
    _no_integers(x, "RealDiv")
    return xp.divide(x, y)


@realdiv.same
def _(op: Operation, known: Sequence[Any]) -> int | None:
    """What is divided by 1."""
    return 0 if _is_one(known[1]) and op.inputs[0].dtype.is_floating else None


@realdiv.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    return _quotient_gradient(op, dout, realdiv)


@op(
    "Div",
    inputs=_XY,
    outputs="z: T",
    attrs=type_attr(ARITHMETIC),
    shape=broadcast,
    traits={PER_RECORD},
)
def div_op(xp: Any, x: Any, y: Any) -> Any:
    """x / y; of integers, towards zero.

    Raises InvalidArgument on an integer division by zero.
    Source: TF 1.15 core/kernels/cwise_op_div.cc
    """
    return _truncated(xp, x, y) if x.dtype.kind in "iu" else xp.divide(x, y)


@div_op.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    return _quotient_gradient(op, dout, truediv)


def _truncated(xp: Any, x: Any, y: Any) -> Any:
    """Integer division towards zero."""
    check_divisor(x, y)
    quotient = xp.floor_divide(x, y)
    if x.dtype.kind == "u":
        return quotient
    inexact = xp.multiply(quotient, y) != x
    return quotient + ((quotient < 0) & inexact).astype(x.dtype)


@op(
    "TruncateDiv",
    inputs=_XY,
    outputs="z: T",
    attrs=type_attr(ARITHMETIC),
    shape=broadcast,
    traits={PER_RECORD, OF_TWO_RAGGED},
    differentiable=False,
)
def truncatediv(xp: Any, x: Any, y: Any) -> Any:
    """x / y towards zero.

    Raises InvalidArgument on an integer division by zero, and for complex numbers.
    Source: TF 1.15 core/kernels/cwise_op_div.cc
    """
    _no_complex(x, "TruncateDiv")
    if x.dtype.kind in "iu":
        return _truncated(xp, x, y)
    return xp.trunc(xp.divide(x, y))


@op(
    "FloorDiv",
    inputs=_XY,
    outputs="z: T",
    attrs=type_attr(ARITHMETIC),
    shape=broadcast,
    traits={NEVER_FAILS, PER_RECORD, OF_TWO_RAGGED},
    differentiable=False,
)
def floor_div(xp: Any, x: Any, y: Any) -> Any:
    """x / y towards -∞.

    Raises InvalidArgument on an integer division by zero, and for complex numbers.
    Source: TF 1.15 core/kernels/cwise_op_floor_div.cc
    """
    if x.dtype.kind in "iu":
        check_divisor(x, y)
        return xp.floor_divide(x, y)
    _no_complex(x, "FloorDiv")
    return xp.floor(xp.divide(x, y))


@op(
    "FloorMod",
    inputs=_XY,
    outputs="z: T",
    attrs="T: realnumbertype",
    shape=broadcast,
    traits={NEVER_FAILS, PER_RECORD, OF_TWO_RAGGED},
)
def floormod(xp: Any, x: Any, y: Any) -> Any:
    """x - floor(x / y) · y: the remainder with the sign of y.

    Raises InvalidArgument on an integer division by zero.
    Source: TF 1.15 core/kernels/cwise_op_floor_mod.cc
    """
    check_divisor(x, y)
    return xp.remainder(x, y)


@floormod.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    dy = mul(dout, make.Neg(make.FloorDiv(x, y)), name="mul")
    return unbroadcast(x, y, dout, dy)


def _truncated_remainder(xp: Any, x: Any, y: Any) -> Any:
    """x - trunc(x / y) · y: the remainder with the sign of x.

    Raises InvalidArgument on an integer division by zero.
    Source: TF 1.15 core/kernels/cwise_op_mod.cc
    """
    check_divisor(x, y)
    return np.fmod(x, y)


_MOD_TYPES = "int32, int64, bfloat16, half, float, double"
truncatemod = op(
    "TruncateMod",
    inputs=_XY,
    outputs="z: T",
    attrs=type_attr(_MOD_TYPES),
    shape=broadcast,
    traits={PER_RECORD, OF_TWO_RAGGED},
)(_truncated_remainder)
mod_op = op(
    "Mod",
    inputs=_XY,
    outputs="z: T",
    attrs=type_attr(_MOD_TYPES),
    shape=broadcast,
    traits={PER_RECORD},
)(_truncated_remainder)


@op("DivNoNan", inputs=_XY, outputs="z: T", attrs=type_attr(FLOATS_AND_COMPLEXES), shape=broadcast)
def div_no_nan_op(xp: Any, x: Any, y: Any) -> Any:
    """x / y, and 0 where y is 0.  Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_div.cc
    """
    return xp.where(y == 0, np.zeros((), y.dtype), xp.divide(x, y))


@div_no_nan_op.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    return _quotient_gradient(op, dout, div_no_nan)


@of_two_ragged
def div_no_nan(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where y is 0."""
    with name_scope(name, "div_no_nan", [x, y]) as scope:
        x = convert(x, name="x")
        y = convert(y, x.dtype.base_dtype, name="y")
        quotient: Tensor = div_no_nan_op(x, y, name=scope)
        return quotient


# What integers are divided as; None: as they are.
_TRUE_DIVISION = {
    **dict.fromkeys((dtypes.uint8, dtypes.int8, dtypes.uint16, dtypes.int16), dtypes.float32),
    **dict.fromkeys((dtypes.uint32, dtypes.int32, dtypes.uint64, dtypes.int64), dtypes.float64),
}


@of_two_ragged
def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 means it: integers of 8 and 16 bits as float32, wider ones as float64.

    Raises TypeError if the types differ or are not numbers.
    """
    with name_scope(name, "truediv", [x, y]) as scope:
        x = convert(x, name="x")
        y = convert(y, name="y", preferred_dtype=x.dtype.base_dtype)
        kind = x.dtype.base_dtype
        if kind is not y.dtype.base_dtype:
            raise TypeError(
                f"`x` and `y` must have the same dtype, got {kind!r} != {y.dtype.base_dtype!r}; tf.cast converts"
            )
        if kind not in _TRUE_DIVISION and not (kind.is_floating or kind.is_complex):
            raise TypeError(
                f"Invalid dtype {kind!r} in __truediv__: {x.name} does not hold numbers"
            )
        as_kind = _TRUE_DIVISION.get(kind)
        if as_kind is not None:
            x, y = cast(x, as_kind), cast(y, as_kind)
        quotient: Tensor = realdiv(x, y, name=scope)
        return quotient


@of_two_ragged
def divide(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 3 means it."""
    if name is not None:
        return truediv(x, y, name)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        x = convert(x)
    made: Tensor = x / y  # so that what is no tensor has the other's dtype
    return made


@of_two_ragged
def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y as Python 2 meant it: floor division of integers."""
    with name_scope(name, "div", [x, y]) as scope:
        x = convert(x, name="x")
        y = convert(y, x.dtype.base_dtype, name="y")
        fractional = x.dtype.is_floating or x.dtype.is_complex
        quotient: Tensor = (realdiv if fractional else floor_div)(x, y, name=scope)
        return quotient


@of_two_ragged
def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y towards -∞."""
    with name_scope(name, "floordiv", [x, y]) as scope:
        quotient: Tensor = floor_div(x, y, name=scope)
        return quotient


mod = floormod


# -- powers, extremes, distances ---------------------------------------------------------------


@op(
    "Pow",
    inputs=_XY,
    outputs="z: T",
    attrs=f"T: {{{FLOATS}, int8, int16, int32, int64, complex64, complex128}}",
    shape=broadcast,
    traits={ELEMENTWISE, PER_RECORD, LIGHT, OF_TWO_RAGGED},
)
def pow(xp: Any, x: Any, y: Any) -> Any:
    """x to the power of y.

    Raises InvalidArgument for an integer to a negative power.
    Source: TF 1.15 core/kernels/cwise_op_pow.cc
    """
    if y.dtype.kind == "i" and (y < 0).any() and not _is_empty(x, y):
        raise errors.invalid_argument(
            "Integers to negative integer powers are not allowed; cast x to a float"
        )
    return xp.pow(x, y)


@pow.same
def _(op: Operation, known: Sequence[Any]) -> int | None:
    """What is raised to the power of 1."""
    return 0 if _is_one(known[1]) and op.inputs[0].dtype.is_floating else None


@pow.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    z = op.outputs[0]
    cx, cy = conj(x), conj(y)
    one = constant(1, y.dtype.base_dtype, name="sub/y")
    dx = mul(mul(dout, cy, name="mul"), pow(cx, sub(cy, one, name="sub")), name="mul")
    # The logarithm of a base that has none counts as 0.
    proper = make.NotEqual(cx, 0) if x.dtype.is_complex else make.Greater(cx, 0)
    safe = make.Select(proper, cx, ones_like(cx))
    logarithm = make.Select(proper, make.Log(safe), zeros_like(cx))
    dy = mul(mul(dout, conj(z), name="mul"), logarithm, name="mul")
    return unbroadcast(x, y, dx, dy)


def _extreme_gradient(op: Operation, dout: Any, comparison: str) -> tuple[Any, Any]:
    x, y = op.inputs
    nothing = zeros_like(dout)
    first = getattr(make, comparison)(x, y)
    dx = make.SelectV2(first, dout, nothing)
    return unbroadcast(x, y, dx, make.SelectV2(first, nothing, dout))


maximum = binary(
    "Maximum",
    "maximum",
    "realnumbertype",
    lambda op, dout: _extreme_gradient(op, dout, "GreaterEqual"),
    traits=_PLAIN | {OF_TWO_RAGGED},
)
minimum = binary(
    "Minimum",
    "minimum",
    "realnumbertype",
    lambda op, dout: _extreme_gradient(op, dout, "LessEqual"),
    traits=_PLAIN | {OF_TWO_RAGGED},
)


@op(
    "SquaredDifference",
    inputs=_XY,
    outputs="z: T",
    attrs=f"T: {{{FLOATS}, int32, int64, complex64, complex128}}",
    shape=broadcast,
    traits={PER_RECORD, COMMUTATIVE, ELEMENTWISE, OF_TWO_RAGGED},
)
def squared_difference(xp: Any, x: Any, y: Any) -> Any:
    """|x - y|².  Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_squared_difference.cc
    """
    difference = xp.subtract(x, y)
    if x.dtype.kind == "c":
        return xp.multiply(difference, xp.conj(difference))
    return xp.square(difference)


@squared_difference.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any]:
    x, y = op.inputs
    with control_dependencies([dout]):
        two = constant(2, dout.dtype.base_dtype, name="scalar")
        dx = mul(mul(two, dout), sub(x, y, name="sub"), name="mul")
    dy = make.Neg(dx)
    return (dx, dy) if equal_and_known(x, y, dout) else unbroadcast(x, y, dx, dy)


# -- one tensor -------------------------------------------------------------------------------

neg = unary("Neg", "negative", SIGNED, lambda op, dout: make.Neg(dout), traits=_PLAIN | {OF_SPARSE})


@of_ragged
def negative(x: Any, name: str | None = None) -> Tensor:
    """-x."""
    made: Tensor = neg(x, name=name)
    return made
