"""Clipping: by value, by the norm of one tensor, by the norm of many together.

Called by: optimizers' users, casting.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 python/ops/clip_ops.py, core/kernels/cwise_op_clip.cc; GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape
from headrace.base.traits import PER_RECORD
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import colocate_with, name_scope
from headrace.graph.ragged import of_ragged
from headrace.graph.registry import op
from headrace.graph.shape_fns import same_as
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, ones_like, zeros
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import range as arange
from headrace.ops.array.shapes import rank, shape, size
from headrace.ops.flow.identities import identity
from headrace.ops.math.arithmetic import maximum, minimum, mul, truediv
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import greater, less, logical_or, select
from headrace.ops.math.elementwise import rsqrt, sqrt
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import ALL_NUMBERS, make

__all__ = [
    "clip_by_average_norm",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
    "scalar_mul",
]


@op(
    "ClipByValue",
    inputs="t: T; clip_value_min: T; clip_value_max: T",
    outputs="output: T",
    attrs=f"T: {{{ALL_NUMBERS}}}",
    shape=same_as("t"),
    traits={PER_RECORD},
)
def clip_by_value_op(xp: Any, t: Any, clip_value_min: Any, clip_value_max: Any) -> Any:
    """t, but not below the minimum nor above the maximum; these are scalars or of t's shape.

    Where the minimum is above the maximum it is what stands.

    Raises InvalidArgument for other shapes.
    Source: TF 1.15 core/kernels/cwise_op_clip.cc
    """
    for name, bound in (("clip_value_min", clip_value_min), ("clip_value_max", clip_value_max)):
        if bound.shape not in ((), t.shape):
            raise errors.invalid_argument(
                f"{name} must be a scalar or have the shape of t, {list(t.shape)}, but has {list(bound.shape)}"
            )
    return xp.maximum(xp.minimum(t, clip_value_max), clip_value_min)


@clip_by_value_op.gradient
def _(op: Operation, dout: Any) -> tuple[Tensor, Tensor, Tensor]:
    t, low, high = op.inputs
    shape_t, shape_low, shape_high = shape(t), shape(low), shape(high)
    nothing = zeros(shape(dout), dout.dtype.base_dtype)
    below, above = less(t, low), greater(t, high)
    axes_low = broadcast_gradient_args(shape_t, shape_low)[1]
    axes_high = broadcast_gradient_args(shape_t, shape_high)[1]
    return (
        select(logical_or(below, above), nothing, dout),
        make.Reshape(make.Sum(select(below, dout, nothing), axes_low), shape_low),
        make.Reshape(make.Sum(select(above, dout, nothing), axes_high), shape_high),
    )


def _values(t: Any, name: str) -> Tensor:
    return t.values if isinstance(t, IndexedSlices) else convert(t, name=name)


def _like(t: Any, values: Tensor) -> Any:
    return (
        IndexedSlices(values, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else values
    )


@of_ragged
def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """t, but not below the minimum nor above the maximum; they may broadcast into t, not enlarge it.

    An IndexedSlices has its values clipped.  Raises ValueError if the bounds enlarge t.
    """
    with name_scope(name, "clip_by_value", [t, clip_value_min, clip_value_max]) as scope:
        values = _values(t, "t")
        capped = minimum(values, clip_value_max)
        _check_not_enlarged(values, capped)
        clipped = maximum(capped, clip_value_min, name=scope)
        _check_not_enlarged(values, clipped)
        return _like(t, clipped)


def _check_not_enlarged(values: Tensor, clipped: Tensor) -> None:
    wanted: Shape = values.raw_shape
    if not shape_rules.compatible(wanted, clipped.raw_shape):
        raise ValueError(
            f"the bounds enlarge t from {shape_rules.text(wanted)} to {shape_rules.text(clipped.raw_shape)}"
        )


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """t scaled down so that its Euclidean norm (along `axes`) is at most `clip_norm`, or 0 if that is below.

    An IndexedSlices has its values clipped.
    """
    with name_scope(name, "clip_by_norm", [t, clip_norm]) as scope:
        values = _values(t, "t")
        if isinstance(clip_norm, (int, float, np.number)):
            clip_norm = max(clip_norm, 0)
        else:
            clip_norm = cast(maximum(clip_norm, 0), values.dtype.base_dtype)
        squares = reduce_sum(mul(values, values, name="mul"), axes, True)
        positive = greater(squares, 0)
        # The root of 0 has no gradient, so it is taken of 1 there.
        root = sqrt(select(positive, squares, ones_like(squares)))
        norm = select(positive, root, squares)
        scaled = mul(values, _operand(clip_norm, values, "mul_1/y"), name="mul")
        clipped = truediv(scaled, maximum(norm, clip_norm))
        if not shape_rules.compatible(values.raw_shape, clipped.raw_shape):
            raise ValueError(
                f"clip_norm enlarges t from {shape_rules.text(values.raw_shape)} "
                f"to {shape_rules.text(clipped.raw_shape)}"
            )
        return _like(t, identity(clipped, name=scope))


def _operand(value: Any, like: Tensor, name: str) -> Tensor:
    """`value` as the operand of an operator, of the type of `like`."""
    return value if isinstance(value, Tensor) else convert(value, like.dtype.base_dtype, name)


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """t scaled down so that its Euclidean norm over its number of elements is at most `clip_norm`."""
    with name_scope(name, "clip_by_average_norm", [t, clip_norm]) as scope:
        t = convert(t, name="t")
        kind = t.dtype.base_dtype
        count = cast(size(t), kind)
        inverse = mul(
            rsqrt(reduce_sum(mul(t, t, name="mul"), arange(0, rank(t)))), count, name="mul_2"
        )
        scaled = mul(t, _operand(clip_norm, t, "mul_1/y"), name="mul_1")
        limit = truediv(constant(1.0, kind), _operand(clip_norm, t, "truediv/y"))
        clipped: Tensor = identity(mul(scaled, minimum(inverse, limit), name="mul_3"), name=scope)
        return clipped


def _check_list(t_list: Any) -> None:
    if isinstance(t_list, (str, Tensor)) or not isinstance(t_list, Sequence):
        raise TypeError(f"`t_list` should be a sequence of tensors, not {t_list!r:.80}")


def _converted(t_list: Any) -> list[Any]:
    """Tensors, IndexedSlices and None in the place of what was given."""
    _check_list(t_list)
    return [
        item if item is None or isinstance(item, IndexedSlices) else convert(item, name=f"t_{i}")
        for i, item in enumerate(t_list)
    ]


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """The Euclidean norm of all elements of all tensors; None among them is left out.

    Raises TypeError if t_list is no sequence.
    """
    with name_scope(name, "global_norm", [item for item in _sequence(t_list) if item is not None]):
        parts = []
        for item in _converted(t_list):
            if item is not None:
                values = item.values if isinstance(item, IndexedSlices) else item
                with colocate_with(values):
                    parts.append(make.L2Loss(values))
        halves = reduce_sum(
            stack(parts) if parts else constant(np.zeros(0, np.float32), name="stack")
        )
        twice = mul(halves, constant(2, halves.dtype.base_dtype), name="mul")
        norm: Tensor = sqrt(twice, name="global_norm")
        return norm


def _sequence(t_list: Any) -> Any:
    return t_list if isinstance(t_list, (list, tuple)) else []


def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """All tensors scaled by clip_norm / max(global norm, clip_norm), and that global norm.

    use_norm: the global norm if it is known already.  None stays None.  An infinite or NaN norm
    makes all NaN.  Raises TypeError if t_list is no sequence.
    """
    _check_list(t_list)
    norm = global_norm(t_list, name) if use_norm is None else convert(use_norm)
    given = [*(item for item in t_list if item is not None), clip_norm]
    with name_scope(name, "clip_by_global_norm", given) as scope:
        inverse = truediv(constant(1.0, norm.dtype.base_dtype, name="truediv/x"), norm)
        kind = norm.dtype.base_dtype
        limit = truediv(constant(1.0, kind), _operand(clip_norm, norm, "truediv_1/y"))
        smaller = minimum(inverse, limit)
        factor = mul(_operand(clip_norm, norm, "mul/x"), smaller, name="mul")
        # Adds 0, or NaN if the norm is not finite, so that bad gradients show.
        factor = make.AddV2(factor, make.Sub(norm, norm, name="sub"), name="add")
        clipped: list[Any] = []
        for index, item in enumerate(_converted(t_list)):
            clipped.append(None if item is None else _scaled(item, factor, f"{scope}_{index}"))
    return clipped, norm


def _scaled(item: Any, factor: Tensor, name: str) -> Any:
    values = item.values if isinstance(item, IndexedSlices) else item
    with colocate_with(values):
        scaled = mul(values, cast(factor, values.dtype.base_dtype), name="mul")
        return _like(item, identity(scaled, name=name))


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """scalar · x; an IndexedSlices has its values multiplied.

    Raises ValueError if scalar is known to be no scalar.
    """
    kind = (
        x.dtype.base_dtype
        if isinstance(x, (Tensor, IndexedSlices))
        else convert(x).dtype.base_dtype
    )
    scalar = convert(scalar, kind, name="scalar")
    if scalar.raw_shape != ():
        raise ValueError(
            f"The input scalar must be a 0-D value. Received shape {scalar.shape}: set_shape([]) says that it is one"
        )
    if isinstance(x, IndexedSlices):
        return IndexedSlices(mul(scalar, x.values, name=name), x.indices, x.dense_shape)
    return mul(scalar, x, name=name)
