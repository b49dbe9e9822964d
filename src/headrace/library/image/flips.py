"""Images mirrored, turned and transposed.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/image_ops_impl.py); nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.cases import case
from headrace.library.image.checking import as_image, check_image, checked
from headrace.ops.array.padding import reverse
from headrace.ops.array.shapes import rank as rank_of
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, less
from headrace.ops.math.elementwise import round as rounded
from headrace.ops.random.draws import random_uniform

__all__ = [
    "flip_left_right",
    "flip_up_down",
    "random_flip_left_right",
    "random_flip_up_down",
    "rot90",
    "transpose_image",
]

_UP_DOWN, _LEFT_RIGHT = 0, 1


def _of_rank(image: Tensor, one: Callable[[], Tensor], batch: Callable[[], Tensor]) -> Tensor:
    """One image or a batch of them, also where only the step knows which.  Raises ValueError."""
    rank = image.shape.ndims
    if rank == 3:
        return one()
    if rank == 4:
        return batch()
    if rank is None:
        made: Tensor = cond(equal(rank_of(image), 3), one, batch)
        return made
    raise ValueError(
        f"'image' (shape {image.shape}) must have either 3 or 4 dimensions: one image, or a batch of them."
    )


def _flipped(image: Any, axis: int, name: str) -> Tensor:
    with name_scope(None, name, [image]):
        image = checked(as_image(image))

        def one() -> Tensor:
            return _with_shape_of(reverse(image, [axis]), image)

        return _of_rank(image, one, lambda: reverse(image, [axis + 1]))


def flip_left_right(image: Any) -> Tensor:
    """[height, width, channels] or a batch of them, mirrored: left is right.  Raises ValueError."""
    return _flipped(image, _LEFT_RIGHT, "flip_left_right")


def flip_up_down(image: Any) -> Tensor:
    """[height, width, channels] or a batch of them, upside down.  Raises ValueError."""
    return _flipped(image, _UP_DOWN, "flip_up_down")


def _randomly(image: Any, axis: int, seed: int | None, name: str) -> Tensor:
    with name_scope(None, name, [image]) as scope:
        image = checked(as_image(image))

        def one() -> Tensor:
            chosen = less(random_uniform([], 0, 1.0, seed=seed), 0.5)
            made: Tensor = cond(chosen, lambda: reverse(image, [axis]), lambda: image, name=scope)
            return _with_shape_of(made, image)

        def batch() -> Tensor:
            count = shape_of(image)[0]
            drawn = random_uniform([count], 0, 1.0, seed=seed)
            flips = cast(rounded(reshape(drawn, [count, 1, 1, 1])), image.dtype)
            flipped = reverse(image, [axis + 1])
            made: Tensor = flips * flipped + (1 - flips) * image
            return made

        return _of_rank(image, one, batch)


def _with_shape_of(made: Tensor, image: Tensor) -> Tensor:
    made.set_shape([None, None, None] if image.shape.ndims is None else image.shape)
    return made


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """An image mirrored or not, each in half of the steps; of a batch, each image by itself."""
    return _randomly(image, _LEFT_RIGHT, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """An image upside down or not, each in half of the steps; of a batch, each image by itself."""
    return _randomly(image, _UP_DOWN, seed, "random_flip_up_down")


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """An image, or a batch of them, turned counter-clockwise k times by 90 degrees; k: int32 []."""
    with name_scope(name, "rot90", [image, k]) as scope:
        image = checked(as_image(image))
        k = convert_to_tensor(k, dtype=dtypes.int32, name="k")
        k.shape.assert_has_rank(0)
        k = k % 4
        return _of_rank(
            image, lambda: _turned(image, k, scope, 0), lambda: _turned(image, k, scope, 1)
        )


def _turned(image: Tensor, k: Tensor, scope: str, first: int) -> Tensor:
    """first: the axis of the rows."""
    rows, columns = first, first + 1
    perm = [*range(first), columns, rows, first + 2]
    cases = [
        (equal(k, 1), lambda: transpose(reverse(image, [columns]), perm)),
        (equal(k, 2), lambda: reverse(image, [rows, columns])),
        (equal(k, 3), lambda: reverse(transpose(image, perm), [columns])),
    ]
    made: Tensor = case(cases, default=lambda: image, exclusive=True, name=scope)
    sizes = [None, None, image.shape[-1].value]
    made.set_shape([image.shape[0].value, *sizes] if first else sizes)
    return made


def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """An image, or a batch of them, with rows and columns exchanged.  Raises ValueError."""
    with name_scope(name, "transpose", [image]):
        image = as_image(image)
        image = with_dependencies(check_image(image), image)
        return _of_rank(
            image,
            lambda: transpose(image, [1, 0, 2], name=name or "transpose"),
            lambda: transpose(image, [0, 2, 1, 3], name=name or "transpose"),
        )
