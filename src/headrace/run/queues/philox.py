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
_BEGUN: Final = 2  # rounds, before all four words depend on the lower half of the counter
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
    even, odd = philox_halves(seed, seed2, counters)
    return np.stack((even[0], odd[0], even[1], odd[1]), axis=1)


def philox_halves(seed: int, seed2: int, counters: Words) -> tuple[Words, Words]:
    """As `philox_words`: words 0 and 2, and words 1 and 3, each uint64 [2, n], which are the caller's own."""
    keys = _keys(seed)
    multiplied, added, room = np.empty((3, 2, len(counters)), np.uint64)
    high = int(counters[0]) >> 32 if len(counters) else 0
    if len(counters) and int(counters.max()) >> 32 == int(counters.min()) >> 32 == high:
        _begin(keys, high, seed2, counters, multiplied, added)
        keys = keys[_BEGUN:]
    else:
        np.bitwise_and(counters, _LOW32, multiplied[0])
        np.right_shift(counters, _SHIFT32, added[0])
        multiplied[1], added[1] = seed2 & 0xFFFFFFFF, seed2 >> 32
    for key in keys:
        np.multiply(multiplied, _MULTIPLIERS, multiplied)  # 32 x 32 bits: never overflows
        np.bitwise_and(multiplied, _LOW32, room)
        np.right_shift(multiplied, _SHIFT32, multiplied)
        np.bitwise_xor(added, key, added)
        np.bitwise_xor(multiplied, added[::-1], multiplied)
        # What one half gives belongs to the other one.
        multiplied, added, room = multiplied[::-1], room[::-1], added
    return multiplied, added


def _begin(
    keys: list[Words], high: int, seed2: int, counters: Words, multiplied: Words, added: Words
) -> None:
    """The first two rounds of counters whose upper halves are `high`: half of it is the same for all."""
    (first, second), (key, next_key) = (
        _MULTIPLIERS.ravel().tolist(),
        ((*k.ravel().tolist(),) for k in keys[:_BEGUN]),
    )
    product = second * (seed2 & 0xFFFFFFFF)
    one, other = multiplied
    np.bitwise_and(counters, _LOW32, one)
    np.multiply(one, np.uint64(first), one)
    np.bitwise_and(one, _LOW32, other)
    np.right_shift(one, _SHIFT32, one)
    np.bitwise_xor(one, np.uint64(seed2 >> 32 ^ key[1]), one)
    np.multiply(one, np.uint64(second), one)
    np.bitwise_and(one, _LOW32, added[0])
    np.right_shift(one, _SHIFT32, one)
    np.bitwise_xor(one, np.uint64(product & 0xFFFFFFFF ^ next_key[0]), one)
    product = first * (product >> 32 ^ high ^ key[0])
    np.bitwise_xor(other, np.uint64(product >> 32 ^ next_key[1]), other)
    added[1] = product & 0xFFFFFFFF


@functools.lru_cache(_KEYS_KEPT)
def _keys(seed: int) -> list[Words]:
    """The key of each round, [2, 1]."""
    first = np.array([[seed & 0xFFFFFFFF], [seed >> 32]], np.uint64)
    steps = np.arange(_ROUNDS, dtype=np.uint64)[:, None, None]
    return list((first + steps * _KEY_STEPS) & _LOW32)
