"""Poisson counts from a stream of random numbers: TensorFlow's counts for the same seeds.

Each output has 256 blocks of the stream to itself, in which it draws again until a number is accepted; the samples of a
rate are side by side.  Small rates multiply uniform numbers until the product is below
exp(-rate); from 10 on a transformed one is accepted or drawn again, two uniform numbers (one block) an attempt.
Called by: random_ops.  Threads: any.
Source: Knuth, The Art of Computer Programming 2, 3.4.1; Hörmann, "The transformed rejection method for generating
Poisson random variables", 1993 (PTRS); the order in which numbers are taken found by comparing with the oracle
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.random_streams import Stream, doubles_of, outputs_of

Array = np.ndarray[Any, Any]
_BLOCKS_PER_OUTPUT: Final = 256
_LARGE: Final = 10.0  # the smallest rate that is drawn by rejection


def poisson(stream: Stream, samples: int, rates: Array, largest: float) -> Array:
    """float64 [samples, len(rates)] of counts, at most `largest`; rates [n] of float64, finite and not negative.

    Rates must leave room below `largest`: a count above it is drawn again.
    """
    first = stream.reserve(_BLOCKS_PER_OUTPUT * samples * len(rates))
    counts = np.empty(len(rates) * samples)
    large = rates >= _LARGE
    for rows, draw in (
        (np.flatnonzero(~large), _by_products),
        (np.flatnonzero(large), _by_rejection),
    ):
        for outputs, row in outputs_of(rows, samples):
            starts = (first + _BLOCKS_PER_OUTPUT * outputs).astype(np.uint64)
            counts[outputs] = draw(stream, starts, rates[row], largest)
    return counts.reshape(len(rates), samples).T


def _pair(stream: Stream, blocks: Array) -> tuple[Array, Array]:
    """The two numbers in [0, 1) of each block, the one that is taken first before the other."""
    numbers = doubles_of(stream.words_at(blocks))
    return numbers[:, 1], numbers[:, 0]


def _of_each(function: Callable[[float], float], rates: Array) -> Array:
    """The C library's value for each of the rates, of which many are the same; NumPy's may differ in the last bit."""
    different, where = np.unique(rates, return_inverse=True)
    values: Array = np.fromiter(map(function, different.tolist()), np.float64, len(different))
    return values[where]


def _by_products(stream: Stream, starts: Array, rates: Array, largest: float) -> Array:
    """How many uniform numbers can be multiplied before the product is at most exp(-rate)."""
    limits = _of_each(math.exp, -rates)
    counts = np.zeros(len(starts))
    left, product = np.arange(len(starts)), np.ones(len(starts))
    blocks = starts.copy()
    while left.size:
        for number in _pair(stream, blocks):
            product *= number
            goes_on = product > limits
            counts[left[goes_on]] += 1
            product[~goes_on] = 0.0  # also after the second number of the pair
        left, product, limits = left[goes_on], product[goes_on], limits[goes_on]
        blocks = blocks[goes_on] + np.uint64(1)
    return counts


def _by_rejection(stream: Stream, starts: Array, rates: Array, largest: float) -> Array:
    """Hörmann's PTRS: its constants and names of variables."""
    log_rates = _of_each(math.log, rates)
    counts = np.empty(len(starts))
    left, blocks = np.arange(len(starts)), starts.copy()
    while left.size:
        rate = rates[left]
        b = 0.931 + 2.53 * np.sqrt(rate)
        a = -0.059 + 0.02483 * b
        v_r = 0.9277 - 3.6224 / (b - 2)
        u, v = _pair(stream, blocks)
        u = u - 0.5
        us = 0.5 - np.abs(u)
        with np.errstate(divide="ignore", invalid="ignore"):
            k = np.floor((2 * a / us + b) * u + rate + 0.43)
        fits = k <= largest
        accepted = fits & (us >= 0.07) & (v <= v_r)
        doubtful = np.flatnonzero(fits & ~accepted & (k >= 0) & ~((us < 0.013) & (v > us)))
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        for at in doubtful.tolist():
            bound = -rate[at] + k[at] * log_rates[left[at]] - math.lgamma(k[at] + 1)
            ratio = v[at] * inverse_alpha[at] / (a[at] / (us[at] * us[at]) + b[at])
            accepted[at] = (math.log(ratio) if ratio > 0 else -math.inf) <= bound
        counts[left[accepted]] = k[accepted]
        left, blocks = left[~accepted], blocks[~accepted] + np.uint64(1)
    return counts
