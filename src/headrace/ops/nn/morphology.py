"""Gray-scale dilation and erosion, and the gradients.

Called by: programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/dilation_ops.cc); gradient nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import SHARES
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.dilating import Dilation, is_for
from headrace.ops._kernels.windows import Geometry, check_gradient, geometry, static_out
from headrace.ops.array.padding import reverse
from headrace.ops.math.arithmetic import negative

__all__ = ["dilation2d", "erosion2d"]

Array = np.ndarray[Any, Any]
_ATTRS = (
    "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}; "
    "strides: list(int) >= 4; rates: list(int) >= 4; padding: {'SAME', 'VALID'}"
)


def _dilated_shape(c: ShapeContext) -> Shape:
    x, window = c.with_rank("input", 4), c.with_rank("filter", 3)
    assert x is not None
    assert window is not None
    for name in ("strides", "rates"):
        if len(c.attr(name)) != 4:
            raise ValueError(f"{name} must have 4 entries, and is {list(c.attr(name))}")
    if None not in (x[3], window[2]) and x[3] != window[2]:
        raise ValueError(
            f"Dimensions must be equal, but are {x[3]} and {window[2]}: the channels of input and filter"
        )
    if None in window[:2]:
        return (x[0], None, None, x[3] if x[3] is not None else window[2])
    sides = tuple(int(side) for side in window[:2] if side is not None)
    out = static_out(x[1:3], sides, c.attr("strides"), c.attr("padding"), b"NHWC", c.attr("rates"))
    if None in out:
        out = (None, None)
    return (x[0], *out, x[3] if x[3] is not None else window[2])


def _where(
    x: Array, window: Array, strides: Sequence[int], rates: Sequence[int], padding: bytes
) -> Geometry:
    for name, values in (("strides", strides), ("rates", rates)):
        if len(values) != 4:
            what = "Sliding window stride" if name == "strides" else "Dilation rates"
            raise errors.invalid_argument(
                f"{what} field must specify 4 dimensions: {name} is {list(values)}"
            )
        if values[0] != 1 or values[3] != 1:
            raise errors.unimplemented(
                f"Stride and rates in batch and depth must be 1: {name} is {list(values)}"
            )
        if min(values) < 1:
            raise errors.invalid_argument(f"{name} must be positive: {list(values)}")
    if x.ndim != 4:
        raise errors.invalid_argument(f"input must be 4-dimensional: {text(x.shape)}")
    if window.ndim != 3:
        raise errors.invalid_argument(f"filter must be 3-dimensional: {text(window.shape)}")
    if window.shape[2] != x.shape[3]:
        raise errors.invalid_argument(
            f"input and filter must have the same depth: {text(x.shape)} and {text(window.shape)}"
        )
    if 0 in window.shape[:2]:
        raise errors.invalid_argument(f"filter must have rows and columns: {text(window.shape)}")
    return geometry(x.shape[1:3], window.shape[:2], strides, padding, b"NHWC", rates)


def _largest(x: Array, window: Array, where: Geometry) -> tuple[Array, Array]:
    """The largest sums, and at which position of the window each is, the first of several."""
    kind = x.dtype
    limits: Any = np.iinfo if kind.kind in "iu" else ml_dtypes.finfo
    lowest = limits(kind).min
    padded, inside = where.padded(x, lowest), where.padded(np.ones((*x.shape[:3], 1), bool), False)
    shape = (len(x), *where.out, x.shape[3])
    best = np.full(shape, lowest, kind)
    at = np.full(shape, -1, np.int64)
    for number, (place, view) in enumerate(where.positions()):
        sums = padded[view] + window[place]
        better = (sums > best) & inside[view]
        np.copyto(best, sums, where=better)
        at[better] = number
    return best, at


@op(
    "Dilation2D",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=_dilated_shape,
    traits={SHARES},
)
def dilation2d_op(
    xp: Any, input: Array, filter: Array, *, strides: list[int], rates: list[int], padding: bytes
) -> Array:
    """The largest of input [n, h, w, c] + filter [kh, kw, c] under each window: [n, h', w', c].

    Raises InvalidArgument, Unimplemented.
    """
    where = _where(input, filter, strides, rates, padding)
    if is_for(input.dtype):
        return Dilation(input, filter, where).largest()
    return _largest(input, filter, where)[0]


@op(
    "Dilation2DBackpropInput",
    inputs="input: T; filter: T; out_backprop: T",
    outputs="in_backprop: T",
    attrs=_ATTRS,
    shape=lambda c: c.shape("input"),
    traits={SHARES},
)
def dilation2d_backprop_input(
    xp: Any,
    input: Array,
    filter: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    rates: list[int],
    padding: bytes,
) -> Array:
    """The gradient of Dilation2D with respect to its input.  Raises as Dilation2D."""
    where = _where(input, filter, strides, rates, padding)
    check_gradient(out_backprop, where, len(input), input.shape[3])
    if is_for(input.dtype):
        return Dilation(input, filter, where).to_input(np.ascontiguousarray(out_backprop))
    _, at = _largest(input, filter, where)
    total = where.padded(np.zeros_like(input))
    total = total.copy() if total is input or not total.flags.owndata else total
    for number, (_, view) in enumerate(where.positions()):
        total[view] += np.where(at == number, out_backprop, 0).astype(input.dtype)
    made: Array = np.ascontiguousarray(where.inside(total))
    return made


@op(
    "Dilation2DBackpropFilter",
    inputs="input: T; filter: T; out_backprop: T",
    outputs="filter_backprop: T",
    attrs=_ATTRS,
    shape=lambda c: c.shape("filter"),
    traits={SHARES},
)
def dilation2d_backprop_filter(
    xp: Any,
    input: Array,
    filter: Array,
    out_backprop: Array,
    *,
    strides: list[int],
    rates: list[int],
    padding: bytes,
) -> Array:
    """The gradient of Dilation2D with respect to its filter.  Raises as Dilation2D."""
    where = _where(input, filter, strides, rates, padding)
    check_gradient(out_backprop, where, len(input), input.shape[3])
    if is_for(input.dtype):
        return Dilation(input, filter, where).to_window(np.ascontiguousarray(out_backprop))
    _, at = _largest(input, filter, where)
    made = np.zeros_like(filter)
    for number, (place, _) in enumerate(where.positions()):
        made[place] = np.where(at == number, out_backprop, 0).sum(
            axis=(0, 1, 2), dtype=filter.dtype
        )
    return made


@dilation2d_op.gradient
def _(op: Operation, dout: Any) -> Any:
    attrs: dict[str, Any] = {name: op.get_attr(name) for name in ("strides", "rates", "padding")}
    return [
        dilation2d_backprop_input(op.inputs[0], op.inputs[1], dout, **attrs),
        dilation2d_backprop_filter(op.inputs[0], op.inputs[1], dout, **attrs),
    ]


def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The largest of input [n, h, w, c] + filter [kh, kw, c] under each window: [n, h', w', c].

    strides: how far windows are apart.  rates (or dilations): how far the pixels of one are apart.
    """
    made: Tensor = dilation2d_op(
        input,
        filter if filters is None else filters,
        strides=strides,
        rates=rates if dilations is None else dilations,
        padding=padding,
        name=name,
    )
    return made


def erosion2d(
    value: Any, kernel: Any, strides: Any, rates: Any, padding: Any, name: str | None = None
) -> Tensor:
    """The least of value [n, h, w, c] - kernel [kh, kw, c], turned round, under each window: [n, h', w', c]."""
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        turned = reverse(kernel, [0, 1])
        grown = dilation2d_op(
            negative(value), turned, strides=strides, rates=rates, padding=padding, name=scope
        )
        made: Tensor = negative(grown)
        return made
