"""The parts in which large products of matrices are made, side by side or one after the other.

Which parts there are depends on shapes, and on whether a factor lies across; never on the number of threads, since
another number of rows at a time may give other bits.
Called by: ops.linalg.products, ops.training.update_rules, plan.rules.  Threads: any; parts are shared by the task's
worker pool.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.ops._kernels.scratch import scratch
from headrace.run.exec.blas import multiplies_as_they_lie
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Then = Callable[[Any, tuple[slice, slice]], object]
"""(part of a product, its rows and columns)"""
LARGE = 1 << 23  # multiplications from which a product is made in parts; 0.25 ms of one processor
GRAIN = 16  # rows or columns that BLAS works on together
_ACROSS = 4  # how many times as many rows there are where a second factor that lies across is laid out for each part
SMALL = 1_000_000  # multiplications of a product that OpenBLAS may make of matrices as they lie
_KEEPS_LOCK = 500  # elements of a product, up to which `np.matmul` keeps the interpreter's lock
_LONG = 1 << 16  # multiplications, 5 µs and more, for which it is worth letting go of
_OF_BLAS = frozenset(map(np.dtype, "fdFD"))
_THIN = 64  # elements that are summed up, at most, where rows of a product are made so; columns: twice that
_ROWS, _LINE = 8, 64  # rows or columns of them are a multiple of
_MORE, _APART = 23, 22  # slots of scratch memory
_FEW = 64  # rows, which take less time than reading the other factor, if that is not in a cache
FAR, NEAR = (
    4 << 20,
    1 << 20,
)  # bytes of a factor that is in none, and of a part that is, once it has been read


def count_of_parts(work: int) -> int:
    """Parts of a product: 2, from 2^25 multiplications on 4, from 2^27 on 8, from 2^29 on 16; small ones cost more.

    Never the number of threads: another number of rows at a time may give other bits.
    """
    found: int = min(2 << max(work.bit_length() - 24, 0) // 2, 16)
    return found


def parts_of_product(x: Any, y: Any, work: int) -> list[tuple[slice, slice]]:
    """Of which (rows of x, columns of y) a large product of two matrices is made, one part after the other.

    BLAS lays out the other factor anew for each part, which takes longest where that is y and lies across.
    """
    rows, columns = x.shape[0], y.shape[1]
    lies_across = y.flags.f_contiguous and not y.flags.c_contiguous
    by_rows = rows >= (_ACROSS * columns if lies_across else columns)
    longer = rows if by_rows else columns
    grains = -(-longer // GRAIN)
    count = max(min(count_of_parts(work), grains), 1)
    ends = [min(-(-grains * number // count) * GRAIN, longer) for number in range(count + 1)]
    cuts = list(itertools.starmap(slice, itertools.pairwise(ends)))
    if by_rows:
        return [(cut, slice(columns)) for cut in cuts]
    return [(slice(rows), cut) for cut in cuts]


def multiply_matrices(x: Any, y: Any, out: Any = None) -> Any:
    """x times y, two matrices, in `out` if there is one, without the interpreter's lock where that takes long.

    `np.matmul` asks how many elements the product has, whatever is summed up: of few it keeps the lock, others wait.
    """
    if (
        x.shape[0] * y.shape[1] <= _KEEPS_LOCK
        and x.shape[0] * y.size >= _LONG
        and x.dtype == y.dtype
        and x.dtype in _OF_BLAS
        and (out is None or (out.flags.c_contiguous and out.dtype == x.dtype))
    ):
        return np.dot(x, y, out=out)
    return np.matmul(x, y, out=out)


def multiply(x: Any, y: Any, out: Any) -> None:
    """out = x times y: one part, or few rows or columns of it at a time where BLAS need not lay out the factors.

    That gains where little is summed up, so that laying them out takes long beside multiplying.
    """
    (rows, summed), columns = x.shape, y.shape[1]
    most = SMALL // max(summed, 1)
    by_rows = most // columns >= _ROWS
    thin = 0 < summed <= (_THIN if by_rows else 2 * _THIN) and rows * columns > most
    grain, other = (_ROWS, columns) if by_rows else (_LINE, rows)
    few = most // other // grain * grain
    floats = x.dtype == y.dtype == np.float32
    if not thin or few == 0 or not floats or not multiplies_as_they_lie():
        multiply_matrices(x, y, out)
        return
    length = rows if by_rows else columns
    stack, whole = length // few, length // few * few
    if by_rows:
        x = np.ascontiguousarray(x)
        np.matmul(x[:whole].reshape(stack, few, -1), y, out=out[:whole].reshape(stack, few, -1))
        if whole < rows:
            np.matmul(x[whole:], y, out=out[whole:])
        return
    apart = [each[:, :whole].reshape(-1, stack, few).swapaxes(0, 1) for each in (y, out)]
    np.matmul(x, apart[0], out=apart[1])
    if whole < columns:
        np.matmul(x, y[:, whole:], out=out[:, whole:])


def in_parts(x: Any, y: Any, work: int, out: Any, then: Then | None = None) -> Any:
    """A product of matrices, a few of its rows or columns at a time (`run.exec.worker_pool`).  Raises ValueError.

    then: what is done with each part as soon as it is made.
    """
    if x.shape[1] != y.shape[0]:
        raise ValueError("inner dimensions differ")
    if out is None:
        out = np.empty((x.shape[0], y.shape[1]), np.result_type(x, y))
    way = _in_order(x, y)
    if way is not None:
        way(x, y, work, out)
        if then is not None:
            then(out, (slice(None), slice(None)))
        return out

    def part(where: tuple[slice, slice]) -> None:
        rows, columns = where
        if then is None:
            multiply(x[rows], y[:, columns], out[where])
            return
        made = into = out[where]
        # NumPy does arithmetic with short pieces of rows at half its speed.
        if not into.flags.c_contiguous:
            made = scratch(_APART, into.shape, into.dtype)
        multiply(x[rows], y[:, columns], made)
        then(made, where)
        if made is not into:
            np.copyto(into, made)

    parallel_for(part, parts_of_product(x, y, work), products=True)
    return out


def _in_order(x: Any, y: Any) -> Callable[[Any, Any, int, Any], None] | None:
    """How to multiply a few rows so that y, which no cache holds, is read as it lies; None where that is no gain."""
    few, (summed, columns) = x.shape[0], y.shape
    if few > _FEW or few >= columns or y.nbytes < FAR:
        return None
    if y.flags.f_contiguous:
        return _by_columns
    return _by_summands if y.flags.c_contiguous and columns <= summed else None


def _by_columns(x: Any, y: Any, work: int, out: Any) -> None:
    """The product with y's columns, one after the other in memory, for the rows of a transposed product."""
    turned = np.ascontiguousarray(x.T)

    def part(where: tuple[slice, slice]) -> None:
        columns = where[1]
        out[:, columns] = np.matmul(y.T[columns], turned).T

    parallel_for(part, parts_of_product(x, y, work), products=True)


def _by_summands(x: Any, y: Any, work: int, out: Any) -> None:
    """The sum of products of a few columns of x and the rows of y that they meet."""
    count, summed = count_of_parts(work), len(y)
    cuts = [summed * number // count for number in range(count + 1)]
    sums = np.empty((count, *out.shape), out.dtype)
    near = max(NEAR // (y.itemsize * y.shape[1]), GRAIN)
    if multiplies_as_they_lie():
        near = min(near, 2 * _THIN)

    def part(number: int) -> None:
        total, end = sums[number], cuts[number + 1]
        for first in range(cuts[number], end, near):
            some = slice(first, min(first + near, end))
            if first == cuts[number]:
                multiply(x[:, some], y[some], total)
            else:
                more = scratch(_MORE, total.shape, total.dtype)
                multiply(x[:, some], y[some], more)
                np.add(total, more, out=total)

    parallel_for(part, range(count), products=True)
    np.sum(sums, axis=0, out=out)


def is_large_product(x: Any, y: Any) -> bool:
    """Whether both are matrices of floats that fit, and their product is made in `parts_of_product`."""
    return bool(
        x.ndim == y.ndim == 2
        and x.shape[1] == y.shape[0]
        and x.shape[0] * y.size >= LARGE
        and x.dtype == y.dtype
        and x.dtype.kind == "f"
        and x.dtype.itemsize > 2
        and _in_order(x, y) is None
    )
