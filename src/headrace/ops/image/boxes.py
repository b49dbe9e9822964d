"""Boxes in images: drawn, and cut out and resized.

A box is y1, x1, y2, x2, as shares of the image's height and width.
Called by: programs.  Threads: any; gradients as graph.
Source: behaviour of TF 1.15 (core/kernels/crop_and_resize_op.cc, draw_bounding_box_op.cc); gradient nodes as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, is_fully_defined, text
from headrace.base.traits import SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.crops import Crops, Line
from headrace.ops.array.shapes import shape as shape_of

__all__ = ["crop_and_resize", "draw_bounding_boxes"]

Array = np.ndarray[Any, Any]
F = np.float32

# -- drawing ----------------------------------------------------------------------------------

_PALETTE = np.array(
    [
        (1, 1, 0, 1),
        (0, 0, 1, 1),
        (1, 0, 0, 1),
        (0, 1, 0, 1),
        (0.5, 0, 0.5, 1),
        (0.5, 0.5, 0, 1),
        (0.5, 0, 0, 1),
        (0, 0, 0.5, 1),
        (0, 1, 1, 1),
        (1, 0, 1, 1),
    ],
    F,
)


def _drawn_shape(c: ShapeContext) -> Shape:
    c.with_rank("images", 4)
    shape_rules.merge(c.with_rank("boxes", 3), (None, None, 4))
    return c.shape("images")


def palette_of(depth: int) -> Array:
    """float32 [colors, depth]: of boxes in turn, where no colors are given."""
    found: Array = _PALETTE[:, :depth].copy()
    if depth == 1:
        found[:] = 1
    return found


def _drawn(images: Array, boxes: Array, colors: Array | None) -> Array:
    if images.ndim != 4 or images.shape[-1] not in (1, 3, 4):
        raise errors.invalid_argument(
            "The rank of the images should be 4: [batch, height, width, channels], of 1, 3 or 4 channels; their "
            f"shape is {text(images.shape)}"
        )
    if boxes.ndim != 3 or boxes.shape[-1] != 4 or len(boxes) != len(images):
        raise errors.invalid_argument(
            f"The size of the third dimension of the box must be 4. The batch sizes should be the same: boxes "
            f"{text(boxes.shape)}, images {text(images.shape)}"
        )
    depth = images.shape[-1]
    palette = palette_of(depth)
    if colors is not None and colors.size:
        if colors.ndim != 2 or colors.shape[1] < depth:
            raise errors.invalid_argument(
                f"colors must be a 2-D matrix of as many columns as there are channels, {depth}: {text(colors.shape)}"
            )
        palette = colors[:, :depth]
    out = images.copy()
    height, width = images.shape[1:3]
    for number, image in enumerate(out):
        for place, corners in enumerate(_pixels(boxes[number], height, width)):
            _draw(image, corners, palette[place % len(palette)])
    return out


def _pixels(boxes: Array, height: int, width: int) -> list[tuple[int, int, int, int]]:
    """Rows and columns of the edges: y1, x1, y2, x2; none of what is no number."""
    sides = np.array([height - 1, width - 1, height - 1, width - 1], F)
    with np.errstate(invalid="ignore"):
        found = np.trunc(np.clip(boxes * sides, -(2.0**31), 2.0**31))
    return [tuple(int(each) for each in row) for row in found if np.isfinite(row).all()]  # type: ignore[misc]


def _draw(image: Array, corners: tuple[int, int, int, int], color: Array) -> None:
    height, width = image.shape[:2]
    top, left, bottom, right = corners
    if top > bottom or left > right:
        return
    if top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    if top >= 0:
        image[top, columns] = color
    if bottom < height:
        image[bottom, columns] = color
    if left >= 0:
        image[rows, left] = color
    if right < width:
        image[rows, right] = color


@op(
    "DrawBoundingBoxes",
    inputs="images: T; boxes: float",
    outputs="output: T",
    attrs="T: {float, half} = float",
    shape=_drawn_shape,
    differentiable=False,
)
def draw_bounding_boxes_op(xp: Any, images: Array, boxes: Array) -> Array:
    """Images [n, h, w, c] with the edges of boxes [n, boxes, 4] drawn into them.  Raises InvalidArgument."""
    return _drawn(images, boxes, None)


@op(
    "DrawBoundingBoxesV2",
    inputs="images: T; boxes: float; colors: float",
    outputs="output: T",
    attrs="T: {float, half} = float",
    shape=_drawn_shape,
)
def draw_bounding_boxes_v2_op(xp: Any, images: Array, boxes: Array, colors: Array) -> Array:
    """As DrawBoundingBoxes, in colors [colors, c], one after the other.  Raises InvalidArgument."""
    return _drawn(images, boxes, colors)


def draw_bounding_boxes(
    images: Any, boxes: Any, name: str | None = None, colors: Any = None
) -> Tensor:
    """Images [n, h, w, c] (float32 or half) with the edges of boxes [n, boxes, 4] drawn into them.

    colors [colors, c]: of the boxes in turn; ten of its own if there are none.
    """
    made: Tensor = (
        draw_bounding_boxes_op(images, boxes, name=name)
        if colors is None
        else draw_bounding_boxes_v2_op(images, boxes, colors, name=name)
    )
    return made


# -- crops in another size --------------------------------------------------------------------


def _line(first: Array, last: Array, side: int, size: int, nearest: bool) -> Line:
    limit = F(side - 1)
    if size > 1:
        step = (last - first) * limit / F(size - 1)
        at = (first * limit)[:, None] + np.arange(size, dtype=F) * step[:, None]
    else:
        at = (F(0.5) * (first + last) * limit)[:, None]
    inside = (at >= 0) & (at <= limit)
    safe = np.where(inside, at, F(0)).astype(F)
    if nearest:
        low = np.floor(safe + F(0.5)).astype(np.int64)
        return Line(inside, safe, low, low, np.zeros_like(safe))
    floor = np.floor(safe)
    high = np.ceil(safe).astype(np.int64)
    return Line(inside, safe, floor.astype(np.int64), high, safe - floor)


def _check_boxes(boxes: Array, box_ind: Array, batch: int) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise errors.invalid_argument(
            f"boxes must be 2-D{text(boxes.shape)}: [boxes, 4], of y1, x1, y2, x2"
        )
    if box_ind.shape != boxes.shape[:1]:
        raise errors.invalid_argument(
            f"box_index has incompatible shape: {text(box_ind.shape)}, and boxes {text(boxes.shape)}"
        )
    if box_ind.size and (box_ind.min() < 0 or box_ind.max() >= batch):
        raise errors.out_of_range(
            f"box_index has values outside [0, batch_size): batch_size is {batch}, box_index {box_ind.tolist()[:8]}"
        )


def _lines(
    boxes: Array, sides: tuple[int, ...], size: tuple[int, ...], nearest: bool
) -> tuple[Line, Line]:
    rows = _line(boxes[:, 0], boxes[:, 2], sides[0], size[0], nearest)
    columns = _line(boxes[:, 1], boxes[:, 3], sides[1], size[1], nearest)
    return rows, columns


def _crop_shape(c: ShapeContext) -> Shape:
    image = c.with_rank("image", 4)
    boxes = shape_rules.merge(c.with_rank("boxes", 2), (None, 4))
    indices = c.with_rank("box_ind", 1)
    count = shape_rules.merge((boxes or (None,))[:1], indices)
    shape_rules.merge(c.with_rank("crop_size", 1), (2,))
    size = c.value("crop_size")
    sides = (None, None) if size is None else (int(size[0]), int(size[1]))
    return (*(count or (None,)), *sides, (image or (None,))[-1])


@op(
    "CropAndResize",
    inputs="image: T; boxes: float; box_ind: int32; crop_size: int32",
    outputs="crops: float",
    attrs="T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; "
    "method: {'bilinear', 'nearest'} = 'bilinear'; extrapolation_value: float = 0",
    shape=_crop_shape,
    traits={SHARES},
)
def crop_and_resize_op(
    xp: Any,
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: bytes,
    extrapolation_value: float,
) -> Array:
    """The parts of images [n, h, w, c] in boxes [boxes, 4], resized: float32 [boxes, *crop_size, c].

    box_ind [boxes]: of which image.  What lies outside is extrapolation_value.  Raises InvalidArgument, OutOfRange.
    """
    if image.ndim != 4:
        raise errors.invalid_argument(f"input image must be 4-D{text(image.shape)}")
    height, width = image.shape[1:3]
    if height <= 0 or width <= 0:
        raise errors.invalid_argument(f"image dimensions must be positive: {text(image.shape)}")
    size = _checked_crop(crop_size)
    _check_boxes(boxes, box_ind, len(image))
    rows, columns = _lines(boxes, (height, width), size, method == b"nearest")
    crops = Crops(image.shape, rows, columns, box_ind)
    return crops.made(image, method == b"nearest", F(extrapolation_value))


def _checked_crop(crop_size: Array) -> tuple[int, int]:
    if crop_size.shape != (2,):
        raise errors.invalid_argument(f"crop_size must have two elements {text(crop_size.shape)}")
    height, width = (int(each) for each in crop_size)
    if height <= 0 or width <= 0:
        raise errors.invalid_argument(
            f"crop dimensions must be positive, and are {height} and {width}"
        )
    return height, width


def _image_grad_shape(c: ShapeContext) -> Shape:
    found = c.shape_value("image_size")
    if found is not None and len(found) != 4:
        raise ValueError(
            f"Shape must be rank 4 but is rank {len(found)}: image_size is [batch, height, width, depth]"
        )
    return (None,) * 4 if found is None else found


@op(
    "CropAndResizeGradImage",
    inputs="grads: float; boxes: float; box_ind: int32; image_size: int32",
    outputs="output: T",
    attrs="T: {float, half, double}; method: {'bilinear', 'nearest'} = 'bilinear'",
    shape=_image_grad_shape,
    traits={SHARES},
)
def crop_and_resize_grad_image(
    xp: Any,
    grads: Array,
    boxes: Array,
    box_ind: Array,
    image_size: Array,
    *,
    T: dtypes.DType,
    method: bytes,
) -> Array:
    """The gradient of CropAndResize with respect to the images, [*image_size].  Raises InvalidArgument, OutOfRange."""
    if image_size.shape != (4,) or image_size.min() < 0:
        raise errors.invalid_argument(
            f"image_size must have four elements, none below 0: {image_size.tolist()}"
        )
    sizes = tuple(int(each) for each in image_size)
    if grads.ndim != 4 or grads.shape[-1] != sizes[3] or 0 in grads.shape[1:3]:
        raise errors.invalid_argument(
            f"grads image must be 4-D, of as many channels as the image: {text(grads.shape)} and {list(sizes)}"
        )
    if 0 in sizes[1:3]:
        raise errors.invalid_argument(f"image dimensions must be positive: {list(sizes)}")
    _check_boxes(boxes, box_ind, sizes[0])
    if len(boxes) != len(grads):
        raise errors.invalid_argument(
            f"boxes and grads have incompatible shape: {text(boxes.shape)} and {text(grads.shape)}"
        )
    nearest = method == b"nearest"
    rows, columns = _lines(boxes, sizes[1:3], grads.shape[1:3], nearest)
    crops = Crops(sizes, rows, columns, box_ind)
    kind = np.dtype(np.float64 if T is dtypes.float64 else F)
    made = crops.to_image(grads, nearest, kind).reshape(sizes)
    return made.astype(T.np, copy=False)


@op(
    "CropAndResizeGradBoxes",
    inputs="grads: float; image: T; boxes: float; box_ind: int32",
    outputs="output: float",
    attrs="T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: {'bilinear'} = 'bilinear'",
    shape=lambda c: c.shape("boxes"),
    traits={SHARES},
)
def crop_and_resize_grad_boxes(
    xp: Any, grads: Array, image: Array, boxes: Array, box_ind: Array
) -> Array:
    """The gradient of CropAndResize with respect to the boxes, float32 [boxes, 4].

    Raises InvalidArgument, OutOfRange.
    """
    if image.ndim != 4 or grads.ndim != 4 or grads.shape[-1] != image.shape[-1]:
        raise errors.invalid_argument(
            f"grads and image must be 4-D, of as many channels: {text(grads.shape)} and {text(image.shape)}"
        )
    if 0 in image.shape[1:3] or 0 in grads.shape[1:3]:
        raise errors.invalid_argument(
            f"image dimensions must be positive: {text(image.shape)}, and those of grads {text(grads.shape)}"
        )
    _check_boxes(boxes, box_ind, len(image))
    if len(boxes) != len(grads):
        raise errors.invalid_argument(
            f"boxes and grads have incompatible shape: {text(boxes.shape)} and {text(grads.shape)}"
        )
    rows, columns = _lines(boxes, image.shape[1:3], grads.shape[1:3], False)
    by_row, by_column = Crops(image.shape, rows, columns, box_ind).slopes(grads, image)
    made = np.empty(boxes.shape, F)
    made[:, 0], made[:, 2] = _ends(by_row, image.shape[1])
    made[:, 1], made[:, 3] = _ends(by_column, image.shape[2])
    return made


def _ends(slopes: Array, side: int) -> tuple[Array, Array]:
    """Of the first and the last edge, from those of the places between, [boxes, size]."""
    limit, size = F(side - 1), slopes.shape[1]
    if size == 1:
        half = slopes[:, 0] * F(0.5) * limit
        return half, half
    shares = np.arange(size, dtype=F) * (limit / F(size - 1))
    return (slopes * (limit - shares)).sum(axis=1), (slopes * shares).sum(axis=1)


@crop_and_resize_op.gradient
def _(op: Operation, dout: Any) -> Any:
    image, boxes, box_ind = op.inputs[:3]
    raw = image.raw_shape
    size: Any = list(raw) if raw is not None and is_fully_defined(raw) else shape_of(image)
    kind = image.dtype.base_dtype
    to_image = None
    if kind in (dtypes.float16, dtypes.float32, dtypes.float64):
        method = op.get_attr("method")
        to_image = crop_and_resize_grad_image(dout, boxes, box_ind, size, T=kind, method=method)
    return [to_image, crop_and_resize_grad_boxes(dout, image, boxes, box_ind), None, None]


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """The parts of images [n, h, w, c] in boxes [boxes, 4], each resized to crop_size: float32 [boxes, *crop_size, c].

    box_indices (or box_ind) [boxes]: of which image each is.  method: "bilinear" or "nearest".  What lies outside the
    image is extrapolation_value.
    """
    if box_indices is not None:
        if box_ind is not None:
            raise ValueError("box_ind is the older name of box_indices: give one of them")
        box_ind = box_indices
    made: Tensor = crop_and_resize_op(
        image,
        boxes,
        box_ind,
        crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
        name=name,
    )
    return made
