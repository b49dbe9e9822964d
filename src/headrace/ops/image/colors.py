"""Contrast, hue and saturation; RGB and HSV.

Called by: library.image.colors, programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/adjust_*_op.cc, colorspace_op.cc)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import SHARES, TOGETHER
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels import hues
from headrace.ops._kernels.choosing import where
from headrace.ops.array.packing import stack, unstack
from headrace.ops.math.arithmetic import maximum, minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, greater, logical_and, logical_not
from headrace.ops.tables import make
from headrace.run.exec.worker_pool import parallel_for

__all__ = ["hsv_to_rgb", "rgb_to_hsv"]

Array = np.ndarray[Any, Any]
_HALF = "T: {half, float} = float"


def _images(c: ShapeContext) -> Shape:
    """Three dimensions at least."""
    return c.with_rank_at_least(0, 3)


def _check(images: Array, factor: Array, name: str) -> None:
    if images.ndim < 3:
        raise errors.invalid_argument(
            f"input must be at least 3-D, got shape{text(images.shape)}: [..., height, width, channels]"
        )
    if factor.ndim:
        raise errors.invalid_argument(f"{name} must be scalar: {text(factor.shape)}")


def adjust_rows(op: Operation) -> Callable[[Array, Array], Array]:
    """(images [n, ..., h, w, c], numbers [n] or []) -> what the kernel makes of each of them.

    Raises InvalidArgument where that does.
    """
    adjust = _ADJUSTED[op.type]
    return lambda images, numbers: adjust(images, np.broadcast_to(numbers, len(images)))


@op(
    "AdjustContrastv2",
    inputs="images: T; contrast_factor: float",
    outputs="output: T",
    attrs=_HALF,
    shape=lambda c: (c.with_rank("contrast_factor", 0), _images(c))[1],
    traits={SHARES, TOGETHER},
)
def adjust_contrast_v2(xp: Any, images: Array, contrast_factor: Array) -> Array:
    """Each channel of each image, contrast_factor times as far from its mean.  images [..., h, w, c].

    Raises InvalidArgument.
    """
    _check(images, contrast_factor, "contrast_factor")
    made: Array = _contrasts(images[None], contrast_factor[None])[0]
    return made


def _contrasts(images: Array, factors: Array) -> Array:
    if not images.size:
        return images
    *_, height, width, channels = images.shape
    pictures = images.reshape(-1, height * width, channels)
    each = factors.repeat(len(pictures) // len(images))
    return hues.contrasted(pictures, each).reshape(images.shape)


@op(
    "AdjustContrast",
    inputs="images: T; contrast_factor: float; min_value: float; max_value: float",
    outputs="output: float",
    attrs="T: {uint8, int8, int16, int32, int64, float, double}",
    shape=_images,
    traits={SHARES},
)
def adjust_contrast_v1(
    xp: Any, images: Array, contrast_factor: Array, min_value: Array, max_value: Array
) -> Array:
    """As AdjustContrastv2, of any type, cut off at min_value and max_value: float32.  Raises InvalidArgument."""
    _check(images, contrast_factor, "contrast_factor")
    for name, each in (("min_value", min_value), ("max_value", max_value)):
        if each.ndim:
            raise errors.invalid_argument(f"{name} must be scalar: {text(each.shape)}")
    made = _contrasts(images.astype(np.float32)[None], contrast_factor[None])[0]
    found: Array = np.minimum(np.maximum(made, min_value), max_value).astype(np.float32)
    return found


def _check_rgb(images: Array) -> None:
    if images.shape[-1] != 3:
        raise errors.invalid_argument(
            f"input must have 3 channels but instead has {images.shape[-1]} channels."
        )


@op(
    "AdjustHue",
    inputs="images: T; delta: float",
    outputs="output: T",
    attrs=_HALF,
    shape=_images,
    traits={SHARES, TOGETHER},
)
def adjust_hue_op(xp: Any, images: Array, delta: Array) -> Array:
    """RGB images [..., h, w, 3] with hues `delta` of the circle further.  Raises InvalidArgument."""
    _check(images, delta, "delta")
    made: Array = _hues(images[None], delta[None])[0]
    return made


def _hues(images: Array, deltas: Array) -> Array:
    return hues.turned(_pixels(images), deltas).reshape(images.shape)


@op(
    "AdjustSaturation",
    inputs="images: T; scale: float",
    outputs="output: T",
    attrs=_HALF,
    shape=_images,
    traits={SHARES, TOGETHER},
)
def adjust_saturation_op(xp: Any, images: Array, scale: Array) -> Array:
    """RGB images [..., h, w, 3], `scale` times as saturated, as far as that goes.  Raises InvalidArgument."""
    _check(images, scale, "scale")
    made: Array = _saturations(images[None], scale[None])[0]
    return made


def _saturations(images: Array, scales: Array) -> Array:
    return hues.saturated(_pixels(images), scales).reshape(images.shape)


def _pixels(images: Array) -> Array:
    """[n, pixels, 3] of images [n, ..., h, w, 3]."""
    _check_rgb(images)
    return images.reshape(len(images), images[:1].size // 3, 3)


_ADJUSTED = {
    "AdjustContrastv2": _contrasts,
    "AdjustHue": _hues,
    "AdjustSaturation": _saturations,
}

# -- hue, saturation and value ----------------------------------------------------------------


def _by_pixels(function: Callable[[Array], Array], x: Array) -> Array:
    """function(pixels [m, 3]), of the same shape, of some pixels of x [..., 3] after the others.

    Each color of them lies side by side.
    """
    pixels = x.reshape(-1, 3)
    made = np.empty_like(pixels)

    def some(which: slice) -> None:
        made[which] = function(np.ascontiguousarray(pixels[which].T).T)

    parts = [slice(first, first + _PIXELS) for first in range(0, len(pixels), _PIXELS)]
    parallel_for(some, parts)
    return made.reshape(x.shape)


_PIXELS: Final = 1 << 16


def _extremes(x: Array) -> tuple[Array, Array, Array]:
    """Largest and least of red, green and blue, and their difference: [..., 1] taken off."""
    high = np.maximum(np.maximum(x[..., 0], x[..., 1]), x[..., 2])
    low = np.minimum(np.minimum(x[..., 0], x[..., 1]), x[..., 2])
    return high, low, high - low


def _hue(x: Array, high: Array, span: Array) -> Array:
    """In sixths of the circle, from -1 to 5; 0 of grays."""
    red, green, blue = x[..., 0], x[..., 1], x[..., 2]
    kind = x.dtype.type
    some = span > 0
    norm = kind(1) / (span + ~some)
    hue = where(green == high, norm * (blue - red) + kind(2), norm * (red - green) + kind(4))
    hue = where(red == high, norm * (green - blue), hue)
    found: Array = where(some, hue, np.zeros_like(span))
    return found


def _from_hue(hue: Array, low: Array, span: Array) -> Array:
    """[..., 3] of hues in sixths of the circle: low, and up to `span` more."""
    kind = span.dtype.type
    turned = [
        np.abs(hue - kind(3)) - kind(1),
        kind(2) - np.abs(hue - kind(2)),
        kind(2) - np.abs(hue - kind(4)),
    ]
    made = np.empty((*hue.shape, 3), span.dtype)
    for at, each in enumerate(turned):
        np.clip(each, kind(0), kind(1), out=each)
        each *= span
        np.add(low, each, out=made[..., at])
    return made


def _hsv(x: Array) -> tuple[Array, Array, Array]:
    """Hue (sixths, 0 to 6), saturation, value."""
    high, _, span = _extremes(x)
    zero = np.zeros_like(span)
    lit = high > 0
    saturation = where(lit, span / (high + ~lit), zero)
    hue = _hue(x, high, span)
    return where(hue < 0, hue + x.dtype.type(6), hue), saturation, high


def _rgb(hue: Array, saturation: Array, value: Array) -> Array:
    span = saturation * value
    return _from_hue(hue, value - span, span)


# -- whole tensors of colours -----------------------------------------------------------------


def _colors(c: ShapeContext) -> Shape:
    shape = c.with_rank_at_least(0, 1)
    if shape is not None and shape[-1] not in (None, 3):
        raise ValueError(
            f"Dimension must be 3 but is {shape[-1]}: the last one is of red, green and blue, or of hue, "
            "saturation and value"
        )
    return None if shape is None else (*shape[:-1], 3)


def _checked_colors(images: Array) -> Array:
    if not images.ndim:
        raise errors.invalid_argument(f"input must be at least 1D{text(images.shape)}")
    if images.shape[-1] != 3:
        raise errors.failed_precondition(
            f"input must have 3 channels but input only has {images.shape[-1]} channels."
        )
    return images if images.dtype in (np.float32, np.float64) else images.astype(np.float32)


@op(
    "RGBToHSV",
    inputs="images: T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double} = float",
    shape=_colors,
    traits={SHARES},
)
def rgb_to_hsv(xp: Any, images: Array) -> Array:
    """[..., 3] of red, green and blue, from 0 to 1, as hue, saturation and value, each from 0 to 1.

    Raises FailedPrecondition where the last dimension is not 3, InvalidArgument where there is none.
    """
    x = _checked_colors(images)

    def converted(pixels: Array) -> Array:
        hue, saturation, value = _hsv(pixels)
        return np.stack((hue / x.dtype.type(6), saturation, value), axis=-1)

    return _by_pixels(converted, x).astype(images.dtype, copy=False)


@rgb_to_hsv.gradient
def _(op: Operation, dout: Any) -> Any:
    red, green, blue = unstack(op.inputs[0], num=3, axis=-1)
    of_hue, of_saturation, of_value = unstack(dout, num=3, axis=-1)
    high, low = maximum(maximum(red, green), blue), minimum(minimum(red, green), blue)
    kind = high.dtype
    colored, lit = greater(high, low), greater(high, 0)
    span = make.SelectV2(colored, high - low, 1)
    top = make.SelectV2(lit, high, 1)
    is_red = equal(red, high)
    is_green = logical_and(equal(green, high), logical_not(is_red))
    above = [cast(each, kind) for each in (is_red, is_green, logical_not(is_red | is_green))]
    low_blue = equal(blue, low)
    low_green = logical_and(equal(green, low), logical_not(low_blue))
    below = [cast(each, kind) for each in (logical_not(low_blue | low_green), low_green, low_blue)]
    some = cast(colored, kind)
    shines = [cast(greater(each, 0), kind) for each in (red, green, blue)]  # as in TensorFlow
    # hue is (a - b) / (6 span) + const, where a and b are the two colours after the largest one
    difference = above[0] * (green - blue) + above[1] * (blue - red) + above[2] * (red - green)
    signs = [above[2] - above[1], above[0] - above[2], above[1] - above[0]]
    made = []
    for at in range(3):
        spread = above[at] - below[at]
        hue = (signs[at] / span - difference * spread / (span * span)) / 6
        saturation = (spread * high - (high - low) * above[at]) / (top * top)
        made.append(
            of_hue * hue * some + of_saturation * saturation * shines[at] + of_value * above[at]
        )
    return stack(made, axis=-1)


@op(
    "HSVToRGB",
    inputs="images: T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double} = float",
    shape=_colors,
    differentiable=False,
    traits={SHARES},
)
def hsv_to_rgb(xp: Any, images: Array) -> Array:
    """[..., 3] of hue, saturation and value, each from 0 to 1, as red, green and blue.

    Raises FailedPrecondition where the last dimension is not 3, InvalidArgument where there is none.
    """
    x = _checked_colors(images)
    sixths = x.dtype.type(6)
    made = _by_pixels(lambda some: _rgb(some[:, 0] * sixths, some[:, 1], some[:, 2]), x)
    return made.astype(images.dtype, copy=False)
