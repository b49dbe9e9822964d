"""tf.tensordot: a product of tensors summed over chosen axes, as one matrix product.

Called by: users.  Threads: as graph.
Source: TF 1.15 python/ops/math_ops.py (what it computes); GraphDefs as 2.21
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import text
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.ranges import range as arange
from headrace.ops.array.shapes import rank, shape, transpose
from headrace.ops.linalg.products import matmul
from headrace.ops.math.reductions import reduce_prod
from headrace.ops.tables import make

__all__ = ["tensordot"]

Sizes = list[int] | Tensor


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Σ over pairs of axes of a and b; the remaining axes of a, then of b, are left.

    axes: a number n (the last n axes of a, the first n of b), or [axes of a, axes of b].
    Raises ValueError if the axes do not fit.
    """
    with name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a = convert(a, name="a")
        b = convert(b, name="b")
        axes_a, axes_b = _paired(a, axes)
        rows, free_a, static_a = _as_matrix(a, axes_a, summed_last=True)
        columns, free_b, static_b = _as_matrix(b, axes_b, summed_last=False)
        product = matmul(rows, columns)
        if isinstance(free_a, list) and isinstance(free_b, list):
            sizes = free_a + free_b
            if product.raw_shape == tuple(sizes):
                return product
            made: Tensor = make.Reshape(product, sizes, name=scope)
            return made
        parts = [_as_tensor(free) for free in (free_a, free_b)]
        made = make.Reshape(product, make.ConcatV2(parts, 0, name="concat"), name=scope)
        if static_a is not None and static_b is not None:
            made.set_shape(static_a + static_b)
        return made


def _as_tensor(sizes: Sizes) -> Tensor:
    return constant(np.array(sizes, np.int32)) if isinstance(sizes, list) else sizes


def _paired(a: Tensor, axes: Any) -> tuple[Any, Any]:
    """The axes of a and those of b, as lists or int32 tensors."""
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if count < 0:
            raise ValueError(f"`axes` must be at least 0, not {count}")
        if a.raw_shape is None:
            whole = rank(a)
            return arange(make.Sub(whole, count, name="sub"), whole), arange(count)
        if count > len(a.raw_shape):
            raise ValueError(
                f"`axes` must not be larger than the number of dimensions of tensor {a}: axes is {count}"
            )
        return list(range(len(a.raw_shape) - count, len(a.raw_shape))), list(range(count))
    if isinstance(axes, Tensor):
        axes = convert(axes, dtypes.int32)
        return axes[0], axes[1]
    if len(axes) != 2:
        raise ValueError(
            f"`axes` must be an integer or have length 2 (two lists of axes), not {axes!r}"
        )
    pair = [[int(v) for v in np.atleast_1d(np.asarray(side))] for side in axes]
    if len(pair[0]) != len(pair[1]):
        raise ValueError(
            f"Different number of contraction axes `a` and `b`, {len(pair[0])} != {len(pair[1])}: "
            f"{pair[0]} and {pair[1]}"
        )
    return pair[0], pair[1]


def _as_matrix(x: Tensor, axes: Any, *, summed_last: bool) -> tuple[Tensor, Sizes, Any]:
    """x as a matrix: free axes by summed ones, or the other way round; the free sizes; what is known of them."""
    raw = x.raw_shape
    if raw is None or isinstance(axes, Tensor):
        return _as_dynamic_matrix(x, axes, summed_last)
    if any(not -len(raw) <= axis < len(raw) for axis in axes):
        raise ValueError(f"axes {axes} do not fit shape {text(raw)}")
    axes = [axis % len(raw) for axis in axes]
    free = [axis for axis in range(len(raw)) if axis not in axes]
    order = free + axes if summed_last else axes + free
    static = tuple(raw[axis] for axis in free)
    if None in raw:
        return _as_partly_known_matrix(x, free, axes, order, summed_last, static)
    free_sizes = [int(raw[axis]) for axis in free]  # type: ignore[arg-type]
    sizes = [math.prod(free_sizes), math.prod(int(raw[axis]) for axis in axes)]
    if not summed_last:
        sizes.reverse()
    matrix = x if order == list(range(len(raw))) else transpose(x, order)
    if matrix.raw_shape != tuple(sizes):
        matrix = make.Reshape(matrix, np.array(sizes, np.int32))
    return matrix, free_sizes, static


def _as_partly_known_matrix(
    x: Tensor, free: list[int], axes: list[int], order: list[int], summed_last: bool, static: Any
) -> tuple[Tensor, Tensor, Any]:
    summed = constant(np.array(axes, np.int32), name="axes")
    kept = constant(np.array(free, np.int32), name="free")
    matrix, sizes = _gathered(x, kept, summed, summed_last)
    return matrix, sizes, static


def _as_dynamic_matrix(x: Tensor, axes: Any, summed_last: bool) -> tuple[Tensor, Tensor, Any]:
    sizes = shape(x)
    count = rank(x)
    axes = convert(axes, dtypes.int32, name="axes")
    counted = make.Select(make.GreaterEqual(axes, 0), axes, make.AddV2(axes, count, name="add"))
    free = make.ListDiff(arange(0, count), counted)[0]
    matrix, free_sizes = _gathered(x, free, counted, summed_last, sizes)
    return matrix, free_sizes, None


def _gathered(
    x: Tensor, free: Tensor, axes: Tensor, summed_last: bool, sizes: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    sizes = shape(x) if sizes is None else sizes
    free_sizes = make.GatherV2(sizes, free, 0)
    summed_sizes = make.GatherV2(sizes, axes, 0)
    counts = [reduce_prod(free_sizes), reduce_prod(summed_sizes)]
    order = [free, axes]
    if not summed_last:
        counts.reverse()
        order.reverse()
    permutation = make.ConcatV2(order, 0, name="concat")
    shape_of_matrix = make.Pack(counts, name="stack")
    return make.Reshape(transpose(x, permutation), shape_of_matrix), free_sizes
