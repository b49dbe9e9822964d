"""Array kernels of sparse tensors, and of rows that are chosen and joined: what has as many elements as it is given.

Called by: ops._portable.table.  Threads: any.
Source: as ops.sparse
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._portable.reductions import axes_of
from headrace.ops._portable.scattering import (
    lines_of,
    neutral,
    put_lines,
    reduced_lines,
    require_different,
    sum_of_lines,
)
from headrace.ops._portable.shapes import taken
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops.math.segments import checked_ids


def _sizes(shape: Any) -> tuple[int, ...]:
    """Of a shape that the host has."""
    check(np.ndim(shape) == 1)
    sizes = tuple([int(size) for size in shape])
    check(min(sizes, default=0) > 0)
    return sizes


def _lines(xp: Any, indices: Any, values: Any, sizes: tuple[int, ...]) -> Any:
    """[n]: places of elements in the dense tensor, in row-major order."""
    check(indices.ndim == 2 and indices.shape == (*values.shape, len(sizes)))
    check(indices.shape[0] > 0)
    return lines_of(xp, indices, sizes)


# -- with dense tensors -----------------------------------------------------------------------------------------------


@arrays("SparseToDense", host=(1,))
def _dense(
    xp: Any,
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any,
    *,
    validate_indices: bool,
) -> Any:
    sizes = _sizes(output_shape)
    check(sparse_indices.ndim <= 2 and default_value.ndim == 0)
    count = sparse_indices.shape[0] if sparse_indices.ndim else 1
    check(count > 0 and sparse_values.shape in ((), (count,)))
    width = sparse_indices.shape[1] if sparse_indices.ndim == 2 else 1
    check(width == len(sizes))
    lines = lines_of(xp, xp.reshape(sparse_indices, (count, width)), sizes)
    if validate_indices:
        require(xp, lines[1:] > lines[:-1], "not in order")
    else:
        require_different(xp, lines)
    whole = xp.broadcast_to(default_value, (math.prod(sizes), 1))
    rows = xp.reshape(xp.broadcast_to(sparse_values, (count,)), (count, 1))
    return xp.reshape(put_lines(xp, whole, lines, rows), sizes)


@arrays("SparseTensorDenseAdd", host=(2,))
def _plus_dense(xp: Any, indices: Any, values: Any, shape: Any, b: Any) -> Any:
    sizes = _sizes(shape)
    check(b.shape == sizes and xp.isdtype(b.dtype, ("real floating", "integral")))
    lines = _lines(xp, indices, values, sizes)
    whole = xp.reshape(b, (math.prod(sizes), 1))
    found = reduced_lines(xp, "add", whole, xp.expand_dims(values, axis=1), lines)
    return xp.reshape(found, sizes)


def _beside_dense(function: str) -> Callable[..., Any]:
    def kernel(xp: Any, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        sizes = _sizes(shape)
        _lines(xp, indices, values, sizes)
        own = dense.shape
        check(len(own) <= len(sizes) and math.prod(own) > 0)
        first = len(sizes) - len(own)
        check(all(size in (1, sizes[first + at]) for at, size in enumerate(own)))
        lines = xp.zeros(values.shape, dtype=indices.dtype, device=device_of(indices))
        for at, size in enumerate(own):
            lines = lines * size if size == 1 else lines * size + indices[:, first + at]
        return getattr(xp, function)(values, xp.take(xp.reshape(dense, (-1,)), lines, axis=0))

    return kernel


arrays("SparseDenseCwiseAdd", host=(2,))(_beside_dense("add"))
arrays("SparseDenseCwiseMul", host=(2,))(_beside_dense("multiply"))


@arrays("SparseDenseCwiseDiv", host=(2,))
def _over_dense(xp: Any, indices: Any, values: Any, shape: Any, dense: Any) -> Any:
    check(not xp.isdtype(values.dtype, "integral"))  # of which a divisor may be 0
    return _beside_dense("divide")(xp, indices, values, shape, dense)


# -- elements of rows -------------------------------------------------------------------------------------------------


@arrays("SparseSoftmax", host=(2,))
def _softmax(xp: Any, indices: Any, values: Any, shape: Any) -> Any:
    sizes = _sizes(shape)
    check(len(sizes) >= 2)
    _lines(xp, indices, values, sizes)
    rows, count = lines_of(xp, indices[:, :-1], sizes[:-1]), values.shape[0]
    begins = xp.astype(rows[1:] != rows[:-1], xp.int64)
    first = xp.zeros((1,), dtype=xp.int64, device=device_of(values))
    run = xp.concat([first, xp.cumulative_sum(begins)]) if count > 1 else first
    wide = xp.astype(values, xp.float32) if values.dtype not in (xp.float32, xp.float64) else values
    column = xp.expand_dims(wide, axis=1)
    least = xp.full(column.shape, -math.inf, dtype=wide.dtype, device=device_of(wide))
    tops = reduced_lines(xp, "maximum", least, column, run)
    powers = xp.exp(wide - xp.take(tops[:, 0], run, axis=0))
    sums = sum_of_lines(xp, xp.expand_dims(powers, axis=1), run, count)
    return xp.astype(powers / xp.take(sums[:, 0], run, axis=0), values.dtype)


@arrays("SparseReorder", host=(2,))
def _in_order(xp: Any, indices: Any, values: Any, shape: Any) -> tuple[Any, Any]:
    order = xp.argsort(_lines(xp, indices, values, _sizes(shape)), stable=True)
    return xp.take(indices, order, axis=0), xp.take(values, order, axis=0)


@arrays("SparseFillEmptyRowsGrad")
def _fill_grad(xp: Any, reverse_index_map: Any, grad_values: Any) -> tuple[Any, Any]:
    check(reverse_index_map.ndim == grad_values.ndim == 1)
    check(0 not in (*reverse_index_map.shape, *grad_values.shape))
    check(xp.isdtype(grad_values.dtype, ("real floating", "integral")))
    found = taken(xp, grad_values, reverse_index_map, 0)
    rest = xp.expand_dims(grad_values, axis=1)
    nothing = xp.zeros((reverse_index_map.shape[0], 1), dtype=rest.dtype, device=device_of(rest))
    left = put_lines(xp, rest, reverse_index_map, nothing)
    return found, xp.sum(left, dtype=grad_values.dtype)


# -- reductions -------------------------------------------------------------------------------------------------------


def _reduced(how: str) -> Callable[..., Any]:
    def kernel(
        xp: Any, indices: Any, values: Any, shape: Any, axes: Any, *, keep_dims: bool
    ) -> Any:
        sizes = _sizes(shape)
        check(np.ndim(axes) <= 1 and xp.isdtype(values.dtype, "real floating"))
        _lines(xp, indices, values, sizes)
        gone = {int(axis) % len(sizes) for axis in np.ravel(axes) if axes_of([axis], len(sizes))}
        lines = xp.zeros(values.shape, dtype=indices.dtype, device=device_of(indices))
        for at, size in enumerate(sizes):
            if at not in gone:
                lines = lines * size + indices[:, at]
        kept = [size for at, size in enumerate(sizes) if at not in gone]
        count, column = math.prod(kept), xp.expand_dims(values, axis=1)
        found = _of_lines(xp, how, column, lines, count)
        full = [1 if at in gone else size for at, size in enumerate(sizes)]
        return xp.reshape(found, tuple(full if keep_dims else kept))

    return kernel


def _of_lines(xp: Any, how: str, rows: Any, lines: Any, count: int) -> Any:
    """[count, m] of rows [n, m]: sums or maxima of those of each line, 0 where there are none."""
    if how == "add":
        return sum_of_lines(xp, rows, lines, count)
    nothing = neutral(xp, how, rows.dtype)
    start = xp.full((count, rows.shape[1]), nothing, dtype=rows.dtype, device=device_of(rows))
    ones = xp.ones((rows.shape[0], 1), dtype=rows.dtype, device=device_of(rows))
    some = sum_of_lines(xp, ones, lines, count) > 0
    found = reduced_lines(xp, how, start, rows, lines)
    return xp.where(some, found, xp.zeros_like(found))


arrays("SparseReduceSum", host=(2, 3))(_reduced("add"))
arrays("SparseReduceMax", host=(2, 3))(_reduced("maximum"))


# -- rows that are chosen and joined ----------------------------------------------------------------------------------

_POWERS: Final = {"Sum": 0.0, "Mean": 1.0, "SqrtN": 0.5}
"""Of the number of rows of a segment, by which its sum is divided."""


def _scaled(xp: Any, found: Any, lines: Any, count: int, power: float) -> Any:
    if not power:
        return found
    ones = xp.ones((lines.shape[0], 1), dtype=found.dtype, device=device_of(found))
    numbers = sum_of_lines(xp, ones, lines, count)
    numbers = xp.maximum(numbers, xp.ones_like(numbers))
    return found / (numbers if power == 1 else xp.sqrt(numbers))


def _joined(xp: Any, data: Any, indices: Any, lines: Any, count: int, power: float) -> Any:
    """[count, …] of rows of data at indices [n], which belong to lines [n]."""
    check(data.ndim > 0 and indices.ndim == 1 and lines.shape == indices.shape)
    check(xp.isdtype(data.dtype, "real floating"))
    check(math.prod(data.shape) > 0 and indices.shape[0] > 0 and count > 0)
    rows = taken(xp, xp.reshape(data, (data.shape[0], -1)), indices, 0)
    found = _scaled(xp, sum_of_lines(xp, rows, lines, count), lines, count, power)
    return xp.reshape(found, (count, *data.shape[1:]))


def _rising(xp: Any, ids: Any, below: int) -> None:
    require(xp, ids[1:] >= ids[:-1], "not rising")
    require(xp, xp.logical_and(ids >= 0, ids < below), f"not all in [0, {below})")


def _segments(name: str, power: float) -> None:
    @arrays(f"SparseSegment{name}", host=(2,))
    def plain(xp: Any, data: Any, indices: Any, segment_ids: Any) -> Any:
        check(np.shape(segment_ids) == indices.shape)
        count = checked_ids(segment_ids, segment_ids)
        lines = xp.asarray(segment_ids, device=device_of(data))
        return _joined(xp, data, indices, lines, count, power)

    @arrays(f"SparseSegment{name}WithNumSegments", host=(3,))
    def counted(xp: Any, data: Any, indices: Any, segment_ids: Any, num_segments: Any) -> Any:
        check(np.ndim(num_segments) == 0 and segment_ids.ndim == 1)
        count = int(num_segments)
        _rising(xp, segment_ids, count)
        return _joined(xp, data, indices, segment_ids, count, power)

    @arrays(f"SparseSegment{name}Grad", host=(3,))
    def gradient(xp: Any, grad: Any, indices: Any, segment_ids: Any, output_dim0: Any) -> Any:
        check(np.ndim(output_dim0) == 0 and grad.ndim > 0 and segment_ids.ndim == 1)
        check(xp.isdtype(grad.dtype, "real floating"))
        count, many = int(output_dim0), grad.shape[0]
        check(count > 0 and math.prod(grad.shape) > 0)
        check(segment_ids.shape == indices.shape and indices.shape[0] > 0)
        _rising(xp, segment_ids, many)
        require(xp, xp.logical_and(indices >= 0, indices < count), f"not all in [0, {count})")
        flat = _scaled(xp, xp.reshape(grad, (many, -1)), segment_ids, many, power)
        shares = xp.take(flat, segment_ids, axis=0)
        found = sum_of_lines(xp, shares, indices, count)
        return xp.reshape(found, (count, *grad.shape[1:]))


for _name, _power in _POWERS.items():
    _segments(_name, _power)
