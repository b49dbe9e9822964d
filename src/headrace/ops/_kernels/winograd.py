"""Winograd's minimal filtering: tiles of outputs, made with fewer multiplications than they have terms.

A tile of m outputs along a dimension is made of 6 = m + w - 1 inputs d and of a filter's w elements g, as
A (G g * B d), element by element: with 6 multiplications instead of m w.  In two dimensions a tile takes 36, where
5 x 5 filters take 100 for its 4 outputs, and 3 x 3 filters 144 for its 16.  Summed over channels that is 36 products of
matrices, [tiles, c] times [c, m], small enough for OpenBLAS to read them as they lie; and B and A, for both dimensions
at once, are matrices too.  The gradient of the filters goes the same way back, through the transposes.

The matrices are Toom's and Cook's for the points below and infinity.  Pairs of reciprocals with both signs keep
rounding errors small: of 5 x 5 x 32 terms, an output's is two to three times that of a float32 sum of products, that of
an element of the filters' gradient five times.  What is not finite spoils its whole tile.
Called by: ops._kernels.layouts.  Threads: any; the scratch memory is the thread's.
Source: Lavin, Gray, "Fast algorithms for convolutional neural networks", 2016
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry

__all__: list[str] = []

POINTS: Final = {
    4: (0.0, 1.0, -1.0),
    6: (0.0, 2 / 3, -2 / 3, 3 / 2, -3 / 2),
    8: (0.0, 1.0, -1.0, 1 / 2, -1 / 2, 2.0, -2.0),
}
"""By how many inputs a tile has, along a dimension; infinity is one more."""
_SPAN: Final = 6  # inputs of a tile of both dimensions, along each
_PLACES = _SPAN * _SPAN
_WINDOWS = (3, 5)
AT_ONCE = 2 << 20  # bytes for some images; more do not stay in the cache
_MOST = 1 << 14  # elements of a place of the filters, which should stay there too
# Slots of scratch memory; the first two are those of other layouts.
_PADDED, _LAID_OUT, _INPUTS, _PRODUCTS, _OUTPUTS, _SUM = 0, 1, 16, 17, 18, 19


class Tiles:
    """A Layout, see `ops._kernels.layouts`; the module header says how."""

    def __init__(self, where: Geometry, channels: int, made: int) -> None:
        """where: of two dimensions, with strides and dilations of 1, and windows of 3 or 5."""
        self._where, self._channels, self._made = where, channels, made
        self._each = tuple(_SPAN + 1 - w for w in where.window)  # outputs
        self._tiles = tuple(-(-n // m) for n, m in zip(where.out, self._each, strict=True))
        self._rows = math.prod(self._tiles)
        self.shape = (_PLACES * channels, made)
        self.elements = _PLACES * self._rows * (channels + max(channels, made))

    @staticmethod
    def fit(where: Geometry) -> bool:
        """Whether convolutions like that can be made so."""
        return (
            len(where.window) == 2
            and all(w in _WINDOWS for w in where.window)
            and all(n == 1 for n in (*where.strides, *where.dilations))
            and 0 not in where.out
        )

    def gains(self, count: int) -> bool:
        """Whether `count` images take less time than all products do, by an estimate fitted to measurements."""
        if not count or not 0 < self._channels * self._made <= _MOST:
            return False
        products = self._channels * self._made * math.prod(self._where.window)
        return self.work(count) <= 0.92 * products * math.prod(self._where.out)

    def work(self, count: int) -> float:
        """What an image of `count` takes, in multiplications.

        What B takes is spread over the channels of outputs, what A takes over those of inputs, and what G takes over
        all tiles.
        """
        window, outputs = math.prod(self._where.window), math.prod(self._each)
        around = (
            80 / self._made + (10 + 2 * outputs) / self._channels + window / (count * self._rows)
        )
        return _PLACES * (1 + around) * self._rows * self._channels * self._made

    def matrix(self, filters: Array) -> Array:
        """Filters [*window, channels, made] by places of a tile: G g G'."""
        to_places = _matrices(self._where.window, filters.dtype)[0]
        found: Array = np.matmul(to_places, filters.reshape(to_places.shape[1], -1))
        return found.reshape(self.shape)

    def filters(self, matrix: Array) -> Array:
        """The gradient of `matrix`: gradients by places as those of filters."""
        to_places = _matrices(self._where.window, matrix.dtype)[0]
        found: Array = np.matmul(to_places.T, matrix.reshape(_PLACES, -1))
        return found.reshape(*self._where.window, self._channels, self._made)

    def convolve(self, x: Array, matrix: Array, into: Array) -> None:
        """See `layouts.Rows.convolve`."""
        filters = matrix.reshape(_PLACES, self._channels, self._made)
        for images in self._some(x):
            products = self._room(_PRODUCTS, into[images], self._made)
            np.matmul(self._of_inputs(x[images]), filters, out=products)
            self._to_outputs(products, into[images])

    def multiply(self, x: Array, dy: Array, out: Array) -> None:
        """See `layouts.Rows.multiply`."""
        total = out.reshape(_PLACES, self._channels, self._made)
        for images in self._some(x):
            inputs = self._of_inputs(x[images]).swapaxes(1, 2)
            outputs = self._of_outputs(dy[images])
            if images.start == 0:
                np.matmul(inputs, outputs, out=total)
            else:
                more = scratch(_SUM, total.shape, total.dtype)
                np.matmul(inputs, outputs, out=more)
                np.add(total, more, out=total)

    def _some(self, x: Array) -> Iterator[slice]:
        """Images that are worked on together."""
        size = max(1, AT_ONCE // (self.elements * x.itemsize))
        return (slice(start, min(start + size, len(x))) for start in range(0, len(x), size))

    def _room(self, slot: int, like: Array, channels: int) -> Array:
        """Scratch memory [36, n · tiles, channels] for the images `like` [n, ..]."""
        return scratch(slot, (_PLACES, len(like) * self._rows, channels), like.dtype)

    def _of_inputs(self, x: Array) -> Array:
        """What the tiles of x [n, *size, c] give to the products: [36, n · tiles, c]."""
        n, (above, before) = len(x), (pad[0] for pad in self._where.pads)
        size = [tiles * m + _SPAN - m for tiles, m in zip(self._tiles, self._each, strict=True)]
        padded = scratch(_PADDED, (n, *size, self._channels), x.dtype)
        padded[...] = 0
        padded[:, above : above + x.shape[1], before : before + x.shape[2]] = x
        laid_out = scratch(_LAID_OUT, (_SPAN, _SPAN, n, *self._tiles, self._channels), x.dtype)
        image, line, pixel, channel = padded.strides
        steps = (line, pixel, image, line * self._each[0], pixel * self._each[1], channel)
        laid_out[...] = as_strided(padded, laid_out.shape, steps, writeable=False)
        found = self._room(_INPUTS, x, self._channels)
        to_places = _matrices(self._where.window, x.dtype)[1]
        np.matmul(to_places, laid_out.reshape(_PLACES, -1), out=found.reshape(_PLACES, -1))
        return found

    def _of_outputs(self, dy: Array) -> Array:
        """What the tiles of dy [n, *out, m] give to the products: [36, n · tiles, m]."""
        apart = self._apart(dy)
        for tiles, outputs in self._meet(apart, dy):
            tiles[:, outputs.shape[1] :] = 0
            tiles[:, :, outputs.shape[2] :] = 0
            tiles[:, : outputs.shape[1], : outputs.shape[2]] = outputs
        found = self._room(_PRODUCTS, dy, self._made)
        from_places = _matrices(self._where.window, dy.dtype)[2]
        flat = apart.reshape(len(from_places), -1)
        np.matmul(from_places.T, flat, out=found.reshape(_PLACES, -1))
        return found

    def _to_outputs(self, places: Array, into: Array) -> None:
        """into [n, *out, m], of the products."""
        apart = self._apart(into)
        from_places = _matrices(self._where.window, into.dtype)[2]
        flat = apart.reshape(len(from_places), -1)
        np.matmul(from_places, places.reshape(_PLACES, -1), out=flat)
        for tiles, outputs in self._meet(apart, into):
            outputs[...] = tiles[:, : outputs.shape[1], : outputs.shape[2]]

    def _apart(self, outputs: Array) -> Array:
        """Scratch memory [*places of a tile's outputs, n, *tiles, m]."""
        shape = (*self._each, len(outputs), *self._tiles, self._made)
        return scratch(_OUTPUTS, shape, outputs.dtype)

    def _meet(self, apart: Array, outputs: Array) -> Iterator[tuple[Array, Array]]:
        """For each place of a tile's outputs those of all tiles, and what they are of [n, *out, m].

        The last tiles may reach beyond.
        """
        high, wide = self._each
        for i in range(high):
            for j in range(wide):
                yield apart[i, j], outputs[:, i::high, j::wide]


@functools.cache
def _matrices(window: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """G [36, window], B [36, 36] and A [outputs of a tile, 36], of both dimensions."""
    down, along = (minimal_filtering(_SPAN + 1 - size, size) for size in window)
    g, b, a = (np.kron(*both).astype(dtype) for both in zip(down, along, strict=True))
    return g, b, a


@functools.cache
def minimal_filtering(outputs: int, window: int) -> tuple[Array, Array, Array]:
    """G [places, window], B [places, places] and A [outputs, places] of one dimension, by Toom and Cook."""
    places = outputs + window - 1
    points = POINTS[places]
    g, b, a = np.zeros((places, window)), np.zeros((places, places)), np.zeros((outputs, places))
    g[-1, -1] = a[-1, -1] = 1  # of infinity
    b[-1] = np.poly(points)[::-1]
    for place, point in enumerate(points):
        others = np.delete(points, place)
        g[place] = point ** np.arange(window) / np.prod(point - others)
        b[place, :-1] = np.poly(others)[::-1]
        a[:, place] = point ** np.arange(outputs)
    return g, b, a
