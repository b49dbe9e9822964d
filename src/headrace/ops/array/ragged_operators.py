"""Operators between ragged tensors, and with what broadcasts to them.

An operator is that of the innermost values, once both were broadcast to one shape.
Called by: ops.array.ragged, ops.array.ragged_dispatch.  Threads: as graph.
Source: behaviour of TF 1.15 and 2.21 (python/ops/ragged/ragged_operators.py, dynamic_ragged_shape.py)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NoReturn

from headrace.graph.convert import convert
from headrace.graph.ragged import Ragged, RaggedTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops.array.ragged_broadcasting import Partition, broadcast, dtype_of_splits
from headrace.ops.math.arithmetic import add, floormod, multiply, subtract
from headrace.ops.math.arithmetic import pow as power
from headrace.ops.math.comparisons import logical_and, logical_or, logical_xor

__all__: list[str] = []

Function = Callable[[Any, Any], Any]


def applied(function: Function, x: Any, y: Any) -> Any:
    """`function` of the innermost values of two, of which one at least is a ragged tensor, broadcast to each other.

    Raises ValueError for unknown ranks and row_splits of two dtypes, InvalidArgument for what does not fit together.
    """
    given: Any = x if isinstance(x, Ragged) else y
    flat_x, flat_y, partitions = aligned(x, y)
    made = function(flat_x, flat_y)
    if partitions is None:
        return given.with_flat_values(made)
    for splits, length in reversed(partitions):
        made = type(given)(made, splits, length)
    return made


def aligned(x: Any, y: Any) -> tuple[Tensor, Tensor, list[Partition] | None]:
    """The innermost values of both, as they broadcast to each other; and the rows of the result, None: as they were."""
    given: Any = x if isinstance(x, Ragged) else y
    if not isinstance(x, Ragged):
        x = _dense(x, given.dtype)
    if not isinstance(y, Ragged):
        y = _dense(y, given.dtype)
    if _is_small(x, y) or _is_small(y, x) or _have_same_rows(x, y):
        return _flat(x), _flat(y), None
    return broadcast(x, y)


def _dense(value: Any, dtype: Any) -> Tensor:
    found: Tensor = convert(value, None if isinstance(value, Tensor) else dtype)
    return found


def _flat(given: Any) -> Tensor:
    found: Tensor = given.flat_values if isinstance(given, Ragged) else given
    return found


def _is_small(dense: Any, given: Any) -> bool:
    """Whether the first is dense, and broadcasts to each of the innermost values of the second."""
    if isinstance(dense, Ragged) or not isinstance(given, Ragged):
        return False
    rank, inner = dense.shape.ndims, given.flat_values.shape.ndims
    return rank == 0 or (rank is not None and inner is not None and rank < inner)


def _have_same_rows(x: Any, y: Any) -> bool:
    """Whether both have the very same row_splits, and as many dimensions."""
    if not (isinstance(x, Ragged) and isinstance(y, Ragged)) or x.ragged_rank != y.ragged_rank:
        return False
    dtype_of_splits(x, y)
    ranks = {each.flat_values.shape.ndims for each in (x, y)} - {None}
    splits = zip(x.nested_row_splits, y.nested_row_splits, strict=True)
    return len(ranks) < 2 and all(mine is its for mine, its in splits)


def _binary(function: Function, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if isinstance(other, RaggedTensorValue):
            other = type(self).from_nested_row_splits(other.flat_values, other.nested_row_splits)
        return applied(function, other, self) if swapped else applied(function, self, other)

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return self.with_flat_values(function(self.flat_values))

    return method


class RaggedOperators:
    """What ragged tensors inherit: the operators of tensors, element by element."""

    __array_priority__ = 100

    # Functions where their nodes have other names than the operators of tensors give them.
    __add__, __radd__ = _binary(add), _binary(add, swapped=True)
    __sub__, __rsub__ = _binary(subtract), _binary(subtract, swapped=True)
    __mul__, __rmul__ = _binary(multiply), _binary(multiply, swapped=True)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _binary(operator.truediv, swapped=True)
    __floordiv__, __rfloordiv__ = (
        _binary(operator.floordiv),
        _binary(operator.floordiv, swapped=True),
    )
    __mod__, __rmod__ = _binary(floormod), _binary(floormod, swapped=True)
    __pow__, __rpow__ = _binary(power), _binary(power, swapped=True)
    __and__, __rand__ = _binary(logical_and), _binary(logical_and, swapped=True)
    __or__, __ror__ = _binary(logical_or), _binary(logical_or, swapped=True)
    __xor__, __rxor__ = _binary(logical_xor), _binary(logical_xor, swapped=True)
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
