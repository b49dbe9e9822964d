"""Functions that join ragged tensors, take rows of them, or say how large they are.

Each takes the function that is for tensors, and the arguments of the call by their names.
Called by: ops.array.ragged_dispatch.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_concat_ops.py, ragged_array_ops.py, ragged_where_op.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import errors
from headrace.graph.const_value import folded
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.packing import stack as packed
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_calls import map_flat_values, ragged_gather
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.comparisons import equal
from headrace.ops.tables import make

__all__: list[str] = []

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


def _same_rank(values: Sequence[Any], name: str) -> list[Any]:
    """All of them ragged, of one ragged rank."""
    given = [as_ragged(each) if isinstance(each, Ragged) else convert(each) for each in values]
    rank = max(each.ragged_rank for each in given if isinstance(each, Ragged))
    for at, each in enumerate(given):
        if isinstance(each, Tensor):
            if (each.shape.ndims or 0) <= rank:
                raise errors.unimplemented(
                    f"{name}: operand {at} is dense, of shape {each.shape}, beside ragged tensors of ragged "
                    f"rank {rank}; make all of them ragged"
                )
            given[at] = RaggedTensor.from_tensor(each, ragged_rank=rank)
        elif each.ragged_rank != rank:
            raise errors.unimplemented(
                f"{name}: operand {at} has ragged rank {each.ragged_rank}, another one {rank}; make them the same"
            )
    return given


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
    given = _same_rank(values, "concat")
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
    given = _same_rank(arguments["values"], "stack")
    rank = given[0].shape.ndims
    axis = static_axis(arguments.get("axis", 0), None if rank is None else rank + 1, "stack")
    return _stacked(function, given, axis)


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
        return RaggedTensor.from_row_splits(given, packed([rows * 0, rows]), validate=False)
    if axis == 1:
        return RaggedTensor.from_row_splits(given, range_of(rows + 1), validate=False)
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


def gather(function: Function, arguments: Arguments) -> Any:
    """`tf.gather` of rows."""
    rest = {
        key: value
        for key, value in _but(arguments, "params", "indices", "name", "validate_indices").items()
        if value is not None and not (isinstance(value, int) and value == 0)
    }
    if rest:
        raise errors.unimplemented(
            f"gather takes rows of ragged tensors, not {', '.join(f'{k}={v!r}' for k, v in rest.items())}; "
            "index the tensor instead"
        )
    params, indices = arguments["params"], arguments["indices"]
    if isinstance(indices, Ragged):
        places = as_ragged(indices)
        if isinstance(places.values, Ragged) or isinstance(params, Ragged):
            raise errors.unimplemented(
                "gather takes either ragged params or ragged indices of one ragged dimension; gather the values"
            )
        return places.with_values(function(params, places.values))
    return ragged_gather(as_ragged(params), indices)


def where(function: Function, arguments: Arguments) -> Any:
    """`tf.where` between ragged tensors with the same rows."""
    given = [arguments.get(key) for key in ("condition", "x", "y")]
    if not all(isinstance(each, Ragged) for each in given):
        raise errors.unimplemented(
            "where takes three ragged tensors with the same rows, or none; make the others dense by to_tensor()"
        )
    return map_flat_values(function, *map(as_ragged, given))


def _but(arguments: Arguments, *names: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in names}
