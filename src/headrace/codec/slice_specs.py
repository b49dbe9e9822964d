"""Parts of tensors as graphs write them: ``"4 5 0,2:-"`` is rows 0 and 1 of a tensor of [4, 5].

The sizes of the whole come first, then start and length of each dimension, ``-`` for all of one; the empty text is the
whole tensor.
Called by: ops.io.checkpoints, run.checkpoints.  Pure.
Source: TF 1.15 core/util/tensor_slice_util.cc, for the format; phrases of errors as of 2.21
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.base import errors
from headrace.base.shapes import text
from headrace.codec.ordered import WHOLE, Extent

_NUMBER: Final = re.compile(r"-?\d+\Z")


class SliceSpec(NamedTuple):
    """A part: sizes of the whole, and (start, length) of each dimension."""

    sizes: tuple[int, ...]
    extents: tuple[Extent, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the part."""
        return tuple(
            size if length == WHOLE else length
            for size, (_, length) in zip(self.sizes, self.extents, strict=True)
        )

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return all(length == WHOLE for _, length in self.extents)


def parsed(spec: str) -> SliceSpec | None:
    """What a text says; None for the empty one.

    Raises InvalidArgument for what cannot be read; Internal for parts that are not inside the whole, as TensorFlow.
    """
    if not spec:
        return None
    *sizes, part = spec.split(" ")
    if not sizes:
        raise errors.invalid_argument(
            f"Need least two elements in shape_and_slice specification: {spec}; the sizes of the whole come "
            "first, then start,length of each dimension, as in '4 5 0,2:-'"
        )
    if not all(_NUMBER.match(size) and int(size) >= 0 for size in sizes):
        raise errors.invalid_argument(
            f"Non numerical dimension in shape_and_slice: {spec}; '4 5 0,2:-' is rows 0 and 1 of a tensor of [4,5]"
        )
    found = SliceSpec(
        tuple(map(int, sizes)), tuple(_extent(each, part) for each in part.split(":"))
    )
    _check(found, part)
    return found


def _extent(each: str, part: str) -> Extent:
    if each == "-":
        return (0, WHOLE)
    start, comma, length = each.partition(",")
    if not (comma and _NUMBER.match(start) and _NUMBER.match(length)):
        raise errors.invalid_argument(
            f"Expected a pair of numbers or '-' but got '{each}': string = {part}"
        )
    if int(start) < 0 or int(length) <= 0:
        raise errors.invalid_argument(
            f"Expected non-negative start and positive length but got start = {start}, length = {length}: "
            f"string = {part}"
        )
    return (int(start), int(length))


def _check(spec: SliceSpec, part: str) -> None:
    sizes = text(spec.sizes)
    if len(spec.extents) != len(spec.sizes):
        raise errors.make(
            errors.INTERNAL,
            f"Mismatching ranks: shape = {sizes}, slice = {part}: a part has start,length or '-' for each dimension",
        )
    for at, (size, (start, length)) in enumerate(zip(spec.sizes, spec.extents, strict=True)):
        if length != WHOLE and start + length > size:
            raise errors.make(
                errors.INTERNAL,
                f"Extent in dimension {at} out of bounds: shape = {sizes}, slice = {part}: it ends at "
                f"{start + length} of {size}",
            )


def written(sizes: Sequence[int], extents: Sequence[Extent]) -> str:
    """The text of a part."""
    parts = ["-" if length == WHOLE else f"{start},{length}" for start, length in extents]
    return " ".join([*map(str, sizes), ":".join(parts)])
