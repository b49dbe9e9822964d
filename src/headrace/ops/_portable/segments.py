"""Array kernels of segments, and of what is scattered or stitched: rows that belong together, or go to places.

Called by: ops._portable.table.  Threads: any.
Source: as ops.math.segments, array.tensor_scatter and sparse.dense
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._portable.scattering import (
    is_usual,
    lines_of,
    neutral,
    put_lines,
    reduced_lines,
    require_different,
    sum_of_lines,
)
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops.math.segments import checked_ids

# -- ids in any order -------------------------------------------------------------------------------------------------


def _counts(xp: Any, like: Any, lines: Any, count: int) -> Any:
    """[count, 1]: how many rows each has."""
    ones = xp.ones((lines.shape[0], 1), dtype=like.dtype, device=device_of(like))
    return sum_of_lines(xp, ones, lines, count)


def _reduced(xp: Any, how: str, rows: Any, lines: Any, count: int, empty: Any) -> Any:
    """[count, m] of rows [n, m]; `empty` where a line has none, or None: what leaves others as they are."""
    nothing = neutral(xp, how, rows.dtype)
    start = xp.full((count, rows.shape[1]), nothing, dtype=rows.dtype, device=device_of(rows))
    found = reduced_lines(xp, how, start, rows, lines)
    if empty is None:
        return found
    there = _counts(xp, xp.zeros((), dtype=xp.float32, device=device_of(rows)), lines, count) > 0
    return xp.where(there, found, xp.full_like(found, empty))


def _extreme(xp: Any, how: str, kind: Any) -> Any:
    """The finite number from which on every other is taken instead."""
    info = xp.finfo(kind) if xp.isdtype(kind, "real floating") else xp.iinfo(kind)
    return info.min if how == "maximum" else info.max


def _unsorted(how: str) -> Callable[..., Any]:
    def kernel(xp: Any, data: Any, ids: Any, count: Any) -> Any:
        check(count.ndim == 0)
        many = int(count)
        check(data.shape[: ids.ndim] == ids.shape and many > 0 and math.prod(data.shape) > 0)
        check(xp.isdtype(data.dtype, ("real floating", "integral")))
        lines = xp.reshape(ids, (-1,))
        require(xp, lines < many, f"not all below {many}")
        rows = xp.reshape(data, (lines.shape[0], -1))
        empty = None if how == "multiply" else _extreme(xp, how, data.dtype)
        found = _reduced(xp, how, rows, lines, many, empty)
        return xp.reshape(found, (many, *data.shape[ids.ndim :]))

    return kernel


_UNSORTED: Final = {"Max": "maximum", "Min": "minimum", "Prod": "multiply"}
for _suffix, _how in _UNSORTED.items():
    arrays(f"UnsortedSegment{_suffix}", host=(2,))(_unsorted(_how))


# -- ids that rise, which say how many segments there are -------------------------------------------------------------


def _sorted(how: str) -> Callable[..., Any]:
    def kernel(xp: Any, data: Any, segment_ids: Any) -> Any:
        check(data.ndim > 0 and math.prod(data.shape) > 0)
        check(xp.isdtype(data.dtype, "real floating"))
        many = checked_ids(np.broadcast_to(0, data.shape), segment_ids)
        lines = xp.asarray(segment_ids, device=device_of(data))
        rows = xp.reshape(data, (data.shape[0], -1))
        if how in ("add", "mean"):
            found = sum_of_lines(xp, rows, lines, many)
        else:
            found = _reduced(xp, how, rows, lines, many, 1 if how == "multiply" else 0)
        if how == "mean":
            counts = _counts(xp, data, lines, many)
            found = found / xp.maximum(counts, xp.ones_like(counts))
        return xp.reshape(found, (many, *data.shape[1:]))

    return kernel


_SORTED: Final = {"Sum": "add", "Mean": "mean", **_UNSORTED}
for _suffix, _how in _SORTED.items():
    arrays(f"Segment{_suffix}", host=(1,))(_sorted(_how))


# -- a tensor with others at places -----------------------------------------------------------------------------------


def _placed(xp: Any, tensor: Any, indices: Any, updates: Any, **attrs: Any) -> tuple[Any, ...]:
    """(the tensor as lines, lines, their updates), all of them as rows."""
    check(is_usual(attrs) and indices.ndim > 0 and math.prod(updates.shape) > 0)
    deep = indices.shape[-1]
    check(0 < deep <= tensor.ndim and math.prod(tensor.shape) > 0)
    check(updates.shape == (*indices.shape[:-1], *tensor.shape[deep:]))
    sizes = tensor.shape[:deep]
    lines = xp.reshape(lines_of(xp, indices, sizes), (-1,))
    whole = xp.reshape(tensor, (math.prod(sizes), -1))
    return whole, lines, xp.reshape(updates, (lines.shape[0], -1))


def _scattered(how: str) -> Callable[..., Any]:
    def kernel(xp: Any, tensor: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
        check(xp.isdtype(tensor.dtype, "real floating"))
        whole, lines, rows = _placed(xp, tensor, indices, updates, **attrs)
        if how == "subtract":
            found = reduced_lines(xp, "add", whole, -rows, lines)
        else:
            found = reduced_lines(xp, how, whole, rows, lines)
        return xp.reshape(found, tensor.shape)

    return kernel


_POLICY: Final = ("bad_indices_policy",)
for _suffix, _how in {
    "Add": "add",
    "Sub": "subtract",
    "Max": "maximum",
    "Min": "minimum",
}.items():
    arrays(f"TensorScatter{_suffix}", attrs=_POLICY)(_scattered(_how))


@arrays("TensorScatterUpdate", attrs=_POLICY)
def _updated(xp: Any, tensor: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
    whole, lines, rows = _placed(xp, tensor, indices, updates, **attrs)
    require_different(xp, lines)
    return xp.reshape(put_lines(xp, whole, lines, rows), tensor.shape)


@arrays("ScatterNdNonAliasingAdd", attrs=_POLICY)
def _added(xp: Any, tensor: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
    if indices.ndim == 1:
        indices = xp.expand_dims(indices, axis=1)
    found: Any = _scattered("add")(xp, tensor, indices, updates, **attrs)
    return found


@arrays("DynamicStitch", "ParallelDynamicStitch", halves=True)
def _stitched(xp: Any, *both: Any) -> Any:
    count = len(both) // 2
    indices, data = both[:count], both[count:]
    rest = data[0].shape[indices[0].ndim :]
    for index, piece in zip(indices, data, strict=True):
        check(piece.shape[: index.ndim] == index.shape and piece.shape[index.ndim :] == rest)
    places = np.concatenate([index.reshape(-1) for index in indices])
    check(len(places) > 0 and places.min() >= 0 and math.prod(rest) > 0)
    comes_from = np.full(int(places.max()) + 1, len(places))
    comes_from[places] = np.arange(len(places))  # the last one, where several go
    pairs = zip(indices, data, strict=True)
    parts = [xp.reshape(piece, (index.size, *rest)) for index, piece in pairs if index.size]
    if comes_from.max() == len(places):
        parts.append(xp.zeros((1, *rest), dtype=data[0].dtype, device=device_of(data[0])))
    rows = xp.concat(parts, axis=0)
    return xp.take(rows, xp.asarray(comes_from, device=device_of(rows)), axis=0)


# -- products ---------------------------------------------------------------------------------------------------------


@arrays("SparseTensorDenseMatMul", host=(2,))
def _sparse_product(
    xp: Any,
    indices: Any,
    values: Any,
    sizes: Any,
    b: Any,
    *,
    adjoint_a: bool,
    adjoint_b: bool,
) -> Any:
    check(sizes.shape == (2,) and b.ndim == 2 and indices.ndim == 2 and indices.shape[1] == 2)
    check(values.shape == indices.shape[:1] and values.shape[0] > 0)
    check(xp.isdtype(b.dtype, ("real floating", "complex floating")))
    height, width = (int(size) for size in sizes)
    rows, inner = indices[:, 0], indices[:, 1]
    for along, size in ((rows, height), (inner, width)):
        require(xp, xp.logical_and(along >= 0, along < size), f"not all in [0, {size})")
    complex_ = xp.isdtype(b.dtype, "complex floating")
    if adjoint_a:
        rows, inner, height, width = inner, rows, width, height
        values = xp.conj(values) if complex_ else values
    if adjoint_b:
        b = xp.conj(b.T) if complex_ else b.T
    check(width == b.shape[0] and height > 0 and math.prod(b.shape) > 0)
    shares = xp.take(b, inner, axis=0) * xp.expand_dims(values, axis=1)
    return sum_of_lines(xp, shares, rows, height)
