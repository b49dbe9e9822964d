"""Linear algebra: matrices that have inverses, and singular values and eigenvalues far from each other."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from headrace.graph.registry import get
from tests.ops.slopes import Cases, op

RNG = np.random.default_rng(8)
A, B = RNG.normal(size=(2, 3, 3)) + 2 * np.eye(3), RNG.normal(size=(2, 3, 2))
TALL, WIDE = RNG.normal(size=(4, 2)), RNG.normal(size=(2, 4))
BANDS = RNG.normal(size=(2, 3, 4)) + np.array([0.0, 4.0, 0.0])[:, None]
R4 = RNG.normal(size=(2, 4, 2))
ROW = RNG.normal(size=(2, 1, 4))


def positive(x: Any) -> Any:
    return tf.matmul(x, x, transpose_b=True) + tf.eye(3, dtype=tf.float64)


def known(x: Any, value: Any) -> Any:
    """x, of whose shape the gradient is made."""
    return tf.ensure_shape(x, value.shape)


def squares(*parts: Any) -> list[Any]:
    """What does not depend on the vectors' signs."""
    return [part * part for part in parts]


CASES: Cases = {
    "Cholesky": (lambda x: get("Cholesky")(positive(x)), [A]),
    "MatrixSolve": (op("MatrixSolve"), [A, B]),
    "MatrixSolve adjoint": (op("MatrixSolve", adjoint=True), [A, B]),
    "MatrixTriangularSolve": (op("MatrixTriangularSolve"), [A, B]),
    "MatrixTriangularSolve upper": (op("MatrixTriangularSolve", lower=False, adjoint=True), [A, B]),
    "MatrixTriangularSolve broadcast": (op("MatrixTriangularSolve"), [A[0], B]),
    "MatrixSolveLs": (lambda a, b: get("MatrixSolveLs")(a, b, 0.1), [TALL, B.reshape(4, 3)]),
    "MatrixSolveLs wide": (lambda a, b: get("MatrixSolveLs")(a, b, 0.1), [WIDE, B[0, :2]]),
    "MatrixDeterminant": (op("MatrixDeterminant"), [A]),
    "LogMatrixDeterminant": (lambda x: get("LogMatrixDeterminant")(x)[1], [A]),
    "MatrixSquareRoot": (lambda x: get("MatrixSquareRoot")(positive(x)), [A]),
    "Qr": (lambda x: get("Qr")(known(x, A)), [A]),
    "Qr tall": (lambda x: get("Qr")(known(x, TALL)), [TALL]),
    "Qr wide": (lambda x: get("Qr")(known(x, WIDE)), [WIDE]),
    "Svd values": (lambda x: get("Svd")(known(x, A), compute_uv=False)[0], [A]),
    "Svd": (lambda x: squares(*get("Svd")(known(x, A))), [A]),
    "Svd tall": (lambda x: squares(*get("Svd")(known(x, TALL))), [TALL]),
    "Svd wide": (lambda x: squares(*get("Svd")(known(x, WIDE))), [WIDE]),
    "Svd full": (
        lambda x: squares(*get("Svd")(known(x, A[0, :2]), full_matrices=True)),
        [A[0, :2]],
    ),
    "SelfAdjointEigV2": (lambda x: squares(*get("SelfAdjointEigV2")(positive(x))), [A]),
    "SelfAdjointEigV2 values": (
        lambda x: get("SelfAdjointEigV2")(positive(x), compute_v=False)[0],
        [A],
    ),
    "TridiagonalSolve": (op("TridiagonalSolve"), [BANDS, R4]),
    "TridiagonalMatMul": (op("TridiagonalMatMul"), [ROW, ROW + 1, ROW - 1, R4]),
    "Cross": (op("Cross"), [A[0], A[1]]),
}

ELSEWHERE: set[str] = set()
