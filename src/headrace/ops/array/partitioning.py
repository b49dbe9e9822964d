"""Splitting rows by a partition number, and stitching them together again.

Called by: embedding, programs.  Threads: any.
Source: TF 1.15 core/ops/data_flow_ops.cc, core/kernels/{dynamic_partition_op,dynamic_stitch_op}.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape
from headrace.base.traits import NEVER_FAILS, NONE, Traits
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.array.gathering import gather
from headrace.ops.array.ranges import all_axes
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.tables import make

__all__ = ["dynamic_partition", "dynamic_stitch"]

Array = np.ndarray[Any, Any]


def _partition_shapes(c: ShapeContext) -> list[Shape]:
    data, partitions = c.shape("data"), c.shape("partitions")
    count = c.attr("num_partitions")
    if data is None or partitions is None:
        return [None] * count
    shapes.merge_prefix(data, partitions, "data must start with the shape of partitions")
    return [(None, *data[len(partitions) :])] * count


@op(
    "DynamicPartition",
    inputs="data: T; partitions: int32",
    outputs="outputs: num_partitions * T",
    attrs="num_partitions: int >= 1; T: type",
    shape=_partition_shapes,
)
def dynamic_partition_op(xp: Any, data: Array, partitions: Array, *, num_partitions: int) -> Any:
    """outputs[i]: the slices data[j] with partitions[j] == i, in order; j over partitions' indices.

    partitions.shape is a prefix of data.shape.  Raises InvalidArgument.
    """
    data, partitions = np.asarray(data), np.asarray(partitions)
    if data.shape[: partitions.ndim] != partitions.shape:
        raise errors.invalid_argument(
            f"data.shape must start with partitions.shape, got data.shape = {shapes.text(data.shape)}, "
            f"partitions.shape = {shapes.text(partitions.shape)}"
        )
    bad = (partitions < 0) | (partitions >= num_partitions)
    if np.any(bad):
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise errors.invalid_argument(
            f"partitions{shapes.text(at) if at else ''} = {partitions[at]} is not in [0, {num_partitions})"
        )
    return [data[partitions == index] for index in range(num_partitions)]


@dynamic_partition_op.gradient
def _(op: Operation, *douts: Tensor) -> Any:
    data, partitions = op.inputs
    count = op["num_partitions"]
    prefix = shape_of(partitions)
    places = reshape(range_of(make.Prod(prefix, all_axes(prefix))), prefix)
    pieces = make.DynamicPartition(places, partitions, num_partitions=count)
    whole = make.ParallelDynamicStitch(pieces, list(douts))
    return reshape(whole, shape_of(data)), None


def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """`num_partitions` tensors: the slices of `data` that `partitions` sends to each."""
    made: list[Tensor] = dynamic_partition_op(
        data, partitions, num_partitions=num_partitions, name=name
    )
    return made


def _stitch_shape(c: ShapeContext) -> Shape:
    count = c.attr("N")
    every = c.shapes
    rest: Shape = None
    largest: int | None = -1
    for position in range(count):
        indices, data = every[position], every[count + position]
        value = c.value(position)
        if value is None:
            largest = None
        elif largest is not None and value.size:
            largest = max(largest, int(value.max()))
        if indices is None or data is None:
            continue
        shapes.merge_prefix(data, indices, f"data[{position}] must start with that of indices")
        rest = shapes.merge(rest, data[len(indices) :])
    if rest is None:
        return None
    return (None if largest is None else largest + 1, *rest)


def _stitch(indices: list[Array], data: list[Array]) -> Array:
    size, rest = 0, None
    for number, (index, piece) in enumerate(zip(indices, data, strict=True)):
        if piece.shape[: index.ndim] != index.shape:
            raise errors.invalid_argument(
                f"data[{number}].shape = {shapes.text(piece.shape)} does not start with "
                f"indices[{number}].shape = {shapes.text(index.shape)}"
            )
        tail = piece.shape[index.ndim :]
        if rest is not None and tail != rest:
            raise errors.invalid_argument(
                f"Need data[0].shape[{indices[0].ndim}:] = data[{number}].shape[{index.ndim}:], "
                f"got {shapes.text(rest)} and {shapes.text(tail)}: "
                "all data must have one shape after that of their indices"
            )
        rest = tail
        if index.size:
            if int(index.min()) < 0:
                raise errors.invalid_argument(
                    f"indices[{number}] is out of range: it holds {int(index.min())}, and must not be negative"
                )
            size = max(size, int(index.max()) + 1)
    out = np.zeros((size, *(rest or ())), data[0].dtype)
    if out.dtype == object:
        out[...] = b""
    for index, piece in zip(indices, data, strict=True):
        out[index.ravel()] = piece.reshape(index.size, *(rest or ()))
    return out


def _stitching(name: str, traits: Traits = NONE) -> OpSpec:
    @op(
        name,
        inputs="indices: N * int32; data: N * T",
        outputs="merged: T",
        attrs="N: int >= 1; T: type",
        shape=_stitch_shape,
        traits=traits,
    )
    def spec(xp: Any, *both: Any) -> Any:
        """merged[indices[i]] = data[i]; where an index repeats, the last one counts.

        Raises InvalidArgument if an index is negative or shapes do not fit.
        """
        arrays = [np.asarray(x) for x in both]
        count = len(arrays) // 2
        return _stitch(arrays[:count], arrays[count:])

    @spec.gradient
    def _(op: Operation, dout: Tensor) -> Any:
        count = op["N"]
        indices = op.inputs[:count]
        if isinstance(dout, IndexedSlices):
            rows = shape_of(op.outputs[0])[0]
            dout = make.UnsortedSegmentSum(dout.values, dout.indices, rows)
        return [None] * count + [gather(dout, index) for index in indices]

    return spec


dynamic_stitch_op = _stitching("DynamicStitch", traits={NEVER_FAILS})
parallel_dynamic_stitch_op = _stitching("ParallelDynamicStitch")


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """The slices of all `data`, each put at its index."""
    made: Tensor = dynamic_stitch_op(list(indices), list(data), name=name)
    return made
