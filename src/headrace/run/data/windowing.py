"""Windows: consecutive elements as a dataset of their own, one for each component.

Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/window_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.base import errors
from headrace.run.data.chunks import Chunk, Column, joined, total_bytes
from headrace.run.data.held import Held
from headrace.run.data.positions import failure_of, failure_tree
from headrace.run.data.stage import MANY, Dataset, Iteration, Position, Stage


class Window(Stage):
    """Every `shift` elements a window of `size`, `stride` apart.

    An element that failed has its place, and windows that it is in fail.
    """

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
        self._count = 0  # of what is held, and of what failed
        self._failed: list[tuple[int, errors.OpError]] = []  # their places
        self._skips = 0  # elements between two windows
        self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`.  One at a time."""
        reach = (self._size - 1) * self._stride + 1
        while not self._ended and self._skips + reach > self._count:
            try:
                chunk = self.inputs[0].pull(min(MANY, self._skips + reach - self._count))
            except errors.OpError as error:
                self._failed.append((self._count, errors.detached(error)))
                self._count += 1
                self._pass_over()
                continue
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
        try:
            window = self._window(range(0, min(reach, self._count), self._stride))
        finally:
            self._skips = self._shift
            self._pass_over()
        parts = zip(self._source.types, self._source.shapes, window.columns, strict=True)
        return Chunk([_alone(Held(*part)) for part in parts], 1)

    def _window(self, places: range) -> Chunk:
        """The elements at these places.  Raises the first failure there."""
        failed = dict(self._failed)
        for place in places:
            if place in failed:
                raise errors.copied(failed[place])
        whole = joined(self._held)
        self._held = [whole]
        if not failed:
            return whole.part(0, places.stop, places.step)
        return whole.at(np.array([place - self._failed_before(place) for place in places]))

    def _failed_before(self, place: int) -> int:
        return sum(at < place for at, _ in self._failed)

    def _pass_over(self) -> None:
        gone = min(self._skips, self._count)
        if not gone:
            return
        elements = gone - self._failed_before(gone)
        self._failed = [(at - gone, error) for at, error in self._failed if at >= gone]
        self._count -= gone
        self._skips -= gone
        if elements:
            whole = joined(self._held)
            rest = whole.count - elements
            self._held = [whole.part(elements, whole.count)] if rest else []

    def buffered(self) -> tuple[int, int] | None:
        """What the next window has already."""
        return self._count, total_bytes(list(self._held))

    def save(self) -> Position:
        """What is held, and what failed among that."""
        failed = [[at, failure_tree(error)] for at, error in self._failed]
        return [int(self._ended), self._skips, list(self._held), failed]

    def restore(self, position: Position) -> None:
        """See `save`; the positions of older versions end before what failed."""
        ended, self._skips, held, *later = position
        self._ended, self._held = bool(ended), list(held)
        self._failed = []
        for at, tree in later[0] if later else ():
            error = failure_of(tree)
            if error is not None:
                self._failed.append((int(at), error))
        self._count = sum(chunk.count for chunk in self._held) + len(self._failed)


def _alone(dataset: Dataset) -> Column:
    column = np.empty(1, object)
    column[0] = dataset
    return column
