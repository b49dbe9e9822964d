"""What normalizes pictures by channel: means and variances, the pictures without them, and the way back.

Pictures are looked at unit by unit (`ops._kernels.channels`): a unit's sum and the squares of what differs from its own
mean are found while it is in the cache, so that they are read once; means of units that differ make up the rest of the
variance.  What is found depends on shapes alone, not on which units are looked at together.
Called by: ops.nn.batch_norm, plan.rules.  Threads: any; units may be looked at side by side, each once.
Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.ops._kernels.channels import Units
from headrace.ops._kernels.scratch import scratch

__all__: list[str] = []

Array = np.ndarray[Any, Any]


class Moments:
    """Mean and variance of each channel of pictures whose units are all looked at once."""

    def __init__(self, units: Units, dtype: np.dtype[Any]) -> None:
        self._units = units
        self._sums = np.empty((units.count, units.channels), dtype)
        self._squares = np.empty_like(self._sums)  # of what differs from the unit's mean

    def look(self, at: slice, lines: Array) -> None:
        """lines: of the units `at`."""
        units = self._units
        sums = units.sums(lines)
        means = units.repeated(sums / units.pixels)[:, None]
        off = np.subtract(lines, means, out=scratch(0, lines.shape, lines.dtype))
        self._sums[at], self._squares[at] = sums, units.sums(np.square(off, out=off))

    def found(self) -> tuple[Array, Array]:
        """[c] each; the variance is biased."""
        pixels, sums = self._units.pixels, self._sums
        mean = sums.sum(0, dtype=np.float64) / (pixels * len(sums))
        off = sums / np.float64(pixels) - mean
        squares = self._squares.sum(0, dtype=np.float64) + pixels * np.square(off).sum(0)
        kind = sums.dtype
        return mean.astype(kind), (squares / (pixels * len(sums))).astype(kind)


class Normalizing:
    """(x - mean) * factor + offset, of lines of units."""

    def __init__(self, units: Units, mean: Array, factor: Array, offset: Array) -> None:
        self._mean, self._factor, self._offset = map(units.repeated, (mean, factor, offset))

    def __call__(self, lines: Array, into: Array) -> None:
        """into, which may be `lines`: normalized."""
        # The mean first: what is far from 0 would lose the digits that it differs by.
        np.subtract(lines, self._mean, out=into)
        np.multiply(into, self._factor, out=into)
        np.add(into, self._offset, out=into)


class Back:
    """Gradients of what a batch's own statistics normalized: those of scale and offset, then that of x."""

    def __init__(
        self, units: Units, scale: Array, mean: Array, variance: Array, epsilon: float
    ) -> None:
        self._units, self._scale = units, scale
        self._inverse = 1 / np.sqrt(variance + np.float32(epsilon))
        self._mean = units.repeated(mean)
        self._sums = np.empty((2, units.count, units.channels), np.float32)

    def look(self, at: slice, dy: Array, x: Array) -> None:
        """dy, x: lines of the units `at`."""
        units = self._units
        off = np.subtract(x, self._mean, out=scratch(0, x.shape, x.dtype))
        self._sums[0, at] = units.sums(np.multiply(off, dy, out=off))
        self._sums[1, at] = units.sums(dy)

    def found(self) -> tuple[Array, Array]:
        """Gradients of scale and offset, [c] each; from then on lines go `through`."""
        to_scale, to_offset = self._sums.sum(1, dtype=np.float64).astype(np.float32)
        to_scale *= self._inverse
        units, count = self._units, np.float32(max(self._units.pixels * self._units.count, 1))
        self._factor = units.repeated(self._scale * self._inverse)
        self._of_mean = units.repeated(to_offset / count)
        self._of_x = units.repeated(self._inverse * (to_scale / count))
        return to_scale, to_offset

    def through(self, dy: Array, x: Array, into: Array) -> None:
        """into = the gradient of x; lines of the same units.  It may be `dy`."""
        off = np.subtract(x, self._mean, out=scratch(0, x.shape, x.dtype))
        off *= self._of_x
        off += self._of_mean
        np.subtract(dy, off, out=into)
        np.multiply(into, self._factor, out=into)
