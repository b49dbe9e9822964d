"""Operators between ragged tensors, and with what broadcasts to them.

An operator is that of the innermost values.  Two ragged tensors need the same rows; a dense one broadcasts from the
last dimension on, with one element, or as many as there are, for a ragged dimension.
Called by: ops.array.ragged, ops.array.ragged_dispatch.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged/ragged_operators.py, ragged_dispatch.py)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from headrace.base import errors
from headrace.graph.const_value import folded
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.ragged import Ragged, RaggedTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops.array.gathering import gather, gather_nd
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.asserts import Assert
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal
from headrace.ops.math.reductions import reduce_all
from headrace.ops.tables import make

__all__: list[str] = []

Function = Callable[[Any, Any], Any]


def both_ragged(function: Function, x: Any, y: Any) -> Any:
    """`function` of the innermost values of two ragged tensors with the same rows."""
    if x.ragged_rank != y.ragged_rank:
        raise errors.unimplemented(
            f"operators need ragged tensors of as many ragged dimensions, not {x.ragged_rank} and {y.ragged_rank}; "
            "make one dense by to_tensor()"
        )
    said = "Unable to broadcast: dimension size mismatch:"
    checks = []
    for mine, other in zip(x.nested_row_splits, y.nested_row_splits, strict=True):
        if mine is other:
            continue
        known = folded(mine), folded(other)
        if not mine.shape.is_compatible_with(other.shape) or not _may_be_equal(*known):
            raise errors.invalid_argument(
                f"{said} the rows are not the same: row_splits {mine.shape} and {other.shape}: {known[0]}, {known[1]}"
            )
        if known[0] is None or known[1] is None:
            fits = reduce_all(equal(mine, cast(other, mine.dtype)))
            checks.append(Assert(fits, [said, "row_splits=", mine, "row_splits=", other]))
    with control_dependencies(checks):
        values = identity(x.flat_values) if checks else x.flat_values
    return x.with_flat_values(function(values, y.flat_values))


def _may_be_equal(mine: Any, other: Any) -> bool:
    return mine is None or other is None or np.array_equal(mine, other)


def with_dense(function: Function, given: Any, other: Any, swapped: bool) -> Any:
    """`function` of the innermost values, and of what a dense tensor is for each of them; swapped: that comes first."""
    flat = given.flat_values
    dense: Tensor = convert(other, None if isinstance(other, Tensor) else flat.dtype)
    spread = _spread(given, dense)
    made = function(spread, flat) if swapped else function(flat, spread)
    return given.with_flat_values(made)


def _spread(given: Any, dense: Tensor) -> Tensor:
    """`dense` so that it broadcasts to the innermost values."""
    rank, whole, outer = dense.shape.ndims, given.shape.ndims, given.ragged_rank + 1
    if rank is None or whole is None:
        raise ValueError(
            "Ragged tensors broadcast with tensors whose rank is known: set_shape says what is known"
        )
    if rank > whole:
        raise errors.unimplemented(
            f"a dense tensor of {rank} dimensions does not broadcast to a ragged one of {whole}; make that dense"
        )
    leading = rank - (whole - outer)
    if leading <= 0:
        return dense
    sizes = shape_of(dense, out_type=given.row_splits.dtype)
    if dense.shape.as_list()[:leading] == [1] * leading:
        spread: Tensor = reshape(dense, sizes[leading:])
        return spread
    checks, places = [], []
    positions = _positions(given)
    for at in range(leading):
        axis = outer - leading + at
        size = sizes[at]
        lengths = given.row_lengths(axis) if axis else given.nrows()
        lengths = lengths.flat_values if isinstance(lengths, Ragged) else lengths
        fits = make.LogicalOr(equal(size, 1), reduce_all(equal(lengths, size)))
        said = f"Unable to broadcast: dimension size mismatch in dimension {axis}:"
        checks.append(Assert(fits, [said, "lengths=", lengths, "dim_size=", size]))
        places.append(positions[axis] * cast(make.NotEqual(size, 1), positions[axis].dtype))
    with control_dependencies(checks):
        coordinates = stack(places, axis=1)
    found: Tensor = gather_nd(dense, coordinates)
    return found


def _positions(given: Any) -> list[Tensor]:
    """For each innermost value its place in each dimension, from the first on."""
    nested: list[Any] = []
    level = given
    while isinstance(level, Ragged):
        nested.append(level)
        level = level.values
    found: list[Tensor] = []
    above: Tensor | None = None  # of each innermost value, its row in the level that is looked at
    for each in reversed(nested):
        rows = each.value_rowids()
        if above is not None:
            rows, own = gather(rows, above), above
        else:
            own = range_of(cast(shape_of(each.values)[0], rows.dtype))
        found.append(own - gather(each.row_splits, rows))
        above = rows
    assert above is not None
    return [above, *reversed(found)]


def _binary(function: Function, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, RaggedTensorValue):
            other = type(self).from_nested_row_splits(other.flat_values, other.nested_row_splits)
        if isinstance(other, Ragged):
            return both_ragged(function, self, other)
        return with_dense(function, self, other, swapped)

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return self.with_flat_values(function(self.flat_values))

    return method


class RaggedOperators:
    """What ragged tensors inherit: the operators of tensors, element by element."""

    __array_priority__ = 100

    __add__, __radd__ = _binary(operator.add), _binary(operator.add, swapped=True)
    __sub__, __rsub__ = _binary(operator.sub), _binary(operator.sub, swapped=True)
    __mul__, __rmul__ = _binary(operator.mul), _binary(operator.mul, swapped=True)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _binary(operator.truediv, swapped=True)
    __floordiv__, __rfloordiv__ = (
        _binary(operator.floordiv),
        _binary(operator.floordiv, swapped=True),
    )
    __mod__, __rmod__ = _binary(operator.mod), _binary(operator.mod, swapped=True)
    __pow__, __rpow__ = _binary(operator.pow), _binary(operator.pow, swapped=True)
    __and__, __rand__ = _binary(operator.and_), _binary(operator.and_, swapped=True)
    __or__, __ror__ = _binary(operator.or_), _binary(operator.or_, swapped=True)
    __xor__, __rxor__ = _binary(operator.xor), _binary(operator.xor, swapped=True)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)
    __neg__, __abs__, __invert__ = (
        _unary(operator.neg),
        _unary(operator.abs),
        _unary(operator.invert),
    )

    def __bool__(self) -> NoReturn:
        """No ragged tensor is true or false.  Raises TypeError."""
        raise TypeError(
            "RaggedTensor may not be used as a boolean.: compare it with None by `is`, or fetch it in a session"
        )
