"""Functions that join ragged tensors, or say how large they are.

Each takes the function that is for tensors, and the arguments of the call by their names.
Called by: graph.ragged, tf.ragged.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_concat_ops.py, ragged_array_ops.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.graph.const_value import folded
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.packing import stack as packed
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_calls import ragged_gather
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import size as number_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.comparisons import equal
from headrace.ops.tables import make

__all__ = ["ragged_stack"]

Function = Callable[..., Any]
Arguments = Mapping[str, Any]


def static_axis(axis: Any, rank: int | None, name: str) -> int:
    """An axis as a number from 0 on.  Raises ValueError: it, or the rank that it counts back from, is not known."""
    known = axis if isinstance(axis, int) else folded(convert(axis))
    if known is None:
        raise ValueError(
            f"{name}: the axis of ragged tensors must be known when the graph is built"
        )
    at = int(known)
    if at < 0:
        if rank is None:
            raise ValueError(f"{name}: axis {at} counts from the end, and the rank is not known")
        at += rank
    if at < 0 or (rank is not None and at >= rank):
        raise ValueError(f"{name}: axis {int(known)} is out of bounds: there are {rank} dimensions")
    return at


def same_rank(values: Sequence[Any], name: str) -> list[Any]:
    """All of them ragged, of one ragged rank.  Raises ValueError for different ranks."""
    given = [as_ragged(each) if isinstance(each, Ragged) else convert(each) for each in values]
    ranks = {each.shape.ndims for each in given} - {None}
    if len(ranks) > 1:
        raise ValueError(
            f"{name}: all operands must have one rank, and have {[each.shape.ndims for each in given]}"
        )
    rank = max(each.ragged_rank for each in given if isinstance(each, Ragged))
    return [_of_ragged_rank(each, rank) for each in given]


def _of_ragged_rank(given: Any, rank: int) -> Any:
    """A tensor or a ragged one, of which so many dimensions are to be ragged."""
    if isinstance(given, Tensor):
        return RaggedTensor.from_tensor(given, ragged_rank=rank)
    missing = rank - given.ragged_rank
    if not missing:
        return given
    return given.with_flat_values(RaggedTensor.from_tensor(given.flat_values, ragged_rank=missing))


def _after_each_other(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Tensor):
        return make.ConcatV2(list(values), 0)
    inner = _after_each_other([each.values for each in values])
    lengths = make.ConcatV2([each.row_lengths() for each in values], 0)
    return RaggedTensor.from_row_lengths(inner, lengths, validate=False)


def _in_turn(values: Sequence[Any], name: str) -> tuple[Any, Tensor]:
    """The first rows of all, then the second rows, …; and how many rows each of them has."""
    count, rows = len(values), values[0].nrows()
    checks = [
        Assert(
            equal(rows, each.nrows()),
            [f"{name}: Input tensors have incompatible shapes: rows", rows, each.nrows()],
        )
        for each in values[1:]
    ]
    with control_dependencies(checks):
        rows = identity(rows)
    order = make.Transpose(reshape(range_of(rows * count), packed([count, rows])), [1, 0])
    return ragged_gather(_after_each_other(values), reshape(order, [-1])), rows


def concat(function: Function, arguments: Arguments) -> Any:
    """`tf.concat`."""
    values = arguments["values"]
    if isinstance(values, Ragged):
        return as_ragged(values)
    given = same_rank(values, "concat")
    return _concatenated(
        function, given, static_axis(arguments["axis"], given[0].shape.ndims, "concat")
    )


def _concatenated(function: Function, given: Sequence[Any], axis: int) -> Any:
    if isinstance(given[0], Tensor):
        return function(list(given), axis)
    if axis == 0 or len(given) == 1:
        return _after_each_other(given)
    if axis > 1:
        return given[0].with_values(
            _concatenated(function, [each.values for each in given], axis - 1)
        )
    taken, _ = _in_turn(given, "concat")
    return RaggedTensor.from_row_splits(
        taken.values, taken.row_splits[:: len(given)], validate=False
    )


def stack(function: Function, arguments: Arguments) -> Any:
    """`tf.stack`."""
    given = same_rank(arguments["values"], "stack")
    rank = given[0].shape.ndims
    axis = static_axis(arguments.get("axis", 0), None if rank is None else rank + 1, "stack")
    return _stacked(function, given, axis)


def ragged_stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Tensors and ragged ones as one ragged tensor, with one more dimension before `axis`.

    Raises ValueError for different ranks.
    """
    with name_scope(name, "RaggedConcat", list(values)):
        given = [as_ragged(each) if isinstance(each, Ragged) else convert(each) for each in values]
        most = max(each.ragged_rank if isinstance(each, Ragged) else 0 for each in given)
        dense = [each.shape.ndims for each in given if isinstance(each, Tensor)]
        if not most and dense[0] == 1:  # rows of any lengths
            at = static_axis(axis, 2, "stack")
            if at == 0:
                lengths = packed([number_of(each) for each in given])
                return RaggedTensor.from_row_lengths(make.ConcatV2(given, 0), lengths)
        ranked = same_rank([_of_ragged_rank(each, max(most, 1)) for each in given], "stack")
        rank = ranked[0].shape.ndims
        return _stacked(
            packed, ranked, static_axis(axis, None if rank is None else rank + 1, "stack")
        )


def _stacked(function: Function, given: Sequence[Any], axis: int) -> Any:
    if isinstance(given[0], Tensor):
        return function(list(given), axis)
    if axis == 0:
        counts = packed([each.nrows() for each in given])
        return RaggedTensor.from_row_lengths(_after_each_other(given), counts, validate=False)
    if axis > 1:
        return given[0].with_values(_stacked(function, [each.values for each in given], axis - 1))
    taken, rows = _in_turn(given, "stack")
    count = constant(len(given), rows.dtype)
    splits = range_of(constant(0, rows.dtype), rows * count + 1, count)
    return RaggedTensor.from_row_splits(taken, splits, validate=False)


def expand_dims(function: Function, arguments: Arguments) -> Any:
    """`tf.expand_dims`."""
    given = as_ragged(arguments["input"])
    axis = arguments.get("axis")
    if axis is None:
        axis = arguments.get("dim")
    rank = given.shape.ndims
    return expanded(
        function, given, static_axis(axis, None if rank is None else rank + 1, "expand_dims")
    )


def expanded(function: Function, given: Any, axis: int) -> Any:
    """One more dimension of size 1, before dimension `axis`."""
    if isinstance(given, Tensor):
        return function(given, axis)
    rows = given.nrows()
    if axis == 0:
        known = given.shape[0].value
        return RaggedTensor(given, packed([rows * 0, rows]), rows if known is None else known)
    if axis == 1:
        splits = range_of(rows + 1)
        splits.set_shape(given.row_splits.shape)
        return RaggedTensor(given, splits, 1)
    return given.with_values(expanded(function, given.values, axis - 1))


def size(function: Function, arguments: Arguments) -> Any:
    """`tf.size`: how many innermost values there are."""
    given = as_ragged(arguments["input"])
    return function(given.flat_values, **_but(arguments, "input"))


def rank(function: Function, arguments: Arguments) -> Any:
    """`tf.rank`: dimensions, ragged ones included."""
    given = as_ragged(arguments["input"])
    known = given.shape.ndims
    return constant(known) if known is not None else function(given.flat_values) + given.ragged_rank


def reduce_join(function: Function, arguments: Arguments) -> Any:
    """`tf.strings.reduce_join` along the last dimension, which is ragged."""
    given, axis = as_ragged(arguments["inputs"]), arguments.get("axis")
    if axis is None:
        axis = arguments.get("reduction_indices")
    if arguments.get("keepdims") or arguments.get("keep_dims"):
        raise errors.unimplemented("reduce_join of ragged strings has no keepdims: expand_dims")
    rank = given.shape.ndims
    last = given.ragged_rank
    at = None if axis is None else static_axis(int(axis), rank, "reduce_join")
    if at != last or rank != last + 1:
        raise errors.unimplemented(
            f"reduce_join joins the innermost rows of ragged strings, axis {last}, not axis {axis}"
        )
    return _joined(given, arguments.get("separator", ""))


def _joined(given: Any, separator: str) -> Any:
    if isinstance(given.values, Ragged):
        return given.with_values(_joined(given.values, separator))
    rows = given.value_rowids()
    return make.UnsortedSegmentJoin(given.values, rows, given.nrows(), separator=separator)


def _but(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in names}
