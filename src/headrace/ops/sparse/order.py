"""Sparse tensors in row-major order, and sparse tensors made of ids and values.

Called by: library.parsing, programs.  Threads: any.
Source: TF 1.15 core/kernels/sparse_reorder_op.cc, python/ops/sparse_ops.py, for behaviour; GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape
from headrace.graph.names import name_scope
from headrace.graph.operation import Operation
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.sparse_keys import row_major
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.ranges import range as range_
from headrace.ops.array.shapes import expand_dims
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.sparse.maps import unfit

__all__ = ["sparse_merge", "sparse_reorder"]

Array = np.ndarray[Any, Any]


def _reorder_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("input_shape", 1)
    return [c.with_rank("input_indices", 2), c.with_rank("input_values", 1)]


@op(
    "SparseReorder",
    inputs="input_indices: int64; input_values: T; input_shape: int64",
    outputs="output_indices: int64; output_values: T",
    attrs="T: type",
    shape=_reorder_shapes,
)
def sparse_reorder_op(
    xp: Any, input_indices: Array, input_values: Array, input_shape: Array
) -> Any:
    """The elements in row-major order of their indices; of equal ones the order stays.

    Raises InvalidArgument for parts that do not belong together.
    """
    count, rank = (*input_indices.shape, 0, 0)[:2]
    if input_indices.ndim != 2 or input_values.shape != (count,) or input_shape.shape != (rank,):
        raise errors.invalid_argument(
            f"{unfit(input_indices, input_values)}: indices {list(input_indices.shape)}, "
            f"values {list(input_values.shape)}, shape {list(input_shape.shape)}"
        )
    order = row_major(input_indices)
    if order is None:
        return input_indices.copy(), input_values.copy()
    return input_indices[order], input_values[order]


@sparse_reorder_op.gradient
def _(op: Operation, d_indices: Any, d_values: Tensor) -> Any:
    """Each value's gradient goes back to where the value came from."""
    indices, _, shape = op.inputs
    numbered = SparseTensor(indices, range_(shape_of(indices)[0]), shape)
    came_from = sparse_reorder(numbered).values
    return None, gather(d_values, get("InvertPermutation")(came_from)), None


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """The elements in row-major order."""
    given = as_sparse(sp_input)
    indices, values = sparse_reorder_op(given.indices, given.values, given.dense_shape, name=name)
    if given.get_shape().is_fully_defined():
        return SparseTensor(indices, values, given.get_shape().as_list())
    return SparseTensor(indices, values, identity(given.dense_shape))


def as_sparse(value: Any) -> SparseTensor:
    """A SparseTensor, or the value of one as constants.  Raises TypeError."""
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor, and not {value!r:.80}")
    return value


def sparse_merge(
    sp_ids: Any,
    sp_values: Any,
    vocab_size: Any,
    name: str | None = None,
    already_sorted: bool = False,
) -> SparseTensor:
    """The values at the places that the ids name: the last dimension of the ids becomes one of `vocab_size`.

    sp_ids: a SparseTensor of integers, or several, one for each dimension that is made; vocab_size as many.
    Raises TypeError, ValueError.
    """
    several = isinstance(sp_ids, (list, tuple)) and not isinstance(sp_ids, SparseTensorValue)
    ids = [as_sparse(each) for each in (sp_ids if several else [sp_ids])]
    if several:
        if not isinstance(vocab_size, (list, tuple)):
            raise TypeError(
                f"vocab_size must be a list of sizes, one for each of sp_ids, and not {vocab_size!r:.60}"
            )
        sizes = list(vocab_size)
    else:
        if not isinstance(vocab_size, (Tensor, int, np.integer)):
            raise TypeError(
                f"vocab_size has to be a Tensor or Python int, and is {vocab_size!r:.60}"
            )
        sizes = [vocab_size]
    if len(ids) != len(sizes):
        raise ValueError(f"there are {len(ids)} sp_ids and {len(sizes)} sizes in vocab_size")
    values = as_sparse(sp_values)
    with name_scope(name, "SparseMerge"):
        columns = []
        for each in ids:
            columns.append(expand_dims(cast(each.values, dtypes.int64), axis=1))
        wide = [cast(size, dtypes.int64) for size in sizes]
        indices = concat([ids[0].indices[:, :-1], *columns], 1)
        shape = concat([ids[0].dense_shape[:-1], wide], 0)
        merged = SparseTensor(indices, values.values, shape)
        if already_sorted:
            return merged
        ordered = sparse_reorder(merged)
        return SparseTensor(ordered.indices, ordered.values, shape)
