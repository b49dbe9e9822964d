"""safe_embedding_lookup_sparse: rows that have no ids, and ids and weights that count for nothing.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.nn.embedding import embedding_lookup_sparse
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.ops.array.constants import ones_like, zeros_like
from headrace.ops.array.gathering import gather, where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as slice_
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import greater, greater_equal, logical_and
from headrace.ops.math.reductions import reduce_prod
from headrace.ops.sparse.calls import sparse_fill_empty_rows, sparse_reshape, sparse_retain

__all__ = ["safe_embedding_lookup_sparse"]


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str | None = "mean",
    default_id: Any = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
) -> Tensor:
    """For each row of `sparse_ids` its embeddings, combined: [d0, …, dn-1] + the shape of a row.

    sparse_ids: of any rank from 2 on; ids below 0, and those whose weight is 0 or less, count for nothing.  A row
    without any has the embedding of default_id, or zeros.  Others: as of embedding_lookup_sparse, where
    combiner "sum" goes without the check of weights.  Raises ValueError.
    """
    if embedding_weights is None:
        raise ValueError("Missing embedding_weights: one tensor or more")
    if isinstance(embedding_weights, PartitionedVariable):
        embedding_weights = list(embedding_weights)
    many = isinstance(embedding_weights, (list, tuple))
    parts = list(embedding_weights) if many else [embedding_weights]
    if not parts:
        raise ValueError("Missing embedding_weights: the list is empty")
    for what, each in (("sparse_ids", sparse_ids), ("sparse_weights", sparse_weights)):
        if not isinstance(each, SparseTensor) and (each is not None or what == "sparse_ids"):
            raise TypeError(f"{what} must be SparseTensor, and is {each!r}")
    kind = None if sparse_weights is None else sparse_weights.dtype
    parts = [_converted(each, kind) for each in parts]
    for part in parts:
        if not hasattr(part, "dtype"):
            raise TypeError(
                f"safe_embedding_lookup_sparse: each of embedding_weights must be a tensor, and one is {part!r}"
            )
    given = [*parts, sparse_ids.values] + (
        [] if sparse_weights is None else [sparse_weights.values]
    )
    with name_scope(name, "embedding_lookup", given) as scope:
        whole = sparse_ids.dense_shape
        raw = sparse_ids.dense_shape.shape.with_rank(1)[0].value
        rank_of_ids: Any = shape_of(whole)[0] if raw is None else raw
        flat = [
            reduce_prod(slice_(whole, [0], [rank_of_ids - 1])),
            gather(whole, rank_of_ids - 1),
        ]
        ids = sparse_reshape(sparse_ids, flat)
        weights = sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        ids, weights = _without_bad_ids(ids, weights)
        if combiner != "sum":
            ids, weights = _without_bad_weights(ids, weights)
        ids, empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        found = embedding_lookup_sparse(
            parts,
            ids,
            weights,
            partition_strategy,
            scope if default_id is not None else None,
            combiner,
            max_norm,
        )
        if default_id is None:
            found = _zeros_where(empty, found, scope)
        return _shaped(found, sparse_ids, rank_of_ids)


def _converted(part: Any, kind: Any) -> Any:
    if isinstance(part, (np.ndarray, list)):
        return convert(part, kind)
    return part


def _without_bad_ids(
    ids: SparseTensor, weights: SparseTensor | None
) -> tuple[SparseTensor, SparseTensor | None]:
    """Without ids below 0."""
    good: Any = greater_equal(ids.values, 0)
    if weights is not None:
        good = logical_and(good, ones_like(weights.values, dtypes.bool))
    ids = sparse_retain(ids, good)
    return ids, None if weights is None else sparse_retain(weights, good)


def _without_bad_weights(
    ids: SparseTensor, weights: SparseTensor | None
) -> tuple[SparseTensor, SparseTensor | None]:
    """Without those whose weight is 0 or less."""
    if weights is None:
        return ids, None
    good = greater(weights.values, 0)
    return sparse_retain(ids, good), sparse_retain(weights, good)


def _zeros_where(empty: Tensor, found: Tensor, scope: str) -> Tensor:
    """Zeros in the rows that had no ids."""
    column = reshape(empty, [-1, 1])
    marks = tile(column, stack([1, shape_of(found)[1]]))
    made: Tensor = where(marks, zeros_like(found), found, name=scope)
    return made


def _shaped(found: Tensor, sparse_ids: SparseTensor, rank_of_ids: Any) -> Tensor:
    """The rows in the first dimensions of the ids."""
    outer = slice_(cast(sparse_ids.dense_shape, dtypes.int32), [0], [rank_of_ids - 1])
    shaped = reshape(found, concat([outer, slice_(shape_of(found), [1], [-1])], 0))
    known = sparse_ids.get_shape()
    if known.ndims is not None and found.raw_shape is not None:
        shaped.set_shape([*(known.as_list()[:-1]), *found.raw_shape[1:]])
    return shaped
