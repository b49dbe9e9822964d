"""GraphDefs as text: letter by letter what protobuf prints."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import headrace as tf
from headrace.codec import protos as pb
from headrace.codec.graph_text import graph_text


def _same(graph_def: pb.GraphDef) -> None:
    assert graph_text(graph_def) == text_format.MessageToString(graph_def)


def test_a_training_with_branches_and_functions() -> None:
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        data = tf.data.Dataset.from_tensor_slices(np.arange(6.0)).map(lambda x: x * 2.5).batch(2)
        x = tf.data.make_one_shot_iterator(data).get_next()
        v = tf.get_variable("v", [2], initializer=tf.truncated_normal_initializer(seed=3))
        y = tf.cond(x[0] > 1, lambda: v * 2, lambda: v + tf.constant([np.nan, -np.inf], tf.float32))
        tf.constant([b"a\x00\xff\n'\"", b""], name="bytes")
        tf.train.AdamOptimizer(1e-7).minimize(tf.reduce_sum(y))
        tf.summary.histogram("y", y)
        tf.train.Saver()
        for add_shapes in (False, True):
            _same(graph.as_graph_def(add_shapes=add_shapes))


@pytest.mark.parametrize("text", ["", "plain", "a'b", 'a"b', "a\\b", "ä", "a\tb", "\x7f", "日本"])
@pytest.mark.parametrize("field", ["name", "op", "input", "device", "key"])
def test_letters_that_are_escaped(text: str, field: str) -> None:
    node = pb.NodeDef(name="n", op="o")
    if field == "input":
        node.input.extend(["x", text])
    elif field == "key":
        node.attr[text].s = text.encode()
        node.attr["z"].i = -1
    else:
        setattr(node, field, text)
    _same(pb.GraphDef(node=[node, pb.NodeDef(name="last")]))


def test_every_kind_of_value() -> None:
    node = pb.NodeDef(name="n")
    node.attr["nothing"].SetInParent()
    node.attr["s"].s = bytes(range(256))
    node.attr["i"].i = -(2**63)
    node.attr["f"].f = 1e-45
    node.attr["g"].f = 1.0
    node.attr["b"].b = False
    node.attr["type"].type = 999  # type: ignore[assignment]
    node.attr["shape"].shape.unknown_rank = True
    node.attr["list"].list.SetInParent()
    node.attr["lists"].list.f.extend([0.1, float("nan"), float("inf"), 16777216.0])
    node.attr["placeholder"].placeholder = "p'"
    node.attr["func"].func.name = "f"
    for key in ("b", "a", "c"):
        node.attr["func"].func.attr[key].i = 3
    node.attr["tensor"].tensor.double_val.extend([0.1, 1e300, -0.0])
    again = pb.NodeDef(name="again", experimental_debug_info={"original_node_names": ["n"]})
    _same(pb.GraphDef(node=[node, again, node]))


def test_what_graphs_have_beside_nodes() -> None:
    graph_def = pb.GraphDef(version=3, versions=pb.VersionDef(producer=24, bad_consumers=[1, 2]))
    graph_def.library.function.add().signature.name = "f"
    _same(graph_def)
    _same(pb.GraphDef())
