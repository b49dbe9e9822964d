"""Every gradient of the math families, against differences: with shapes known, and with none known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace.ops  # noqa: F401  registers every op
from headrace.base import dtypes
from headrace.client.session import Session
from headrace.graph.gradients import gradients
from headrace.graph.graph import Graph
from headrace.graph.registry import OPS, get
from headrace.library.tensordot import tensordot
from headrace.ops.array.placeholders import placeholder
from headrace.ops.linalg import products as linear
from headrace.ops.linalg.products import matmul, matrix_inverse
from headrace.ops.math.arithmetic import (
    div_no_nan,
    floormod,
    maximum,
    minimum,
    multiply_no_nan,
    squared_difference,
)
from headrace.ops.math.casting import cast, conj
from headrace.ops.math.reductions import norm, reduce_logsumexp
from headrace.ops.math.scans import cumprod, cumsum, cumulative_logsumexp
from tests.ops.places import ops_of

R23 = np.array([[0.3, -0.6, 1.7], [0.9, 0.2, -1.1]])
P23 = np.array([[1.3, 0.6, 2.7], [0.9, 1.2, 3.1]])
P3 = np.array([0.7, 1.9, 2.3])
R3 = np.array([-0.4, 0.8, 1.5])
UNIT = np.array([0.3, -0.6, 0.7])
C3 = np.array([0.3 + 1j, -0.6 - 0.2j, 0.7 + 0.5j])
D3 = np.array([1.2 - 0.4j, 0.5 + 0.9j, -0.8 + 0.3j])
M33 = np.array([[2.0, 0.3, -0.4], [0.1, 1.5, 0.2], [-0.3, 0.4, 1.8]])
B233 = np.stack([M33, M33.T + 0.5])
CHOOSE = np.array([[True, False, True], [False, True, False]])
Function = Callable[..., Any]


def op(name: str, **attrs: Any) -> Function:
    return lambda *inputs: get(name)(*inputs, **attrs)


def listed(name: str, **attrs: Any) -> Function:
    return lambda *inputs: get(name)(list(inputs), **attrs)


# (function, inputs)
GRADIENT_CASES: dict[str, tuple[Function, list[Any]]] = {
    "Add": (op("Add"), [R23, R3]),
    "x + y": (lambda x, y: x + y, [R23, R3]),
    "x + y, rows and columns": (lambda x, y: x + y, [R3[None], R3[:2, None]]),
    "x + y, ranks differ by ones": (lambda x, y: x + y, [R3[None], R3]),
    "x - y": (lambda x, y: x - y, [R3, R23]),
    "x * y": (lambda x, y: x * y, [R23, R3]),
    "x * y of one shape": (lambda x, y: x * y, [R23, P23]),
    "complex x * y": (lambda x, y: x * y, [C3, D3]),
    "x / y": (lambda x, y: x / y, [R23, P3]),
    "complex x / y": (lambda x, y: x / y, [C3, D3]),
    "Div": (op("Div"), [R23, P3]),
    "div_no_nan": (div_no_nan, [R23, P3]),
    "multiply_no_nan": (multiply_no_nan, [R23, P3]),
    "x % y": (floormod, [P23, np.array([0.8, 0.7, 0.85])]),
    "x ** y": (lambda x, y: x**y, [P23, R3]),
    "complex x ** y": (lambda x, y: x**y, [C3, D3]),
    "maximum": (maximum, [R23, R3]),
    "minimum": (minimum, [R23, R3]),
    "squared_difference": (squared_difference, [R23, R3]),
    "neg": (lambda x: -x, [R3]),
    "abs": (lambda x: abs(x), [R3]),
    "complex abs": (lambda x: abs(x), [C3]),
    "sign": (op("Sign"), [R3]),
    "square": (op("Square"), [R3]),
    "complex square": (op("Square"), [C3]),
    "AddN": (listed("AddN"), [R3, P3, UNIT]),
    "AccumulateNV2": (listed("AccumulateNV2", shape=[3]), [R3, P3]),
    "Atan2": (op("Atan2"), [R23, P3]),
    "Xlogy": (op("Xlogy"), [R23, P3]),
    "Xlog1py": (op("Xlog1py"), [R23, P3]),
    "Xdivy": (op("Xdivy"), [R23, P3]),
    "TanhGrad": (op("TanhGrad"), [UNIT, R3]),
    "SigmoidGrad": (op("SigmoidGrad"), [UNIT, R3]),
    "SqrtGrad": (op("SqrtGrad"), [P3, R3]),
    "RsqrtGrad": (op("RsqrtGrad"), [P3, R3]),
    "ReciprocalGrad": (op("ReciprocalGrad"), [P3, R3]),
    "InvGrad": (op("InvGrad"), [P3, R3]),
    "Polygamma": (lambda x: get("Polygamma")(np.array([1.0, 2.0, 3.0]), x), [P3]),
    "Zeta": (lambda q: get("Zeta")(np.array([2.0, 3.5, 4.0]), q), [P3]),
    "Select": (lambda t, e: get("Select")(CHOOSE, t, e), [R23, P23]),
    "Select rows": (lambda t, e: get("Select")(CHOOSE[0, :2], t, e), [R23, P23]),
    "SelectV2": (lambda t, e: get("SelectV2")(CHOOSE, t, e), [R3, P23]),
    "cast there and back": (lambda x: cast(cast(x, dtypes.complex128), dtypes.float64), [R3]),
    "Complex": (op("Complex", Tout=dtypes.complex128), [R23, R3]),
    "Real": (op("Real", Tout=dtypes.float64), [C3]),
    "Imag": (op("Imag", Tout=dtypes.float64), [C3]),
    "Angle": (op("Angle", Tout=dtypes.float64), [C3]),
    "Conj": (conj, [C3]),
    "reduce_logsumexp": (lambda x: reduce_logsumexp(x, 1), [R23]),
    "norm": (lambda x: norm(x, axis=1), [R23]),
    "3-norm": (lambda x: norm(x, 3, 0), [R23]),
    "product of zeros": (lambda x: get("Prod")(x, [1]), [np.array([[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]])]),
    "cumsum": (lambda x: cumsum(x, 1, exclusive=True), [R23]),
    "cumsum from the end": (lambda x: cumsum(x, -1, reverse=True), [R23]),
    "cumprod": (lambda x: cumprod(x, 1), [R23]),
    "cumprod, exclusive, from the end": (lambda x: cumprod(x, 0, True, True), [R23]),
    "cumulative_logsumexp": (lambda x: cumulative_logsumexp(x, 1), [R23]),
    "matrix_inverse": (matrix_inverse, [M33]),
    "matrix_inverse of adjoints": (lambda x: matrix_inverse(x, adjoint=True), [B233]),
    "ClipByValue": (op("ClipByValue"), [R23, np.float64(-0.5), np.float64(0.8)]),
    "ClipByValue by tensors": (op("ClipByValue"), [R23, R23 - 0.1, R23 + 0.1]),
    "tensordot": (lambda a, b: tensordot(a, b, [[1, 2], [1, 0]]), [B233, M33]),
    "trace": (linear.trace, [B233]),
}  # fmt: skip
for _name in "Exp Expm1 Sin Cos Tan Sinh Cosh Tanh Asinh Atan Sigmoid Square Erf Erfc".split():
    GRADIENT_CASES[_name] = (op(_name), [R3])
for _name in "Log Log1p Sqrt Rsqrt Reciprocal Inv Lgamma Digamma".split():
    GRADIENT_CASES[_name] = (op(_name), [P3])
for _name in "Asin Acos Atanh Erfinv".split():
    GRADIENT_CASES[_name] = (op(_name), [UNIT])
GRADIENT_CASES["Acosh"] = (op("Acosh"), [P3 + 1])
GRADIENT_CASES["Ndtri"] = (op("Ndtri"), [np.array([0.2, 0.5, 0.9])])
for _name in "Exp Log Sqrt Rsqrt Reciprocal Sin Tan Tanh Sigmoid Asin Acosh Log1p".split():
    GRADIENT_CASES[f"complex {_name}"] = (op(_name), [C3])
for _name in "Sum Mean Prod Max Min EuclideanNorm".split():
    for _axes in ([0], [1], [0, 1], [-1], []):
        for _keep in (False, True):
            GRADIENT_CASES[f"{_name} {_axes} {_keep}"] = (
                lambda x, spec=_name, axes=_axes, keep=_keep: get(spec)(x, axes, keep_dims=keep),
                [R23],
            )
for _ta in (False, True):
    for _tb in (False, True):
        _a, _b = (R23.T if _ta else R23), (M33.T if _tb else M33)
        GRADIENT_CASES[f"MatMul {_ta} {_tb}"] = (
            op("MatMul", transpose_a=_ta, transpose_b=_tb),
            [_a, _b],
        )
        _x, _y = np.stack([_a, -_a]), np.stack([_b, _b * 2])
        for _op, _left, _right in (
            ("BatchMatMul", _x, _y), ("BatchMatMulV2", _x, _b), ("BatchMatMulV2", _a * (1 + 1j), _y + 0.5j),
        ):  # fmt: skip
            GRADIENT_CASES[f"{_op} {_ta} {_tb} {_left.dtype} {_left.ndim}"] = (
                op(_op, adj_x=_ta, adj_y=_tb), [_left, _right],
            )  # fmt: skip
GRADIENT_CASES["BatchMatMulV3"] = (op("BatchMatMulV3", Tout=dtypes.float64), [B233, M33])


@pytest.mark.parametrize("known", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", GRADIENT_CASES)
def test_a_gradient_is_the_slope(case: str, known: bool, check_gradient: Function) -> None:
    function, inputs = GRADIENT_CASES[case]
    check_gradient(function, inputs, known=known)


@pytest.mark.parametrize("flip_a", [True, False])
@pytest.mark.parametrize("flip_b", [True, False])
def test_a_sparse_product_has_the_gradients_of_a_dense_one(flip_a: bool, flip_b: bool) -> None:
    a, b = (np.float32(R23.T if flip_a else R23), np.float32(M33.T if flip_b else M33))
    with Graph().as_default(), Session() as session:
        xs = [placeholder(a.dtype, a.shape), placeholder(b.dtype, b.shape)]
        sparse, dense = (
            gradients(matmul(*xs, flip_a, flip_b, a_is_sparse=sparse), xs)
            for sparse in (True, False)
        )
        got, want = session.run([sparse, dense], dict(zip(xs, (a, b), strict=True)))
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_next_number_follows_its_first_argument_only() -> None:
    with Graph().as_default(), Session() as session:
        x, y = placeholder(np.float64, [2, 3]), placeholder(np.float64, [3])
        slopes = session.run(gradients(get("NextAfter")(x, y), [x, y]), {x: R23, y: P3})
    assert slopes[0].tolist() == np.ones((2, 3)).tolist()
    assert slopes[1].tolist() == [0, 0, 0]


SEPARATE = {"SparseMatMul", "NextAfter"}


FAMILIES = (
    "math/arithmetic",
    "math/casting",
    "math/clipping",
    "math/comparisons",
    "math/elementwise",
    "math/zero_products",
    "math/magnitudes",
    "linalg/products",
    "math/reductions",
    "math/scans",
    "math/special",
    "math/sums",
)


def test_every_gradient_of_these_families_has_a_case() -> None:
    ours = {name for name in ops_of(FAMILIES) if OPS[name].gradient_fn is not None}
    used = set()
    for function, inputs in GRADIENT_CASES.values():
        with Graph().as_default() as graph:
            function(*[placeholder(np.asarray(x).dtype, np.shape(x)) for x in inputs])
            used |= {node.type for node in graph.get_operations()}
    assert ours - used == SEPARATE
