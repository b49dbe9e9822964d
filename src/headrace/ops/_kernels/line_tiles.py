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
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.flat import FEWEST, GIVEN, LINES, PRODUCTS, SMALL, SUMS, Flat, view
from headrace.ops._kernels.scratch import made_of, scratch
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
# The same for columns, where BLAS copies what it multiplies, too; their products are the better ones.  A window has a
# multiple of eight rows there, and an element of the outputs' gradient takes that much to copy.
_COPYING_RUNS: Final = 10.0
_WORTH_OF_RUNS: Final = 1.25
_FULL_ROWS: Final = 8
_PACKING: Final = 2.5
_SUMMED: Final = 1024  # pixels of a sum: longer ones have larger errors
_SUMMED_ROWS: Final = 384  # windows of a sum, which should stay in the first cache
_MOST: Final = 1 << 18  # elements of a place of the filters, which should stay in a cache
_LEAST: Final = 1 << 22  # multiplications that are worth the calls


Cut = tuple[int, int, int]
"""What is multiplied at a time: (where it begins, how many products, rows or pixels of each)."""


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
        self._cuts: dict[int, tuple[Cut, ...]] = {}
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
        of_window = self._width * self._channels
        rows = -of_window % _FULL_ROWS + _PACKING
        return (
            self.work(count, True) + self.positions * self._tiles * self._places * rows * self._made
        )

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
        width, n = self._width, len(into)
        _, _, of_outputs = _matrices(self._each, self._height, into.dtype)
        made = self._room(SUMS, n, self._made, into.dtype)
        filters = matrix.reshape(self._places, 1, 1, width * self._channels, self._made)
        cuts = self._products(n)
        for windows, out in zip(given.rows(cuts, width), made.rows(cuts, 1), strict=True):
            np.matmul(windows, filters, out=out)
        _to_lines(made.tiles(0, into.shape[2]), of_outputs, into)

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """See `layouts.Rows.multiply`; for each pixel of the window, what lies as far further on times the gradient."""
        self._multiply(x, self._of_outputs(dy), 0, out)

    def _multiply(self, x: Array, given_back: _Room, before: int, out: Array) -> None:
        """before: where the pixels of the outputs' gradient begin in their lines."""
        given, rows = self._of_inputs(x), len(x) * self._in_picture
        if rows >= FEWEST and not multiplies_as_they_lie():
            self._multiply_windows(given, given_back, before, rows, out)
        else:
            self._multiply_pixels(given, given_back, before, len(x), out)

    def _multiply_windows(
        self, given: _Room, given_back: _Room, before: int, rows: int, out: Array
    ) -> None:
        """`_multiply`, of whole windows: BLAS lays out the outputs' gradient once, and products have more rows."""
        cuts = _shares(rows, _SUMMED_ROWS)
        count = sum(stack for _, stack, _ in cuts)
        into = out.reshape(self._places, -1, self._made)
        sums = scratch(PRODUCTS, (count, self.starts, *into.shape), out.dtype)
        windows, met = given.rows(cuts, self._width), given_back.rows(cuts, 1, before)
        at = 0
        for (_, stack, _), some, others in zip(cuts, windows, met, strict=True):
            products = sums[at : at + stack].transpose(2, 0, 1, 3, 4)
            np.matmul(some.swapaxes(3, 4), others, out=products)
            at += stack
        np.add.reduce(sums.reshape(-1, *into.shape), axis=0, out=into)

    def _multiply_pixels(
        self, given: _Room, given_back: _Room, before: int, n: int, out: Array
    ) -> None:
        """`_multiply`, of each pixel of the windows."""
        into = out.reshape(self._places, self._width, self._channels, self._made)
        cuts = _shares(n * self._tiles * self.line, self._summed())
        count = sum(stack for _, stack, _ in cuts)
        sums = scratch(PRODUCTS, (count, *into.shape), out.dtype) if count > 1 else into[None]
        windows, met = given.pixels(cuts, 0, self._width), given_back.pixels(cuts, before, 1)
        at = 0
        for (_, stack, _), some, others in zip(cuts, windows, met, strict=True):
            products = sums[at : at + stack].swapaxes(0, 1)
            np.matmul(some.swapaxes(3, 4), others, out=products)
            at += stack
        if count > 1:
            np.add.reduce(sums, axis=0, out=into)

    def _summed(self) -> int:
        """Pixels whose products make up the filters' gradient in one sum."""
        few = SMALL // (self._channels * self._made)
        return min(few, _SUMMED) if few >= FEWEST else SMALL

    def _products(self, n: int) -> tuple[Cut, ...]:
        """What is multiplied at a time, of n pictures."""
        found = self._cuts.get(n)
        if found is None:
            found = self._cuts[n] = self._cut(n)
        return found

    def _cut(self, n: int) -> tuple[Cut, ...]:
        each = self._in_picture
        if self.alone:
            rows = self._together * self.line // self._step
            return ((0, n * each // rows, rows),)
        most = SMALL // max(each * self._width * self._channels * self._made, 1)
        return tuple(
            [(first * each, stack, some * each) for first, stack, some in _shares(n, most)]
        )

    def _of_inputs(self, x: Array) -> _Room:
        """What the lines of x give at each place."""
        (above, _), (before, _) = self._where.pads
        room = self._room(LINES, len(x), self._channels, x.dtype)
        of_inputs = _matrices(self._each, self._height, x.dtype)[1]
        room.take(x, of_inputs, self._each, -above, before)
        return room

    def _of_outputs(self, dy: Array) -> _Room:
        """What the lines of the outputs' gradient give at each place."""
        room = self._room(GIVEN, len(dy), self._made, dy.dtype)
        room.take(dy, _turned(self._each, self._height, dy.dtype), self._each, 0, 0)
        return room

    def _room(self, slot: int, n: int, k: int, dtype: np.dtype[Any], times: int = 1) -> _Room:
        """times: how many times as many places."""
        shape = (times * self._places, n, self._tiles, self.line)
        key = shape, k, dtype, self._width, self._step, self.starts
        elements = (math.prod(shape) + self._width - 1) * k

        def make(array: Array) -> _Room:
            return _Room(array.reshape(-1, k), shape, self._step, self.starts)

        room, as_left = made_of(slot, key, elements, dtype, make)
        if not as_left:
            room.cleared = None
        return room


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
            and _tiling(forward) == _tiling(back)
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
        both = _matrix_of_both(forward._each, forward._height, self._above, dy.dtype)
        room.take(dy, both, back._each, -self._above, self._before)
        of_inputs, of_outputs = room.halves()
        back._convolve(of_inputs, matrix, dx)
        then()
        forward._multiply(x, of_outputs, self._before, out)


def _tiling(tiles: LineTiles) -> tuple[int, ...]:
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
    """Pixels of k channels [places, n, tiles, line, k], and some more at the end, in scratch memory.

    Views of it are made once: one takes as long as a small product.  cleared: how the ends of the lines were cleared
    that are still as they were then.
    """

    def __init__(
        self, buffer: Array, shape: tuple[int, int, int, int], step: int, starts: int
    ) -> None:
        self._buffer, self._shape, self._step, self.starts = buffer, shape, step, starts
        self._k = buffer.shape[1]
        self._views: dict[Any, Any] = {}
        self.cleared: tuple[int, int] | None = None

    def halves(self) -> list[_Room]:
        """Of as many places each."""
        found: list[_Room] | None = self._views.get("halves")
        if found is None:
            places, n, tiles, line = self._shape
            shape = places // 2, n, tiles, line
            begins = 0, math.prod(shape)
            found = [_Room(self._buffer[at:], shape, self._step, self.starts) for at in begins]
            self._views["halves"] = found
        return found

    def take(self, x: Array, matrix: Array, each: int, first: int, before: int) -> None:
        """Have matrix [places, taken] times the lines that each tile meets from pixel `before` on; 0 around them.

        x [n, lines, pixels, k]; a tile begins `each` lines after the one before it, the first one at line `first`; what
        is beyond the first and the last line is 0.
        """
        x = np.ascontiguousarray(x)
        high, pixels = x.shape[1:3]
        if self.cleared != (before, pixels):
            self._clear(before, pixels)
        key = high, pixels, each, first, before, id(matrix)
        taking = self._views.get(key)
        if taking is None:
            into = self.tiles(before, pixels)
            taking = self._views[key] = _Taking(x.shape, matrix, each, first, into)
        taking(x)

    def _clear(self, before: int, pixels: int) -> None:
        """Zeros at the ends of the lines."""
        count = math.prod(self._shape)
        lines = self._buffer[:count].reshape(-1, self._shape[3], self._k)
        lines[:, :before] = 0
        lines[:, before + pixels :] = 0
        self._buffer[count:] = 0
        self.cleared = before, pixels

    def tiles(self, before: int, pixels: int) -> Array:
        """[n, tiles, places, pixels · k]: what lies in the lines from pixel `before` on."""
        found: Array | None = self._views.get((before, pixels))
        if found is None:
            places, n, tiles, line = self._shape
            along = line * self._k
            steps = (tiles * along, along, n * tiles * along, 1)
            shape = (n, tiles, places, pixels * self._k)
            found = self._views[before, pixels] = view(self._buffer, before * self._k, shape, steps)
        return found

    def pixels(self, cuts: Sequence[Cut], before: int, width: int) -> list[Array]:
        """For each cut [places, stack, width, pixels, k]: `before` after its first pixel and up to `width` - 1 on."""
        key = "pixels", cuts, before, width
        found: list[Array] | None = self._views.get(key)
        if found is None:
            places, n, tiles, line = self._shape
            k = self._k
            found = self._views[key] = [
                view(
                    self._buffer,
                    (first + before) * k,
                    (places, stack, width, count, k),
                    (n * tiles * line * k, count * k, k, k, 1),
                )
                for first, stack, count in cuts
            ]
        return found

    def rows(self, cuts: Sequence[Cut], width: int, before: int = 0) -> list[Array]:
        """For each cut [places, stack, starts, rows, width · k]: `width` pixels from each start on, every step.

        before: how many pixels after the start.
        """
        key = "rows", cuts, width, before
        found: list[Array] | None = self._views.get(key)
        if found is None:
            places, n, tiles, line = self._shape
            k, step = self._k, self._step * self._k
            found = self._views[key] = [
                view(
                    self._buffer,
                    first * step + before * k,
                    (places, stack, self.starts, rows, width * k),
                    (n * tiles * line * k, rows * step, k, step, 1),
                )
                for first, stack, rows in cuts
            ]
        return found


class _Taking:
    """into [n, tiles, places, pixels · k] of pictures of one shape; see `_Room.take`."""

    def __init__(
        self, shape: tuple[int, ...], matrix: Array, each: int, first: int, into: Array
    ) -> None:
        n, high, pixels, k = shape
        taken, tiles, along = matrix.shape[1], into.shape[1], pixels * k
        start = min(max(-(first // each), 0), tiles)
        end = max(min((high - taken - first) // each + 1, tiles), start)
        self._lines = n, high, along
        # Of tiles that meet lines alone: where the first begins, and how they lie.
        self._matrix, self._whole = matrix, into[:, start:end] if start < end else None
        item = into.itemsize
        self._begins = (first + start * each) * along * item
        self._met = n, end - start, taken, along
        self._steps = high * along * item, each * along * item, along * item, item
        self._edges: list[tuple[Array | None, slice, Array]] = []
        for tile in (*range(start), *range(end, tiles)):
            at = first + tile * each
            some = slice(max(at, 0), min(at + taken, high))
            part = None
            if some.start < some.stop:
                part = matrix[:, some.start - at : some.stop - at]
            self._edges.append((part, some, into[:, tile]))

    def __call__(self, x: Array) -> None:
        if self._whole is not None:
            met = np.ndarray(self._met, x.dtype, x, self._begins, self._steps)
            np.matmul(self._matrix, met, out=self._whole)
        lines = x.reshape(self._lines)
        for part, some, into in self._edges:
            if part is None:
                into[...] = 0
            else:
                np.matmul(part, lines[:, some], out=into)


@functools.lru_cache(256)
def _shares(n: int, most: int) -> tuple[Cut, ...]:
    """Shares of `most` of n, or one, that differ by one at most: (where some begin, how many they are, their size)."""
    number = -(-n // max(most, 1))
    size, larger = divmod(n, number)
    smaller = larger * (size + 1), number - larger, size
    return ((0, larger, size + 1), smaller) if larger else (smaller,)


def _to_lines(tiles: Array, matrix: Array, into: Array) -> None:
    """into [n, lines, pixels, m] = matrix [lines of a tile, places] times tiles [n, tiles, places, pixels · m]."""
    lines = into if into.flags.c_contiguous else np.empty_like(into, order="C")
    n, high, along = len(lines), lines.shape[1], tiles.shape[3]
    each = len(matrix)
    whole = high // each
    if whole:
        of_tiles = lines.reshape(n, whole, each, along) if high == whole * each else None
        if of_tiles is None:
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
def _turned(each: int, window: int, dtype: np.dtype[Any]) -> Array:
    """A, transposed."""
    return _matrices(each, window, dtype)[2].T


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
