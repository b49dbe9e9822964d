"""Stages that sort elements by a key which a function gives: windows of a key, a reduction of each key.

Called by: ops.data.dataset_groups.  Threads: as run.data.stage.
Source: TF 1.15 core/kernels/data/experimental/{group_by_window,group_by_reducer}_dataset_op.cc, for behaviour
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.data.chunks import Chunk, Element
from headrace.run.data.functions import Calling, Function, Repeating
from headrace.run.data.nesting import DatasetOf
from headrace.run.data.stage import Blocked, Dataset, Iteration, Position, Stage


class Elements(Dataset):
    """A dataset of elements that are there."""

    kind = "Window"

    def __init__(self, types: Any, shapes: Any, elements: list[Element]) -> None:
        super().__init__(types, shapes)
        self.elements = elements

    def stage(self, run: Iteration) -> Stage:
        """See `Dataset`."""
        made = _Held(run, self.elements)
        made.label = self.kind
        return made

    def cardinality(self) -> int:
        """See `Dataset`."""
        return len(self.elements)


class _Held(Stage):
    def __init__(self, run: Iteration, elements: list[Element]) -> None:
        super().__init__(run)
        self._elements, self._at = elements, 0

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        some = self._elements[self._at : self._at + most]
        self._at += len(some)
        return Chunk.of(some) if some else None

    def save(self) -> Position:
        """How many were given."""
        return self._at

    def restore(self, position: Position) -> None:
        """See `save`."""
        self._at = int(position)


def key_of(result: Element, what: str) -> int:
    """The number that a function gave.  Raises InvalidArgument."""
    if len(result) != 1 or np.ndim(result[0]) or np.asarray(result[0]).dtype != np.int64:
        raise errors.invalid_argument(f"{what} must return a scalar int64.")
    return int(result[0])


class GroupByWindow(Stage):
    """Elements with the same key, so many at a time, as a dataset that a function makes another one of.

    functions: of an element, its key; of a key, the size of its windows; of a key and a window, a dataset.
    """

    def __init__(
        self,
        run: Iteration,
        source: Stage,
        element_types: Any,
        element_shapes: Any,
        key: Function,
        size: Function,
        reduce: Function,
        dataset_of: DatasetOf,
        variant_of: Any,
    ) -> None:
        """variant_of: the variant that holds a dataset."""
        super().__init__(run, source)
        self._types, self._shapes = element_types, element_shapes
        self._key, self._size = Calling(run, key.anew(run)), Calling(run, size.anew(run))
        self._reduce = Calling(run, reduce.anew(run))
        self._dataset_of, self._variant_of = dataset_of, variant_of
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}
        self._element: Element | None = None
        self._element_key: int | None = None
        self._window: tuple[int, list[Element]] | None = None  # that is open, or to be opened
        self._ended = False
        self.steady = key.steady and size.steady and reduce.steady

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while True:
            if self._window is not None:
                if len(self.inputs) == 1:
                    self._open(*self._window)
                chunk = self.inputs[1].pull(most)
                if chunk is not None:
                    return chunk
                self.inputs[1].close()
                self.inputs, self._window = self.inputs[:1], None
                self.run.check()
            if not self._take():
                if not self._groups:
                    return None
                key = min(self._groups)
                self._window = key, self._groups.pop(key)

    def _open(self, key: int, elements: list[Element]) -> None:
        held = Elements(self._types, self._shapes, elements)
        try:
            (variant,) = self._reduce((np.int64(key), self._variant_of(held)))
            dataset = self._dataset_of(variant)
        except Exception:
            self._window = None
            raise
        self.inputs = (self.inputs[0], dataset.stage(self.run))

    def _take(self) -> bool:
        """Take elements until a window is full; False at the end."""
        while self._window is None:
            if self._element is None:
                if self._ended:
                    return False
                chunk = self.inputs[0].pull(1)
                if chunk is None:
                    self._ended = True
                    return False
                self._element = chunk.element(0)
            self._sort(self._element)
            self.run.check()
        return True

    def _sort(self, element: Element) -> None:
        try:
            if self._element_key is None:
                self._element_key = key_of(self._key(element), "`key_func`")
            key = self._element_key
            if key not in self._sizes:
                size = key_of(self._size((np.int64(key),)), "`window_size_func`")
                if size <= 0:
                    raise errors.invalid_argument(
                        f"Window size must be greater than zero, but got {size}."
                    )
                self._sizes[key] = size
        except Exception:
            self._element = self._element_key = None
            raise
        self._element = self._element_key = None
        group = self._groups.setdefault(key, [])
        group.append(element)
        if len(group) == self._sizes[key]:
            self._window = key, self._groups.pop(key)
            del self._sizes[key]

    def buffered(self) -> tuple[int, int] | None:
        """What waits for its window."""
        return sum(map(len, self._groups.values())), 0

    def save(self) -> Position:
        """The groups, and the window that is open."""
        opened = len(self.inputs) == 2
        window = self._window
        return [
            [[key, Chunk.of(group)] for key, group in self._groups.items()],
            [[key, size] for key, size in self._sizes.items()],
            None if window is None else [window[0], Chunk.of(window[1]), int(opened)],
            None if self._element is None else Chunk.of([self._element]),
            int(self._ended),
        ]

    def restore(self, position: Position) -> None:
        """See `save`."""
        groups, sizes, window, element, ended = position
        self._groups = {key: chunk.elements() for key, chunk in groups}
        self._sizes = dict(sizes)
        self._element = None if element is None else element.element(0)
        self._ended = bool(ended)
        if window is not None:
            key, chunk, opened = window
            self._window = key, chunk.elements()
            while opened:
                try:
                    self._open(*self._window)
                    break
                except Blocked as blocked:
                    blocked.pending.wait(self.run.scope)


class GroupByReducer(Stage):
    """For each key what a function makes of its elements, one after the other, in the order of
    the keys.

    functions: of an element, its key; of a key, a state; of a state and an element, the next state; of a state, an
    element.
    """

    def __init__(
        self,
        run: Iteration,
        source: Stage,
        key: Function,
        init: Function,
        reduce: Function,
        finalize: Function,
    ) -> None:
        super().__init__(run, source)
        functions = (key, init, reduce, finalize)
        self._key, self._init, self._reduce, self._finalize = (
            Calling(run, each.anew(run)) for each in functions
        )
        self._states: dict[int, Element] = {}
        self._element: Element | None = None
        self._element_key: int | None = None
        self._ended = False
        self.steady = all(each.steady for each in functions)

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        while not self._ended:
            if self._element is None:
                chunk = self.inputs[0].pull(1)
                if chunk is None:
                    self._ended = True
                    break
                self._element = chunk.element(0)
            self._add(self._element)
            self.run.check()
        if not self._states:
            return None
        key = min(self._states)
        try:
            made = self._finalize(self._states[key])
        except errors.OpError:
            del self._states[key]
            raise
        del self._states[key]
        return Chunk.of([made], True)

    def _add(self, element: Element) -> None:
        try:
            if self._element_key is None:
                self._element_key = key_of(self._key(element), "`key_func`")
            key = self._element_key
            if key not in self._states:
                self._states[key] = self._init((np.int64(key),))
            state = self._reduce((*self._states[key], *element))
        except Exception:
            self._element = self._element_key = None
            raise
        self._states[key] = state
        self._element = self._element_key = None

    def save(self) -> Position:
        """The states."""
        return [
            [[key, list(state)] for key, state in self._states.items()],
            None if self._element is None else Chunk.of([self._element]),
            int(self._ended),
        ]

    def restore(self, position: Position) -> None:
        """See `save`."""
        states, element, ended = position
        self._states = {key: tuple(state) for key, state in states}
        self._element = None if element is None else element.element(0)
        self._ended = bool(ended)


class Generated(Stage):
    """What a function gives, again and again, until it raises OutOfRange.

    functions: what makes a state, what gives the next element of it, what is called with it at the end.
    """

    steady = False

    def __init__(
        self, run: Iteration, init: Function, following: Function, finalize: Function
    ) -> None:
        super().__init__(run)
        self._init, self._next = Calling(run, init), Repeating(run, following)
        self._finalize = Calling(run, finalize)
        self._state: Element | None = None
        self._finishing = self._ended = False

    def pull(self, most: int) -> Chunk | None:
        """See `Stage`."""
        if self._ended:
            return None
        if self._state is None:
            self._state = self._init(())
        if not self._finishing:
            try:
                return Chunk.of(self._next(self._state, most), True)
            except errors.OutOfRangeError:
                self._finishing = True
        try:
            self._finalize(self._state)
        except errors.OpError:
            self._ended = True
            raise
        self._ended = True
        return None

    def save(self) -> Position:
        """Raises Unimplemented: what a generator has done cannot be told."""
        raise errors.unimplemented(
            "the position in a Python generator cannot be saved; save positions of datasets without from_generator"
        )

    def close(self) -> None:
        """See `Stage`.  A generator that has begun and not ended is told."""
        if self._state is not None and not self._ended:
            self._ended = True
            try:
                self._finalize(self._state)
            except BaseException:
                return
