"""Constants, shapes, slices, joins, gathers, segments, diagonals, strings and their gradients, against TensorFlow.

Graphs: the same program under both gives the same nodes (names, ops, inputs, attrs, devices), static shapes and
dtypes, or the same class of error.  Values: the same expression gives the same value, or the same class of error.
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
x, y, cube = P(2, 3, name="x"), P(2, 3, name="y"), P(4, 5, 6, name="cube")
rows, any_shape, square = P(None, 3, name="rows"), P(name="any"), P(5, 2, 2, name="square")
i, ids, long = P(d="int32", shape=(), name="i"), P(2, d="int32", name="ids"), P(d="int64", shape=(), name="long")
s = P(2, d="string", name="s")
"""

PROGRAMS = r"""
[tf.zeros([2, 3]), tf.zeros([]), tf.zeros([2000]), tf.ones([1, 2], tf.int64, name="o"), tf.zeros(ids), tf.zeros((2, i)),
tf.zeros([2], tf.string)] [tf.zeros([2], tf.bool), tf.ones([3000], tf.bool), tf.zeros(3), tf.zeros(tf.TensorShape([2,
3])), tf.zeros([999]), tf.zeros([1000]), tf.zeros([2, 0])] [tf.zeros([tf.Dimension(3)], name="z"),
tf.zeros(tf.constant([2, 3])), tf.ones(tf.constant([2, 3], tf.int64))] [tf.zeros_like(rows), tf.ones_like(rows),
tf.zeros_like(x), tf.ones_like(x), tf.zeros_like(x, tf.int32, name="q"), tf.zeros_like(rows, tf.int32)]
[tf.zeros_like([1, 2]), tf.ones_like([1.0, 2]), tf.zeros_like(s), tf.ones_like(x, optimize=False), tf.zeros_like(x,
optimize=False)] [tf.fill([2, 3], 1.0), tf.fill([2], tf.constant(3), name="f"), tf.fill([], 2), tf.fill(ids, 1)]
[tf.convert_to_tensor([x[0, 0], 2.0, 3.0]), tf.convert_to_tensor([[x[0, 0], 1.0], [2.0, 3.0]], name="q"),
tf.identity([x[0, 0], 2.0])] [tf.convert_to_tensor([i, 2.5], dtype=tf.float32), tf.convert_to_tensor([tf.shape(rows)[0],
rows.shape[1]]), tf.convert_to_tensor(x.shape)] [tf.convert_to_tensor(x.shape[0]), tf.convert_to_tensor(x.shape,
name="n", dtype=tf.int64), tf.convert_to_tensor([]), tf.convert_to_tensor(1, dtype=tf.float32)] [tf.constant([1, 2],
shape=[3, 4]), tf.constant("a"), tf.constant(b"x", shape=[2]), tf.constant(True), tf.constant(2**40), tf.constant(1 +
2j), tf.constant(1, tf.bfloat16)] [tf.constant([1, 2.5]), tf.constant([True, 2]), tf.constant(300, tf.uint8),
tf.constant(np.array([1.5]), tf.int32), tf.constant([np.float64(1), 2.0]), tf.constant([[], []])]
[tf.constant(np.zeros((2, 2)), tf.float32, shape=[4]), tf.constant(1.0, tf.complex64), tf.constant([1, 2, 3],
dtype="float64", name="a/b")] [tf.placeholder_with_default([1, 2], [None]), tf.placeholder_with_default(1.0, [],
name="p"), tf.placeholder(tf.float32, 3), tf.placeholder("float")] [tf.check_numerics(x, "m"), tf.stop_gradient(x),
tf.identity(x, name="k"), tf.identity(3), tf.identity_n([x, 1])[0]] [tf.group(x, tf.constant(1)).outputs,
tf.group().outputs, tf.group([x, y], {"a": x}, name="g").outputs, tf.no_op().outputs, tf.no_op("n").outputs][0]
tf.tuple([x, None, tf.constant(2)], name="t", control_inputs=[y]) [tf.Print(x, [x, "a", 3]), tf.Print(x, [], "m",
first_n=2, summarize=5)] [tf.print(x, "a", {"k": x}, output_stream="file:///nowhere").inputs[0], tf.print("a", [x, (1,
i)], sep="|", end="!", name="q").inputs[0], tf.print("{} it", x).inputs[0]] [tf.shape(x), tf.shape(rows), tf.size(x),
tf.size(rows), tf.rank(x), tf.rank(any_shape), tf.size(any_shape), tf.shape(x, out_type=tf.int64, name="q")]
tf.shape_n([x, rows]) [tf.reshape(cube, [6, -1]), tf.reshape(rows, [-1]), tf.reshape(rows, tf.shape(cube)),
tf.reshape(cube, tf.stack([tf.shape(rows)[1], -1]), name="r"), tf.reshape(P(1), [])] [tf.expand_dims(cube, 0),
tf.expand_dims(x, -1, name="e"), tf.expand_dims(x, dim=1), tf.squeeze(P(1, 2, 1)), tf.squeeze(P(1, 2, 1), [0],
name="q"), tf.squeeze(rows), tf.squeeze(P(None, 1), 1)] [tf.transpose(cube), tf.transpose(cube, [0, 2, 1]),
tf.transpose(rows, name="t"), tf.transpose(any_shape), tf.transpose(P(2, 3, d="complex64"), conjugate=True),
tf.transpose(rows, ids)] [tf.matrix_transpose(cube), tf.matrix_transpose(any_shape, name="mt"), tf.linalg.adjoint(cube),
tf.invert_permutation([1, 0]), tf.ensure_shape(rows, [5, None]), tf.broadcast_to(x, [4, 2, 3])] [tf.tile(x, [2, 1]),
tf.tile(rows, [2, 2], name="t"), tf.pad(x, [[1, 1], [0, 2]]), tf.pad(x, [[1, 1], [0, 2]], constant_values=3), tf.pad(x,
[[1, 1], [0, 2]], mode="symmetric"), tf.pad(rows, P(2, 2, d="int32"))] [tf.pad(x, [[1, 1], [0, 2]],
constant_values=tf.constant(2.0), name="p"), tf.reverse(x, [0]), tf.reverse_v2(x, axis=[1], name="rv"),
tf.reverse_sequence(x, ids, seq_axis=1, batch_axis=0)] [tf.pad(rows, tf.stack([[1, tf.shape(rows)[1]], [0, 0]])),
tf.sequence_mask([1, 2, 3]), tf.sequence_mask([1, 2, 3], 5, tf.float32, name="m"), tf.sequence_mask(P(None, d="int64"),
tf.constant(4))] tf.broadcast_dynamic_shape([1, 2], [3, 1]) [cube[0], cube[1:3], cube[..., 0], cube[:, tf.newaxis, ::2],
cube[i], cube[i:, 1], cube[-1], cube[0, 1, 2], cube[1:3, ..., ::-1], cube[None], cube[()], cube[[1, 2]]] [cube[long],
cube[long:2], cube[tf.constant(1) : tf.constant(3), None], cube[np.int64(2)], cube[:long], cube[::i]] [rows[i:],
rows[:3], rows[-1:], rows[i], rows[i:3], rows[::-1], rows[:, i:3], rows[:, 1:-1], any_shape[0], any_shape[1:, None],
rows[:, 0]] [tf.strided_slice(cube, [0, 1], [2, 3]), tf.strided_slice(cube, [0], [2], [1], shrink_axis_mask=1,
name="q"), tf.slice(cube, [0, 1, 2], [-1, 2, 3]), tf.slice(cube, P(3, d="int32"), [1, 2, -1])] cube[cube > 0]
[tf.concat([x, rows], 0), tf.concat([x, rows], axis=0, name="c"), tf.concat([x], 1), tf.concat(x, 0), tf.concat([[1],
[2, 3]], 0), tf.concat([x, rows], tf.constant(0)), tf.concat([x, any_shape], -1), tf.concat([x, rows], i)] [tf.stack([x,
y]), tf.stack([x, y], axis=1, name="q"), tf.stack([1, 2]), tf.stack([x, [[1.0, 2, 3], [4, 5, 6]]]), tf.stack([x, y],
-1), tf.stack([[1, 2], [3, 4]], axis=1), tf.stack([1, tf.constant(2.0)])] [*tf.unstack(x), *tf.unstack(x, axis=1,
name="u"), *tf.unstack(P(None), num=2), *tf.unstack(x, num=2, axis=-2)] [*tf.split(P(4, 6), 2), *tf.split(P(4, 6), 3, 1,
name="sp"), *tf.split(P(4, 6), [1, 3]), *tf.split(P(4, 6), [1, -1], name="q"), *tf.split(x, ids, 1), *tf.split(x,
P(None, d="int32"), num=3, axis=-1)] [*tf.meshgrid(P(3), P(None)), *tf.meshgrid(P(3), P(None), indexing="ij", name="m"),
*tf.meshgrid(P(3), P(2), P(4))] [tf.gather(x, ids), tf.gather(x, ids, axis=1, name="g"), tf.gather(x, [[0, 1]],
axis=-1), tf.gather(x, P(2, 2, d="int32"), batch_dims=1), tf.gather(any_shape, ids), raw("Gather", x, ids)]
[tf.gather_nd(x, [[0], [1]]), tf.gather_nd(x, [[0, 1]], name="nd"), tf.scatter_nd([[1], [2]], [1.0, 2.0], [5]),
tf.scatter_nd(P(None, 1, d="int32"), P(None), ids)] [tf.one_hot([0, 1], 3), tf.one_hot(ids, 4, on_value=2.0,
off_value=-1.0, axis=0, name="oh"), tf.one_hot([0, 1], 3, dtype=tf.int32), tf.one_hot([1], i), tf.one_hot([0], 3,
on_value="a", off_value="b", dtype=tf.string)] [*tf.unique(ids), *tf.unique_with_counts(ids, out_idx=tf.int64,
name="uc"), tf.where(x > 0), tf.where(x > 0, x, y), tf.where(x > 0, x, y, name="w"), *tf.setdiff1d(ids, [1])]
[tf.boolean_mask(x, [True, False]), tf.boolean_mask(rows, P(None, d="bool"), name="bm"), tf.boolean_mask(x, P(3,
d="bool"), axis=1)] [*tf.dynamic_partition(rows, P(None, d="int32"), 2), tf.dynamic_stitch([[0], [1, 2]], [[1.0], [2.0,
3.0]]), *tf.nn.top_k(x, 2), *tf.nn.top_k(rows, k=i, sorted=False, name="tk")] [tf.diag([1.0, 2.0]), tf.diag_part(P(2,
2)), tf.matrix_diag([1.0, 2.0]), tf.matrix_diag_part(cube), tf.matrix_band_part(x, 0, -1), tf.matrix_set_diag(x, [1.0,
2.0])] [tf.segment_sum(x, ids), tf.unsorted_segment_sum(rows, P(None, d="int32"), 3), tf.segment_mean(x, [0, 0]),
tf.unsorted_segment_mean(x, [0, 1], 3), tf.unsorted_segment_sqrt_n(x, [0, 1], 3)] [tf.sparse_segment_sum(x, [0, 1, 1],
[0, 0, 1]), tf.sparse_segment_sum(x, [0, 1], [0, 0], num_segments=4), tf.sparse_segment_mean(x, [0], [0], name="q"),
tf.sparse_segment_sqrt_n(x, [0], [0])] [tf.string_join([s, "b"], separator=","), tf.as_string(x), tf.as_string(x,
precision=2, name="a"), tf.string_to_number(s), tf.string_to_number(s, tf.int32, name="n"), tf.decode_raw(s, tf.uint8)]
[tf.substr(s, 0, 2), tf.regex_replace(s, "a", "b"), tf.strings.lower(s), tf.strings.upper(s), tf.string_strip(s),
tf.strings.length(s), tf.encode_base64(s), tf.decode_base64(s), tf.strings.substr(s, 1, 1, unit="UTF8_CHAR")]
[tf.reduce_join(s), tf.reduce_join(s, 0, separator="-", keep_dims=True, name="rj"), tf.strings.regex_full_match(s,
"a.*"), tf.regex_replace(s, P(d="string", shape=()), "b"), tf.reduce_join(P(d="string")), tf.strings.format("a {} b {}",
[s, x])] [tf.string_split(s).values, tf.string_split(["a b"], skip_empty=False, name="sp").indices, tf.strings.split(s,
"-").dense_shape] tf.gradients(tf.check_numerics(tf.Print(tf.identity_n([x, rows])[0], [x]), "m") * tf.stop_gradient(y),
[x]) tf.gradients(tf.fill([2, 3], P(shape=(), name="k")), [tf.get_default_graph().get_tensor_by_name("k:0")])
tf.gradients(tf.reshape(cube, [6, -1]), [cube]) tf.gradients(tf.reshape(rows, [-1]), [rows])
tf.gradients([tf.expand_dims(x, 0), tf.squeeze(tf.expand_dims(x, 0)), tf.transpose(x), tf.reverse(x, [0]),
tf.ensure_shape(x, [None, 3])], [x]) tf.gradients([tf.tile(x, [1, 2]), tf.pad(x, [[1, 1], [0, 2]]), tf.pad(x, [[1, 1],
[0, 2]], constant_values=3), tf.pad(x, [[1, 1], [0, 2]], "SYMMETRIC")], [x]) tf.gradients([tf.tile(rows, [1, 2]),
tf.expand_dims(rows, 0), tf.transpose(rows)], [rows]) tf.gradients([tf.squeeze(any_shape), tf.transpose(any_shape)],
[any_shape]) tf.gradients(tf.broadcast_to(x, [4, 2, 3]), [x]) tf.gradients([cube[0], cube[:, ::2, tf.newaxis],
tf.slice(cube, [0, 1, 2], [-1, 2, 3])], [cube]) tf.gradients([rows[0], rows[i:], rows[long:], tf.slice(rows, [0, 1],
[-1, 2])], [rows]) tf.gradients(tf.gradients(x[0], x, grad_ys=P(3, name="k"))[0],
[tf.get_default_graph().get_tensor_by_name("k:0")]) tf.gradients(tf.concat([x, y], 0), [x, y])
tf.gradients(tf.concat([x, rows], 0), [x, rows]) tf.gradients(tf.concat([x, any_shape], -1), [x, any_shape])
tf.gradients(tf.concat([x, y], i), [x]) tf.gradients(tf.concat([x] * 17, 0), [x]) tf.gradients(raw("Concat", 0, [x, y]),
[x, y]) tf.gradients([tf.stack([x, y], 1), tf.unstack(x)[0], tf.split(x, 3, 1)[1], tf.split(x, [1, 2], 1)[0]], [x])
[g.values for g in tf.gradients(tf.gather(tf.concat([x, y], 0), ids), [x, y])] [g.values for g in
tf.gradients(tf.gather(tf.concat([x, y], 1), ids), [x, y])] tf.gradients(tf.gather(tf.concat([x, y], i), ids), [x])
[g.values for g in tf.gradients(tf.gather(x, ids), [x])] [g.values for g in tf.gradients(tf.gather(rows, P(None, 2,
d="int32")), [rows])] tf.gradients(tf.gather(x, ids, axis=1), [x]) tf.gradients(tf.gather(cube, P(4, 2, d="int32"),
batch_dims=1), [cube]) tf.gradients(tf.gather(cube, P(4, 2, d="int32"), batch_dims=1, axis=2), [cube])
tf.gradients(tf.reshape(tf.gather(tf.reshape(x, [6]), ids), [-1]), [x]) [g.values for g in
tf.gradients(tf.tile(tf.gather(x, ids), [2, 1]), [x])] tf.gradients(tf.gather_nd(x, [[0, 1]]), [x]) [g.values for g in
tf.gradients(tf.gather_nd(x, P(None, 1, d="int32")), [x])] tf.gradients(tf.scatter_nd([[1], [2]], P(2, name="k"), [5]),
[tf.get_default_graph().get_tensor_by_name("k:0")]) tf.gradients(tf.one_hot([0, 1], 3, on_value=x[0, 0]), [x])
tf.gradients(tf.unique(P(4, name="k"))[0], [tf.get_default_graph().get_tensor_by_name("k:0")]) tf.gradients(tf.where(x >
0, x, y), [x, y]) tf.gradients(tf.dynamic_partition(x, ids, 2), [x]) tf.gradients(tf.dynamic_stitch([[0, 1], [2, 3]],
[x, y]), [x, y]) tf.gradients([tf.diag_part(P(2, 2, name="k"))], [tf.get_default_graph().get_tensor_by_name("k:0")])
tf.gradients([tf.matrix_diag_part(square), tf.matrix_diag(square), tf.matrix_band_part(square, 0, -1)], [square])
tf.gradients(tf.matrix_set_diag(square, P(5, 2)), [square]) tf.gradients([tf.segment_sum(x, ids), tf.segment_mean(x,
ids), tf.segment_max(x, ids), tf.segment_min(x, ids)], [x]) tf.gradients([tf.unsorted_segment_sum(x, ids, 3),
tf.unsorted_segment_max(x, ids, 3), tf.unsorted_segment_prod(x, ids, 3)], [x]) tf.gradients([tf.sparse_segment_sum(x,
[0], [0]), tf.sparse_segment_mean(x, [0], [0]), tf.sparse_segment_sqrt_n(x, [0], [0])], [x])
tf.gradients(tf.segment_prod(x, ids), [x]) tf.gradients(tf.nn.top_k(x, 2)[0], [x]) tf.gradients(raw("PreventGradient",
x, message="no"), [x]) tf.constant(1.5, tf.int32) tf.constant("a", tf.int32) tf.constant([1, "a"]) tf.constant(1,
tf.bool) tf.constant(None) tf.constant([1, None]) tf.constant([[1], [1, 2]]) tf.constant([1, 2], shape=[3],
verify_shape=True) tf.constant([1, 2, 3, 4], shape=[3]) tf.constant(object()) tf.constant(2**70) tf.constant(1j,
tf.float32) tf.constant(1, tf.string) tf.constant([1, x[0, 0]]) tf.convert_to_tensor([x, 1])
tf.convert_to_tensor(rows.shape) tf.ones([2], tf.string) tf.unstack(P(None)) tf.concat([x, P(2, 4)], 0) tf.concat([x,
x], 2) tf.stack([x, P(2, 4)]) tf.stack([x, x], 5) tf.split(x, 2, 1) tf.unstack(x, num=3) tf.reshape(x, [4, 4])
tf.reshape(x, [-1, -1]) tf.squeeze(x, 0) tf.expand_dims(x, 5) tf.transpose(x, [0, 0]) tf.tile(x, [1]) tf.pad(x, [[1,
1]]) tf.pad(x, [[0, 0], [0, 0]], mode="other") tf.broadcast_to(x, [3, 3]) cube[1.5] cube["a"] cube[4] cube[0, 0, 0, 0]
cube[..., ...] cube[::0] cube[tf.constant([1])] cube[True] tf.slice(x, [0], [5]) tf.gather(x, ids, axis=5)
tf.gather_nd(x, [[0, 0, 0]]) tf.boolean_mask(x, True) tf.boolean_mask(x, [True, False, True]) tf.where(x > 0, x)
tf.one_hot([0], 3, on_value=1.0, off_value=1) tf.unsorted_segment_sum(x, ids, -1) tf.segment_sum(x, [0, 0, 0])
tf.nn.top_k(x, 4) tf.matrix_diag_part(P(2)) tf.string_split(P(2, 2, d="string")) tf.group(3) tf.tuple([])
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
