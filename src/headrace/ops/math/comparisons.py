"""Comparisons, the logic of bools, and Select: choosing by a condition.

Called by: operators, gradients of other families, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/cwise_op_less.cc and its neighbours, cwise_op_select.cc; GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import (
    COMMUTATIVE,
    ELEMENTWISE,
    LIGHT,
    NEVER_FAILS,
    OF_RAGGED,
    OF_TWO_RAGGED,
    PER_RECORD,
)
from headrace.graph.graph import Operation
from headrace.graph.ragged import of_ragged_by, of_two_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, merged
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.choosing import where as _where
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.array.shapes import shape
from headrace.ops.math.broadcasting import broadcast_gradient_args, static_axes
from headrace.ops.tables import ALL_NUMBERS, binary, make, unary

__all__ = [
    "approximate_equal",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "select",
    "where_v2",
]

# -- order ------------------------------------------------------------------------------------

less = binary(
    "Less",
    "less",
    "realnumbertype",
    output="z: bool",
    traits={NEVER_FAILS, PER_RECORD, LIGHT, OF_TWO_RAGGED},
    differentiable=False,
)
less_equal = binary(
    "LessEqual",
    "less_equal",
    "realnumbertype",
    output="z: bool",
    traits={NEVER_FAILS, PER_RECORD, OF_TWO_RAGGED},
    differentiable=False,
)
greater = binary(
    "Greater",
    "greater",
    "realnumbertype",
    output="z: bool",
    traits={NEVER_FAILS, PER_RECORD, LIGHT, OF_TWO_RAGGED},
    differentiable=False,
)
greater_equal = binary(
    "GreaterEqual",
    "greater_equal",
    "realnumbertype",
    output="z: bool",
    traits={NEVER_FAILS, PER_RECORD, OF_TWO_RAGGED},
    differentiable=False,
)

# -- equality ---------------------------------------------------------------------------------


def _equality_shape(c: ShapeContext) -> Shape:
    x, y = c.shape("x"), c.shape("y")
    if c.attr("incompatible_shape_error"):
        return shape_rules.broadcast(x, y)
    if x is None or y is None:
        return None
    try:
        known = shape_rules.broadcast(x, y)
    except ValueError:
        return ()
    # Only sizes that are known to fit are sure not to end in the scalar that says "no".
    return known if None not in x and None not in y else None


_EQUALITY = "T: type; incompatible_shape_error: bool = true"


@op(
    "Equal",
    inputs="x: T; y: T",
    outputs="z: bool",
    attrs=_EQUALITY,
    shape=_equality_shape,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, COMMUTATIVE, OF_TWO_RAGGED},
    differentiable=False,
)
def equal(xp: Any, x: Any, y: Any, *, incompatible_shape_error: bool) -> Any:
    """x == y; shapes broadcast.

    Raises InvalidArgument if they do not and incompatible_shape_error; without it the answer is
    the scalar False.
    Source: TF 1.15 core/kernels/cwise_op_equal_to.cc
    """
    if not incompatible_shape_error and not _fit(x, y):
        return np.False_
    return _equal(xp, x, y)


@op(
    "NotEqual",
    inputs="x: T; y: T",
    outputs="z: bool",
    attrs=_EQUALITY,
    shape=_equality_shape,
    traits={NEVER_FAILS, PER_RECORD, COMMUTATIVE, OF_TWO_RAGGED},
    differentiable=False,
)
def not_equal(xp: Any, x: Any, y: Any, *, incompatible_shape_error: bool) -> Any:
    """x != y; shapes broadcast.

    Raises InvalidArgument if they do not and incompatible_shape_error; without it the answer is
    the scalar True.
    Source: TF 1.15 core/kernels/cwise_op_not_equal_to.cc
    """
    if not incompatible_shape_error and not _fit(x, y):
        return np.True_
    if x.dtype.kind in "OV":
        return np.logical_not(_equal(xp, x, y))
    return xp.not_equal(x, y)


def _equal(xp: Any, x: Any, y: Any) -> Any:
    if x.dtype == object:
        return np.asarray(np.equal(x, y), bool)
    if x.dtype.names:
        (field,) = x.dtype.names
        return xp.equal(x[field], y[field])
    return xp.equal(x, y)


def _fit(x: Any, y: Any) -> bool:
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


@op(
    "ApproximateEqual",
    inputs="x: T; y: T",
    outputs="z: bool",
    attrs=f"T: {{{ALL_NUMBERS}}}; tolerance: float = 9.999999747378752e-06",
    shape=merged,
    traits={COMMUTATIVE},
    differentiable=False,
)
def approximate_equal(xp: Any, x: Any, y: Any, *, tolerance: float) -> Any:
    """|x - y| < tolerance; x and y have one shape.

    Raises InvalidArgument if they have not.
    Source: TF 1.15 core/kernels/cwise_op_approximate_equal.cc
    """
    if x.shape != y.shape:
        raise errors.invalid_argument(
            f"x and y must have one shape, but have {list(x.shape)} and {list(y.shape)}"
        )
    difference = (
        xp.subtract(xp.maximum(x, y), xp.minimum(x, y))
        if x.dtype.kind == "u"
        else xp.abs(xp.subtract(x, y))
    )
    return xp.less(difference, tolerance)


# -- logic ------------------------------------------------------------------------------------

logical_and = binary(
    "LogicalAnd",
    "logical_and",
    None,
    inputs="x: bool; y: bool",
    output="z: bool",
    differentiable=False,
    traits={NEVER_FAILS, PER_RECORD, LIGHT, COMMUTATIVE, OF_TWO_RAGGED},
)
logical_or = binary(
    "LogicalOr",
    "logical_or",
    None,
    inputs="x: bool; y: bool",
    output="z: bool",
    differentiable=False,
    traits={NEVER_FAILS, PER_RECORD, COMMUTATIVE, OF_TWO_RAGGED},
)
logical_not = unary(
    "LogicalNot",
    "logical_not",
    None,
    inputs="x: bool",
    output="bool",
    traits={NEVER_FAILS, PER_RECORD, OF_RAGGED},
    differentiable=False,
)


@of_two_ragged
def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    """x != y of bools."""
    either = logical_or(x, y)
    both = logical_and(x, y)
    result: Tensor = logical_and(either, logical_not(both), name=name)
    return result


# -- Select -----------------------------------------------------------------------------------


def _select_shape(c: ShapeContext) -> Shape:
    values = shape_rules.merge(c.shape("t"), c.shape("e"))
    condition = c.shape("condition")
    if condition is None or condition == ():
        return values
    if len(condition) == 1:
        if values is None:
            return None
        if values == ():
            raise ValueError(
                f"condition has shape {shape_rules.text(condition)}, but t and e are scalars"
            )
        return (*shape_rules.merge(values[:1], condition), *values[1:])  # type: ignore[misc]
    return shape_rules.merge(values, condition)


@op(
    "Select",
    inputs="condition: bool; t: T; e: T",
    outputs="output: T",
    attrs="T: type",
    shape=_select_shape,
    traits={NEVER_FAILS, PER_RECORD, LIGHT},
)
def select(xp: Any, condition: Any, t: Any, e: Any) -> Any:
    """t where condition holds, e elsewhere.

    t, e [n, ...]; condition of their shape, or [n] to choose rows, or [] to choose all.
    Raises InvalidArgument if shapes do not fit.
    Source: TF 1.15 core/kernels/cwise_op_select.cc
    """
    if t.shape != e.shape:
        raise errors.invalid_argument(
            f"Inputs to operation Select must have the same size and shape: t and e have {text(t.shape)} and "
            f"{text(e.shape)}"
        )
    chosen = condition.shape
    if chosen != t.shape and chosen != ():
        if len(chosen) != 1 or t.ndim == 0 or chosen[0] != t.shape[0]:
            raise errors.invalid_argument(
                f"Inputs to operation Select must have the same size and shape. Input 0: {text(chosen)} != input 1: "
                f"{text(t.shape)}; the condition may also have the first dimension of t only, or none"
            )
        condition = condition.reshape(chosen + (1,) * (t.ndim - 1))
    return _where(condition, t, e) if xp is np else xp.where(condition, t, e)


def _or_nothing(op: Operation, known: Sequence[Any]) -> Callable[[Any, Any, Any], Any] | None:
    """Where one of two arrays is known to be zeros, the bits of the other one are masked: `where` takes longer."""
    zeros = [each is not None and _has_no_bits(each) for each in known[1:]]
    kernel = None if op.spec is None else op.spec.kernel
    if zeros.count(True) != 1 or kernel is None:
        return None
    first, plain = zeros[1], partial(kernel, np)
    bits = np.dtype(f"i{known[1 + zeros.index(True)].itemsize}")

    def masked(condition: Any, t: Any, e: Any) -> Any:
        given = t if first else e
        if not condition.shape == t.shape == e.shape or given.size < _FEWEST_MASKED:
            return plain(condition, t, e)
        if not (condition.flags.c_contiguous and given.flags.c_contiguous):
            return plain(condition, t, e)
        chosen = condition.view(np.int8)
        narrow = np.negative(chosen) if first else np.subtract(chosen, np.int8(1))
        mask = narrow.astype(bits)
        np.bitwise_and(mask, given.view(bits), mask)
        return mask.view(given.dtype)

    return masked


def _has_no_bits(value: Any) -> bool:
    """Whether it is an array of numbers that are 0, and not -0."""
    if value.dtype.kind not in "iuf" or value.itemsize not in (4, 8) or not value.size:
        return False
    return not np.ascontiguousarray(value).view(f"u{value.itemsize}").any()


_FEWEST_MASKED: Final = 512  # elements
select.knowing(_or_nothing)


@select.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any, Any]:
    condition = op.inputs[0]
    nothing = zeros_like(op.inputs[1])
    return None, select(condition, dout, nothing), select(condition, nothing, dout)


def _select_v2_shape(c: ShapeContext) -> Shape:
    values = shape_rules.broadcast(c.shape("t"), c.shape("e"))
    return shape_rules.broadcast(values, c.shape("condition"))


@op(
    "SelectV2",
    inputs="condition: bool; t: T; e: T",
    outputs="output: T",
    attrs="T: type",
    shape=_select_v2_shape,
    traits={NEVER_FAILS, PER_RECORD, ELEMENTWISE},
)
def select_v2(xp: Any, condition: Any, t: Any, e: Any) -> Any:
    """t where condition holds, e elsewhere.  Raises InvalidArgument unless all three broadcast.

    Source: TF 2.3 core/kernels/cwise_op_select.cc
    """
    return _where(condition, t, e) if xp is np else xp.where(condition, t, e)


@select_v2.gradient
def _(op: Operation, dout: Any) -> tuple[Any, Any, Any]:
    condition, x, y = op.inputs
    nothing = constant(0, dout.dtype.base_dtype, name="zeros")
    dx, dy = select_v2(condition, dout, nothing), select_v2(condition, nothing, dout)
    return None, _summed_to(x, op.outputs[0], dx), _summed_to(y, op.outputs[0], dy)


def _summed_to(x: Tensor, whole: Tensor, gradient: Tensor) -> Tensor:
    """`gradient`, of the shape of `whole`, summed to that of x."""
    shape_x, shape_whole = shape(x), shape(whole)
    known = static_axes(x.raw_shape, whole.raw_shape)
    if known is not None:
        axes: Any = list(known[0])
        if not axes and len(x.raw_shape or ()) == len(whole.raw_shape or ()):
            return gradient
    else:
        axes = broadcast_gradient_args(shape_x, shape_whole)[0]
    summed: Tensor = make.Reshape(make.Sum(gradient, axes, keep_dims=True), shape_x)
    return summed


@of_ragged_by("headrace.ops.array.ragged_taking")
def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where condition holds, y elsewhere, all broadcast; without x and y, where it holds.

    Raises ValueError if only one of x and y is given.
    """
    if (x is None) != (y is None):
        raise ValueError("x and y must both be given, or neither")
    chosen: Tensor
    if x is None:
        chosen = make.Where(condition, name=name)
    else:
        chosen = select_v2(condition, x, y, name=name)
    return chosen
