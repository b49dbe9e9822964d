"""`tf.linalg`: matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.library.tensordot import tensordot
from headrace.ops.array.shapes import adjoint, matrix_transpose
from headrace.ops.array.shapes import matrix_transpose as transpose
from headrace.ops.linalg.bands import diag as tensor_diag
from headrace.ops.linalg.bands import matrix_band_part as band_part
from headrace.ops.linalg.diagonals import eye
from headrace.ops.linalg.diagonals import matrix_diag as diag
from headrace.ops.linalg.diagonals import matrix_diag_part as diag_part
from headrace.ops.linalg.diagonals import matrix_set_diag as set_diag
from headrace.ops.linalg.einsum import einsum
from headrace.ops.linalg.products import matrix_inverse as inv
from headrace.ops.math.clipping import global_norm
from headrace.ops.math.reductions import norm
from headrace.ops.nn.basics import l2_normalize

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
