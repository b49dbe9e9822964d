"""Operands that fit linear algebra: matrices that are positive definite, have inverses, and rows as many as theirs."""

from __future__ import annotations

import numpy as np

from tests.ops.shaped import Row

_POSITIVE = [[4, 1, 0], [1, 3, 1], [0, 1, 2]]
_GENERAL = [[1, 2, 0], [0, 1, 3], [2, 0, 1]]
_BATCH = [_GENERAL, _POSITIVE]
_RHS = (3, 2)
_BANDS = [[1, 2, 0], [4, 5, 6], [0, 1, 2]]

SHAPED: dict[str, list[Row]] = {
    "Cholesky|SelfAdjointEigV2|MatrixSquareRoot": [(_POSITIVE,), ([_POSITIVE],), ((0, 0),), ((2, 0, 0),), ((0, 3, 3),)],
    "Qr|Svd": [(_GENERAL,), ((2, 3),), ((3, 2),), ((0, 3),), ((3, 0),), ((0, 2, 2),), ((2, 2, 3),)],
    "Lu|MatrixDeterminant|LogMatrixDeterminant|MatrixInverse|MatrixLogarithm": [
        (_GENERAL,), (_BATCH,), ((0, 0),), ((2, 0, 0),), ((0, 3, 3),),
    ],
    "MatrixSolve|MatrixTriangularSolve": [
        (_GENERAL, _RHS), (_BATCH, (2, 3, 2)), ((0, 0), (0, 2)), (_GENERAL, (3, 0)), ((0, 3, 3), (0, 3, 1)), (_BATCH,
        _RHS),
    ],
    "MatrixSolveLs": [
        (_GENERAL, _RHS, 0.5), ([[1, 2], [0, 1], [1, 1]], _RHS, 0), ([[1, 2, 0], [0, 1, 1]], (2, 2), 0.1), (_BATCH, (2,
        3, 2), 0), (_GENERAL, (2, 2), 0), (_GENERAL, _RHS, -1.0),
    ],
    "TridiagonalSolve": [
        (_BANDS, _RHS), ([_BANDS], (1, 3, 2)), ((3, 0), (0, 2)), (_BANDS, (3, 0)), (_BANDS, (2, 2)), ([[0], [2], [0]],
        (1, 1)),
    ],
    "TridiagonalMatMul": [
        ((1, 3), (1, 3), (1, 3), _RHS), ((2, 1, 3), (2, 1, 3), (2, 1, 3), (2, 3, 2)), ((1, 3), (1, 3), (1, 3), (3, 0)),
        ((1, 1), (1, 1), (1, 1), (1, 2)),
    ],
    "Cross": [((3,), (3,)), ((2, 3), (2, 3)), ((0, 3), (0, 3)), ((3, 2), (3, 2))],
}  # fmt: skip

assert np.linalg.det(_GENERAL) != 0
