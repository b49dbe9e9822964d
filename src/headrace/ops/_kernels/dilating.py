"""The largest sums of inputs and a window's numbers under it, and which of them they are; a few images at a time.

Of float32 and float64.  The numbers of a place are laid out along a line of outputs: NumPy's loops are as long as that
then, and not as channels.
Called by: ops.nn.morphology.  Threads: any; images are shared by the task's worker pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import Array, Geometry, parts
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

_PART_BYTES: Final = 1 << 19  # of outputs that one thread works on at a time
_LEAST_BYTES: Final = 1 << 18  # as many calls for less have threads wait for the interpreter's lock
_PADDED, _SUMS, _LINE, _BEST, _TOTAL, _TAKEN = range(6)  # slots of scratch memory
Use = Callable[[tuple[int, ...], tuple[slice, ...], Array], object]


def is_for(kind: np.dtype[Any]) -> bool:
    """Whether arrays of that type are dilated here."""
    return kind.kind == "f" and kind.itemsize >= 4


class Dilation:
    """Of x [n, h, w, c] by window [kh, kw, c]."""

    def __init__(self, x: Array, window: Array, where: Geometry) -> None:
        self._x, self._window, self._where = x, window, where
        self._lowest = np.finfo(x.dtype).min

    def largest(self) -> Array:
        """[n, h', w', c]; what is no number is left out."""
        out = np.empty((len(self._x), *self._where.out, self._x.shape[3]), self._x.dtype)
        self._in_parts(lambda images: self._largest(images, out[images]))
        return out

    def to_input(self, dy: Array) -> Array:
        """What each window's dy gives to the first of the inputs that its largest sum is of."""
        where = self._where
        out = np.empty(self._x.shape, self._x.dtype)

        def part(images: slice) -> None:
            into = out[images]
            total = into
            if where.has_pads:
                shape = len(into), *where.padded_size, into.shape[-1]
                total = scratch(_TOTAL, shape, out.dtype)
            total[...] = 0
            given = dy[images]

            def use(place: tuple[int, ...], view: tuple[slice, ...], here: Array) -> None:
                total[view] += _chosen(given, here)

            self._first(images, use)
            if where.has_pads:
                into[...] = where.inside(total)

        self._in_parts(part)
        return out

    def to_window(self, dy: Array) -> Array:
        """What each window's dy gives to its number that the largest sum is of: [kh, kw, c], part by part."""
        pieces = self._parts()
        sums = np.zeros((max(len(pieces), 1), *self._window.shape), self._window.dtype)
        _, wide, channels = dy.shape[1:]

        def part(number: int) -> None:
            given = dy[pieces[number]]

            def use(place: tuple[int, ...], view: tuple[slice, ...], here: Array) -> None:
                lines = _chosen(given, here).reshape(-1, wide * channels)
                line = np.add.reduce(lines, axis=0).reshape(wide, channels)
                sums[number][place] = np.add.reduce(line, axis=0)

            self._first(pieces[number], use)

        if dy.size:
            parallel_for(part, range(len(pieces)))
        found: Array = np.add.reduce(sums, axis=0)
        return found

    def _parts(self) -> list[slice]:
        out = self._where.out
        each = out[0] * out[1] * self._x.shape[3] * self._x.itemsize
        return parts(len(self._x), each, _PART_BYTES, _LEAST_BYTES // max(each, 1))

    def _in_parts(self, work: Callable[[slice], object]) -> None:
        parallel_for(work, self._parts())

    def _padded(self, images: slice) -> Array:
        x, where = self._x[images], self._where
        if not where.has_pads:
            return x
        room = scratch(_PADDED, (len(x), *where.padded_size, x.shape[-1]), x.dtype)
        return where.padded(x, -np.inf, room)

    def _sums(self, given: Array, place: tuple[int, ...], out: Array) -> Array:
        line = scratch(_LINE, out.shape[2:], out.dtype)
        line[...] = self._window[place]
        return np.add(given, line, out=out)

    def _largest(self, images: slice, out: Array) -> None:
        padded = self._padded(images)
        for number, (place, view) in enumerate(self._where.positions()):
            sums = scratch(_SUMS, out.shape, out.dtype)
            self._sums(padded[view], place, sums)
            np.fmax(out if number else self._lowest, sums, out=out)

    def _first(self, images: slice, use: Use) -> None:
        """use(place, view, here): where the first largest sum is that of this place of the window."""
        padded = self._padded(images)
        best = scratch(_BEST, (len(padded), *self._where.out, padded.shape[3]), padded.dtype)
        self._largest(images, best)
        left = best > self._lowest
        for place, view in self._where.positions():
            sums = self._sums(padded[view], place, scratch(_SUMS, best.shape, best.dtype))
            here = sums == best
            here &= left
            left ^= here
            use(place, view, here)


def _chosen(given: Array, here: Array) -> Array:
    """given where it is chosen, else 0: all bits of a number or none of them."""
    bits = np.dtype(f"i{given.dtype.itemsize}")
    mask = scratch(_TAKEN, given.shape, bits)
    np.negative(here.view(np.int8), out=mask)
    found: Array = np.bitwise_and(mask, given.view(bits), out=mask).view(given.dtype)
    return found
