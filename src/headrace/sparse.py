"""`tf.sparse`: sparse tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
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

if TYPE_CHECKING:
    from headrace.ops.sparse.calls import from_dense
    from headrace.ops.sparse.calls import sparse_concat as concat
    from headrace.ops.sparse.calls import sparse_expand_dims as expand_dims
    from headrace.ops.sparse.calls import sparse_eye as eye
    from headrace.ops.sparse.calls import sparse_fill_empty_rows as fill_empty_rows
    from headrace.ops.sparse.calls import sparse_mask as mask
    from headrace.ops.sparse.calls import sparse_maximum as maximum
    from headrace.ops.sparse.calls import sparse_minimum as minimum
    from headrace.ops.sparse.calls import sparse_reduce_max as reduce_max
    from headrace.ops.sparse.calls import sparse_reduce_max_sparse as reduce_max_sparse
    from headrace.ops.sparse.calls import sparse_reduce_sum as reduce_sum
    from headrace.ops.sparse.calls import sparse_reduce_sum_sparse as reduce_sum_sparse
    from headrace.ops.sparse.calls import sparse_reset_shape as reset_shape
    from headrace.ops.sparse.calls import sparse_reshape as reshape
    from headrace.ops.sparse.calls import sparse_retain as retain
    from headrace.ops.sparse.calls import sparse_slice as slice
    from headrace.ops.sparse.calls import sparse_softmax as softmax
    from headrace.ops.sparse.calls import sparse_split as split
    from headrace.ops.sparse.calls import sparse_to_indicator as to_indicator
    from headrace.ops.sparse.calls import sparse_transpose as transpose
    from headrace.ops.sparse.crosses import sparse_cross as cross
    from headrace.ops.sparse.crosses import sparse_cross_hashed as cross_hashed
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.ops.sparse.calls": (
                "from_dense concat=sparse_concat expand_dims=sparse_expand_dims "
                "eye=sparse_eye fill_empty_rows=sparse_fill_empty_rows mask=sparse_mask "
                "maximum=sparse_maximum minimum=sparse_minimum reduce_max=sparse_reduce_max "
                "reduce_max_sparse=sparse_reduce_max_sparse reduce_sum=sparse_reduce_sum "
                "reduce_sum_sparse=sparse_reduce_sum_sparse reset_shape=sparse_reset_shape "
                "reshape=sparse_reshape retain=sparse_retain slice=sparse_slice "
                "softmax=sparse_softmax split=sparse_split to_indicator=sparse_to_indicator "
                "transpose=sparse_transpose"
            ),
            "headrace.ops.sparse.crosses": "cross=sparse_cross cross_hashed=sparse_cross_hashed",
        },
    )

__all__ = [
    "SparseConditionalAccumulator",
    "SparseTensor",
    "add",
    "concat",
    "cross",
    "cross_hashed",
    "expand_dims",
    "eye",
    "fill_empty_rows",
    "from_dense",
    "mask",
    "matmul",
    "maximum",
    "merge",
    "minimum",
    "placeholder",
    "reduce_max",
    "reduce_max_sparse",
    "reduce_sum",
    "reduce_sum_sparse",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
    "slice",
    "softmax",
    "sparse_dense_matmul",
    "split",
    "to_dense",
    "to_indicator",
    "transpose",
]
