"""`headrace.python.ops.data_flow_ops`: queues and their relatives, where TF 1.x has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.library.staging import (
    BaseStagingArea,
    MapStagingArea,
    StagingArea,
)
from headrace.ops.data.accumulators import (
    ConditionalAccumulator,
    ConditionalAccumulatorBase,
    SparseConditionalAccumulator,
)
from headrace.ops.data.barriers import Barrier
from headrace.ops.data.queues import (
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
from headrace.ops.io.record_input import RecordInput
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = [
    "Barrier",
    "BaseStagingArea",
    "ConditionalAccumulator",
    "ConditionalAccumulatorBase",
    "FIFOQueue",
    "MapStagingArea",
    "PaddingFIFOQueue",
    "PriorityQueue",
    "QueueBase",
    "RandomShuffleQueue",
    "RecordInput",
    "SparseConditionalAccumulator",
    "StagingArea",
]
