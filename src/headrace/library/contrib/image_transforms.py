"""Images turned, moved and seen from elsewhere: `tf.contrib.image.rotate`, `translate`, `transform` and kin.

A transformation is eight numbers, a0 a1 a2 b0 b1 b2 c0 c1: what is at (x, y) of the output comes from
((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k) of the input, where k = c0 x + c1 y + 1.
Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15's contrib; tests compare values with the op that TF 2.21 has for it.  Here it is made of
gathers, so that its gradient is that of what is computed, where TF 1.15 transformed the gradient back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.base.arguments import check_word
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones, zeros, zeros_like
from headrace.ops.array.gathering import gather, where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity, stop_gradient
from headrace.ops.linalg.products import matmul
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.tables import make

__all__ = [
    "angles_to_projective_transforms",
    "compose_transforms",
    "flat_transforms_to_matrices",
    "matrices_to_flat_transforms",
    "rotate",
    "transform",
    "translate",
    "translations_to_projective_transforms",
]

_KINDS = (
    dtypes.uint8,
    dtypes.int32,
    dtypes.int64,
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
)
_WAYS = ("NEAREST", "BILINEAR")
_FAR = -2.0  # a place outside of every image


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Tensor:
    """Counterclockwise about their middles, by radians: one angle, or [n]; places from outside are 0.

    images: as for `transform`, which the errors are those of.
    """
    with name_scope(name, "rotate"):
        images = _checked(images)
        sides = shape_of(_as_batch(images))
        height, width = (cast(sides[axis], dtypes.float32) for axis in (1, 2))
        turned = angles_to_projective_transforms(angles, height, width)
        return transform(images, turned, interpolation)


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Tensor:
    """Moved by [dx, dy], or [n, 2]: to the right and down where they are positive; places from outside are 0.

    images: as for `transform`, which the errors are those of.
    """
    with name_scope(name, "translate"):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> Tensor:
    """[n, 8]: what `transform` takes to turn images of that size by one angle, or by [n], in radians.

    Raises TypeError: angles of another rank.
    """
    with name_scope(name, "angles_to_projective_transforms"):
        angles = convert(angles, dtypes.float32, name="angles")
        rank = angles.shape.ndims
        if rank not in (0, 1):
            raise TypeError(f"Angles should have rank 0 or 1, and have shape {angles.shape}.")
        angles = angles if rank else expand_dims(angles, 0)
        right, down = (cast(each, dtypes.float32) - 1.0 for each in (image_width, image_height))
        cosine, sine = make.Cos(angles), make.Sin(angles)
        across = (right - (cosine * right - sine * down)) / 2.0
        along = (down - (sine * right + cosine * down)) / 2.0
        nothing = zeros_like(angles)
        return stack([cosine, -sine, across, sine, cosine, along, nothing, nothing], 1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Tensor:
    """[n, 8]: what `transform` takes to move images by [dx, dy], or by [n, 2].

    Raises TypeError: translations of another rank.
    """
    with name_scope(name, "translations_to_projective_transforms"):
        moved = convert(translations, dtypes.float32, name="translations")
        rank = moved.shape.ndims
        if rank not in (1, 2):
            raise TypeError(f"Translations should have rank 1 or 2, and have shape {moved.shape}.")
        moved = moved if rank == 2 else expand_dims(moved, 0)
        across, along = -moved[:, 0], -moved[:, 1]
        nothing = zeros_like(across)
        one = nothing + 1.0
        return stack([one, nothing, across, nothing, one, along, nothing, nothing], 1)


def flat_transforms_to_matrices(transforms: Any) -> Tensor:
    """[n, 3, 3], of one transformation or of [n, 8].  Raises ValueError: another rank."""
    with name_scope(None, "flat_transforms_to_matrices"):
        flat = convert(transforms, name="transforms")
        if flat.shape.ndims not in (1, 2):
            raise ValueError(f"Transforms should be 1D or 2D, got: {flat}")
        flat = reshape(flat, [-1, 8])
        last = ones([shape_of(flat)[0], 1], flat.dtype.base_dtype)
        return reshape(concat([flat, last], 1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Tensor:
    """[n, 8], of one matrix or of [n, 3, 3], divided by their last elements.  Raises ValueError: another rank."""
    with name_scope(None, "matrices_to_flat_transforms"):
        matrices = convert(transform_matrices, name="matrices")
        if matrices.shape.ndims not in (2, 3):
            raise ValueError(f"Matrices should be 2D or 3D, got: {matrices}")
        flat = reshape(matrices, [-1, 9])
        divided: Tensor = flat / flat[:, 8:9]
        return divided[:, :8]


def compose_transforms(*transforms: Any) -> Tensor:
    """[n, 8]: what does at once what these do to images one after the other, the first first.

    Each is one transformation, or [n, 8].  Raises ValueError: there is none.
    """
    if not transforms:
        raise ValueError("transforms cannot be empty: compose_transforms takes one or more")
    with name_scope(None, "compose_transforms"):
        composed, *others = map(flat_transforms_to_matrices, transforms)
        for each in others:
            composed = matmul(composed, each)
        return matrices_to_flat_transforms(composed)


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """What comes to each place of the output from where the transformation has it; 0 from outside.

    images: [n, h, w, c], [h, w, c] or [h, w].  transforms: [8], or [n, 8].  interpolation: "NEAREST", or "BILINEAR"
    between four places.  output_shape: [height, width], the images' own if None.  Transformations get no gradient.
    Raises TypeError; ValueError: interpolation, the shape of transforms or output_shape.
    """
    with name_scope(name, "transform"):
        images = _checked(images)
        check_word("transform", "interpolation", interpolation, _WAYS)
        way = interpolation.upper()
        if way not in _WAYS:
            raise ValueError(
                f"Invalid interpolation {interpolation}. Supported types: {', '.join(_WAYS)}"
            )
        moved = _checked_transforms(transforms)
        batch = _as_batch(images)
        height, width = _sides(batch, output_shape)
        x, y = _places(_as_many(moved, batch), height, width)
        made = (_nearest if way == "NEAREST" else _between)(batch, x, y)
        raw = batch.raw_shape or ()
        made.set_shape([raw[0], *_known(height, width), raw[3]])
        return _as_before(made, images)


def _checked(given: Any) -> Tensor:
    images: Tensor = convert(given, name="images")
    if images.dtype.base_dtype not in _KINDS:
        raise TypeError(
            f"Invalid dtype {images.dtype}. Images are of {', '.join(each.name for each in _KINDS)}"
        )
    rank = images.shape.ndims
    if rank is None:
        raise TypeError("image_or_images rank must be statically known: give it by set_shape")
    if rank not in (2, 3, 4):
        raise TypeError(
            f"Images should have rank between 2 and 4: [n, h, w, c], [h, w, c] or [h, w], not {images.shape}"
        )
    return images


def _checked_transforms(transforms: Any) -> Tensor:
    moved: Tensor = stop_gradient(convert(transforms, dtypes.float32, name="transforms"))
    rank = moved.shape.ndims
    if rank is None:
        raise TypeError("transform_or_transforms rank must be statically known")
    if rank not in (1, 2):
        raise TypeError(f"Transforms should have rank 1 or 2, and have shape {moved.shape}.")
    if (moved.raw_shape or (None,))[-1] not in (None, 8):
        raise ValueError(f"transforms are eight numbers each, and have shape {moved.shape}")
    return moved if rank == 2 else expand_dims(moved, 0)


def _as_many(moved: Tensor, batch: Tensor) -> Tensor:
    """The transformations, which are one or as many as there are images; checked in a step if not known before."""
    says = "Input transforms should be num_images x 8 or 1 x 8: there are"
    given, wanted = ((each.raw_shape or ())[0] for each in (moved, batch))
    if given == 1 or (given is not None and given == wanted):
        return moved
    if given is not None and wanted is not None:
        raise ValueError(f"{says} {given}, and {wanted} images")
    count, images = (shape_of(each)[0] for each in (moved, batch))
    fits = make.LogicalOr(make.Equal(count, 1), make.Equal(count, images))
    with control_dependencies([Assert(fits, [says, count, "and images", images])]):
        checked: Tensor = identity(moved)
    return checked


def _as_batch(images: Tensor) -> Tensor:
    rank = images.shape.ndims
    if rank == 2:
        return expand_dims(expand_dims(images, 0), 3)
    return expand_dims(images, 0) if rank == 3 else images


def _as_before(batch: Tensor, images: Tensor) -> Tensor:
    rank = images.shape.ndims
    if rank == 2:
        return batch[0, :, :, 0]
    return batch[0] if rank == 3 else batch


def _sides(batch: Tensor, output_shape: Any) -> tuple[Tensor, Tensor]:
    given = shape_of(batch)[1:3] if output_shape is None else output_shape
    sides = convert(given, dtypes.int32, name="output_shape")
    if not sides.shape.is_compatible_with([2]):
        raise ValueError(
            "output_shape must be a 1-D Tensor of 2 elements: new_height, new_width; its shape is "
            f"{sides.shape}"
        )
    return sides[0], sides[1]


def _known(*sizes: Tensor) -> list[int | None]:
    values = map(constant_value, sizes)
    return [None if value is None else int(value) for value in values]


def _places(moved: Tensor, height: Tensor, width: Tensor) -> tuple[Tensor, Tensor]:
    """Where each place of the output comes from, [n or 1, height, width]: x and y."""
    across = cast(range_of(width), dtypes.float32)[None, None, :]
    along = cast(range_of(height), dtypes.float32)[None, :, None]
    number = [moved[:, at, None, None] for at in range(8)]
    share = number[6] * across + number[7] * along + 1.0

    def place(first: int) -> Tensor:
        found = (number[first] * across + number[first + 1] * along + number[first + 2]) / share
        return where(make.IsFinite(found), found, zeros_like(found) + _FAR)

    return place(0), place(3)


def _reader(batch: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """From x and y [n or 1, height, width] that are whole numbers to what is there, [n, height, width, c]."""
    count, height, width, channels = (shape_of(batch)[axis] for axis in range(4))
    # what is read from outside is the last line
    nothing = zeros([1, channels], batch.dtype.base_dtype)
    lines = concat([reshape(batch, [-1, channels]), nothing], 0)
    first = (range_of(count) * height * width)[:, None, None]

    def read(x: Tensor, y: Tensor) -> Tensor:
        right, bottom = (cast(side - 1, dtypes.float32) for side in (width, height))
        within = make.LogicalAnd(
            make.LogicalAnd(make.GreaterEqual(x, 0.0), make.LessEqual(x, right)),
            make.LogicalAnd(make.GreaterEqual(y, 0.0), make.LessEqual(y, bottom)),
        )
        column = cast(clip_by_value(x, 0.0, make.Maximum(right, 0.0)), dtypes.int32)
        row = cast(clip_by_value(y, 0.0, make.Maximum(bottom, 0.0)), dtypes.int32)
        at = first + row * width + column
        outside = zeros_like(at) + count * height * width
        # `within` may be of one transformation, for many images
        within = make.LogicalAnd(within, make.GreaterEqual(at, 0))
        return gather(lines, where(within, at, outside))

    return read


def _nearest(batch: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return _reader(batch)(_rounded(x), _rounded(y))


def _rounded(x: Tensor) -> Tensor:
    """To the nearest whole number, halves away from 0."""
    size = make.Abs(x)
    whole = make.Floor(size)
    more = cast(make.GreaterEqual(size - whole, 0.5), dtypes.float32)
    nearest: Tensor = make.Sign(x) * (whole + more)
    return nearest


def _between(batch: Tensor, x: Tensor, y: Tensor) -> Tensor:
    read = _reader(batch)
    left, top = make.Floor(x), make.Floor(y)
    right, bottom = left + 1.0, top + 1.0

    def of_line(row: Tensor) -> Any:
        first, second = (cast(read(column, row), dtypes.float32) for column in (left, right))
        return (right - x)[..., None] * first + (x - left)[..., None] * second

    both = (bottom - y)[..., None] * of_line(top) + (y - top)[..., None] * of_line(bottom)
    made: Tensor = cast(both, batch.dtype.base_dtype)
    return made
