"""Sparse tensors into numbers and back: what lets queues batch them.

AddSparseToTensorsMap keeps a sparse tensor on its task and gives its handle; TakeManySparseFromTensorsMap, on the same
task, puts those of several handles together, one a row.
Called by: training.sparse_batches, programs that name these ops.  Threads: kernels in any step's thread.
Source: TF 1.15 core/ops/sparse_ops.cc, core/kernels/sparse_tensors_map_ops.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.places import all_below
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.sparse_maps import Sparse, SparseTensorsMap

__all__: list[str] = []

Array = np.ndarray[Any, Any]
_INPUTS = "sparse_indices: int64; sparse_values: T; sparse_shape: int64"
_SHARED = "container: string = ''; shared_name: string = ''"


def _map(ctx: KernelContext, container: bytes, shared_name: bytes) -> SparseTensorsMap:
    """The map of that name, or of the node's."""
    return ctx.resource(
        SparseTensorsMap, lambda: SparseTensorsMap(ctx.node.name), container, shared_name
    )


def unfit(indices: Array, values: Array) -> str:
    """What is wrong first with the parts of a sparse tensor that do not belong together."""
    if indices.ndim != 2:
        return f"Sparse indices must be rank 2 but is rank {indices.ndim}"
    if values.shape != indices.shape[:1]:
        return f"Number of elements in indices ({len(indices)}) and values ({values.size}) do not match"
    return "Number of dimensions in indices and shape do not match"


def _unlike(indices: Array, values: Array, shape: Array) -> str:
    if indices.ndim != 2:
        return f"Input indices should be a matrix but received shape {text(indices.shape)}"
    if values.ndim != 1:
        return f"Input values should be a vector but received shape {text(values.shape)}"
    return f"Input shape should be a vector but received shape {text(shape.shape)}"


def checked_sparse(indices: Array, values: Array, shape: Array) -> None:
    """Raises InvalidArgument unless they are the parts of one sparse tensor."""
    if indices.ndim != 2 or values.ndim != 1 or shape.ndim != 1:
        raise errors.invalid_argument(
            f"{_unlike(indices, values, shape)}: a sparse tensor has indices [n, rank], values [n] and a shape "
            "[rank], and "
            f"not {list(indices.shape)}, {list(values.shape)} and {list(shape.shape)}"
        )
    if len(indices) != len(values) or indices.shape[1] != len(shape):
        raise errors.invalid_argument(
            f"{unfit(indices, values)}: indices {list(indices.shape)}, "
            f"values {list(values.shape)}, shape {list(shape.shape)}"
        )


def rows_of(indices: Array, values: Array, shape: Array) -> list[Sparse]:
    """The rows of a sparse tensor [n, ...] as sparse tensors.  Raises InvalidArgument."""
    checked_sparse(indices, values, shape)
    if len(shape) < 2:
        raise errors.invalid_argument(
            f"a sparse tensor of rank {len(shape)} has no rows that are sparse tensors; rank 2 or more is needed"
        )
    count = int(shape[0])
    rows = indices[:, 0]
    if not all_below(rows, count):
        at = int(np.flatnonzero((rows < 0) | (rows >= count))[0])
        raise errors.invalid_argument(
            f"indices[{at}] = {text(tuple(indices[at]))} is out of bounds: need 0 <= index < "
            f"{text(tuple(shape))}; the sparse tensor "
            f"has {count} rows"
        )
    order = np.argsort(rows, kind="stable")
    cuts: Any = np.searchsorted(rows[order], np.arange(1, count)) if count else []
    return [
        (indices[chosen, 1:], values[chosen], shape[1:].copy()) for chosen in np.split(order, cuts)
    ][:count]


def _shapes(c: ShapeContext, result: Shape) -> Shape:
    c.with_rank("sparse_indices", 2)
    c.with_rank("sparse_values", 1)
    c.with_rank("sparse_shape", 1)
    return result


@op(
    "AddSparseToTensorsMap",
    inputs=_INPUTS,
    outputs="sparse_handle: int64",
    attrs="T: type; " + _SHARED,
    shape=lambda c: _shapes(c, ()),
    traits={STATEFUL},
    differentiable=False,
)
def add_sparse_to_tensors_map(
    ctx: KernelContext,
    sparse_indices: Array,
    sparse_values: Array,
    sparse_shape: Array,
    *,
    T: DType,
    container: bytes,
    shared_name: bytes,
) -> Any:
    """Keep a sparse tensor; its handle [].  Raises InvalidArgument."""
    checked_sparse(sparse_indices, sparse_values, sparse_shape)
    kept = (sparse_indices.copy(), sparse_values.copy(), sparse_shape.copy())
    return np.int64(_map(ctx, container, shared_name).add(T, [kept])[0])


@op(
    "AddManySparseToTensorsMap",
    inputs=_INPUTS,
    outputs="sparse_handles: int64",
    attrs="T: type; " + _SHARED,
    shape=lambda c: _shapes(c, (None,)),
    traits={STATEFUL},
    differentiable=False,
)
def add_many_sparse_to_tensors_map(
    ctx: KernelContext,
    sparse_indices: Array,
    sparse_values: Array,
    sparse_shape: Array,
    *,
    T: DType,
    container: bytes,
    shared_name: bytes,
) -> Any:
    """Keep each row of a sparse tensor [n, ...] as a sparse tensor of its own; handles [n].

    Raises InvalidArgument.
    """
    parts = rows_of(sparse_indices, sparse_values, sparse_shape)
    return np.array(_map(ctx, container, shared_name).add(T, parts), np.int64)


def _taken_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("sparse_handles", 1)
    return [(None, None), (None,), (None,)]


@op(
    "TakeManySparseFromTensorsMap",
    inputs="sparse_handles: int64",
    outputs="sparse_indices: int64; sparse_values: dtype; sparse_shape: int64",
    attrs="dtype: type; " + _SHARED,
    shape=_taken_shapes,
    traits={STATEFUL},
    differentiable=False,
)
def take_many_sparse_from_tensors_map(
    ctx: KernelContext,
    sparse_handles: Array,
    *,
    dtype: DType,
    container: bytes,
    shared_name: bytes,
) -> tuple[Array, Array, Array]:
    """The sparse tensors of handles [n] as one of shape [n, ...]; the map forgets them.

    Each dimension is as long as the longest.  Raises InvalidArgument: no handles, unknown ones, ranks that differ.
    """
    if sparse_handles.ndim != 1 or not len(sparse_handles):
        raise errors.invalid_argument(
            f"handles must be a vector with at least one, and have shape {list(sparse_handles.shape)}"
        )
    taken = _map(ctx, container, shared_name).take(dtype, sparse_handles.tolist())
    return stacked(taken)


def stacked(tensors: list[Sparse]) -> Sparse:
    """Sparse tensors of one rank as the rows of one.  Raises InvalidArgument."""
    ranks = sorted({len(shape) for _, _, shape in tensors})
    if len(ranks) > 1:
        raise errors.invalid_argument(
            f"sparse tensors of different ranks cannot be put together: {ranks}"
        )
    counts = [len(values) for _, values, _ in tensors]
    rows = np.repeat(np.arange(len(tensors), dtype=np.int64), counts)
    indices = np.concatenate([indices for indices, _, _ in tensors])
    sizes = np.max([shape for _, _, shape in tensors], axis=0)
    return (
        np.concatenate([rows[:, None], indices], axis=1),
        np.concatenate([values for _, values, _ in tensors]),
        np.concatenate([np.array([len(tensors)], np.int64), sizes.astype(np.int64)]),
    )
