"""Slices that are scattered to coordinates, as rows with numbers, which NumPy finds in a fraction of the time.

Called by: ops.array.gathering, ops.array.tensor_scatter, ops.state.references.  Threads: pure functions, but for the
arrays that they change; large sums are shared by the task's worker pool.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.row_sums import reductions_of_rows

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_MANY: Final = 1 << 13  # elements from which those of one place are added up many places at a time
_NARROW: Final = 4  # elements of a row; of narrower ones that takes longer


def rows_at(whole: Array, where: tuple[Array, ...]) -> tuple[Array, Array]:
    """`whole`, which has no gaps, as a list of what coordinates address, in the same memory, and their numbers in it.

    where: an array for each of its first dimensions, one at least, in range.
    """
    sizes = whole.shape[: len(where)]
    numbers = np.zeros(where[0].shape, np.intp)
    for size, each in zip(sizes, where, strict=True):
        numbers *= size
        numbers += each.astype(np.intp, copy=False)
    return whole.reshape(math.prod(sizes), *whole.shape[len(where) :]), numbers


def add_to_zeros(whole: Array, where: tuple[Array, ...], updates: Array) -> None:
    """Updates added at coordinates, as of `rows_at`, of `whole`, which is 0; those of one place add up, in order."""
    if not updates.size:
        return
    rows, numbers = rows_at(whole, where)
    width = whole.size // len(rows)
    kind = whole.dtype
    if updates.size < _MANY or width < _NARROW or kind.isbuiltin != 1 or kind.kind not in "iufc":
        np.add.at(rows, numbers, updates)
        return
    changes = updates.reshape(-1, width)

    def put(at: Array, out: Array) -> None:
        changes.take(at, axis=0, out=out, mode="clip")

    reductions_of_rows(np.add, numbers.reshape(-1), rows.reshape(len(rows), width), put)
