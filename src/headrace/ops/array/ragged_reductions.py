"""Reductions of ragged tensors.

An outermost dimension goes by sums (products, …) of segments, what is inside of it as in the values.
Called by: ops.array.ragged_dispatch.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_math_ops.py); values compared with the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.base import dtypes
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, ones_like
from headrace.ops.array.gathering import gather as gathered
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_calls import ragged_range
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.array.ragged_joining import expanded, static_axis
from headrace.ops.array.shapes import expand_dims
from headrace.ops.math import reductions
from headrace.ops.math.casting import cast
from headrace.ops.math.scans import cumsum
from headrace.ops.tables import make

__all__: list[str] = []

Function = Callable[..., Any]
Arguments = Mapping[str, Any]

_SEGMENTS: Final = {
    "reduce_max": lambda *given: make.UnsortedSegmentMax(*given),
    "reduce_min": lambda *given: make.UnsortedSegmentMin(*given),
    "reduce_prod": lambda *given: make.UnsortedSegmentProd(*given),
    "reduce_sum": lambda *given: make.UnsortedSegmentSum(*given),
}
_OF_TRUTHS: Final = {"reduce_all": "reduce_prod", "reduce_any": "reduce_sum"}


def _reduce(function: Function, arguments: Arguments) -> Any:
    given = as_ragged(arguments["input_tensor"])
    axis = _given(arguments, "axis", "reduction_indices")
    keep = bool(_given(arguments, "keepdims", "keep_dims"))
    if axis is None:
        return function(given.flat_values, keepdims=keep)
    listed = axis if isinstance(axis, (list, tuple)) else [axis]
    rank = given.shape.ndims
    axes = sorted({static_axis(each, rank, function.__name__) for each in listed}, reverse=True)
    return _over(function.__name__, given, axes, keep)


reduce_all = reduce_any = reduce_max = reduce_mean = reduce_min = reduce_prod = reduce_sum = _reduce


def _given(arguments: Arguments, *names: str) -> Any:
    return next((found for name in names if (found := arguments.get(name)) is not None), None)


def _over(name: str, given: Any, axes: list[int], keep: bool) -> Any:
    """axes: from the last to the first."""
    if name in _OF_TRUTHS:
        numbers = given.with_flat_values(cast(given.flat_values, dtypes.int32))
        found = _over(_OF_TRUTHS[name], numbers, axes, keep)
        if isinstance(found, Ragged):
            return as_ragged(found).with_flat_values(
                cast(as_ragged(found).flat_values, dtypes.bool)
            )
        return cast(found, dtypes.bool)
    if name == "reduce_mean":  # of nothing it is nan
        ones = given.with_flat_values(ones_like(given.flat_values))
        return _over("reduce_sum", given, axes, keep) / _over("reduce_sum", ones, axes, keep)
    for axis in axes:
        given = _along(name, given, axis, keep)
    return given


def _along(name: str, given: Any, axis: int, keep: bool) -> Any:
    if isinstance(given, Tensor):
        return getattr(reductions, name)(given, axis, keepdims=keep)
    if axis > 1:
        return given.with_values(_along(name, given.values, axis - 1, keep))
    if axis == 1:
        rows, count = given.value_rowids(), given.nrows()
    else:
        lengths = given.row_lengths()
        rows = ragged_range(lengths).values
        count = make.Maximum(make.Max(lengths, 0), constant(0, lengths.dtype))
    found = _segments(name, given.values, rows, count)
    return expanded(expand_dims, found, axis) if keep else found


def _segments(name: str, values: Any, rows: Tensor, count: Tensor) -> Any:
    """The values of each row together; of ragged values, those at the same place in it."""
    if isinstance(values, Tensor):
        return _SEGMENTS[name](values, rows, count)
    lengths = values.row_lengths()
    longest = make.Maximum(
        make.UnsortedSegmentMax(lengths, rows, count), constant(0, lengths.dtype)
    )
    splits = make.ConcatV2([constant([0], lengths.dtype), cumsum(longest)], 0)
    starts = gathered(splits, rows)
    places = ragged_range(starts, starts + lengths).values
    inner = _segments(name, values.values, places, splits[-1])
    return RaggedTensor.from_row_splits(inner, splits, validate=False)
