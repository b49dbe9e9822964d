"""Datasets of elements that are there: what windows are.

Called by: run.data.windowing, run.data.positions.  Threads: as run.data.stage.
"""

from __future__ import annotations

from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.run.data.chunks import Chunk, Column
from headrace.run.data.stage import Dataset, Iteration, Position, Stage


class Held(Dataset):
    """A dataset of elements that are there, of one component."""

    kind = "Window"

    def __init__(self, dtype: DType, shape: Shape, column: Column) -> None:
        super().__init__([dtype], [shape])
        self.column = column

    def stage(self, run: Iteration) -> Stage:
        """See `Dataset`."""
        made = HeldColumn(run, self.column)
        made.label = self.kind
        return made

    def cardinality(self) -> int:
        """See `Dataset`."""
        return len(self.column)


class HeldColumn(Stage):
    """The elements of a column."""

    def __init__(self, run: Iteration, column: Column) -> None:
        super().__init__(run)
        self._column = column
        self._at = 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        start = self._at
        stop = self._at = min(len(self._column), start + most)
        return Chunk([self._column[start:stop]], stop - start) if stop > start else None

    def save(self) -> Position:
        """How many were given."""
        return self._at

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._at = int(position)
