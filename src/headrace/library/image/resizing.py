"""Images in another size, by any method.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/image_ops_impl.py); nodes as 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.const_value import as_shape
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.image.checking import as_image, check, check_image, sizes_of
from headrace.library.image.framing import batched, pad_to_bounding_box
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.image.resizing import (
    resize_area_op,
    resize_bicubic_op,
    resize_bilinear_op,
    resize_nearest_neighbor_op,
)
from headrace.ops.math.arithmetic import maximum, minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import floor
from headrace.ops.math.elementwise import round as rounded

__all__ = [
    "ResizeMethod",
    "resize",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_image_with_pad",
    "resize_images",
    "resize_nearest_neighbor",
]


class ResizeMethod:
    """How images are resized."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def resize_bilinear(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """[n, h, w, c] as float32 [n, *size, c], between the two nearest rows and columns.

    align_corners: the corners of both lie at the same places.  half_pixel_centers: pixels lie at their middles.
    """
    made: Tensor = resize_bilinear_op(
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )
    return made


def resize_bicubic(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """[n, h, w, c] as float32 [n, *size, c], between the four nearest rows and columns."""
    made: Tensor = resize_bicubic_op(
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )
    return made


def resize_nearest_neighbor(
    images: Any,
    size: Any,
    align_corners: bool = False,
    name: str | None = None,
    half_pixel_centers: bool = False,
) -> Tensor:
    """[n, h, w, c] as [n, *size, c] of the same type: the nearest pixels."""
    made: Tensor = resize_nearest_neighbor_op(
        images,
        size,
        align_corners=align_corners,
        half_pixel_centers=half_pixel_centers,
        name=name,
    )
    return made


def resize_area(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Tensor:
    """[n, h, w, c] as float32 [n, *size, c]: means of what each pixel covers."""
    made: Tensor = resize_area_op(images, size, align_corners=align_corners, name=name)
    return made


_METHODS = {
    ResizeMethod.BILINEAR: resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic,
    ResizeMethod.AREA: resize_area,
}


def resize_images(
    images: Any,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """An image, or a batch of them, in another size (height, width), by a `ResizeMethod`.

    preserve_aspect_ratio: as large as fits into `size`.  Images that have the size already stay as they are.
    Raises ValueError.
    """
    with name_scope(name, "resize", [images, size]):
        images = convert_to_tensor(images, name="images")
        rank = images.shape.ndims
        if rank is None:
            raise ValueError("'images' contains no shape.")
        if rank not in (3, 4):
            raise ValueError(
                f"'images' must have either 3 or 4 dimensions: one image or a batch; their shape is {images.shape}."
            )
        if rank == 3:
            images = expand_dims(images, 0)
        size = _checked_size(size)
        if preserve_aspect_ratio:
            size = _largest_within(images, size)
        height, width = as_shape(size) or (None, None)
        same = [height, width] == images.shape.as_list()[1:3] and None not in (height, width)
        if not same:
            images = _by_method(method)(images, size, align_corners=align_corners)
            images.set_shape([None, height, width, None])
        return images if rank == 4 else squeeze(images, axis=[0])


resize = resize_images


def _by_method(method: Any) -> Any:
    try:
        return _METHODS[method]
    except (KeyError, TypeError):
        raise ValueError(
            f"Resize method is not implemented: {method!r} is none of tf.image.ResizeMethod's "
            "BILINEAR, NEAREST_NEIGHBOR, BICUBIC and AREA"
        ) from None


def _checked_size(size: Any) -> Tensor:
    try:
        size = convert_to_tensor(size, dtype=dtypes.int32, name="size")
    except (TypeError, ValueError) as error:
        raise ValueError(f"'size' must be a 1-D int32 Tensor, and is {size!r}") from error
    if not size.shape.is_compatible_with([2]):
        raise ValueError(
            f"'size' must be a 1-D Tensor of 2 elements: new_height, new_width; its shape is {size.shape}"
        )
    checked: Tensor = size
    return checked


def _largest_within(images: Tensor, size: Tensor) -> Tensor:
    _, height, width, _ = sizes_of(images, 4)
    of_height = cast(size[0], dtypes.float32) / cast(height, dtypes.float32)
    of_width = cast(size[1], dtypes.float32) / cast(width, dtypes.float32)
    scale = minimum(of_height, of_width)
    sides = [
        cast(rounded(scale * cast(each, dtypes.float32)), dtypes.int32) for each in (height, width)
    ]
    return convert_to_tensor(sides, dtype=dtypes.int32, name="size")


def resize_image_with_pad(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """An image, or a batch of them, as large as fits into the target, with zeros around it.  Raises ValueError."""
    with name_scope(None, "resize_image_with_pad", [image]):
        image, alone = batched(as_image(image))
        checks: list[Any] = [*check_image(image)]
        checks += check(target_width > 0, ValueError, "target_width must be > 0.")
        checks += check(target_height > 0, ValueError, "target_height must be > 0.")
        image = with_dependencies(checks, image)
        _, height, width, _ = sizes_of(image, 4)
        own_height, own_width, all_height, all_width = (
            cast(each, dtypes.float32) for each in (height, width, target_height, target_width)
        )
        ratio = maximum(own_width / all_width, own_height / all_height)
        new_height, new_width = own_height / ratio, own_width / ratio
        size = [cast(floor(each), dtypes.int32) for each in (new_height, new_width)]
        rest_height = (all_height - new_height) / 2
        rest_width = (all_width - new_width) / 2
        rests = [floor(rest_height), floor(rest_width)]
        top, left = (maximum(0, cast(each, dtypes.int32)) for each in rests)
        made = resize_images(image, size, method, align_corners=align_corners)
        made = pad_to_bounding_box(made, top, left, target_height, target_width)
        sizes_of(made, 4)
        return squeeze(made, axis=[0]) if alone else made
