"""Pictures a few lines at a time, for arithmetic that has a number for each channel.

A line is as many pixels, one after the other in memory, as make it long: NumPy adds a vector of 16 channels to each of
1,000 pixels in 1,000 loops, and to 64 of them as one line in 16.  Lines are worked on in blocks that a cache holds.
Cuts depend on shapes alone, so results do not depend on who works on them.
Called by: ops.nn.batch_norm, ops.math.reductions.  Threads: any; large pictures are shared by the task's worker pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

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


class Repeated:
    """A vector [c] as often as a line has pixels, made once."""

    def __init__(self, vector: Array) -> None:
        self._vector = vector
        self._made: dict[int, Array] = {}  # by pixels; two threads may make it at once, and alike

    def along(self, block: Lines) -> Array:
        """For the lines of a block: [pixels * c]."""
        found = self._made.get(block.pixels)
        if found is None:
            found = self._made[block.pixels] = np.tile(self._vector, block.pixels)
        return found


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


_FEWEST: Final = 1 << 14  # numbers of a picture that are worth it


def is_over_places(x: Array, axes: tuple[int, ...]) -> bool:
    """Whether `sums_over_places` is for these axes: all but the last one, or but the first and the last one."""
    rank = x.ndim
    if rank < 2 or not x.size or x.dtype.kind != "f" or x.dtype.itemsize < 4:
        return False
    if not x.flags.c_contiguous:
        return False
    first = rank - 1 - len(axes)
    if first not in (0, 1) or not all(-rank <= axis < rank for axis in axes):
        return False
    if {axis % rank for axis in axes} != set(range(first, rank - 1)):
        return False
    channels, places = x.shape[-1], math.prod(x.shape[first:-1])
    return bool(0 < 4 * channels <= _LONG and places * channels >= _FEWEST)


def sums_over_places(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum along all of these axes, where `is_over_places` holds: [c], or [n, c]."""
    n = 1 if len(axes) == x.ndim - 1 else len(x)
    channels = x.shape[-1]
    pixels = x.reshape(n, -1, channels)
    together = _LONG // channels
    whole = pixels.shape[1] - pixels.shape[1] % together
    lines = np.add.reduce(pixels[:, :whole].reshape(n, -1, together * channels), axis=1)
    found: Array = np.add.reduce(lines.reshape(n, together, channels), axis=1)
    if whole < pixels.shape[1]:
        found += np.add.reduce(pixels[:, whole:], axis=1)
    if len(axes) == x.ndim - 1:
        found = found[0]
    return found
