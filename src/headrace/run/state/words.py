"""Words by number: strings that several nodes of a step look up are looked for once.

The words of a feature are few, and each batch has them again: what a table holds for a word, or what its fingerprint
is, is the same as in the step before.  So words get numbers, and who keeps something of each (`ByWord`) finds it for a
whole batch by one gather.  The last few batches are remembered, so that the nodes of a step that look at the same
strings share one search; strings are compared, so it does not matter whose they are.
Called by: run.state.tables, ops._kernels.fingerprints.  Threads: any; who adds words takes a lock, who looks none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

MOST: Final = 1 << 14  # words
_LONGEST: Final = 64  # bytes
_BATCHES: Final = 4  # that are remembered


class Words:
    """Words with numbers from 0 on.  listed: by number; of each there is the place before anybody can find it."""

    __slots__ = ("_lock", "_next", "listed", "place", "recent")

    def __init__(self) -> None:
        self.place: dict[bytes, int] = {}
        self.listed: list[bytes] = []
        self.recent: list[tuple[Sequence[bytes], Array]] = []
        self._next = 0
        self._lock = threading.Lock()

    def add(self, strings: Sequence[bytes]) -> bool:
        """Give them numbers; False if one is long, or there is no room."""
        with self._lock:
            for string in strings:
                if string not in self.place:
                    if len(string) > _LONGEST or len(self.listed) == MOST:
                        return False
                    self.listed.append(string)
                    self.place[string] = len(self.listed) - 1
        return True

    def remember(self, strings: Sequence[bytes], numbers: Array) -> None:
        """That they were looked for."""
        recent = [(strings, numbers), *self.recent]
        self.recent = recent[:_BATCHES]


_words = Words()


def numbered(strings: Sequence[bytes]) -> tuple[Words, Array] | None:
    """The number of each, and among which; None for what does not repeat.  Neither they nor the numbers may change."""
    global _words
    words, count = _words, len(strings)
    if not count or count > MOST:
        return None
    for known, numbers in words.recent:
        if known == strings:
            return words, numbers
    try:
        numbers = np.fromiter(map(words.place.__getitem__, strings), np.intp, count)
    except KeyError:
        different = dict.fromkeys(strings)
        if 2 * len(different) > count:
            return None
        if not words.add(list(different)):
            if len(words.listed) == MOST:
                _words = Words()
            return None
        numbers = np.fromiter(map(words.place.__getitem__, strings), np.intp, count)
    words.remember(strings, numbers)
    return words, numbers


class ByWord:
    """Something of each word, an element of an array.  of: (words) -> as many of them."""

    __slots__ = ("_kept", "_lock", "_of")

    def __init__(self, of: Callable[[Sequence[bytes]], Array]) -> None:
        self._of = of
        self._kept: tuple[Words, Array] | None = None
        self._lock = threading.Lock()

    def found(self, words: Words, numbers: Array) -> Array:
        """What belongs to each of the words with these numbers."""
        kept = self._kept
        if kept is None or kept[0] is not words or len(kept[1]) < len(words.listed):
            kept = self._more(words)
        return kept[1].take(numbers)

    def _more(self, words: Words) -> tuple[Words, Array]:
        """As `_kept`, of all words that there are now."""
        with self._lock:
            kept = self._kept
            if kept is None or kept[0] is not words:
                kept = words, self._of([])
            missing = words.listed[len(kept[1]) :]
            if missing:
                kept = words, np.concatenate([kept[1], self._of(missing)])
            self._kept = kept
        return kept
