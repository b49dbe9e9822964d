"""`tf.linalg`: matrices."""

from __future__ import annotations

from headrace.ops.clipping import global_norm
from headrace.ops.diagonals import diag as tensor_diag
from headrace.ops.linear import matrix_inverse as inv
from headrace.ops.reductions import norm
from headrace.ops.tensordot import tensordot

__all__ = [
    "global_norm",
    "inv",
    "norm",
    "tensor_diag",
    "tensordot",
]
