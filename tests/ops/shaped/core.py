"""Operands that fit: the ops that have been here longest.  (See the package for what a row is.)"""

from __future__ import annotations

import numpy as np

from tests.ops.shaped import Row

_CORNERS: list[list[int]] = [[0, 1], [1, 0]]
_PATCH, _FILTER = (1, 3, 3, 2), (2, 2, 2, 2)
_BLOCK, _FILTER3 = (1, 2, 2, 2, 2), (1, 1, 1, 2, 2)

SHAPED: dict[str, list[Row]] = {
    "(Resource)?Scatter(Update|Add|Sub|Mul|Div|Min|Max)": [
        ((3, 2), [0, 2], (2, 2)), ((3, 2), [0, 2], ()), ((3, 0), [0], (1, 0)), ((3, 2), [], (0, 2)), ((3,), 1, ()),
    ],
    "(Resource)?ScatterNd(Update|Add|Sub|Min|Max)|TensorScatter.*|ScatterNdNonAliasingAdd": [
        ((3, 2), [[0], [2]], (2, 2)), ((3, 2), [[0, 1]], (1,)), ((3, 2), [[]], (1, 3, 2)), ((3, 0), [[1]], (1, 0)),
        ((3,), [1], ()), ((3,), [1], (1,)), ((), [], ()),
    ],
    "ScatterNd": [([[0], [2]], (2,), [4]), ([[0], [2]], (2, 3), [4, 3]), ([[0]], (1, 0), [4, 0]), ([[]], (1, 2), [2])],
    "ConcatOffset": [(0, [2, 3], [1, 3]), (-1, [2, 3], [2, 0]), (0, [0], [0])],
    "SplitV": [((2, 3), [1, 1], 0), ((2, 3), [1, -1], 1), ((0, 3), [0, 0], 0)],
    "MatrixDiagPartV[23]": [((3, 3), 0, ()), ((2, 3), [-1, 1], ()), ((0, 3, 3), 1, ()), ((0, 3), 0, ())],
    "MatrixDiagV[23]": [((3,), 0, -1, -1, ()), ((2, 3), [-1, 0], -1, -1, ()), ((3,), 0, 3, 5, ())],
    "MatrixSetDiagV[23]": [((3, 3), (3,), 0), ((2, 3, 3), (2, 3), 0), ((3, 3), (2, 3), [-1, 0]), ((0, 3), (0,), 0)],
    "StridedSlice": [((2, 3), [0, 1], [2, 3], [1, 1]), ((3,), [2], [0], [-1]), ((0, 3), [0], [0], [1])],
    "StridedSliceGrad": [([2, 3], [0, 1], [2, 3], [1, 1], (2, 2)), ([0, 3], [0], [0], [1], (0, 3))],
    "(Resource)?StridedSliceAssign": [((2, 3), [0, 1], [2, 3], [1, 1], (2, 2)), ((0, 3), [0], [0], [1], (0, 3))],
    "(_FusedBatchNormEx|FusedBatchNormV3)": [(_PATCH, (2,), (2,), (0,), (0,)), ((0, 3, 3, 2), (2,), (2,), (0,), (0,))],
    "FusedBatchNormGradV3": [(_PATCH, _PATCH, (2,), (2,), (2,), (2,))],
    "BiasAdd": [((2, 3), (3,)), ((0, 3), (3,)), ((2, 0), (0,)), ((1, 2, 2, 1), (1,))],
    "ComputeAccidentalHits": [([[1], [2]], [2, 5, 1]), ([[1]], [])],
    "(Depthwise)?[cC]onv2[dD](Native)?": [(_PATCH, _FILTER), ((0, 3, 3, 2), _FILTER), ((1, 1, 1, 2), _FILTER)],
    "(Depthwise)?Conv2[dD](Native)?BackpropInput": [([1, 3, 3, 2], _FILTER, (1, 2, 2, 2))],
    "(Depthwise)?Conv2[dD](Native)?BackpropFilter": [(_PATCH, [1, 1, 2, 2], _PATCH)],
    "Conv3D": [(_BLOCK, _FILTER3), ((0, 2, 2, 2, 2), _FILTER3)],
    "Conv3DBackpropInputV2": [([1, 2, 2, 2, 2], _FILTER3, _BLOCK)],
    "Conv3DBackpropFilterV2": [(_BLOCK, [1, 1, 1, 2, 2], _BLOCK)],
    "UnsortedSegment.*": [((3, 2), [0, 2, 0], 4), ((3, 2), [[0, 1], [1, 1], [-1, 0]], 2), ((0, 2), [], 3), ((), 1, 2)],
    "Segment(Sum|Mean|Prod|Max|Min)": [((3, 2), [0, 0, 2]), ((3,), [1, 2, 2]), ((0, 2), [])],
    "SparseSegment(Sum|Mean|SqrtN)": [((3, 2), [0, 2], [0, 1]), ((3, 2), [], []), ((3, 0), [1, 1], [0, 0])],
    "SparseSegment.*WithNumSegments": [((3, 2), [0, 2], [0, 1], 3), ((3, 2), [], [], 2), ((3, 0), [1, 1], [0, 0], 1)],
    "SparseSegment.*Grad": [((2, 2), [0, 2], [0, 1], 3), ((2, 2), [], [], 3)],
    "InTopKV2": [((2, 3), [0, 2], 1), ((0, 3), [], 1), ((2, 3), [0, 2], 0)],
    "SpaceToBatchND": [((1, 2, 2, 1), [2, 2], [[0, 0], [0, 0]]), ((0, 2, 2, 1), [1, 2], [[0, 1], [0, 0]])],
    "BatchToSpaceND": [((4, 1, 1, 1), [2, 2], [[0, 0], [0, 0]]), ((0, 2, 2, 1), [1, 2], [[0, 1], [0, 0]])],
    "DepthToSpace": [((1, 2, 2, 4),), ((0, 2, 2, 4),)],
    "ImageSummary": [(b"t", (1, 2, 2, 3)), (b"t", (0, 2, 2, 1)), (b"t", (4, 1, 1, 4))],
    "AudioSummaryV2": [(b"t", (1, 4, 2), [8000.5]), (b"t", (0, 4), 1.0), (b"t", (2, 0, 1), 1.0)],
    "HistogramSummary": [(b"t", (2, 3)), (b"t", (0, 3))],
    "TensorSummaryV2": [(b"t", (2, 3), b""), (b"t", (0,), b"\n\x00")],
    "OneHot": [([0, 2, -1], 3, (), ()), ([], 3, (), ()), (1, 0, (), ())],
    "PadV2": [((2, 3), [[1, 0], [0, 1]], ()), ((0, 3), [[0, 0], [1, 1]], ()), ((), np.zeros((0, 2)), ())],
    "Pad|MirrorPad": [((2, 3), [[1, 0], [0, 1]]), ((0, 3), [[0, 0], [1, 1]]), ((), [])],
    "MirrorPadGrad": [((3, 3), [[1, 0], [0, 1]])],
    "ReverseSequence": [((2, 3), [1, 2]), ((0, 3), [])],
    "SparseToDense": [(_CORNERS, [2, 2], (2,), ()), ([1, 2], [4], (), ()), ([], [4], (0,), ()), (0, [2], (), ())],
    "SparseReorder": [(_CORNERS, (2,), [2, 2])],
    "SparseTensorDenseMatMul": [(_CORNERS, (2,), [2, 2], (2, 3)), ([[0, 0]], (1,), [1, 2], (2, 0))],
    "SparseTensorDenseAdd": [(_CORNERS, (2,), [2, 3], (2, 3))],
    "SparseAdd": [(_CORNERS, (2,), [2, 2], _CORNERS, (2,), [2, 2], ())],
    "SparseAddGrad": [((2,), _CORNERS, _CORNERS, _CORNERS)],
    "SerializeSparse|SerializeManySparse": [(_CORNERS, (2,), [2, 2])],
    "GatherNd": [((2, 3), [[1, 2]]), ((2, 3), [[1]]), ((2, 3), [[]]), ((0, 3), [[]]), ((2, 0), [])],
    "GatherV2": [((2, 3), [1, 0], 0), ((2, 3), [[2, 0]], 1), ((0, 3), [2, 0], 1), ((2, 0), [5], 0), ((3,), 1, 0)],
    "Slice": [((2, 3), [0, 1], [2, -1]), ((0, 3), [0, 0], [0, 2]), ((), [], [])],
    "Tile|BroadcastTo": [((1, 3), [2, 3]), ((0, 3), [0, 3]), ((), [])],
    "Range": [(0, 3, 1), (3, 0, -1), (0, 0, 1)],
}  # fmt: skip
