"""What `tf.contrib` had, beside tf-slim: nodes, values, collections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

BUILT = """
tf.reset_default_graph()
x = tf.constant([1.0, -2.0, 3.0], name="x")
found = eval(what)
graph = tf.get_default_graph()
nodes = {n.name: (n.op, list(n.input)) for n in graph.as_graph_def().node}
constants = {
    n.name: tf.make_ndarray(n.attr["value"].tensor).tolist() for n in graph.as_graph_def().node if n.op == "Const"
}
collections = {key: [v.name for v in tf.get_collection(key)] for key in graph.get_all_collection_keys()}
value = None
if isinstance(found, tf.Tensor):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        value = np.asarray(session.run(found)).tolist()
result = getattr(found, "name", found), nodes, constants, collections, value
"""
SOURCES = [
    "L.l1_regularizer(0.5)(x)",
    "L.l1_regularizer(0.5, 'mine')(x)",
    "L.l1_regularizer(0.0)(x)",
    "L.l2_regularizer(0.5)(x)",
    "L.l1_l2_regularizer(0.5, 0.25)(x)",
    "L.l1_l2_regularizer(0.0, 0.25, 'both')(x)",
    "L.sum_regularizer([L.l1_regularizer(0.5), L.l2_regularizer(0.5)])(x)",
    "L.sum_regularizer([L.l1_regularizer(0.5), None], scope='s')(x)",
    "L.apply_regularization(L.l2_regularizer(0.5), [tf.Variable(x, name='v'), tf.Variable([2.0], name='w')])",
    "L.apply_regularization(L.l1_regularizer(0.5), [tf.Variable(x, name='v')])",
    *(
        f"tf.get_variable('v', {shape}, initializer=L.{make})"
        for shape in ([2, 3], [2, 3, 4, 5], [7], [])
        for make in (
            "xavier_initializer(seed=3)",
            "xavier_initializer_conv2d(uniform=False)",
            "variance_scaling_initializer()",
            "variance_scaling_initializer(1.5, 'FAN_OUT', True)",
        )
    ),
]


@pytest.mark.parametrize("source", SOURCES)
def test_nodes_and_values_are_those_of_tf_slim(source: str, oracle: Any) -> None:
    theirs = oracle.run(
        "import sys, tf_slim.layers; L = sys.modules['tf_slim.layers']\n" + BUILT, what=source
    )
    with hr.Graph().as_default():
        names: dict[str, Any] = {"tf": _Quiet(), "np": np, "L": hr.contrib.layers, "what": source}
        exec(BUILT, names)
    assert names["result"] == theirs


class _Quiet:
    """headrace, whose default graph here is the test's own."""

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "reset_default_graph" else getattr(hr, name)
