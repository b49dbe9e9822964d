"""Queue runners for a block, and a queue of whole batches: `slim.queues`, `slim.prefetch_queue`.

Called by: programs.  Threads: the caller's; those of the runners have ended when the block has.
Source: behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace.base import dtypes
from headrace.graph.collections import GraphKeys
from headrace.graph.names import name_scope
from headrace.graph.scopes import get_default_graph
from headrace.ops.data.queues import FIFOQueue, PaddingFIFOQueue
from headrace.ops.io.summaries import scalar
from headrace.ops.math.casting import cast
from headrace.training.coordinator import Coordinator
from headrace.training.queue_runner import QueueRunner, add_queue_runner

__all__ = ["NestedQueueRunnerError", "QueueRunners", "prefetch_queue"]

_GRACE_S = 120.0
"""How long threads of runners have to end once the block has."""
_in_block = threading.local()


class NestedQueueRunnerError(Exception):
    """A block of `QueueRunners` within another, which would start the same runners twice."""


@contextmanager
def QueueRunners(session: Any) -> Iterator[list[threading.Thread]]:
    """Context manager: the graph's queue runners run inside; their threads have stopped when it is left.

    Raises NestedQueueRunnerError.
    """
    if getattr(_in_block, "running", False):
        raise NestedQueueRunnerError("You cannot nest queue runners with queue runners")
    coordinator = Coordinator()
    _in_block.running = True
    threads: list[threading.Thread] = []
    try:
        for runner in get_default_graph().get_collection(GraphKeys.QUEUE_RUNNERS):
            threads += runner.create_threads(session, coord=coordinator, daemon=True, start=True)
        yield threads
    finally:
        _in_block.running = False
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=_GRACE_S)


def prefetch_queue(
    tensors: Sequence[Any] | Mapping[str, Any],
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """A queue that threads of their own fill with `tensors`, whole batches mostly; dequeue() takes one.

    A dict gives dicts.  dynamic_pad: sizes may differ.  Raises ValueError: shapes that are not known.
    """
    by_name = isinstance(tensors, Mapping)
    names: list[str] | None = sorted(tensors) if isinstance(tensors, Mapping) else None
    listed = (
        [tensors[key] for key in names] if isinstance(tensors, Mapping) and names else [*tensors]
    )
    with name_scope(name, "prefetch_queue", listed):
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        kinds, shapes = [each.dtype for each in listed], [each.get_shape() for each in listed]
        queue = kind(
            capacity=capacity,
            dtypes=kinds,
            shapes=shapes,
            names=names,
            shared_name=shared_name,
        )
        enqueue = queue.enqueue(tensors if by_name else listed)
        add_queue_runner(QueueRunner(queue, [enqueue] * num_threads))
        share = cast(queue.size(), dtypes.float32) * (1.0 / capacity)
        scalar(f"fraction_of_{capacity}_full", share)
        return queue
