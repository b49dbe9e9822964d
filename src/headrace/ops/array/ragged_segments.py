"""Rows of ragged tensors summed, … by segments, and grouped by partitions; segment ids and where rows begin.

Called by: graph.ragged, graph.registry, tf.ragged.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_math_ops.py, ragged_array_ops.py, segment_id_ops.py)
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array import gathering
from headrace.ops.array.constants import ones_like, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.partitioning import dynamic_partition
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_calls import ragged_gather
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.array.ragged_joining import Arguments, Function
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import size as number_of
from headrace.ops.math.casting import cast
from headrace.ops.math.scans import cumsum
from headrace.ops.math.segments import unsorted_segment_max as largest
from headrace.ops.math.segments import unsorted_segment_sum as summed
from headrace.ops.tables import make

__all__ = ["row_splits_to_segment_ids", "segment_ids_to_row_splits", "stack_dynamic_partitions"]


def _by_segments(function: Function, arguments: Arguments) -> Any:
    """Rows of one segment beside each other, of which the longest says how long the result's row is."""
    data, ids = arguments["data"], arguments["segment_ids"]
    count = cast(arguments["num_segments"], dtypes.int64)
    if isinstance(ids, Ragged):
        known = as_ragged(ids)
        values = (
            as_ragged(data)
            if isinstance(data, RaggedTensor)
            else RaggedTensor.from_tensor(convert(data))
        )
        rest = {"data": values.values, "segment_ids": known.values, "num_segments": count}
        if isinstance(known.values, RaggedTensor) or isinstance(values.values, RaggedTensor):
            return _by_segments(function, rest)
        return function(values.values, known.values, count)
    return _rows_by_segments(function, as_ragged(data), cast(convert(ids), dtypes.int64), count)


unsorted_segment_sum = unsorted_segment_prod = _by_segments
unsorted_segment_max = unsorted_segment_min = _by_segments
unsorted_segment_mean = unsorted_segment_sqrt_n = _by_segments


def _rows_by_segments(function: Function, data: Any, ids: Tensor, count: Tensor) -> Any:
    if isinstance(data, Tensor):
        return function(data, ids, count)
    lengths = cast(data.row_lengths(), dtypes.int64)
    wide = make.Maximum(largest(lengths, ids, count), zeros([], dtypes.int64))
    splits = concat([zeros([1], dtypes.int64), cumsum(wide)], 0)
    rows = data.value_rowids()
    starts = cast(data.row_starts(), dtypes.int64)
    within = range_of(cast(_many(data.values), dtypes.int64)) - gathering.gather(starts, rows)
    places = gathering.gather(splits, gathering.gather(ids, rows)) + within
    values = _rows_by_segments(function, data.values, places, splits[-1])
    return RaggedTensor.from_row_splits(values, splits, validate=False)


def _many(values: Any) -> Tensor:
    found: Tensor = values.nrows() if isinstance(values, RaggedTensor) else make.Shape(values)[0]
    return found


def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: Any, name: str | None = None
) -> Any:
    """The rows of data grouped by their partition: row i of the result has those of partition i.

    data: a tensor or a ragged one; partitions: [rows], or of data's first dimensions; num_partitions: how many rows the
    result has.  Partitions must be below that.
    """
    with name_scope(name, "SegmentStack", [data, partitions, num_partitions]):
        data = as_ragged(data) if isinstance(data, RaggedTensor) else convert(data)
        if isinstance(partitions, Ragged):
            known = as_ragged(partitions)
            given = data if isinstance(data, RaggedTensor) else RaggedTensor.from_tensor(data)
            return stack_dynamic_partitions(given.values, known.values, num_partitions)
        ids = convert(partitions)
        if not isinstance(num_partitions, int):
            raise ValueError("num_partitions must be a Python int")
        if not isinstance(data, RaggedTensor):
            return _grouped(data, ids, num_partitions)
        numbers = range_of(data.nrows())
        rows = _grouped(numbers, cast(ids, numbers.dtype), num_partitions)
        return rows.with_values(ragged_gather(data, rows.values))


def _grouped(data: Tensor, ids: Tensor, count: int) -> RaggedTensor:
    groups = dynamic_partition(data, cast(ids, dtypes.int32), count)
    lengths = summed(ones_like(ids), ids, count)
    return RaggedTensor.from_row_lengths(concat(groups, 0), lengths, validate=False)


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """The row of each element: [0, 3, 3, 5] is [0, 0, 0, 2, 2].

    splits: [rows + 1], where each row begins.  out_type: int32 or int64, that of splits if None.
    """
    with name_scope(name, "RaggedSplitsToSegmentIds", [splits]):
        ends = convert(splits, None, "splits", dtypes.int64)
        kind = ends.dtype if out_type is None else dtypes.as_dtype(out_type)
        if ends.dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("splits must have dtype int32 or int64")
        rows = RaggedTensor.from_row_splits(range_of(ends[-1]), ends, validate=False)
        found: Tensor = cast(rows.value_rowids(), kind)
        return found


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """Where each row begins, [num_segments + 1]: the inverse of `row_splits_to_segment_ids`.

    segment_ids: ascending.  num_segments: one more than the last of them if None.
    """
    with name_scope(name, "SegmentIdsToRaggedSplits", [segment_ids]):
        ids = convert(segment_ids, None, "segment_ids", dtypes.int64)
        if ids.dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("segment_ids must have dtype int32 or int64")
        kind = dtypes.int64 if out_type is None else dtypes.as_dtype(out_type)
        count = None if num_segments is None else cast(num_segments, dtypes.int64)
        rows = RaggedTensor.from_value_rowids(
            range_of(number_of(ids)), cast(ids, dtypes.int64), count, validate=False
        )
        found: Tensor = cast(rows.row_splits, kind)
        return found
