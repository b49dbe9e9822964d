"""Scratch memory that a thread keeps: fresh pages for every block of an operation cost as much as the block.

Called by: kernels that work block by block.  Threads: every thread has its own.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

__all__: list[str] = []

Array = np.ndarray[Any, Any]
KEPT = 4 << 20  # bytes; what is larger is made anew and given back


class _Kept(threading.local):
    def __init__(self) -> None:
        self.buffers: dict[int, Array] = {}


_kept = _Kept()


def scratch(slot: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with arbitrary contents, this thread's until it asks for the same slot again.

    A kernel numbers its slots from 0 and gives none of them away.
    """
    size = math.prod(shape) * dtype.itemsize
    if size > KEPT:
        return np.empty(shape, dtype)
    kept = _kept.buffers.get(slot)
    if kept is None or kept.nbytes < size:
        kept = _kept.buffers[slot] = np.empty(max(size, 1 << 16), np.uint8)
    return kept[:size].view(dtype).reshape(shape)
