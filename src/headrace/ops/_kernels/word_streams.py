"""Random numbers that are made one after the other of a stream's 32-bit words: TensorFlow's, for kernels that draw so.

A step reserves what it may need and reads from there on; what it leaves is lost.
Called by: ops.nn.  Threads: a `Words` belongs to one kernel's call.
Source: found by comparing with the oracle; Walker, "An efficient method for generating discrete random variables with
general distributions", 1977, for `Alias`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.random_streams import Stream

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_NONE: Final = np.empty(0, np.uint64)
_LEAST: Final = 64  # blocks that are made at a time
_MOST_AHEAD: Final = 256  # of a step, those of the next ones are made with


class Words:
    """The words of `stream` from where it is; `samples` of them are nobody else's.

    Raises nothing; more words than reserved are those that the next step gets.
    """

    def __init__(self, stream: Stream, samples: int) -> None:
        self._stream = stream
        self._reserved = -(-samples // 4)
        self._next = self._first = stream.reserve(self._reserved)
        self._left = _NONE

    def take(self, count: int) -> Array:
        """uint64 [count] of 32-bit numbers."""
        if count > len(self._left):
            blocks = max(-(-(count - len(self._left)) // 4), _LEAST)
            if self._next == self._first and blocks <= min(self._reserved, _MOST_AHEAD):
                made = self._stream.words_of_steps(self._next, blocks, self._reserved)
            else:
                made = self._stream.words(self._next, blocks)
            self._next += blocks
            self._left = np.concatenate([self._left, made.reshape(-1)])
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def first(self, count: int, make: Callable[[Array], Array]) -> Array:
        """make(words [1, count])[0] of the first words; those of the next steps are made with them.

        make: of words [n, count] what is wanted, each row for itself; the same function in each step.
        """
        blocks, rest = divmod(count, 4)
        if rest or self._next != self._first or blocks > min(self._reserved, _MOST_AHEAD):
            found: Array = make(self.take(count)[None])[0]
            return found
        self._next += blocks
        return self._stream.words_of_steps(self._first, blocks, self._reserved, make)

    def below(self, limit: int, count: int) -> Array:
        """int64 [count] in [0, limit), a word each."""
        return (self.take(count) % np.uint64(limit)).astype(np.int64)

    def below_wide(self, limit: int, count: int) -> Array:
        """int64 [count] in [0, limit), two words each."""
        return wide_below(self.take(2 * count), limit)

    def doubles(self, count: int) -> Array:
        """float64 [count] in [0, 1), two words each."""
        return doubles_of(self.take(2 * count))


def wide_below(words: Array, limit: int) -> Array:
    """int64 [.., n] in [0, limit) of words [.., 2 n]."""
    low, high = words[..., ::2], words[..., 1::2]
    return ((high << np.uint64(32) | low) % np.uint64(limit)).astype(np.int64)


def doubles_of(words: Array) -> Array:
    """float64 [.., n] in [0, 1) of words [.., 2 n]."""
    high, low = words[..., ::2], words[..., 1::2]
    bits = (np.uint64(1023) << np.uint64(52)) | (high & np.uint64(0xFFFFF)) << np.uint64(32)
    found: Array = np.ascontiguousarray(bits | low).view(np.float64) - 1.0
    return found


class Alias:
    """Numbers drawn by weight, each of one float and one word: every number has a share, and another's beside it."""

    def __init__(self, weights: Array) -> None:
        """weights [n], not all 0."""
        count = len(weights)
        total = 0.0
        for each in weights.tolist():  # as it is summed there, in order
            total += each
        shares = [each * count / total for each in weights.tolist()]
        other = list(range(count))
        low = [at for at, share in enumerate(shares) if share < 1.0]
        high = [at for at, share in enumerate(shares) if not share < 1.0]
        while low and high:
            small, large = low.pop(), high.pop()
            other[small] = large
            shares[large] -= 1.0 - shares[small]
            (low if shares[large] < 1.0 else high).append(large)
        for at in (*low, *high):  # 1 but for rounding
            shares[at] = 1.0
        self._shares, self._other = np.array(shares, np.float32), np.array(other, np.int64)

    def draw(self, words: Words, count: int) -> Array:
        """int64 [count]."""
        pairs = words.take(2 * count).reshape(-1, 2)
        bits = (pairs[:, 0] & np.uint64(0x7FFFFF) | np.uint64(127 << 23)).astype(np.uint32)
        at = (pairs[:, 1] % np.uint64(len(self._other))).astype(np.int64)
        own = bits.view(np.float32) - np.float32(1) < self._shares[at]
        return np.where(own, at, self._other[at])
