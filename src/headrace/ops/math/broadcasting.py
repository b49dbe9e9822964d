"""Broadcasting in reverse: the gradient of an input that was stretched is summed along the stretch.

Called by: gradients of elementwise ops of two inputs.  Threads: as graph.
Source: TF 1.15 core/util/bcast.h (axes); the nodes are those that 2.21 makes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape
from headrace.base.traits import NEVER_FAILS, OF_COUNTS
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import shape
from headrace.ops.tables import make

Axes = tuple[int, ...]


def _gradient_args_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("s0", 1)
    c.with_rank("s1", 1)
    return [(None,), (None,)]


@op(
    "BroadcastGradientArgs",
    inputs="s0: T; s1: T",
    outputs="r0: T; r1: T",
    attrs="T: {int32, int64} = int32",
    shape=_gradient_args_shape,
    traits={NEVER_FAILS, OF_COUNTS},
    differentiable=False,
)
def broadcast_gradient_args(xp: Any, s0: Any, s1: Any) -> tuple[Any, Any]:
    """The axes along which two inputs of shapes s0 and s1 are stretched to a common shape.

    s0 [m], s1 [n]: shapes.  r0, r1: axes to sum the gradients of either input along; an axis of
    size 1 in both is in both, unless the shapes are equal.
    Raises InvalidArgument if the shapes do not broadcast.
    Source: TF 1.15 core/kernels/bcast_ops.cc
    """
    if np.ndim(s0) != 1 or np.ndim(s1) != 1:
        raise errors.invalid_argument(
            f"s0 and s1 must be vectors, but have shapes {np.shape(s0)} and {np.shape(s1)}"
        )
    first, second = s0.tolist(), s1.tolist()
    if first == second:
        return np.empty(0, s0.dtype), np.empty(0, s0.dtype)
    rank = max(len(first), len(second))
    reduced: tuple[list[int], list[int]] = [], []
    for axis, (m, n) in enumerate(zip(_padded(first, rank), _padded(second, rank), strict=True)):
        if m == 1:
            reduced[0].append(axis)
        if n == 1:
            reduced[1].append(axis)
        if m != n and m != 1 and n != 1:
            raise errors.invalid_argument(f"shapes {first} and {second} do not broadcast")
    return np.array(reduced[0], s0.dtype), np.array(reduced[1], s0.dtype)


def _padded(sizes: list[int], rank: int) -> list[int]:
    return [1] * (rank - len(sizes)) + sizes


def equal_and_known(*tensors: Any) -> bool:
    """Whether the static shapes of `tensors` are all known, and the same."""
    first = getattr(tensors[0], "raw_shape", None)
    if first is None or None in first:
        return False
    return all(getattr(tensor, "raw_shape", None) == first for tensor in tensors[1:])


def static_axes(x: Shape, y: Shape) -> tuple[Axes, Axes] | None:
    """The axes that `broadcast_gradient_args` will give, less those of size 1 in both.

    None while an unknown size decides.  A size of 1 against an unknown one counts as stretched.
    """
    if x is None or y is None:
        return None
    rank = max(len(x), len(y))
    reduced: tuple[list[int], list[int]] = [], []
    padding: Axes = (1,) * rank
    full_x, full_y = padding[len(x) :] + x, padding[len(y) :] + y
    for axis, (m, n) in enumerate(zip(full_x, full_y, strict=True)):
        if m == n and m is not None:
            continue
        if m == 1:
            reduced[0].append(axis)
        elif n == 1:
            reduced[1].append(axis)
        else:
            return None
    return tuple(reduced[0]), tuple(reduced[1])


def unbroadcast(x: Tensor, y: Tensor, dx: Any, dy: Any) -> tuple[Any, Any]:
    """Bring gradients of the broadcast shape back to the shapes of x and y; None stays None."""
    shape_x, shape_y = shape(x), shape(y)
    known = static_axes(x.raw_shape, y.raw_shape)
    if known is None:
        axes_x, axes_y = broadcast_gradient_args(shape_x, shape_y)
        return _summed(dx, axes_x, shape_x), _summed(dy, axes_y, shape_y)
    ranks = [len(tensor.raw_shape or ()) for tensor in (x, y)]
    if known[0] or ranks[0] < ranks[1]:
        dx = _summed(dx, list(known[0]), shape_x)
    if known[1] or ranks[1] < ranks[0]:
        dy = _summed(dy, list(known[1]), shape_y)
    return dx, dy


def _summed(gradient: Any, axes: Any, shape: Tensor) -> Any:
    if gradient is None:
        return None
    return make.Reshape(make.Sum(gradient, axes, keep_dims=True), shape)
