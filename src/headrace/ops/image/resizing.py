"""Images in another size: bilinear, bicubic, nearest and area, scaled with a kernel, and the gradients.

Called by: library.image.resizing, programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/resize_*_op.cc, scale_and_translate_op.cc); gradient nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, is_fully_defined, text
from headrace.base.traits import SHARES, TOGETHER
from headrace.graph.graph import Operation
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels import resampling
from headrace.ops._kernels.blocks import LARGE
from headrace.ops._kernels.resampling import Spread, Taps
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import parts
from headrace.ops.array.shapes import shape as shape_of
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_KINDS = "{int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}"
_KINDS_OF_BILINEAR = (
    "{int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double, bfloat16}"
)
_CORNERS = "align_corners: bool = false; half_pixel_centers: bool = false"
_PART_BYTES = 1 << 20  # of outputs that one thread makes at a time
_MADE, _BETWEEN = 1, 2  # slots of scratch memory, beside that of `resampling`
_LEAST_BYTES = 640 << 10  # as many calls for less have threads wait for the interpreter's lock


def resized_shape(c: ShapeContext) -> Shape:
    """[n, size[0], size[1], c]."""
    images = c.with_rank(0, 4)
    (count,) = c.with_rank("size", 1) or (None,)
    if count not in (None, 2):
        raise ValueError(f"Dimension must be 2 but is {count}: size is height and width")
    size = c.value("size")
    sides = (None, None) if size is None else tuple(int(each) for each in size)
    assert images is not None
    for side in sides:
        if side is not None and side < -1:
            raise ValueError(f"Dimension {side} must be >= 0: size is height and width")
    known = [None if side == -1 else side for side in sides]  # which the kernel refuses
    return (images[0], *known, images[3])


def checked_size(images: Array, size: Array) -> tuple[int, int]:
    """Height and width of what is made.  Raises InvalidArgument."""
    if images.ndim != 4:
        raise errors.invalid_argument(
            f"input must be 4-dimensional{text(images.shape)}: images are [batch, height, width, channels]"
        )
    if size.ndim != 1 or size.size != 2:
        raise errors.invalid_argument(
            f"shape_t must have two elements {text(size.shape)}: height and width"
        )
    height, width = (int(each) for each in size)
    if height <= 0 or width <= 0:
        raise errors.invalid_argument(
            f"output dimensions must be positive, and are {height} and {width}"
        )
    if images.shape[1] <= 0 or images.shape[2] <= 0:
        raise errors.invalid_argument(
            f"input image must be of non-zero size, and has shape {text(images.shape)}"
        )
    return height, width


def check_centers(align_corners: bool, half_pixel_centers: bool) -> None:
    """Raises InvalidArgument if both are wanted."""
    if align_corners and half_pixel_centers:
        raise errors.invalid_argument(
            "If half_pixel_centers is True, align_corners must be False: both say where pixels lie"
        )


def _check_pair(grads: Array, original: Array) -> None:
    for what, each in (("grads", grads), ("original_image", original)):
        if each.ndim != 4:
            raise errors.invalid_argument(
                f"{what} must be 4-dimensional, and has shape {text(each.shape)}"
            )
    if grads.shape[0] != original.shape[0] or grads.shape[3] != original.shape[3]:
        raise errors.invalid_argument(
            f"grads {text(grads.shape)} and original_image {text(original.shape)} must have the same batch and channels"
        )
    if 0 in grads.shape[1:3] or 0 in original.shape[1:3]:
        raise errors.invalid_argument(
            f"grads {text(grads.shape)} and original_image {text(original.shape)} must have pixels"
        )


def _by_taps(images: Array, rows: Taps, columns: Taps, out: Any) -> Array:
    made = np.empty((len(images), len(rows.indices), len(columns.indices), images.shape[3]), out)
    if not made.size:
        return made
    kind = np.dtype(np.float64 if images.dtype == np.float64 and out == np.float64 else np.float32)

    def one(number: int, spread: Spread) -> None:
        into = made[number] if made.dtype == kind else scratch(_MADE, made.shape[1:], kind)
        _resampled(images[number].astype(kind, copy=False), rows, columns, into, spread)
        if made.dtype != kind:
            made[number] = into

    if made[0].size >= LARGE:
        for number in range(len(images)):
            one(number, parallel_for)
        return made

    def some(which: slice) -> None:
        for number in range(which.start, which.stop):
            one(number, _in_turn)

    parallel_for(some, _parts(made))
    return made


def _in_turn(work: Callable[[slice], object], pieces: list[slice]) -> None:
    for piece in pieces:
        work(piece)


def _resampled(x: Array, rows: Taps, columns: Taps, out: Array, spread: Spread) -> None:
    """out [height, width, c] = an image x [h, w, c].  Along the axis first that leaves less."""
    high, wide, channels = out.shape
    if high * x.shape[1] <= x.shape[0] * wide:
        between = scratch(_BETWEEN, (high, x.shape[1], channels), out.dtype)
        rows.along_rows(x.reshape(len(x), -1), between.reshape(high, -1), spread)
        columns.along_columns(between, out, spread)
    else:
        between = scratch(_BETWEEN, (len(x), wide, channels), out.dtype)
        columns.along_columns(x, between, spread)
        rows.along_rows(between.reshape(len(x), -1), out.reshape(high, -1), spread)


def _parts(made: Array) -> list[slice]:
    each = made[:1].nbytes
    return parts(len(made), each, _PART_BYTES, -(-_LEAST_BYTES // max(each, 1)))


def _back(grads: Array, original: Array, rows: Taps, columns: Taps) -> Array:
    """The gradient with respect to `original` of what taps made of it."""
    height, width = original.shape[1:3]
    return _by_taps(grads, rows.transposed(height), columns.transposed(width), original.dtype)


# -- bilinear ---------------------------------------------------------------------------------


@op(
    "ResizeBilinear",
    inputs="images: T; size: int32",
    outputs="resized_images: float",
    attrs=f"T: {_KINDS_OF_BILINEAR}; {_CORNERS}",
    shape=resized_shape,
    traits={SHARES, TOGETHER},
)
def resize_bilinear_op(
    xp: Any, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """images [n, h, w, c]; size [2] (height, width): float32 [n, height, width, c].

    Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    height, width = checked_size(images, size)
    made = np.empty((len(images), height, width, images.shape[3]), np.float32)
    rows = images.shape[1], height, align_corners, half_pixel_centers
    columns = images.shape[2], width, align_corners, half_pixel_centers

    def some(which: slice) -> None:
        made[which] = resampling.bilinear(images[which], rows, columns)

    parallel_for(some, _parts(made))
    return made


@op(
    "ResizeBilinearGrad",
    inputs="grads: float; original_image: T",
    outputs="output: T",
    attrs=f"T: {{float, bfloat16, half, double}}; {_CORNERS}",
    shape=lambda c: c.shape("original_image"),
    traits={SHARES},
    differentiable=False,
)
def resize_bilinear_grad(
    xp: Any, grads: Array, original: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """grads [n, height, width, c]: the gradient with respect to `original` [n, h, w, c].

    Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    _check_pair(grads, original)
    rows, columns = (
        resampling.linear(size, out, align_corners, half_pixel_centers).taps()
        for size, out in zip(original.shape[1:3], grads.shape[1:3], strict=True)
    )
    return _back(grads, original, rows, columns)


def _centers(op: Operation) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}


@resize_bilinear_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return [resize_bilinear_grad(dout, op.inputs[0], **_centers(op)), None]


# -- bicubic ----------------------------------------------------------------------------------


@op(
    "ResizeBicubic",
    inputs="images: T; size: int32",
    outputs="resized_images: float",
    attrs=f"T: {_KINDS}; {_CORNERS}",
    shape=resized_shape,
    traits={SHARES, TOGETHER},
)
def resize_bicubic_op(
    xp: Any, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """images [n, h, w, c]; size [2] (height, width): float32 [n, height, width, c].

    Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    out = checked_size(images, size)
    rows, columns = (
        resampling.cubic(size, side, align_corners, half_pixel_centers)
        for size, side in zip(images.shape[1:3], out, strict=True)
    )
    return _by_taps(images, rows, columns, np.float32)


@op(
    "ResizeBicubicGrad",
    inputs="grads: float; original_image: T",
    outputs="output: T",
    attrs=f"T: {{float, double}}; {_CORNERS}",
    shape=lambda c: c.shape("original_image"),
    traits={SHARES},
)
def resize_bicubic_grad(
    xp: Any, grads: Array, original: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """grads [n, height, width, c]: the gradient with respect to `original` [n, h, w, c].

    Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    _check_pair(grads, original)
    rows, columns = (
        resampling.cubic(size, out, align_corners, half_pixel_centers)
        for size, out in zip(original.shape[1:3], grads.shape[1:3], strict=True)
    )
    return _back(grads, original, rows, columns)


@resize_bicubic_op.gradient
def _(op: Operation, dout: Any) -> Any:
    if op.inputs[0].dtype.base_dtype not in (dtypes.float32, dtypes.float64):
        return [None, None]
    return [resize_bicubic_grad(dout, op.inputs[0], **_centers(op)), None]


# -- nearest ----------------------------------------------------------------------------------


@op(
    "ResizeNearestNeighbor",
    inputs="images: T; size: int32",
    outputs="resized_images: T",
    attrs=f"T: {_KINDS}; {_CORNERS}",
    shape=resized_shape,
    traits={TOGETHER},
)
def resize_nearest_neighbor_op(
    xp: Any, images: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """images [n, h, w, c]; size [2] (height, width): [n, height, width, c] of the same type.

    Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    rows, columns = (
        resampling.nearest(size, out, align_corners, half_pixel_centers)
        for size, out in zip(images.shape[1:3], checked_size(images, size), strict=True)
    )
    return np.take(np.take(images, rows, axis=1), columns, axis=2)


@op(
    "ResizeNearestNeighborGrad",
    inputs="grads: T; size: int32",
    outputs="output: T",
    attrs=f"T: {{uint8, int8, int32, half, float, double, bfloat16}}; {_CORNERS}",
    shape=resized_shape,
    traits={SHARES},
)
def resize_nearest_neighbor_grad(
    xp: Any, grads: Array, size: Array, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    """grads [n, height, width, c]: its sums at the inputs, [n, size[0], size[1], c].

    Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    height, width = checked_size(grads, size)
    made = np.zeros((len(grads), height, width, grads.shape[3]), grads.dtype)
    rows, columns = (
        np.searchsorted(
            resampling.nearest(side, whole, align_corners, half_pixel_centers), range(side + 1)
        )
        for side, whole in zip((height, width), grads.shape[1:3], strict=True)
    )

    def some(which: slice) -> None:
        for number in range(which.start, which.stop):
            _sum_nearest(grads[number], rows.tolist(), columns, made[number])

    if made.size and grads.size:
        parallel_for(some, _parts(grads))
    return made


def _sum_nearest(x: Array, rows: list[int], columns: Array, out: Array) -> None:
    """out [h, w, c], which is 0: the sums of x [height, width, c] from each row to the next, and of columns."""
    width, channels = x.shape[1:]
    lines = np.zeros((len(out), width + 1, channels), x.dtype)  # with a column of zeros
    for number, (first, end) in enumerate(pairwise(rows)):
        if end > first:
            np.add.reduce(x[first:end], axis=0, dtype=x.dtype, out=lines[number, :width])
    begins, counts = columns[:-1], np.diff(columns)
    part = scratch(_BETWEEN, out.shape, out.dtype)
    for nth in range(int(counts.max())):
        np.take(lines, np.where(nth < counts, begins + nth, width), 1, part, mode="clip")
        out += part


@resize_nearest_neighbor_op.gradient
def _(op: Operation, dout: Any) -> Any:
    image = op.inputs[0]
    raw = image.raw_shape
    known = None if raw is None else raw[1:3]
    size: Any = known if known and is_fully_defined(known) else shape_of(image)[1:3]
    return [resize_nearest_neighbor_grad(dout, size, **_centers(op)), None]


# -- area -------------------------------------------------------------------------------------


@op(
    "ResizeArea",
    inputs="images: T; size: int32",
    outputs="resized_images: float",
    attrs=f"T: {_KINDS}; align_corners: bool = false",
    shape=resized_shape,
    traits={SHARES, TOGETHER},
)
def resize_area_op(xp: Any, images: Array, size: Array, *, align_corners: bool) -> Array:
    """images [n, h, w, c]; size [2] (height, width): float32 [n, height, width, c], means.

    Raises InvalidArgument.
    """
    rows, columns = (
        resampling.area(size, out, align_corners)
        for size, out in zip(images.shape[1:3], checked_size(images, size), strict=True)
    )
    return _by_taps(images, rows, columns, np.float32)


# -- scaled and moved -------------------------------------------------------------------------

_KERNEL = "kernel_type: string = 'lanczos3'; antialias: bool = true"


def _spans(
    sides: tuple[int, ...],
    out: tuple[int, ...],
    scale: Array,
    translation: Array,
    kernel: bytes,
    antialias: bool,
) -> list[Taps]:
    for what, each in (("scale", scale), ("translation", translation)):
        if each.shape != (2,):
            raise errors.invalid_argument(
                f"{what}_t must have two elements {text(each.shape)}: of rows and columns"
            )
    if not (scale > 0).all():
        raise errors.invalid_argument(f"scale must be above 0, and is {scale.tolist()}")
    if kernel not in resampling.KERNELS:
        raise errors.invalid_argument(
            f"kernel_type {kernel.decode(errors='replace')!r} is none of "
            f"{', '.join(name.decode() for name in resampling.KERNELS)}"
        )
    return [
        resampling.spans(kernel, size, side, by, moved, antialias)
        for size, side, by, moved in zip(sides, out, scale, translation, strict=True)
    ]


@op(
    "ScaleAndTranslate",
    inputs="images: T; size: int32; scale: float; translation: float",
    outputs="resized_images: float",
    attrs="T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}; "
    + _KERNEL,
    shape=resized_shape,
    traits={SHARES},
)
def scale_and_translate_op(
    xp: Any,
    images: Array,
    size: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: bytes,
    antialias: bool,
) -> Array:
    """images [n, h, w, c], `scale` times as large and moved by `translation`, cut to size: float32.

    size, scale, translation: [2], of rows and columns.  Raises InvalidArgument.
    """
    out = checked_size(images, size)
    rows, columns = _spans(images.shape[1:3], out, scale, translation, kernel_type, antialias)
    return _by_taps(images, rows, columns, np.float32)


@op(
    "ScaleAndTranslateGrad",
    inputs="grads: T; original_image: T; scale: float; translation: float",
    outputs="output: T",
    attrs="T: {float}; " + _KERNEL,
    shape=lambda c: c.shape("original_image"),
    traits={SHARES},
)
def scale_and_translate_grad(
    xp: Any,
    grads: Array,
    original: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: bytes,
    antialias: bool,
) -> Array:
    """grads [n, height, width, c]: the gradient with respect to `original` [n, h, w, c].

    Raises InvalidArgument.
    """
    _check_pair(grads, original)
    rows, columns = _spans(
        original.shape[1:3], grads.shape[1:3], scale, translation, kernel_type, antialias
    )
    return _back(grads, original, rows, columns)


@scale_and_translate_op.gradient
def _(op: Operation, dout: Any) -> Any:
    if op.inputs[0].dtype.base_dtype is not dtypes.float32:
        return [None, None, None, None]
    made = get("ScaleAndTranslateGrad")(
        dout,
        op.inputs[0],
        op.inputs[2],
        op.inputs[3],
        kernel_type=op.get_attr("kernel_type"),
        antialias=op.get_attr("antialias"),
    )
    return [made, None, None, None]
