"""One number for each row of indices: equal where rows are equal, in row-major order.

Called by: ops.sparse.  Threads: pure functions.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_ROOM = 1 << 62
_REMEMBERED: Final = 1 << 12  # rows


def row_keys(indices: Array) -> Array:
    """int64 keys [n] of indices [n, k]: they compare as the rows do, from the first column on."""
    if not indices.size:
        return np.zeros(len(indices), np.int64)
    columns = [*np.ascontiguousarray(indices.T)]
    low = [int(each.min()) for each in columns]
    spans = [int(each.max()) - first + 1 for each, first in zip(columns, low, strict=True)]
    if prod(spans) >= _ROOM:
        found: Array = np.unique(indices, axis=0, return_inverse=True)[1].reshape(-1)
        return found.astype(np.int64)
    keys = np.zeros(len(indices), np.int64)
    for column, first, span in zip(columns, low, spans, strict=True):
        keys *= span
        keys += column
        keys -= first
    return keys


def common_keys(*groups: Array) -> list[Array]:
    """`row_keys` of several arrays of indices, as if they were one."""
    keys = row_keys(np.concatenate(groups))
    return np.split(keys, np.cumsum([len(each) for each in groups])[:-1])


def row_major(indices: Array) -> Array | None:
    """The order, stable, in which the rows are sorted; None if they are so already."""
    keys = row_keys(indices)
    if (keys[1:] >= keys[:-1]).all():
        return None
    order: Array = np.argsort(keys, kind="stable")
    return order


def runs(keys: Array) -> Array:
    """Where a key begins that is not the one before it, [number of runs]."""
    if not len(keys):
        return np.zeros(0, np.int64)
    found: Array = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1])
    return found


def places_in_runs(starts: Array, count: int) -> Array:
    """The place of each of `count` elements in the run that it is in."""
    lengths = np.diff(np.append(starts, count))
    found: Array = np.arange(count, dtype=np.int64) - np.repeat(starts, lengths)
    return found


def is_counting(rows: Array, count: int) -> bool:
    """Whether rows [n] are 0, 1, … up to count: of a sparse matrix that has one element in each row."""
    if len(rows) != count:
        return False
    if count <= _REMEMBERED:  # bytes are compared in a fifth of the time
        return rows.tobytes() == _counting(count, rows.dtype.char)
    return bool((rows == np.arange(count)).all())


@lru_cache(maxsize=64)
def _counting(count: int, kind: str) -> bytes:
    return np.arange(count, dtype=kind).tobytes()
