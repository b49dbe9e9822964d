"""Examples and sequence examples: what headrace parses out of them is what TensorFlow parses, errors included."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.codec import protos as pb

KINDS = ["float", "int64", "bytes", "unset", "absent", "empty"]


def feature(rng: random.Random, kind: str, count: int) -> pb.Feature:
    """A feature of `count` values, or none."""
    found = pb.Feature()
    if kind == "float":
        found.float_list.value.extend(rng.uniform(-9, 9) for _ in range(count))
    elif kind == "int64":
        found.int64_list.value.extend(rng.randrange(-(2**40), 2**40) for _ in range(count))
    elif kind == "bytes":
        found.bytes_list.value.extend(rng.randbytes(rng.randrange(5)) for _ in range(count))
    elif kind == "empty":
        found.float_list.SetInParent()
    return found


def example(seed: int) -> bytes:
    rng = random.Random(seed)
    made = pb.Example()
    for key in ("f", "i", "b"):
        usual = {"f": "float", "i": "int64", "b": "bytes"}[key]
        kind = rng.choice([*KINDS, usual, usual, usual, usual])
        if kind != "absent":
            made.features.feature[key].CopyFrom(
                feature(rng, kind, rng.choice([0, 1, 2, 2, 2, 4, 40]))
            )
    return made.SerializeToString()


def sequence(seed: int) -> bytes:
    rng = random.Random(seed)
    made = pb.SequenceExample()
    made.context.feature["i"].CopyFrom(feature(rng, "int64", rng.choice([1, 2, 2, 2])))
    for key, usual in (("f", "float"), ("b", "bytes")):
        if rng.random() < 0.85:
            made.feature_lists.feature_list[key].SetInParent()
            for _ in range(rng.randrange(4)):
                kind = rng.choice([usual] * 12 + ["unset", "int64"])
                count = rng.choice([2] * 8 + [0, 1, 3])
                made.feature_lists.feature_list[key].feature.add().CopyFrom(
                    feature(rng, kind, count)
                )
    return made.SerializeToString()


EXAMPLES = [example(seed) for seed in range(90)] + [b"", b"\x0a\x7fq", b"\x0a\x05ab"]
SEQUENCES = [sequence(seed) for seed in range(90)] + [b"", b"\x0a\x7fq"]

FEATURES = {
    "sparse": "{'f': V(tf.float32), 'i': V(tf.int64), 'b': V(tf.string)}",
    "dense": "{'f': F([2], tf.float32), 'i': F([2, 1], tf.int64)}",
    "defaults": "{'f': F([2], tf.float32, [7., 8.]), 'i': F([], tf.int64, 3), 'b': F([2], tf.string, ['x', 'y'])}",
    "rows": "{'f': Q([2], tf.float32, True), 'i': Q([], tf.int64, True, -1), 'b': Q([1, 2], tf.string, True, 'z')}",
    "one": "{'f': F([40], tf.float32, [0.5] * 40)}",
    "rows of floats": "{'f': Q([2], tf.float32, True, 9.)}",
    "sparse feature": "{'s': tf.SparseFeature('i', 'f', tf.float32, 2**41)}",
    "other names": "{'x': V(tf.float32), 'y': F([1], tf.string, '')}",
}
SEQUENCE_FEATURES = {
    "dense": "{'i': F([2], tf.int64)}, {'f': Q([2], tf.float32), 'b': Q([], tf.string, True)}",
    "optional": "{'i': V(tf.int64)}, {'f': Q([2, 1], tf.float32, True)}",
    "sparse": "{'i': V(tf.int64)}, {'f': V(tf.float32), 'b': V(tf.string)}",
    "missing": "{'j': F([1], tf.int64, 5)}, {'g': Q([3], tf.int64, True), 'h': V(tf.int64)}",
    "required": "None, {'f': Q([2], tf.float32)}",
}
SOURCE = """
F, V, Q = tf.FixedLenFeature, tf.VarLenFeature, tf.FixedLenSequenceFeature

def plain(value):
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return [[key, plain(value[key])] for key in sorted(value)]
    if hasattr(value, "_fields"):
        return [plain(each) for each in value]
    return [str(np.asarray(value).dtype), list(np.shape(value)), np.asarray(value).tolist()]

p = tf.placeholder(tf.string, shape)
parsed = eval(call)
result = []
with tf.Session() as session:
    for fed in inputs:
        try:
            result.append(plain(session.run(parsed, {p: fed})))
        except tf.errors.OpError as error:
            result.append(type(error).__name__)
"""


def compared(oracle: Any, call: str, shape: list[Any], inputs: list[Any]) -> None:
    given = {"call": call, "shape": shape, "inputs": inputs}
    want = oracle.run(SOURCE, **given)
    names: dict[str, Any] = {"tf": hr, "np": np, **given}
    with hr.Graph().as_default():
        exec(SOURCE, names)
    for fed, ours, theirs in zip(inputs, names["result"], want, strict=True):
        assert (fed, ours) == (fed, theirs)
    assert any(not isinstance(theirs, str) for theirs in want)


def batches(items: list[bytes]) -> list[list[bytes]]:
    return [items[at : at + size] for size in (1, 2, 3, 5) for at in range(0, len(items), size)] + [
        []
    ]


@pytest.mark.parametrize("name", FEATURES)
def test_examples_are_parsed_as_by_tensorflow(name: str, oracle: Any) -> None:
    compared(oracle, f"tf.parse_example(p, {FEATURES[name]})", [None], batches(EXAMPLES))
    compared(oracle, f"tf.parse_single_example(p, {FEATURES[name]})", [], EXAMPLES)


@pytest.mark.parametrize("name", SEQUENCE_FEATURES)
def test_sequence_examples_are_parsed_as_by_tensorflow(name: str, oracle: Any) -> None:
    features = SEQUENCE_FEATURES[name]
    compared(
        oracle, f"tf.io.parse_sequence_example(p, {features})", [None], batches(SEQUENCES)[:-1]
    )
    compared(oracle, f"tf.parse_single_sequence_example(p, {features})", [], SEQUENCES)


OLDER = [
    "tf.raw_ops.ParseExample(serialized=p, names=[], sparse_"
    "keys=['f'], dense_keys=['i'], dense_defaults=[np.array([5, 6])], "
    "sparse_types=[tf.float32], dense_shapes=[[2]])",
    "tf.raw_ops.ParseSequenceExample(serialized=p, debug_name=[], context_dense_defaults=[np.array([5, 6])], "
    "feature_list_dense_missing_assumed_empty=['f'], context_sparse_keys=[], context_dense_keys=['i'], "
    "feature_list_sparse_keys=['b'], feature_list_dense_keys=['f'], Nfeature_list_sparse=1, Nfeature_list_dense=1, "
    "Ncontext_dense=1, Ncontext_sparse=0, feature_list_dense_types=[tf.float32], context_dense_shapes=[[2]], "
    "feature_list_sparse_types=[tf.string], feature_list_dense_shapes=[[2]], context_sparse_types=[])",
    "tf.raw_ops.ParseSingleExample(serialized=p, dense_defaults=[np.array([5, 6])], num_sparse=1, sparse_keys=['f'], "
    "dense_keys=['i'], sparse_types=[tf.float32], dense_shapes=[[2]])",
    "tf.raw_ops.ParseSingleSequenceExample(serialized=p, feature_list_dense_missing_assumed_empty=['f'], "
    "context_sparse_keys=[], context_dense_keys=['i'], feature_list_sparse_keys=['b'], feature_list_dense_keys=['f'], "
    "context_dense_defaults=[np.array([5, 6])], debug_name='', feature_list_dense_types=[tf.float32], "
    "context_dense_shapes=[[2]], feature_list_sparse_types=[tf.string], feature_list_dense_shapes=[[2]], "
    "context_sparse_types=[])",
]  # fmt: skip
GRAPH = """
def plain(value):
    array = np.asarray(value)
    return [str(array.dtype), list(array.shape), array.tolist()]

p = tf.placeholder(tf.string, shape, name="p")
made = tf.nest.flatten(list(eval(call)))
names = [tensor.name for tensor in made]
result = [tf.get_default_graph().as_graph_def().SerializeToString(), names, []]
with tf.Session() as session:
    for fed in inputs:
        try:
            values = session.run(made, {p: fed})
            result[2].append([plain(value) for value in values])
        except tf.errors.OpError as error:
            result[2].append(type(error).__name__)
"""


@pytest.mark.parametrize("call", OLDER, ids=[call[11:35].partition("(")[0] for call in OLDER])
def test_graphs_of_older_programs_parse_the_same(call: str, oracle: Any) -> None:
    single = "Single" in call
    items: list[Any] = SEQUENCES if "Sequence" in call else EXAMPLES
    given = {
        "call": call,
        "shape": [] if single else [None],
        "inputs": items if single else batches(items)[:-1],
    }
    graph, names, want = oracle.run(GRAPH, **given)
    with hr.Graph().as_default(), hr.Session() as session:
        tensors = hr.import_graph_def(
            hr.GraphDef.FromString(graph), return_elements=["p:0", *names], name=""
        )
        for fed, theirs in zip(given["inputs"], want, strict=True):
            try:
                values = session.run(tensors[1:], {tensors[0]: fed})
                ours: Any = [
                    [str(v.dtype), list(np.shape(v)), np.asarray(v).tolist()]
                    for v in map(np.asarray, values)
                ]
            except hr.errors.OpError as error:
                ours = type(error).__name__
            assert (fed, ours) == (fed, theirs)
