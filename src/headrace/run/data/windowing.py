"""Windows: consecutive elements as a dataset of their own, one for each component.

Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/window_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape
from headrace.run.data.chunks import Chunk, Column, joined, total_bytes
from headrace.run.data.stage import MANY, Dataset, Iteration, Position, Stage


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


class Window(Stage):
    """Every `shift` elements a window of `size`, `stride` apart.  What failed in one goes with the window."""

    def __init__(
        self,
        run: Iteration,
        stage: Stage,
        source: Dataset,
        numbers: Sequence[int],
        drop_remainder: bool,
    ) -> None:
        """numbers: size, shift, stride."""
        super().__init__(run, stage)
        self._source = source
        self._size, self._shift, self._stride = numbers
        self._drop = drop_remainder
        self._held: list[Chunk] = []
        self._count = 0
        self._skips = 0  # elements between two windows
        self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`.  One at a time."""
        reach = (self._size - 1) * self._stride + 1
        while not self._ended and self._skips + reach > self._count:
            try:
                chunk = self.inputs[0].pull(min(MANY, self._skips + reach - self._count))
            except errors.OpError:
                self._held, self._count = [], 0
                raise
            if chunk is None:
                self._ended = True
                break
            self._held.append(chunk)
            self._count += chunk.count
            self._pass_over()
            self.run.check()
        self._pass_over()
        if self._count == 0 or (self._drop and self._count < reach):
            return None
        whole = joined(self._held)
        window = whole.part(0, reach, self._stride)
        self._held = [whole]
        self._skips = self._shift
        self._pass_over()
        parts = zip(self._source.types, self._source.shapes, window.columns, strict=True)
        return Chunk([_alone(Held(*part)) for part in parts], 1)

    def _pass_over(self) -> None:
        gone = min(self._skips, self._count)
        if gone:
            whole = joined(self._held)
            self._count -= gone
            self._skips -= gone
            self._held = [whole.part(gone, whole.count)] if self._count else []

    def buffered(self) -> tuple[int, int] | None:
        """What the next window has already."""
        return self._count, total_bytes(list(self._held))

    def save(self) -> Position:
        """What is held."""
        return [int(self._ended), self._skips, list(self._held)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        ended, self._skips, held = position
        self._ended, self._held = bool(ended), list(held)
        self._count = sum(chunk.count for chunk in self._held)


def _alone(dataset: Dataset) -> Column:
    column = np.empty(1, object)
    column[0] = dataset
    return column
