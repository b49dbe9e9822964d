"""Arithmetic, functions, comparisons, casts, reductions, products and their gradients, against TensorFlow.

Graphs: the same program under both gives the same nodes: names, ops, inputs, attrs, devices; the same static
shapes and dtypes; or the same class of error.  Values: every op of one or two inputs in every type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.codec import tensors as codec
from headrace.graph.registry import OPS

SETUP = """
x, y = P(2, 3, name="x"), P(2, 3, name="y")
row, rows, any_shape = P(3, name="row"), P(None, 3, name="rows"), P(name="any")
s, n, flag = P(name="s", shape=()), P(2, 3, d="int32", name="n"), P(2, 3, d="bool", name="flag")
z, w = P(2, 3, d="complex64", name="z"), P(2, 3, d="complex64", name="w")
"""

PROGRAMS = """
[x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, 2 / x, x // 2, 2 // x, x % 2, 2 % x, x ** 2, 2 ** x, -x, abs(x), x +
x] [n + 1, n / 2, 2 / n, n // 2, 2 // n, n % 2, n ** 2, -n, abs(n)] [P(2, d="uint8") / 2, P(2, d="int64") / 2, z / 2,
abs(z), P(2, d="string") + "a", "b" + P(2, d="string")] [x @ np.ones((3, 2), "f"), np.ones((2, 2), "f") @ x, x < 1, x <=
1, x > 1, x >= 1, 1 < x] [flag & True, True & flag, flag | False, False | flag, flag ^ True, True ^ flag, ~flag, n & 1,
1 & n, n | 1, n ^ 1, ~n] [tf.add(x, 1), tf.subtract(x, 1), tf.multiply(x, 2), tf.divide(x, 2), tf.div(x, 2),
tf.truediv(x, 2), tf.realdiv(x, 2), tf.floordiv(x, 2)] [tf.floormod(x, 2), tf.mod(x, 2), tf.truncatediv(x, 2),
tf.truncatemod(x, 2), tf.pow(x, 2), tf.maximum(x, 2), tf.minimum(x, 2)] [tf.squared_difference(x, 2), tf.negative(x),
tf.abs(x), tf.sign(x), tf.square(x), tf.div_no_nan(x, 2), tf.math.multiply_no_nan(x, 2)] [tf.add(x, 1, name="n"),
tf.subtract(x, 1, name="n"), tf.divide(x, 2, name="n"), tf.div(x, 2, name="n"), tf.truediv(n, 2, name="n"), tf.abs(x,
name="n")] [tf.divide(3, 2), tf.div(n, 2), tf.truediv(n, n, name="q"), tf.abs(z, name="a"), tf.sign(z), tf.round(n),
tf.round(x)] [tf.add_n([x]), tf.add_n([x, y]), tf.add_n([x, y], name="m"), tf.accumulate_n([x, y]), tf.accumulate_n([x],
name="m"), tf.add_n([x], name="k")] [tf.exp(x), tf.expm1(x), tf.log(x), tf.log1p(x), tf.sqrt(x), tf.rsqrt(x),
tf.reciprocal(x), tf.sin(x), tf.cos(x), tf.tan(x), tf.asin(x), tf.acos(x)] [tf.atan(x), tf.atan2(x, y), tf.sinh(x),
tf.cosh(x), tf.tanh(x), tf.asinh(x), tf.acosh(x), tf.atanh(x), tf.sigmoid(x), tf.log_sigmoid(x)] [tf.erf(x), tf.erfc(x),
tf.lgamma(x), tf.digamma(x), tf.floor(x), tf.ceil(x), tf.rint(x), tf.is_nan(x), tf.is_inf(x), tf.is_finite(x)]
[tf.math.erfinv(x), tf.math.ndtri(x), tf.math.xlogy(x, y), tf.math.xdivy(x, y), tf.math.xlog1py(x, y),
tf.math.erfcinv(x), tf.polygamma(1.0, x), tf.zeta(x, y)] [tf.less(x, 1), tf.equal(x, 1), tf.not_equal(x, 1),
tf.logical_and(flag, True), tf.logical_xor(flag, flag), tf.logical_xor(flag, True, name="q")] [tf.where(flag, x, y),
tf.where_v2(flag, row, 1.0), tf.where(True, x, y)] [tf.cast(x, tf.int32), tf.cast(x, tf.float32), tf.cast(1.5,
tf.int32), tf.cast([1, 2], tf.float32, name="k"), tf.to_double(x), tf.to_int64(x), tf.to_complex64(x)] [tf.bitcast(x,
tf.int32), tf.bitcast(P(4, 2, d="int32"), tf.int64), tf.bitcast(any_shape, tf.uint8), tf.saturate_cast(x, tf.uint8),
tf.saturate_cast(n, tf.int8)] [tf.complex(x, y), tf.real(z), tf.imag(z), tf.conj(z), tf.conj(x), tf.real(x), tf.imag(x),
tf.angle(z), tf.angle(x)] [tf.reduce_sum(x), tf.reduce_sum(x, 0), tf.reduce_sum(x, [0, 1]), tf.reduce_sum(x, axis=1,
keepdims=True), tf.reduce_sum(x, reduction_indices=[1], keep_dims=True)] [tf.reduce_mean(x, 1), tf.reduce_prod(x),
tf.reduce_min(x, -1), tf.reduce_max(x, (0, 1)), tf.reduce_sum(x, []), tf.reduce_all(flag), tf.reduce_any(flag, 0)]
[tf.reduce_sum(any_shape), tf.reduce_sum(any_shape, 0), tf.reduce_mean(rows), tf.reduce_sum(rows, np.array([0])),
tf.reduce_sum(x, P(1, d="int32"), True)] [tf.reduce_sum([1, 2, 3]), tf.reduce_mean([[1.0, 2.0]], 1), tf.reduce_mean(s),
tf.exp(1.0), tf.argmax([1, 2]), tf.sign(-2)] [tf.count_nonzero(x), tf.count_nonzero(flag, axis=1, name="q"),
tf.reduce_logsumexp(x), tf.reduce_logsumexp(rows, 1), tf.reduce_logsumexp(x, 1, keepdims=True)] [tf.norm(x), tf.norm(x,
ord=1, axis=1), tf.norm(x, ord=np.inf, axis=1, keepdims=True), tf.norm(x, ord=3, axis=0), tf.norm(z), tf.norm(x, ord=1,
axis=(0, 1))] [tf.math.reduce_euclidean_norm(x), tf.math.reduce_std(x), tf.math.reduce_variance(x, 1)] [tf.argmax(x),
tf.argmax(x, 1), tf.argmin(x, axis=1, output_type=tf.int32, name="m"), tf.argmax(x, dimension=1), tf.argmax(any_shape,
0)] [tf.cumsum(x), tf.cumsum(x, 1, exclusive=True, reverse=True, name="m"), tf.cumprod(x, 1),
tf.math.cumulative_logsumexp(x, 1)] [tf.matmul(x, y, transpose_a=True), tf.matmul(x, y, transpose_b=True), tf.matmul(x,
y, adjoint_b=True), tf.matmul(z, w, adjoint_b=True), tf.matmul([[1., 2.]], x)] [tf.matmul(P(5, 2, 3), P(5, 3, 4)),
tf.matmul(P(5, 2, 3), P(3, 4)), tf.matmul(any_shape, x), tf.matmul(P(5, 2, 3, d="complex64"), z, transpose_b=True)]
[tf.matrix_inverse(P(3, 3)), tf.matrix_inverse(P(4, 3, 3), adjoint=True), tf.trace(P(3, 3))] [tf.tensordot(P(2, 3, 4),
P(4, 5), 1), tf.tensordot(P(2, 3, 4), P(4, 3), [[1, 2], [1, 0]]), tf.tensordot(P(2), P(2), 1), tf.tensordot(P(None, 3,
4), P(4, 3), 1)] [tf.range(5), tf.range(1, 5, 2), tf.range(5.0), tf.range(P(d="int32", shape=())), tf.range(0,
P(d="int64", shape=()), 2), tf.range(1, 2.5, name="r"), tf.range(5, dtype=tf.float32)] [tf.clip_by_value(x, 0, 1),
tf.clip_by_value(x, row, s, name="m"), tf.clip_by_value(n, 0, 1), tf.clip_by_norm(x, 1.0), tf.clip_by_norm(x, 1.0,
axes=[0])] [tf.global_norm([x, None, row]), tf.clip_by_global_norm([x, None, row], 1.0)[1], tf.clip_by_average_norm(x,
1.0), tf.scalar_mul(2, x), tf.scalar_mul(s, x, name="m")] tf.gradients(x + y, [x, y]) tf.gradients(x + row, [x, row])
tf.gradients(rows + row, [rows, row]) tf.gradients(rows + P(None, 3), [rows]) tf.gradients(rows * 2, [rows])
tf.gradients(P(1, 3, name="p") + P(2, 1, name="q"), [tf.get_default_graph().get_tensor_by_name("p:0")])
tf.gradients(P(1, 3, name="p") + row, [row]) tf.gradients(P(1, None, name="p") + P(2, 1),
[tf.get_default_graph().get_tensor_by_name("p:0")]) tf.gradients(any_shape + s, [any_shape, s]) tf.gradients(x - row,
[x, row]) tf.gradients(x - y, [x, y]) tf.gradients(x * y, [x, y]) tf.gradients(x * x, [x]) tf.gradients(rows * row,
[rows, row]) tf.gradients(z * w, [z, w], grad_ys=z) tf.gradients(x / y, [x, y]) tf.gradients(rows / row, [rows, row])
tf.gradients(z / w, [z, w], grad_ys=z) tf.gradients(raw("Div", x, row), [x, row]) tf.gradients(tf.div_no_nan(x, row),
[x, row]) tf.gradients(tf.floormod(x, row), [x, row]) tf.gradients(x ** row, [x, row]) tf.gradients(rows ** 2, [rows])
tf.gradients(z ** w, [z, w], grad_ys=z) tf.gradients(tf.maximum(rows, 0.0), [rows]) tf.gradients(tf.minimum(x, y), [x,
y]) tf.gradients(tf.squared_difference(x, row), [x, row]) tf.gradients([tf.abs(x), tf.sign(x), tf.square(x),
tf.add_n([x, x, y]), -x], [x]) tf.gradients(tf.abs(z), [z]) tf.gradients([tf.exp(x), tf.expm1(x), tf.log(x),
tf.log1p(x), tf.sqrt(x), tf.rsqrt(x), tf.reciprocal(x), raw("Inv", x), tf.sigmoid(x), tf.tanh(x)], [x])
tf.gradients([tf.sin(x), tf.cos(x), tf.tan(x), tf.asin(x), tf.acos(x), tf.atan(x), tf.sinh(x), tf.cosh(x), tf.asinh(x),
tf.acosh(x), tf.atanh(x)], [x]) tf.gradients([tf.erf(x), tf.erfc(x), tf.lgamma(x), tf.digamma(x), tf.math.erfinv(x),
tf.math.ndtri(x), tf.floor(x), tf.round(x)], [x]) tf.gradients([tf.exp(z), tf.sqrt(z), tf.tanh(z), tf.sin(z),
tf.log(z)], [z], grad_ys=[z, z, z, z, z]) tf.gradients(tf.atan2(x, row), [x, row]) tf.gradients([tf.math.xlogy(x, row),
tf.math.xdivy(x, row), tf.math.xlog1py(x, row)], [x, row]) tf.gradients([raw("TanhGrad", x, y), raw("SigmoidGrad", x,
y), raw("SqrtGrad", x, y), raw("RsqrtGrad", x, y), raw("ReciprocalGrad", x, y)], [x, y]) tf.gradients(raw("TanhGrad", z,
w), [z, w], grad_ys=z) tf.gradients(tf.where(flag, x, y), [x, y]) tf.gradients(tf.where_v2(flag, row, y), [row, y])
tf.gradients(tf.cast(x, tf.float64), [x]) tf.gradients(tf.cast(x, tf.int32), [x]) tf.gradients([tf.real(z), tf.imag(z),
tf.angle(z)], [z]) tf.gradients(tf.reduce_sum(x), [x]) tf.gradients(tf.reduce_sum(rows), [rows])
tf.gradients(tf.reduce_sum(any_shape), [any_shape]) tf.gradients(tf.reduce_sum(x, 1), [x])
tf.gradients(tf.reduce_sum(rows, 1), [rows]) tf.gradients(tf.reduce_sum(rows, 1, keepdims=True), [rows])
tf.gradients(tf.reduce_mean(x), [x]) tf.gradients(tf.reduce_mean(x, 1), [x]) tf.gradients(tf.reduce_mean(rows), [rows])
tf.gradients(tf.reduce_mean(rows, 0), [rows]) tf.gradients(tf.reduce_mean(s), [s])
tf.gradients(tf.reduce_mean(any_shape), [any_shape]) tf.gradients(tf.reduce_max(x, 1), [x])
tf.gradients(tf.reduce_min(rows), [rows]) tf.gradients(tf.reduce_prod(x, 1), [x]) tf.gradients(tf.reduce_logsumexp(x,
1), [x]) tf.gradients(tf.math.reduce_euclidean_norm(rows, 1), [rows]) tf.gradients([tf.cumsum(x, 1), tf.cumprod(x, 1),
tf.math.cumulative_logsumexp(x, 1)], [x]) tf.gradients(tf.matmul(x, y, transpose_a=True), [x, y])
tf.gradients(tf.matmul(x, y, transpose_b=True), [x, y]) tf.gradients(tf.matmul(z, w, transpose_b=True), [z, w],
grad_ys=P(2, 2, d="complex64")) tf.gradients(tf.matmul(P(5, 2, 3), y, transpose_b=True), [y])
tf.gradients(tf.matmul(P(None, 2, 3), P(None, 3, 4, name="b")), [tf.get_default_graph().get_tensor_by_name("b:0")])
tf.gradients(tf.matrix_inverse(P(3, 3, name="m")), [tf.get_default_graph().get_tensor_by_name("m:0")])
tf.gradients(tf.clip_by_value(x, 0.0, 1.0), [x]) tf.gradients(raw("ClipByValue", x, row, s), [x, row, s]) tf.add_n([])
tf.add_n([x, row]) x + P(2, 4) x + n x + "a" n * 2.0 n / 1.5 flag + True tf.exp(n) tf.reduce_sum(x, 2) tf.reduce_sum(x,
axis=0, reduction_indices=0) tf.argmax(x, 2) tf.matmul(x, y) tf.matmul(row, x) tf.matmul(x, y, transpose_b=True,
adjoint_b=True) tf.bitcast(x, tf.int64) tf.complex(n, n) tf.conj(P(2, d="string")) tf.range(0, 5, 0) tf.range(5, 0)
tf.norm(x, ord="foo") tf.scalar_mul(row, x) tf.global_norm(x) tf.where(flag, x) tf.gradients(raw("TruncateMod", x, y),
[x]) tf.gradients(tf.cast(tf.is_nan(x), tf.float32), [x])
""".strip().splitlines()

PEER = """
import numpy as np
from tensorflow.python.framework import op_def_registry

def P(*sizes, d="float32", name=None, shape=None):
    return tf.placeholder(tf.as_dtype(d), shape if shape is not None else (list(sizes) or None), name=name)

def raw(op, *inputs, **attrs):
    names = [arg.name for arg in op_def_registry.get(op).input_arg]
    return getattr(tf.raw_ops, op)(**dict(zip(names, inputs)), **attrs)

def attr(value):
    kind = value.WhichOneof("value")
    if kind == "tensor":
        array = tf.make_ndarray(value.tensor)
        return value.tensor.dtype, array.shape, [str(v) for v in array.reshape(-1).tolist()]
    return value.SerializeToString()

def run(source):
    tf.reset_default_graph()
    names = {"tf": tf, "np": np, "P": P, "raw": raw}
    exec(setup, names)
    try:
        made = eval(source, names)
    except Exception as error:
        return "error", type(error).__name__
    nodes = {
        n.name: (n.op, list(n.input), n.device, {k: attr(v) for k, v in n.attr.items() if not k.startswith("_output")})
        for n in tf.get_default_graph().as_graph_def().node
    }
    tensors = made if isinstance(made, (list, tuple)) else [made]
    found = [
        None if t is None else (t.name, t.dtype.name, None if t.shape.rank is None else t.shape.as_list())
        for t in tensors
    ]
    return "graph", nodes, found

result = [run(source) for source in programs]
"""


def placeholder(*sizes: Any, d: str = "float32", name: str | None = None, shape: Any = None) -> Any:
    return hr.placeholder(
        dtypes.as_dtype(d), shape if shape is not None else (list(sizes) or None), name=name
    )


def raw(op: str, *inputs: Any, **attrs: Any) -> Any:
    return OPS[op](*inputs, **attrs)


def attr(value: Any) -> Any:
    if value.WhichOneof("value") == "tensor":
        array = codec.decode(pb.TensorProto.FromString(value.tensor.SerializeToString()))
        return value.tensor.dtype, array.shape, [str(v) for v in array.reshape(-1).tolist()]
    return value.SerializeToString()


def ours(source: str) -> Any:
    with hr.Graph().as_default() as graph:
        names = {"tf": hr, "np": np, "P": placeholder, "raw": raw}
        exec(SETUP, names)
        try:
            made = eval(source, names)
        except Exception as error:
            return "error", type(error).__name__
        nodes = {
            n.name: (n.op, list(n.input), n.device, {k: attr(v) for k, v in n.attr.items()})
            for n in graph.as_graph_def().node
        }
    tensors = made if isinstance(made, (list, tuple)) else [made]
    found = [
        None
        if t is None
        else (t.name, t.dtype.name, None if t.shape.rank is None else t.shape.as_list())
        for t in tensors
    ]
    return "graph", nodes, found


_theirs: dict[str, Any] = {}


@pytest.fixture
def theirs(oracle: Any) -> dict[str, Any]:
    if not _theirs:
        found = oracle.run(PEER, programs=PROGRAMS, setup=SETUP)
        _theirs.update(zip(PROGRAMS, found, strict=True))
    return _theirs


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_graph_is_tensorflows(program: str, theirs: dict[str, Any]) -> None:
    want, got = theirs[program], ours(program)
    assert got[0] == want[0], (got[:2], want[:2])
    if want[0] == "error":
        assert got[1] == want[1]
        return
    assert sorted(got[1]) == sorted(want[1])
    for name, node in want[1].items():
        assert (name, got[1][name]) == (name, node)
    assert got[2] == want[2]
