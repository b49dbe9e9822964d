"""Array kernels of reductions, and of what looks for the largest.

Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.ops._portable.table import arrays, check

Axes = tuple[int, ...]


def axes_of(indices: Any, rank: int) -> Axes:
    """Dimensions from 0 on.  Raises ValueError if there are none such, or twice."""
    axes = tuple([int(axis) + rank if axis < 0 else int(axis) for axis in np.ravel(indices)])
    check(len(set(axes)) == len(axes) and all(0 <= axis < rank for axis in axes))
    return axes


def _reduction(function: str) -> Callable[..., Any]:
    def kernel(xp: Any, input: Any, reduction_indices: Any, *, keep_dims: bool) -> Any:
        axes = axes_of(reduction_indices, input.ndim)
        if not axes:
            return xp.asarray(input, copy=True)
        if function in ("sum", "prod"):  # which widen by themselves
            return getattr(xp, function)(input, axis=axes, keepdims=keep_dims, dtype=input.dtype)
        return getattr(xp, function)(input, axis=axes, keepdims=keep_dims)

    return kernel


for _name, _function in (("Sum", "sum"), ("Prod", "prod"), ("All", "all"), ("Any", "any")):
    arrays(_name, host=(1,))(_reduction(_function))
for _name, _function in (("Mean", "mean"), ("Max", "max"), ("Min", "min")):
    arrays(_name, host=(1,), reals=True)(_reduction(_function))


@arrays("EuclideanNorm", host=(1,), reals=True)
def _norm(xp: Any, input: Any, reduction_indices: Any, *, keep_dims: bool) -> Any:
    axes, size = axes_of(reduction_indices, input.ndim), xp.abs(input)
    if axes:
        found = xp.sqrt(xp.sum(size * size, axis=axes, keepdims=keep_dims))
    else:
        found = xp.sqrt(size * size)
    return xp.astype(found, input.dtype)


def _place(function: str) -> Callable[..., Any]:
    def kernel(xp: Any, input: Any, dimension: Any, *, output_type: Any) -> Any:
        check(np.ndim(dimension) == 0)
        (axis,) = axes_of(dimension, input.ndim)
        found = getattr(xp, function)(input, axis=axis)
        return xp.astype(found, getattr(xp, output_type.base_dtype.name))

    return kernel


arrays("ArgMax", host=(1,), reals=True)(_place("argmax"))
arrays("ArgMin", host=(1,), reals=True)(_place("argmin"))


@arrays("Cumsum", host=(1,), reals=True)
def _cumsum(xp: Any, x: Any, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    check(np.ndim(axis) == 0)
    (along,) = axes_of(axis, x.ndim)
    given = xp.flip(x, axis=along) if reverse else x
    found = xp.cumulative_sum(given, axis=along)
    if exclusive and x.shape[along]:
        before = (slice(None),) * along
        parts = [xp.zeros_like(given[(*before, slice(0, 1))]), found[(*before, slice(0, -1))]]
        found = xp.concat(parts, axis=along)
    return xp.flip(found, axis=along) if reverse else found


@arrays("L2Loss", reals=True)
def _l2_loss(xp: Any, t: Any) -> Any:
    return xp.sum(xp.square(t)) * 0.5


@arrays("BiasAddGrad")
def _bias_add_grad(xp: Any, out_backprop: Any, *, data_format: bytes = b"NHWC") -> Any:
    check(out_backprop.ndim >= 2)
    channels = 1 if data_format == b"NCHW" else out_backprop.ndim - 1
    axes = tuple([axis for axis in range(out_backprop.ndim) if axis != channels])
    return xp.sum(out_backprop, axis=axes, dtype=out_backprop.dtype)
