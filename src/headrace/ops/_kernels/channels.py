"""Pictures a few lines at a time, for arithmetic that has a number for each channel.

A line is as many pixels, one after the other in memory, as make it long: NumPy adds a vector of 16 channels to each of
1,000 pixels in 1,000 loops, and to 64 of them as one line in 16.  Lines are worked on in blocks that a cache holds.
Cuts depend on shapes alone, so results do not depend on who works on them.
Called by: ops.nn.batch_norm.  Threads: any; large pictures are shared by the task's worker pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from headrace.ops._kernels.blocks import BLOCK, LARGE
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_LONG = 1024  # elements of a line


class Lines(NamedTuple):
    """Pixels from `first` to `stop`, as lines of `pixels` each."""

    number: int
    first: int
    stop: int
    pixels: int

    def of(self, x: Array) -> Array:
        """x [n, c], contiguous: a view [lines, pixels * c]."""
        lines = (self.stop - self.first) // self.pixels
        return x[self.first : self.stop].reshape(lines, self.pixels * x.shape[1])

    def long(self, vector: Array) -> Array:
        """A vector [c] as often as a line has pixels."""
        return np.tile(vector, self.pixels)


def cuts(count: int, channels: int) -> list[Lines]:
    """`count` pixels as blocks of lines; the last block may have lines of one pixel."""
    pixels = max(_LONG // max(channels, 1), 1)
    each = max(BLOCK // max(pixels * channels, 1), 1) * pixels
    whole = count - count % pixels
    bounds = [(first, min(first + each, whole), pixels) for first in range(0, whole, each)]
    if whole < count:
        bounds.append((whole, count, 1))
    return [Lines(number, *bound) for number, bound in enumerate(bounds)]


def each(blocks: list[Lines], channels: int, work: Callable[[Lines], object]) -> None:
    """work(block) for all of them."""
    if blocks and blocks[-1].stop * channels >= LARGE:
        parallel_for(work, blocks)
    else:
        for block in blocks:
            work(block)


def sums(
    blocks: list[Lines],
    channels: int,
    dtype: Any,
    number: int,
    terms: Callable[[Lines], list[Array]],
) -> Array:
    """[number, channels]: for each channel the sums of what terms(block) gives, as many arrays [lines, pixels * c]."""
    found = np.zeros((len(blocks), number, channels), dtype)

    def one(block: Lines) -> None:
        for at, term in enumerate(terms(block)):
            found[block.number, at] = term.sum(0).reshape(block.pixels, channels).sum(0)

    each(blocks, channels, one)
    result: Array = found.sum(0)
    return result
