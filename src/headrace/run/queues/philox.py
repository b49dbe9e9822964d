"""Philox 4x32-10: TensorFlow's counter-based random numbers, one at a time.

Seeded alike, a shuffle queue hands out its elements in TensorFlow's order, number for number.
Numbers are made in blocks by NumPy and handed out in order; one costs a list lookup, many a slice.
Called by: run.queues.shuffle, under its queue's lock; ops._kernels.random_streams (`philox_words`).
Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; the key is the first
seed, the upper half of the counter the second, as in TF 1.15 core/lib/random/philox_random.h
"""

from __future__ import annotations

import functools
import os
from typing import Any, Final

import numpy as np

_ROUNDS: Final = 10
_MULTIPLIERS: Final = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
_KEY_STEPS: Final = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
_KEYS_KEPT: Final = 64  # seeds
_LOW32: Final = np.uint64(0xFFFFFFFF)
_SHIFT32: Final = np.uint64(32)
_FIRST_BLOCK: Final = 4  # counters; later blocks are larger
_LARGEST_BLOCK: Final = 2048  # 45 ns a number; with 512 it is 80, most of it calls of NumPy

Words = np.ndarray[Any, np.dtype[np.uint64]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Philox:
    """A stream of 32-bit numbers from two 64-bit seeds; both zero means seeds nobody knows."""

    __slots__ = ("_at", "_block", "_counter", "_listed", "_numbers", "_seeds")

    def __init__(self, seed: int, seed2: int) -> None:
        if seed == 0 and seed2 == 0:
            seed, seed2 = (int.from_bytes(os.urandom(8), "little") for _ in range(2))
        self._seeds = (seed & (2**64 - 1), seed2 & (2**64 - 1))
        self._counter = 0
        self._block = _FIRST_BLOCK
        self._numbers: Numbers = np.empty(0, np.int64)
        self._listed: list[int] | None = None  # the same, once one of them was asked for by itself
        self._at = 0

    def next(self) -> int:
        """The next number, in [0, 2**32)."""
        at = self._at
        if at == len(self._numbers):
            self._make_block()
            at = 0
        listed = self._listed
        if listed is None:
            listed = self._listed = self._numbers.tolist()
        self._at = at + 1
        return listed[at]

    def _make_block(self) -> None:
        self._numbers = philox_block(*self._seeds, self._counter, self._block)
        self._listed = None
        self._counter += self._block
        self._block = min(4 * self._block, _LARGEST_BLOCK)
        self._at = 0

    def many(self, count: int) -> Numbers:
        """The next `count` numbers."""
        end = self._at + count
        if end <= len(self._numbers):
            numbers = self._numbers[self._at : end]
            self._at = end
            return numbers
        pieces, missing = [self._numbers[self._at :]], end - len(self._numbers)
        while missing:
            self._make_block()
            self._at = min(missing, len(self._numbers))
            pieces.append(self._numbers[: self._at])
            missing -= self._at
        return np.concatenate(pieces)


def philox_block(seed: int, seed2: int, first: int, count: int) -> Numbers:
    """The 4 * count numbers of the counters first, first + 1, ... (64 bits, then it starts over)."""
    counters = np.arange(count, dtype=np.uint64) + np.uint64(first & (2**64 - 1))
    return philox_words(seed, seed2, counters).ravel().astype(np.int64)


def philox_words(seed: int, seed2: int, counters: Words) -> Words:
    """The 32-bit numbers of each of `counters` [n], as uint64 [n, 4]."""
    multiplied, added = np.empty((2, 2, len(counters)), np.uint64)  # words 0 and 2, 1 and 3
    multiplied[0], added[0] = counters & _LOW32, counters >> _SHIFT32
    multiplied[1], added[1] = seed2 & 0xFFFFFFFF, seed2 >> 32
    for key in _keys(seed):
        products = _MULTIPLIERS * multiplied  # 32 x 32 bits: never overflows
        added ^= key
        multiplied = (products >> _SHIFT32)[::-1]
        multiplied ^= added
        products &= _LOW32
        added = products[::-1]
    return np.stack((multiplied[0], added[0], multiplied[1], added[1]), axis=1)


@functools.lru_cache(_KEYS_KEPT)
def _keys(seed: int) -> list[Words]:
    """The key of each round, [2, 1]."""
    first = np.array([[seed & 0xFFFFFFFF], [seed >> 32]], np.uint64)
    steps = np.arange(_ROUNDS, dtype=np.uint64)[:, None, None]
    return list((first + steps * _KEY_STEPS) & _LOW32)
