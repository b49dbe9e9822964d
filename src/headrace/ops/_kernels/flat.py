"""Lines of pixels one after the other, whose windows are matrices as they lie.

Where a window of w pixels moves by one, the windows of every w-th pixel follow each other in memory: w matrices, each a
pixel further on, have all windows, and nothing is laid out.  So that windows at the ends of lines meet zeros, lines are
copied with some between them, as many as make a line a multiple of w pixels; what the windows give that begin there is
not looked at.  Where those would be many, steps are longer than w: up to a line, of which each matrix has one window.
Along the other dimension a product is made for each place of the window, and lines are added up, as bands are
(`ops._kernels.layouts`).  For the filters' gradient the gradient of the output is copied with zeros in the same places:
what is not finite near the end of a line makes some of that gradient NaN.
Products are those of one picture, or of some of its lines: what they give does not depend on the pictures beside it.
Called by: ops._kernels.layouts.  Threads: any; the scratch memory is the thread's.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from headrace.ops._kernels.runs import as_they_lie
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry

__all__: list[str] = []

LINES, GIVEN, SUMS, PRODUCTS = (
    0,
    1,
    2,
    6,
)  # slots of scratch memory; others are of ops._kernels.convolving
SMALL = 1_000_000  # multiplications of a product that OpenBLAS may make of matrices as they lie, without packing them
FEWEST = 64  # rows of a product
_MATRICES = 4  # as many more of them cost as much as a window in vain


class Flat:
    """A Layout, see `ops._kernels.layouts`; the module header says how.

    positions: windows of a line that are multiplied.  starts: matrices that they are rows of.
    """

    alone = True
    """Whether what it gives for a picture does not depend on those beside it."""

    def __init__(self, where: Geometry, channels: int, made: int) -> None:
        """where: one that `fit`s."""
        self._where, self._channels, self._made = where, channels, made
        self._height, self._width = where.window
        least = where.size[1] + max(where.pads[1])
        self.line, self._step, self.starts = _steps(least, self._width, where.out[1])
        self.positions = self.starts * self.line // self._step
        self._of_filters = (*where.window, channels, made)
        self.shape = (math.prod(where.window) * channels, made)
        self.elements = where.size[0] * self.line * (channels + self._height * made)
        self._meet = [where.lines_at(place) for place in range(self._height)]
        self._together = self._lines_of_a_product(where.size[0])

    @staticmethod
    def fit(where: Geometry) -> bool:
        """Whether convolutions like that can be made so."""
        return (
            len(where.window) == 2
            and 0 not in (*where.out, *where.size)
            and where.window[1] > 1
            and max(where.pads[1]) < where.window[1]
            and where.dilations[1] == 1
            and all(n == 1 for n in where.strides)
        )

    def _lines_of_a_product(self, high: int) -> int:
        """Of as many lines of a picture as make a small one, if it has some rows; else all."""
        rows = self.line // self._step
        each = rows * self._width * self._channels * self._made
        for count in range(1, high + 1):
            lines = high // count
            if high % count == 0 and lines * each <= SMALL:
                return lines if lines * rows >= FEWEST else high
        return high

    def matrix(self, filters: Array) -> Array:
        """See `layouts.Rows.matrix`."""
        return filters.reshape(self.shape)

    def filters(self, matrix: Array) -> Array:
        """See `layouts.Rows.filters`."""
        return matrix.reshape(self._of_filters)

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """See `layouts.Rows.convolve`."""
        given = self._flat(LINES, x, self._where.pads[1][0])
        width, lines = self._width, self._together
        c, m, step = self._channels, self._made, self._step
        stack, rows = len(x) * self._where.size[0] // lines, lines * self.line // step
        sums = scratch(SUMS, (self._height, len(x), self._where.size[0], self.line, m), x.dtype)
        windows = view(
            given,
            0,
            (stack, self.starts, rows, width * c),
            (lines * self.line * c, c, step * c, 1),
        )
        products = view(
            sums,
            0,
            (self._height, stack, self.starts, rows, m),
            (
                len(x) * self._where.size[0] * self.line * m,
                lines * self.line * m,
                m,
                step * m,
                1,
            ),
        )
        np.matmul(windows, matrix.reshape(self._height, 1, 1, width * c, m), out=products)
        with as_they_lie(into.shape[2] * m):
            self._added(sums[:, :, :, : into.shape[2]], into)

    def _added(self, sums: Array, into: Array) -> None:
        """into [n, *out, m] = what the lines give at each place [places, n, lines, out, m]."""
        places = sorted(range(self._height), key=lambda place: self._spare(place))
        first, *others = places
        covered, _ = self._meet[first]
        if covered != slice(0, into.shape[1]):
            into[...] = 0
            others = places
        elif others:
            second = others.pop(0)
            both = self._meet[second][0]
            of_first, of_second = self._meet[first][1], self._meet[second][1]
            for some in (slice(0, both.start), slice(both.stop, into.shape[1])):
                if some.start < some.stop:
                    into[:, some] = sums[first][:, _from(of_first, some)]
            np.add(
                sums[first][:, _from(of_first, both)],
                sums[second][:, of_second],
                out=into[:, both],
            )
        else:
            into[...] = sums[first][:, self._meet[first][1]]
        for place in others:
            of_output, of_input = self._meet[place]
            into[:, of_output] += sums[place][:, of_input]

    def _spare(self, place: int) -> int:
        """Lines of the output that get nothing at this place."""
        of_output, _ = self._meet[place]
        lines: int = of_output.stop - of_output.start
        return self._where.out[0] - lines

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """See `layouts.Rows.multiply`."""
        given = self._flat(LINES, x, self._where.pads[1][0])
        given_back = self._flat(GIVEN, dy, 0)
        n, width, c, m = len(x), self._width, self._channels, self._made
        step, starts = self._step, self.starts
        into = out.reshape(self._height, width * c, m)
        products = scratch(PRODUCTS, (n, starts, width * c, m), x.dtype)
        for place, (of_output, of_input) in enumerate(self._meet):
            rows = (of_output.stop - of_output.start) * self.line // step
            windows = view(
                given,
                of_input.start * self.line * c,
                (n, starts, width * c, rows),
                (self._where.size[0] * self.line * c, c, 1, step * c),
            )
            met = view(
                given_back,
                of_output.start * self.line * m,
                (n, starts, rows, m),
                (self._where.out[0] * self.line * m, m, step * m, 1),
            )
            np.matmul(windows, met, out=products)
            np.add.reduce(products, axis=(0, 1), out=into[place])

    def _flat(self, slot: int, x: Array, before: int) -> Array:
        """x [n, lines, pixels, k] in scratch memory, `before` zeros and more after each line: [n · lines · line, k]."""
        n, lines, pixels, k = x.shape
        found = scratch(slot, (n * lines * self.line + self._width - 1, k), x.dtype)
        apart = found[: n * lines * self.line].reshape(n, lines, self.line, k)
        apart[:, :, :before] = 0
        apart[:, :, before : before + pixels] = x
        apart[:, :, before + pixels :] = 0
        found[n * lines * self.line :] = 0
        return found


@functools.cache
def _steps(least: int, window: int, out: int) -> tuple[int, int, int]:
    """Of lines of at least so many pixels: (pixels of a line, the step from a window to the next one of its matrix, how
    many matrices there are), so that few windows are in vain; matrices count a little, too.
    """
    found = []
    for step in range(window, max(least, window) + 1):
        line = -(-least // step) * step
        starts = out if step == line else step
        found.append((starts * (line // step) + starts / _MATRICES, line, step, starts))
    return min(found)[1:]


def _from(lines: slice, some: slice) -> slice:
    """Of lines of the input that meet those of the output from 0 on: what meets `some`."""
    return slice(lines.start + some.start, lines.start + some.stop)


def view(buffer: Array, first: int, shape: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Of a contiguous array: from its element `first` on, with steps of as many elements."""
    item = buffer.itemsize
    strides = tuple([step * item for step in steps])
    return np.ndarray(shape, buffer.dtype, buffer, first * item, strides)
