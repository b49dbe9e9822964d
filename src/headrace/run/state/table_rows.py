"""Where the keys of a table stand: a dict of rows, and for whole numbers an index in arrays.

A dict finds a key in 0.2 µs if there are many and no cache holds them all, since it goes from pointer to pointer.
Whole numbers that are asked for are looked at together, so that the processor waits for many of them at once.
Numbers that are close to each other are found by their distance from the least.  Others have slots by a product (D. E.
Knuth, The Art of Computer Programming, volume 3, 6.4, multiplicative hashing by the golden ratio); those that are in
neither of two slots are few, and the dict has them.
Called by: run.state.tables.  Threads: any may look, who changes rows takes the table's lock; an index does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np

__all__: list[str] = []

Array = np.ndarray[Any, Any]

_SPREAD: Final = 8
"""How far apart numbers may be, on average, to be found by their distance."""
_MANY: Final = 1 << 12  # numbers from which the dict is slower
_FEW: Final = 64  # that are asked for, which the dict finds sooner
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_TRIES: Final = 2
_PATIENCE: Final = 15  # lookups


class Finder:
    """Finds many keys in a dict of rows, one after the other."""

    __slots__ = ("_missed",)

    def __init__(self) -> None:
        self._missed = 0  # so many lookups are made as if a key were missing, since one was

    def of(self, rows: Mapping[Any, int], keys: Sequence[Any]) -> Array:
        """The row of each, -1 where there is none."""
        count = len(keys)
        if self._missed > 0:
            self._missed -= 1
        elif count > 1:
            try:  # in two thirds of the time
                return np.fromiter(itemgetter(*keys)(rows), np.intp, count)
            except KeyError:
                self._missed = _PATIENCE
        return np.fromiter(map(rows.get, keys, repeat(-1)), np.intp, count)


def index_of(keys: Array, rows: Mapping[Any, int]) -> Callable[[Array], Array] | None:
    """A function of numbers, flat, that gives the row of each, -1 where there is none; None where `rows` does as well.

    keys: whole numbers, of which `rows` knows each and no others.  What is asked for is of their type.
    """
    if keys.dtype.kind not in "iu" or not len(keys):
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low < _SPREAD * len(keys):
        return _Close(keys, low, high, rows).find
    return _Hashed(keys.dtype, rows).find if len(rows) >= _MANY else None


class _Close:
    """Numbers that are close to each other."""

    def __init__(self, keys: Array, low: int, high: int, rows: Mapping[Any, int]) -> None:
        self._low = low
        self._rows = np.full(high - low + 1, -1, np.intp)
        self._rows[(keys - low).astype(np.intp)] = Finder().of(rows, keys.tolist())

    def find(self, asked: Array) -> Array:
        low, rows = self._low, self._rows
        inside = (asked >= low) & (asked < low + len(rows))
        places = np.where(inside, asked, low) - low
        return np.where(inside, rows[places.astype(np.intp)], -1)


class _Hashed:
    """Any numbers.  At most half of the slots are taken."""

    def __init__(self, kind: np.dtype[Any], rows: Mapping[Any, int]) -> None:
        self._all, self._finder = rows, Finder()
        count = len(rows)
        bits = (2 * count - 1).bit_length()
        self._shift, self._mask = np.uint64(64 - bits), (1 << bits) - 1
        keys = np.fromiter(rows, kind, count)
        numbers = np.fromiter(rows.values(), np.intp, count)
        places = self._places(keys)
        # Of an empty slot the row is -1, whatever its key is.
        self._keys = np.zeros(1 << bits, kind)
        self._rows: Array = np.full(1 << bits, -1, np.int32 if count < 1 << 31 else np.int64)
        left = np.arange(count)
        for _ in range(_TRIES):
            free = self._rows[places[left]] < 0
            mine = left[free]
            # Of those that want one slot, one gets it.
            self._rows[places[mine]] = numbers[mine]
            won = self._rows[places[mine]] == numbers[mine]
            self._keys[places[mine[won]]] = keys[mine[won]]
            left = np.concatenate([left[~free], mine[~won]])
            places = (places + 1) & self._mask

    def _places(self, keys: Array) -> Any:
        return (keys.astype(np.uint64) * _FACTOR >> self._shift).astype(np.intp)

    def find(self, asked: Array) -> Array:
        if len(asked) < _FEW:
            return self._finder.of(self._all, asked.tolist())
        places = self._places(asked)
        rows: Any = self._rows.take(places)
        same = self._keys.take(places) == asked
        found = np.where(same, rows, -1).astype(np.intp)
        left = np.flatnonzero(~same & (rows >= 0))
        for _ in range(_TRIES - 1):
            places = (places[left] + 1) & self._mask
            rows = self._rows.take(places)
            same = self._keys.take(places) == asked[left]
            found[left[same]] = rows[same]
            left = left[~same & (rows >= 0)]
        if len(left):
            found[left] = self._finder.of(self._all, asked[left].tolist())
        return found
