"""`tf.queue`: queues."""

from __future__ import annotations

from headrace.ops.queues import FIFOQueue, QueueBase, RandomShuffleQueue

__all__ = [
    "FIFOQueue",
    "QueueBase",
    "RandomShuffleQueue",
]
