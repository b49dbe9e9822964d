"""`tf.linalg`: matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
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

if TYPE_CHECKING:
    from headrace.library.linalg.registrations import (
        LinearOperator,
        LinearOperatorAdjoint,
        LinearOperatorBlockDiag,
        LinearOperatorCirculant,
        LinearOperatorCirculant2D,
        LinearOperatorCirculant3D,
        LinearOperatorComposition,
        LinearOperatorDiag,
        LinearOperatorFullMatrix,
        LinearOperatorHouseholder,
        LinearOperatorIdentity,
        LinearOperatorInversion,
        LinearOperatorKronecker,
        LinearOperatorLowerTriangular,
        LinearOperatorLowRankUpdate,
        LinearOperatorScaledIdentity,
        LinearOperatorToeplitz,
        LinearOperatorZeros,
    )
    from headrace.library.matrices import (
        expm,
        logdet,
        matrix_rank,
        matvec,
        normalize,
        pinv,
        tridiagonal_matmul,
        tridiagonal_solve,
    )
    from headrace.ops.linalg.bands import diag_part as tensor_diag_part
    from headrace.ops.linalg.decompositions import lu, qr, svd
    from headrace.ops.linalg.decompositions import self_adjoint_eig as eigh
    from headrace.ops.linalg.decompositions import self_adjoint_eigvals as eigvalsh
    from headrace.ops.linalg.functions import matrix_determinant as det
    from headrace.ops.linalg.functions import matrix_logarithm as logm
    from headrace.ops.linalg.functions import matrix_square_root as sqrtm
    from headrace.ops.linalg.functions import slogdet
    from headrace.ops.linalg.products import matmul, trace
    from headrace.ops.linalg.solving import cholesky, cholesky_solve
    from headrace.ops.linalg.solving import matrix_solve as solve
    from headrace.ops.linalg.solving import matrix_solve_ls as lstsq
    from headrace.ops.linalg.solving import matrix_triangular_solve as triangular_solve
    from headrace.ops.linalg.tridiagonal import cross
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.linalg.registrations": (
                "LinearOperator LinearOperatorAdjoint LinearOperatorBlockDiag LinearOperatorCirculant "
                "LinearOperatorCirculant2D LinearOperatorCirculant3D LinearOperatorComposition "
                "LinearOperatorDiag LinearOperatorFullMatrix LinearOperatorHouseholder "
                "LinearOperatorIdentity LinearOperatorInversion LinearOperatorKronecker "
                "LinearOperatorLowRankUpdate LinearOperatorLowerTriangular LinearOperatorScaledIdentity "
                "LinearOperatorToeplitz LinearOperatorZeros"
            ),
            "headrace.library.matrices": (
                "expm logdet matrix_rank matvec normalize pinv tridiagonal_matmul tridiagonal_solve"
            ),
            "headrace.ops.linalg.bands": "tensor_diag_part=diag_part",
            "headrace.ops.linalg.decompositions": "eigh=self_adjoint_eig eigvalsh=self_adjoint_eigvals lu qr svd",
            "headrace.ops.linalg.functions": (
                "det=matrix_determinant logm=matrix_logarithm slogdet sqrtm=matrix_square_root"
            ),
            "headrace.ops.linalg.products": "matmul trace",
            "headrace.ops.linalg.solving": (
                "cholesky cholesky_solve lstsq=matrix_solve_ls solve=matrix_solve "
                "triangular_solve=matrix_triangular_solve"
            ),
            "headrace.ops.linalg.tridiagonal": "cross",
        },
    )

__all__ = [
    "LinearOperator",
    "LinearOperatorAdjoint",
    "LinearOperatorBlockDiag",
    "LinearOperatorCirculant",
    "LinearOperatorCirculant2D",
    "LinearOperatorCirculant3D",
    "LinearOperatorComposition",
    "LinearOperatorDiag",
    "LinearOperatorFullMatrix",
    "LinearOperatorHouseholder",
    "LinearOperatorIdentity",
    "LinearOperatorInversion",
    "LinearOperatorKronecker",
    "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular",
    "LinearOperatorScaledIdentity",
    "LinearOperatorToeplitz",
    "LinearOperatorZeros",
    "adjoint",
    "band_part",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "diag",
    "diag_part",
    "eigh",
    "eigvalsh",
    "einsum",
    "expm",
    "eye",
    "global_norm",
    "inv",
    "l2_normalize",
    "logdet",
    "logm",
    "lstsq",
    "lu",
    "matmul",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "norm",
    "normalize",
    "pinv",
    "qr",
    "set_diag",
    "slogdet",
    "solve",
    "sqrtm",
    "svd",
    "tensor_diag",
    "tensor_diag_part",
    "tensordot",
    "trace",
    "transpose",
    "triangular_solve",
    "tridiagonal_matmul",
    "tridiagonal_solve",
]
