"""Work on many elements at once gives, to the bit, what the kernel gives for each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base.traits import MAY_WAIT, PER_RECORD, STATEFUL, TOGETHER
from headrace.codec import images
from headrace.graph.registry import OPS, OpSpec, specs
from headrace.plan.binding import bound_kernel, returns_value
from headrace.plan.rules import batching_rules as table
from headrace.plan.rules.batching_rules import Node, batched
from headrace.run.queues.columns import row

ROWS = 5
FLOATS = np.random.default_rng(1).normal(size=(ROWS, 2, 3)).astype(np.float32)
NUMBERS = np.array([-3, 0, 7, 2**31 - 1, 5], np.int32)
BOOLS = np.array([True, False, True, True, False])
K = tf.constant

Build = Callable[[Any], Any]


def strings(*values: bytes) -> Any:
    column = np.empty(len(values), object)
    column[:] = values
    return column


def example(number: int) -> bytes:
    made = tf.train.Example()
    made.features.feature["n"].int64_list.value.append(number)
    made.features.feature["x"].float_list.value.extend([number / 3] * 4)
    made.features.feature["s"].bytes_list.value.append(b"%d" % number)
    if number % 2:
        made.features.feature["odd"].int64_list.value.append(number)
    content: bytes = made.SerializeToString()
    return content


EXAMPLES = strings(*map(example, range(ROWS)))
FEATURES = {
    "n": tf.FixedLenFeature([], tf.int64),
    "x": tf.FixedLenFeature([2, 2], tf.float32),
    "s": tf.FixedLenFeature([1], tf.string),
    "odd": tf.FixedLenFeature([], tf.int64, default_value=-1),
}
CSV = strings(b"1,a,2.5", b'-7,"b,""c""",', b"0,,1e-3", b" 5 ,d,inf", b"6,e,0x10")
WORDS = strings(b"abcd", b"efgh", b"\x00\x01\x02\x03", b"\xff\xfe\xfd\xfc", b"0000")
BYTES = np.random.default_rng(3).integers(0, 256, (ROWS, 2, 5, 4, 3)).astype(np.uint8)
PNGS = strings(*[images.encode_png(picture[0], -1) for picture in BYTES])
JPEGS = strings(
    *[
        images.encode_jpeg(np.tile(picture[0], (4, 4, 1)), 90, False, False, True, (72, 72), b"")
        for picture in BYTES
    ]
)

COLORS = BYTES[:, 0].astype(np.float32) / 255
HALVES = np.random.default_rng(4).normal(size=(ROWS, 2, 3, 4, 3)).astype(np.float16)

LONG = np.random.default_rng(5).normal(size=(ROWS, 9, 25, 50)).astype(np.float32)

# op, rows, what is built of them
CASES: list[tuple[str, Any, Build]] = [
    ("AdjustContrastv2", COLORS, lambda x: tf.image.adjust_contrast(x, 0.7)),
    ("AdjustContrastv2", COLORS, lambda x: tf.image.adjust_contrast(x, x[0, 0, 0] + 1)),
    ("AdjustContrastv2", HALVES, lambda x: tf.image.adjust_contrast(x, 1.5)),
    ("AdjustHue", COLORS, lambda x: tf.image.adjust_hue(x, -0.3)),
    ("AdjustHue", COLORS, lambda x: tf.image.adjust_hue(x, x[0, 0, 0] * 2)),
    ("AdjustHue", HALVES, lambda x: tf.image.adjust_hue(x, 0.9)),
    ("AdjustSaturation", COLORS, lambda x: tf.image.adjust_saturation(x, 0.5)),
    ("AdjustSaturation", COLORS, lambda x: tf.image.adjust_saturation(x, x[0, 0, 0] * 3)),
    ("AdjustSaturation", HALVES, lambda x: tf.image.adjust_saturation(x, 2.0)),
    ("Cast", NUMBERS, lambda x: tf.cast(x, tf.float32)),
    ("Cast", FLOATS, lambda x: tf.cast(x, tf.float64)),
    ("ClipByValue", FLOATS, lambda x: OPS["ClipByValue"](x, -0.5, 0.5)),
    ("DecodeCSV", CSV, lambda x: tf.decode_csv(x, [[1], [""], [0.5]])),
    ("DecodeCSV", CSV, lambda x: tf.decode_csv(x, [[0.5]], select_cols=[2])),
    ("DecodeRaw", WORDS, lambda x: tf.decode_raw(x, tf.int16)),
    ("DecodeJpeg", JPEGS, tf.image.decode_jpeg),
    ("DecodeJpeg", JPEGS, lambda x: tf.image.decode_jpeg(x, 1, ratio=2, dct_method="INTEGER_ACCURATE")),
    ("DecodePng", PNGS, tf.image.decode_png),
    ("DecodePng", PNGS, lambda x: tf.image.decode_png(x, 1, tf.uint16)),
    ("ExpandDims", FLOATS, lambda x: tf.expand_dims(x, 1)),
    ("ExpandDims", NUMBERS, lambda x: tf.expand_dims(x, -1)),
    ("Pack", FLOATS, lambda x: tf.stack([x, np.ones((2, 3), np.float32), x], axis=-2)),
    ("Pack", NUMBERS, lambda x: tf.stack([x, 4, x])),
    ("Pack", WORDS, lambda x: tf.stack([x, x], axis=0)),
    ("ParseExampleV2", EXAMPLES, lambda x: list(tf.parse_single_example(x, FEATURES).values())),
    (
        "ParseSingleExample",
        EXAMPLES,
        lambda x: OPS["ParseSingleExample"](
            x, [K(np.int64(9)), K(np.empty(0, np.float32))], num_sparse=0, sparse_keys=[], sparse_types=[],
            dense_keys=[b"odd", b"x"], Tdense=[tf.int64, tf.float32],
            dense_shapes=[tf.TensorShape([]), tf.TensorShape([4])],
        ),
    ),
    ("Reshape", FLOATS, lambda x: tf.reshape(x, [3, -1])),
    ("Reshape", FLOATS, lambda x: tf.reshape(x, [-1])),
    ("ReverseV2", FLOATS, lambda x: tf.reverse(x, [1])),
    ("ReverseV2", BYTES, lambda x: tf.reverse(x, [-2, 0])),
    ("Shape", FLOATS, lambda x: OPS["Shape"](x)),
    ("Shape", NUMBERS, lambda x: OPS["Shape"](x, out_type=tf.int64)),
    ("Slice", FLOATS, lambda x: tf.slice(x, [1, 0], [-1, 2])),
    ("Slice", NUMBERS[:, None] % 1, lambda x: tf.slice(x, x, [1])),
    ("StridedSlice", FLOATS, lambda x: x[1, ::-2]),
    ("StridedSlice", FLOATS, lambda x: x[..., tf.newaxis, 1:]),
    ("Transpose", FLOATS, lambda x: tf.transpose(x, [1, 0])),
    ("Identity", FLOATS, tf.identity),
    ("LogicalNot", BOOLS, tf.logical_not),
    ("Neg", FLOATS, tf.negative),
    ("Square", FLOATS, tf.square),
    ("StringToNumber", strings(b"1", b" 2.5", b"-1e9", b"0", b"3"), tf.string_to_number),
    ("AddV2", FLOATS, lambda x: x + K(np.arange(3, dtype=np.float32))),
    ("AddV2", FLOATS, lambda x: x + x),
    ("Add", NUMBERS, lambda x: OPS["Add"](x, 2**31 - 1)),
    ("Equal", NUMBERS, lambda x: tf.equal(x, 7)),
    ("Equal", WORDS, lambda x: tf.equal(x, b"efgh")),
    ("Greater", NUMBERS, lambda x: tf.greater(5, x)),
    ("GreaterEqual", FLOATS, lambda x: x >= 0.5),
    ("Less", FLOATS, lambda x: x < 0.5),
    ("LessEqual", NUMBERS, lambda x: x <= 0),
    ("LogicalAnd", BOOLS, lambda x: tf.logical_and(x, True)),
    ("LogicalOr", BOOLS, lambda x: tf.logical_or(x, x)),
    ("Mul", NUMBERS, lambda x: x * 3),
    ("NotEqual", NUMBERS, lambda x: tf.not_equal(x, 7)),
    ("RealDiv", FLOATS, lambda x: tf.realdiv(x, 3.0)),
    ("AsString", NUMBERS, tf.as_string),
    ("ConcatV2", FLOATS, lambda x: tf.concat([x, K(np.ones((2, 1), np.float32)), x], axis=-1)),
    ("ConcatV2", FLOATS, lambda x: tf.concat([x, x], axis=0)),
    ("FloorDiv", NUMBERS, lambda x: x // 3),
    ("FloorMod", FLOATS, lambda x: x % 0.75),
    ("MatMul", FLOATS, lambda x: tf.matmul(x, K(np.ones((3, 4), np.float32) / 3))),
    ("MatMul", FLOATS, lambda x: tf.matmul(K(np.ones((4, 3), np.float32) / 3), x, transpose_b=True)),
    ("MatMul", FLOATS, lambda x: tf.matmul(x, x, transpose_a=True)),
    ("MatMul", COLORS, lambda x: tf.image.rgb_to_grayscale(tf.tile(x, [20, 20, 1]))),
    ("MatMul", HALVES, lambda x: tf.matmul(x[0, 0], K(np.ones((3, 2), np.float16) / 3))),
    ("Mean", FLOATS, tf.reduce_mean),
    ("Mean", HALVES, lambda x: tf.reduce_mean(x, [-1, -2, -3, 0], keepdims=True)),
    ("Mean", LONG, tf.reduce_mean),
    ("Mean", BYTES, lambda x: tf.reduce_mean(x, [1, 2])),
    ("MirrorPad", FLOATS, lambda x: tf.pad(x, [[0, 1], [2, 1]], "REFLECT")),
    ("MirrorPad", BYTES, lambda x: tf.pad(x, [[0, 0], [2, 1], [3, 0], [1, 1]], "SYMMETRIC")),
    ("OneHot", NUMBERS % 4, lambda x: tf.one_hot(x, 4, on_value=2.5)),
    ("OnesLike", FLOATS, lambda x: OPS["OnesLike"](x)),
    ("Pad", FLOATS, lambda x: tf.pad(x, [[0, 1], [2, 0]])),
    ("Pad", WORDS, lambda x: tf.pad(tf.expand_dims(x, 0), [[1, 1]])),
    ("PadV2", BYTES, lambda x: tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=7)),
    ("Pow", np.abs(FLOATS), lambda x: tf.pow(x, 1.7)),
    ("Round", FLOATS, tf.round),
    ("Select", BOOLS, lambda x: tf.where(x, x, x)),
    ("SelectV2", BOOLS, lambda x: tf.where_v2(x, x, x)),
    ("Squeeze", FLOATS[..., None], lambda x: tf.squeeze(x, [-1])),
    ("Squeeze", FLOATS[:, None], tf.squeeze),
    ("ResizeArea", BYTES, lambda x: tf.image.resize_area(x, [3, 3])),
    ("ResizeBicubic", BYTES, lambda x: tf.image.resize_bicubic(x, [7, 3], half_pixel_centers=True)),
    ("ResizeBilinear", BYTES, lambda x: tf.image.resize_bilinear(x, [3, 7])),
    ("ResizeBilinear", BYTES, lambda x: tf.image.resize_bilinear(tf.cast(x, tf.float32), [2, 2])),
    ("ResizeNearestNeighbor", BYTES, lambda x: tf.image.resize_nearest_neighbor(x, [7, 7])),
    ("Sum", FLOATS, tf.reduce_sum),
    ("Sum", LONG, lambda x: tf.reduce_sum(x, keepdims=True)),
    ("Sum", NUMBERS[:, None] + NUMBERS, lambda x: tf.reduce_sum(x, 0)),
    ("StopGradient", FLOATS, tf.stop_gradient),
    ("StringLength", WORDS, tf.strings.length),
    ("StringLower", WORDS, tf.strings.lower),
    ("StringStrip", WORDS, tf.strings.strip),
    ("StringToHashBucket", WORDS, lambda x: tf.string_to_hash_bucket(x, 9)),
    ("StringToHashBucketFast", WORDS, lambda x: tf.string_to_hash_bucket_fast(x, 9)),
    ("StringToHashBucketStrong", WORDS, lambda x: tf.string_to_hash_bucket_strong(x, 9, [1, 2])),
    ("StringUpper", WORDS, tf.strings.upper),
    ("ZerosLike", WORDS, lambda x: OPS["ZerosLike"](x)),
    ("All", FLOATS > 0, lambda x: tf.reduce_all(x, [0])),
    ("All", BOOLS, lambda x: tf.reduce_all(x)),
    ("Any", FLOATS > 1, lambda x: tf.reduce_any(x, [1], keepdims=True)),
    ("Max", FLOATS, lambda x: tf.reduce_max(x, -1)),
    ("Min", FLOATS, lambda x: tf.reduce_min(x)),
    ("Tile", FLOATS, lambda x: tf.tile(x, [2, 3])),
    ("Tile", BYTES, lambda x: tf.tile(x, [1, 2, 1, 3])),
    ("AddV2", FLOATS, lambda x: x + K(np.float32(1))),
    ("Exp", FLOATS, tf.exp),
    ("Log1p", np.abs(FLOATS), tf.log1p),
    ("Relu", FLOATS, tf.nn.relu),
    ("Rsqrt", np.abs(FLOATS), tf.rsqrt),
    ("Sigmoid", FLOATS, tf.sigmoid),
    ("SquaredDifference", FLOATS, lambda x: tf.squared_difference(x, 0.5)),
    ("Tanh", FLOATS, tf.tanh),
    ("Maximum", FLOATS, lambda x: tf.maximum(x, 0.1)),
    ("Sub", FLOATS, lambda x: K(np.full((2, 3), 2, np.float32)) - x),
]  # fmt: skip

# which have no row in the table
ELEMENT_BY_ELEMENT = (
    "AddV2 Exp Greater GreaterEqual Less LessEqual Log1p LogicalAnd LogicalNot LogicalOr Maximum Mul Neg RealDiv "
    "Relu Rsqrt Sigmoid Square SquaredDifference Sub Tanh"
).split()

# rows of the same kind of node that have to go one by one
ONE_BY_ONE: list[tuple[str, Any, Build]] = [
    ("Cast", FLOATS, lambda x: tf.cast(x, tf.int32)),
    ("AddV2", NUMBERS.astype(np.float32), lambda x: x + K(np.ones(ROWS, np.float32))),
    ("ParseExampleV2", EXAMPLES, lambda x: tf.parse_single_example(x, {"x": tf.VarLenFeature(tf.float32)})["x"].values),
    ("Slice", FLOATS, lambda x: tf.slice(x, tf.cast(x[0, :2], tf.int32), [-1, 0])),
    ("Slice", FLOATS, lambda x: tf.slice(x, [0, 0], tf.cast(x[0, :2], tf.int32))),
    ("ClipByValue", FLOATS, lambda x: OPS["ClipByValue"](x, x[0, 0], 2.0)),
    ("Mean", FLOATS, lambda x: tf.reduce_mean(x, 0)),
    ("Sum", FLOATS, lambda x: tf.reduce_sum(x, [1])),
    ("Pad", FLOATS, lambda x: tf.pad(x, tf.cast(x[0, :2] * 0, tf.int32)[:, None] + [[0, 0]])),
    ("AdjustHue", COLORS[:, 0], lambda x: OPS["AdjustHue"](tf.placeholder_with_default(x, None), x[0, 0])),
    ("Max", FLOATS, lambda x: tf.reduce_max(x, tf.cast(x[0, 0] * 0, tf.int32))),
    ("ReverseV2", FLOATS, lambda x: tf.reverse(x, tf.cast(x[0, :1] * 0, tf.int32))),
    ("ExpandDims", FLOATS, lambda x: tf.expand_dims(x, tf.cast(x[0, 0] * 0, tf.int32))),
]  # fmt: skip


def node(kind: str, rows: Any, build: Build) -> Node:
    """The only node of its kind that `build` makes of one of `rows`."""
    with tf.Graph().as_default() as graph:
        source = tf.placeholder(
            tf.as_dtype(rows.dtype if rows.dtype != object else tf.string), rows.shape[1:]
        )
        build(source)
        (op,) = [op for op in graph.get_operations() if op.type == kind]
        with tf.Session() as session:
            known = [None if _comes_from(source, t) else session.run(t) for t in op.inputs]
    varies = [value is None for value in known]
    ranks = [t.shape.ndims for t in op.inputs]
    return Node(op, bound_kernel(op, op.spec), varies, known, ranks)


def _comes_from(source: Any, tensor: Any) -> bool:
    return tensor is source or any(_comes_from(source, each) for each in tensor.op.inputs)


def given(made: Node, rows: Any, build: Build) -> list[Any]:
    """The node's inputs: for each of `rows` what varies, and once what is known."""
    with tf.Graph().as_default(), tf.Session() as session:
        source = tf.placeholder(
            tf.as_dtype(rows.dtype if rows.dtype != object else tf.string), rows.shape[1:]
        )
        build(source)
        (op,) = [op for op in source.graph.get_operations() if op.type == made.op.type]
        return [
            column_of([np.asarray(session.run(t, {source: row(rows, at)})) for at in range(ROWS)])
            if varies
            else value
            for t, varies, value in zip(op.inputs, made.rows, made.known, strict=True)
        ]


def column_of(values: list[Any]) -> Any:
    column = np.empty((len(values), *values[0].shape), values[0].dtype)
    for at, value in enumerate(values):
        column[at] = value if value.ndim else value[()]
    return column


@pytest.mark.parametrize(("kind", "rows", "build"), CASES)
def test_together_is_one_by_one(kind: str, rows: Any, build: Build) -> None:
    made = node(kind, rows, build)
    together = batched(made)
    assert together is not None
    found = together(*given(made, rows, build))
    found = [found] if returns_value(made.op.spec) else list(found)
    with tf.Graph().as_default(), tf.Session() as session:
        source = tf.placeholder(made.op.inputs[made.rows.index(True)].dtype, rows.shape[1:])
        build(source)
        (op,) = [op for op in source.graph.get_operations() if op.type == kind]
        for at in range(ROWS):
            alone = session.run(list(op.outputs), {source: row(rows, at)})
            for wanted, column in zip(alone, found, strict=True):
                mine = column[at]
                assert np.shape(mine) == np.shape(wanted)
                if column.dtype == object:
                    assert np.array_equal(mine, wanted)
                else:
                    assert mine.dtype == wanted.dtype
                    assert np.asarray(mine).tobytes() == np.asarray(wanted).tobytes()


@pytest.mark.parametrize(
    ("build", "copied"),
    [
        (lambda x: x[0], False),
        (lambda x: x[:, tf.newaxis], False),
        (lambda x: x[0, ::-1], True),
        (lambda x: x[0, 1:], True),
    ],
)
def test_all_of_an_array_is_not_copied(build: Build, copied: bool) -> None:
    rows = FLOATS[:, None]
    made = node("StridedSlice", rows, build)
    together = batched(made)
    assert together is not None
    assert np.shares_memory(together(rows, *made.known[1:]), rows) != copied


@pytest.mark.parametrize(("kind", "rows", "build"), ONE_BY_ONE)
def test_what_could_come_out_otherwise_goes_one_by_one(kind: str, rows: Any, build: Build) -> None:
    assert batched(node(kind, rows, build)) is None


def test_every_rule_has_a_case() -> None:
    others = {kind for kind, *_ in CASES} - set(table._RULES)
    assert {kind for kind, *_ in CASES} >= set(table._RULES)
    assert others == {*ELEMENT_BY_ELEMENT}


@pytest.mark.parametrize(
    "spec",
    [spec for spec in specs() if not spec.traits.isdisjoint({PER_RECORD, TOGETHER})],
    ids=str,
)
def test_what_may_be_done_record_by_record_only_computes(spec: OpSpec) -> None:
    assert spec.traits.isdisjoint({STATEFUL, MAY_WAIT})


def test_what_has_a_rule_may_be_done_record_by_record_or_is_made_for_many() -> None:
    for name in table._RULES:
        assert (PER_RECORD in OPS[name].traits) != (TOGETHER in OPS[name].traits)


def test_what_is_made_for_many_has_a_rule() -> None:
    assert {spec.name for spec in specs() if TOGETHER in spec.traits} <= set(table._RULES)
