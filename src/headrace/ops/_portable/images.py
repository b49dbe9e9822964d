"""Array kernels of images: other sizes, crops, patches, colours.

Where what lies is computed by the host (`ops._kernels.resampling`), so that every device chooses the same pixels.
Called by: ops._portable.table.  Threads: any.
Source: as ops.image.resizing, boxes, colors and patches
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.ops._kernels import resampling
from headrace.ops._kernels.resampling import Taps
from headrace.ops._kernels.windows import geometry
from headrace.ops._portable.scattering import sum_of_lines
from headrace.ops._portable.table import arrays, check, device_of, require
from headrace.ops._portable.windows import padded


def constant(xp: Any, like: Any, value: Any) -> Any:
    """Numbers of the host's where `like` is."""
    return xp.asarray(np.ascontiguousarray(value), device=device_of(like))


def _floating(xp: Any, x: Any, kind: Any) -> Any:
    return x if x.dtype == kind else xp.astype(x, kind)


# -- other sizes ------------------------------------------------------------------------------------------------------


def _sides(images: Any, size: Any) -> tuple[int, int]:
    check(images.ndim == 4 and size.shape == (2,) and math.prod(images.shape) > 0)
    height, width = (int(each) for each in size)
    check(height > 0 and width > 0)
    return height, width


def _applied(xp: Any, taps: Taps, x: Any, axis: int) -> Any:
    total = None
    for at in range(taps.indices.shape[1]):
        weights = taps.weights[:, at]
        if at and not weights.any():
            continue
        shape = [1] * x.ndim
        shape[axis] = len(weights)
        kind = np.float64 if x.dtype == xp.float64 else np.float32
        share = constant(xp, x, weights.astype(kind).reshape(shape))
        taken = xp.take(x, constant(xp, x, taps.indices[:, at]), axis=axis) * share
        total = taken if total is None else total + taken
    return total


def _both(xp: Any, images: Any, rows: Taps, columns: Taps, out: Any) -> Any:
    """Along the axis first that leaves less."""
    exact = images.dtype == xp.float64 and out == xp.float64
    x = _floating(xp, images, xp.float64 if exact else xp.float32)
    if len(rows.indices) * x.shape[2] <= x.shape[1] * len(columns.indices):
        found = _applied(xp, columns, _applied(xp, rows, x, 1), 2)
    else:
        found = _applied(xp, rows, _applied(xp, columns, x, 2), 1)
    return _floating(xp, found, out)


Along = Callable[..., Any]


def _lines(sizes: Sequence[int], out: Sequence[int], along: Along, attrs: dict[str, Any]) -> Any:
    corners, half = attrs["align_corners"], attrs.get("half_pixel_centers")
    check(not (corners and half))
    more = (corners,) if half is None else (corners, half)
    return [along(size, side, *more) for size, side in zip(sizes, out, strict=True)]


_CORNERS = ("align_corners", "half_pixel_centers")


@arrays("ResizeBilinear", host=(1,), attrs=_CORNERS)
def _bilinear(xp: Any, images: Any, size: Any, **attrs: Any) -> Any:
    sides = _sides(images, size)
    rows, columns = _lines(images.shape[1:3], sides, resampling.linear, attrs)
    x = _floating(xp, images, xp.float32)
    for axis, line in ((2, columns), (1, rows)):
        shape = [1] * 4
        shape[axis] = len(line.share)
        share = constant(xp, x, line.share.reshape(shape))
        lower = xp.take(x, constant(xp, x, line.lower), axis=axis)
        x = (xp.take(x, constant(xp, x, line.upper), axis=axis) - lower) * share + lower
    return x


def _fit_original(grads: Any, original: Any) -> None:
    check(grads.ndim == original.ndim == 4 and grads.shape[::3] == original.shape[::3])
    check(math.prod(grads.shape) > 0 and math.prod(original.shape) > 0)


def _gradient(along: Along) -> Callable[..., Any]:
    def kernel(xp: Any, grads: Any, original: Any, **attrs: Any) -> Any:
        _fit_original(grads, original)
        sizes = original.shape[1:3]
        rows, columns = _lines(sizes, grads.shape[1:3], along, attrs)
        return _both(
            xp, grads, rows.transposed(sizes[0]), columns.transposed(sizes[1]), original.dtype
        )

    return kernel


def _linear_taps(*where: Any) -> Taps:
    return resampling.linear(*where).taps()


arrays("ResizeBilinearGrad", attrs=_CORNERS)(_gradient(_linear_taps))
arrays("ResizeBicubicGrad", attrs=_CORNERS)(_gradient(resampling.cubic))


def _resized(along: Along) -> Callable[..., Any]:
    def kernel(xp: Any, images: Any, size: Any, **attrs: Any) -> Any:
        sides = _sides(images, size)
        rows, columns = _lines(images.shape[1:3], sides, along, attrs)
        return _both(xp, images, rows, columns, xp.float32)

    return kernel


arrays("ResizeBicubic", host=(1,), attrs=_CORNERS)(_resized(resampling.cubic))
arrays("ResizeArea", host=(1,), attrs=_CORNERS[:1])(_resized(resampling.area))


@arrays("ResizeNearestNeighbor", host=(1,), attrs=_CORNERS)
def _nearest(xp: Any, images: Any, size: Any, **attrs: Any) -> Any:
    sides = _sides(images, size)
    lines = _lines(images.shape[1:3], sides, resampling.nearest, attrs)
    for axis, at in enumerate(lines, 1):
        images = xp.take(images, constant(xp, images, at), axis=axis)
    return images


@arrays("ResizeNearestNeighborGrad", host=(1,), attrs=_CORNERS)
def _nearest_grad(xp: Any, grads: Any, size: Any, **attrs: Any) -> Any:
    sides = _sides(grads, size)
    made = grads
    for axis, at in enumerate(_lines(sides, grads.shape[1:3], resampling.nearest, attrs), 1):
        rows = xp.moveaxis(made, axis, 0)
        flat = xp.reshape(rows, (rows.shape[0], -1))
        found = sum_of_lines(xp, flat, constant(xp, flat, at), sides[axis - 1])
        made = xp.moveaxis(xp.reshape(found, (sides[axis - 1], *rows.shape[1:])), 0, axis)
    return made


# -- scaled and moved -------------------------------------------------------------------------------------------------


def _spans(
    sides: Sequence[int],
    out: Sequence[int],
    scale: Any,
    moved: Any,
    kernel_type: bytes,
    antialias: bool,
) -> list[Taps]:
    check(np.shape(scale) == np.shape(moved) == (2,) and bool((scale > 0).all()))
    check(kernel_type in resampling.KERNELS)
    return [
        resampling.spans(kernel_type, size, side, by, far, antialias)
        for size, side, by, far in zip(sides, out, scale, moved, strict=True)
    ]


_KERNEL = ("kernel_type", "antialias")


@arrays("ScaleAndTranslate", host=(1, 2, 3), attrs=_KERNEL)
def _scaled(xp: Any, images: Any, size: Any, scale: Any, moved: Any, **attrs: Any) -> Any:
    sides = _sides(images, size)
    rows, columns = _spans(images.shape[1:3], sides, scale, moved, **attrs)
    return _both(xp, images, rows, columns, xp.float32)


@arrays("ScaleAndTranslateGrad", host=(2, 3), attrs=_KERNEL)
def _scaled_grad(xp: Any, grads: Any, original: Any, scale: Any, moved: Any, **attrs: Any) -> Any:
    _fit_original(grads, original)
    sizes = original.shape[1:3]
    rows, columns = _spans(sizes, grads.shape[1:3], scale, moved, **attrs)
    return _both(xp, grads, rows.transposed(sizes[0]), columns.transposed(sizes[1]), original.dtype)


# -- crops ------------------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """Of each box: where the crop's rows (or columns) lie in the image.  All [boxes, size]."""

    inside: Any
    low: Any
    high: Any
    share: Any


def _line(xp: Any, first: Any, last: Any, side: int, size: int, nearest: bool) -> _Line:
    limit = float(side - 1)
    if size > 1:
        step = xp.expand_dims((last - first) * limit / float(size - 1), axis=1)
        every = xp.arange(size, dtype=xp.float32, device=device_of(first))
        at = xp.expand_dims(first * limit, axis=1) + xp.expand_dims(every, axis=0) * step
    else:
        at = xp.expand_dims((first + last) * 0.5 * limit, axis=1)
    inside = xp.logical_and(at >= 0, at <= limit)
    safe = xp.where(inside, at, xp.zeros_like(at))
    if nearest:
        low = xp.astype(xp.floor(safe + 0.5), xp.int64)
        return _Line(inside, low, low, xp.zeros_like(safe))
    floor = xp.floor(safe)
    high = xp.astype(xp.ceil(safe), xp.int64)
    return _Line(inside, xp.astype(floor, xp.int64), high, safe - floor)


class _Crops(NamedTuple):
    """Where crops [boxes, rows, columns] lie in images.  batch: [boxes], of which image."""

    batch: Any
    rows: _Line
    columns: _Line
    sides: tuple[int, int]

    def lines(self, xp: Any, row: Any, column: Any) -> Any:
        """[boxes * rows * columns]: places among the pixels of all images."""
        images = xp.expand_dims(xp.astype(self.batch, xp.int64), axis=(1, 2))
        down = images * self.sides[0] + xp.expand_dims(row, axis=2)
        return xp.reshape(down * self.sides[1] + xp.expand_dims(column, axis=1), (-1,))

    def inside(self, xp: Any) -> Any:
        """[boxes, rows, columns, 1]."""
        rows = xp.expand_dims(self.rows.inside, axis=2)
        return xp.expand_dims(
            xp.logical_and(rows, xp.expand_dims(self.columns.inside, axis=1)), axis=3
        )

    def shares(self, xp: Any) -> tuple[Any, Any]:
        """How far across and down from the lower neighbours, [boxes, ..., 1]."""
        across = xp.expand_dims(self.columns.share, axis=(1, 3))
        return across, xp.expand_dims(self.rows.share, axis=(2, 3))


def _crops(
    xp: Any,
    boxes: Any,
    box_ind: Any,
    image: Sequence[int],
    size: Sequence[int],
    nearest: bool,
) -> _Crops:
    check(boxes.ndim == 2 and boxes.shape[1] == 4 and box_ind.shape == boxes.shape[:1])
    check(math.prod(image) > 0 and boxes.shape[0] > 0 and min(size) > 0)
    fits = xp.logical_and(box_ind >= 0, box_ind < image[0])
    require(xp, fits, f"not all in [0, {image[0]})")
    rows = _line(xp, boxes[:, 0], boxes[:, 2], image[1], size[0], nearest)
    columns = _line(xp, boxes[:, 1], boxes[:, 3], image[2], size[1], nearest)
    return _Crops(box_ind, rows, columns, (image[1], image[2]))


def _corners(xp: Any, image: Any, crops: _Crops, size: Sequence[int]) -> list[Any]:
    """Upper left, upper right, lower left, lower right neighbours: float32 [boxes, rows, columns, c]."""
    channels = image.shape[3]
    pixels = xp.reshape(image, (-1, channels))
    shape = (crops.batch.shape[0], *size, channels)
    return [
        _floating(
            xp,
            xp.reshape(xp.take(pixels, crops.lines(xp, row, column), axis=0), shape),
            xp.float32,
        )
        for row in (crops.rows.low, crops.rows.high)
        for column in (crops.columns.low, crops.columns.high)
    ]


@arrays("CropAndResize", host=(3,))
def _crop(
    xp: Any,
    image: Any,
    boxes: Any,
    box_ind: Any,
    crop_size: Any,
    *,
    method: bytes,
    extrapolation_value: float,
) -> Any:
    check(image.ndim == 4 and crop_size.shape == (2,))
    size = [int(each) for each in crop_size]
    crops = _crops(xp, boxes, box_ind, image.shape, size, method == b"nearest")
    made, right, left, last = _corners(xp, image, crops, size)
    if method != b"nearest":
        across, down = crops.shares(xp)
        made = made + (right - made) * across
        bottom = left + (last - left) * across
        made = made + (bottom - made) * down
    return xp.where(crops.inside(xp), made, xp.full_like(made, extrapolation_value))


@arrays("CropAndResizeGradImage", host=(3,))
def _crop_to_image(
    xp: Any, grads: Any, boxes: Any, box_ind: Any, image_size: Any, *, T: Any, method: bytes
) -> Any:
    check(grads.ndim == 4 and image_size.shape == (4,) and math.prod(grads.shape) > 0)
    sizes = tuple([int(each) for each in image_size])
    check(min(sizes) > 0 and grads.shape[3] == sizes[3] and boxes.shape[0] == grads.shape[0])
    nearest = method == b"nearest"
    crops = _crops(xp, boxes, box_ind, sizes, grads.shape[1:3], nearest)
    kind = xp.float64 if T.name == "float64" else xp.float32
    given = xp.where(crops.inside(xp), grads, xp.zeros_like(grads))
    across, down = crops.shares(xp)
    rows, columns = crops.rows, crops.columns
    corners = [(rows.low, columns.low, (1 - down) * (1 - across))]
    if not nearest:
        corners += [
            (rows.low, columns.high, (1 - down) * across),
            (rows.high, columns.low, down * (1 - across)),
            (rows.high, columns.high, down * across),
        ]
    values, lines = [], []
    for row, column, weight in corners:
        values.append(xp.reshape(given * weight, (-1, sizes[3])))
        lines.append(crops.lines(xp, row, column))
    many = _floating(xp, xp.concat(values, axis=0), kind)
    found = sum_of_lines(xp, many, xp.concat(lines, axis=0), math.prod(sizes[:3]))
    return xp.reshape(_floating(xp, found, getattr(xp, T.name)), sizes)


@arrays("CropAndResizeGradBoxes")
def _crop_to_boxes(xp: Any, grads: Any, image: Any, boxes: Any, box_ind: Any) -> Any:
    check(image.ndim == grads.ndim == 4 and grads.shape[3] == image.shape[3])
    check(math.prod(grads.shape) > 0 and boxes.shape[0] == grads.shape[0])
    size = grads.shape[1:3]
    crops = _crops(xp, boxes, box_ind, image.shape, size, False)
    one, two, three, four = _corners(xp, image, crops, size)
    across, down = crops.shares(xp)
    given = xp.where(crops.inside(xp), grads, xp.zeros_like(grads))
    by_row = xp.sum(given * ((1 - across) * (three - one) + across * (four - two)), axis=(2, 3))
    by_column = xp.sum(given * ((1 - down) * (two - one) + down * (four - three)), axis=(1, 3))
    top, bottom = _ends(xp, by_row, image.shape[1])
    left, right = _ends(xp, by_column, image.shape[2])
    return xp.stack([top, left, bottom, right], axis=1)


def _ends(xp: Any, slopes: Any, side: int) -> tuple[Any, Any]:
    """Of the first and the last edge, from those of the places between, [boxes, size]."""
    limit, size = float(side - 1), slopes.shape[1]
    if size == 1:
        half = slopes[:, 0] * 0.5 * limit
        return half, half
    shares = np.arange(size, dtype=np.float32) * (np.float32(limit) / np.float32(size - 1))
    share = constant(xp, slopes, shares)
    return xp.sum(slopes * (limit - share), axis=1), xp.sum(slopes * share, axis=1)


# -- patches ----------------------------------------------------------------------------------------------------------


def _patches(xp: Any, x: Any, ksizes: Any, strides: Any, rates: Any, padding: bytes) -> Any:
    rank = len(ksizes)
    for each in (ksizes, strides, rates):
        check(len(each) == rank and each[0] == each[-1] == 1 and min(each) > 0)
    check(x.ndim == rank and math.prod(x.shape) > 0)
    layout = b"NHWC" if rank == 4 else b"NDHWC"
    where = geometry(x.shape[1:-1], ksizes[1:-1], strides, padding, layout, rates)
    check(min(where.out) > 0)
    around = padded(xp, x, where.pads)
    return xp.concat([around[view] for _, view in where.positions()], axis=-1)


@arrays("ExtractImagePatches")
def _image_patches(
    xp: Any, images: Any, *, ksizes: Any, strides: Any, rates: Any, padding: bytes
) -> Any:
    return _patches(xp, images, ksizes, strides, rates, padding)


@arrays("ExtractVolumePatches")
def _volume_patches(xp: Any, input: Any, *, ksizes: Any, strides: Any, padding: bytes) -> Any:
    return _patches(xp, input, ksizes, strides, [1] * len(ksizes), padding)


# -- colours ----------------------------------------------------------------------------------------------------------


def _contrasted(xp: Any, images: Any, factor: Any) -> Any:
    check(images.ndim >= 3 and factor.ndim == 0 and math.prod(images.shape) > 0)
    x = _floating(xp, images, xp.float32)
    mean = xp.mean(x, axis=(-3, -2), keepdims=True)
    return (x - mean) * factor + mean


@arrays("AdjustContrastv2")
def _contrast(xp: Any, images: Any, contrast_factor: Any) -> Any:
    return _floating(xp, _contrasted(xp, images, contrast_factor), images.dtype)


@arrays("AdjustContrast")
def _older_contrast(xp: Any, images: Any, factor: Any, low: Any, high: Any) -> Any:
    check(low.ndim == high.ndim == 0)
    return xp.minimum(xp.maximum(_contrasted(xp, images, factor), low), high)


def _channels(x: Any) -> tuple[Any, Any, Any]:
    return x[..., 0], x[..., 1], x[..., 2]


def _extremes(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    red, green, blue = _channels(x)
    high = xp.maximum(xp.maximum(red, green), blue)
    low = xp.minimum(xp.minimum(red, green), blue)
    return high, low, high - low


def _hue(xp: Any, x: Any, high: Any, span: Any) -> Any:
    """In sixths of the circle, from -1 to 5; 0 of grays."""
    red, green, blue = _channels(x)
    some, nothing = span > 0, xp.zeros_like(span)
    norm = xp.where(some, 1.0 / xp.where(some, span, xp.ones_like(span)), nothing)
    by_green = xp.where(green == high, norm * (blue - red) + 2.0, norm * (red - green) + 4.0)
    hue = xp.where(red == high, norm * (green - blue), by_green)
    return xp.where(some, hue, nothing)


def _from_hue(xp: Any, hue: Any, low: Any, span: Any) -> Any:
    """[..., 3] of hues in sixths of the circle: low, and up to `span` more."""
    turned = [
        xp.abs(hue - 3.0) - 1.0,
        2.0 - xp.abs(hue - 2.0),
        2.0 - xp.abs(hue - 4.0),
    ]
    zero, one = xp.zeros_like(hue), xp.ones_like(hue)
    parts = [low + span * xp.minimum(xp.maximum(each, zero), one) for each in turned]
    return xp.stack(parts, axis=-1)


def _hsv(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """Hue (sixths, 0 to 6), saturation, value."""
    high, _, span = _extremes(xp, x)
    lit = high > 0
    saturation = xp.where(lit, span / xp.where(lit, high, xp.ones_like(high)), xp.zeros_like(span))
    hue = _hue(xp, x, high, span)
    return xp.where(hue < 0, hue + 6.0, hue), saturation, high


def _rgb(xp: Any, hue: Any, saturation: Any, value: Any) -> Any:
    span = saturation * value
    return _from_hue(xp, hue, value - span, span)


def _three(images: Any, *scalars: Any, rank: int = 3) -> None:
    check(images.ndim >= rank and images.shape[-1] == 3 and math.prod(images.shape) > 0)
    check(all(each.ndim == 0 for each in scalars))


@arrays("AdjustHue")
def _adjust_hue(xp: Any, images: Any, delta: Any) -> Any:
    _three(images, delta)
    x = _floating(xp, images, xp.float32)
    high, low, span = _extremes(xp, x)
    hue = xp.remainder(_hue(xp, x, high, span) + delta * 6.0, xp.full_like(span, 6.0))
    return _floating(xp, _from_hue(xp, hue, low, span), images.dtype)


@arrays("AdjustSaturation")
def _adjust_saturation(xp: Any, images: Any, scale: Any) -> Any:
    _three(images, scale)
    hue, saturation, value = _hsv(xp, _floating(xp, images, xp.float32))
    scaled = saturation * scale
    scaled = xp.minimum(xp.maximum(scaled, xp.zeros_like(scaled)), xp.ones_like(scaled))
    return _floating(xp, _rgb(xp, hue, scaled, value), images.dtype)


def _computed(xp: Any, images: Any) -> Any:
    _three(images, rank=1)
    return images if images.dtype == xp.float64 else _floating(xp, images, xp.float32)


@arrays("RGBToHSV")
def _to_hsv(xp: Any, images: Any) -> Any:
    hue, saturation, value = _hsv(xp, _computed(xp, images))
    return _floating(xp, xp.stack([hue / 6.0, saturation, value], axis=-1), images.dtype)


@arrays("HSVToRGB")
def _to_rgb(xp: Any, images: Any) -> Any:
    hue, saturation, value = _channels(_computed(xp, images))
    return _floating(xp, _rgb(xp, hue * 6.0, saturation, value), images.dtype)
