"""Columns: how a queue keeps its elements.

With known component shapes an element is a row across one contiguous array per component, so that
moving many elements is a slice copy.  The arrays grow by doubling and shrink when far too large:
memory follows the content, never the capacity.  Without shapes elements are kept one by one.

A store has two regions.  `size` elements are there for anyone; `gathered` ones are set aside for
the dequeue_many at the head of the wait queue, which takes what comes until it has enough, and `restore`
puts them back as if it had never asked.

What goes in is copied; what comes out is the taker's own.
Called by: run.queues.queue, under the queue's lock.  Nothing here locks, waits or checks types.
"""

from __future__ import annotations

import contextlib
import math
import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np

from headrace.base import dtypes

Array = np.ndarray[Any, Any]
Element = tuple[Any, ...]
"""One value per component: an array, or a NumPy scalar for shape []."""
Batch = tuple[Array, ...]
"""One array per component, elements along axis 0."""

_FEWEST_SLOTS: Final = 8
_LARGE_BYTES: Final = (
    1 << 11
)  # an element from this size on: measured, a copy costs more than an array
_SHRINK_ABOVE_BYTES: Final = 1 << 16  # a column smaller than this is not worth moving


class Store(ABC):
    """What a queue needs of its storage."""

    __slots__ = ("gathered", "size")

    gathers: ClassVar[bool] = True
    """Whether elements are set aside for a dequeue_many as they come; else it waits for all."""

    in_order: ClassVar[bool] = True
    """Whether what leaves now does not depend on what comes later."""

    def __init__(self) -> None:
        self.size = 0
        self.gathered = 0

    @abstractmethod
    def put(self, element: Sequence[Any]) -> None:
        """Add one element."""

    @abstractmethod
    def put_many(
        self, batch: Sequence[Array], start: int, stop: int, owned: Sequence[bool] = ()
    ) -> None:
        """Add the elements start to stop of a batch.

        owned: for each array whether nobody will ever change it, so that it need not be copied.
        """

    @abstractmethod
    def take(self) -> Element:
        """Remove one element; there is one."""

    @abstractmethod
    def take_many(self, count: int) -> Batch:
        """Remove `count` elements; there are that many."""

    @abstractmethod
    def gather(self, count: int) -> None:
        """Set `count` more elements aside; there are that many."""

    @abstractmethod
    def take_gathered(self) -> Batch:
        """Remove all that were set aside."""

    @abstractmethod
    def restore(self) -> None:
        """Put all that were set aside back."""


@runtime_checkable
class Swapping(Protocol):
    """A store that can put many elements in and set as many aside, one after the other, in one go."""

    def swap_many(self, batch: Sequence[Array], start: int, stop: int) -> None:
        """For each of the elements start to stop of a batch: `put` it, then `gather` one."""


class Oldest(Store):
    """First in, first out: the gathered elements are the oldest ones, where they have always been."""

    __slots__ = ()

    def gather(self, count: int) -> None:
        """Set the next oldest aside: only the border moves."""
        self.size -= count
        self.gathered += count

    def take_gathered(self) -> Batch:
        """Remove what was set aside."""
        count = self.gathered
        self.restore()
        return self.take_many(count)

    def restore(self) -> None:
        """Move the border back: they are the oldest again, in their order."""
        self.size += self.gathered
        self.gathered = 0


class Column:
    """One component's array of slots, with how a single slot is read, written and emptied."""

    __slots__ = ("empty", "get", "put", "slots")

    def __init__(self, dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
        self.slots: Array = np.empty((0, *shape), dtype.np)
        self.empty = dtype.np.hasobject
        self.put: Callable[[Any, int, Any], None] = operator.setitem
        self.get: Callable[[Any, int], Any] = operator.getitem  # NumPy scalars are copies
        if shape or dtype.np.fields:
            self.get = _copy_of_slot
        elif dtype is dtypes.string:
            self.get, self.put = _boxed, _unboxed_put
        elif self.empty:
            self.put = _unboxed_put

    def moved(self, slots: int, pieces: Sequence[slice]) -> Array:
        """A new array of that many slots that begins with the given pieces of the old one."""
        old = self.slots
        new: Array = np.empty((slots, *old.shape[1:]), old.dtype)
        at = 0
        for piece in pieces:
            part = old[piece]
            new[at : at + len(part)] = part
            at += len(part)
        return new


def _copy_of_slot(slots: Array, at: int) -> Any:
    return slots[at].copy()


def _boxed(slots: Array, at: int) -> Array:
    value = np.empty((), object)
    value[()] = slots[at]
    return value


def _unboxed_put(slots: Array, at: int, value: Any) -> None:
    slots[at] = value[()] if isinstance(value, np.ndarray) else value


class Table(Store):
    """Columns of equal length.  The subclass says which slots hold what."""

    __slots__ = ("_columns", "_row_bytes", "_shrink_below", "_slots")

    def __init__(
        self, component_types: Sequence[dtypes.DType], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__()
        self._columns = [Column(t, s) for t, s in zip(component_types, shapes, strict=True)]
        self._slots = 0
        self._shrink_below = 0  # elements; with fewer than these the arrays are far too large
        self._row_bytes = max(1, sum(_bytes_of(c.slots) for c in self._columns))

    @property
    def slots(self) -> int:
        """How many elements fit before the arrays must grow."""
        return self._slots

    def _wanted_slots(self, elements: int) -> int:
        """How many slots to have for so many elements; `slots` while it is about right."""
        if elements > self._slots:
            return max(elements, 2 * self._slots, _FEWEST_SLOTS)
        if elements < self._shrink_below:
            return max(2 * elements, _FEWEST_SLOTS)
        return self._slots

    @abstractmethod
    def _resize(self, elements: int) -> None:
        """Make the arrays fit so many elements."""

    def _shrink(self) -> None:
        with contextlib.suppress(MemoryError):  # then they stay large
            self._resize(self.size)

    def _reslot(self, slots: int, pieces: Sequence[slice]) -> None:
        """Move every column to arrays of that many slots."""
        arrays = [column.moved(slots, pieces) for column in self._columns]  # all, or MemoryError
        for column, array in zip(self._columns, arrays, strict=True):
            column.slots = array
        self._slots = slots
        large = slots * self._row_bytes > _SHRINK_ABOVE_BYTES and slots > _FEWEST_SLOTS
        self._shrink_below = slots // 8 if large else 0


def _bytes_of(slots: Array) -> int:
    return int(math.prod(slots.shape[1:]) * slots.dtype.itemsize)


class Ring(Oldest, Table):
    """First in, first out, in slots that come after each other, behind the last one the first."""

    __slots__ = ("_emptied", "_head")

    def __init__(
        self, component_types: Sequence[dtypes.DType], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__(component_types, shapes)
        self._head = 0
        self._emptied = [column for column in self._columns if column.empty]

    def _spans(self, start: int, count: int) -> list[slice]:
        """The one or two slices that hold `count` elements from the `start`-th on."""
        first = self._head + start
        if first >= self._slots:
            first -= self._slots
        end = first + count
        if end <= self._slots:
            return [slice(first, end)]
        return [slice(first, self._slots), slice(0, end - self._slots)]

    def _resize(self, elements: int) -> None:
        """Make the arrays fit so many elements, of which those here now come first."""
        slots = self._wanted_slots(elements)
        if slots != self._slots:
            self._reslot(slots, self._spans(0, self.size + self.gathered))
            self._head = 0

    def oldest(self, count: int) -> Batch:
        """Copies of the oldest elements, which stay.  Only while nothing is gathered, and so many are there."""
        spans = self._spans(0, count)
        return tuple([np.concatenate([c.slots[span] for span in spans]) for c in self._columns])

    def put(self, element: Sequence[Any]) -> None:
        """Add one element at the tail."""
        used = self.size + self.gathered
        if used >= self._slots:
            self._resize(used + 1)
        at = self._head + used
        if at >= self._slots:
            at -= self._slots
        for column, value in zip(self._columns, element):  # noqa: B905 -- checked by the queue
            column.put(column.slots, at, value)
        self.size += 1

    def put_many(
        self, batch: Sequence[Array], start: int, stop: int, owned: Sequence[bool] = ()
    ) -> None:
        """Add elements at the tail: one or two slice copies per component."""
        count = stop - start
        used = self.size + self.gathered
        if used + count > self._slots:
            self._resize(used + count)
        first = self._head + used
        if first + count <= self._slots:
            part = None if start == 0 and count == len(batch[0]) else slice(start, stop)
            for column, values in zip(self._columns, batch):  # noqa: B905 -- checked by the queue
                column.slots[first : first + count] = values if part is None else values[part]
            self.size += count
            return
        for span in self._spans(used, count):
            until = start + span.stop - span.start
            for column, values in zip(self._columns, batch, strict=True):
                column.slots[span] = values[start:until]
            start = until
        self.size += count

    def take(self) -> Element:
        """Remove the oldest element.  Only while nothing is gathered."""
        head = self._head
        element = tuple([column.get(column.slots, head) for column in self._columns])
        for column in self._emptied:
            column.slots[head] = None
        self._head = head + 1 if head + 1 < self._slots else 0
        self.size -= 1
        if self.size < self._shrink_below:
            self._shrink()
        return element

    def take_many(self, count: int) -> Batch:
        """Remove the oldest elements.  Only while nothing is gathered."""
        head, end = self._head, self._head + count
        if end <= self._slots:
            batch = tuple([column.slots[head:end].copy() for column in self._columns])
            for column in self._emptied:
                column.slots[head:end] = None
        else:
            spans = self._spans(0, count)
            batch = tuple(
                [np.concatenate([c.slots[span] for span in spans]) for c in self._columns]
            )
            for column in self._emptied:
                for span in spans:
                    column.slots[span] = None
        self._head = end if end < self._slots else end - self._slots
        self.size -= count
        if self.size < self._shrink_below:
            self._shrink()
        return batch


class _Chunk:
    """Elements `at` to `end` along axis 0 of `arrays`."""

    __slots__ = ("arrays", "at", "end")

    def __init__(self, arrays: Batch, end: int) -> None:
        self.arrays = arrays
        self.at = 0
        self.end = end


class Chunks(Oldest):
    """First in, first out, of large elements: they stay in the arrays in which they came.

    What was put in to keep and is taken out whole is never copied.
    """

    __slots__ = ("_chunks", "_kinds")

    def __init__(
        self, component_types: Sequence[dtypes.DType], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__()
        self._kinds = [(t.np, s) for t, s in zip(component_types, shapes, strict=True)]
        self._chunks: deque[_Chunk] = deque()

    def put(self, element: Sequence[Any]) -> None:
        """Add a chunk of one."""
        arrays = [np.empty((1, *shape), dtype) for dtype, shape in self._kinds]
        for array, value in zip(arrays, element, strict=True):
            array[0] = value[()] if isinstance(value, np.ndarray) and not value.ndim else value
        self._chunks.append(_Chunk(tuple(arrays), 1))
        self.size += 1

    def put_many(
        self, batch: Sequence[Array], start: int, stop: int, owned: Sequence[bool] = ()
    ) -> None:
        """Add a chunk."""
        whole = bool(owned) and stop - start == len(batch[0])
        arrays = [
            values if whole and keep else values[start:stop].copy()
            for values, keep in zip(batch, owned or [False] * len(batch), strict=True)
        ]
        self._chunks.append(_Chunk(tuple(arrays), stop - start))
        self.size += stop - start

    def take(self) -> Element:
        """Remove the oldest element.  Only while nothing is gathered."""
        chunk = self._chunks[0]
        element = [own(row(values, chunk.at)) for values in chunk.arrays]
        self._pass(1)
        return tuple(element)

    def take_many(self, count: int) -> Batch:
        """Remove the oldest elements.  Only while nothing is gathered."""
        chunk = self._chunks[0]
        if chunk.at == 0 and chunk.end == count == len(chunk.arrays[0]):
            self._chunks.popleft()
            self.size -= count
            return chunk.arrays
        batch = tuple([np.empty((count, *shape), dtype) for dtype, shape in self._kinds])
        done, chunks = 0, iter(self._chunks)
        while done < count:
            chunk = next(chunks)
            taken = min(count - done, chunk.end - chunk.at)
            for into, values in zip(batch, chunk.arrays, strict=True):
                into[done : done + taken] = values[chunk.at : chunk.at + taken]
            done += taken
        self._pass(count)
        return batch

    def _pass(self, count: int) -> None:
        """The oldest elements are gone; what is left of a chunk is moved when it has become small for its arrays."""
        self.size -= count
        while count:
            chunk = self._chunks[0]
            passed = min(count, chunk.end - chunk.at)
            chunk.at += passed
            count -= passed
            left = chunk.end - chunk.at
            if not left:
                self._chunks.popleft()
            elif 4 * left <= len(chunk.arrays[0]):
                with contextlib.suppress(MemoryError):  # then it stays
                    chunk.arrays = tuple([v[chunk.at : chunk.end].copy() for v in chunk.arrays])
                    chunk.at, chunk.end = 0, left


def ring_or_chunks(
    component_types: Sequence[dtypes.DType], shapes: Sequence[tuple[int, ...]]
) -> Store:
    """First in, first out, as suits elements of that size."""
    plain = all(t is dtypes.string or not t.np.hasobject for t in component_types)
    kind = Chunks if plain and row_bytes(component_types, shapes) >= _LARGE_BYTES else Ring
    return kind(component_types, shapes)


def row_bytes(component_types: Sequence[dtypes.DType], shapes: Sequence[tuple[int, ...]]) -> int:
    """What an element takes."""
    components = zip(component_types, shapes, strict=True)
    return sum(math.prod(shape) * dtype.np.itemsize for dtype, shape in components)


class ElementList(Store):
    """Elements one by one, for queues whose component shapes are not known.

    Such a queue cannot batch, as each element may have shapes of its own: many can be put in one
    call, but only one taken.  The subclass says which.
    """

    __slots__ = ("_elements",)

    def __init__(self) -> None:
        super().__init__()
        self._elements: deque[Element] = deque()

    def put(self, element: Sequence[Any]) -> None:
        """Add one element, copied."""
        self._elements.append(tuple([own(value) for value in element]))
        self.size += 1

    def put_many(
        self, batch: Sequence[Array], start: int, stop: int, owned: Sequence[bool] = ()
    ) -> None:
        """Add the rows of a batch, each copied by itself: all of them, or MemoryError."""
        self._elements += [
            tuple([own(row(values, at)) for values in batch]) for at in range(start, stop)
        ]
        self.size += stop - start

    def take(self) -> Element:
        """Remove the oldest element."""
        self.size -= 1
        return self._elements.popleft()

    def take_many(self, count: int) -> Batch:
        """Never called: the queue refuses, see there."""
        raise NotImplementedError("elements without known shapes cannot be batched")

    def gather(self, count: int) -> None:
        """Never called: the queue refuses, see there."""
        raise NotImplementedError("elements without known shapes cannot be batched")

    def take_gathered(self) -> Batch:
        """Never called: the queue refuses, see there."""
        raise NotImplementedError("elements without known shapes cannot be batched")

    def restore(self) -> None:
        """Nothing is ever set aside."""


def own(value: Any) -> Any:
    """`value` itself if nobody can change it, else a copy."""
    return value.copy() if isinstance(value, (np.ndarray, np.void)) else value


def row(values: Array, at: int) -> Any:
    """Row `at` of an array as a run-time value; a view where it is an array."""
    if values.ndim == 1 and values.dtype.hasobject:
        return values[at : at + 1].reshape(())
    return values[at]
