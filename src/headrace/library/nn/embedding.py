"""embedding_lookup: rows of a matrix that may lie in parts on several tasks; embedding_lookup_sparse combines them.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes, shapes
from headrace.graph import scopes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.ops.array.constants import constant, ones
from headrace.ops.array.gathering import gather, where
from headrace.ops.array.joining import concat
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, rank, reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.array.unique import unique
from headrace.ops.flow.identities import identity
from headrace.ops.math.arithmetic import pow as power
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_norm
from headrace.ops.math.segments import segment_sum
from headrace.ops.sparse.segments import (
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
)
from headrace.ops.tables import make

__all__ = ["embedding_lookup", "embedding_lookup_sparse"]

_COMBINED = {
    "sum": sparse_segment_sum,
    "mean": sparse_segment_mean,
    "sqrtn": sparse_segment_sqrt_n,
}


@of_ragged_by("headrace.ops.array.ragged_taking")
def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Tensor:
    """ids.shape + the shape of a row: the rows of `params` with those numbers.

    params: a matrix, a partitioned variable or a list of parts.  Row i is in part i mod n (mod), or
    parts hold consecutive rows, the first ones one more if it does not divide (div).
    max_norm: rows are scaled down to that norm.  Raises ValueError.
    """
    if params is None:
        raise ValueError("params must be specified: a tensor or variable, or a list of its parts")
    if isinstance(params, (list, tuple)) and not params:
        raise ValueError("Length of params is currently 0: embedding_lookup needs at least one")
    if isinstance(params, PartitionedVariable):
        params = list(params)
    parts = list(params) if isinstance(params, (list, tuple)) else [params]
    with name_scope(name, "embedding_lookup", [*parts, ids]) as scope:
        numbers = convert(ids, name="ids")
        if len(parts) > 1:
            return _from_parts(parts, numbers, partition_strategy, max_norm, scope)
        (whole,) = parts
        with _placed_with(whole):
            rows = _clipped(gather(whole, numbers, name=scope), numbers, max_norm)
        found: Tensor = identity(rows)
        return found


def _placed_with(part: Any) -> Any:
    graph = scopes.get_default_graph()
    return graph.colocate_with(part if hasattr(part, "op") else convert(part))


def _from_parts(parts: list[Any], ids: Tensor, strategy: str, max_norm: Any, scope: str) -> Tensor:
    flat = reshape(ids, [-1])
    positions = range_of(size_of(flat))
    if strategy == "mod":
        part = flat % len(parts)
        row = flat // len(parts)
    elif strategy == "div":
        part, row = _divided(parts, flat)
    else:
        raise ValueError(f"Unrecognized partition strategy: {strategy}; it is 'mod' or 'div'")
    part = cast(part, dtypes.int32)
    rows_by_part = make.DynamicPartition(row, part, num_partitions=len(parts))
    places_by_part = make.DynamicPartition(positions, part, num_partitions=len(parts))
    found = []
    for one, rows in zip(parts, rows_by_part, strict=True):
        with _placed_with(one):
            found.append(gather(one, rows))
    whole = make.ParallelDynamicStitch(places_by_part, found, name=scope)
    element: shapes.Shape = None
    for one in parts:
        raw = one.get_shape()._raw
        element = shapes.merge(element, None if raw is None else raw[1:])
    if shapes.is_fully_defined(element):
        assert element is not None
        tail: Any = list(element)
    else:
        with _placed_with(parts[0]):
            tail = shape_of(parts[0])[1:]
    whole = reshape(whole, concat([shape_of(ids), tail], 0))
    whole.set_shape(shapes.concatenate(ids.raw_shape, element))
    return _clipped(whole, ids, max_norm)


def _divided(parts: list[Any], flat: Tensor) -> tuple[Tensor, Tensor]:
    """Part and row within it of each number, for parts of consecutive rows."""
    counts = [None if one.get_shape()._raw is None else one.get_shape()._raw[0] for one in parts]
    total: Tensor
    if None in counts:
        sizes = [shape_of(one)[0] for one in parts]
        total = cast(make.Sum(make.Pack(sizes, name="stack"), 0), flat.dtype.base_dtype)
    else:
        total = constant(sum(counts), flat.dtype.base_dtype)
    each = total // len(parts)
    extras = total % len(parts)
    part = make.Maximum(flat // (each + 1), (flat - extras) // each)
    row = where(part < extras, flat % (each + 1), (flat - extras) % each)
    return part, row


def _clipped(rows: Tensor, ids: Tensor, max_norm: Any) -> Tensor:
    if max_norm is None:
        return rows
    axes: Any
    if ids.raw_shape is not None and rows.raw_shape is not None:
        axes = list(range(len(ids.raw_shape), len(rows.raw_shape)))
    else:
        axes = range_of(rank(ids), rank(rows))
    clipped: Tensor = clip_by_norm(rows, max_norm, axes=axes)
    return clipped


def _parts_of(given: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    return given.values, given.indices, given.dense_shape


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
) -> Tensor:
    """[rows of sp_ids] + the shape of a row: for each row of sp_ids the rows of `params` with those numbers, combined.

    sp_ids: a SparseTensor of ids; sp_weights: one of floats with the same indices, or None for ones.  combiner: sum;
    mean (None too), divided by the sum of weights; sqrtn, by the root of the sum of their squares.  A row without ids
    is zero.  Each id is looked up once, where its part lies.  params, partition_strategy, max_norm: as of
    embedding_lookup.  Raises TypeError, ValueError.
    """
    combiner = "mean" if combiner is None else combiner
    if combiner not in _COMBINED:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    for given, what in ((sp_ids, "sp_ids"), (sp_weights, "sp_weights")):
        if not isinstance(given, SparseTensor) and not (given is None and what == "sp_weights"):
            wanted = "SparseTensor" if what == "sp_ids" else "either None or SparseTensor"
            raise TypeError(f"{what} must be {wanted}, and not {given!r:.80}")
    if sp_weights is not None:
        for own, other in zip(_parts_of(sp_ids), _parts_of(sp_weights), strict=True):
            own.shape.assert_is_compatible_with(other.shape)
    if isinstance(params, PartitionedVariable):
        params = list(params)
    parts = list(params) if isinstance(params, (list, tuple)) else [params]
    with name_scope(name, "embedding_lookup_sparse", [*parts, sp_ids.values]) as scope:
        segments = sp_ids.indices[:, 0]
        ids, places = unique(sp_ids.values)
        found = embedding_lookup(params, ids, partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            return _COMBINED[combiner](found, places, segments, name=scope)
        segments = cast(segments, dtypes.int32)
        rows = gather(found, places)
        weights = sp_weights.values
        if weights.dtype != rows.dtype:
            weights = cast(weights, rows.dtype)
        weights = _beside(weights, rows)
        return _weighted(rows * weights, weights, segments, combiner, scope)


def _beside(weights: Tensor, rows: Tensor) -> Tensor:
    """One weight a row, with as many dimensions as the rows have."""
    more = expand_dims(rank(rows) - 1, 0)
    shaped = reshape(weights, concat([shape_of(weights), ones(more, dtypes.int32)], 0))
    if rows.raw_shape is not None:
        count = None if weights.raw_shape is None else weights.raw_shape[0]
        shaped.set_shape([count, *[1] * (len(rows.raw_shape) - 1)])
    return shaped


def _weighted(rows: Tensor, weights: Tensor, segments: Tensor, combiner: str, scope: str) -> Tensor:
    made: Tensor
    if combiner == "sum":
        made = segment_sum(rows, segments, name=scope)
        return made
    sums = segment_sum(rows, segments)
    if combiner == "mean":
        divisor = segment_sum(weights, segments)
    else:
        divisor = make.Sqrt(segment_sum(power(weights, 2), segments), name="Sqrt")
    made = make.DivNoNan(sums, divisor, name=scope)
    return made
