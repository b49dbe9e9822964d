"""`headrace.python.ops.data_flow_ops`: queues and their relatives, where TF 1.x has them."""

from __future__ import annotations

from headrace.ops.queues import (
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)

__all__ = [
    "FIFOQueue",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
]
