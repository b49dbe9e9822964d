"""Kernels of constants, shapes, slices, joins, gathers, segments, diagonals and strings: a table."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.base.shapes import TensorShape
from headrace.base.traits import ALIASES, KEEPS_REFS
from headrace.graph.registry import OPS
from headrace.ops.array import unique
from tests.ops.places import ops_of

F = np.float32
BF = ml_dtypes.bfloat16
NAN, INF = float("nan"), float("inf")


def f(*values: Any) -> Any:
    return np.array(values, F)


def i(*values: Any) -> Any:
    return np.array(values, np.int32)


def i64(*values: Any) -> Any:
    return np.array(values, np.int64)


def s(*values: Any) -> Any:
    return np.array(values, object)


def b(*values: Any) -> Any:
    return np.array(values, np.bool_)


M = f([1, 2], [3, 4])
N = np.int32
A, B = np.array(b"a", object), np.array(b"b", object)
T23 = np.arange(6, dtype=F).reshape(2, 3)
T34 = np.arange(12, dtype=F).reshape(3, 4)
INT32, INT64 = {"out_type": dtypes.int32}, {"out_type": dtypes.int64}
IDX32 = {"out_idx": dtypes.int32}
MASKS = dict.fromkeys(
    ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
)
AUTO = {"align": b"RIGHT_LEFT"}
PLAIN = {"precision": -1, "scientific": False, "shortest": False, "width": -1, "fill": b""}
INDEX = {"index_type": dtypes.int32}
STRICT = {"bad_indices_policy": b""}
F32 = {"T": dtypes.float32}

# (op, inputs, attrs, expected; a list for several outputs)
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    # constants
    ("Const", (), {"value": f(1, 2), "dtype": dtypes.float32}, f(1, 2)),
    ("Fill", (i(2, 1), F(7)), {}, f([7], [7])),
    ("Fill", (i(), A), {}, A),
    ("Fill", (i64(2), i(3)), {}, i(3, 3)),
    ("ZerosLike", (M,), {}, f([0, 0], [0, 0])),
    ("ZerosLike", (s(b"a"),), {}, s(b"")),
    ("OnesLike", (b(False),), {}, b(True)),
    ("OnesLike", (np.array([3], BF),), {}, np.array([1], BF)),
    ("PlaceholderWithDefault", (M,), {}, M),
    # passing on
    ("NoOp", (), {}, None),
    ("Identity", (M,), {}, M),
    ("RefIdentity", (M,), {}, M),
    ("IdentityN", (M, A), {}, [M, A]),
    ("StopGradient", (A,), {}, A),
    ("PreventGradient", (M,), {}, M),
    ("CheckNumerics", (M,), {"message": b"m"}, M),
    ("CheckNumericsV2", (M,), {"message": b"m"}, M),
    # shapes
    ("Shape", (T23,), INT32, i(2, 3)),
    ("Shape", (F(1),), INT64, i64()),
    ("ShapeN", (T23, f(1)), INT32, [i(2, 3), i(1)]),
    ("Size", (T23,), INT64, np.int64(6)),
    ("Rank", (T23,), {}, N(2)),
    ("Reshape", (T23, i(3, -1)), {}, f([0, 1], [2, 3], [4, 5])),
    ("Reshape", (f(5), i()), {}, F(5)),
    ("Reshape", (np.zeros((0, 3), F), i64(-1, 0)), {}, np.zeros((3, 0), F)),
    ("ExpandDims", (f(1, 2), N(-1)), {}, f([1], [2])),
    ("ExpandDims", (F(1), i(0)), {}, f(1)),
    ("Squeeze", (f([[1], [2]]),), {"squeeze_dims": []}, f(1, 2)),
    ("Squeeze", (f([[1], [2]]),), {"squeeze_dims": [-1]}, f([1, 2])),
    ("EnsureShape", (M,), {"shape": TensorShape([None, 2])}, M),
    ("Transpose", (T23, i(1, 0)), {}, f([0, 3], [1, 4], [2, 5])),
    ("Transpose", (s([b"a", b"b"]), i64(-1, 0)), {}, s([b"a"], [b"b"])),
    (
        "ConjugateTranspose", (np.array([[1 + 2j, 3]], np.complex64), i(1, 0)), {},
        np.array([[1 - 2j], [3]], np.complex64),
    ),
    ("ConjugateTranspose", (f([1, 2]), i(1, 0)), {}, f([1], [2])),
    ("InvertPermutation", (i64(2, 0, 1),), {}, i64(1, 2, 0)),
    ("BroadcastTo", (f([1], [2]), i(2, 2)), {}, f([1, 1], [2, 2])),
    ("BroadcastArgs", (i(2, 1), i(3)), {}, i(2, 3)),
    # repeating, padding, reversing
    ("Tile", (f([1, 2]), i(2, 2)), {}, f([1, 2, 1, 2], [1, 2, 1, 2])),
    ("Tile", (s(b"a"), i64(0)), {}, s()),
    ("Pad", (f([1, 2]), i([1, 0], [0, 1])), {}, f([0, 0, 0], [1, 2, 0])),
    ("Pad", (s(b"a"), i([1, 0])), {}, s(b"", b"a")),
    ("PadV2", (i(1), i64([1, 1]), N(9)), {}, i(9, 1, 9)),
    ("MirrorPad", (i(1, 2, 3), i([2, 1])), {"mode": b"REFLECT"}, i(3, 2, 1, 2, 3, 2)),
    ("MirrorPad", (i(1, 2, 3), i([2, 1])), {"mode": b"SYMMETRIC"}, i(2, 1, 1, 2, 3, 3)),
    ("MirrorPad", (s(b"a", b"b"), i([0, 1])), {"mode": b"SYMMETRIC"}, s(b"a", b"b", b"b")),
    ("MirrorPadGrad", (f(1, 2, 3, 4), i([1, 1])), {"mode": b"SYMMETRIC"}, f(3, 7)),
    ("MirrorPadGrad", (f(1, 2, 3, 4, 5), i([1, 1])), {"mode": b"REFLECT"}, f(2, 9, 4)),
    ("Reverse", (T23, b(False, True)), {}, f([2, 1, 0], [5, 4, 3])),
    ("ReverseV2", (T23, i(0)), {}, f([3, 4, 5], [0, 1, 2])),
    ("ReverseV2", (f([[1, 2], [3, 4]], [[5, 6], [7, 8]]), i(1)), {}, f([[3, 4], [1, 2]], [[7, 8], [5, 6]])),
    ("ReverseV2", (s([b"a", b"b"], [b"c", b"d"]), i(0)), {}, s([b"c", b"d"], [b"a", b"b"])),
    ("ReverseV2", (s(b"a", b"b"), i64(-1)), {}, s(b"b", b"a")),
    ("ReverseSequence", (T23, i64(2, 3)), {"seq_dim": 1, "batch_dim": 0}, f([1, 0, 2], [5, 4, 3])),
    # slicing
    ("StridedSlice", (T23, i(0, 2), i(2, 0), i(1, -1)), MASKS, f([2, 1], [5, 4])),
    ("StridedSlice", (T23, i(-1), i(0), i(1)), {**MASKS, "shrink_axis_mask": 1}, f(3, 4, 5)),
    ("StridedSlice", (T23, i(0, 1), i(0, 2), i(1, 1)), {**MASKS, "ellipsis_mask": 1, "shrink_axis_mask": 2}, f(1, 4)),
    ("StridedSlice", (f(1, 2), i(0), i(0), i(1)), {**MASKS, "new_axis_mask": 1}, f([1, 2])),
    ("StridedSlice", (f(1, 2), i(9), i(9), i(-1)), {**MASKS, "begin_mask": 1, "end_mask": 1}, f(2, 1)),
    ("StridedSlice", (s(b"a", b"b"), i(1), i(2), i(1)), {**MASKS, "shrink_axis_mask": 1}, B),
    ("StridedSliceGrad", (i(3), i(0), i(3), i(2), f(5, 6)), MASKS, f(5, 0, 6)),
    ("Slice", (T23, i(0, 1), i(-1, 2)), {}, f([1, 2], [4, 5])),
    ("Slice", (s(b"a", b"b"), i64(1), i64(1)), {}, s(b"b")),
    # joining
    ("ConcatV2", (M, f([5, 6]), N(0)), {}, f([1, 2], [3, 4], [5, 6])),
    ("ConcatV2", (s(b"a"), s(), np.int64(-1)), {}, s(b"a")),
    ("Concat", (N(1), M, M), {}, f([1, 2, 1, 2], [3, 4, 3, 4])),
    ("ConcatOffset", (N(1), i(2, 3), i(2, 4), i(2, 1)), {}, [i(0, 0), i(0, 3), i(0, 7)]),
    ("Split", (N(1), M), {"num_split": 2}, [f([1], [3]), f([2], [4])]),
    ("SplitV", (i(1, 2, 3), i64(-1, 1), N(0)), {"num_split": 2}, [i(1, 2), i(3)]),
    ("Pack", (f(1, 2), f(3, 4)), {"axis": -1}, f([1, 3], [2, 4])),
    ("Pack", (A, B), {"axis": 0}, s(b"a", b"b")),
    ("Unpack", (M,), {"num": 2, "axis": 1}, [f(1, 3), f(2, 4)]),
    ("Unpack", (s(b"a", b"b"),), {"num": 2, "axis": 0}, [A, B]),
    # gathering
    ("Gather", (M, i([1], [0])), {}, f([[3, 4]], [[1, 2]])),
    ("GatherV2", (T23, i(2, 0), N(-1)), {"batch_dims": 0}, f([2, 0], [5, 3])),
    ("GatherV2", (T23, i([2], [0]), N(1)), {"batch_dims": 1}, f([2], [3])),
    ("GatherV2", (T23, i([2], [0]), N(1)), {"batch_dims": -1}, f([2], [3])),
    ("GatherV2", (s(b"a", b"b"), np.int64(1), N(0)), {"batch_dims": 0}, B),
    ("GatherNd", (T23, i([1, 2], [0, 0])), STRICT, f(5, 0)),
    ("GatherNd", (T23, i([[1]])), STRICT, f([[3, 4, 5]])),
    ("GatherNd", (T23, i([9, 9], [0, 1])), {"bad_indices_policy": b"IGNORE"}, f(0, 1)),
    ("ScatterNd", (i([1], [1]), f(1, 2), i(3)), STRICT, f(0, 3, 0)),
    ("ScatterNd", (i([0], [9]), f(1, 2), i(2)), {"bad_indices_policy": b"IGNORE"}, f(1, 0)),
    ("ScatterNd", (i([0, 1]), s(b"a"), i(1, 2)), STRICT, s([b"", b"a"])),
    ("ScatterNd", (i([0], [0]), np.array([1, 2], BF), i(1)), STRICT, np.array([3], BF)),
    ("TensorScatterUpdate", (f(1, 2, 3), i([2], [0]), f(7, 8)), STRICT, f(8, 2, 7)),
    ("TensorScatterUpdate", (s(b"a", b"b"), i([1]), s(b"c")), STRICT, s(b"a", b"c")),
    ("TensorScatterAdd", (f(1, 2, 3), i([1], [1]), f(7, 8)), STRICT, f(1, 17, 3)),
    ("TensorScatterAdd", (f(1, 2), i([0], [9]), f(1, 2)), {"bad_indices_policy": b"IGNORE"}, f(2, 2)),
    ("TensorScatterAdd", (f(1), i([], []), f([1], [2])), STRICT, f(4)),
    ("ScatterNdNonAliasingAdd", (f(1, 2), i([1], [1]), f(1, 1)), STRICT, f(1, 4)),
    ("TensorScatterSub", (M, i([0, 1], [1, 0]), f(1, 2)), STRICT, f([1, 1], [1, 4])),
    ("TensorScatterMin", (M, i([1]), f([0, 9])), STRICT, f([1, 2], [0, 4])),
    ("TensorScatterMax", (M, i([1]), f([0, 9])), STRICT, f([1, 2], [3, 9])),
    ("Where", (f([1, 0], [0, 2]),), {}, i64([0, 0], [1, 1])),
    ("Where", (b(False, False),), {}, np.zeros((0, 1), np.int64)),
    ("OneHot", (i(1, -1), N(2), F(5), F(1)), {"axis": -1}, f([1, 5], [1, 1])),
    ("OneHot", (i64(1, 0), N(3), F(1), F(0)), {"axis": 0}, f([0, 1], [1, 0], [0, 0])),
    ("OneHot", (np.uint8(1), N(2), A, B), {"axis": -1}, s(b"b", b"a")),
    # segments
    ("SegmentSum", (f(1, 2, 3), i(0, 0, 2)), {}, f(3, 0, 3)),
    ("SegmentSum", (np.array([1, 2, 256], BF), i(0, 0, 0)), {}, np.array([260], BF)),
    ("SegmentMean", (f([1], [2], [4]), i(0, 0, 2)), {}, f([1.5], [0], [4])),
    ("SegmentMean", (i(1, 2), i64(0, 0)), {}, i(1)),
    ("SegmentMean", (i(-2, 1, -4, -3), i64(0, 0, 1, 1)), {}, i(0, -3)),
    ("SegmentProd", (f(2, 3, 4), i(0, 0, 2)), {}, f(6, 1, 4)),
    ("SegmentMax", (f(-1, -2, -3), i(0, 0, 2)), {}, f(-1, 0, -3)),
    ("SegmentMin", (i(1, 2, 3), i(0, 0, 2)), {}, i(1, 0, 3)),
    ("UnsortedSegmentSum", (f(1, 2, 3), i(1, -1, 1), N(3)), {}, f(0, 4, 0)),
    ("UnsortedSegmentSum", (f([1, 2], [3, 4]), i([0, 1], [1, 0]), N(2)), {}, f(5, 5)),
    ("UnsortedSegmentSum", (np.zeros((0, 2), F), i(), N(1)), {}, f([0, 0])),
    ("UnsortedSegmentProd", (i(2, 3), i64(1, 1), N(2)), {}, i(1, 6)),
    ("UnsortedSegmentMax", (i(2, 3), i(0, 0), N(2)), {}, i(3, -(2**31))),
    ("UnsortedSegmentMin", (f(2, 3), i(0, 0), N(2)), {}, f(2, np.finfo(F).max)),
    ("SparseSegmentSum", (M, i(0, 1, 1), i(0, 0, 2)), {}, f([4, 6], [0, 0], [3, 4])),
    ("SparseSegmentSumWithNumSegments", (M, i(1), i(0), N(2)), {}, f([3, 4], [0, 0])),
    ("SparseSegmentMean", (M, i(0, 1), i64(0, 0)), {}, f([2, 3])),
    ("SparseSegmentMeanWithNumSegments", (M, i(0, 1), i(0, 0), N(2)), {}, f([2, 3], [0, 0])),
    ("SparseSegmentSqrtN", (M, i(0, 0, 0, 0), i(0, 0, 0, 0)), {}, f([2, 4])),
    ("SparseSegmentSqrtNWithNumSegments", (M, i(1), i(0), N(1)), {}, f([3, 4])),
    ("SparseSegmentSumGrad", (M, i(0, 2, 0), i(0, 1, 1), N(3)), {}, f([4, 6], [0, 0], [3, 4])),
    ("SparseSegmentMeanGrad", (M, i(0, 2, 0), i(0, 1, 1), N(3)), {}, f([2.5, 4], [0, 0], [1.5, 2])),
    ("SparseSegmentSqrtNGrad", (f([2]), i(0, 1, 1, 1), i(0, 0, 0, 0), N(2)), {}, f([1], [3])),
    # distinct and largest
    ("Unique", (i(3, 1, 3),), IDX32, [i(3, 1), i(0, 1, 0)]),
    ("Unique", (s(b"b", b"a", b"b"),), {"out_idx": dtypes.int64}, [s(b"b", b"a"), i64(0, 1, 0)]),
    ("Unique", (f(NAN, NAN),), IDX32, [f(NAN, NAN), i(0, 1)]),
    ("Unique", (np.array([2, 1, 2], BF),), IDX32, [np.array([2, 1], BF), i(0, 1, 0)]),
    ("UniqueWithCounts", (i(3, 1, 3),), IDX32, [i(3, 1), i(0, 1, 0), i(2, 1)]),
    ("UniqueV2", (i([1, 2], [1, 2], [3, 4]), i(0)), IDX32, [i([1, 2], [3, 4]), i(0, 0, 1)]),
    ("UniqueV2", (i(5, 5), i64()), IDX32, [i(5), i(0, 0)]),
    ("UniqueWithCountsV2", (i([1, 1], [2, 2]), i64(1)), IDX32, [i([1], [2]), i(0, 0), i(2)]),
    ("ListDiff", (i(1, 2, 3, 2), i(2)), IDX32, [i(1, 3), i(0, 2)]),
    ("TopKV2", (f(1, 3, 3, 2), N(3)), INDEX, [f(3, 3, 2), i(1, 2, 3)]),
    (
        "TopKV2", (np.array([[0, 255]], np.uint8), np.int64(1)), {"index_type": dtypes.int64},
        [np.array([[255]], np.uint8), i64([1])],
    ),
    ("TopK", (i([1, 2], [4, 3]),), {"k": 1}, [i([2], [4]), i([1], [0])]),
    ("DynamicPartition", (f(1, 2, 3), i(1, 0, 1)), {"num_partitions": 3}, [f(2), f(1, 3), f()]),
    ("DynamicPartition", (M, i([0, 1], [1, 1])), {"num_partitions": 2}, [f(1), f(2, 3, 4)]),
    ("DynamicStitch", (i(0, 2), N(1), f([1], [2]), f(7)), {}, f([1], [7], [2])),
    ("DynamicStitch", (i(0), i(0), f(1), f(2)), {}, f(2)),
    ("DynamicStitch", (i(2), s(b"a")), {}, s(b"", b"", b"a")),
    ("ParallelDynamicStitch", (i(1), i(0), f(1), f(2)), {}, f(2, 1)),
    # diagonals
    ("MatrixDiagPart", (T34,), {}, f(0, 5, 10)),
    ("MatrixDiagPartV2", (T34, i(-1, 0), F(9)), {}, f([0, 5, 10], [4, 9, 9])),
    ("MatrixDiagPartV3", (T34, i(1), F(0)), AUTO, f(1, 6, 11)),
    ("MatrixDiagPartV3", (T34, i(-1, 2), F(9)), AUTO, f([9, 2, 7], [1, 6, 11], [0, 5, 10], [4, 9, 9])),
    ("MatrixDiagPartV3", (T34, i(-2, 0), F(9)), {"align": b"LEFT_RIGHT"}, f([0, 5, 10], [9, 4, 9], [9, 9, 8])),
    ("MatrixDiag", (f(1, 2),), {}, f([1, 0], [0, 2])),
    ("MatrixDiagV2", (f(1, 2), N(-1), N(-1), N(-1), F(0)), {}, f([0, 0, 0], [1, 0, 0], [0, 2, 0])),
    ("MatrixDiagV3", (f([0, 3], [1, 2]), i(0, 1), N(-1), N(-1), F(7)), AUTO, f([1, 3], [7, 2])),
    ("MatrixDiagV3", (f(1, 2), N(0), N(3), N(-1), F(0)), AUTO, f([1, 0], [0, 2], [0, 0])),
    ("MatrixSetDiag", (np.zeros((2, 3), F), f(7, 8)), {}, f([7, 0, 0], [0, 8, 0])),
    ("MatrixSetDiagV2", (np.zeros((2, 2), F), f(7), N(1)), {}, f([0, 7], [0, 0])),
    ("MatrixSetDiagV3", (np.zeros((2, 2), F), f([0, 3], [1, 2]), i(0, 1)), AUTO, f([1, 3], [0, 2])),
    ("MatrixBandPart", (M, N(0), N(-1)), {}, f([1, 2], [0, 4])),
    ("BatchMatrixBandPart", (M, np.int64(-1), np.int64(0)), {}, f([1, 0], [3, 4])),
    ("Diag", (f([1, 2]),), {}, f([[[1, 0]], [[0, 2]]])),
    ("DiagPart", (M,), {}, f(1, 4)),
    # strings
    ("StringJoin", (s(b"a", b"b"), A), {"separator": b"-"}, s(b"a-a", b"b-a")),
    ("StringJoin", (), {"separator": b""}, np.array(b"", object)),
    ("ReduceJoin", (s([b"a", b"b"], [b"c", b"d"]), i(0)), {"keep_dims": False, "separator": b"+"}, s(b"a+c", b"b+d")),
    ("ReduceJoin", (s([b"a", b"b"], [b"c", b"d"]), i(1, 0)), {"keep_dims": True, "separator": b""}, s([b"abcd"])),
    ("AsString", (f(1.5, NAN),), {**PLAIN, **F32}, s(b"1.500000", b"nan")),
    ("AsString", (b(True),), {**PLAIN, "T": dtypes.bool}, s(b"true")),
    ("AsString", (i(7),), {**PLAIN, "T": dtypes.int32, "width": 3, "fill": b"0"}, s(b"007")),
    (
        "AsString", (np.array([1 + 2j], np.complex64),), {**PLAIN, "T": dtypes.complex64, "precision": 1},
        s(b"(1.0,2.0)"),
    ),
    ("AsString", (A,), {**PLAIN, "T": dtypes.string, "width": 2}, np.array(b" a", object)),
    ("StringToNumber", (s(b" 1e3 ", b"0x1p4", b"-inf"),), {"out_type": dtypes.float32}, f(1000, 16, -INF)),
    ("StringToNumber", (np.array(b"-7", object),), {"out_type": dtypes.int64}, np.int64(-7)),
    ("StringLower", (s("ÄB".encode()),), {"encoding": b""}, s("Äb".encode())),
    ("StringLower", (s("ÄB".encode()),), {"encoding": b"utf-8"}, s("äb".encode())),
    ("StringUpper", (s("äb".encode()),), {"encoding": b"utf-8"}, s("ÄB".encode())),
    ("StringStrip", (s(b" a b\n"),), {}, s(b"a b")),
    ("StringLength", (s("äb".encode()),), {"unit": b"BYTE"}, i(3)),
    ("StringLength", (s("äb".encode()),), {"unit": b"UTF8_CHAR"}, i(2)),
    ("DecodeRaw", (s(b"\1\0\2\0"),), {"out_type": dtypes.int16, "little_endian": True}, np.array([[1, 2]], np.int16)),
    (
        "DecodeRaw", (s(b"\0\1\0\2"),), {"out_type": dtypes.uint16, "little_endian": False},
        np.array([[1, 2]], np.uint16),
    ),
    (
        "DecodePaddedRaw", (s(b"ab", b"cdef"), N(3)), {"out_type": dtypes.uint8, "little_endian": True},
        np.array([[97, 98, 0], [99, 100, 101]], np.uint8),
    ),
    ("Substr", (s(b"hello", b"hi"), N(-2), N(1)), {"unit": b"BYTE"}, s(b"l", b"h")),
    ("Substr", (np.array("äb".encode(), object), i(0, 1), i(1, 1)), {"unit": b"UTF8_CHAR"}, s("ä".encode(), b"b")),
    ("EncodeBase64", (s(b"h?>"),), {"pad": False}, s(b"aD8-")),
    ("EncodeBase64", (s(b"a"),), {"pad": True}, s(b"YQ==")),
    ("DecodeBase64", (s(b"aD8-", b"YQ", b"YQ=="),), {}, s(b"h?>", b"a", b"a")),
    (
        "RegexReplace", (s(b"aXbX"), np.array(b"X", object), np.array(rb"\0\0", object)), {"replace_global": False},
        s(b"aXXbX"),
    ),
    ("StaticRegexReplace", (s(b"aab"),), {"pattern": b"a*", "rewrite": b"x", "replace_global": True}, s(b"xbx")),
    (
        "StaticRegexReplace", (s("é1".encode()),),
        {"pattern": "(é)([[:digit:]])".encode(), "rewrite": rb"\2\1", "replace_global": True},
        s("1é".encode()),
    ),
    ("RegexFullMatch", (s(b"ab", b"abc"), np.array(b"a.", object)), {}, b(True, False)),
    ("StaticRegexFullMatch", (A,), {"pattern": b"[^b]"}, np.bool_(True)),
    (
        "StringSplit", (s(b"a,b", b"", b";c"), np.array(b",;", object)), {"skip_empty": True},
        [i64([0, 0], [0, 1], [2, 0]), s(b"a", b"b", b"c"), i64(3, 2)],
    ),
    (
        "StringSplitV2", (s(b"a--b", b"c"), np.array(b"--", object)), {"maxsplit": -1},
        [i64([0, 0], [0, 1], [1, 0]), s(b"a", b"b", b"c"), i64(2, 2)],
    ),
    (
        "StringFormat", (f(1, 2, 3, 4, 5), A), {"template": b"%s and %s", "placeholder": b"%s", "summarize": 2},
        np.array(b'[1 2 ... 4 5] and "a"', object),
    ),
    ("StringFormat", (), {"template": b"x", "placeholder": b"{}", "summarize": 3}, np.array(b"x", object)),
]  # fmt: skip

# (op, inputs, attrs, the error's text has)
ERRORS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("Fill", (i(-1), F(1)), {}, ">= 0"),
    ("Fill", (i([1]), F(1)), {}, "vector"),
    ("CheckNumerics", (f(NAN, INF),), {"message": b"my loss"}, "my loss : Tensor had Inf and NaN values"),
    ("Reshape", (T23, i(4)), {}, "6 values"),
    ("Reshape", (T23, i(-1, -1)), {}, "Only one input size may be -1, not both 0 and 1"),
    ("Reshape", (T23, i(-1, 4)), {}, "requires a multiple of 4"),
    ("ExpandDims", (f(1), N(3)), {}, "[-2, 2)"),
    ("Squeeze", (M,), {"squeeze_dims": [0]}, "Can not squeeze dim[0]"),
    ("EnsureShape", (M,), {"shape": TensorShape([3, None])}, "[2,2] is not compatible with expected shape [3,?]"),
    ("Transpose", (M, i(0, 0)), {}, "permutation"),
    ("InvertPermutation", (i(0, 0),), {}, "duplicated"),
    ("InvertPermutation", (i(2),), {}, "not between 0 and 1"),
    ("BroadcastTo", (M, i(3, 3)), {}, "Incompatible shapes: [2,2] vs. [3,3]"),
    ("Tile", (M, i(1)), {}, "length 2"),
    ("Pad", (M, i([0, 0])), {}, "must be the rank of inputs [1,2]; the input has rank 2"),
    ("PadV2", (f(1), i([0, -1]), F(0)), {}, "Paddings must be non-negative: 0 -1"),
    ("MirrorPad", (f(1, 2), i([2, 0])), {"mode": b"REFLECT"}, "must be less than the dimension size: 2, 0"),
    ("ReverseV2", (M, i(0, -2)), {}, "axis 0 specified more than once"),
    ("ReverseSequence", (T23, i(2, 4)), {"seq_dim": 1, "batch_dim": 0}, "between 0 and 3"),
    ("StridedSlice", (f(1), i(1), i(2), i(1)), {**MASKS, "shrink_axis_mask": 1}, "index 1 of dimension 0"),
    ("StridedSlice", (f(1), i(0), i(1), i(0)), MASKS, "strides[0]"),
    ("StridedSlice", (f(1), i(0, 0), i(1, 1), i(1, 1)), MASKS, "input has only 1 dims, and the index 2"),
    ("StridedSliceGrad", (i(3), i(0), i(2), i(1), f(1)), MASKS, "[1] instead of [2]"),
    ("Slice", (f(1, 2), i(1), i(2)), {}, "Expected size[0] in [0, 1]"),
    ("Slice", (f(1, 2), i(3), i(0)), {}, "Expected begin[0] in [0, 2]"),
    ("ConcatV2", (F(1), F(2), N(0)), {}, "tf.stack"),
    ("ConcatV2", (M, f([1, 2, 3]), N(0)), {}, "shape[0] = [2,2] vs. shape[1] = [1,3]"),
    ("ConcatV2", (M, f(1), N(0)), {}, "Ranks of all input tensors should match"),
    ("ConcatOffset", (N(0), i(1, 2), i(1, 3)), {}, "[1, 3]"),
    ("Split", (N(0), f(1, 2, 3)), {"num_split": 2}, "(size = 3) and num_split 2"),
    ("SplitV", (f(1, 2, 3), i(1, 1), N(0)), {"num_split": 2}, "add up to 3"),
    ("SplitV", (f(1, 2, 3), i(-1, -1), N(0)), {"num_split": 2}, "There can only be one -1"),
    ("Pack", (F(1), f(1)), {"axis": 0}, "values[1].shape = [1]"),
    ("Unpack", (f(1, 2),), {"num": 3, "axis": 0}, "axis 0 must equal 3, got shape [2]"),
    ("GatherV2", (M, i([0], [2]), N(0)), {"batch_dims": 0}, "indices[1,0] = 2 is not in [0, 2)"),
    ("GatherV2", (M, i(0), N(2)), {"batch_dims": 0}, "[-2, 2)"),
    ("GatherNd", (M, i([0, 5])), STRICT, "indices[0] = [0, 5] does not index into param shape [2,2]"),
    ("TensorScatterAdd", (f(1, 2), i([2]), f(1)), STRICT, "[2] does not index into shape [2]"),
    ("TensorScatterAdd", (f(1, 2), i([0, 0]), f(1)), STRICT, "number of axes"),
    ("TensorScatterAdd", (f(1, 2), i([0]), f(1, 2)), STRICT, "they must have shape [1] for indices"),
    ("ScatterNd", (i([7]), f(1), i(5)), STRICT, "indices[0] = [7] does not index into shape [5]"),
    ("ScatterNd", (i([0]), f([1, 2]), i(2)), STRICT, "must match dimensions [1,2) of updates[shape=[1,2]]"),
    ("Where", (b(True)[0],), {}, "scalar"),
    ("OneHot", (i(0), N(-1), F(1), F(0)), {"axis": -1}, "non-negative"),
    ("SegmentSum", (f(1, 2), i(1, 0)), {}, "not increasing"),
    ("SegmentSum", (f(1, 2), i(0)), {}, "[1] and [2]"),
    ("SegmentSum", (f(1, 2), i(-1, 0)), {}, "Segment id -1 out of range"),
    ("UnsortedSegmentSum", (f(1, 2), i(0, 3), N(3)), {}, "segment_ids[1] = 3 is out of range [0, 3)"),
    ("SparseSegmentSum", (M, i(5), i(0)), {}, "Bad: indices[0] == 5 out of range [0, 2)"),
    ("SparseSegmentSumWithNumSegments", (M, i(0), i(3), N(2)), {}, "num_segments, 2"),
    ("Unique", (M,), IDX32, "vector"),
    ("UniqueV2", (M, i()), IDX32, "one element"),
    ("TopKV2", (f(1, 2), N(3)), INDEX, "Had 2, needed 3"),
    ("DynamicPartition", (f(1), i(2)), {"num_partitions": 2}, "partitions[0] = 2 is not in [0, 2)"),
    ("DynamicStitch", (i(-1), f(1)), {}, "-1"),
    ("MatrixDiagPartV3", (T34, i(4), F(0)), AUTO, "between -3 and 4"),
    ("MatrixDiagPartV3", (T34, i(1, 0), F(0)), AUTO, "lower diagonal index 1"),
    ("MatrixDiagV3", (f(1, 2), N(0), N(1), N(-1), F(0)), AUTO, "num_rows 1 is too small"),
    ("MatrixSetDiag", (np.zeros((2, 3), F), f(1)), {}, "shape [2]"),
    ("MatrixBandPart", (M, N(3), N(0)), {}, "rows (2)"),
    ("DiagPart", (T23,), {}, "[2,3]: dimensions 0 and 1 do not match"),
    ("StringJoin", (s(b"a"), s(b"a", b"b")), {"separator": b""}, "[1] vs. [2]"),
    ("AsString", (i(1),), {**PLAIN, "T": dtypes.int32, "precision": 1}, "int32"),
    ("AsString", (f(1),), {**PLAIN, **F32, "fill": b"xx"}, "one character"),
    ("StringToNumber", (s(b"1_0"),), {"out_type": dtypes.float32}, "convert string: 1_0"),
    ("StringToNumber", (s(b"256000000000"),), {"out_type": dtypes.int32}, "int32"),
    ("DecodeRaw", (s(b"abc"),), {"out_type": dtypes.int16, "little_endian": True}, "length 3"),
    ("DecodeRaw", (s(b"ab", b"c"),), {"out_type": dtypes.uint8, "little_endian": True}, "element 1"),
    ("Substr", (s(b"ab"), N(3), N(1)), {"unit": b"BYTE"}, "pos 3"),
    ("DecodeBase64", (s(b"a+b"),), {}, "Invalid character"),
    ("DecodeBase64", (s(b"a"),), {}, "cannot be 1 modulo 4"),
    ("StaticRegexFullMatch", (A,), {"pattern": b"["}, "missing ]"),
    ("StaticRegexFullMatch", (A,), {"pattern": b"(?=a)"}, "invalid perl operator"),
    ("StaticRegexFullMatch", (A,), {"pattern": rb"(a)\1"}, "invalid escape sequence"),
    ("StringSplit", (A, B), {"skip_empty": True}, "vector"),
    ("StringFormat", (A,), {"template": b"x", "placeholder": b"{}", "summarize": 3}, "0 placeholders for 1"),
    ("PrintV2", (A,), {"output_stream": b"nowhere", "end": b""}, "nowhere"),
]  # fmt: skip

# Tested by sessions: a placeholder's error, writing, references.
WITH_STATE = {"Placeholder", "PlaceholderV2", "Print", "PrintV2", "StridedSliceAssign"}


def run(name: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    spec = OPS[name]
    assert spec.kernel is not None
    with np.errstate(all="ignore"):
        return spec.kernel(np, *inputs, **{key: attrs[key] for key in spec.kernel_attrs})


def check(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check(one, other)
        return
    if expected is None:
        assert found is None
        return
    assert isinstance(found, (np.ndarray, np.generic))
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind in "fcV":
        near = found.astype(np.complex128), expected.astype(np.complex128)
        np.testing.assert_allclose(*near, rtol=1e-6)
    else:
        assert found.tolist() == expected.tolist()


def labels(table: list[Any]) -> list[str]:
    return [f"{case[0]}-{number}" for number, case in enumerate(table)]


@pytest.mark.parametrize(("name", "inputs", "attrs", "expected"), CASES, ids=labels(CASES))
def test_a_kernel_gives(name: str, inputs: Any, attrs: Any, expected: Any) -> None:
    check(run(name, inputs, attrs), expected)


@pytest.mark.parametrize(("name", "inputs", "attrs", "text"), ERRORS, ids=labels(ERRORS))
def test_a_kernel_refuses(name: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(name, inputs, attrs)
    assert text in caught.value.message


@pytest.mark.parametrize(("name", "inputs", "attrs", "expected"), CASES, ids=labels(CASES))
def test_a_kernel_that_does_not_alias_gives_memory_of_its_own(
    name: str, inputs: Any, attrs: Any, expected: Any
) -> None:
    frozen = []
    for value in inputs:
        copy = np.array(value)
        copy.flags.writeable = False
        frozen.append(copy)
    found = run(name, tuple(frozen), attrs)
    check(found, expected)
    if OPS[name].traits.isdisjoint({ALIASES, KEEPS_REFS}) and found is not None:
        for part in found if isinstance(found, (list, tuple)) else [found]:
            assert not any(np.shares_memory(part, value) for value in frozen if value.size)


def test_every_op_of_these_families_has_a_case() -> None:
    ours = ops_of(
        (
            "linalg/bands",
            "array/broadcast",
            "array/constants",
            "linalg/diagonals",
            "flow/identities",
            "array/gathering",
            "array/joining",
            "array/packing",
            "array/padding",
            "array/tensor_scatter",
            "array/partitioning",
            "array/placeholders",
            "flow/printing",
            "string/regular_expressions",
            "math/segments",
            "array/permutations",
            "array/shapes",
            "array/slicing",
            "sparse/segments",
            "string/byte_strings",
            "string/strings",
            "string/splitting",
            "array/unique",
        )
    )
    assert ours - {case[0] for case in CASES} == WITH_STATE
    assert len(ours) > 100


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("most", [3, 40, 200])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_few_largest_are_those_of_sorted_rows(k: int, most: int, dtype: str) -> None:
    random, kind = np.random.default_rng(most), dtypes.as_dtype(dtype).np
    rows = (random.random((200, 3, 40)) * most).astype(kind)
    if dtypes.as_dtype(dtype).is_floating:
        rows[:10, 0, 7] = rows[:10, 0, 9] = np.nan
        rows[10:20, 1] = np.where(rows[10:20, 1] < 20, -np.inf, rows[10:20, 1])
    ways = []
    for each in rows:
        values, places = run("TopKV2", (each, np.int32(k)), INDEX)
        order = np.argsort(each[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
        assert places.tolist() == (39 - order).tolist()
        assert values.tobytes() == np.take_along_axis(each, places, -1).tobytes()
        ways.append(unique._few_places(each, k) is not None)
    assert any(ways) or most == 3 or dtype in ("bfloat16", "uint8")


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "bfloat16", "string"])
@pytest.mark.parametrize(
    "shape", [(64, 512), (100, 1024), (63, 512), (512, 65), (2, 2048), (0, 64)]
)
def test_matrices_of_any_size_are_turned_over(shape: tuple[int, int], dtype: str) -> None:
    kind = dtypes.as_dtype(dtype).np
    x = np.arange(math.prod(shape)).reshape(shape)
    x = x.astype("S").astype(object) if dtype == "string" else x.astype(kind)
    for each in (x, x[::-1], np.asfortranarray(x)):
        found = run("Transpose", (each, i(1, 0)), {})
        assert found.flags.c_contiguous
        assert found.shape == shape[::-1]
        assert (found == each.T).all()
        assert not np.shares_memory(found, each)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "bfloat16", "string"])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_large_one_hots_are_many_small_ones(axis: int, dtype: str) -> None:
    random, kind = np.random.default_rng(5), dtypes.as_dtype(dtype).np
    indices = random.integers(-3, 103, (40, 50)).astype(np.int32)
    given = (
        N(100),
        np.array(b"on" if dtype == "string" else 3, kind),
        np.array(b"" if dtype == "string" else 0, kind),
    )
    whole = run("OneHot", (indices, *given), {"axis": axis})
    rows = [run("OneHot", (row, *given), {"axis": -1}) for row in indices]
    wanted = np.moveaxis(np.stack(rows), 2, axis)
    assert whole.dtype == kind
    assert whole.shape == wanted.shape
    assert (whole == wanted).all()
    assert whole.flags.c_contiguous
