"""`tf.linalg`: matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.ops.bands import diag as tensor_diag
from headrace.ops.bands import matrix_band_part as band_part
from headrace.ops.clipping import global_norm
from headrace.ops.diagonals import eye
from headrace.ops.diagonals import matrix_diag as diag
from headrace.ops.diagonals import matrix_diag_part as diag_part
from headrace.ops.diagonals import matrix_set_diag as set_diag
from headrace.ops.einsum import einsum
from headrace.ops.linear import matrix_inverse as inv
from headrace.ops.nn_basic import l2_normalize
from headrace.ops.reductions import norm
from headrace.ops.shape_ops import adjoint, matrix_transpose
from headrace.ops.shape_ops import matrix_transpose as transpose
from headrace.ops.tensordot import tensordot

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "adjoint",
    "band_part",
    "diag",
    "diag_part",
    "einsum",
    "eye",
    "global_norm",
    "inv",
    "l2_normalize",
    "matrix_transpose",
    "norm",
    "set_diag",
    "tensor_diag",
    "tensordot",
    "transpose",
]
