"""Functions that repeat, turn, cut and mark ragged tensors.

Each takes the function that is for tensors, and the arguments of the call by their names.
Called by: graph.ragged, graph.registry.  Threads: as graph.
Source: behaviour of TF 1.15 and 2.21 (python/ops/ragged/ragged_array_ops.py, ragged_squeeze_op.py)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.tensor import Tensor
from headrace.ops.array import gathering
from headrace.ops.array.constants import ones_like
from headrace.ops.array.joining import concat
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_calls import ragged_gather, ragged_range
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.array.ragged_joining import Arguments, Function, static_axis
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal
from headrace.ops.math.reductions import reduce_all

__all__: list[str] = []


def _rows_at(given: Any, at: Tensor) -> Any:
    return (
        ragged_gather(given, at) if isinstance(given, RaggedTensor) else gathering.gather(given, at)
    )


def tile(function: Function, arguments: Arguments) -> Any:
    """`tf.tile`."""
    given = as_ragged(arguments["input"])
    return _tiled(function, given, convert(arguments["multiples"]))


def _tiled(function: Function, given: Any, multiples: Tensor) -> Any:
    if isinstance(given, Tensor):
        return function(given, multiples)
    kind = given.row_splits.dtype
    many, within = cast(multiples[0], kind), cast(multiples[1], kind)
    values = _within(function, given.values, multiples)
    starts, limits = (
        reshape(function(expand_dims(each, 1), [1, multiples[1]]), [-1])
        for each in (given.row_starts(), given.row_limits())
    )
    places = ragged_range(starts, limits, row_splits_dtype=kind).values
    wide = RaggedTensor.from_row_splits(
        _rows_at(values, places), given.row_splits * within, validate=False
    )
    return ragged_gather(wide, function(range_of(given.nrows()), reshape(many, [1])))


def _within(function: Function, values: Any, multiples: Tensor) -> Any:
    """Values, of which all but the first dimension is repeated as often as multiples say of them."""
    rest = concat([ones_like(multiples[:1]), multiples[2:]], 0)
    return function(values, rest) if isinstance(values, Tensor) else _tiled(function, values, rest)


def reverse(function: Function, arguments: Arguments) -> Any:
    """`tf.reverse`."""
    given = as_ragged(arguments["tensor"])
    axes = constant_value(convert(arguments["axis"]))
    if axes is None:
        raise ValueError(
            "reverse: the axes of ragged tensors must be known when the graph is built"
        )
    rank = given.shape.ndims
    wanted = {static_axis(int(each), rank, "reverse") for each in np.ravel(axes)}
    keys = [
        slice(None, None, -1) if at in wanted else slice(None)
        for at in range(max(wanted, default=0) + 1)
    ]
    return given[tuple(keys)]


def one_hot(function: Function, arguments: Arguments) -> Any:
    """`tf.one_hot`, along a dimension behind the ragged ones."""
    given = as_ragged(arguments["indices"])
    rest = {key: each for key, each in arguments.items() if key not in ("indices", "axis")}
    axis = arguments.get("axis")
    if axis is not None and axis >= 0:
        axis -= given.ragged_rank
        if axis <= 0:
            raise ValueError(
                f"axis ({axis + given.ragged_rank}) must be greater than indices.ragged_rank ({given.ragged_rank})."
            )
    return given.with_flat_values(function(given.flat_values, axis=axis, **rest))


def split(function: Function, arguments: Arguments) -> Any:
    """`tf.split` into groups of rows, or along a dimension of innermost values."""
    given = as_ragged(arguments["value"])
    parts, many = arguments["num_or_size_splits"], arguments.get("num")
    axis = static_axis(arguments.get("axis", 0), given.shape.ndims, "split")
    if axis == 0:
        groups = function(range_of(given.nrows()), parts, 0, many)
        return [ragged_gather(given, each) for each in groups]
    if axis <= given.ragged_rank:
        raise ValueError(
            f"Cannot split a ragged dimension. Got `value` with shape {given.shape} and `axis` {axis}."
        )
    flat = function(given.flat_values, parts, axis - given.ragged_rank, many)
    return [given.with_flat_values(each) for each in flat]


def squeeze(function: Function, arguments: Arguments) -> Any:
    """`tf.squeeze` of dimensions that are named."""
    given = as_ragged(arguments["input"])
    axes = arguments.get("axis")
    axes = arguments.get("squeeze_dims") if axes is None else axes
    if axes is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    rank = given.shape.ndims
    wanted = {static_axis(int(each), rank, "squeeze") for each in np.ravel(axes)}
    for at in sorted(wanted, reverse=True):
        given = _without(function, given, at)
    return given


def _without(function: Function, given: Any, axis: int) -> Any:
    if isinstance(given, Tensor):
        return function(given, [axis])
    if axis > 1:
        return given.with_values(_without(function, given.values, axis - 1))
    ones = equal(given.nrows() if axis == 0 else given.row_lengths(), 1)
    check = Assert(
        reduce_all(ones), [f"squeeze: dimension {axis} has not the size 1:", given.row_splits]
    )
    with control_dependencies([check]):
        splits = identity(given.row_splits)
    checked = RaggedTensor.from_row_splits(given.values, splits, validate=False)
    # The values, once their rows were looked at.
    return _rows_at(checked.values, range_of(checked.row_splits[-1]))
