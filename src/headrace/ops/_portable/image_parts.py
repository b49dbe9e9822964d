"""Array kernels of what is drawn into images, and of windows into them.

Called by: ops._portable.table.  Threads: any.
Source: as ops.image.boxes and ops.image.sampling
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base.dtypes import float32
from headrace.ops._portable.drawing import filled, normal, uniform
from headrace.ops._portable.images import constant
from headrace.ops._portable.programs import as_program, numbered
from headrace.ops._portable.table import arrays, check, is_jax
from headrace.ops.image.boxes import palette_of
from headrace.ops.image.sampling import NOISES

_FAR: Final = 2.0**31  # pixels, beyond which nothing is told apart


def _within(xp: Any, x: Any) -> Any:
    """Whole numbers, none of them further away than `_FAR`; NaN stays what it is."""
    limit = xp.full_like(x, _FAR)
    return xp.trunc(xp.minimum(xp.maximum(x, -limit), limit))


# -- boxes ------------------------------------------------------------------------------------------------------------


@arrays("DrawBoundingBoxes", "DrawBoundingBoxesV2", reals=True)
def _drawn(xp: Any, images: Any, boxes: Any, colors: Any = None) -> Any:
    check(images.ndim == 4 and images.shape[3] in (1, 3, 4) and boxes.ndim == 3)
    check(boxes.shape[2] == 4 and boxes.shape[0] == images.shape[0])
    check(math.prod(images.shape) > 0 and math.prod(boxes.shape) > 0)
    depth = images.shape[3]
    if colors is None or not math.prod(colors.shape):
        palette = constant(xp, images, palette_of(depth))
    else:
        check(colors.ndim == 2 and colors.shape[1] >= depth)
        palette = colors[:, :depth]
    return as_program(xp, _with_edges, images, boxes, xp.astype(palette, images.dtype))


def _with_edges(xp: Any, images: Any, boxes: Any, palette: Any) -> Any:
    """`images` in which pixels have the colour of the last box on whose edges they are."""
    count, height, width = images.shape[:3]
    sides = np.array([height - 1, width - 1, height - 1, width - 1], np.float32)
    edges = _within(xp, boxes * constant(xp, boxes, sides))
    rows = xp.astype(numbered(xp, images, height, 3, 1), xp.float32)
    columns = xp.astype(numbered(xp, images, width, 3, 2), xp.float32)

    def drawn(place: Any, last: Any) -> Any:
        here = edges[:, place, :]
        top, left, bottom, right = (xp.reshape(here[:, at], (count, 1, 1)) for at in range(4))
        in_rows = xp.logical_and(rows >= top, rows <= bottom)
        in_columns = xp.logical_and(columns >= left, columns <= right)
        level = xp.logical_and(xp.logical_or(rows == top, rows == bottom), in_columns)
        upright = xp.logical_and(xp.logical_or(columns == left, columns == right), in_rows)
        on_edge = xp.logical_and(xp.logical_or(level, upright), top <= bottom)
        on_edge = xp.logical_and(on_edge, left <= right)
        finite = xp.reshape(xp.all(xp.isfinite(here), axis=1), (count, 1, 1))
        number = xp.zeros_like(last) + place
        return xp.where(xp.logical_and(on_edge, finite), number, last)

    last = _of_each(xp, drawn, boxes.shape[1], numbered(xp, images, 1, 3, 0) - 1, images.shape[:3])
    chosen = xp.take(palette, xp.reshape(last % palette.shape[0], (-1,)), axis=0)
    return xp.where(xp.expand_dims(last, axis=3) >= 0, xp.reshape(chosen, images.shape), images)


def _of_each(
    xp: Any, step: Callable[[Any, Any], Any], count: int, start: Any, shape: tuple[int, ...]
) -> Any:
    """What the last of so many steps gives of its number and what the one before gave."""
    found = xp.asarray(xp.broadcast_to(start, shape), copy=True)
    if is_jax(xp):
        from jax import lax

        return lax.fori_loop(0, count, step, found)
    for place in range(count):
        found = step(place, found)
    return found


# -- glimpses ---------------------------------------------------------------------------------------------------------


def _single(xp: Any, x: Any) -> Any:
    """float64, rounded to what float32 can hold: XLA leaves out a conversion there and back, and this it does not."""
    if is_jax(xp):
        from jax import lax

        return lax.reduce_precision(x, 8, 23)
    return xp.astype(xp.astype(x, xp.float32), xp.float64)


def _corners(
    xp: Any,
    images: Any,
    size: tuple[int, int],
    offsets: Any,
    older: bool,
    centered: bool,
    normalized: bool,
) -> Any:
    """int64 [n, 2]: where windows begin, by the host's rounding: a pixel more or less is another result."""
    sides = constant(xp, images, np.array(images.shape[1:3], np.float64))
    own = constant(xp, images, np.array(size, np.float64))
    at = xp.astype(offsets, xp.float64)
    if normalized:
        at = _single(xp, at * sides)
    if centered:
        at = _single(xp, (at / 2 if older or normalized else at) + sides / 2)
    if older or (centered and normalized):
        at = _single(xp, at - own / 2)
    at = xp.where(xp.isnan(at), xp.zeros_like(at), at)
    return xp.astype(_within(xp, at), xp.int64)


def _noise(xp: Any, images: Any, shape: tuple[int, ...], taken: Any, noise: bytes) -> Any:
    """See `ops.image.sampling`."""
    if noise == b"zero":
        return xp.zeros_like(images[:1, :1, :1, :1])
    maker = normal if noise == b"gaussian" else uniform
    axes = (1, 2) if noise == b"gaussian" else (1, 2, 3)
    low = xp.min(images, axis=axes, keepdims=True)
    high = xp.max(images, axis=axes, keepdims=True)
    made = filled(xp, maker, np.array(shape), taken, float32)
    if noise == b"gaussian":
        made = made * xp.std(images, axis=axes, keepdims=True)
        made = made + xp.mean(images, axis=axes, keepdims=True)
    else:
        made = made * (high - low) + low
    return xp.minimum(xp.maximum(made, low), high)


_HOW = ("centered", "normalized", "uniform_noise", "noise")


def _glimpses(older: bool) -> Callable[..., Any]:
    def kernel(
        xp: Any,
        images: Any,
        size: Any,
        offsets: Any,
        taken: Any,
        *,
        centered: bool,
        normalized: bool,
        uniform_noise: bool,
        noise: bytes,
    ) -> Any:
        check(noise in NOISES and not (uniform_noise and noise != b"uniform"))
        check(images.ndim == 4 and np.shape(size) == (2,) and math.prod(images.shape) > 0)
        check(offsets.shape == (images.shape[0], 2))
        high, wide = (int(each) for each in size)
        check(high > 0 and wide > 0)
        count, height, width, channels = images.shape
        first = _corners(xp, images, (high, wide), offsets, older, centered, normalized)
        rows = first[:, 0:1] + numbered(xp, images, high, 2, 1)
        columns = first[:, 1:2] + numbered(xp, images, wide, 2, 1)
        in_rows = xp.logical_and(rows >= 0, rows < height)
        in_columns = xp.logical_and(columns >= 0, columns < width)
        inside = xp.logical_and(xp.expand_dims(in_rows, axis=2), xp.expand_dims(in_columns, axis=1))
        lines = (numbered(xp, images, count, 3, 0) * height + xp.expand_dims(rows, axis=2)) * width
        lines = lines + xp.expand_dims(columns, axis=1)
        lines = xp.reshape(xp.where(inside, lines, xp.zeros_like(lines)), (-1,))
        shape = (count, high, wide, channels)
        seen = xp.reshape(xp.take(xp.reshape(images, (-1, channels)), lines, axis=0), shape)
        around = xp.broadcast_to(_noise(xp, images, shape, taken, noise), shape)
        return xp.where(xp.expand_dims(inside, axis=3), seen, around)

    return kernel


for _name, _older in (("ExtractGlimpse", True), ("ExtractGlimpseV2", False)):
    arrays(_name, host=(1,), attrs=_HOW)(_glimpses(_older))
