"""Pictures a few lines at a time, for arithmetic that has a number for each channel.

A line is as many pixels, one after the other in memory, as make it long: NumPy adds a vector of 16 channels to each of
1,000 pixels in 1,000 loops, and to 64 of them as one line in 16.  Units have their sums apart: a picture, some if they
are small, a piece if it is large.  They are worked on in blocks that a cache holds.
Cuts depend on shapes alone, so results do not depend on who works on them.
Called by: ops._kernels.normalizing, ops.nn.batch_norm, ops.math.reductions, plan.rules.  Threads: any; large pictures
are shared by the task's worker pool.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import BLOCK, LARGE
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops._kernels.windows import parts
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_LONG = 1024  # elements of a line
_UNIT: Final = 2048  # elements of a unit, at least where there are as many


@functools.lru_cache(1024)
def _least_divisor(number: int, least: int) -> int:
    """The least divisor that is not below `least`, which is at most the number."""
    return next(each for each in range(least, number + 1) if number % each == 0)


class Units:
    """Of n pictures [pixels, channels], none of which is 0.

    count: of units.  pixels: of each.  in_picture: how many units a picture is; 0 if it is less than one.
    """

    def __init__(self, n: int, pixels: int, channels: int) -> None:
        of_picture = pixels * channels
        self.channels, self.in_picture = channels, 0
        if of_picture > BLOCK:
            cut = _least_divisor(pixels, -(-of_picture // BLOCK))
            self.in_picture = cut if of_picture // cut >= _UNIT else 1
            self.pixels = pixels // self.in_picture
        else:
            together = _least_divisor(n, min(-(-_UNIT // of_picture), n))
            if together * of_picture > BLOCK:
                together = 1
            self.in_picture = int(together == 1)
            self.pixels = together * pixels
        self.count = n * pixels // self.pixels
        most = max(min(_LONG // channels, self.pixels), 1)
        self._along = next(each for each in range(most, 0, -1) if self.pixels % each == 0)

    def lines(self, x: Array) -> Array:
        """Pictures, contiguous, of whole units: a view [units, lines, pixels of a line * c]."""
        along = self._along
        return x.reshape(-1, self.pixels // along, along * self.channels)

    def sums_of_products(self, lines: Array, others: Array) -> Array:
        """For each unit and channel, of products element by element: [units, c]."""
        long = np.einsum("ulk,ulk->uk", lines, others)
        found: Array = np.add.reduce(long.reshape(len(long), self._along, self.channels), axis=1)
        return found

    def sums_with(self, lines: Array, others: Array) -> Array:
        """For each unit and channel, of lines, and `sums_of_products` with others: [2, units, c]."""
        long = np.empty((2, len(lines), lines.shape[2]), lines.dtype)
        np.add.reduce(lines, axis=1, out=long[0])
        np.einsum("ulk,ulk->uk", lines, others, out=long[1])
        apart = long.reshape(2, len(lines), self._along, self.channels)
        found: Array = np.add.reduce(apart, axis=2)
        return found

    def repeated(self, vector: Array) -> Array:
        """A vector [.., c] as often as a line has pixels: [.., pixels * c]."""
        *lead, channels = vector.shape
        found = np.empty((*lead, self._along, channels), vector.dtype)
        found[...] = vector[..., None, :]
        return found.reshape(*lead, -1)

    def lines_of_same(self, pixels: Array) -> Array:
        """Pictures of equal pixels [n, c], as `lines`: a view that repeats one line.  Only if `in_picture`."""
        lines = np.repeat(self.repeated(pixels), self.in_picture, axis=0)[:, None]
        shape = (self.count, self.pixels // self._along, lines.shape[-1])
        return np.broadcast_to(lines, shape)

    def as_they_lie(self) -> as_they_lie:
        """For arithmetic of lines and vectors."""
        return as_they_lie(self._along * self.channels)

    def blocks(self) -> list[slice]:
        """Units that are worked on together."""
        some = max(BLOCK // (self.pixels * self.channels), 1)
        return [slice(first, min(first + some, self.count)) for first in range(0, self.count, some)]

    def each(self, work: Callable[[slice], object]) -> None:
        """work(units) for all blocks."""
        blocks = self.blocks()
        if self.count * self.pixels * self.channels >= LARGE:
            parallel_for(work, blocks)
        else:
            for block in blocks:
                work(block)


_FEWEST: Final = 1 << 14  # numbers of a picture that are worth it


def is_over_places(x: Array, axes: tuple[int, ...], kinds: str = "f") -> bool:
    """Whether `reduced_over_places` is for these axes: all but the last one, or but the first and the last one.

    kinds: of dtypes; bfloat16 is none of them.
    """
    rank = x.ndim
    if x.size < _FEWEST or rank < 2 or x.dtype.kind not in kinds or not x.flags.c_contiguous:
        return False
    if x.dtype.kind == "f" and x.dtype.itemsize < 4:
        return False
    first = rank - 1 - len(axes)
    if first not in (0, 1) or not all(-rank <= axis < rank for axis in axes):
        return False
    if {axis % rank for axis in axes} != set(range(first, rank - 1)):
        return False
    channels, places = x.shape[-1], math.prod(x.shape[first:-1])
    return bool(0 < 4 * channels <= _LONG and places * channels >= _FEWEST)


def reduced_over_places(ufunc: np.ufunc, x: Array, axes: tuple[int, ...]) -> Array:
    """Along all of these axes, where `is_over_places` holds: [c], or [n, c].

    ufunc: of which it does not matter in which order it is applied, such as np.add and np.maximum.
    """
    if len(axes) < x.ndim - 1 and len(x) > 1 and x.size >= LARGE:
        found = np.empty((len(x), x.shape[-1]), x.dtype)

        def some(part: slice) -> None:
            found[part] = _reduced(ufunc, x[part], axes)

        parallel_for(some, parts(len(x), x.nbytes // len(x), BLOCK * x.itemsize))
        return found
    return _reduced(ufunc, x, axes)


def _reduced(ufunc: np.ufunc, x: Array, axes: tuple[int, ...]) -> Array:
    n = 1 if len(axes) == x.ndim - 1 else len(x)
    channels, kind = x.shape[-1], x.dtype
    pixels = x.reshape(n, -1, channels)
    together = _LONG // channels
    whole = pixels.shape[1] - pixels.shape[1] % together
    lines = pixels[:, :whole].reshape(n, -1, together * channels)
    long = ufunc.reduce(lines, axis=1, dtype=kind)
    found: Array = ufunc.reduce(long.reshape(n, together, channels), axis=1, dtype=kind)
    if whole < pixels.shape[1]:
        ufunc(found, ufunc.reduce(pixels[:, whole:], axis=1, dtype=kind), out=found)
    return found[0] if len(axes) == x.ndim - 1 else found
