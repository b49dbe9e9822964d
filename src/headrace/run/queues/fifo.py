"""FIFOQueue: elements leave in the order in which they came.

Called by: ops (the FIFOQueue kernels make it).  Threads, waiting and closing: run.queues.queue.
Source: TF 1.15 core/kernels/fifo_queue.cc
"""

from __future__ import annotations

from headrace.run.queues.columns import ElementList, Store, ring_or_chunks
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
