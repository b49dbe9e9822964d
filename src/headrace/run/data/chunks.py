"""Chunks: consecutive elements of a dataset, a column for each component.

A column is one array [count, ...] where the elements' shapes are equal, else a list of elements.  What stages do with
many elements at a time they do with columns.
Called by: run.data.  Threads: any; a chunk does not change, but for those of its arrays that are `fresh`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Column = Array | list[Any]
Element = tuple[Any, ...]

BYTES_OF_OBJECT = 64  # a guess, for elements that are no arrays


class Chunk:
    """`count` elements, at least one.  fresh: nobody else has its arrays, so that elements need not be copied."""

    __slots__ = ("columns", "count", "fresh")

    def __init__(self, columns: Sequence[Column], count: int, fresh: bool = False) -> None:
        self.columns = tuple(columns)
        self.count = count
        self.fresh = fresh

    @classmethod
    def of(cls, elements: Sequence[Element], fresh: bool = False) -> Chunk:
        """Of elements, at least one."""
        columns = [column_of(values) for values in zip(*elements, strict=True)]
        return cls(columns, len(elements), fresh)

    def element(self, at: int) -> Element:
        """One, as kernels take it; the receiver's own."""
        return tuple([_value(column, at, self.fresh) for column in self.columns])

    def elements(self) -> list[Element]:
        """All of them, to be looked at or put into another chunk."""
        return [
            tuple([_value(column, at, True) for column in self.columns]) for at in range(self.count)
        ]

    def part(self, start: int, stop: int, step: int = 1) -> Chunk:
        """Some of them, at least one."""
        if start == 0 and stop >= self.count and step == 1:
            return self
        where = slice(start, min(stop, self.count), step)
        count = len(range(*where.indices(self.count)))
        return Chunk([column[where] for column in self.columns], count, self.fresh)

    def at(self, rows: Array) -> Chunk:
        """Those at `rows` [n], in that order; copies."""
        return Chunk([picked(column, rows) for column in self.columns], len(rows), True)

    @property
    def size(self) -> int:
        """Bytes, of objects roughly."""
        return sum(map(column_bytes, self.columns))


def boxed(value: Any) -> Array:
    """A scalar object (a string, a dataset) as the array that kernels take."""
    box = np.empty((), object)
    box[()] = value
    return box


def _value(column: Column, at: int, fresh: bool) -> Any:
    value = column[at]
    if type(column) is list:
        return value if fresh or not isinstance(value, np.ndarray) else value.copy()
    if column.ndim == 1:  # type: ignore[union-attr]
        return boxed(value) if column.dtype == object else value  # type: ignore[union-attr]
    return value if fresh else value.copy()


def column_of(values: Sequence[Any]) -> Column:
    """Of the values of one component, at least one: stacked where all have one shape."""
    first = values[0]
    shape, dtype = getattr(first, "shape", None), getattr(first, "dtype", None)
    if shape is None or any(getattr(value, "shape", None) != shape for value in values):
        return list(values)
    stacked = np.empty((len(values), *shape), dtype)
    for at, value in enumerate(values):
        stacked[at] = value[()] if not shape and isinstance(value, np.ndarray) else value
    return stacked


def objects(values: Sequence[Any]) -> Array:
    """A column of scalars that are objects."""
    column = np.empty(len(values), object)
    column[:] = values
    return column


def picked(column: Column, rows: Array) -> Column:
    """The elements of a column at `rows` [n], copied."""
    if isinstance(column, list):
        return [column[row] for row in rows.tolist()]
    return column[rows]


def joined(chunks: Sequence[Chunk]) -> Chunk:
    """One chunk of several, at least one, that follow each other."""
    if len(chunks) == 1:
        return chunks[0]
    columns = [join_columns(parts) for parts in zip(*[c.columns for c in chunks], strict=True)]
    return Chunk(columns, sum(chunk.count for chunk in chunks), True)


def join_columns(parts: Sequence[Column]) -> Column:
    """One column of several, at least one."""
    first = parts[0]
    if isinstance(first, np.ndarray) and all(
        isinstance(part, np.ndarray) and part.shape[1:] == first.shape[1:] for part in parts
    ):
        return np.concatenate(parts)
    return column_of([value for part in parts for value in values_of(part)])


def values_of(column: Column) -> list[Any]:
    """The elements of a column, one by one, without a copy."""
    return [_value(column, at, True) for at in range(len(column))]


def column_bytes(column: Column) -> int:
    """Bytes, of objects roughly: the first ones are taken for typical."""
    if isinstance(column, list):
        return sum(map(value_bytes, column))
    if column.dtype != object:
        return column.nbytes
    some = column.reshape(-1)[:16].tolist()
    total = sum([len(v) if type(v) is bytes else value_bytes(v) for v in some])
    return column.size * total // max(1, len(some))


def value_bytes(value: Any) -> int:
    """Bytes, of objects roughly."""
    if isinstance(value, np.ndarray):
        return column_bytes(value)
    if isinstance(value, (bytes, np.generic)):
        return len(value) if isinstance(value, bytes) else value.nbytes
    return BYTES_OF_OBJECT


def total_bytes(chunks: Iterable[Chunk]) -> int:
    """Bytes of all of them."""
    return sum(chunk.size for chunk in chunks)
