"""Sums of rows that belong together, each added to the ones before it, in order, as TensorFlow's loops add.

All sums of a block get their first row, then all that have one their second, and so on: as many calls of NumPy as the
longest sum has rows.  What few long sums have more than the others is added up by itself.
Called by: ops.math.segments, ops.sparse, ops.training, ops._kernels (crops, row_changes).  Threads: any; large ones are
shared by the task's worker pool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from headrace.ops._kernels.scratch import scratch
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
Rows = Callable[[Array, Array], None]

_BLOCK = 1 << 16  # elements of sums that are made together
_FEW = 4  # sums that are still to go on when each is finished by itself, if that takes fewer calls
_ONE_BY_ONE = 16  # rows that are added to a sum one by one; of more a block is made first
_PIECE = 1 << 18  # elements of rows that one sum takes, or that are changed, at once
_MANY_PUT = 100  # rows from which on it pays to look at each as one thing
_WIDE = 2048  # elements of a row
_BY_PARTS = frozenset((np.add, np.subtract))  # what is done to either part of complex numbers
_SHARED = 1 << 20  # elements of rows from which on threads share them


def sums_of_rows(ids: Array, height: int, width: int, dtype: np.dtype[Any], rows: Rows) -> Array:
    """out [height, width]: out[i] is the sum of the rows whose id is i, the first one first; 0 where there is none.

    ids [n] in [0, height).  rows(at, out): puts the rows numbered at [m] into out [m, width].
    """
    return reductions_of_rows(np.add, ids, np.zeros((height, width), dtype), rows)


def reductions_of_rows(ufunc: np.ufunc, ids: Array, out: Array, rows: Rows) -> Array:
    """out [height, width], changed: out[i] is what ufunc makes of the rows whose id is i, where there are any.

    As `sums_of_rows`.
    """
    height, width = out.shape
    if not out.size or not len(ids):
        return out
    counts = np.bincount(ids, minlength=height)
    order = None
    if (ids[1:] < ids[:-1]).any():  # 16 bits are sorted by counting
        order = np.argsort(ids.astype(np.uint16) if height <= 1 << 16 else ids, kind="stable")
    starts = np.cumsum(counts) - counts
    longest = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    each = max(_BLOCK // width, 1)

    def block(first: int) -> None:
        live = longest[first : first + each]
        begins = starts[live]
        made = np.empty((len(live), width), out.dtype)
        rows(begins if order is None else order[begins], made)
        _go_on(ufunc, made, begins + 1, counts[live] - 1, order, rows)
        out[live] = made

    blocks = range(0, len(longest), each)
    if len(ids) * width < _SHARED:
        for first in blocks:
            block(first)
    else:
        parallel_for(block, blocks)
    return out


def change_rows(ufunc: np.ufunc, array: Array, ids: Array, changes: Array) -> None:
    """array[i] = ufunc(array[i], change) for every change [n, width] whose id [n] is i, the first one first.

    array [height, width], of the dtype of changes; n > 0; ufunc: of one that may be reduced in order, such as
    np.subtract.  `change_elements` takes less time where changes are `in_pairs`.
    """
    order = ids.argsort(kind="stable")
    ordered = ids[order]
    begins = np.empty(len(ids), bool)
    begins[0] = True
    np.not_equal(ordered[1:], ordered[:-1], begins[1:])
    (starts,) = begins.nonzero()
    if len(starts) == len(ids):
        change_different_rows(ufunc, array, ids, changes)
        return
    counts = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], counts[:-1])
    counts[-1] = len(ids) - starts[-1]
    longest = (-counts).argsort(kind="stable")
    starts, counts = starts[longest], counts[longest]
    where = ordered[starts]
    rows = array.take(where, axis=0)
    alive = len(counts) - counts[::-1].searchsorted(np.arange(counts[0]), side="right")
    for number, many in enumerate(alive.tolist()):
        if many <= _FEW:
            for at in range(many):
                rest = order[starts[at] + number : starts[at] + counts[at]]
                _change(ufunc, rows[at], rest, changes)
            break
        part = changes.take(order[starts[:many] + number], axis=0)
        ufunc(rows[:many], part, rows[:many])
    put_rows(array, where, rows)


def change_different_rows(ufunc: np.ufunc, array: Array, ids: Array, changes: Array) -> None:
    """As `change_rows`, of ids that differ and any ufunc of two numbers."""
    rows = array.take(ids, axis=0)
    ufunc(rows, changes, out=rows)
    put_rows(array, ids, rows)


def put_rows(array: Array, ids: Array, rows: Array) -> None:
    """array[i] = row for every row whose id [n] is i, the last one in the end.

    Rows are put as one thing each, which takes NumPy half the time that it takes to put their elements.
    """
    wide = array.ndim > 1 and array.size > 0 and array.flags.c_contiguous
    many = ids.ndim == 1 and len(ids) >= _MANY_PUT and rows.shape == ids.shape + array.shape[1:]
    alike = rows.dtype == array.dtype and rows.flags.c_contiguous
    if not (wide and many and alike) or array.dtype.hasobject:
        array[ids] = rows
    else:
        kind = np.dtype((np.void, array.nbytes // len(array)))
        each = rows.reshape(len(ids), -1).view(kind)
        array.reshape(len(array), -1).view(kind).reshape(-1).put(ids, each)


def in_pairs(ufunc: np.ufunc, array: Array) -> bool:
    """Whether `change_elements` changes two elements of a row [width] of floats at once, as one complex number.

    It takes less time than rows for any number of changes then, unless rows are wide.
    """
    width = array.shape[1]
    paired = ufunc in _BY_PARTS and array.dtype == np.float32 and not width % 2
    return paired and width < _WIDE


def change_elements(ufunc: np.ufunc, array: Array, ids: Array, changes: Array) -> None:
    """As `change_rows`, of any ufunc of two numbers and arrays without gaps; n may be 0.

    NumPy has loops for single elements of vectors, which take an eighth of the time of those for rows.
    """
    if in_pairs(ufunc, array):
        array, changes = array.view(np.complex64), changes.view(np.complex64)
    width, flat = array.shape[1], array.reshape(-1)
    each = max(_PIECE // width, 1)  # so that what says where they are takes little memory
    starts, within = np.multiply(ids, width, dtype=np.intp)[:, None], _columns(width)
    for first in range(0, len(ids), each):
        some = slice(first, first + each)
        ufunc.at(flat, (starts[some] + within).reshape(-1), changes[some].reshape(-1))


@lru_cache(16)
def _columns(width: int) -> Array:
    found = np.arange(width)
    found.flags.writeable = False
    return found


def _change(ufunc: np.ufunc, row: Array, at: Array, changes: Array) -> None:
    """row [width], changed by each of the changes numbered at [m], one after the other."""
    if len(at) > _ONE_BY_ONE:

        def take(numbers: Array, out: Array) -> None:
            changes.take(numbers, axis=0, out=out, mode="clip")

        _add_all(ufunc, row.reshape(1, -1), at, take)
        return
    for number in at.tolist():
        ufunc(row, changes[number], row)


def _go_on(
    ufunc: np.ufunc, sums: Array, starts: Array, counts: Array, order: Array | None, rows: Rows
) -> None:
    """sums [m, width] and counts [m] rows each, falling, which begin at starts [m] of the order."""
    width = sums.shape[1]
    alive = len(counts) - np.searchsorted(counts[::-1], np.arange(counts[0]), side="right")
    for number, many in enumerate(alive.tolist()):
        if many <= _FEW and int(counts[0]) - number > 2 * many:
            for at in range(many):
                rest = np.arange(starts[at] + number, starts[at] + counts[at])
                _add_all(ufunc, sums[at : at + 1], rest if order is None else order[rest], rows)
            break
        next_ones = starts[:many] + number
        part = scratch(0, (many, width), sums.dtype)
        rows(next_ones if order is None else order[next_ones], part)
        ufunc(sums[:many], part, out=sums[:many])


def _add_all(ufunc: np.ufunc, total: Array, at: Array, rows: Rows) -> None:
    """total [1, width], changed by each of the rows numbered at [m], one after the other."""
    width = total.shape[1]
    each = max(_PIECE // width, 1)
    for first in range(0, len(at), each):
        some = at[first : first + each]
        piece = np.empty((len(some) + 1, width), total.dtype)
        piece[:1] = total
        rows(some, piece[1:])
        if width == 1:  # a reduction would add up pairs
            total[0] = ufunc.accumulate(piece, axis=0)[-1]
        else:
            ufunc.reduce(piece, axis=0, out=total[0])
