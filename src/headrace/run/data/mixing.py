"""Stages that choose among elements: one dataset after another as a selector says, each value once, without failures.

Called by: ops.data (datasets).  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/experimental/{directed_interleave,unique,ignore_errors}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.data.chunks import Chunk, values_of
from headrace.run.data.stage import Iteration, Position, Stage


class Directed(Stage):
    """The next element of the input that the first one names; those that have ended are passed over."""

    def __init__(self, run: Iteration, *stages: Stage, stop_on_empty: bool = False) -> None:
        """stages: the selector, which gives numbers, then the others."""
        super().__init__(run, *stages)
        self._stops = stop_on_empty
        self._ended = [False] * (len(stages) - 1)
        self._chosen: int | None = None  # by a selector that was read, of an element that was not

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`.  One at a time: which input is next is known only by then."""
        while True:
            if self._chosen is None:
                if all(self._ended):
                    return None
                chosen = self.inputs[0].pull(1)
                if chosen is None:
                    return None
                at = int(values_of(chosen.columns[0])[0])
                if not 0 <= at < len(self._ended):
                    raise errors.invalid_argument(
                        f"Selector index out of range: {at} >= {len(self._ended)}"
                    )
                self._chosen = at
            at = self._chosen
            if self._ended[at]:
                self._chosen = None
                continue
            try:
                chunk = self.inputs[1 + at].pull(1)
            except errors.OpError:
                self._chosen = None
                raise
            self._chosen = None
            if chunk is not None:
                return chunk
            self._ended[at] = True
            if self._stops:
                self._ended = [True] * len(self._ended)
            self.run.check()

    def save(self) -> Position:
        """Which inputs have ended, and which was chosen."""
        return [[int(each) for each in self._ended], -1 if self._chosen is None else self._chosen]

    def restore(self, position: Position) -> None:
        """See `save`."""
        ended, chosen = position
        self._ended = [bool(each) for each in ended]
        self._chosen = None if chosen < 0 else chosen


class Unique(Stage):
    """Scalars, each value when it comes for the first time."""

    def __init__(self, run: Iteration, source: Stage) -> None:
        super().__init__(run, source)
        self._seen: set[Any] = set()

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            chunk = self.inputs[0].pull(most)
            if chunk is None:
                return None
            new = []
            (column,) = chunk.columns
            values = column.tolist() if isinstance(column, np.ndarray) else column
            for at, value in enumerate(values):
                if value not in self._seen:
                    self._seen.add(value)
                    new.append(at)
            if len(new) == chunk.count:
                return chunk
            if new:
                return chunk.at(np.array(new, np.intp))
            self.run.check()

    def buffered(self) -> tuple[int, int] | None:
        """The values that it remembers."""
        return len(self._seen), 64 * len(self._seen)

    def save(self) -> Position:
        """The values that it remembers."""
        return list(self._seen)

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._seen = set(position)


class WithoutFailures(Stage):
    """The elements that did not fail."""

    def __init__(self, run: Iteration, source: Stage, log_warning: bool = False) -> None:
        super().__init__(run, source)
        self._warns = log_warning

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            try:
                return self.inputs[0].pull(most)
            except errors.OutOfRangeError:  # what it is called that everything ends with
                raise
            except errors.OpError as error:
                if self._warns:
                    import logging  # takes its time to load

                    logging.getLogger("headrace").warning(
                        "Error raised with error message %s; the element is passed over", error
                    )
            self.run.check()
