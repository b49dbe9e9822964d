"""Matrices turned over.

Called by: ops.array.shapes.  Threads: pure functions.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__: list[str] = []

_STEP: Final = 2048
"""Bytes: places so far apart, or a multiple of that, share a few lines of a processor's cache."""
_LEAST: Final = 64  # rows and columns from which they do not fit into those
_STRIP: Final = 8  # rows


def turned(x: Any) -> Any:
    """A copy of the matrix with its rows as columns.

    NumPy goes along columns; where those share a few lines of the cache, a few rows at a time take a third of the time.
    """
    if x.strides[0] % _STEP or min(x.shape) < _LEAST or not x.flags.c_contiguous:
        return x.T.copy()
    found = np.empty(x.shape[::-1], x.dtype)
    for first in range(0, len(x), _STRIP):
        found[:, first : first + _STRIP] = x[first : first + _STRIP].T
    return found
