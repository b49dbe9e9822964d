"""Ragged tensors indexed: rows by number and by slice, columns by slice, new dimensions.

What is ragged stays so: a column of rows of different lengths has no number.
Called by: ops.array.ragged.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_getitem.py)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array.gathering import gather
from headrace.ops.array.ragged_ops import ragged_range_op
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims
from headrace.ops.math.casting import cast
from headrace.ops.tables import make

__all__: list[str] = []

_WHOLE = slice(None)


def indexed(given: Any, key: Any) -> Any:
    """given[key].  Raises TypeError for what is no key, ValueError for the number of a ragged column."""
    keys = list(key) if isinstance(key, (list, tuple)) else [key]
    for each in keys:
        parts = (each.start, each.stop, each.step) if isinstance(each, slice) else (each,)
        for part in parts:
            if not (part is None or part is Ellipsis or _is_number(part)):
                raise TypeError(
                    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 "
                    f"tensors are valid indices, got {part!r}"
                )
    return _rows(given, keys)


def _is_number(part: Any) -> bool:
    if isinstance(part, Tensor):
        return part.dtype.is_integer and part.shape.ndims in (0, None)
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _without_ellipsis(keys: list[Any], rank: int | None) -> list[Any]:
    """The first key is an ellipsis: as many whole dimensions as it stands for."""
    if rank is None:
        raise ValueError(
            "Ellipsis not supported for unknown shape RaggedTensors: set_shape says what is known"
        )
    counted = [each for each in keys[1:] if each is not None and each is not Ellipsis]
    return [_WHOLE] * (rank - len(counted)) + keys[1:]


def _rows(given: Any, keys: list[Any]) -> Any:
    """Keys of all dimensions, from the first on."""
    if keys and keys[0] is Ellipsis:
        keys = _without_ellipsis(keys, given.shape.ndims)
    if not keys:
        return given
    if not isinstance(given, Ragged):
        return given[tuple(keys)]
    first, rest = keys[0], keys[1:]
    if first is None:
        within = _rows(given, rest)
        if not isinstance(within, Ragged):
            return expand_dims(within, 0)
        return _as_one_row(within)
    starts, limits = given.row_splits[:-1], given.row_splits[1:]
    if isinstance(first, slice):
        length = given.uniform_row_length
        kept = (
            given
            if first == _WHOLE
            else _of_ranges(given, starts[first], limits[first], length=length)
        )
        return _columns(kept, rest)
    return _rows(given.values[starts[first] : limits[first]], rest)


def _as_one_row(within: Any) -> Any:
    count, known = _count(within), within.shape[0].value
    ends = range_of(2, dtype=within.row_splits.dtype) * count
    return type(within)(within, ends, count if known is None else known)


def _columns(given: Any, keys: list[Any]) -> Any:
    """Keys of the dimensions after the first."""
    if keys and keys[0] is Ellipsis:
        rank = given.shape.ndims
        keys = _without_ellipsis(keys, None if rank is None else rank - 1)
    if not keys:
        return given
    first, rest = keys[0], keys[1:]
    if first is None:
        within = _columns(given, rest)
        one_each = range_of(_count(within) + 1)
        one_each.set_shape(within.row_splits.shape)
        return type(within)(within, one_each, 1)
    if not isinstance(first, slice):
        raise ValueError(
            "Cannot index into an inner ragged dimension.: its rows have different lengths; slice it, or make it dense "
            "by to_tensor()"
        )
    kept = given if first == _WHOLE else _sliced_columns(given, first)
    if not rest:
        return kept
    if isinstance(kept.values, Ragged):
        return kept.with_values(_columns(kept.values, rest))
    return kept.with_values(kept.values[(_WHOLE, *rest)])


def _count(given: Any) -> Tensor:
    """How many rows there are."""
    found: Tensor = given.nrows()
    return found


def _sliced_columns(given: Any, columns: slice) -> Any:
    """The same part of each row."""
    splits = given.row_splits
    starts, limits = splits[:-1], splits[1:]
    step = 1 if columns.step is None else columns.step
    known = constant_value(step) if isinstance(step, Tensor) else step
    if known is None:
        raise errors.unimplemented(
            "the step of a ragged slice must be known while the graph is built: give it as a number"
        )
    if not known:
        raise ValueError("slice step cannot be zero: rows are cut forward or backward")
    lengths = limits - starts
    low, high = (0, lengths) if known > 0 else (-1, lengths - 1)
    bounds = (low, high) if known > 0 else (high, low)
    begin, end = (
        starts + (bound if part is None else _bounded(part, lengths, low, high))
        for part, bound in zip((columns.start, columns.stop), bounds, strict=True)
    )
    return _of_ranges(given, begin, end, int(known))


def _bounded(part: Any, lengths: Tensor, low: Any, high: Any) -> Tensor:
    """The place in each row that `part` means, counted from its end below 0."""
    at = cast(convert(part), lengths.dtype)
    from_begin = make.Maximum(make.Minimum(at, high), low)
    from_end = make.Maximum(make.Minimum(at + lengths, high), low)
    if not isinstance(part, Tensor):
        chosen: Tensor = from_end if part < 0 else from_begin
        return chosen
    found: Tensor = make.SelectV2(at < 0, from_end, from_begin)
    return found


def _of_ranges(
    given: Any, starts: Tensor, limits: Tensor, step: int = 1, length: Any = None
) -> Any:
    """Rows of the values of `given` from starts to limits.  length: of all of them, if they have one."""
    splits = given.row_splits.dtype
    step_of = convert(step, splits, name="step")
    ends, at = ragged_range_op(starts, limits, step_of, Tsplits=splits)
    return type(given)(_at(given.values, at), ends, length)


def _at(values: Any, at: Tensor) -> Any:
    """The rows `at` of values."""
    if not isinstance(values, Ragged):  # whose gradient is no slices
        return make.Squeeze(gather(make.ExpandDims(values, 0), at, axis=1), squeeze_dims=[0])
    starts, limits = (gather(each, at) for each in (values.row_splits[:-1], values.row_splits[1:]))
    return _of_ranges(values, starts, limits, length=values.uniform_row_length)
