"""Array kernels that put elements into places of a larger array, and take them from there.

Nothing is changed in place: sums over places ask of each element whether it belongs there.  JAX has its own.
Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.ops._portable.shapes import cuts_of
from headrace.ops._portable.table import arrays, check, device_of, is_jax, require
from headrace.ops._portable.windows import apart, padded
from headrace.ops.array.slicing import slice_index

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


# -- slices -----------------------------------------------------------------------------------------------------------


@arrays("StridedSliceGrad", host=(0, 1, 2, 3), attrs=MASKS)
def _strided_slice_grad(
    xp: Any, shape: Any, begin: Any, end: Any, strides: Any, dy: Any, **masks: int
) -> Any:
    sizes = tuple([int(size) for size in shape])
    first, last, ellipsis, new, shrink = [masks[name] for name in MASKS]
    index = slice_index(begin, end, strides, (first, last, ellipsis, new, shrink))
    like = np.broadcast_to(np.zeros((), bool), sizes)
    check(dy.shape == like[index].shape)
    return slice_put_apart(xp, sizes, index, dy)


def slice_put_apart(xp: Any, sizes: tuple[int, ...], index: Any, dy: Any) -> Any:
    """Zeros of such sizes, with `dy` in the place of a slice of its shape."""
    cuts = cuts_of(index, sizes)
    if 0 in dy.shape:
        return xp.zeros(sizes, dtype=dy.dtype, device=device_of(dy))
    counts = [len(range(*each)) for each in cuts]
    found = xp.reshape(dy, (1, *counts, 1))  # as if of images
    backwards = tuple([axis for axis, (_, _, step) in enumerate(cuts, 1) if step < 0])
    if backwards:
        found = xp.flip(found, axis=backwards)
    found = apart(xp, found, [abs(step) for _, _, step in cuts])
    pads = []
    for each, size in zip(cuts, sizes, strict=True):
        places = range(*each)
        pads.append((min(places), size - 1 - max(places)))
    return xp.reshape(padded(xp, found, pads), sizes)


# -- places -----------------------------------------------------------------------------------------------------------


def lines_of(xp: Any, indices: Any, sizes: tuple[int, ...]) -> Any:
    """Places [n, k] in an array of k dimensions of such sizes as places [n] of its lines.

    Raises IndexError unless they are in it.
    """
    found = xp.zeros(indices.shape[:-1], dtype=indices.dtype, device=device_of(indices))
    for axis, size in enumerate(sizes):
        along = indices[..., axis]
        inside = xp.logical_and(along >= 0, along < size)
        require(xp, inside, f"not all in [0, {size})")
        found = found * size + along
    return found


@arrays("GatherNd", attrs=("bad_indices_policy",))
def _gather_nd(xp: Any, params: Any, indices: Any, **attrs: Any) -> Any:
    check(is_usual(attrs))
    return taken_at(xp, params, indices)


def taken_at(xp: Any, params: Any, indices: Any) -> Any:
    """The slices of `params` at coordinates indices[..., :]."""
    check(indices.ndim > 0 and math.prod(params.shape) > 0)
    deep = indices.shape[-1]
    check(0 < deep <= params.ndim)
    lines = xp.reshape(lines_of(xp, indices, params.shape[:deep]), (-1,))
    rows = xp.reshape(params, (math.prod(params.shape[:deep]), -1))
    return xp.reshape(xp.take(rows, lines, axis=0), (*indices.shape[:-1], *params.shape[deep:]))


def is_usual(attrs: dict[str, Any]) -> bool:
    """Whether an index that is out of range is an error."""
    return attrs.get("bad_indices_policy", b"") in (b"", b"DEFAULT", b"ERROR")


def belongs(xp: Any, lines: Any, count: int) -> Any:
    """[count, n]: whether a line, of so many, is the one of n that is named there."""
    every = xp.arange(count, dtype=lines.dtype, device=device_of(lines))
    return xp.expand_dims(every, axis=1) == xp.expand_dims(lines, axis=0)


def sum_of_lines(xp: Any, values: Any, lines: Any, count: int) -> Any:
    """[count, m], of values [n, m]: each is added to its line; those whose line is negative are left out."""
    if is_jax(xp):
        kept = xp.where(lines < 0, count, lines)
        return xp.zeros((count, values.shape[1]), values.dtype).at[kept].add(values, mode="drop")
    is_there = xp.expand_dims(belongs(xp, lines, count), axis=2)
    every = xp.expand_dims(values, axis=0)
    return xp.sum(xp.where(is_there, every, xp.zeros_like(every)), axis=1, dtype=values.dtype)


_METHODS: Final = {"add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}
_REDUCTIONS: Final = {**_METHODS, "add": "sum", "multiply": "prod"}


def neutral(xp: Any, how: str, kind: Any) -> float | int:
    """What leaves others as they are: "add", "multiply", "maximum" or "minimum" of numbers of a dtype."""
    if how in ("add", "multiply"):
        return int(how == "multiply")
    if xp.isdtype(kind, "real floating"):
        return -math.inf if how == "maximum" else math.inf
    info = xp.iinfo(kind)
    return int(info.min if how == "maximum" else info.max)


def reduced_lines(xp: Any, how: str, start: Any, values: Any, lines: Any) -> Any:
    """`start` [count, m], to each line of which its values [n, m] were joined; see `neutral` for how.

    Those whose line is negative are left out.
    """
    count = start.shape[0]
    if is_jax(xp):
        kept = xp.where(lines < 0, count, lines)
        return getattr(start.at[kept], _METHODS[how])(values, mode="drop")
    is_there = xp.expand_dims(belongs(xp, lines, count), axis=2)
    every = xp.expand_dims(values, axis=0)
    others = xp.full_like(every, neutral(xp, how, values.dtype))
    reduce = getattr(xp, _REDUCTIONS[how])
    more = {"dtype": values.dtype} if how in ("add", "multiply") else {}
    return getattr(xp, how)(start, reduce(xp.where(is_there, every, others), axis=1, **more))


def require_different(xp: Any, lines: Any) -> None:
    """Raise IndexError unless no line is named twice."""
    ordered = xp.sort(lines)
    require(xp, ordered[1:] != ordered[:-1], "not all different")


def put_lines(xp: Any, whole: Any, lines: Any, rows: Any) -> Any:
    """`whole` with other rows at lines that are named once each."""
    if is_jax(xp):
        return whole.at[lines].set(rows)
    is_row = belongs(xp, lines, whole.shape[0])
    named = xp.reshape(xp.any(is_row, axis=1), (whole.shape[0], *(1,) * (whole.ndim - 1)))
    places = xp.argmax(xp.astype(is_row, xp.int32), axis=1)
    return xp.where(named, xp.take(rows, places, axis=0), whole)


@arrays("ScatterNd", host=(2,), attrs=("bad_indices_policy",))
def _scatter_nd(xp: Any, indices: Any, updates: Any, shape: Any, **attrs: Any) -> Any:
    check(xp.isdtype(updates.dtype, "numeric"))
    sizes = tuple([int(size) for size in shape])
    check(is_usual(attrs) and indices.ndim > 0 and min(sizes, default=0) > 0)
    deep = indices.shape[-1]
    check(0 < deep <= len(sizes))
    check(updates.shape == (*indices.shape[:-1], *sizes[deep:]))
    check(math.prod(updates.shape) > 0)
    lines = xp.reshape(lines_of(xp, indices, sizes[:deep]), (-1,))
    values = xp.reshape(updates, (lines.shape[0], -1))
    return xp.reshape(sum_of_lines(xp, values, lines, math.prod(sizes[:deep])), sizes)


@arrays("UnsortedSegmentSum", host=(2,), reals=True)
def _segment_sum(xp: Any, data: Any, ids: Any, count: Any) -> Any:
    many = int(count)
    check(data.shape[: ids.ndim] == ids.shape and many > 0 and math.prod(data.shape) > 0)
    lines = xp.reshape(ids, (-1,))
    require(xp, lines < many, f"not all below {many}")
    values = xp.reshape(data, (lines.shape[0], -1))
    found = sum_of_lines(xp, values, lines, many)
    return xp.reshape(found, (many, *data.shape[ids.ndim :]))
