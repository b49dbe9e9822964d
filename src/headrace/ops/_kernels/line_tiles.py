"""Lines of pixels that lie flat, several lines of outputs at a time, with fewer products than one after the other.

`ops._kernels.flat` makes a product for each of a window's w lines and each line of outputs.  A tile of m lines of
outputs is made of the m + w - 1 lines of inputs d that it meets and of the w lines of the filter g, as

    A ((G g) * (B d))

with one product for each of m + w - 1 places instead of m w: Winograd's minimal filtering along one dimension; along
the other one windows lie as they do there.  G, B and A are small matrices (`ops._kernels.winograd`).  B and A are
multiplied with whole lines, which are read where they are.  The gradient of the filters goes the same way back, through
the transposes.  Rounding errors grow with the number of places; what is not finite spoils all lines of its tile.
Called by: ops._kernels.layouts.  Threads: any; the scratch memory is the thread's.
Source: Winograd, "Arithmetic complexity of computations", 1980; Lavin, Gray, as in ops._kernels.winograd
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.flat import FEWEST, GIVEN, LINES, PRODUCTS, SMALL, SUMS, Flat, view
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry
from headrace.ops._kernels.winograd import AT_ONCE, POINTS, minimal_filtering
from headrace.run.exec.blas import multiplies_as_they_lie

__all__: list[str] = []

_TURNING: Final = 3.0  # what a multiplication with B or A takes, where one of a product takes 1
_ADDING: Final = 10.0  # what it takes to write an element of a product and add it elsewhere
_WRITING: Final = 16.0  # what it takes to write an element of a product
_COPYING: Final = 120.0  # what it takes to copy an element of a window elsewhere
_OF_ONE: Final = 85.0  # the same where there is one channel: runs of a line are copied
_WORTH: Final = 0.85  # of the time that all products take, at most
# The same for columns, where BLAS copies what it multiplies, too; their products are the better ones.  A product has
# eight rows there at least, and an element of the outputs' gradient takes that much to copy.
_COPYING_RUNS: Final = 10.0
_WORTH_OF_RUNS: Final = 1.25
_FEWEST_ROWS: Final = 8
_PACKING: Final = 2.5
_SUMMED: Final = 1024  # pixels of a sum: longer ones have larger errors
_MOST: Final = 1 << 18  # elements of a place of the filters, which should stay in a cache
_LEAST: Final = 1 << 22  # multiplications that are worth the calls


class LineTiles(Flat):
    """A Layout, see `ops._kernels.layouts`; the module header says how."""

    def __init__(self, where: Geometry, channels: int, made: int) -> None:
        """where: one that `fit`s."""
        super().__init__(where, channels, made)
        self._each = min(_sizes(self._height), key=self._cost)
        self._places = self._each + self._height - 1
        self._tiles = -(-where.out[0] // self._each)
        self.shape = (self._places * self._width * channels, made)
        self.elements = self._places * self._tiles * self.line * (channels + made)
        self._in_picture = self._tiles * self.line // self._step  # rows, from each start
        self._together = self._lines_of_a_product(self._tiles)
        self.alone = self._together * self.line // self._step >= FEWEST

    @staticmethod
    def fit(where: Geometry) -> bool:
        """Whether convolutions like that can be made so."""
        return Flat.fit(where) and where.dilations[0] == 1 and bool(_sizes(where.window[0]))

    def gains(self, count: int, gradient: bool) -> bool:
        """Whether `count` pictures take less time than all products, whose windows are copied."""
        terms = math.prod(self._where.window) * math.prod(self._where.out) * self._channels
        of_place = math.prod(self.shape) // self._places
        if terms * self._made * count < _LEAST or of_place > _MOST:
            return False
        if self._width * self._channels < self._where.out[1] and not multiplies_as_they_lie():
            most = _WORTH_OF_RUNS * terms * (self._made + _COPYING_RUNS)
            return (self._work_of_packed(count) if gradient else self.work(count, False)) <= most
        copying = _COPYING if self._channels > 1 else _OF_ONE
        return self.work(count, gradient) <= _WORTH * terms * (self._made + copying)

    def work(self, count: int, gradient: bool) -> float:
        """What a picture of `count` takes, in multiplications; an estimate fitted to measurements."""
        found: float = self.positions * self._cost(self._each)
        found += _TURNING * self._height * math.prod(self.shape) / count
        if gradient:
            together = max(min(AT_ONCE // (4 * self.elements), -(-count // 8)), 1)
            number = -(-together * self._tiles * self.line // self._summed())
            found += _ADDING * number * math.prod(self.shape) / together
        return found

    def _work_of_packed(self, count: int) -> float:
        """`work` of a gradient where BLAS copies what it multiplies, for few channels."""
        rows = max(self._channels, _FEWEST_ROWS) - self._channels + _PACKING
        of_column = self._tiles * self._places * self._width * rows * self._made
        return self.work(count, True) + self.positions * of_column

    def _cost(self, each: int) -> float:
        """What tiles of `each` lines take for a column of pixels, in multiplications."""
        places = each + self._height - 1
        product = (self._width * self._channels + _WRITING) * self._made
        around = _TURNING * (places * self._channels + each * self._made)
        return -(-self._where.out[0] // each) * places * (product + around)

    def matrix(self, filters: Array) -> Array:
        """See `layouts.Rows.matrix`."""
        of_filters = _matrices(self._each, self._height, filters.dtype)[0]
        found: Array = np.matmul(of_filters, filters.reshape(self._height, -1))
        return found.reshape(self.shape)

    def filters(self, matrix: Array) -> Array:
        """See `layouts.Rows.filters`: of the gradient of `matrix` that of the filters."""
        of_filters = _matrices(self._each, self._height, matrix.dtype)[0]
        found: Array = np.matmul(of_filters.T, matrix.reshape(self._places, -1))
        return found.reshape(self._of_filters)

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """See `layouts.Rows.convolve`."""
        self._convolve(self._of_inputs(x), matrix, into)

    def _convolve(self, given: _Room, matrix: Array, into: Array) -> None:
        width, c, m = self._width, self._channels, self._made
        _, _, of_outputs = _matrices(self._each, self._height, into.dtype)
        made = self._room(SUMS, len(into), m, into.dtype)
        filters = matrix.reshape(self._places, 1, 1, width * c, m)
        for some in self._products(len(into)):
            np.matmul(given.rows(some, width), filters, out=made.rows(some, 1))
        _to_lines(made.tiles(0, into.shape[2]), of_outputs, into)

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """See `layouts.Rows.multiply`; for each pixel of the window, what lies as far further on times the gradient."""
        self._multiply(x, self._of_outputs(dy), 0, out)

    def _multiply(self, x: Array, given_back: _Room, before: int, out: Array) -> None:
        """before: where the pixels of the outputs' gradient begin in their lines."""
        given = self._of_inputs(x)
        pixels = len(x) * self._tiles * self.line
        into = out.reshape(self._places, self._width, self._channels, self._made)
        cuts = list(_shares(pixels, self._summed()))
        count = sum(stack for _, stack, _ in cuts)
        sums = scratch(PRODUCTS, (count, *into.shape), x.dtype) if count > 1 else into[None]
        at = 0
        for first, stack, some in cuts:
            np.matmul(
                given.pixels(first, stack, some, self._width).swapaxes(3, 4),
                given_back.pixels(first + before, stack, some, 1),
                out=sums[at : at + stack].swapaxes(0, 1),
            )
            at += stack
        if count > 1:
            np.add.reduce(sums, axis=0, out=into)

    def _summed(self) -> int:
        """Pixels whose products make up the filters' gradient in one sum."""
        few = SMALL // (self._channels * self._made)
        return min(few, _SUMMED) if few >= FEWEST else SMALL

    def _products(self, n: int) -> Iterator[tuple[int, int, int]]:
        """What is multiplied at a time: (the first row, how many products, rows of each)."""
        each = self._in_picture
        if self.alone:
            rows = self._together * self.line // self._step
            yield 0, n * each // rows, rows
            return
        most = SMALL // max(each * self._width * self._channels * self._made, 1)
        for first, stack, pictures in _shares(n, most):
            yield first * each, stack, pictures * each

    def _of_inputs(self, x: Array) -> _Room:
        """What the lines of x give at each place."""
        (above, _), (before, _) = self._where.pads
        room = self._room(LINES, len(x), self._channels, x.dtype)
        room.clear(before, x.shape[2])
        of_inputs = _matrices(self._each, self._height, x.dtype)[1]
        _of_tiles(x, of_inputs, self._each, -above, room.tiles(before, x.shape[2]))
        return room

    def _of_outputs(self, dy: Array) -> _Room:
        """What the lines of the outputs' gradient give at each place."""
        room = self._room(GIVEN, len(dy), self._made, dy.dtype)
        room.clear(0, dy.shape[2])
        of_outputs = _matrices(self._each, self._height, dy.dtype)[2]
        _of_tiles(dy, of_outputs.T, self._each, 0, room.tiles(0, dy.shape[2]))
        return room

    def _room(self, slot: int, n: int, k: int, dtype: np.dtype[Any], times: int = 1) -> _Room:
        """times: how many times as many places."""
        places = times * self._places
        pixels = places * n * self._tiles * self.line + self._width - 1
        buffer = scratch(slot, (pixels, k), dtype)
        return _Room(buffer, (places, n, self._tiles, self.line), self._step, self.starts)


class BothGradients:
    """The gradients of input and filters, of pictures whose output's gradient is laid out once for both.

    Its lines are multiplied with B of the convolution that gives the input's, and with the transposed A for the
    filters': at once, with one matrix above the other, which BLAS copies them for once.
    """

    def __init__(self, forward: LineTiles, back: LineTiles) -> None:
        """forward: of the filters' gradient.  back: of the input's.  They `fit`."""
        self._forward, self._back = forward, back
        (self._above, _), (self._before, _) = back._where.pads

    @staticmethod
    def fit(forward: LineTiles, back: LineTiles, dtype: np.dtype[Any]) -> bool:
        """Whether both cut the gradient into the same tiles, it is a gain, and all bits are as they are one by one."""
        (above, _), (before, _) = back._where.pads
        return (
            not multiplies_as_they_lie()
            and _cuts(forward) == _cuts(back)
            and forward._made == back._channels
            and above + forward._each <= forward._places
            and before < back._width
            and _gives_same_bits(
                forward._each,
                forward._height,
                above,
                back._where.size[1] * back._channels,
                dtype,
            )
        )

    def gradients(
        self,
        x: Array,
        dy: Array,
        matrix: Array,
        dx: Array,
        then: Callable[[], object],
        out: Array,
    ) -> None:
        """dx, as `back.convolve` makes it of dy and matrix; then(); and out, as `forward.multiply` does."""
        forward, back, n = self._forward, self._back, len(dy)
        room = back._room(GIVEN, n, back._channels, dy.dtype, times=2)
        room.clear(self._before, dy.shape[2])
        both = _matrix_of_both(forward._each, forward._height, self._above, dy.dtype)
        _of_tiles(dy, both, back._each, -self._above, room.tiles(self._before, dy.shape[2]))
        of_inputs, of_outputs = room.halves()
        back._convolve(of_inputs, matrix, dx)
        then()
        forward._multiply(x, of_outputs, self._before, out)


def _cuts(tiles: LineTiles) -> tuple[int, ...]:
    return (
        tiles._each,
        tiles._places,
        tiles._tiles,
        tiles.line,
        tiles._step,
        tiles._width,
        tiles.starts,
    )


class _Room:
    """Pixels of k channels [places, n, tiles, line, k], and some more at the end, in scratch memory."""

    def __init__(
        self, buffer: Array, shape: tuple[int, int, int, int], step: int, starts: int
    ) -> None:
        self._buffer, self._shape, self._step, self.starts = buffer, shape, step, starts
        self._k = buffer.shape[1]

    def halves(self) -> list[_Room]:
        """Of as many places each."""
        places, n, tiles, line = self._shape
        shape = places // 2, n, tiles, line
        begins = 0, math.prod(shape)
        return [_Room(self._buffer[at:], shape, self._step, self.starts) for at in begins]

    def clear(self, before: int, pixels: int) -> None:
        """Zeros at the ends of the lines."""
        count = math.prod(self._shape)
        lines = self._buffer[:count].reshape(-1, self._shape[3], self._k)
        lines[:, :before] = 0
        lines[:, before + pixels :] = 0
        self._buffer[count:] = 0

    def tiles(self, before: int, pixels: int) -> Array:
        """[n, tiles, places, pixels · k]: what lies in the lines from pixel `before` on."""
        places, n, tiles, line = self._shape
        along = line * self._k
        steps = (tiles * along, along, n * tiles * along, 1)
        return view(self._buffer, before * self._k, (n, tiles, places, pixels * self._k), steps)

    def pixels(self, first: int, stack: int, count: int, width: int) -> Array:
        """[places, stack, width, pixels, k]: from pixel `first` of a place on, and up to `width` - 1 further on."""
        places, n, tiles, line = self._shape
        k = self._k
        shape = (places, stack, width, count, k)
        steps = (n * tiles * line * k, count * k, k, k, 1)
        return view(self._buffer, first * k, shape, steps)

    def rows(self, cut: tuple[int, int, int], width: int) -> Array:
        """[places, stack, starts, rows, width · k]: `width` pixels from each start, and every step from there.

        cut: the first row of a place, how many times as many rows.
        """
        first, stack, rows = cut
        places, n, tiles, line = self._shape
        k, step = self._k, self._step * self._k
        shape = (places, stack, self.starts, rows, width * k)
        return view(
            self._buffer, first * step, shape, (n * tiles * line * k, rows * step, k, step, 1)
        )


def _shares(n: int, most: int) -> Iterator[tuple[int, int, int]]:
    """Shares of `most` of n, or one, that differ by one at most: (where some begin, how many they are, their size)."""
    number = -(-n // max(most, 1))
    size, larger = divmod(n, number)
    if larger:
        yield 0, larger, size + 1
    yield larger * (size + 1), number - larger, size


def _of_tiles(x: Array, matrix: Array, each: int, first: int, into: Array) -> None:
    """into [n, tiles, places, pixels · k] = matrix [places, taken] times the lines that each tile meets.

    x [n, lines, pixels, k]; a tile begins `each` lines after the one before it, the first one at line `first`; what is
    beyond the first and the last line is 0.
    """
    x = np.ascontiguousarray(x)
    n, high, pixels, k = x.shape
    taken, tiles, along = matrix.shape[1], into.shape[1], pixels * k
    start = min(max(-(first // each), 0), tiles)
    end = max(min((high - taken - first) // each + 1, tiles), start)
    if start < end:
        met = view(
            x,
            (first + start * each) * along,
            (n, end - start, taken, along),
            (high * along, each * along, along, 1),
        )
        np.matmul(matrix, met, out=into[:, start:end])
    lines = x.reshape(n, high, along)
    for tile in (*range(start), *range(end, tiles)):
        at = first + tile * each
        some = slice(max(at, 0), min(at + taken, high))
        if some.start < some.stop:
            part = matrix[:, some.start - at : some.stop - at]
            np.matmul(part, lines[:, some], out=into[:, tile])
        else:
            into[:, tile] = 0


def _to_lines(tiles: Array, matrix: Array, into: Array) -> None:
    """into [n, lines, pixels, m] = matrix [lines of a tile, places] times tiles [n, tiles, places, pixels · m]."""
    lines = into if into.flags.c_contiguous else np.empty_like(into, order="C")
    n, high, along = len(lines), lines.shape[1], tiles.shape[3]
    each = len(matrix)
    whole = high // each
    if whole:
        steps = (high * along, each * along, along, 1)
        of_tiles = view(lines, 0, (n, whole, each, along), steps)
        np.matmul(matrix, tiles[:, :whole], out=of_tiles)
    rest = high - whole * each
    if rest:
        np.matmul(
            matrix[:rest], tiles[:, whole], out=lines.reshape(n, high, along)[:, whole * each :]
        )
    if lines is not into:
        into[...] = lines


@functools.cache
def _sizes(window: int) -> tuple[int, ...]:
    """Lines of outputs that a tile may have: with more places rounding errors grow, and little is spared."""
    return tuple([places + 1 - window for places in POINTS if 1 < window < places <= 2 * window])


@functools.cache
def _matrices(each: int, window: int, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """G [places, window], B [places, places] and A [each, places]."""
    g, b, a = (one.astype(dtype) for one in minimal_filtering(each, window))
    return g, b, a


@functools.cache
def _matrix_of_both(each: int, window: int, above: int, dtype: np.dtype[Any]) -> Array:
    """[2 · places, places]: B, and below it the transposed A for lines that begin `above` further on."""
    _, of_inputs, of_outputs = _matrices(each, window, dtype)
    places = len(of_inputs)
    found = np.zeros((2 * places, places), dtype)
    found[:places] = of_inputs
    found[places:, above : above + each] = of_outputs.T
    return found


@functools.cache
def _gives_same_bits(each: int, window: int, above: int, along: int, dtype: np.dtype[Any]) -> bool:
    """Whether BLAS adds up the products of both matrices as those of each, whose rows are shorter; of lines `along`.

    In tiles at the edges of pictures, too, which meet fewer lines.
    """
    _, of_inputs, of_outputs = _matrices(each, window, dtype)
    both = _matrix_of_both(each, window, above, dtype)
    places = both.shape[1]
    lines = np.random.default_rng(0).standard_normal((1, 2, places, along)).astype(dtype)
    for start, stop in itertools.product(range(above + 1), range(above + 1, places + 1)):
        met = lines[:, :, start:stop]
        made = np.matmul(both[:, start:stop], met)
        ends = min(stop, above + each)
        alone = np.matmul(of_outputs.T[:, : ends - above], lines[:, :, above:ends])
        apart = np.concatenate([np.matmul(of_inputs[:, start:stop], met), alone], 2)
        if made.tobytes() != apart.tobytes():
            return False
    return True
