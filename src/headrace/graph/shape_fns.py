"""Static shape functions: what an op block's ``shape=`` may say, and the context they see.

A shape function takes a `ShapeContext` and returns one raw shape (tuple with None for unknown
sizes, or None for unknown rank), or a list of them, one an output.  It raises ValueError when the
inputs can never fit; the builder adds the node's name.
Called by: graph.graph when a node is made.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.base import shapes
from headrace.base.shapes import Shape
from headrace.graph.registry import ShapeFn, flat_arg_index

if TYPE_CHECKING:
    from headrace.graph.graph import Operation


class ShapeContext:
    """A node as its shape function sees it."""

    __slots__ = ("op",)

    def __init__(self, op: Operation) -> None:
        self.op = op

    def index(self, arg: int | str) -> int:
        """The flat input index of `arg`."""
        if isinstance(arg, int):
            return arg
        assert self.op.spec is not None
        return flat_arg_index(self.op.spec, arg)

    def shape(self, arg: int | str) -> Shape:
        """Static shape of an input."""
        return self.op.inputs[self.index(arg)].raw_shape

    @property
    def shapes(self) -> list[Shape]:
        """Static shapes of all inputs, flat."""
        return [tensor.raw_shape for tensor in self.op.inputs]

    def value(self, arg: int | str) -> np.ndarray[Any, Any] | None:
        """The input's value if it can be computed now, else None."""
        from headrace.graph.const_value import folded

        return folded(self.op.inputs[self.index(arg)])

    def shape_value(self, arg: int | str) -> Shape:
        """An input that holds a shape (vector of sizes), as far as it is known now.  ValueError for no vector."""
        from headrace.graph.const_value import as_shape

        self.with_rank(arg, 1)
        return as_shape(self.op.inputs[self.index(arg)])

    def size_value(self, arg: int | str) -> int | None:
        """The value of an input that holds one size, if it is known.  Raises ValueError for a vector or less than 0."""
        value = self.value(arg)
        if value is None:
            return None
        if value.ndim:
            raise ValueError(
                f"Input must be scalar but has rank {value.ndim}: {self._name(arg)} is a size"
            )
        size = int(value)
        if size < 0:
            raise ValueError(
                f"Dimension size, given by scalar input {self.index(arg)}, must be non-negative but is {size}: "
                f"it is {self._name(arg)}"
            )
        return size

    def attr(self, name: str) -> Any:
        """Value of an attr."""
        return self.op.attrs[name]

    @property
    def num_outputs(self) -> int:
        """Of the node, with all that its lists stand for."""
        return len(self.op.outputs)

    def with_rank(self, arg: int | str, rank: int) -> Shape:
        """Shape of an input that must have `rank`; unknown sizes when nothing is known."""
        shape = self.shape(arg)
        if shape is None:
            return (None,) * rank
        if len(shape) != rank:
            raise ValueError(
                f"Shape must be rank {rank} but is rank {len(shape)}: "
                f"{self._name(arg)} has shape {shapes.text(shape)}"
            )
        return shape

    def with_rank_at_least(self, arg: int | str, rank: int) -> Shape:
        """Shape of an input, which must have at least `rank` dimensions if it is known."""
        shape = self.shape(arg)
        if shape is not None and len(shape) < rank:
            raise ValueError(
                f"Shape must be at least rank {rank} but is rank {len(shape)}: "
                f"{self._name(arg)} has shape {shapes.text(shape)}"
            )
        return shape

    def with_rank_at_most(self, arg: int | str, rank: int) -> Shape:
        """Shape of an input, which must have at most `rank` dimensions if it is known."""
        shape = self.shape(arg)
        if shape is not None and len(shape) > rank:
            raise ValueError(
                f"Shape must be at most rank {rank} but is rank {len(shape)}: "
                f"{self._name(arg)} has shape {shapes.text(shape)}"
            )
        return shape

    def with_size(self, arg: int | str, size: int, axis: int = 0) -> Shape:
        """Shape of an input that has `size` elements along `axis` if that is known."""
        shape = self.shape(arg)
        found = None if shape is None else shape[axis]
        if found not in (None, size):
            raise ValueError(f"Dimension must be {size} but is {found}: that of {self._name(arg)}")
        return shape

    def with_sparse(self, indices: int | str, values: int | str, sizes: int | str) -> None:
        """The parts of a sparse tensor.  Raises ValueError where they do not fit each other."""
        where, given, whole = (
            self.with_rank(arg, rank) for arg, rank in ((indices, 2), (values, 1), (sizes, 1))
        )
        assert where is not None
        assert given is not None
        assert whole is not None
        for what, mine, other in (
            ("Number of elements in index ({}) and values ({}) do not match", where[0], given[0]),
            ("Index rank ({}) and shape rank ({}) do not match", where[1], whole[0]),
        ):
            if mine is not None and other is not None and mine != other:
                raise ValueError(f"{what.format(mine, other)}.: {self._name(indices)}")

    def _name(self, arg: int | str) -> str:
        tensor = self.op.inputs[self.index(arg)]
        label = arg if isinstance(arg, str) else f"input {arg}"
        return f"{label} ({tensor.name})"


def scalar(c: ShapeContext) -> Shape | list[Shape]:
    """Every output is a scalar."""
    return () if c.num_outputs == 1 else [()] * c.num_outputs


def unknown(c: ShapeContext) -> Shape | list[Shape]:
    """Nothing is known of any output."""
    return None if c.num_outputs == 1 else [None] * c.num_outputs


def unchanged(c: ShapeContext) -> Shape:
    """The shape of the first input."""
    return c.op.inputs[0].raw_shape


def same_as(arg: str) -> ShapeFn:
    """The shape of input `arg`."""

    def shape(c: ShapeContext) -> Shape:
        return c.shape(arg)

    return shape


def broadcast(c: ShapeContext) -> Shape:
    """What the first two inputs broadcast to."""
    x, y = c.op.inputs[0].raw_shape, c.op.inputs[1].raw_shape
    return shapes.broadcast(x, y)


def merged(c: ShapeContext) -> Shape:
    """All inputs have one shape; the output has it too."""
    found: Shape = None
    for shape in c.shapes:
        found = shapes.merge(found, shape)
    return found


def check_scattered(whole: Shape, indices: Shape, updates: Shape) -> None:
    """Updates at `indices` of a `whole` have the shape [*indices[:-1], *whole[indices[-1]:]].  Raises ValueError."""
    if whole is None or not indices or updates is None:
        return
    depth, outer = indices[-1], len(indices) - 1
    if depth is None or depth > len(whole):
        return  # what is too deep is an error of the step
    of_updates = f"of updates[shape={shapes.text(updates)}]"
    for what, shape, first, part in (
        ("indices", indices, slice(0, outer), slice(0, outer)),
        ("input", whole, slice(depth, len(whole)), slice(outer, len(updates))),
    ):
        try:
            shapes.merge(shape[first], updates[part])
        except ValueError as error:
            raise ValueError(
                f"Dimensions [{first.start},{first.stop}) of {what}[shape={shapes.text(shape)}] = "
                f"{shapes.text(shape[first])} must match dimensions [{part.start},{part.stop}) {of_updates} = "
                f"{shapes.text(updates[part])}: {error}"
            ) from None


def vector(size: int | None = None) -> ShapeFn:
    """A vector of `size` elements."""
    return lambda c: (size,)


def from_attr(name: str) -> ShapeFn:
    """The shape that attr `name` holds."""

    def shape(c: ShapeContext) -> Shape:
        raw: Shape = c.attr(name)._raw
        return raw

    return shape


def each(shape: Shape, outputs: Sequence[Any]) -> list[Shape]:
    """One `shape` for each of `outputs`."""
    return [shape] * len(outputs)
