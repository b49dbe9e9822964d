"""Convolutions of each channel by itself, a few lines of an image at a time.

Lines of all channels are one array each, and weights are repeated along them: NumPy's loops are as long as lines then,
and not as channels, of which pictures have three.  Every element is the sum of the same products, in the same order,
whatever lines are computed together.  Long lines without gaps are summed up in one call of einsum, which keeps that
order, and needs no memory for products; what it is compiled for may round a product and a sum at once.
Called by: ops.nn.depthwise.  Threads: any; parts are shared by the task's worker pool.
"""

from __future__ import annotations

import itertools
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

_TOGETHER: Final = 1 << 15  # elements: they and their products stay in a processor's cache
SHARED: Final = 1 << 17
"""Elements of an image from which threads share the work; with fewer at a time they wait for the interpreter."""
_MOST_WEIGHTS: Final = 1 << 19  # elements, of weights that are repeated
_LONG: Final = 64  # numbers of a line, from which all places are summed up in one call
_PRODUCT: Final = 0  # slot of scratch memory


def has_short_weights(where: Geometry, filters: Any) -> bool:
    """Whether weights [fh, fw, c, m] take little memory if they are repeated along a line."""
    return bool(filters.size * where.out[1] <= _MOST_WEIGHTS)


def sums_of_products(
    given: Array, filters: Array, where: Geometry, backwards: bool = False
) -> Array:
    """Each channel of given [n, h, w, c] with its filters [fh, fw, c, m]: [n, h', w', c, m], of the filters' dtype.

    backwards: products are summed up from the last place of the window to the first.
    """
    count, (lines, columns) = len(given), where.out
    each = filters.shape[2] * filters.shape[3]
    out = np.zeros((count, lines, columns * each), filters.dtype)
    if out.size:
        weights = filters.reshape(*filters.shape[:2], each)
        if each > 1:
            weights = np.tile(weights, (1, 1, columns))
        places = [*itertools.product(*map(range, where.window))]
        is_shared = out[0].size >= SHARED
        some = max((SHARED if is_shared else _TOGETHER) // (columns * each), 1)
        parts = [slice(at, min(at + some, lines)) for at in range(0, lines, some)]
        convolution = _Convolution(weights, places[::-1] if backwards else places, where)

        def image(at: int) -> None:
            convolution.image(given[at], out[at], parts)

        if not is_shared:
            for at in range(count):
                image(at)
        elif count > 1:
            parallel_for(image, range(count))
        else:
            turned = convolution.turned(given[0])
            parallel_for(lambda part: convolution.part(turned, part, out[0][part]), parts)
    return out.reshape(count, lines, columns, *filters.shape[2:])


def sums_by_lines(given: Array, dy: Array, where: Geometry) -> Array:
    """[fh, fw, c, 1]: the filter's gradient, of given [n, h, w, c] and dy [n, h', w', c, 1], no column left out.

    Of each column of outputs first, which is what lies side by side, then of all columns.
    """
    lines, columns = where.out
    channels, length = given.shape[3], columns * given.shape[3]
    found = np.zeros((*where.window, length), dy.dtype)
    step, (down, along) = where.strides[0], where.dilations
    for image, part in zip(given, dy.reshape(len(dy), lines, length), strict=True):
        padded = where.padded(image[None])[0]
        flat = padded.reshape(len(padded), -1)
        for line, column in np.ndindex(*where.window):
            chosen = slice(line * down, line * down + (lines - 1) * step + 1, step)
            begin = column * along * channels
            found[line, column] += np.einsum("hk,hk->k", flat[chosen, begin : begin + length], part)
    sums: Array = found.reshape(*where.window, columns, channels).sum(axis=2)[..., None]
    return sums


class _Convolution:
    """weights: [fh, fw, length of a line], or of one channel [fh, fw, 1].  places: of the window, in order."""

    def __init__(self, weights: Array, places: list[tuple[int, ...]], where: Geometry) -> None:
        self._where = where
        self._each = max(weights.shape[2] // where.out[1], 1)
        self._length = self._each * where.out[1]
        self._places = [(weights[place], *self._begins(*place)) for place in places]
        self._ordered: Array | None = None
        if where.strides[1] == 1 and self._length >= _LONG and places:
            self._way = 1 if places[0] == (0, 0) else -1
            shape = *weights.shape[:2], self._length
            ordered = np.ascontiguousarray(weights[:: self._way, :: self._way])
            self._ordered = np.broadcast_to(ordered, shape)

    def _begins(self, line: int, column: int) -> tuple[int, int, int]:
        """Where the products of a place begin: in which line, of which columns, at which of them."""
        where = self._where
        turn, left = divmod(column * where.dilations[1], where.strides[1])
        return line * where.dilations[0], left, turn * self._each

    def turned(self, image: Array) -> list[Array]:
        """Lines [h, …] of an image [h, w, c], padded: of every so manyth column, if columns are left out."""
        where = self._where
        padded = where.padded(image[None])[0]
        times = self._each // max(image.shape[2], 1)
        if times > 1:
            padded = np.repeat(padded, times, axis=2)
        stride = where.strides[1]
        return [
            np.ascontiguousarray(padded[:, first::stride]).reshape(len(padded), -1)
            for first in range(min(stride, padded.shape[1]))
        ]

    def image(self, image: Array, out: Array, parts: list[slice]) -> None:
        """All parts of an image."""
        turned = self.turned(image)
        for part in parts:
            self.part(turned, part, out[part])

    def part(self, turned: list[Array], part: slice, total: Array) -> None:
        """Add the products of some lines of the output to `total`, which is 0."""
        step, length = self._where.strides[0], self._length
        if self._ordered is not None:
            windows = self._windows(turned[0], part.start * step, len(total))
            np.einsum("hijk,ijk->hk", windows, self._ordered, out=total)
            return
        product = scratch(_PRODUCT, total.shape, total.dtype)
        first, span = part.start * step, (part.stop - part.start - 1) * step + 1
        for weights, line, which, at in self._places:
            lines = slice(first + line, first + line + span, step)
            np.multiply(turned[which][lines, at : at + length], weights, out=product)
            np.add(total, product, out=total)

    def _windows(self, lines: Array, first: int, count: int) -> Array:
        """A view [count, fh, fw, length]: what lines of the output are made of, in the order of the places."""
        where, way = self._where, self._way
        line, number = lines.strides
        down, along = line * where.dilations[0], number * where.dilations[1] * self._each
        if way < 0:
            first += (where.window[0] - 1) * where.dilations[0]
        begin = (where.window[1] - 1) * where.dilations[1] * self._each if way < 0 else 0
        return as_strided(
            lines[first:, begin:],
            (count, *where.window, self._length),
            (line * where.strides[0], way * down, way * along, number),
            writeable=False,
        )
