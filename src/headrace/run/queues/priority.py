"""PriorityQueue: the element of the smallest priority leaves first.

The first component of every element is its priority, int64 [].  Among equal priorities the first to
come leaves first (TensorFlow leaves that open).  A dequeue_many waits until all it wants are there
at once, since what comes meanwhile may have to leave before what is there; more than the capacity
never are.  dequeue_up_to is no different from dequeue_many here, on a closed queue either: so it is
in TensorFlow, which then loses the elements; here they stay.
Called by: ops (the PriorityQueue kernels make it).  Threads, waiting and closing: run.queues.queue.
Source: TF 1.15 core/kernels/priority_queue.cc
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from headrace.base import dtypes, errors
from headrace.run.queues.columns import Array, Batch, Element, Store, own, row
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.uninterrupted import changes


@changes
class PriorityQueue(Queue):
    """Smallest priority first."""

    gives_rest: ClassVar[bool] = False

    @classmethod
    def make_store(cls, spec: QueueSpec) -> Store:
        """A heap.  The spec's first component is the priority."""
        shapes = spec.fixed_shapes
        if shapes is None:
            raise errors.invalid_argument(
                f"a PriorityQueue of {len(spec.component_types) - 1} components needs a fully "
                "defined shape for each"
            )
        return Heap(spec.component_types, shapes)


def priority_spec(
    component_types: Sequence[dtypes.DType],
    shapes: Sequence[tuple[int | None, ...] | None],
    capacity: int,
) -> QueueSpec:
    """The spec of a queue whose node names all components but the priority."""
    types = [dtypes.int64, *component_types]
    return QueueSpec.make(types, [(), *shapes], capacity)


class Heap(Store):
    """Elements one by one, in a heap by (priority, when they came)."""

    __slots__ = ("_columns", "_elements", "_next")

    gathers: ClassVar[bool] = False
    in_order: ClassVar[bool] = False

    def __init__(
        self, component_types: Sequence[dtypes.DType], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__()
        self._columns = list(zip(component_types, shapes, strict=True))
        self._elements: list[tuple[int, int, Element]] = []
        self._next = 0

    def put(self, element: Sequence[Any]) -> None:
        """Add one element, copied."""
        mine = tuple([own(value) for value in element])
        heapq.heappush(self._elements, (int(mine[0]), self._next, mine))
        self._next += 1
        self.size += 1

    def put_many(
        self, batch: Sequence[Array], start: int, stop: int, owned: Sequence[bool] = ()
    ) -> None:
        """Add the rows of a batch one by one."""
        for at in range(start, stop):
            self.put([row(values, at) for values in batch])

    def take(self) -> Element:
        """Remove the element of the smallest priority."""
        self.size -= 1
        return heapq.heappop(self._elements)[2]

    def take_many(self, count: int) -> Batch:
        """Remove the elements of the smallest priorities, in their order."""
        batch = tuple([np.empty((count, *shape), dtype.np) for dtype, shape in self._columns])
        for at in range(count):
            element = self.take()
            for values, value in zip(batch, element, strict=True):
                scalar = values.ndim == 1 and isinstance(value, np.ndarray)
                values[at] = value[()] if scalar else value
        return batch

    def gather(self, count: int) -> None:
        """Never called: see `gathers`."""
        raise NotImplementedError("a priority queue sets nothing aside")

    def take_gathered(self) -> Batch:
        """Never called: see `gathers`."""
        raise NotImplementedError("a priority queue sets nothing aside")

    def restore(self) -> None:
        """Nothing is ever set aside."""
