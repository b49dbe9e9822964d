"""What functions of images ask of their shapes, while the graph is built, or in the step where they are not known.

Called by: library.image.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert_to_tensor
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor
from headrace.ops.array.packing import unstack
from headrace.ops.array.shapes import rank as rank_of
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.checks import assert_greater_equal, assert_positive
from headrace.ops.flow.identities import with_dependencies

__all__: list[str] = []

Sizes = list[Any]
"""Of dimensions: ints where they are known, else tensors."""


def as_image(image: Any) -> Tensor:
    """As a tensor, called `image` if it was none."""
    return convert_to_tensor(image, name="image")


def check_image(image: Tensor) -> list[Operation]:
    """What asserts that an image has three dimensions or more, all of them with something in it.

    Raises ValueError where that cannot be.
    """
    try:
        shape = (
            image.shape.with_rank(3)
            if image.shape.ndims is None
            else image.shape.with_rank_at_least(3)
        )
    except ValueError:
        raise ValueError(
            f"'image' (shape {image.shape}) must be at least three-dimensional: [..., height, width, channels]"
        ) from None
    inner = shape.as_list()[-3:]
    if 0 in inner:
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: it is {shape}")
    if None not in inner:
        return []
    return [
        assert_positive(shape_of(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."]),
        assert_greater_equal(
            rank_of(image), 3, message="'image' must be at least three-dimensional."
        ),
    ]


def checked(image: Tensor) -> Tensor:
    """`image` after `check_image`."""
    found: Tensor = with_dependencies(check_image(image), image)
    return found


def sizes_of(image: Tensor, rank: int) -> Sizes:
    """The sizes of an image of `rank`, as far as they are known; tensors for the others."""
    if image.shape.is_fully_defined():
        return list(image.shape.as_list())
    known = image.shape.with_rank(rank).as_list()
    asked = unstack(shape_of(image), rank)
    return [each if each is not None else tensor for each, tensor in zip(known, asked, strict=True)]


def static_sizes(*sizes: Any) -> TensorShape:
    """A shape of sizes, of which tensors are unknown."""
    return TensorShape([None if isinstance(size, Tensor) else size for size in sizes])


def check(condition: Any, error: type[Exception], message: str) -> list[Any]:
    """The Assert of a condition, or nothing where it is known to hold.  Raises `error` where it is known not to."""
    if isinstance(condition, Tensor):
        return [Assert(condition, [message])]
    if not condition:
        raise error(message)
    return []
