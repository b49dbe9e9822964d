"""Sparse tensors on their way through a batching queue: handles go in, sparse tensors come out.

Called by: training.batching.  Threads: as graph.
Source: TF 1.15 python/training/input.py, for behaviour; graphs checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.graph import Operation
from headrace.graph.names import colocate_with, name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, ones
from headrace.ops.array.gathering import gather, where
from headrace.ops.array.shapes import expand_dims, reshape, squeeze
from headrace.ops.flow.control_flow import smart_cond
from headrace.ops.flow.identities import identity, with_dependencies
from headrace.ops.math.casting import cast


class SparseInfo(NamedTuple):
    """A component that travels as a handle: the op that made the first of its kind, and the rank."""

    map_op: Operation
    rank: int | None


def stored(
    tensors: Sequence[Any],
    keep: Tensor,
    enqueue_many: bool,
    shared: Sequence[SparseInfo | None] | None = None,
) -> tuple[list[Tensor], list[SparseInfo | None]]:
    """Handles in the place of sparse tensors, and what is needed to restore them.

    shared: of another list of the same components, whose maps are used.  Raises ValueError.
    """
    maps = list(shared) if shared is not None else [None] * len(tensors)
    if shared is not None:
        kinds = [isinstance(tensor, SparseTensor) for tensor in tensors]
        if kinds != [info is not None for info in shared]:
            raise ValueError(
                "the lists of tensors must have their sparse tensors in the same places, with the same ranks"
            )
    handles: list[Any] = []
    found: list[SparseInfo | None] = []
    for tensor, known in zip(tensors, maps, strict=True):
        if not isinstance(tensor, SparseTensor):
            handles.append(tensor)
            found.append(None)
            continue
        handle, made = _stored(tensor, keep, enqueue_many, known)
        handles.append(handle)
        found.append(SparseInfo(known.map_op if known else made, _rank(tensor, enqueue_many)))
    if shared is not None and [info and info.rank for info in found] != [
        info and info.rank for info in shared
    ]:
        raise ValueError(
            f"the sparse tensors of the lists differ in rank: {[info and info.rank for info in shared]} and "
            f"{[info and info.rank for info in found]}"
        )
    return [
        handle if info is None else expand_dims(handle, [-1])
        for handle, info in zip(handles, found, strict=True)
    ], found


def _rank(tensor: SparseTensor, enqueue_many: bool) -> int | None:
    rank = tensor.dense_shape.get_shape().with_rank(1)._raw[0]  # type: ignore[index]
    return rank - 1 if rank is not None and enqueue_many else rank


def _stored(
    tensor: SparseTensor, keep: Tensor, enqueue_many: bool, known: SparseInfo | None
) -> tuple[Tensor, Operation]:
    """The handle, or handles, and the op that makes them."""
    made: list[Tensor] = []

    def store() -> Tensor:
        spec = get("AddManySparseToTensorsMap" if enqueue_many else "AddSparseToTensorsMap")
        parts = (tensor.indices, tensor.values, tensor.dense_shape)
        shared_name = known.map_op.name if known is not None else ""
        made.append(spec(*parts, shared_name=shared_name))
        return made[0]

    if keep.get_shape().ndims == 1:
        tensor = _retained(tensor, gather(keep, tensor.indices[:, 0]))
        return store(), made[0].op
    handle = smart_cond(keep, store, (lambda: _no_handles(tensor)) if enqueue_many else _no_handle)
    if enqueue_many:
        handle.set_shape([None])
    if not made:  # `keep` is False, always
        store()
    return handle, made[0].op


def _no_handle() -> Tensor:
    return constant(-1, dtypes.int64)


def _no_handles(tensor: SparseTensor) -> Tensor:
    with name_scope(None, "Shape", [tensor.dense_shape]):
        sizes = cast(tensor.dense_shape, dtypes.int32)
    none: Tensor = -1 * ones(sizes[0:1], dtypes.int64)
    return none


def _retained(tensor: SparseTensor, wanted: Tensor) -> SparseTensor:
    """The elements of which `wanted` [n] is true."""
    kept = reshape(where(wanted), [-1])
    return SparseTensor(
        gather(tensor.indices, kept), gather(tensor.values, kept), identity(tensor.dense_shape)
    )


def restored(
    dequeued: Any, infos: Sequence[SparseInfo | None], types: Sequence[dtypes.DType]
) -> Any:
    """What came from the queue (a tensor or a list), with sparse tensors in the place of handles.

    Of several, none is there before all are: a handle that was taken out is lost with a step that fails between.
    """
    several = isinstance(dequeued, (list, tuple))
    tensors = [
        tensor if info is None else _restored(tensor, info, dtype)
        for tensor, info, dtype in zip(
            dequeued if several else [dequeued], infos, types, strict=True
        )
    ]
    if not any(info is not None for info in infos):
        return dequeued
    values = [item.values if isinstance(item, SparseTensor) else item for item in tensors]

    def together(tensor: Tensor) -> Tensor:
        found: Tensor = with_dependencies(values, tensor)
        return found

    ensured = [
        SparseTensor(together(item.indices), together(item.values), together(item.dense_shape))
        if isinstance(item, SparseTensor)
        else together(item)
        for item in tensors
    ]
    return ensured if several else tensors[0]


def _restored(handles: Tensor, info: SparseInfo, dtype: dtypes.DType) -> SparseTensor:
    rows = squeeze(handles, [1])
    with colocate_with(info.map_op):
        indices, values, shape = get("TakeManySparseFromTensorsMap")(
            rows, dtype=dtype, shared_name=info.map_op.name
        )
    rank = None if info.rank is None else info.rank + 1
    indices.set_shape(TensorShape([None, rank]))
    shape.set_shape(TensorShape([rank]))
    return SparseTensor(indices, values, shape)
