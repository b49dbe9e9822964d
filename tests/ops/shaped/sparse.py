"""Operands that fit: sparse tensors cut, reduced and crossed; sets."""

from __future__ import annotations

import numpy as np

from tests.ops.shaped import Row

_CORNERS: list[list[int]] = [[0, 1], [1, 0]]
_EMPTY = np.zeros((0, 2))
_SPARSE: Row = (_CORNERS, (2,), [2, 2])
_LONGER: Row = ([[0, 0], [0, 2], [2, 1]], (3,), [3, 4])
_NONE: Row = (_EMPTY, (0,), [2, 3])
_DEEP: Row = ([[0, 0, 1], [0, 2, 0], [1, 1, 1]], (3,), [2, 3, 2])

SHAPED: dict[str, list[Row]] = {
    "SparseConcat": [
        (_CORNERS, _CORNERS, (2,), (2,), [2, 2], [2, 2]), (_CORNERS, _EMPTY, (2,), (0,), [2, 2], [0, 2]),
        (_CORNERS, [[0, 0]], (2,), (1,), [2, 2], [2, 1]),
    ],
    "SparseSplit": [(0, *_SPARSE), (1, *_LONGER), (-1, *_NONE), (0, *_DEEP), ([0], *_SPARSE), (2, *_SPARSE)],
    "SparseSlice": [
        (*_LONGER, [0, 1], [2, 2]), (*_LONGER, [0, 0], [9, 9]), (*_NONE, [1, 1], [1, 1]), (*_SPARSE, [5, 0], [1, 1]),
        (*_DEEP, [0, 1, 0], [2, 1, 1]),
    ],
    "SparseSliceGrad": [
        ((2,), _LONGER[0], [0, 1], [[0, 1], [2, 0]]), ((0,), _CORNERS, [0, 0], _EMPTY), ((0,), _EMPTY, [0, 0], _EMPTY),
    ],
    "SparseReshape": [
        (_CORNERS, [2, 2], [4]), (_CORNERS, [2, 2], [1, -1]), (_EMPTY, [0, 2], [2, 0]), (_EMPTY, [3, 2], [-1]),
        (_CORNERS, [2, 2], [2, 2]), (_CORNERS, [2, 2], [3]), (_CORNERS, [2, 2], [-1, -1]), (_CORNERS, [2, 2], [-2, 2]),
        (_EMPTY, [0, 2], [-1, 0]), (_CORNERS, [2, 2], [2, 1, 2]),
    ],
    "SparseFillEmptyRows": [
        (_CORNERS, (2,), [3, 2], ()), (_EMPTY, (0,), [2, 2], ()), (_EMPTY, (0,), [0, 2], ()),
        ([[1, 0], [0, 1]], (2,), [2, 2], ()), ([[2, 0], [0, 1], [2, 1]], (3,), [4, 2], ()),
        ([[0]], (1,), [1], ()), ([[3, 0]], (1,), [2, 2], ()),
    ],
    "SparseFillEmptyRowsGrad": [([0, 2], (3,)), ([], (2,)), ([0], (1,)), ([], (0,)), ([3], (2,))],
    "SparseReduce(Max|Sum)(Sparse)?": [
        (*_SPARSE, 0), (*_SPARSE, [1]), (*_SPARSE, [0, -1]), (*_SPARSE, []), (*_LONGER, [-1]), (*_NONE, 0),
        (*_NONE, [0, 1]), (*_DEEP, [1]), (*_DEEP, [0, 2]), (*_DEEP, -1), (*_SPARSE, 5),
        ([[1, 0], [0, 1]], (2,), [2, 2], 0),
    ],
    "SparseSoftmax": [_SPARSE, _LONGER, _NONE, _DEEP, ([[0]], (1,), [2])],
    "SparseDenseCwise(Add|Mul|Div)": [
        (*_SPARSE, (2, 2)), (*_SPARSE, ()), (*_LONGER, (4,)), (*_LONGER, (3, 1)), (*_LONGER, (1, 4)), (*_NONE, (2, 3)),
        (*_DEEP, (3, 2)), (*_DEEP, (2, 3, 1)), (*_SPARSE, (1, 2, 2)), (*_SPARSE, (3,)),
    ],
    "SparseSparse(Maximum|Minimum)": [
        (*_SPARSE, *_SPARSE), (*_LONGER, [[0, 0], [1, 1]], (2,), [3, 4]), (*_NONE, *_NONE), (*_SPARSE, *_NONE),
    ],
    "SparseCross": [(_CORNERS, (2,), [2, 2], (2, 2)), (_EMPTY, (0,), [2, 2], (2, 3)), (_CORNERS, (2,), [2, 2], (3, 2))],
    "SparseCrossV2": [(_CORNERS, (2,), [2, 2], (2, 2), b"-"), (_EMPTY, (0,), [2, 2], (2, 3), b"")],
    "EditDistance": [
        (*_LONGER, [[0, 0], [1, 0], [2, 3]], (3,), [3, 4]), (*_SPARSE, *_SPARSE), (*_NONE, *_NONE),
        (*_SPARSE, *_LONGER), (*_DEEP, *_DEEP), (*_SPARSE, *_DEEP), (*_NONE, *_LONGER), (*_LONGER, *_NONE),
    ],
    "DenseToDenseSetOperation": [
        ((2, 3), (2, 4)), ((2, 2, 3), (2, 2, 3)), ((0, 3), (0, 2)), ((2, 0), (2, 3)), ((2, 2), (3, 2)),
    ],
    "DenseToSparseSetOperation": [
        ((2, 3), *_SPARSE), ((3, 2), *_LONGER), ((2, 0), *_NONE), ((2, 3, 1), *_DEEP), ((3, 2), *_SPARSE),
    ],
    "SparseToSparseSetOperation": [
        (*_SPARSE, *_SPARSE), (*_NONE, *_SPARSE), (*_DEEP, *_DEEP), (*_SPARSE, *_LONGER),
        (*_SPARSE, [[1, 0], [0, 0]], (2,), [2, 2]),
    ],
    "SetSize": [_SPARSE, _LONGER, _NONE, _DEEP, ([[1, 0], [0, 0]], (2,), [2, 2]), ([[0]], (1,), [1])],
}  # fmt: skip
