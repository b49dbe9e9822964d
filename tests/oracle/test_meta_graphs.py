"""Meta graphs beside TensorFlow's: collections and messages, and what each makes of the other's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.codec import protos as pb

BUILT = """
with tf.name_scope("s"):
    x = tf.placeholder_with_default(tf.ones([1, 2]), [None, 2], name="x")
    v = tf.get_variable("v", initializer=[[1., 2., 3.], [4., 5., 6.]])
    r = tf.get_variable("r", initializer=[[1., 2.]], use_resource=True, trainable=False)
    y = tf.matmul(x, v, name="y")
    def body(i, a):
        return [i + 1, a + tf.cond(i > 3, lambda: 1., lambda: tf.reduce_sum(y))]
    _, a = tf.while_loop(lambda i, a: i < 10, body, [0, 0.])
    loop = lambda: tf.while_loop(lambda j: j < 3, lambda j: j * 2., [1.])
    c = tf.cond(a > 1, lambda: tf.reduce_sum(r) * 2, loop, name="c")
p = tf.get_variable("p", [4, 3], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
q = tf.FIFOQueue(3, [tf.float32], name="q")
tf.train.add_queue_runner(tf.train.QueueRunner(q, [q.enqueue(1.)] * 2))
for key, value in dict(tensor=y, op=y.op, int=3, float=2.5, bytes=b"abc", str="x", any=object()).items():
    tf.add_to_collection(key, value)
tf.add_to_collection("mixed", y); tf.add_to_collection("mixed", 3)
tf.add_to_collection("result", a); tf.add_to_collection("result", c)
tf.train.get_or_create_global_step()
with tf.device("/job:ps/task:1"):
    tf.constant(1., name="c")
tf.add_to_collection("savers", tf.train.Saver())
"""
EXPORTED = "result = tf.train.export_meta_graph(**options).SerializeToString()"
IMPORTED = """
tf.train.import_meta_graph(path, import_scope=scope, clear_devices=True)
v, results = tf.trainable_variables()[0], tf.get_collection("result")
fetches = [*results, tf.gradients(results[0], v)[0]]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    result = [np.asarray(value).tolist() for value in session.run(fetches)]
"""
MESSAGES = {
    "cond_context": pb.CondContextDef,
    "while_context": pb.WhileContextDef,
    "variables": pb.VariableDef,
    "trainable_variables": pb.VariableDef,
    "global_step": pb.VariableDef,
    "queue_runners": pb.QueueRunnerDef,
    "savers": pb.SaverDef,
}


def ours(source: str, **names: Any) -> Any:
    with tf.Graph().as_default():
        inside: dict[str, Any] = {"tf": tf, "np": np, **names}
        exec(source, inside)
        return inside["result"]


def collections(found: pb.MetaGraphDef) -> dict[str, Any]:
    return {
        key: [MESSAGES[key].FromString(value) for value in collection.bytes_list.value]
        if key in MESSAGES
        else collection
        for key, collection in found.collection_def.items()
    }


@pytest.mark.parametrize("name", ["clear_devices", "strip_default_attrs", "neither"])
def test_a_meta_graph_is_tensorflows(oracle: Any, name: str) -> None:
    options = {} if name == "neither" else {name: True}
    mine = pb.MetaGraphDef.FromString(ours(BUILT + EXPORTED, options=options))
    theirs = pb.MetaGraphDef.FromString(oracle.run(BUILT + EXPORTED, options=options))
    assert collections(mine) == collections(theirs)
    assert [(node.name, node.op, node.device) for node in mine.graph_def.node] == [
        (node.name, node.op, node.device) for node in theirs.graph_def.node
    ]
    used = [[op.name for op in found.meta_info_def.stripped_op_list.op] for found in (mine, theirs)]
    assert used[0] == used[1]


def test_what_a_scope_holds_is_seen_from_inside_as_in_tensorflow(oracle: Any) -> None:
    options = {"export_scope": "s"}
    mine = pb.MetaGraphDef.FromString(ours(BUILT + EXPORTED, options=options))
    theirs = pb.MetaGraphDef.FromString(oracle.run(BUILT + EXPORTED, options=options))
    assert [node.name for node in mine.graph_def.node] == [
        node.name for node in theirs.graph_def.node
    ]
    assert sorted(mine.collection_def) == sorted(theirs.collection_def)
    key = "unbound_inputs"
    unbound = [{*found.collection_def[key].bytes_list.value} for found in (mine, theirs)]
    assert unbound[0] == unbound[1]


@pytest.mark.parametrize("scope", [None, "imported"])
def test_each_imports_the_others_with_gradients_through_loops(
    oracle: Any, tmp_path: Path, scope: str | None
) -> None:
    found = []
    for name, export in (("mine", ours), ("theirs", oracle.run)):
        path = tmp_path / name
        path.write_bytes(export(BUILT + EXPORTED, options={}))
        for run in (ours, oracle.run):
            found.append(run(IMPORTED, path=str(path), scope=scope))
    assert found == [[90.0, 6.0, [[4.0] * 3] * 2]] * 4
