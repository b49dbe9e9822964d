"""FIFOQueue: elements leave in the order in which they came.

Called by: ops (the FIFOQueue kernels make it).  Threads, waiting and closing: run.queues.queue.
Source: TF 1.15 core/kernels/fifo_queue.cc
"""

from __future__ import annotations

from typing import Any

from headrace.run.pending import Pending
from headrace.run.queues.columns import Batch, ElementList, Ring, Store, ring_or_chunks
from headrace.run.queues.queue import Queue
from headrace.run.queues.spec import QueueSpec
from headrace.run.uninterrupted import changes


@changes
class FIFOQueue(Queue):
    """First in, first out."""

    @classmethod
    def make_store(cls, spec: QueueSpec) -> Store:
        """Rows in arrays when the shapes are known."""
        shapes = spec.fixed_shapes
        return ElementList() if shapes is None else ring_or_chunks(spec.component_types, shapes)

    def ahead(self, most: int) -> tuple[int, Batch] | None:
        """Elements, at least one and `most` at most, that as many dequeues would give now without waiting.

        They stay in the queue.  The number before them: of the first one, among all that ever went in (`take_ahead`).
        None: there is none, or whoever comes now would have to wait; or elements are large, or of no known shape.
        """
        store = self._store
        with self._lock:
            count = min(most, store.size)
            if self._dequeues or count <= 0 or not isinstance(store, Ring):
                return None
            return self._entered - store.size, store.oldest(count)

    def take_ahead(self, first: int, count: int, settled: list[Pending[Any]]) -> bool:
        """Have dequeued that many of the elements that were `ahead`, if they still are; else False, and nothing.

        settled: receives what the caller announces when it holds no lock.
        """
        store = self._store
        with self._lock:
            if self._dequeues or self._entered - store.size != first or store.size < count:
                return False
            store.take_many(count)
            if self._enqueues:
                settled += self._serve()
        return True
