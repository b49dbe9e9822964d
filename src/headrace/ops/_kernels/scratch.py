"""Scratch memory that a thread keeps: fresh pages for every block of an operation cost as much as the block.

Called by: kernels that work block by block.  Threads: every thread has its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

__all__: list[str] = []

T = TypeVar("T")
Array = np.ndarray[Any, Any]
KEPT = 4 << 20  # bytes; what is larger is made anew and given back
_MOST: Final = 32  # things that are remembered of a slot


class _Slot:
    """Its memory, what was made of that by `made_of`, by key, and the key of what used it last, if there is one."""

    __slots__ = ("buffer", "last", "made")

    def __init__(self, size: int) -> None:
        self.buffer = np.empty(max(size, 1 << 16), np.uint8)
        self.made: dict[Any, Any] = {}
        self.last: Any = None


class _Kept(threading.local):
    def __init__(self) -> None:
        self.slots: dict[int, _Slot] = {}


_kept = _Kept()


def scratch(slot: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with arbitrary contents, this thread's until it asks for the same slot again.

    A kernel numbers its slots from 0 and gives none of them away.
    """
    size = math.prod(shape) * dtype.itemsize
    if size > KEPT:
        return np.empty(shape, dtype)
    kept = _kept.slots.get(slot)
    if kept is None or kept.buffer.nbytes < size:
        kept = _kept.slots[slot] = _Slot(size)
    kept.last = None
    return np.ndarray(shape, dtype, kept.buffer)


def made_of(
    slot: int, key: Any, elements: int, dtype: np.dtype[Any], make: Callable[[Array], T]
) -> tuple[T, bool]:
    """What `make` makes of such an array [elements], which is remembered by `key`; as long as the memory is the slot's.

    And whether the array has what was put there last, since nobody else has used the slot.
    """
    kept = _kept.slots.get(slot)
    if kept is not None and key in kept.made:
        last, kept.last = kept.last, key
        return kept.made[key], last == key
    array = scratch(slot, (elements,), dtype)
    made = make(array)
    kept = _kept.slots.get(slot)
    if kept is not None and array.base is kept.buffer:
        if len(kept.made) >= _MOST:
            kept.made.clear()
        kept.made[key], kept.last = made, key
    return made, False
