"""How the windows of images are laid out in memory, so that a convolution is a product of matrices.

Three ways, of which `layout` chooses by what they copy, one that copies nearly nothing, and two that multiply less,
which go first where an estimate says that they take less time:
- Rows: each window is a row, [n · out, window · c].  Copies every input once for each place of the window.
- Columns: each window is a column, [window · c, n · out].  As much, but in runs along an image's last dimension instead
  of a window's: for few channels.
- Bands: along the first spatial dimension nothing is laid out.  The product has, for every line of the input, what the
  line gives at each place k of the window, [n · lines, k · m]; an output is the sum of k of them.  Copies 1/k as
  much, and its products are wide, which BLAS likes better.
- Flat (`ops._kernels.flat`): for few channels, and windows that move by one. Nothing is laid out; as bands otherwise.
- Tiles of lines (`ops._kernels.line_tiles`): as Flat, several lines of outputs with fewer products, Winograd's way.
- Tiles (`ops._kernels.winograd`): the same along both dimensions, for many channels on either side.
A layout works on a few images at a time, in memory that stays in the cache.
Called by: ops._kernels.convolving.  Threads: any; the scratch memory is the thread's.
Source: Chellapilla, Puri, Simard, "High performance convolutional neural networks for document processing", 2006;
Anderson et al., "Low-memory GEMM-based convolution algorithms for deep neural networks", 2017, for bands
"""

from __future__ import annotations

import functools
import math
from typing import Any, Protocol

import numpy as np

from headrace.ops._kernels.flat import Flat
from headrace.ops._kernels.line_tiles import LineTiles
from headrace.ops._kernels.product_parts import multiply_matrices
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry
from headrace.ops._kernels.winograd import Tiles

__all__: list[str] = []

_PADDED, _LAID_OUT, _WIDE = 0, 1, 2  # slots of scratch memory
_MOST = (
    1 << 20
)  # elements of an image's bands; where they do not stay in the cache they are no gain
_WASTE = 1.2  # products that bands may make in vain, where padding is less than the window takes
_WASTE_OF_LINES = 1.1  # the same, of flat lines
_TURNING = 2.0  # what it costs to turn an element of the filters
_NARROW = 32  # channels of outputs whose bands are kept apart: runs as short as that are slow to copy and add
_SMALL = 1_000_000  # multiplications of a product that OpenBLAS may make of matrices as they lie, without packing them
_FEWEST = 128  # rows of such a product that are worth it
_ADDING = 1.5  # what it costs to write an element of a product and add it elsewhere; 1 is a copy of an input


class Layout(Protocol):
    """Of convolutions of one geometry, c channels to m.  Arrays have their channels last."""

    elements: int
    """Of scratch memory for one image."""
    shape: tuple[int, int]
    """Of the filters as a matrix."""

    def matrix(self, filters: Array) -> Array:
        """filters [*window, c, m] as `convolve` takes them."""

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """into [n, *out, m] = the windows of x [n, *size, c], times the filters."""

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """out, like `matrix` = what x [n, *size, c] and dy [n, *out, m] give for the filters' gradient."""

    def filters(self, matrix: Array) -> Array:
        """The inverse of `matrix`."""


def layout(
    where: Geometry,
    channels: int,
    made: int,
    count: int,
    dtype: np.dtype[Any],
    gradient: bool = False,
) -> Layout:
    """The layout for a convolution of `count` images.  gradient: for that of its filters."""
    return _layout(
        where.size,
        where.window,
        where.strides,
        where.dilations,
        where.pads,
        channels,
        made,
        count,
        dtype,
        gradient,
    )


@functools.lru_cache(1024)
def _layout(
    size: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[tuple[int, int], ...],
    channels: int,
    made: int,
    count: int,
    dtype: np.dtype[Any],
    gradient: bool,
) -> Layout:
    where = Geometry(size, window, strides, dilations, pads)
    if where.is_pointwise:
        return Rows(where, channels, made)
    if dtype.kind == "f" and count:
        fewer = _with_fewer_products(where, channels, made, count, gradient)
        if fewer is not None:
            return fewer
    if where.window[-1] * channels < where.out[-1]:
        return Columns(where, channels, made)
    if dtype.kind == "f" and max(channels, made) <= _NARROW and Flat.fit(where):
        flat = Flat(where, channels, made)
        if flat.starts == where.window[1] and flat.positions <= _WASTE_OF_LINES * where.out[1]:
            return flat
    if where.strides[0] == 1 and where.window[0] > 1 and 0 not in where.out:
        places, lines = where.window[0], where.size[0] / where.out[0]
        width = math.prod(where.window[1:]) * channels
        copied = lines * (width + (1.0 if gradient else _ADDING) * places * made)
        spared = count * math.prod(where.out) * (places * width - copied)
        bands = Bands(where, channels, made)
        if (
            lines <= _WASTE
            and spared >= _TURNING * places * width * made
            and bands.elements <= _MOST
        ):
            return bands
    return Rows(where, channels, made)


def _with_fewer_products(
    where: Geometry, channels: int, made: int, count: int, gradient: bool
) -> Layout | None:
    """Tiles of lines, or of both dimensions, whichever takes less; None where neither does than all products."""
    found: list[tuple[float, Layout]] = []
    if LineTiles.fit(where):
        lines = LineTiles(where, channels, made)
        if lines.gains(count, gradient):
            found.append((lines.work(count, gradient), lines))
    if Tiles.fit(where):
        tiles = Tiles(where, channels, made)
        if tiles.gains(count):
            found.append((tiles.work(count), tiles))
    return min(found, key=lambda each: each[0])[1] if found else None


def rows(x: Array, where: Geometry) -> Array:
    """The windows of x [n, *size, c] as rows, [n · out, window · c]; in scratch memory, if not where they were."""
    n, c = len(x), x.shape[-1]
    if where.is_pointwise:
        return x.reshape(-1, c)
    padded = x
    if where.has_pads:
        padded = where.padded(x, out=scratch(_PADDED, (n, *where.padded_size, c), x.dtype))
    shape = (n * math.prod(where.out), math.prod(where.window) * c)
    found = scratch(_LAID_OUT, shape, x.dtype)
    found.reshape(n, *where.out, *where.window, c)[...] = where.windows(padded)
    return found


class Rows:
    """See the module header."""

    def __init__(self, where: Geometry, channels: int, made: int) -> None:
        self._where = where
        self._of_filters = (*where.window, channels, made)
        self.shape = (math.prod(where.window) * channels, made)
        self.elements = math.prod(where.out) * self.shape[0]

    def matrix(self, filters: Array) -> Array:
        """The filters [*window, channels, made] as the matrix that windows are multiplied with; `filters` is the way
        back.
        """
        return filters.reshape(self.shape)

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """into [n, *out, made] = the convolution of x [n, *size, channels] with filters in the shape of `matrix`."""
        product(rows(x, self._where), matrix, into)

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """out, in the shape of `matrix` = the gradient of the filters, of inputs x and dy [n, *out, made]."""
        multiply_matrices(rows(x, self._where).T, dy.reshape(-1, dy.shape[-1]), out)

    def filters(self, matrix: Array) -> Array:
        """A `matrix` as filters [*window, channels, made]."""
        return matrix.reshape(self._of_filters)


class Columns(Rows):
    """See the module header."""

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """into [n, *out, made] = the convolution of x [n, *size, channels] with filters in the shape of `matrix`."""
        product(self._columns(x).T, matrix, into)

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """out, in the shape of `matrix` = the gradient of the filters, of inputs x and dy [n, *out, made]."""
        multiply_matrices(self._columns(x), dy.reshape(-1, dy.shape[-1]), out)

    def _columns(self, x: Array) -> Array:
        where, n, c = self._where, len(x), x.shape[-1]
        planes = scratch(_PADDED, (c, n, *where.padded_size), x.dtype)
        room = planes.transpose(*range(1, planes.ndim), 0)
        if where.has_pads:
            where.padded(x, out=room)
        else:
            room[...] = x
        found = scratch(_LAID_OUT, (self.shape[0], n * math.prod(where.out)), x.dtype)
        channel, image, *spatial = planes.strides
        steps = [stride * s for stride, s in zip(spatial, where.strides, strict=True)]
        spread = [stride * d for stride, d in zip(spatial, where.dilations, strict=True)]
        shape = (*where.window, c, n, *where.out)
        windows = np.ndarray(shape, planes.dtype, planes, strides=(*spread, channel, image, *steps))
        found.reshape(shape)[...] = windows
        return found


class Bands:
    """See the module header."""

    def __init__(self, where: Geometry, channels: int, made: int) -> None:
        self._places, self._made = where.window[0], made
        self._within = Geometry(
            where.size,
            (1, *where.window[1:]),
            (1, *where.strides[1:]),
            (1, *where.dilations[1:]),
            [(0, 0), *where.pads[1:]],
        )
        self._of_filters = (*where.window[1:], channels, self._places, made)
        self.shape = (math.prod(where.window[1:]) * channels, self._places * made)
        self.elements = math.prod(self._within.out) * sum(self.shape)
        self._meet = [where.lines_at(place) for place in range(self._places)]

    def matrix(self, filters: Array) -> Array:
        """The filters [*window, channels, made] as the matrix that windows are multiplied with; `filters` is the way
        back.
        """
        return np.moveaxis(filters, 0, -2).reshape(self.shape)

    def filters(self, matrix: Array) -> Array:
        """A `matrix` as filters [*window, channels, made]."""
        return np.moveaxis(matrix.reshape(self._of_filters), -2, 0)

    def _room(self, n: int, dtype: np.dtype[Any]) -> Array:
        """Scratch memory [n, lines, *out of the others, k, m]."""
        return scratch(_WIDE, (n, *self._within.out, self._places, self._made), dtype)

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """into [n, *out, made] = the convolution of x [n, *size, channels] with filters in the shape of `matrix`."""
        given = self._bands(rows(x, self._within), matrix, len(x))
        everywhere = slice(0, into.shape[1])
        places = list(range(self._places))
        first = next((k for k in places if self._meet[k][0] == everywhere), None)
        if first is None:
            into[...] = 0
        else:
            places.remove(first)
            into[...] = given[first][:, self._meet[first][1]]
        for place in places:
            of_output, of_input = self._meet[place]
            into[:, of_output] += given[place][:, of_input]

    def _bands(self, given: Array, matrix: Array, n: int) -> list[Array]:
        """What the lines of n images give at each place of the window, [n, lines, *out of the others, m] each."""
        places, made = self._places, self._made
        if made > _NARROW:
            wide = self._room(n, given.dtype)
            np.matmul(given, matrix, out=wide.reshape(-1, places * made))
            return [wide[..., place, :] for place in range(places)]
        apart = scratch(_WIDE, (places, n, *self._within.out, made), given.dtype)
        for place, of_place in enumerate(np.moveaxis(matrix.reshape(-1, places, made), 1, 0)):
            product(given, of_place, apart[place])
        return list(apart)

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """out, in the shape of `matrix` = the gradient of the filters, of inputs x and dy [n, *out, made]."""
        if self._made <= _NARROW:
            self._multiply_apart(rows(x, self._within), dy, out)
            return
        moved = self._room(len(x), dy.dtype)
        for place, (of_output, of_input) in enumerate(self._meet):
            moved[:, : of_input.start, ..., place, :] = 0
            moved[:, of_input, ..., place, :] = dy[:, of_output]
            moved[:, of_input.stop :, ..., place, :] = 0
        multiply_matrices(rows(x, self._within).T, moved.reshape(-1, out.shape[1]), out)

    def _multiply_apart(self, given: Array, dy: Array, out: Array) -> None:
        """`multiply`, a place of the window and an image at a time: nothing is moved."""
        n = len(dy)
        lines = given.reshape(n, self._within.out[0], -1, given.shape[1])
        into = out.reshape(len(out), self._places, self._made)
        for place, (of_output, of_input) in enumerate(self._meet):
            met = lines[:, of_input].reshape(n, -1, given.shape[1])
            met_by = dy[:, of_output].reshape(n, -1, self._made)
            np.matmul(met.swapaxes(1, 2), met_by).sum(axis=0, out=into[:, place])


def product(a: Array, b: Array, into: Array) -> None:
    """into [..., m] = a [·, k] times b [k, m]; `into` may have gaps."""
    if into.flags.c_contiguous:
        _multiply(a, b, into.reshape(-1, into.shape[-1]))
    else:
        into[...] = (a @ b).reshape(into.shape)


def _multiply(a: Array, b: Array, into: Array) -> None:
    """into [r, m] = a [r, k] times b [k, m], as many small products as OpenBLAS need not pack; in one call of NumPy."""
    few = _SMALL // max(b.size, 1) // 16 * 16
    whole = len(a) - len(a) % few if few >= _FEWEST and a.flags.c_contiguous else 0
    if whole:
        stack = whole // few
        np.matmul(a[:whole].reshape(stack, few, -1), b, out=into[:whole].reshape(stack, few, -1))
    if whole < len(a):
        np.matmul(a[whole:], b, out=into[whole:])
