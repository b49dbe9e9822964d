"""Kernels of arithmetic, elementwise functions, comparisons, casts, reductions, scans, products: a table."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.graph.registry import OPS
from tests.ops.places import ops_of

F = np.float32
NAN, INF = math.nan, math.inf
BF = ml_dtypes.bfloat16
T, N = True, False
NO_AXIS = np.zeros(0, np.int32)


def f(*values: float) -> Any:
    return np.array(values, F)


def i(*values: int) -> Any:
    return np.array(values, np.int32)


def u(*values: int) -> Any:
    return np.array(values, np.uint8)


def b(*values: bool) -> Any:
    return np.array(values, np.bool_)


def c(*values: complex) -> Any:
    return np.array(values, np.complex64)


def s(*values: bytes) -> Any:
    return np.array(values, object)


M = np.array([[1, 2], [3, 4]], F)
KEEP, DROP = {"keep_dims": True}, {"keep_dims": False}
PLAIN = {"exclusive": False, "reverse": False}
FLAT = {"transpose_a": False, "transpose_b": False}
BATCH = {"adj_x": False, "adj_y": False}
STRICT = {"incompatible_shape_error": True}
LOOSE = {"incompatible_shape_error": False}
INDEX = {"output_type": dtypes.int64}
EYE = np.eye(2, dtype=F)

# (op, inputs, attrs, expected)
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    # arithmetic
    ("Add", (s(b"a", b"b"), np.array(b"c", object)), {}, s(b"ac", b"bc")),
    ("Add", (np.array(b"a", object), np.array(b"c", object)), {}, np.array(b"ac", object)),
    ("Add", (i(1, 2), i(3)), {}, i(4, 5)),
    ("AddV2", (u(250), u(10)), {}, u(4)),
    ("Sub", (f(1, 2), F(3)), {}, f(-2, -1)),
    ("Mul", (M, f(10, 100)), {}, np.array([[10, 200], [30, 400]], F)),
    ("MulNoNan", (f(NAN, 1, INF), f(0, 2, 0)), {}, f(0, 2, 0)),
    ("RealDiv", (f(1, -1, 0), f(0, 0, 0)), {}, f(INF, -INF, NAN)),
    ("Div", (i(5, -5, 7, -7), i(2, 2, -2, -2)), {}, i(2, -2, -3, 3)),
    ("Div", (f(5), f(2)), {}, f(2.5)),
    ("DivNoNan", (f(1, NAN, INF, 3), f(0, 0, 0, 2)), {}, f(0, 0, 0, 1.5)),
    ("TruncateDiv", (f(5, -5), f(3, 3)), {}, f(1, -1)),
    ("TruncateDiv", (i(-(2**31)), i(-1)), {}, i(-(2**31))),
    ("TruncateDiv", (u(255), u(2)), {}, u(127)),
    ("FloorDiv", (i(5, -5, 7, -7), i(2, 2, -2, -2)), {}, i(2, -3, -4, 3)),
    ("FloorDiv", (f(5, -5, 0, INF), f(0, 0, 0, 2)), {}, f(INF, -INF, NAN, INF)),
    ("FloorMod", (i(5, -5, 7, -7), i(2, 2, -2, -2)), {}, i(1, 1, -1, -1)),
    ("FloorMod", (f(5, -5, 5, -5, 5), f(3, 3, -3, -3, -INF)), {}, f(2, 1, -1, -2, -INF)),
    ("TruncateMod", (i(5, -5, 7, -7), i(2, 2, -2, -2)), {}, i(1, -1, 1, -1)),
    ("Mod", (f(5, -5, 5, -5), f(3, 3, -3, -3)), {}, f(2, -2, 2, -2)),
    ("Pow", (i(2, 3, -2), i(3, 0, 3)), {}, i(8, 1, -8)),
    ("Pow", (f(-2, 0, 0, 4), f(0.5, 0, -1, 0.5)), {}, f(NAN, 1, INF, 2)),
    ("Pow", (np.array([2, 100], np.int8), np.array([7, 2], np.int8)), {}, np.array([-128, 16], np.int8)),
    ("Maximum", (f(NAN, 1, 1), f(1, NAN, 2)), {}, f(NAN, NAN, 2)),
    ("Minimum", (f(NAN, 1, 1), f(1, NAN, 2)), {}, f(NAN, NAN, 1)),
    ("SquaredDifference", (c(1 + 2j), c(3 + 1j)), {}, c(5)),
    ("SquaredDifference", (i(1), i(4)), {}, i(9)),
    ("Neg", (i(1, -(2**31)),), {}, i(-1, -(2**31))),
    ("Abs", (i(-1, -(2**31)),), {}, i(1, -(2**31))),
    ("ComplexAbs", (c(3 + 4j),), {"Tout": dtypes.float32}, f(5)),
    ("Sign", (f(NAN, -0.0, 2, -3),), {}, f(NAN, 0, 1, -1)),
    ("Sign", (c(3 + 4j, 0),), {}, c(0.6 + 0.8j, 0)),
    ("Square", (i(-3),), {}, i(9)),
    ("AddN", (f(1, 2), f(3, 4), f(5, 6)), {}, f(9, 12)),
    ("AddN", (f(1, 2),), {}, f(1, 2)),
    ("AccumulateNV2", (f(1, 2), f(3, 4)), {}, f(4, 6)),
    ("BroadcastGradientArgs", (i(2, 1, 3), i(1, 3)), {}, (i(1), i(0, 1))),
    ("BroadcastGradientArgs", (i(2, 1, 3), i(2, 1, 3)), {}, (i(), i())),
    ("BroadcastGradientArgs", (i(1), i()), {}, (i(0), i(0))),
    # functions of one number
    ("Exp", (f(0, -INF, INF),), {}, f(1, 0, INF)),
    ("Expm1", (f(1e-7),), {}, f(1e-7)),
    ("Log", (f(1, 0, -1),), {}, f(0, -INF, NAN)),
    ("Log1p", (f(1e-7, -1),), {}, f(1e-7, -INF)),
    ("Sqrt", (f(4, -1),), {}, f(2, NAN)),
    ("Rsqrt", (f(4, 0, -1),), {}, f(0.5, INF, NAN)),
    ("Reciprocal", (f(4, 0),), {}, f(0.25, INF)),
    ("Inv", (c(2j),), {}, c(-0.5j)),
    ("Sigmoid", (f(-1000, 0, 1000),), {}, f(0, 0.5, 1)),
    ("Sin", (f(math.pi / 2),), {}, f(1)),
    ("Cos", (f(0),), {}, f(1)),
    ("Tan", (f(math.pi / 4),), {}, f(1)),
    ("Asin", (f(1, 2),), {}, f(math.pi / 2, NAN)),
    ("Acos", (f(1, -1),), {}, f(0, math.pi)),
    ("Atan", (f(INF),), {}, f(math.pi / 2)),
    ("Atan2", (f(1, 0), f(0, -1)), {}, f(math.pi / 2, math.pi)),
    ("Sinh", (f(1),), {}, f(math.sinh(1))),
    ("Cosh", (f(1),), {}, f(math.cosh(1))),
    ("Tanh", (f(1000, 0.5),), {}, f(1, math.tanh(0.5))),
    ("Asinh", (f(2),), {}, f(math.asinh(2))),
    ("Acosh", (f(2, 0.5),), {}, f(math.acosh(2), NAN)),
    ("Atanh", (f(0.5, 1),), {}, f(math.atanh(0.5), INF)),
    ("Floor", (f(-1.5),), {}, f(-2)),
    ("Ceil", (f(-1.5),), {}, f(-1)),
    ("Rint", (f(0.5, 1.5, 2.5),), {}, f(0, 2, 2)),
    ("Round", (f(0.5, 1.5, -2.5),), {}, f(0, 2, -2)),
    ("Round", (i(7),), {}, i(7)),
    ("IsNan", (f(NAN, INF, 1),), {}, b(T, N, N)),
    ("IsInf", (f(NAN, -INF, 1),), {}, b(N, T, N)),
    ("IsFinite", (f(NAN, INF, 1),), {}, b(N, N, T)),
    ("TanhGrad", (f(0.5), f(2)), {}, f(1.5)),
    ("SigmoidGrad", (f(0.25), f(2)), {}, f(0.375)),
    ("SqrtGrad", (f(0.5), f(2)), {}, f(2)),
    ("SqrtGrad", (c(1j), c(1)), {}, c(0.5j)),
    ("RsqrtGrad", (f(0.5), f(2)), {}, f(-0.125)),
    ("ReciprocalGrad", (f(0.5), f(2)), {}, f(-0.5)),
    ("InvGrad", (f(0.5), f(2)), {}, f(-0.5)),
    ("Xlogy", (f(0, 2), f(0, math.e)), {}, f(0, 2)),
    ("Xlog1py", (f(0, 2), f(-1, math.e - 1)), {}, f(0, 2)),
    ("Xdivy", (f(0, 2), f(0, 4)), {}, f(0, 0.5)),
    ("NextAfter", (f(1), f(2)), {}, f(1 + 2**-23)),
    # special functions
    ("Erf", (f(0, 0.5, INF),), {}, f(0, math.erf(0.5), 1)),
    ("Erfc", (f(0, 10),), {}, f(1, math.erfc(10))),
    ("Erfinv", (f(-1, 0, math.erf(0.3), math.erf(2.0), 1, 2),), {}, f(-INF, 0, 0.3, 2.0, INF, NAN)),
    ("Ndtri", (f(0, 0.5, 0.975, 1, 1.5),), {}, f(-INF, 0, 1.959964, INF, NAN)),
    ("Lgamma", (f(0, -1, 0.5, -0.5, 171, -INF),), {}, f(INF, INF, 0.5723649, 1.2655121, 706.57306, INF)),
    ("Digamma", (f(0, -1, 1, 0.5, -0.5),), {}, f(NAN, NAN, -0.5772157, -1.9635100, 0.03648998)),
    ("Polygamma", (f(0, 1, 2, 0.5), f(1, 1, 1, 1)), {}, f(-0.5772157, math.pi**2 / 6, -2.4041138, NAN)),
    ("Zeta", (f(2, 4, 1, 0.5, 2), f(1, 1, 1, 1, -1)), {}, f(math.pi**2 / 6, math.pi**4 / 90, INF, NAN, INF)),
    # bits
    ("BitwiseAnd", (i(12), i(10)), {}, i(8)),
    ("BitwiseOr", (i(12), i(10)), {}, i(14)),
    ("BitwiseXor", (i(12), i(10)), {}, i(6)),
    ("Invert", (u(1),), {}, u(254)),
    ("LeftShift", (u(1, 1), u(3, 200)), {}, u(8, 128)),
    ("RightShift", (i(-8, -8), i(1, 100)), {}, i(-4, -1)),
    ("PopulationCount", (np.array([-1, 5], np.int8),), {}, u(8, 2)),
    # comparisons
    ("Less", (f(1, NAN), f(2, 1)), {}, b(T, N)),
    ("LessEqual", (i(1, 2), i(1, 1)), {}, b(T, N)),
    ("Greater", (i(1, 2), i(1, 1)), {}, b(N, T)),
    ("GreaterEqual", (i(1, 0), i(1, 1)), {}, b(T, N)),
    ("Equal", (s(b"a", b"b"), s(b"a", b"c")), STRICT, b(T, N)),
    ("Equal", (f(NAN), f(NAN)), STRICT, b(N)),
    ("Equal", (i(1, 2), i(1, 2, 3)), LOOSE, np.bool_(False)),
    ("NotEqual", (i(1, 2), i(1, 2, 3)), LOOSE, np.bool_(True)),
    ("NotEqual", (s(b"a", b"b"), s(b"a", b"c")), STRICT, b(N, T)),
    ("ApproximateEqual", (f(1, 1), f(1.000001, 1.1)), {"tolerance": 1e-5}, b(T, N)),
    ("ApproximateEqual", (u(3, 9), u(4, 3)), {"tolerance": 2.0}, b(T, N)),
    ("LogicalAnd", (b(T, N), b(T, T)), {}, b(T, N)),
    ("LogicalOr", (b(T, N), b(N, N)), {}, b(T, N)),
    ("LogicalNot", (b(T, N),), {}, b(N, T)),
    ("Select", (b(T, N), M, -M), {}, np.array([[1, 2], [-3, -4]], F)),
    ("Select", (np.bool_(False), M, -M), {}, -M),
    ("Select", (b(T, N), s(b"a", b"b"), s(b"c", b"d")), {}, s(b"a", b"d")),
    ("SelectV2", (b(T, N), M, F(0)), {}, np.array([[1, 0], [3, 0]], F)),
    # casts
    ("Cast", (f(1.9, -1.9, NAN),), {"DstT": dtypes.int32, "Truncate": False}, i(1, -1, -(2**31))),
    ("Cast", (f(1.9, -1.9, 300, NAN),), {"DstT": dtypes.uint8, "Truncate": False}, u(1, 255, 44, 0)),
    ("Cast", (f(-3, 5e9),), {"DstT": dtypes.uint32, "Truncate": False}, np.array([4294967293, 705032704], np.uint32)),
    ("Cast", (c(1 + 2j, 2j),), {"DstT": dtypes.bool, "Truncate": False}, b(T, N)),
    ("Cast", (c(1 + 2j),), {"DstT": dtypes.float32, "Truncate": False}, f(1)),
    ("Cast", (b(T, N),), {"DstT": dtypes.float32, "Truncate": False}, f(1, 0)),
    ("Cast", (f(1.999999),), {"DstT": dtypes.bfloat16, "Truncate": False}, np.array([2], BF)),
    (
        "Cast", (f(1.999999, -1.999999),), {"DstT": dtypes.bfloat16, "Truncate": True},
        np.array([1.9921875, -1.9921875], BF),
    ),
    ("Cast", (np.array([2.5], BF),), {"DstT": dtypes.int32, "Truncate": False}, i(2)),
    ("Bitcast", (f(1, 2),), {"type": dtypes.int32}, i(1065353216, 1073741824)),
    ("Bitcast", (np.array([[1, 2], [3, 4]], np.int32),), {"type": dtypes.int64}, np.array([8589934593, 17179869187])),
    ("Bitcast", (f(1),), {"type": dtypes.uint8}, np.array([[0, 0, 128, 63]], np.uint8)),
    ("Complex", (f(1, 2), F(3)), {"Tout": dtypes.complex64}, c(1 + 3j, 2 + 3j)),
    ("Real", (c(1 + 2j),), {"Tout": dtypes.float32}, f(1)),
    ("Imag", (c(1 + 2j),), {"Tout": dtypes.float32}, f(2)),
    ("Angle", (c(-1, 1j),), {"Tout": dtypes.float32}, f(math.pi, math.pi / 2)),
    ("Conj", (c(1 + 2j),), {}, c(1 - 2j)),
    # reductions
    ("Sum", (M, i(0)), DROP, f(4, 6)),
    ("Sum", (M, i(-1)), KEEP, np.array([[3], [7]], F)),
    ("Sum", (M, np.int32(1)), DROP, f(3, 7)),
    ("Sum", (M, NO_AXIS), DROP, M),
    ("Sum", (np.array([100, 100], np.int8), i(0)), DROP, np.int8(-56)),
    ("Sum", (i(1, 2), np.array([0], np.int64)), DROP, np.int32(3)),
    ("Sum", (np.ones(5000, BF), i(0)), DROP, BF(4992)),
    ("Mean", (i(-1, -2), i(0)), DROP, np.int32(-1)),
    ("Mean", (u(200, 101), i(0)), DROP, np.uint8(150)),
    ("Mean", (f(), i(0)), DROP, F(NAN)),
    ("Mean", (i(), i(0)), DROP, np.int32(0)),
    ("Mean", (np.full(5000, 100, np.float16), i(0)), DROP, np.float16(100)),
    ("Mean", (c(1 + 2j, 3), i(0)), DROP, np.complex64(2 + 1j)),
    ("Prod", (M, i(0, 1)), DROP, F(24)),
    ("Prod", (f(), i(0)), DROP, F(1)),
    ("Max", (f(1, NAN, 3), i(0)), DROP, F(NAN)),
    ("Max", (i(), i(0)), DROP, np.int32(-(2**31))),
    ("Max", (M, i(1)), KEEP, np.array([[2], [4]], F)),
    ("Min", (f(), i(0)), DROP, F(INF)),
    ("Min", (M, i(0)), DROP, f(1, 2)),
    ("All", (b(T, N), i(0)), DROP, np.bool_(False)),
    ("All", (b(), i(0)), DROP, np.bool_(True)),
    ("Any", (b(T, N), i(0)), DROP, np.bool_(True)),
    ("EuclideanNorm", (f(3, 4), i(0)), DROP, F(5)),
    ("EuclideanNorm", (i(1, 1), i(0)), DROP, np.int32(1)),
    ("EuclideanNorm", (c(3 + 4j), i(0)), KEEP, c(5)),
    # scans and indices
    ("Cumsum", (f(1, 2, 3), np.int32(0)), PLAIN, f(1, 3, 6)),
    ("Cumsum", (f(1, INF, 2), np.int32(0)), {"exclusive": True, "reverse": False}, f(0, 1, INF)),
    ("Cumsum", (M, np.int32(-1)), {"exclusive": False, "reverse": True}, np.array([[3, 2], [7, 4]], F)),
    ("Cumprod", (i(1, 2, 3), np.int32(0)), {"exclusive": True, "reverse": True}, i(6, 3, 1)),
    ("CumulativeLogsumexp", (f(1, 2), np.int32(0)), PLAIN, f(1, 2.3132617)),
    ("CumulativeLogsumexp", (f(1, 2), np.int32(0)), {"exclusive": True, "reverse": False}, f(-INF, 1)),
    ("ArgMax", (f(1, 3, 3), np.int32(0)), INDEX, np.int64(1)),
    ("ArgMax", (f(1, NAN, 3), np.int32(0)), INDEX, np.int64(2)),
    ("ArgMax", (M, np.int32(-1)), {"output_type": dtypes.int32}, i(1, 1)),
    ("ArgMax", (b(N, T), np.int32(0)), INDEX, np.int64(1)),
    ("ArgMin", (f(1, NAN, 0), np.int32(0)), INDEX, np.int64(2)),
    # products
    ("MatMul", (M, M), FLAT, np.array([[7, 10], [15, 22]], F)),
    ("MatMul", (f(1, 2).reshape(2, 1), M), {"transpose_a": True, "transpose_b": False}, np.array([[7, 10]], F)),
    ("MatMul", (M, M), {"transpose_a": True, "transpose_b": True}, np.array([[7, 15], [10, 22]], F)),
    ("MatMul", (np.zeros((2, 0), F), np.zeros((0, 3), F)), FLAT, np.zeros((2, 3), F)),
    ("MatMul", (M.astype(BF), M.astype(BF)), FLAT, np.array([[7, 10], [15, 22]], BF)),
    ("MatMul", (np.array([[200]], np.uint8), np.array([[2]], np.uint8)), FLAT, np.array([[144]], np.uint8)),
    ("SparseMatMul", (M.astype(BF), EYE), FLAT, M),
    ("BatchMatMul", (M[None], M[None]), BATCH, np.array([[[7, 10], [15, 22]]], F)),
    ("BatchMatMulV2", (np.stack([M, EYE]), M), BATCH, np.array([[[7, 10], [15, 22]], M], F)),
    ("BatchMatMulV2", (c(1j)[None], c(1)[None]), {"adj_x": True, "adj_y": False}, c(-1j)[None]),
    (
        "BatchMatMulV3", (np.array([[100]], np.int8), np.array([[100]], np.int8)),
        {**BATCH, "Tout": dtypes.int32}, np.array([[10000]], np.int32),
    ),
    ("MatrixInverse", (np.array([[2, 0], [1, 4]], F),), {"adjoint": False}, np.array([[0.5, 0], [-0.125, 0.25]], F)),
    ("MatrixInverse", (np.array([[2, 0], [1, 4]], F),), {"adjoint": True}, np.array([[0.5, -0.125], [0, 0.25]], F)),
    # ranges, clipping
    ("Range", (np.int32(1), np.int32(6), np.int32(2)), {}, i(1, 3, 5)),
    ("Range", (np.int32(5), np.int32(0), np.int32(-2)), {}, i(5, 3, 1)),
    ("Range", (F(0), F(1), F(0.25)), {}, f(0, 0.25, 0.5, 0.75)),
    ("LinSpace", (F(0), F(1), np.int32(5)), {}, f(0, 0.25, 0.5, 0.75, 1)),
    ("LinSpace", (F(3), F(1), np.int32(1)), {}, f(3)),
    ("ClipByValue", (f(1, 5, -2), F(0), F(2)), {}, f(1, 2, 0)),
]  # fmt: skip

# (op, inputs, attrs, the error's text has)
ERRORS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("FloorDiv", (i(5), i(0)), {}, "division by zero"),
    ("FloorMod", (i(5), i(0)), {}, "division by zero"),
    ("TruncateMod", (i(5), i(0)), {}, "division by zero"),
    ("TruncateDiv", (u(5), u(0)), {}, "division by zero"),
    ("Div", (i(5), i(0)), {}, "division by zero"),
    ("FloorDiv", (c(1), c(1)), {}, "no order"),
    ("RealDiv", (i(1), i(2)), {}, "tf.truediv"),
    ("Reciprocal", (i(1),), {}, "int32"),
    ("Pow", (i(2), i(-1)), {}, "negative"),
    ("AddN", (f(1, 2), f(1)), {}, "Input 0: [2] != input 1: [1]"),
    ("BroadcastGradientArgs", (i(2, 3), i(4)), {}, "do not broadcast"),
    ("TanhGrad", (f(1, 2), f(1)), {}, "[2] and [1]"),
    ("ApproximateEqual", (f(1, 2), f(1)), {"tolerance": 1e-5}, "[2] and [1]"),
    ("Select", (b(T, N, T), M, M), {}, "[3]"),
    ("Select", (b(T), M, f(1)), {}, "[2,2] and [1]"),
    ("Cast", (s(b"1"),), {"DstT": dtypes.float32, "Truncate": False}, "tf.string_to_number"),
    ("Bitcast", (i(1, 2, 3),), {"type": dtypes.int64}, "must be 2"),
    ("Sum", (M, i(2)), DROP, "[-2, 2)"),
    ("Sum", (M, i(0, -2)), DROP, "distinct"),
    ("Cumsum", (f(1), np.int32(1)), PLAIN, "[-1, 1)"),
    ("Cumsum", (F(1), np.int32(0)), PLAIN, "scalar"),
    ("ArgMax", (M, np.int32(2)), INDEX, "[-2, 2)"),
    ("ArgMax", (np.zeros((0, 3), F), np.int32(0)), INDEX, "Reduction axis 0 is empty"),
    ("MatMul", (M, np.ones((3, 2), F)), FLAT, "In[0]: [2,2], In[1]: [3,2]: the inner dimensions, 2 and 3"),
    ("MatMul", (f(1), M), FLAT, "In[0] is not a matrix"),
    ("BatchMatMul", (M[None], np.stack([M, M])), BATCH, "leading dimensions"),
    ("BatchMatMulV2", (f(1), M), BATCH, "In[0] ndims must be >= 2: 1"),
    ("BatchMatMulV2", (M, np.ones((3, 2), F)), BATCH, "inner dimensions"),
    ("MatrixInverse", (np.ones((2, 2), F),), {"adjoint": False}, "not invertible"),
    ("MatrixInverse", (np.ones((2, 3), F),), {"adjoint": False}, "square"),
    ("Range", (np.int32(0), np.int32(5), np.int32(0)), {}, "Requires delta != 0"),
    ("Range", (np.int32(0), np.int32(5), np.int32(-1)), {}, "Requires start >= limit when delta < 0"),
    ("LinSpace", (F(0), F(1), np.int32(0)), {}, "must be > 0"),
    ("ClipByValue", (M, f(0), F(1)), {}, "clip_value_min"),
]  # fmt: skip


def run(name: str, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    spec = OPS[name]
    assert spec.kernel is not None
    given = {key: attrs[key] for key in spec.kernel_attrs}
    with np.errstate(all="ignore"):
        return spec.kernel(np, *inputs, **given)


def check(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check(one, other)
        return
    assert isinstance(found, (np.ndarray, np.generic))
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind in "fcV":
        near = found.astype(np.complex128), expected.astype(np.complex128)
        np.testing.assert_allclose(*near, rtol=2e-6, atol=1e-7)
    else:
        assert found.tolist() == expected.tolist()


def labels(table: list[Any]) -> list[str]:
    return [f"{case[0]}-{number}" for number, case in enumerate(table)]


@pytest.mark.parametrize(("name", "inputs", "attrs", "expected"), CASES, ids=labels(CASES))
def test_a_kernel_gives(name: str, inputs: Any, attrs: Any, expected: Any) -> None:
    check(run(name, inputs, attrs), expected)


@pytest.mark.parametrize(("name", "inputs", "attrs", "text"), ERRORS, ids=labels(ERRORS))
def test_a_kernel_refuses(name: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.UnimplementedError)) as caught:
        run(name, inputs, attrs)
    assert text in caught.value.message


@pytest.mark.parametrize(("name", "inputs", "attrs", "expected"), CASES, ids=labels(CASES))
def test_a_kernel_leaves_its_inputs_alone(
    name: str, inputs: Any, attrs: Any, expected: Any
) -> None:
    frozen = []
    for value in inputs:
        copy = np.array(value)
        copy.flags.writeable = False
        frozen.append(copy)
    check(run(name, tuple(frozen), attrs), expected)


def test_every_op_of_these_families_has_a_case() -> None:
    ours = ops_of(
        (
            "math/arithmetic",
            "math/bitwise",
            "math/broadcasting",
            "math/casting",
            "math/clipping",
            "math/comparisons",
            "math/elementwise",
            "math/zero_products",
            "linalg/products",
            "array/ranges",
            "math/reductions",
            "math/scans",
            "math/special",
            "math/sums",
        )
    )
    assert ours - {case[0] for case in CASES} == set()
    assert len(ours) > 100


@pytest.mark.parametrize("count", [1, 2, 7, 10, 1000])
def test_digamma_obeys_its_recurrence(count: int) -> None:
    x = np.linspace(0.1, 20, count)
    step = run("Digamma", (x + 1,), {}) - run("Digamma", (x,), {})
    np.testing.assert_allclose(step, 1 / x, rtol=1e-12, atol=1e-14)


def test_erfinv_inverts_erf_to_the_last_digits() -> None:
    x = np.concatenate([-np.logspace(-300, 0.7, 200), np.logspace(-300, 0.7, 200)])
    back = run("Erfinv", (run("Erf", (x,), {}),), {})
    # Near ±1 erf is flat: what it rounds away cannot come back.
    lost = np.finfo(np.float64).eps / np.maximum(1e-300, np.exp(-x * x))
    assert np.all(np.abs(back - x) <= 4e-16 * np.abs(x) + lost)


@pytest.mark.parametrize("given", [np.array([-0.0, 2.0], np.float32), np.array(-0.0, np.float32)])
def test_a_sum_along_no_axis_is_what_it_was_given_with_the_sign_of_zero(given: Any) -> None:
    kernel = OPS["Sum"].kernel
    assert kernel is not None
    found = kernel(np, given, np.empty(0, np.int32), keep_dims=False)
    assert np.signbit(found).tolist() == np.signbit(given).tolist()
    assert not np.may_share_memory(found, given)
