"""Stages whose function gives a dataset for each element: flat_map, interleave, windows of a group.

Called by: ops.data.dataset_functions.  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/{flat_map,interleave,parallel_interleave}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import errors
from headrace.run.data.chunks import Chunk, Element
from headrace.run.data.functions import Calling, Function, no_end
from headrace.run.data.prefetching import AUTOTUNE, Prefetch
from headrace.run.data.stage import Blocked, Dataset, Iteration, Position, Stage

DatasetOf = Callable[[Any], Dataset]
"""The dataset that a variant holds.  Raises InvalidArgument."""


class Open:
    """A dataset that a function gave for an element, while it is iterated."""

    __slots__ = ("element", "stage")

    def __init__(self, element: Element, stage: Stage) -> None:
        self.element = element
        self.stage = stage


class Nested(Stage):
    """The base: its inputs are the source, and the stages that are open."""

    def __init__(
        self, run: Iteration, source: Stage, function: Function, dataset_of: DatasetOf
    ) -> None:
        super().__init__(run, source)
        self._function = function.anew(run)
        self._call = Calling(run, self._function)
        self._dataset_of = dataset_of
        self._element: Element | None = None  # taken, and not open yet
        self.steady = function.steady

    def open_next(self) -> Open | None:
        """The dataset of the next element; None at the end.  An element whose function fails is passed over."""
        if self._element is None:
            chunk = self.inputs[0].pull(1)
            if chunk is None:
                return None
            self._element = chunk.element(0)
        return self.opened(self._element)

    def opened(self, element: Element) -> Open:
        """That of an element.  Raises Blocked, OpError."""
        try:
            (variant,) = self._call(element)
            dataset = self._dataset_of(variant)
        except errors.OutOfRangeError as error:
            self._element = None
            raise no_end(self, error) from error
        except Exception:
            self._element = None
            raise
        self._element = None
        return Open(element, self.stage_of(dataset))

    def opened_again(self, element: Element) -> Open:
        """That of an element whose dataset was open when the position was saved."""
        while True:
            try:
                return self.opened(element)
            except Blocked as blocked:
                blocked.pending.wait(self.run.scope)

    def stage_of(self, dataset: Dataset) -> Stage:
        """What is pulled of it."""
        return dataset.stage(self.run)


class FlatMap(Nested):
    """One dataset after the other."""

    def __init__(
        self, run: Iteration, source: Stage, function: Function, dataset_of: DatasetOf
    ) -> None:
        super().__init__(run, source, function, dataset_of)
        self._open: Open | None = None

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            if self._open is None:
                found = self.open_next()
                if found is None:
                    return None
                self._open = found
                self.inputs = (self.inputs[0], found.stage)
            chunk = self._open.stage.pull(most)
            if chunk is not None:
                return chunk
            self._open.stage.close()
            self._open, self.inputs = None, self.inputs[:1]
            self.run.check()

    def save(self) -> Position:
        """The element whose dataset is open, and one that waits for its own."""
        return [_chunk(None if self._open is None else self._open.element), _chunk(self._element)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        opened, waiting = position
        if opened is not None:
            self._open = self.opened_again(opened.element(0))
            self.inputs = (self.inputs[0], self._open.stage)
        self._element = None if waiting is None else waiting.element(0)


class Interleave(Nested):
    """`block` elements of each of `cycle` datasets in turn; one that has ended gives its place to the next.

    ahead: elements of each that are made ahead, by threads; 0: none.
    """

    def __init__(
        self,
        run: Iteration,
        source: Stage,
        function: Function,
        dataset_of: DatasetOf,
        cycle: int,
        block: int,
        ahead: int = 0,
    ) -> None:
        super().__init__(run, source, function, dataset_of)
        self._places: list[Open | None] = [None] * cycle
        self._block = block
        self._ahead = ahead
        self._at = 0  # place
        self._given = 0  # of its block
        self._source_ended = False

    def stage_of(self, dataset: Dataset) -> Stage:
        """See `Nested`."""
        if self._ahead and self.run.threads is not None:
            return Prefetch.over(self.run, dataset, self._ahead)
        return dataset.stage(self.run)

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            opened = self._places[self._at]
            if opened is None:
                if self._source_ended:
                    if not any(self._places):
                        return None
                    self._next_place()
                    continue
                opened = self.open_next()
                if opened is None:
                    self._source_ended = True
                    continue
                self._places[self._at] = opened
                self._note_inputs()
            chunk = opened.stage.pull(min(most, self._block - self._given))
            if chunk is None:
                opened.stage.close()
                self._places[self._at] = None
                self._note_inputs()
                self._next_place()
                self.run.check()
                continue
            self._given += chunk.count
            if self._given == self._block:
                self._next_place()
            return chunk

    def _next_place(self) -> None:
        self._at, self._given = (self._at + 1) % len(self._places), 0

    def _note_inputs(self) -> None:
        opened = [each.stage for each in self._places if each is not None]
        self.inputs = (self.inputs[0], *opened)

    def save(self) -> Position:
        """Whose turn it is, and the elements whose datasets are open."""
        elements = [_chunk(None if each is None else each.element) for each in self._places]
        ended = int(self._source_ended)
        return [self._at, self._given, ended, elements, _chunk(self._element)]

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._at, self._given, ended, elements, waiting = position
        self._source_ended = bool(ended)
        self._places = [
            None if each is None else self.opened_again(each.element(0)) for each in elements
        ]
        self._note_inputs()
        self._element = None if waiting is None else waiting.element(0)


def default_ahead(prefetch_input_elements: int) -> int:
    """How many elements of each dataset a parallel interleave makes ahead."""
    return AUTOTUNE if prefetch_input_elements < 0 else prefetch_input_elements


def _chunk(element: Element | None) -> Chunk | None:
    return None if element is None else Chunk.of([element])
