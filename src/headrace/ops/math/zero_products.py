"""Products and quotients that are 0 where x is, whatever the other factor: x·log y, x·log(1 + y), x / y.

Called by: users.  Threads: kernels any; gradients as graph.
Source: TF 1.15 core/kernels/cwise_op_xlogy.cc, cwise_op_xdivy.cc; gradient nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.registry import Gradient, OpSpec, op
from headrace.graph.shape_fns import broadcast
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.shapes import shape
from headrace.ops.math.arithmetic import add_v2, mul, neg
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import cast
from headrace.ops.tables import FLOATS_AND_COMPLEXES, make, type_attr

__all__ = ["xdivy", "xlog1py", "xlogy"]


def _zero_where_x_is(name: str, function: Callable[[Any, Any, Any], Any]) -> OpSpec:
    def kernel(xp: Any, x: Any, y: Any) -> Any:
        return xp.where(x == 0, np.zeros((), x.dtype), function(xp, x, y))

    kernel.__doc__ = f"{function.__doc__}  Raises InvalidArgument if shapes do not broadcast."
    return op(
        name,
        inputs="x: T; y: T",
        outputs="z: T",
        attrs=type_attr(FLOATS_AND_COMPLEXES),
        shape=broadcast,
    )(kernel)


def _x_log_y(xp: Any, x: Any, y: Any) -> Any:
    """x · log(y), and 0 where x is 0."""
    return x * xp.log(y)


def _x_log1p_y(xp: Any, x: Any, y: Any) -> Any:
    """x · log(1 + y), and 0 where x is 0."""
    return x * xp.log1p(y)


def _x_over_y(xp: Any, x: Any, y: Any) -> Any:
    """x / y, and 0 where x is 0."""
    return x / y


xlogy = _zero_where_x_is("Xlogy", _x_log_y)
xlog1py_op = _zero_where_x_is("Xlog1py", _x_log1p_y)
xdivy_op = _zero_where_x_is("Xdivy", _x_over_y)


def xlog1py(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x · log(1 + y), and 0 where x is 0."""
    with name_scope(name, "xlog1py", [x]):
        made: Tensor = xlog1py_op(x, y)
        return made


def xdivy(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x / y, and 0 where x is 0."""
    with name_scope(name, "xdivy", [x]):
        made: Tensor = xdivy_op(x, y)
        return made


Partials = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def _partials(function: Partials) -> Gradient:
    """The gradient from `function`(1 where x is not 0 and else 0, x, y): both partial derivatives."""

    def gradient(op: Operation, dout: Any) -> tuple[Any, Any]:
        x, y = op.inputs
        kind = x.dtype.base_dtype
        shape_x, shape_y = shape(x), shape(y)
        axes_x, axes_y = broadcast_gradient_args(shape_x, shape_y)
        with control_dependencies([dout]):
            nonzero = cast(make.NotEqual(x, cast(0.0, kind)), kind)
            dx, dy = function(nonzero, x, y)
            return (
                make.Reshape(make.Sum(mul(dx, dout, name="mul"), axes_x), shape_x),
                make.Reshape(make.Sum(mul(dy, dout, name="mul"), axes_y), shape_y),
            )

    return gradient


def _xlogy_partials(nonzero: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return xlogy(nonzero, y), xdivy_op(x, y)


def _xlog1py_partials(nonzero: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    dx = xlog1py_op(nonzero, y)
    one = constant(1, y.dtype.base_dtype, name="add/y")
    return dx, xdivy_op(x, add_v2(y, one, name="add"))


def _xdivy_partials(nonzero: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    dx = xdivy_op(nonzero, y)
    minus_x = neg(x)
    two = constant(2, y.dtype.base_dtype, name="pow/y")
    return dx, xdivy_op(minus_x, make.Pow(y, two, name="pow"))


xlogy.gradient(_partials(_xlogy_partials))
xlog1py_op.gradient(_partials(_xlog1py_partials))
xdivy_op.gradient(_partials(_xdivy_partials))
