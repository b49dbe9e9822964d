"""What normalizes pictures by channel: means and variances, the pictures without them, and the way back.

Pictures are looked at unit by unit (`ops._kernels.channels`): a unit's sum and the squares of what differs from its own
mean are found while it is in the cache, so that they are read once; means of units that differ make up the rest of the
variance.  What is found depends on shapes and values alone, not on which units are looked at together.

Where a mean is not far from 0, measured by the deviation around it, it need not be taken away first: what that spares
is a pass over the pictures, and what it costs are as many digits as the mean has more than the deviation, none or one.
Called by: ops.nn.batch_norm, plan.rules.  Threads: any; units may be looked at side by side, each once.
Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.ops._kernels.channels import Units
from headrace.ops._kernels.scratch import scratch

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_NEAR: Final = 4  # a mean's square, at most, in variances


def is_near(mean: Array, variance: Array, epsilon: float) -> bool:
    """Whether no channel's mean, [c] each, is far from 0."""
    return bool((np.square(mean) <= _NEAR * (variance + np.float32(epsilon))).all())


class Moments:
    """Mean and variance of each channel of pictures whose units are all looked at once."""

    def __init__(self, units: Units, dtype: np.dtype[Any]) -> None:
        self._units = units
        self._sums = np.empty((units.count, units.channels), dtype)
        self._squares = np.empty_like(self._sums)  # of what differs from the unit's mean

    def look(self, at: slice, lines: Array) -> None:
        """lines: of the units `at`."""
        units = self._units
        sums, squares = units.sums_with(lines, lines)
        self._sums[at] = sums
        means = sums / units.pixels
        of_mean = sums * means
        squares -= of_mean
        far = ~(of_mean <= _NEAR * squares).all(axis=1)
        if far.any():
            some = lines if far.all() else lines[far]
            off = scratch(0, some.shape, some.dtype)
            with units.as_they_lie():
                np.subtract(some, units.repeated(means[far])[:, None], out=off)
            squares[far] = units.sums_of_products(off, off)
        self._squares[at] = squares

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

    def __init__(
        self, units: Units, mean: Array, factor: Array, offset: Array, near: bool = False
    ) -> None:
        """near: whether `is_near` holds."""
        self._units, self._near = units, near
        if near:
            kind = np.result_type(mean, factor)
            whole = offset - mean.astype(np.float64) * factor
            self._factor, self._offset = map(units.repeated, (factor, whole.astype(kind)))
        else:
            self._mean, self._factor, self._offset = map(units.repeated, (mean, factor, offset))

    def __call__(self, lines: Array, into: Array) -> None:
        """into, which may be `lines`: normalized."""
        with self._units.as_they_lie():
            if self._near:
                np.multiply(lines, self._factor, out=into)
            else:
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
        self._near = is_near(mean, variance, epsilon)
        self._mean, self._means = mean, None if self._near else units.repeated(mean)
        self._sums = np.empty((2, units.count, units.channels), np.float32)

    def look(self, at: slice, dy: Array, x: Array) -> None:
        """dy, x: lines of the units `at`."""
        units = self._units
        if self._means is not None:
            off = scratch(0, x.shape, x.dtype)
            with units.as_they_lie():
                np.subtract(x, self._means, out=off)
            x = off
        self._sums[:, at] = units.sums_with(dy, x)

    def found(self) -> tuple[Array, Array]:
        """Gradients of scale and offset, [c] each; from then on lines go `through`."""
        with_one, with_x = self._sums.sum(1, dtype=np.float64)
        if self._means is None:
            with_x -= self._mean * with_one
        to_scale, to_offset = with_x.astype(np.float32), with_one.astype(np.float32)
        to_scale *= self._inverse
        units, count = self._units, np.float32(max(self._units.pixels * self._units.count, 1))
        factor, of_mean = self._scale * self._inverse, to_offset / count
        of_x = self._inverse * (to_scale / count)
        self._factor = units.repeated(factor)
        if self._near:
            of_x, of_mean = -factor * of_x, factor * (of_x * self._mean - of_mean)
        self._of_mean, self._of_x = units.repeated(of_mean), units.repeated(of_x)
        return to_scale, to_offset

    def through(self, dy: Array, x: Array, into: Array) -> None:
        """into = the gradient of x; lines of the same units.  It may be `dy`."""
        off = scratch(0, x.shape, x.dtype)
        with self._units.as_they_lie():
            if self._near:
                np.multiply(x, self._of_x, out=off)
                off += self._of_mean
                np.multiply(dy, self._factor, out=into)
                into += off
                return
            assert self._means is not None
            np.subtract(x, self._means, out=off)
            off *= self._of_x
            off += self._of_mean
            np.subtract(dy, off, out=into)
            np.multiply(into, self._factor, out=into)
