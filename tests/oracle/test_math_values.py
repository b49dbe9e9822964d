"""Values of elementwise ops in every type, and of the corner cases, against TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.base import dtypes
from headrace.graph.registry import OPS

FLOATS = ["float16", "float32", "float64", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
WIDE = ["float32", "float64"]

TYPES: dict[str, list[str]] = {}


def types(names: str, *groups: list[str]) -> None:
    """Kernels that TensorFlow has; it does not have all that its schemas allow."""
    for name in names.split():
        TYPES[name] = [kind for group in groups for kind in group]


types(
    "Exp Expm1 Log Log1p Sqrt Rsqrt Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh",
    FLOATS,
    COMPLEX,
)
types("Atanh Sigmoid Reciprocal Inv", FLOATS, COMPLEX)
types("Neg Sign", FLOATS, COMPLEX, SIGNED)
types("Abs", FLOATS, SIGNED)
types("Square", FLOATS, COMPLEX, ["int32", "int64"])
types("Erf Erfc Floor Ceil IsNan IsInf IsFinite Round", FLOATS)
types("Erfinv Ndtri Rint NextAfter", WIDE)
types("Lgamma Digamma", WIDE, ["float16"])
types("Invert BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift", SIGNED, UNSIGNED)
types("AddV2 Sub Mul Equal NotEqual", FLOATS, COMPLEX, SIGNED, UNSIGNED)
types("RealDiv DivNoNan MulNoNan Xlogy Xdivy Xlog1py", FLOATS, COMPLEX)
types("Pow", FLOATS, COMPLEX, SIGNED)
types("SquaredDifference", FLOATS, COMPLEX, ["int32", "int64"])
types("Div TruncateDiv FloorDiv FloorMod Maximum Minimum", FLOATS, SIGNED, UNSIGNED)
types("Less LessEqual Greater GreaterEqual", FLOATS, SIGNED, UNSIGNED)
types("Mod TruncateMod", WIDE, ["int32", "int64"])
types("Atan2", FLOATS)
types("TanhGrad SigmoidGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad", FLOATS, COMPLEX)
ELEMENTWISE = [(name, kind) for name, kinds in TYPES.items() for kind in kinds]

TOLERANCE = {
    "float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-6, "float64": 1e-12, "complex64": 5e-6,
    "complex128": 1e-12,
}  # fmt: skip

VALUES = {
    "f": (
        [0.3, -0.6, 2.5, 0, 1, -1, 0.99, 3, -2.5, 1e-3],
        [2, 0.5, -1.5, 2, 3, -2, 0.25, 1, 2, -7],
    ),
    "i": ([3, -6, 25, 0, 1, -1, 9, 100, -128, 127], [2, 5, -3, 2, 3, -2, 7, 1, 2, -7]),
    "u": ([3, 6, 25, 0, 1, 11, 9, 100, 128, 255], [2, 5, 3, 2, 3, 12, 7, 1, 2, 7]),
}


def operands(name: str, kind: str) -> list[list[Any]]:
    group = "u" if kind in UNSIGNED else "i" if kind in SIGNED else "f"
    x, y = (list(values) for values in VALUES[group])
    if name == "Pow" and group == "i":
        y = [abs(value) % 4 for value in y]
    if kind in COMPLEX:
        x, y = (
            [complex(a, b) for a, b in zip(x, y, strict=True)],
            [complex(b, a) for a, b in zip(x, y, strict=True)],
        )
    return [x, y]


PEER = """
import numpy as np
from tensorflow.python.framework import op_def_registry

config = tf.ConfigProto()
config.graph_options.rewrite_options.disable_meta_optimizer = True

def run(name, kind, lists):
    tf.reset_default_graph()
    numpy_type = tf.as_dtype(kind).as_numpy_dtype
    names = [arg.name for arg in op_def_registry.get(name).input_arg]
    feeds = {tf.placeholder(kind, None): np.array(v).astype(numpy_type) for v in lists[: len(names)]}
    value = getattr(tf.raw_ops, name)(**dict(zip(names, feeds)))
    with tf.Session(config=config) as session:
        found = session.run(value, feeds)
    return value.dtype.name, found.astype(np.float64) if found.dtype.kind == "V" else found

result = [run(*case) for case in cases]
"""

_theirs: dict[tuple[str, str], Any] = {}


@pytest.fixture
def theirs(oracle: Any) -> dict[tuple[str, str], Any]:
    if not _theirs:
        cases = [(name, kind, operands(name, kind)) for name, kind in ELEMENTWISE]
        _theirs.update(zip(ELEMENTWISE, oracle.run(PEER, cases=cases), strict=True))
    return _theirs


@pytest.fixture(autouse=True)
def graph() -> Iterator[hr.Graph]:
    with hr.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(("name", "kind"), ELEMENTWISE)
def test_an_elementwise_op_gives_tensorflows_values(name: str, kind: str, theirs: Any) -> None:
    spec, dtype = OPS[name], dtypes.as_dtype(kind)
    lists = operands(name, kind)[: len(spec.inputs)]
    feeds = {hr.placeholder(dtype, None): np.array(v).astype(dtype.np) for v in lists}
    with hr.Session() as session:
        found = session.run(spec(*feeds), feeds)
    type_name, want = theirs[name, kind]
    assert dtypes.from_numpy(found.dtype).name == type_name
    if found.dtype.kind == "V":
        found = found.astype(np.float64)
    if kind in TOLERANCE and found.dtype != np.bool_:
        rtol = TOLERANCE[kind]
        np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol / 10)
    else:
        assert found.tolist() == want.tolist()


EXPRESSIONS = """
F([5., -5., 0., np.inf]) // F([0., 0., 0., 2.])
F([5., -5., 0., np.inf, 5.]) % F([0., 0., 0., 2., -np.inf])
F([-2147483648], "int32") // F([-1], "int32")
F([-2., 0., 0., 4.]) ** F([.5, 0., -1., .5])
tf.div_no_nan(F([1., np.nan, np.inf]), F([0., 0., 0.]))
tf.maximum(F([np.nan, 1., 1.]), F([1., np.nan, 2.]))
tf.sign(F([np.nan, -0., 2., -3.]))
tf.abs(F([-2147483648], "int32"))
tf.matmul(F(np.ones((2, 0))), F(np.ones((0, 3))))
tf.reduce_sum(F([[1, 2], [3, 4]], "int32"), F([[0]], "int32"))
tf.reduce_sum(F([100, 100], "int8"))
tf.reduce_mean(F([-1, -2], "int32"))
tf.reduce_mean(F([200, 101], "uint8"))
tf.reduce_mean(F(np.zeros(0)))
tf.reduce_max(F(np.zeros(0)))
tf.reduce_min(F(np.zeros(0), "int32"))
tf.reduce_max(F([1., np.nan, 3.]))
tf.reduce_all(F(np.zeros(0), "bool"))
tf.reduce_sum(F(np.full(5000, 1.), "bfloat16"))
tf.reduce_sum(F(np.full(5000, 1.), "float16"))
tf.math.reduce_euclidean_norm(F([1, 1], "int32"))
tf.argmax(F([1., 3., 3.]))
tf.argmax(F([1., np.nan, 3.]))
tf.argmin(F([[1., np.nan], [0., 2.]]), 1, output_type=tf.int32)
tf.argmax(F(np.zeros((3, 0))), 0)
tf.cumsum(F([1., np.inf, 2.]), 0, exclusive=True)
tf.cumsum(F(np.full(5000, 1.), "float16"))
tf.cumprod(F([1, 2, 3], "int32"), exclusive=True, reverse=True)
tf.math.cumulative_logsumexp(F([1., 2., 3.]), exclusive=True)
tf.range(F(0.), F(1.), F(.1))
tf.range(F(5, "int32"), F(0, "int32"), F(-2, "int32"))
tf.cast(F([1.9, -1.9, np.nan, np.inf, -np.inf, 3e9, -3e9, 1e20]), tf.int32)
tf.cast(F([1.9, -1.9, np.nan, np.inf, 300., -3.]), tf.uint8)
tf.cast(F([1.9, -1.9, np.nan, 300., -3., 200.]), tf.int8)
tf.cast(F([1.9, -1.9, np.nan, 5e9, -3.]), tf.uint32)
tf.cast(F([1.9, -1.9, 5e9, -3.]), tf.uint64)
tf.cast(F([300, -1, 70000], "int32"), tf.uint8)
tf.cast(F([0., .5, -1., np.nan]), tf.bool)
tf.cast(F([1 + 2j, 2j], "complex64"), tf.bool)
tf.cast(F([65504., 65520., 1e6]), tf.half)
tf.bitcast(F([1.]), tf.uint8)
tf.where(F([True, False], "bool"), F([[1, 2], [3, 4]]), F([[5, 6], [7, 8]]))
tf.equal(F(["a", "b"], "string"), F(["a", "c"], "string"))
tf.math.xlogy(F([0., 2.]), F([0., 3.]))
tf.math.erfinv(F([-1., 0., 1., 2.]))
tf.math.ndtri(F([0., .5, 1., 1.5]))
tf.lgamma(F([0., -1., .5, -.5, np.inf, -np.inf]))
tf.digamma(F([0., -1., 171.]))
tf.polygamma(F([0., 1., 2., .5]), F([.7, 1.5, 3., 1.]))
tf.zeta(F([2., 4., 1., .5]), F([1., 2.5, 1., 1.]))
tf.clip_by_norm(F([3., 4.]), 1.)
tf.clip_by_norm(F([0., 0.]), 1.)
tf.clip_by_global_norm([F([3., 4.]), F([12.])], 6.5)[0][1]
tf.reduce_logsumexp(F([1000., 1001.]))
tf.reduce_logsumexp(F([-np.inf, -np.inf]))
tf.norm(F([3., 4.]), 1)
tf.matrix_inverse(F([[1 + 1j, 2], [3, 4]], "complex64"), adjoint=True)
tf.tensordot(F([[1., 2.]]), F([[3.], [4.]]), 1)
tf.trace(F([[1., 2.], [3., 4.]]))
tf.sigmoid(F([-1000., 0., 1000.]))
tf.count_nonzero(F(["", "a"], "string"))
tf.saturate_cast(F([-5., 300., 7.5]), tf.uint8)
tf.bitwise.left_shift(F([1, 1], "uint8"), F([3, 7], "uint8"))
""".strip().splitlines()

EXPRESSION_PEER = """
import numpy as np

def run(source):
    tf.reset_default_graph()
    feeds = {}

    def F(values, kind="float32"):
        array = np.array(values, tf.as_dtype(kind).as_numpy_dtype)
        made = tf.placeholder(kind, None)
        feeds[made] = array
        return made

    value = eval(source, {"tf": tf, "np": np, "F": F})
    with tf.Session() as session:
        found = session.run(value, feeds)
    return value.dtype.name, found.astype(np.float64) if found.dtype.kind == "V" else found

result = [run(source) for source in sources]
"""

_expressions: dict[str, Any] = {}


@pytest.fixture
def expressions(oracle: Any) -> dict[str, Any]:
    if not _expressions:
        _expressions.update(
            zip(EXPRESSIONS, oracle.run(EXPRESSION_PEER, sources=EXPRESSIONS), strict=True)
        )
    return _expressions


@pytest.mark.parametrize("source", EXPRESSIONS)
def test_a_corner_case_gives_tensorflows_value(source: str, expressions: dict[str, Any]) -> None:
    feeds: dict[Any, Any] = {}

    def feed(values: Any, kind: str = "float32") -> Any:
        dtype = dtypes.as_dtype(kind)
        made = hr.placeholder(dtype, None)
        text = [v.encode() for v in values] if kind == "string" else values
        feeds[made] = np.array(text, dtype.np)
        return made

    value = eval(source, {"tf": hr, "np": np, "F": feed})
    with hr.Session() as session:
        found = session.run(value, feeds)
    type_name, want = expressions[source]
    assert dtypes.from_numpy(found.dtype).name == type_name
    assert found.shape == want.shape
    if found.dtype.kind in "fcV":
        np.testing.assert_allclose(found.astype(want.dtype), want, rtol=3e-6, atol=1e-7)
    else:
        assert found.tolist() == want.tolist()
