"""Images cut out and padded.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/image_ops_impl.py); nodes as 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.image.checking import (
    as_image,
    check,
    check_image,
    sizes_of,
    static_sizes,
)
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import pad
from headrace.ops.array.shapes import expand_dims, reshape, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as sliced
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.math.arithmetic import maximum, minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, greater_equal
from headrace.ops.math.reductions import reduce_all
from headrace.ops.random.draws import random_uniform

__all__ = [
    "central_crop",
    "crop_to_bounding_box",
    "pad_to_bounding_box",
    "random_crop",
    "resize_image_with_crop_or_pad",
    "resize_with_crop_or_pad",
]


def batched(image: Tensor) -> tuple[Tensor, bool]:
    """A batch, and whether it was one image, whose batch is taken off again.  Raises ValueError."""
    rank = image.shape.ndims
    if rank == 3:
        return expand_dims(image, 0), True
    if rank is None:
        image = expand_dims(image, 0)
        image.set_shape([None] * 4)
        return image, True
    if rank != 4:
        raise ValueError(
            f"'image' (shape {image.shape}) must have either 3 or 4 dimensions: one image, or a batch of them."
        )
    return image, False


def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """The middle of an image or a batch of them: central_fraction, in (0, 1], of its height and width.

    Raises ValueError.
    """
    with name_scope(None, "central_crop", [image]):
        image = as_image(image)
        known = (
            constant_value(central_fraction)
            if isinstance(central_fraction, Tensor)
            else central_fraction
        )
        if known is not None:
            if known <= 0.0 or known > 1.0:
                raise ValueError(f"central_fraction must be within (0, 1], and is {known}")
            if known == 1.0:
                made: Tensor = image
                return made
        rank = image.shape.ndims
        if rank not in (3, 4):
            raise ValueError(
                f"`image` should either be a Tensor with rank = 3 or rank = 4. Had rank = {rank}: its shape is "
                f"{image.shape}"
            )
        with_dependencies(
            check_image(image), image
        )  # which nothing needs: as TensorFlow's graphs have it
        at = rank - 3
        sides = [(image.shape[at + each].value, at + each) for each in (0, 1)]
        starts, sizes = _middle(image, sides, central_fraction)
        before, rest = ([0], [-1]) if rank == 4 else ([], [])
        begin = stack([*before, *starts, 0])
        size = stack([*rest, *sizes, -1])
        made = sliced(image, begin, size)
        shown = [None if isinstance(each, Tensor) else each for each in sizes]
        batch = [image.shape[0].value] if rank == 4 else []
        made.set_shape([*batch, *shown, image.shape[-1].value])
        return made


def _middle(
    image: Tensor, sides: list[tuple[int | None, int]], fraction: Any
) -> tuple[list[Any], list[Any]]:
    """Where the middle begins, and how long it is, of height and width."""
    lengths = [shape_of(image)[axis] if size is None else size for size, axis in sides]
    starts: list[Any] = []
    for length in lengths:
        if isinstance(length, Tensor) or isinstance(fraction, Tensor):
            whole = cast(length, dtypes.float64)
            starts.append(cast((whole - whole * cast(fraction, dtypes.float64)) / 2, dtypes.int32))
        else:
            starts.append(int((length - length * fraction) / 2))
    return starts, [length - start * 2 for length, start in zip(lengths, starts, strict=True)]


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """An image, or a batch of them, with zeros around it: [target_height, target_width], itself from the offsets on.

    Raises ValueError where it cannot fit, InvalidArgument in the step.
    """
    with name_scope(None, "pad_to_bounding_box", [image]):
        image, alone = batched(as_image(image))
        made = _padded(image, offset_height, offset_width, target_height, target_width)
        return squeeze(made, axis=[0]) if alone else made


def _padded(image: Tensor, top: Any, left: Any, target_height: Any, target_width: Any) -> Tensor:
    _, height, width, channels = sizes_of(image, 4)
    batch = image.shape[0].value
    right = target_width - left - width
    bottom = target_height - top - height
    checks: list[Any] = [*check_image(image)]
    for length, message in (
        (top, "offset_height must be >= 0"),
        (left, "offset_width must be >= 0"),
        (right, "width must be <= target - offset"),
        (bottom, "height must be <= target - offset"),
    ):
        checks += check(length >= 0, ValueError, message)
    image = with_dependencies(checks, image)
    paddings = reshape(stack([0, 0, top, bottom, left, right, 0, 0]), [4, 2])
    made = pad(image, paddings)
    shown = static_sizes(batch, target_height, target_width, channels)
    made.set_shape(shown)
    return made


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """[target_height, target_width] of an image or a batch of them, from the offsets on.

    Raises ValueError where it cannot fit, InvalidArgument in the step.
    """
    with name_scope(None, "crop_to_bounding_box", [image]):
        image, alone = batched(as_image(image))
        checks: list[Any] = [*check_image(image)]
        batch, height, width, channels = sizes_of(image, 4)
        for holds, message in (
            (offset_width >= 0, "offset_width must be >= 0."),
            (offset_height >= 0, "offset_height must be >= 0."),
            (target_width > 0, "target_width must be > 0."),
            (target_height > 0, "target_height must be > 0."),
            (width >= target_width + offset_width, "width must be >= target + offset."),
            (height >= target_height + offset_height, "height must be >= target + offset."),
        ):
            checks += check(holds, ValueError, message)
        image = with_dependencies(checks, image)
        begin = stack([0, offset_height, offset_width, 0])
        sizes = [shape_of(image)[0], target_height, target_width, shape_of(image)[3]]
        made = sliced(image, begin, stack(sizes))
        made.set_shape(static_sizes(batch, target_height, target_width, channels))
        return squeeze(made, axis=[0]) if alone else made


def _greater(x: Any, y: Any) -> Any:
    return maximum(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else max(x, y)


def _smaller(x: Any, y: Any) -> Any:
    return minimum(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else min(x, y)


def _same(x: Any, y: Any) -> Any:
    return equal(x, y) if isinstance(x, Tensor) or isinstance(y, Tensor) else x == y


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """The middle of an image, or of each of a batch, with zeros around it where it is smaller than the target.

    Raises ValueError where sizes cannot be, InvalidArgument in the step.
    """
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        image, alone = batched(as_image(image))
        checks: list[Any] = [*check_image(image)]
        checks += check(target_width > 0, ValueError, "target_width must be > 0.")
        checks += check(target_height > 0, ValueError, "target_height must be > 0.")
        image = with_dependencies(checks, image)
        if isinstance(target_height, Tensor):
            target_height = with_dependencies(checks, target_height)
        if isinstance(target_width, Tensor):
            target_width = with_dependencies(checks, target_width)
        _, height, width, _ = sizes_of(image, 4)
        more_width = target_width - width
        crop_left = _greater(-more_width // 2, 0)
        pad_left = _greater(more_width // 2, 0)
        more_height = target_height - height
        crop_top = _greater(-more_height // 2, 0)
        pad_top = _greater(more_height // 2, 0)
        made = crop_to_bounding_box(
            image,
            crop_top,
            crop_left,
            _smaller(target_height, height),
            _smaller(target_width, width),
        )
        made = pad_to_bounding_box(made, pad_top, pad_left, target_height, target_width)
        _, height, width, _ = sizes_of(made, 4)
        after: list[Any] = []
        after += check(_same(height, target_height), ValueError, "resized height is not correct.")
        after += check(_same(width, target_width), ValueError, "resized width is not correct.")
        made = with_dependencies(after, made)
        return squeeze(made, axis=[0]) if alone else made


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """`size` of a tensor of any rank, from an offset on that is drawn in every step."""
    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtype=dtypes.int32, name="size")
        whole = shape_of(value)
        fits = Assert(
            reduce_all(greater_equal(whole, size)),
            ["Need value.shape >= size, got ", whole, size],
            summarize=1000,
        )
        whole = with_dependencies([fits], whole)
        limit = whole - size + 1
        drawn = random_uniform(shape_of(whole), dtype=size.dtype, maxval=size.dtype.max, seed=seed)
        return sliced(value, drawn % limit, size, name=scope)
