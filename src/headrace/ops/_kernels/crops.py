"""Crops of images in another size, and what their gradients give back: some lines, or crops, after the others.

A pixel is a row of channels of all images' pixels, taken or changed by its number, which takes a fraction of the time
that an index of three arrays takes.
Called by: ops.image.boxes.  Threads: any; large ones are shared by the task's worker pool.
"""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.ops._kernels.blocks import over_rows
from headrace.ops._kernels.row_sums import sums_of_rows
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops._kernels.scratch import scratch
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
F = np.float32
_RIGHT, _BOTTOM, _GIVEN, _CORNERS = range(4)  # slots of scratch memory; of four corners
_SMALL: Final = 1 << 14  # numbers of gradients that are not worth being put in order
_THIN: Final = 8  # channels, of which each by itself is summed up sooner than rows of them
_FEW: Final = 32  # channels, below which a share is repeated for each of them


class Line(NamedTuple):
    """Of each box: where the crop's rows (or columns) lie in the image.  All [boxes, size]."""

    inside: Array
    at: Array
    low: Array
    high: Array
    share: Array


class Crops:
    """Of images [n, h, w, c] of that shape.

    rows, columns: of crops.  box_ind [boxes]: of which image each crop is.
    """

    def __init__(self, shape: tuple[int, ...], rows: Line, columns: Line, box_ind: Array) -> None:
        self._width, self._channels = shape[2], shape[3]
        self._rows, self._columns = rows, columns
        self._first = box_ind.astype(np.int64) * shape[1]
        self._pixels = shape[0] * shape[1] * shape[2]
        self.size = len(box_ind), rows.low.shape[1], columns.low.shape[1]
        self.inside = rows.inside[:, :, None] & columns.inside[:, None, :]

    def _lines(self, rows: Array) -> Array:
        """The numbers of the first pixels of the images' lines: [boxes * rows, 1]."""
        return ((self._first[:, None] + rows) * self._width).reshape(-1, 1)

    def _take(self, pixels: Array, line: Array, columns: Array, slot: int) -> Array:
        """float32 [lines, columns * c] of pixels [n, c]; columns: of each line."""
        at = (line + columns).ravel()
        shape = len(at), self._channels
        if pixels.dtype == F:
            found = np.take(pixels, at, axis=0, out=scratch(slot, shape, pixels.dtype), mode="clip")
        else:
            found = scratch(slot, shape, np.dtype(F))
            found[...] = pixels[at]
        return found.reshape(len(line), -1)

    def _mix(self, low: Array, high: Array, share: Array) -> None:
        """low += (high - low) * share; high is changed, too.  share: of each pixel, or of each channel of it."""
        high -= low
        if share.size == high.size:
            high *= share
        else:
            by_pixel = high.reshape(share.size, -1)
            with as_they_lie(self._channels):
                by_pixel *= share.reshape(-1, 1)
        low += high

    def made(self, image: Array, nearest: bool, outside: np.float32) -> Array:
        """float32 [boxes, rows, columns, c]."""
        count, height, width = self.size
        channels = self._channels
        out = np.empty((count, height, width, channels), F)
        if not out.size:
            return out
        pixels, lines = image.reshape(-1, channels), out.reshape(count * height, -1)
        low, high = self._lines(self._rows.low), self._lines(self._rows.high)
        left, right, across = self._columns.low, self._columns.high, self._columns.share
        down = self._rows.share.reshape(-1, 1)
        if channels < _FEW:
            across = np.repeat(across, channels, axis=1)
        missing = ~self.inside.reshape(count * height, width)
        any_missing = bool(missing.any())

        def some(which: slice) -> None:
            box, made = np.arange(which.start, which.stop) // height, lines[which]
            columns = left[box]
            if pixels.dtype == F:
                at = (low[which] + columns).ravel()
                np.take(pixels, at, axis=0, out=made.reshape(len(at), -1), mode="clip")
            else:
                made[...] = self._take(pixels, low[which], columns, _RIGHT)
            if not nearest:
                others, share = right[box], across[box]
                self._mix(made, self._take(pixels, low[which], others, _RIGHT), share)
                bottom = self._take(pixels, high[which], columns, _BOTTOM)
                self._mix(bottom, self._take(pixels, high[which], others, _RIGHT), share)
                bottom -= made
                bottom *= down[which]
                made += bottom
            if any_missing:
                made.reshape(-1, channels)[missing[which].ravel()] = outside

        over_rows(count * height, width * channels, some)
        return out

    def to_image(self, grads: Array, nearest: bool, dtype: np.dtype[Any]) -> Array:
        """[n * h * w, c]: what pixels get of grads [boxes, rows, columns, c], by one corner after the other."""
        if not grads.size:
            return np.zeros((self._pixels, self._channels), dtype)
        rows, columns = self._rows, self._columns
        (used,) = self.inside.ravel().nonzero()
        across, down = columns.share[:, None, :], rows.share[:, :, None]
        corners = [(rows.low, columns.low, (1 - down) * (1 - across))]
        if not nearest:
            corners += [
                (rows.low, columns.high, (1 - down) * across),
                (rows.high, columns.low, down * (1 - across)),
                (rows.high, columns.high, down * across),
            ]
        ids = np.concatenate([self._numbers(row, column)[used] for row, column, _ in corners])
        weights = np.concatenate([weight.ravel()[used] for *_, weight in corners])[:, None]
        given = grads.reshape(-1, self._channels)
        if grads.size < _SMALL:
            made = np.zeros((self._pixels, self._channels), dtype)
            np.add.at(made, ids, given[np.tile(used, len(corners))] * weights)
            return made

        if self._channels <= _THIN:
            return self._counted(given, used, ids, weights[:, 0], dtype)

        def of(numbers: Array, out: Array) -> None:
            if out.dtype != given.dtype:
                out[...] = given[used[numbers % len(used)]] * weights[numbers]
                return
            np.take(given, used[numbers % len(used)], axis=0, out=out, mode="clip")
            with as_they_lie(out.shape[1]):
                out *= weights[numbers]

        return sums_of_rows(ids, self._pixels, self._channels, dtype, of)

    def _counted(
        self, given: Array, used: Array, ids: Array, weights: Array, dtype: np.dtype[Any]
    ) -> Array:
        """As `to_image`, a channel at a time, summed up in double precision and rounded once."""
        made = np.empty((self._pixels, self._channels), dtype)
        corners = len(ids) // len(used) if len(used) else 0

        def channel(number: int) -> None:
            parts = np.tile(given[used, number], corners)
            parts *= weights
            made[:, number] = np.bincount(ids, parts, self._pixels)

        parallel_for(channel, range(self._channels))
        return made

    def _numbers(self, row: Array, column: Array) -> Array:
        """Of pixels, for each of all crops."""
        lines = (self._first[:, None] + row) * self._width
        found: Array = (lines[:, :, None] + column[:, None, :]).ravel()
        return found

    def slopes(self, grads: Array, image: Array) -> tuple[Array, Array]:
        """Of each crop's rows [boxes, rows], and of its columns [boxes, columns]."""
        count, height, width = self.size
        shape = height, width, self._channels
        by_row, by_column = np.zeros((count, height), F), np.zeros((count, width), F)
        if not grads.size:
            return by_row, by_column
        pixels = image.reshape(-1, self._channels)
        lines = [self._lines(each).reshape(count, -1) for each in (self._rows.low, self._rows.high)]
        corners = [*itertools.product(lines, (self._columns.low, self._columns.high))]

        def some(which: slice) -> None:
            given = scratch(_GIVEN, (which.stop - which.start, *shape), np.dtype(F))
            given[...] = grads[which]
            given[~self.inside[which]] = 0
            one, two, three, four = (
                self._corner(pixels, lines[which], columns[which], slot).reshape(given.shape)
                for slot, (lines, columns) in enumerate(corners, _CORNERS)
            )
            left, right = (scratch(slot, given.shape, given.dtype) for slot in (_RIGHT, _BOTTOM))
            np.subtract(three, one, out=left)
            np.subtract(four, two, out=right)
            two -= one
            four -= three
            across = self._columns.share[which, None, :, None]
            down = self._rows.share[which, :, None, None]
            by_row[which] = _mean(left, right, across, given).sum(axis=(2, 3))
            by_column[which] = _mean(two, four, down, given).sum(axis=(1, 3))

        over_rows(count, height * width * self._channels, some)
        return by_row, by_column

    def _corner(self, pixels: Array, lines: Array, columns: Array, slot: int) -> Array:
        height, width = self.size[1:]
        of_each = np.broadcast_to(columns[:, None], (len(columns), height, width))
        return self._take(pixels, lines.reshape(-1, 1), of_each.reshape(-1, width), slot)


def _mean(first: Array, second: Array, share: Array, given: Array) -> Array:
    """given * (first * (1 - share) + second * share), all of which but `given` is changed."""
    with as_they_lie(first.shape[-1]):
        first *= 1 - share
        second *= share
    first += second
    first *= given
    return first
