"""Lines of pixels that lie flat, two lines of outputs at a time, with four products instead of six.

`ops._kernels.flat` makes a product for each of a window's three lines and each line of outputs.  Two lines of outputs,
one below the other, are made of four lines of inputs d and the three lines of the filter g:

    m = (d0 - d2) g0,  (d1 + d2) (g0 + g1 + g2) / 2,  (d2 - d1) (g0 - g1 + g2) / 2,  (d3 - d1) g2
    y0 = m0 + m1 + m2,  y1 = m1 - m2 + m3

That is Winograd's minimal filtering along one dimension, for the points 0, 1, -1 and infinity; along the other one
windows lie as they do there.  Sums of two lines are made where a line would have been copied, so nothing is read more
often.  The gradient of the filters goes the same way back.  Rounding errors are about twice those of plain sums; what
is not finite spoils both lines of a pair.
Called by: ops._kernels.layouts.  Threads: any; the scratch memory is the thread's.
Source: Winograd, "Arithmetic complexity of computations", 1980
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.flat import GIVEN, LINES, PRODUCTS, SMALL, SUMS, Flat, view
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry

__all__: list[str] = []

_WINDOW = 3
_PLACES = 4  # of a pair of lines
_FEWEST = 24  # channels on either side: sums of lines cost as much whatever is on the other one
_WORTH = 0.8  # of the products that there would be, at most
_OF_INPUTS: Final[tuple[tuple[int, int, Callable[..., Any]], ...]] = (
    (0, 2, np.subtract),
    (1, 2, np.add),
    (2, 1, np.subtract),
    (3, 1, np.subtract),
)


class Pairs(Flat):
    """A Layout, see `ops._kernels.layouts`; the module header says how."""

    def __init__(self, where: Geometry, channels: int, made: int) -> None:
        """where: one that `fit`s."""
        super().__init__(where, channels, made)
        self._pairs = -(-where.out[0] // 2)
        self.shape = (_PLACES * self._width * channels, made)
        self.elements = _PLACES * self._pairs * self.line * (channels + made)
        self._pairs_together = self._lines_of_a_product(self._pairs)

    @staticmethod
    def fit(where: Geometry) -> bool:
        """Whether convolutions like that can be made so."""
        return Flat.fit(where) and where.window[0] == _WINDOW and where.dilations[0] == 1

    def gains(self) -> bool:
        """Whether it takes less time than lines one by one."""
        spared = _PLACES * self._pairs <= _WORTH * _WINDOW * self._where.out[0]
        return spared and min(self._channels, self._made) >= _FEWEST

    def matrix(self, filters: Array) -> Array:
        """See `layouts.Rows.matrix`."""
        first, middle, last = filters
        outer, half = (first + last) * 0.5, middle * 0.5
        found: Array = np.stack([first, outer + half, outer - half, last])
        return found.astype(filters.dtype, copy=False).reshape(self.shape)

    def filters(self, matrix: Array) -> Array:
        """See `layouts.Rows.filters`: of the gradient of `matrix` that of the filters."""
        first, plus, minus, last = matrix.reshape(_PLACES, *self._of_filters[1:])
        both = (plus + minus) * 0.5
        found: Array = np.stack([first + both, (plus - minus) * 0.5, both + last])
        return found.astype(matrix.dtype, copy=False)

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """See `layouts.Rows.convolve`."""
        n, width, c, m = len(x), self._width, self._channels, self._made
        lines, each = self._pairs_together, self._pairs * self.line
        stack, rows = n * self._pairs // lines, lines * self.line // width
        given, inside = self._room(LINES, x, self._where.pads[1][0])
        made = scratch(SUMS, (2, n, self._pairs, self.line, m), x.dtype)
        steps = (lines * self.line, 1, width)  # in pixels
        windows = view(given, 0, (stack, width, rows, width * c), (*[k * c for k in steps], 1))
        products = [
            view(made, at * n * each * m, (stack, width, rows, m), (*[k * m for k in steps], 1))
            for at in (0, 1)
        ]
        filters = matrix.reshape(_PLACES, width * c, m)
        one, other = made[:, :, :, : into.shape[2]]
        even, odd = into[:, ::2], into[:, 1::2]
        whole = odd.shape[1]
        with as_they_lie(into.shape[2] * m):
            for place, room in ((1, 0), (2, 1)):
                self._of_inputs(place, x, inside)
                np.matmul(windows, filters[place], out=products[room])
            np.add(one, other, out=even)
            np.subtract(one[:, :whole], other[:, :whole], out=odd)
            for place, room, total in ((0, 0, even), (3, 1, odd)):
                self._of_inputs(place, x, inside)
                np.matmul(windows, filters[place], out=products[room])
                total += made[room, :, : total.shape[1], : into.shape[2]]

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """See `layouts.Rows.multiply`."""
        n, width, c, m = len(x), self._width, self._channels, self._made
        each = self._pairs * self.line
        some = _most_together(n, SMALL // max(each * c * m, 1))
        stack, rows = n // some, some * each // width
        given, inside = self._room(LINES, x, self._where.pads[1][0])
        given_back, inside_back = self._room(GIVEN, dy, 0)
        windows = view(
            given,
            0,
            (stack, width, width * c, rows),
            (some * each * c, c, 1, width * c),
        )
        met = view(
            given_back,
            0,
            (stack, width, rows, m),
            (some * each * m, m, width * m, 1),
        )
        products = scratch(PRODUCTS, (stack, width, width * c, m), x.dtype)
        into = out.reshape(_PLACES, width * c, m)
        with as_they_lie(min(x.shape[2] * c, dy.shape[2] * m)):
            for place in range(_PLACES):
                self._of_inputs(place, x, inside)
                self._of_outputs(place, dy, inside_back)
                np.matmul(windows, met, out=products)
                np.add.reduce(products, axis=(0, 1), out=into[place])

    def _room(self, slot: int, x: Array, before: int) -> tuple[Array, Array]:
        """Scratch memory for every second line of x [n, lines, pixels, k], with zeros at their ends, `before` pixels at
        the start: flat, and where the pixels are to be, [n, pairs, pixels, k].
        """
        n, _, pixels, k = x.shape
        size = n * self._pairs * self.line
        found = scratch(slot, (size + self._width - 1, k), x.dtype)
        apart = found[:size].reshape(n, self._pairs, self.line, k)
        apart[:, :, :before] = 0
        apart[:, :, before + pixels :] = 0
        found[size:] = 0
        return found, apart[:, :, before : before + pixels]

    def _of_inputs(self, place: int, x: Array, into: Array) -> None:
        """into [n, pairs, pixels, c] = what the lines of x give to a product."""
        first, second, function = _OF_INPUTS[place]
        above = self._where.pads[0][0]
        _of_lines(function, x, first - above, second - above, into)

    def _of_outputs(self, place: int, dy: Array, into: Array) -> None:
        """into [n, pairs, pixels, m] = what the lines of dy give to a product."""
        even, odd = dy[:, ::2], dy[:, 1::2]
        whole = odd.shape[1]
        if place == 0:
            into[...] = even
            return
        if place == _PLACES - 1:
            into[:, :whole] = odd
            into[:, whole:] = 0
            return
        (np.add if place == 1 else np.subtract)(even[:, :whole], odd, out=into[:, :whole])
        into[:, whole:] = even[:, whole:]


def _most_together(count: int, most: int) -> int:
    """The largest divisor of `count` that is at most `most`, or 1."""
    return next((some for some in range(min(count, most), 1, -1) if count % some == 0), 1)


def _of_lines(function: Callable[..., Any], x: Array, first: int, second: int, into: Array) -> None:
    """into [n, pairs, pixels, c] = function of the lines `first` and `second` of x [n, lines, pixels, c], and of each
    second one after these; beyond the first and the last line there are zeros.
    """
    high, pairs = x.shape[1], into.shape[1]
    start = max(0, -(first // 2), -(second // 2))
    end = max(start, min(pairs, -(-(high - first) // 2), -(-(high - second) // 2)))
    if start < end:
        one, other = (x[:, at + 2 * start : at + 2 * end - 1 : 2] for at in (first, second))
        function(one, other, out=into[:, start:end])
    for pair in (*range(min(start, pairs)), *range(end, pairs)):
        lines = [
            x[:, at + 2 * pair] if 0 <= at + 2 * pair < high else x.dtype.type(0)
            for at in (first, second)
        ]
        function(*lines, out=into[:, pair])
