"""Hue, saturation and contrast of pictures, each with a number of its own.

Red, green and blue are put apart, some pixels at a time, as many as a cache holds: NumPy goes over three numbers of a
pixel one by one, over one of all pixels in vectors.  Of each pixel the least channel is `low`, the largest `high`, and
`span` lies between them.  Where a pixel is on the circle of hues follows from these without a
choice of the largest channel: a choice takes as long as ten sums.
What comes of a pixel, or a picture's mean, depends on nothing but that picture.
Called by: ops.image.colors.  Threads: any; large arrays are shared by the task's worker pool.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.runs import as_they_lie
from headrace.ops._kernels.scratch import scratch
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
F: Final = np.float32
_PIXELS: Final = 1 << 15
"""So many that calls of NumPy take less time than their loops, whose planes still stay in a cache."""
_LINE, _SHORT = 1024, 48  # elements of lines that are added up
_TINY: Final = np.array(1e-37, F)
"""Added to spans, so that one of nothing may divide; to others it is nothing."""
_SIXTHS: Final = np.array(6, F)
_CIRCLES: Final = np.array(1 / 6, F)  # a sixth of it each
_ONE, _TWO = (np.array(each, F) for each in (1, 2))  # scalars take NumPy longer
_SIGN: Final = np.array(-(2**31), np.int32)

Planes = Callable[[Array, Array], None]
"""(planes [3, n, pixels], numbers [n, 1]): changes the planes."""


def turned(images: Array, deltas: Array) -> Array:
    """RGB pictures [n, pixels, 3] with hues deltas [n] of the circle further, in their type."""
    sixths = np.mod(deltas.astype(F) * _SIXTHS, _SIXTHS)
    return _by_planes(images, sixths, _turn)


def saturated(images: Array, scales: Array) -> Array:
    """RGB pictures [n, pixels, 3], scales [n] times as saturated, as far as that goes, in their type."""
    return _by_planes(images, scales.astype(F), _saturate)


def contrasted(images: Array, factors: Array) -> Array:
    """Each channel of pictures [n, pixels, channels], factors [n] times as far from its mean, in their type."""
    n, pixels, channels = images.shape
    along = _divisor(pixels, _LINE // channels)
    made = np.empty(images.shape, images.dtype)
    lines = (n, pixels // along, along * channels)
    given, into = images.reshape(lines), made.reshape(lines)
    each, repeated = factors.astype(F).reshape(-1, 1, 1), _repeated(along, channels)

    def some(at: slice) -> None:
        x = given[at].astype(F, copy=False)
        mean = (_sums(x, channels) / F(pixels)).take(repeated, axis=1)[:, None]
        out = into[at] if into.dtype == F else np.empty(x.shape, F)
        with as_they_lie(along * channels):
            np.subtract(x, mean, out=out)
            np.multiply(out, each[at], out=out)
            np.add(out, mean, out=into[at], casting="same_kind")

    _share(some, n, pixels * channels, images.size)
    return made


def _sums(lines: Array, channels: int) -> Array:
    """[n, channels] of lines [n, lines, pixels * channels]: long ones first, then what they have come to."""
    long = np.add.reduce(lines, axis=1)
    some = _divisor(long.shape[1] // channels, _SHORT // channels) * channels
    short = np.add.reduce(long.reshape(len(long), -1, some), axis=1)
    found: Array = np.add.reduce(short.reshape(len(long), -1, channels), axis=1)
    return found


@functools.lru_cache(256)
def _repeated(along: int, channels: int) -> Array:
    """Of channels, for each element of a line."""
    return np.tile(np.arange(channels), along)


@functools.lru_cache(256)
def _divisor(number: int, most: int) -> int:
    """The largest one up to `most`, or 1."""
    return next((each for each in range(min(most, number), 0, -1) if number % each == 0), 1)


def _share(some: Callable[[slice], None], n: int, each: int, size: int) -> None:
    together = max(3 * _PIXELS // max(each, 1), 1)
    parts = [slice(at, min(at + together, n)) for at in range(0, n, together)]
    if size >= LARGE:
        parallel_for(some, parts)
        return
    for part in parts:
        some(part)


def _by_planes(images: Array, numbers: Array, change: Planes) -> Array:
    n, pixels, _ = images.shape
    made = np.empty(images.shape, images.dtype)

    def some(at: slice) -> None:
        for first in range(0, pixels, _PIXELS):
            part = images[at, first : first + _PIXELS]
            planes = scratch(0, (3, *part.shape[:2]), np.dtype(F))
            for channel, plane in enumerate(planes):
                plane[...] = part[..., channel]
            few = numbers[at]
            each = few[0] if len(few) == 1 else few.repeat(part.shape[1])
            change(planes.reshape(3, -1), each)
            into = made[at, first : first + _PIXELS]
            for channel, plane in enumerate(planes):
                into[..., channel] = plane

    _share(some, n, 3 * pixels, images.size)
    return made


def _extremes(planes: Array) -> tuple[Array, Array, Array]:
    """Low, high and span of each pixel."""
    low, high, span = scratch(1, planes.shape, planes.dtype)
    red, green, blue = planes
    np.minimum(red, green, out=low)
    np.minimum(low, blue, out=low)
    np.maximum(red, green, out=high)
    np.maximum(high, blue, out=high)
    np.subtract(high, low, out=span)
    return low, high, span


def _turn(planes: Array, sixths: Array) -> None:
    """See `Planes`.  Hues are sixths of the circle from the one opposite to red on, from -3 to 3."""
    low, high, span = _extremes(planes)
    red, green, blue = planes
    hue, room = scratch(2, (2, *red.shape), planes.dtype)
    np.subtract(red, green, out=hue)
    np.subtract(blue, green, out=green)
    np.subtract(low, blue, out=blue)
    np.add(hue, blue, out=hue)
    np.add(span, _TINY, out=room)
    np.divide(hue, room, out=hue)
    np.add(hue, _TWO, out=hue)  # how far it is, from 0 to 3
    side = green.view(np.int32)
    np.bitwise_and(side, _SIGN, out=side)
    np.bitwise_or(hue.view(np.int32), side, out=hue.view(np.int32))
    np.add(hue, sixths, out=hue)
    np.multiply(hue, _CIRCLES, out=room)
    np.rint(room, out=room)
    np.multiply(room, _SIXTHS, out=room)
    np.subtract(hue, room, out=hue)
    np.abs(hue, out=red)
    np.subtract(red, _ONE, out=red)
    np.add(hue, _ONE, out=green)
    np.subtract(hue, _ONE, out=blue)
    for plane in (green, blue):
        np.abs(plane, out=plane)
        np.subtract(_TWO, plane, out=plane)
    for plane in planes:
        np.multiply(plane, span, out=plane)
        np.add(plane, low, out=plane)
        np.maximum(plane, low, out=plane)
        np.minimum(plane, high, out=plane)


def _saturate(planes: Array, scales: Array) -> None:
    """See `Planes`.  Saturation is the span's share of the largest channel: from 0 to 1."""
    low, high, span = _extremes(planes)
    np.add(span, _TINY, out=span)
    most = np.divide(high, span, out=span)
    np.minimum(most, scales, out=most)
    low[...] = 0  # a scalar takes `maximum` five times as long
    np.maximum(most, low, out=most)
    for plane in planes:
        np.subtract(high, plane, out=plane)
        np.multiply(plane, most, out=plane)
        np.subtract(high, plane, out=plane)
