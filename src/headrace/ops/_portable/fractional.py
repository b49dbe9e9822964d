"""Array kernels of fractional pooling, and of its gradients.

Where windows begin the host has drawn; on the device these are numbers at which nobody looks, so that they may be
others in each step.  How long a window can be follows from the sizes.
Called by: ops._portable.table.  Threads: any.
Source: as ops.nn.fractional_pooling
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.ops._portable.programs import numbered
from headrace.ops._portable.scattering import neutral, sum_of_lines
from headrace.ops._portable.table import arrays, check, require
from headrace.ops.nn.fractional_pooling import pooled_sizes


class _Lines(NamedTuple):
    """Of each window along an axis, int64 [windows, longest]: its lines; inside: how many of these it has."""

    at: Any
    inside: Any


def _ends(xp: Any, edges: Any, size: int, overlapping: bool) -> Any:
    ends = edges[1:] + int(overlapping)
    return xp.minimum(ends, xp.full_like(ends, size))


def _longest(size: int, windows: int, overlapping: bool) -> int:
    """Lines that a window can have, of those that are drawn."""
    return min(size // windows + 2 + overlapping, size)


def _lines(xp: Any, edges: Any, size: int, overlapping: bool) -> _Lines:
    longest = _longest(size, edges.shape[0] - 1, overlapping)
    at = xp.expand_dims(edges[:-1], axis=1) + numbered(xp, edges, longest, 2, 1)
    inside = at < xp.expand_dims(_ends(xp, edges, size, overlapping), axis=1)
    return _Lines(xp.where(inside, at, xp.zeros_like(at)), inside)


def _under(xp: Any, x: Any, lines: _Lines, axis: int) -> Any:
    """`x` with two axes in the place of one: windows, and the lines of each."""
    found = xp.take(x, xp.reshape(lines.at, (-1,)), axis=axis)
    return xp.reshape(found, (*x.shape[:axis], *lines.at.shape, *x.shape[axis + 1 :]))


def _along(xp: Any, x: Any, like: Any, axis: int) -> Any:
    """[windows, longest] as if of an array like `like`, beginning at an axis."""
    return xp.reshape(x, (*(1,) * axis, *x.shape, *(1,) * (like.ndim - axis - x.ndim)))


# -- what is under windows --------------------------------------------------------------------------------------------


def _drawn(
    xp: Any, value: Any, taken: Any, ratios: Sequence[float], overlapping: bool
) -> tuple[Any, Any, list[_Lines]]:
    """Where rows and columns of windows begin, and the lines of both."""
    check(value.ndim == 4 and math.prod(value.shape) > 0)
    high, wide = pooled_sizes(value.shape, ratios)
    check(taken.shape == (high + wide + 2,))
    edges = taken[: high + 1], taken[high + 1 :]
    sizes = zip(edges, value.shape[1:3], strict=True)
    return *edges, [_lines(xp, each, size, overlapping) for each, size in sizes]


@arrays("FractionalMaxPool")
def _largest(
    xp: Any, value: Any, taken: Any, *, pooling_ratio: Sequence[float], overlapping: bool
) -> tuple[Any, Any, Any]:
    rows, columns, lines = _drawn(xp, value, taken, pooling_ratio, overlapping)
    least, found = neutral(xp, "maximum", value.dtype), value
    for axis, each in enumerate(lines, 1):
        under = _under(xp, found, each, axis)
        inside = _along(xp, each.inside, under, axis)
        found = xp.max(xp.where(inside, under, xp.full_like(under, least)), axis=axis + 1)
    return found, rows, columns


@arrays("FractionalAvgPool")
def _mean(
    xp: Any, value: Any, taken: Any, *, pooling_ratio: Sequence[float], overlapping: bool
) -> tuple[Any, Any, Any]:
    rows, columns, lines = _drawn(xp, value, taken, pooling_ratio, overlapping)
    is_whole = xp.isdtype(value.dtype, "integral")
    sums = xp.astype(value, xp.int64) if is_whole else value
    for axis, each in enumerate(lines, 1):
        under = _under(xp, sums, each, axis)
        inside = _along(xp, each.inside, under, axis)
        kept = xp.where(inside, under, xp.zeros_like(under))
        sums = xp.sum(kept, axis=axis + 1, dtype=sums.dtype)
    high, wide = (xp.sum(xp.astype(each.inside, xp.int64), axis=1) for each in lines)
    counts = xp.reshape(high, (1, -1, 1, 1)) * xp.reshape(wide, (1, 1, -1, 1))
    if is_whole:
        whole = xp.astype(xp.sign(sums) * (xp.abs(sums) // counts), value.dtype)
        return whole, rows, columns
    return sums / xp.astype(counts, sums.dtype), rows, columns


# -- gradients --------------------------------------------------------------------------------------------------------


def _fit(xp: Any, shape: Sequence[int], dy: Any, rows: Any, columns: Any) -> None:
    check(len(shape) == dy.ndim == 4 and tuple(dy.shape[::3]) == tuple(shape[::3]))
    check(math.prod(dy.shape) > 0 and math.prod(shape) > 0)
    for edges, axis in ((rows, 1), (columns, 2)):
        check(edges.shape == (dy.shape[axis] + 1,))
        require(xp, edges[1:] > edges[:-1], "windows that do not rise")
        within = xp.logical_and(edges[0] >= 0, edges[-1] <= shape[axis])
        require(xp, within, f"not all in [0, {shape[axis]}]")


@arrays("FractionalMaxPoolGrad")
def _to_largest(
    xp: Any, x: Any, y: Any, dy: Any, rows: Any, columns: Any, *, overlapping: bool
) -> Any:
    """Each window's to the first place that has its value."""
    _fit(xp, x.shape, dy, rows, columns)
    check(y.shape == dy.shape)
    count, height, width, channels = x.shape
    down = _lines(xp, rows, height, overlapping)
    along = _lines(xp, columns, width, overlapping)
    for edges, lines, size in ((rows, down, height), (columns, along, width)):
        lengths = _ends(xp, edges, size, overlapping) - edges[:-1]
        require(xp, lengths <= lines.at.shape[1], "windows longer than those that are drawn")
    under = _under(xp, _under(xp, x, down, 1), along, 3)
    inside = xp.logical_and(_along(xp, down.inside, under, 1), _along(xp, along.inside, under, 3))
    outputs = xp.expand_dims(y, axis=(2, 4))
    same = xp.permute_dims(xp.logical_and(inside, under == outputs), (0, 1, 3, 2, 4, 5))
    same = xp.reshape(same, (*y.shape[:3], -1, channels))
    require(xp, xp.any(same, axis=3), "values that are under none of their windows")
    first = xp.astype(xp.argmax(xp.astype(same, xp.int32), axis=3), xp.int64)
    wide = along.at.shape[1]
    row = xp.reshape(rows[:-1], (1, -1, 1, 1)) + first // wide
    column = xp.reshape(columns[:-1], (1, 1, -1, 1)) + first % wide
    lines = (numbered(xp, x, count, 4, 0) * height + row) * width + column
    lines = lines * channels + numbered(xp, x, channels, 4, 3)
    slopes, lines = xp.reshape(dy, (-1, 1)), xp.reshape(lines, (-1,))
    return xp.reshape(sum_of_lines(xp, slopes, lines, math.prod(x.shape)), x.shape)


def _windows_of(xp: Any, edges: Any, size: int, overlapping: bool) -> Iterator[tuple[Any, Any]]:
    """(the window of each of so many lines, whether it has one): that which begins last, then the one before."""
    every = numbered(xp, edges, size)
    count = edges.shape[0] - 1
    last = xp.astype(xp.searchsorted(edges, every, side="right"), xp.int64) - 1
    has = xp.logical_and(last >= 0, last < count)
    yield xp.where(has, last, xp.zeros_like(last)), has
    if overlapping:
        begins = xp.take(edges, xp.where(last >= 0, last, xp.zeros_like(last)), axis=0) == every
        has = xp.logical_and(begins, last >= 1)
        yield xp.where(has, last - 1, xp.zeros_like(last)), has


@arrays("FractionalAvgPoolGrad", host=(0,), reals=True)
def _to_all(xp: Any, sizes: Any, dy: Any, rows: Any, columns: Any, *, overlapping: bool) -> Any:
    """In float64, as the host does.  (Of whole numbers it cuts off what is left: XLA's quotients are not exact.)"""
    check(np.shape(sizes) == (4,))
    shape = tuple([int(size) for size in sizes])
    check(min(shape) > 0)
    _fit(xp, shape, dy, rows, columns)
    _, height, width, _ = shape
    high = _ends(xp, rows, height, overlapping) - rows[:-1]
    wide = _ends(xp, columns, width, overlapping) - columns[:-1]
    counts = xp.reshape(high, (1, -1, 1, 1)) * xp.reshape(wide, (1, 1, -1, 1))
    each = xp.astype(dy, xp.float64) / xp.astype(counts, xp.float64)
    total = None
    for row, has_row in _windows_of(xp, rows, height, overlapping):
        of_rows = xp.take(each, row, axis=1)
        for column, has_column in _windows_of(xp, columns, width, overlapping):
            share = xp.take(of_rows, column, axis=2)
            has = xp.logical_and(
                xp.reshape(has_row, (1, -1, 1, 1)), xp.reshape(has_column, (1, 1, -1, 1))
            )
            share = xp.where(has, share, xp.zeros_like(share))
            total = share if total is None else total + share
    return xp.astype(total, dy.dtype)
