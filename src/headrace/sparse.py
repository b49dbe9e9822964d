"""`tf.sparse`: sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.graph.sparse import SparseTensor
from headrace.ops.array.placeholders import sparse_placeholder as placeholder
from headrace.ops.data.accumulators import SparseConditionalAccumulator
from headrace.ops.sparse.dense import sparse_add as add
from headrace.ops.sparse.dense import sparse_tensor_dense_matmul as matmul
from headrace.ops.sparse.dense import sparse_tensor_dense_matmul as sparse_dense_matmul
from headrace.ops.sparse.dense import sparse_tensor_to_dense as to_dense
from headrace.ops.sparse.order import sparse_merge as merge
from headrace.ops.sparse.order import sparse_reorder as reorder
from headrace.ops.sparse.segments import sparse_segment_mean as segment_mean
from headrace.ops.sparse.segments import sparse_segment_sqrt_n as segment_sqrt_n
from headrace.ops.sparse.segments import sparse_segment_sum as segment_sum

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "SparseConditionalAccumulator",
    "SparseTensor",
    "add",
    "matmul",
    "merge",
    "placeholder",
    "reorder",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
    "sparse_dense_matmul",
    "to_dense",
]
