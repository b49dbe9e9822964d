"""What changes rows of a tensor, or a slice of it, and fresh memory: values of a step, never variables.

Called by: programs (as raw ops, tf.manip's and contrib's kin).  Threads: kernels any.
Source: TF 1.15 core/ops/array_ops.cc; behaviour as 2.21, in whose graphs an input may change, too: here it does not
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import text
from headrace.base.traits import NEVER_FOLDED, STATEFUL
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, unchanged
from headrace.ops.array.constants import checked_sizes, zeros_like
from headrace.ops.array.slicing import _mask_attrs, _part, strided_slice_op
from headrace.ops.math.broadcasting import unbroadcast

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_MASKS = (
    "begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: int = 0; "
    "shrink_axis_mask: int = 0"
)


def _rows(name: str, what: str, change: Callable[[Array, Array, Array], object]) -> None:
    """Register Inplace… that does change(y, rows, v)."""

    def kernel(xp: Any, x: Array, i: Array, v: Array) -> Any:
        if not x.ndim or i.ndim != 1 or v.shape != (*i.shape, *x.shape[1:]):
            raise errors.invalid_argument(
                f"i must be a vector and v have a row of x for each of it: x is {text(x.shape)}, i {text(i.shape)}, "
                f"v {text(v.shape)}"
            )
        if i.size and not len(x):
            raise errors.invalid_argument(f"x has no rows, and {i.size} of them are to change")
        if change is not _put and v.size and x.dtype.kind in "Ob":
            raise errors.invalid_argument(f"Unsupported data type: {name} needs numbers")
        y = x.copy()
        change(y, i % len(x) if len(x) else i, v)
        return y

    kernel.__doc__ = f"""x [n, ...] with {what} v [k, ...] in its rows i [k], counted around where there are fewer.

    Raises InvalidArgument if shapes do not fit, or what is added is no number.
    """
    op(
        name,
        inputs="x: T; i: int32; v: T",
        outputs="y: T",
        attrs="T: type",
        shape=unchanged,
    )(kernel)


def _put(y: Array, rows: Array, v: Array) -> None:
    for row, value in zip(rows.tolist(), v, strict=True):  # the last one of equal rows stays
        y[row] = value


_rows("InplaceUpdate", "the values", _put)
_rows("InplaceAdd", "added to it", np.add.at)
_rows("InplaceSub", "taken from it", np.subtract.at)


@op(
    "DeepCopy",
    inputs="x: T",
    outputs="y: T",
    attrs="T: type",
    shape=unchanged,
    traits={STATEFUL},
)
def deep_copy_op(xp: Any, x: Array) -> Any:
    """x in memory of its own."""
    return np.array(x)


@op(
    "Empty",
    inputs="shape: int32",
    outputs="output: dtype",
    attrs="dtype: type; init: bool = false",
    shape=lambda c: c.shape_value("shape"),
    traits={STATEFUL},
    differentiable=False,
)
def empty_op(xp: Any, shape: Array, *, dtype: DType) -> Any:
    """Zeros of that shape, whatever init says.  Raises InvalidArgument (not a vector of sizes)."""
    made = np.zeros(checked_sizes(shape, "shape"), dtype.np)
    if dtype.np.kind == "O":
        made[...] = b""
    return made


def _updated_shape(c: ShapeContext) -> Any:
    return c.shape("input")


@op(
    "TensorStridedSliceUpdate",
    inputs="input: T; begin: Index; end: Index; strides: Index; value: T",
    outputs="output: T",
    attrs=f"T: type; Index: {{int32, int64}}; {_MASKS}",
    shape=_updated_shape,
    traits={NEVER_FOLDED},
)
def tensor_strided_slice_update_op(
    xp: Any,
    input: Array,
    begin: Array,
    end: Array,
    strides: Array,
    value: Array,
    *,
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Any:
    """input with `value` in the place of the slice.  Raises InvalidArgument if that does not broadcast to it."""
    whole = np.array(input)
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    part = _part(whole, begin, end, strides, masks)
    try:
        part[...] = value
    except ValueError:
        raise errors.invalid_argument(
            f"Cannot broadcast input shape {text(np.shape(value))} into final shape {text(part.shape)}: that is the "
            "shape of the slice"
        ) from None
    return whole


@tensor_strided_slice_update_op.gradient
def _(op: Operation, dout: Any) -> Any:
    _, begin, end, strides, value = op.inputs
    attrs = _mask_attrs(op)
    to_value = strided_slice_op(dout, begin, end, strides, **attrs)
    rest = tensor_strided_slice_update_op(dout, begin, end, strides, zeros_like(value), **attrs)
    to_value, _ = unbroadcast(value, to_value, to_value, None)
    return rest, None, None, None, to_value
