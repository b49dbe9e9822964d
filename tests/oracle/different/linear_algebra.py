"""Where the outcomes of linear algebra are not TensorFlow's."""

from __future__ import annotations

DIFFERENT: dict[str, str] = {
    "Cholesky|MatrixTriangularSolve|MatrixSolveLs": (
        "a matrix that is not positive definite, or has no inverse, is InvalidArgument, as in 1.15; "
        "TensorFlow gives NaN"
    ),
    "Qr|Svd|SelfAdjointEigV2": "vectors' signs are LAPACK's, Eigen's there; without vectors "
    "TensorFlow leaves the memory as it is",
    "MatrixSquareRoot": "TensorFlow refuses some matrices, and does not say why",
}  # fmt: skip
