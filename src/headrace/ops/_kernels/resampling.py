"""Resampling along an axis: every output is a weighted sum of a few inputs, its taps.

A two-dimensional method is one along rows and one along columns; of few channels, columns are turned into rows for it,
since NumPy's loops are as long as what lies side by side.  Places are computed in single precision, as
TensorFlow does, so that the same inputs are chosen.
Called by: ops.image.resizing.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/resize_*_op.cc, scale_and_translate_op.cc), compared with the oracle
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from headrace.ops._kernels.blocks import BLOCK
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops._kernels.scratch import scratch

Array = np.ndarray[Any, Any]
F = np.float32

_STEPS = 1 << 10  # of the table of cubic weights
_FEW = 8
_MOST_WEIGHTS = 1 << 16  # that are repeated for each channel of a line
_TAKEN, _GIVEN, _MADE = 0, 3, 4  # slots of scratch memory, beside those of ops.image.resizing
_KEPT = 1 << 12  # outputs along an axis whose places are kept


Spread = Callable[[Callable[[slice], object], list[slice]], object]
"""How pieces are worked on: one after the other, or side by side."""


def _pieces(count: int, width: int) -> list[slice]:
    some = max(BLOCK // max(width, 1), 1)
    return [slice(first, min(first + some, count)) for first in range(0, count, some)]


class Taps(NamedTuple):
    """Of an axis: output i is the sum over k of weights[i, k] times input indices[i, k].

    indices int64 [out, taps]; weights float32 [out, taps], 0 where there are fewer.
    """

    indices: Array
    weights: Array

    def along_rows(self, x: Array, out: Array, spread: Spread) -> None:
        """out [rows, width] = x [h, width], resampled from above to below."""
        used = self._used()
        pieces = _pieces(len(out), out.shape[1] * len(used) // 2)
        spread(lambda which: self._rows(x, out, used, which), pieces)

    def _rows(self, x: Array, out: Array, used: list[int], which: slice) -> None:
        """Some rows of `along_rows`: those they are made of side by side, then their sums."""
        at, weights = self.indices[which][:, used], self.weights[which][:, used]
        taken = scratch(_TAKEN, (at.size, x.shape[1]), out.dtype)
        np.take(x, at.ravel(), axis=0, out=taken, mode="clip")
        weights = weights.astype(out.dtype, copy=False)
        np.einsum("rkw,rk->rw", taken.reshape(*at.shape, -1), weights, out=out[which])

    def along_columns(self, x: Array, out: Array, spread: Spread) -> None:
        """out [lines, columns, c] = x [lines, w, c], resampled from left to right."""
        lines, columns, channels = out.shape
        used = self._used()
        work = self._turned_lines(x, out, used) if channels <= _FEW else self._lines(x, out, used)
        spread(work, _pieces(lines, columns * channels))

    def _turned_lines(self, x: Array, out: Array, used: list[int]) -> Callable[[slice], object]:
        """Of few channels: some lines as columns that lie below each other."""
        columns, channels = out.shape[1:]

        def some(which: slice) -> None:
            width = (which.stop - which.start) * channels
            given = scratch(_GIVEN, (x.shape[1], width), out.dtype)
            turned = given.reshape(len(given), -1, channels)
            for channel in range(channels):  # a copy of all would go over them pixel by pixel
                turned[..., channel] = x[which, :, channel].T
            made = scratch(_MADE, (columns, width), out.dtype)
            for piece in _pieces(columns, width * len(used) // 2):
                self._rows(given, made, used, piece)
            turned = made.reshape(columns, -1, channels)
            for channel in range(channels):
                out[which, :, channel] = turned[..., channel].T

        return some

    def _lines(self, x: Array, out: Array, used: list[int]) -> Callable[[slice], object]:
        """Of many channels: pixel by pixel."""
        each = []
        for at in used:
            weights = self.weights[:, at].astype(out.dtype, copy=False)
            if out[0].size <= _MOST_WEIGHTS:
                weights = np.repeat(weights, out.shape[2]).reshape(out.shape[1:])
            else:
                weights = weights[:, None]
            each.append((self.indices[:, at], weights))

        def some(which: slice) -> None:
            into = out[which]
            for number, (places, weights) in enumerate(each):
                taken = scratch(_TAKEN, into.shape, out.dtype) if number else into
                np.take(x[which], places, axis=1, out=taken, mode="clip")
                with as_they_lie(weights.size):
                    taken *= weights
                if number:
                    into += taken

        return some

    def _used(self) -> list[int]:
        """Taps that have weights; the first one in any case."""
        return [at for at in range(self.indices.shape[1]) if not at or self.weights[:, at].any()]

    def transposed(self, size: int) -> Taps:
        """Of the gradient: from outputs back to the `size` inputs."""
        to, weights = self.indices.ravel(), self.weights.ravel()
        used = np.flatnonzero(weights)
        order = used[np.argsort(to[used], kind="stable")]
        counts = np.bincount(to[order], minlength=size)
        most = max(int(counts.max(initial=0)), 1)
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        indices = np.zeros((size, most), np.int64)
        back = np.zeros((size, most), F)
        indices[to[order], place] = order // max(self.indices.shape[1], 1)
        back[to[order], place] = weights[order]
        return Taps(indices, back)


def step(size: int, out: int, align_corners: bool) -> np.float32:
    """How far apart outputs are, in inputs."""
    if align_corners and out > 1:
        return F(size - 1) / F(out - 1)
    return F(size) / F(out)


def places(size: int, out: int, align_corners: bool, half_pixel: bool) -> Array:
    """float32 [out]: where outputs lie among the inputs."""
    at = np.arange(out, dtype=F)
    each = step(size, out, align_corners)
    return (at + F(0.5)) * each - F(0.5) if half_pixel else at * each


class Linear(NamedTuple):
    """Neighbours of outputs, and how far they are from the lower ones."""

    lower: Array
    upper: Array
    share: Array

    def taps(self) -> Taps:
        """The same as two neighbours and their weights for each output."""
        return Taps(
            np.stack((self.lower, self.upper), 1), np.stack((1 - self.share, self.share), 1)
        )


def linear(size: int, out: int, align_corners: bool, half_pixel: bool) -> Linear:
    """Between two neighbours."""
    at = places(size, out, align_corners, half_pixel)
    floor = np.floor(at)
    lower = np.clip(floor.astype(np.int64), 0, size - 1)
    upper = np.clip(np.ceil(at).astype(np.int64), 0, size - 1)
    return Linear(lower, upper, at - floor)


class Between(NamedTuple):
    """As `Linear`, of an axis whose elements are `each` numbers that lie side by side: an index for each number.

    upper: None where all are the lower ones.  level: all are as far as the lower ones.  wanted: all inputs that are
    used, and lower_at, upper_at: the indices among those; None where nearly all are.
    """

    lower: Array
    upper: Array | None
    share: Array
    level: bool
    wanted: Array | None = None
    lower_at: Array | None = None
    upper_at: Array | None = None


_Places = tuple[int, int, bool, bool]
"""Size, outputs, align_corners and half_pixel_centers."""


def _spread(line: Linear, each: int) -> Between:
    """See `Between`."""
    parts = np.arange(each)
    lower, upper = ((at[:, None] * each + parts).ravel() for at in (line.lower, line.upper))
    same = np.array_equal(lower, upper)
    return Between(
        lower, None if same else upper, np.repeat(line.share, each), not line.share.any()
    )


@lru_cache(maxsize=256)
def _columns(places: _Places, channels: int) -> Between:
    return _spread(linear(*places), channels)


@lru_cache(maxsize=256)
def _rows(places: _Places) -> Between:
    line = _spread(linear(*places), 1)
    upper = line.lower if line.upper is None else line.upper
    wanted, where = np.unique(np.concatenate((line.lower, upper)), return_inverse=True)
    if len(wanted) == places[0]:
        return line
    count = len(line.lower)
    return line._replace(wanted=wanted, lower_at=where[:count], upper_at=where[count:])


def bilinear(x: Array, rows: _Places, columns: _Places) -> Array:
    """float32 [n, out rows, out columns, c] of x [n, h, w, c], in the order of operations of TensorFlow."""
    small = max(rows[1], columns[1]) <= _KEPT
    line = _rows(rows) if small else _rows.__wrapped__(rows)
    lower, upper = line.lower, line.upper
    exact = x.dtype.kind in "iu"
    count, _, width, channels = x.shape
    together = (
        channels if channels <= _FEW else 1
    )  # inner loops over few numbers take longer than those
    across = _columns(columns, together) if small else _columns.__wrapped__(columns, together)
    if exact and line.level and across.level:
        return _picked(x, line.lower, across.lower, together)
    if line.wanted is not None:
        assert line.lower_at is not None
        x = x[:, line.wanted]
        lower, upper = line.lower_at, None if upper is None else line.upper_at
    if x.dtype != F:
        x = x.astype(F)
    x = x.reshape(count, x.shape[1], width * together, channels // max(together, 1))
    share = across.share.reshape(-1, 1)
    wide = _mixed(x, across.lower, across.upper, across, share, exact, 2)
    made = _mixed(wide, lower, upper, line, line.share.reshape(-1, 1, 1), exact, 1)
    return made.reshape(count, len(line.lower), columns[1], channels)


def _picked(x: Array, rows: Array, columns: Array, together: int) -> Array:
    """float32 [n, rows, columns, c]: what lies where outputs do.  together: of the channels are a column each."""
    count, _, width, channels = x.shape
    x = np.take(x, rows, axis=1)
    x = x.reshape(count, len(rows), width * together, channels // max(together, 1))
    x = np.take(x, columns, axis=2)
    return x.astype(F).reshape(count, len(rows), -1, channels)


def _mixed(
    x: Array,
    lower: Array,
    upper: Array | None,
    line: Between,
    share: Array,
    exact: bool,
    axis: int = 2,
) -> Array:
    """lower + (upper - lower) * share; exact: there is nothing that is not finite."""
    found: Array
    first = np.take(x, lower, axis=axis)
    if exact and line.level:
        return first
    if upper is None:
        found = first - first
    else:
        found = np.take(x, upper, axis=axis)
        found -= first
    found *= share
    found += first
    return found


def nearest(size: int, out: int, align_corners: bool, half_pixel: bool) -> Array:
    """int64 [out]: the input of each output."""
    at = np.arange(out, dtype=F)
    if half_pixel:
        at = at + F(0.5)
    at = at * step(size, out, align_corners)
    whole = np.floor(at + F(0.5)) if align_corners else np.floor(at)
    return np.clip(whole.astype(np.int64), 0, size - 1)


def area(size: int, out: int, align_corners: bool) -> Taps:
    """The mean of what each output covers."""
    each = step(size, out, align_corners)
    at = np.arange(out, dtype=F)
    first, last = at * each, (at + F(1)) * each
    begin = np.floor(first).astype(np.int64)
    count = int((np.ceil(last).astype(np.int64) - begin).max(initial=1))
    inputs = begin[:, None] + np.arange(max(count, 1))
    low = np.maximum(inputs.astype(F), first[:, None])
    high = np.minimum((inputs + 1).astype(F), last[:, None])
    weights = np.maximum(high - low, F(0)) / each if each else np.zeros(inputs.shape, F)
    return Taps(np.clip(inputs, 0, size - 1), weights.astype(F))


def cubic(size: int, out: int, align_corners: bool, half_pixel: bool) -> Taps:
    """Four neighbours, by Keys's polynomial.

    half_pixel: of a = -0.5, and what lies outside has no weight; else of a = -0.75, and edges are repeated.
    """
    at = places(size, out, align_corners, half_pixel)
    floor = np.floor(at)
    table = _cubic_table(-0.5 if half_pixel else -0.75)
    near = np.rint((at - floor) * F(_STEPS)).astype(np.int64)
    far = _STEPS - near
    weights = np.stack((table[1, near], table[0, near], table[0, far], table[1, far]), 1)
    inputs = floor.astype(np.int64)[:, None] + np.arange(-1, 3)
    inside = np.clip(inputs, 0, size - 1)
    if half_pixel:
        weights = _normalized(np.where(inside == inputs, weights, F(0)))
    return Taps(inside, weights)


def _cubic_table(a: float) -> Array:
    x = np.arange(_STEPS + 1, dtype=np.float64) / _STEPS
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    x = x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.stack((near, far)).astype(F)


def _normalized(weights: Array) -> Array:
    total = weights.sum(axis=1, keepdims=True, dtype=F)
    big = np.abs(total) >= 1000 * np.finfo(F).tiny
    return np.where(big, weights / np.where(big, total, F(1)), weights).astype(F)


# -- kernels of ScaleAndTranslate -------------------------------------------------------------


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        turned = np.pi * np.maximum(x, 1e-3)
        found = radius * np.sin(turned) * np.sin(turned / radius) / (turned * turned)
        return np.where(x > radius, 0.0, np.where(x <= 1e-3, 1.0, found))

    return kernel


def _gaussian(x: Array) -> Array:
    return np.where(x >= 1.5, 0.0, np.exp(-x * x / (2.0 * 0.5 * 0.5)))


def _box(x: Array) -> Array:
    return np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))


def _triangle(x: Array) -> Array:
    return np.maximum(1.0 - x, 0.0)


def _keys(x: Array) -> Array:
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    near = ((1.5 * x - 2.5) * x) * x + 1.0
    return np.where(x >= 2, 0.0, np.where(x >= 1, far, near))


def _mitchell(x: Array) -> Array:
    far = (((-7 / 18) * x + 2.0) * x - 10 / 3) * x + 16 / 9
    near = (((7 / 6) * x - 2.0) * x) * x + 8 / 9
    return np.where(x >= 2, 0.0, np.where(x >= 1, far, near))


KERNELS: dict[bytes, tuple[float, Callable[[Array], Array]]] = {
    b"lanczos1": (1.0, _lanczos(1.0)),
    b"lanczos3": (3.0, _lanczos(3.0)),
    b"lanczos5": (5.0, _lanczos(5.0)),
    b"gaussian": (1.5, _gaussian),
    b"box": (0.5, _box),
    b"triangle": (1.0, _triangle),
    b"keyscubic": (2.0, _keys),
    b"mitchellcubic": (2.0, _mitchell),
}
"""By name: the radius, and the weight at a distance of 0 and more."""


def spans(
    kernel: bytes, size: int, out: int, scale: float, translation: float, antialias: bool
) -> Taps:
    """A kernel around each output; antialias: widened where outputs are fewer than inputs.

    Outputs that lie outside the inputs are 0.
    """
    radius, function = KERNELS[kernel]
    back = F(1) / F(scale)
    moved = -back * F(translation)
    wider = max(back, F(1)) if antialias else F(1)
    reach = F(radius) * wider
    at = (np.arange(out, dtype=F) + F(0.5)) * back + moved
    outside = (at < 0) | (at > size)
    safe = np.where(outside, F(0), at)
    first = np.clip(np.ceil(safe - reach - F(0.5)).astype(np.int64), 0, size - 1)
    last = np.clip(np.floor(safe + reach - F(0.5)).astype(np.int64), 0, size - 1)
    count = min(2 * math.ceil(reach) + 1, size)
    inputs = first[:, None] + np.arange(count)
    distance = np.abs((inputs.astype(F) + F(0.5) - safe[:, None]) * (F(1) / wider))
    weights = function(distance.astype(np.float64)).astype(F)
    weights = np.where((inputs <= last[:, None]) & ~outside[:, None], weights, F(0))
    return Taps(np.minimum(inputs, size - 1), _normalized(weights))
