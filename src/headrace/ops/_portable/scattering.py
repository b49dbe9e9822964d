"""Array kernels that put elements into places of a larger array, and take them from there.

Nothing is changed in place: sums over places ask of each element whether it belongs there.  JAX has its own.
Called by: ops._portable.table.  Threads: any.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.ops._portable.table import arrays, check, device_of, is_jax, require
from headrace.ops._portable.windows import apart, padded
from headrace.ops.array.slicing import slice_index

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


# -- slices -----------------------------------------------------------------------------------------------------------


@arrays("StridedSliceGrad", host=(0, 1, 2, 3), attrs=_MASKS)
def _strided_slice_grad(
    xp: Any, shape: Any, begin: Any, end: Any, strides: Any, dy: Any, **masks: int
) -> Any:
    sizes = tuple([int(size) for size in shape])
    first, last, ellipsis, new, shrink = [masks[name] for name in _MASKS]
    index = slice_index(begin, end, strides, (first, last, ellipsis, new, shrink))
    like = np.broadcast_to(np.zeros((), bool), sizes)
    check(dy.shape == like[index].shape)
    cuts = _cuts(index, sizes)
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


def _cuts(index: Any, sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """(first, end, step) of each dimension of what is cut."""
    given = [each for each in index if each is not None]
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given[at : at + 1] = [slice(None)] * (len(sizes) - len(given) + 1)
    given += [slice(None)] * (len(sizes) - len(given))
    found = []
    for each, size in zip(given, sizes, strict=True):
        if not isinstance(each, slice):
            place = int(each) % size
            each = slice(place, place + 1)
        found.append(each.indices(size))
    return found


# -- places -----------------------------------------------------------------------------------------------------------


def _lines(xp: Any, indices: Any, sizes: tuple[int, ...]) -> Any:
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
    check(_is_usual(attrs) and indices.ndim > 0 and math.prod(params.shape) > 0)
    deep = indices.shape[-1]
    check(0 < deep <= params.ndim)
    lines = xp.reshape(_lines(xp, indices, params.shape[:deep]), (-1,))
    rows = xp.reshape(params, (math.prod(params.shape[:deep]), -1))
    return xp.reshape(xp.take(rows, lines, axis=0), (*indices.shape[:-1], *params.shape[deep:]))


def _is_usual(attrs: dict[str, Any]) -> bool:
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


@arrays("ScatterNd", host=(2,), attrs=("bad_indices_policy",))
def _scatter_nd(xp: Any, indices: Any, updates: Any, shape: Any, **attrs: Any) -> Any:
    check(xp.isdtype(updates.dtype, "numeric"))
    sizes = tuple([int(size) for size in shape])
    check(_is_usual(attrs) and indices.ndim > 0 and min(sizes, default=0) > 0)
    deep = indices.shape[-1]
    check(0 < deep <= len(sizes))
    check(updates.shape == (*indices.shape[:-1], *sizes[deep:]))
    check(math.prod(updates.shape) > 0)
    lines = xp.reshape(_lines(xp, indices, sizes[:deep]), (-1,))
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
