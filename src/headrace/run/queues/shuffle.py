"""RandomShuffleQueue: elements leave in random order, TensorFlow's order for TensorFlow's seeds.

Each element to leave is drawn among those that are there, and the last one takes its place.  Many
are drawn first and then moved by one fancy index per component.
Called by: ops (the RandomShuffleQueue kernels make it).  Threads, waiting and closing: run.queues.queue.
Source: TF 1.15 core/kernels/random_shuffle_queue_op.cc
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.run.queues.columns import (
    Array,
    Batch,
    Element,
    ElementList,
    Ring,
    Store,
    Table,
    row_bytes,
)
from headrace.run.queues.philox import Philox
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.uninterrupted import changes

Slots = Array | list[int] | slice

_WORTH_ARRAYS: Final = 16  # elements at a time
_LARGE_BYTES: Final = 1 << 14
"""Of an element from which on copying it, to fill the hole of one that leaves, costs more than an array of its own."""


@changes
class RandomShuffleQueue(Queue):
    """Keeps at least `min_after_dequeue` elements back while it is open, so that there is a choice."""

    @classmethod
    def make_store(cls, spec: QueueSpec) -> Store:
        """Rows in arrays when the shapes are known."""
        if spec.min_after_dequeue >= spec.capacity:
            raise errors.invalid_argument(
                f"min_after_dequeue {spec.min_after_dequeue} must be < capacity {spec.capacity}, "
                f"or nothing could ever be dequeued"
            )
        random = Philox(spec.seed, spec.seed2)
        shapes = spec.fixed_shapes
        if shapes is None:
            return ShuffledList(random)
        kind = LargeBag if row_bytes(spec.component_types, shapes) >= _LARGE_BYTES else Bag
        return kind(spec.component_types, shapes, random)


class Bag(Table):
    """Elements in the first `size` slots, in no order; gathered ones in a ring of their own."""

    __slots__ = ("_aside", "_random")

    in_order: ClassVar[bool] = False

    def __init__(
        self,
        component_types: Sequence[dtypes.DType],
        shapes: Sequence[tuple[int, ...]],
        random: Philox,
    ) -> None:
        super().__init__(component_types, shapes)
        self._random = random
        self._aside = Ring(component_types, shapes)

    def _resize(self, elements: int) -> None:
        slots = self._wanted_slots(elements)
        if slots != self._slots:
            self._reslot(slots, [slice(0, self.size)])

    def put(self, element: Sequence[Any]) -> None:
        """Add one element at the end."""
        at = self.size
        if at >= self._slots:
            self._resize(at + 1)
        for column, value in zip(self._columns, element):  # noqa: B905 -- checked by the queue
            column.put(column.slots, at, value)
        self.size = at + 1

    def put_many(
        self, batch: Sequence[Array], start: int, stop: int, owned: Sequence[bool] = ()
    ) -> None:
        """Add elements at the end: one slice copy per component."""
        end = self.size + stop - start
        if end > self._slots:
            self._resize(end)
        for column, values in zip(self._columns, batch, strict=True):
            column.slots[self.size : end] = values[start:stop]
        self.size = end

    def take(self) -> Element:
        """Remove one element at random."""
        at = self._random.next() % self.size
        last = self.size - 1
        element = tuple([column.get(column.slots, at) for column in self._columns])
        for column in self._columns:
            column.slots[at] = column.slots[last]
            if column.empty:
                column.slots[last] = None
        self.size = last
        if last < self._shrink_below:
            self._shrink()
        return element

    def take_many(self, count: int) -> Batch:
        """Remove elements at random, in the order drawn."""
        left = self.size - count
        picked, holes, fillers = self._drawn(count)
        batch = [column.slots[picked] for column in self._columns]
        for column in self._columns:
            column.slots[holes] = column.slots[fillers]
            if column.empty:
                column.slots[left : self.size] = None
        self.size = left
        if left < self._shrink_below:
            self._shrink()
        return tuple(batch)

    def _drawn(self, count: int) -> tuple[Slots, Slots, Slots]:
        """The slots to empty, in order; those to be refilled, and from which each."""
        size = self.size
        left = size - count
        numbers = self._random.many(count)
        if count >= _WORTH_ARRAYS and size > 4 * count * count:  # then they hardly ever meet
            slots = numbers % np.arange(size, left, -1)
            listed = slots.tolist()
            if max(listed) < left and len(set(listed)) == count:
                return slots, slots, slice(size - 1, left - 1, -1)
        picked: list[int] = []
        moved: dict[int, int] = {}
        for number in numbers.tolist():
            at = number % size
            size -= 1
            picked.append(moved.get(at, at))
            moved[at] = moved.get(size, size)
        holes = [at for at in moved if at < left]
        fillers = [moved[at] for at in holes]
        if count < _WORTH_ARRAYS:
            return picked, holes, fillers
        return _slots(picked), _slots(holes), _slots(fillers)  # made once, used for each column

    def gather(self, count: int) -> None:
        """Draw more and set them aside."""
        self._aside.put_many(self.take_many(count), 0, count)
        self.gathered += count

    def swap_many(self, batch: Sequence[Array], start: int, stop: int) -> None:
        """Put each of the elements start to stop, and set one at random aside after each."""
        size, count = self.size, stop - start
        self.put_many(batch, start, stop)
        aside: list[int] = []  # where those that are set aside stand now
        moved: dict[int, int] = {}  # slot to where what it holds in the end stands now
        for new, number in enumerate(self._random.many(count).tolist(), size):
            at = number % (size + 1)
            if at == size:
                aside.append(new)
            else:
                aside.append(moved.get(at, at))
                moved[at] = new
        taken = _slots(aside)
        self._aside.put_many([column.slots[taken] for column in self._columns], 0, count)
        holes, fillers = _slots(list(moved)), _slots(list(moved.values()))
        for column in self._columns:
            column.slots[holes] = column.slots[fillers]
            if column.empty:
                column.slots[size : self.size] = None
        self.size = size
        self.gathered += count

    def take_gathered(self) -> Batch:
        """Remove what was set aside, in the order drawn."""
        self.gathered = 0
        return self._aside.take_many(self._aside.size)

    def restore(self) -> None:
        """Put back what was set aside: the last drawn first, so that later draws are TensorFlow's."""
        if self.gathered:
            count = self.gathered
            batch = self.take_gathered()
            self.put_many([values[::-1] for values in batch], 0, count)


def _slots(numbers: list[int]) -> Array:
    return np.array(numbers, np.intp)


class ShuffledList(ElementList):
    """Elements of unknown shapes, in no order."""

    __slots__ = ("_random",)

    in_order: ClassVar[bool] = False

    def __init__(self, random: Philox) -> None:
        super().__init__()
        self._random = random

    def take(self) -> Element:
        """Remove one element at random."""
        return self._drawn(self._random.next() % self.size)

    def _drawn(self, number: int) -> Element:
        """The element that this number is of those that are left; the last one takes its place."""
        self.size -= 1
        last = self._elements.pop()
        if number == self.size:
            return last
        element, self._elements[number] = self._elements[number], last
        return element


class LargeBag(ShuffledList):
    """As `Bag`, of large elements: each has arrays of its own, and is copied when it comes and when it leaves."""

    __slots__ = ("_aside", "_kinds")

    def __init__(
        self,
        component_types: Sequence[dtypes.DType],
        shapes: Sequence[tuple[int, ...]],
        random: Philox,
    ) -> None:
        super().__init__(random)
        self._kinds = [(t.np, s) for t, s in zip(component_types, shapes, strict=True)]
        self._aside: list[Element] = []

    def take_many(self, count: int) -> Batch:
        """Remove elements at random, in the order drawn."""
        room = self._room(count)  # as long as an allocation may fail nothing is drawn
        numbers = self._random.many(count).tolist()
        return _filled(room, [self._drawn(number % self.size) for number in numbers])

    def _room(self, count: int) -> Batch:
        """Arrays for so many elements.  Raises MemoryError."""
        return tuple([np.empty((count, *shape), dtype) for dtype, shape in self._kinds])

    def gather(self, count: int) -> None:
        """Draw more and set them aside."""
        numbers = self._random.many(count).tolist()
        self._aside += [self._drawn(number % self.size) for number in numbers]
        self.gathered += count

    def swap_many(self, batch: Sequence[Array], start: int, stop: int) -> None:
        """Put each of the elements start to stop, and set one at random aside after each."""
        for at in range(start, stop):
            self.put_many(batch, at, at + 1)
            self.gather(1)

    def take_gathered(self) -> Batch:
        """Remove what was set aside, in the order drawn."""
        room = self._room(self.gathered)
        found, self._aside, self.gathered = self._aside, [], 0
        return _filled(room, found)

    def restore(self) -> None:
        """Put back what was set aside: the last drawn first, so that later draws are TensorFlow's."""
        self._elements += self._aside[::-1]
        self.size += len(self._aside)
        self._aside, self.gathered = [], 0


def _filled(room: Batch, elements: Sequence[Element]) -> Batch:
    """The arrays, with an element in each row."""
    for at, values in enumerate(room):
        for number, element in enumerate(elements):
            value = element[at]
            bare = isinstance(value, np.ndarray) and not value.ndim
            values[number] = value[()] if bare else value
    return room
