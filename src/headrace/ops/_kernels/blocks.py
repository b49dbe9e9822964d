"""Large arrays a block at a time: what is done with a block is done in the cache, and blocks run side by side.

Blocks depend on sizes alone, so results do not depend on who works on them.
Called by: kernels of large operations, plan.rules.elementwise.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

BLOCK = 131072
"""Elements: a few blocks fit into a processor's cache, and threads seldom wait for the interpreter between two."""
LARGE = 2 * BLOCK  # elements from which an operation is worth sharing


def over_blocks(count: int, work: Callable[[int], object]) -> None:
    """work(number) for each of `count` blocks."""
    parallel_for(work, range(count))


def over_rows(count: int, width: int, work: Callable[[slice], object]) -> None:
    """work(rows) for some of `count` rows of `width` elements after the others, none of which needs the others."""
    some = max(BLOCK // max(width, 1), 1)
    pieces = [slice(first, min(first + some, count)) for first in range(0, count, some)]
    if count * width >= LARGE:
        parallel_for(work, pieces)
        return
    for piece in pieces:
        work(piece)


def in_parts(function: Callable[..., Any], *arrays: Any) -> Any:
    """function(*arrays), all of one shape and dtype, as is the result, of each element; some of many at a time."""
    first = arrays[0]
    if first.size < LARGE or not all(each.flags.c_contiguous for each in arrays):
        return function(*arrays)
    flat, out = [each.reshape(-1) for each in arrays], np.empty(first.shape, first.dtype)
    made = out.reshape(-1)

    def part(number: int) -> None:
        some = slice(number * BLOCK, (number + 1) * BLOCK)
        made[some] = function(*(each[some] for each in flat))

    over_blocks(-(-first.size // BLOCK), part)
    return out


def summed_in_blocks(x: Any) -> Any:
    """Whether `total` is how the sum of all elements of this array is made."""
    return x.size >= LARGE and x.dtype.kind == "f" and x.dtype.itemsize > 2 and x.flags.c_contiguous


def total(x: Any) -> Any:
    """The sum of all elements: of each block, then of those sums."""
    flat = x.reshape(-1)
    sums = np.empty(-(-flat.size // BLOCK), x.dtype)

    def one(number: int) -> None:
        sums[number] = np.add.reduce(flat[number * BLOCK : (number + 1) * BLOCK])

    over_blocks(len(sums), one)
    return np.add.reduce(sums)
