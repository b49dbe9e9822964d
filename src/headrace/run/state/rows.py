"""Rows: elements that are rows of one array, which is cut only when somebody wants one of them by itself.

What a compiled loop leaves in a TensorArray or on a stack is one array [n, …]; another such loop takes it as it is.
Called by: run.state.cells, run.state.tensor_arrays, run.state.stacks, ops.flow.  Threads: the one that runs the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.run.devices.there import There, rows


class Rows:
    """The rows of an array [n, …] of the host or of a device."""

    __slots__ = ("_cut", "array")

    def __init__(self, array: Any) -> None:
        self.array = array
        self._cut: list[Any] | None = None

    def at(self, index: int) -> Any:
        """One of them, as an array."""
        if not isinstance(self.array, There):
            return self.array[index]
        if self._cut is None:
            self._cut = rows(self.array)
        return self._cut[index]


class Row:
    """One of them, before it is cut."""

    __slots__ = ("index", "rows")

    def __init__(self, rows: Rows, index: int) -> None:
        self.rows, self.index = rows, index

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the row."""
        return tuple(self.rows.array.shape[1:])

    @property
    def dtype(self) -> Any:
        """Of the array."""
        return self.rows.array.dtype


def uncut(array: Any, count: int) -> list[Any]:
    """The first rows of an array [n, …]."""
    found = Rows(array)
    return [Row(found, index) for index in range(count)]


def cut(value: Any) -> Any:
    """An element as an array."""
    return value.rows.at(value.index) if value.__class__ is Row else value


def whole_of(values: Sequence[Any]) -> Any:
    """The array whose first rows the values are, in order; None if there is none."""
    if not values or values[0].__class__ is not Row:
        return None
    found = values[0].rows
    for index, value in enumerate(values):
        if value.__class__ is not Row or value.rows is not found or value.index != index:
            return None
    return found.array
