"""`tf.sparse`: sparse tensors."""

from __future__ import annotations

from headrace.graph.sparse import SparseTensor
from headrace.ops.accumulators import SparseConditionalAccumulator
from headrace.ops.placeholders import sparse_placeholder as placeholder
from headrace.ops.sparse_order import sparse_merge as merge
from headrace.ops.sparse_order import sparse_reorder as reorder
from headrace.ops.sparse_segments import sparse_segment_mean as segment_mean
from headrace.ops.sparse_segments import sparse_segment_sqrt_n as segment_sqrt_n
from headrace.ops.sparse_segments import sparse_segment_sum as segment_sum

__all__ = [
    "SparseConditionalAccumulator",
    "SparseTensor",
    "merge",
    "placeholder",
    "reorder",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
]
