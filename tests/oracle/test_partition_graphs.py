"""The graphs that a step gives back when asked for: one per device, with the same nodes on each as TensorFlow's.

TensorFlow's optimizers are off, because they rename and replace nodes.  The names of transfers are our own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import in_process

GRAPHS = """
def graphs(target, fetches, feeds, **more):
    config = tf.ConfigProto(**more)
    config.graph_options.optimizer_options.opt_level = -1
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Session(target, config=config) as session:
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        session.run(fetches, feeds, tf.RunOptions(output_partition_graphs=True), metadata)
    found = []
    for graph in metadata.partition_graphs:
        assert len({node.name for node in graph.node}) == len(graph.node)
        (device,) = {node.device for node in graph.node}
        own = sorted((n.name.partition("/_")[0], n.op) for n in graph.node if n.op not in ("_Send", "_Recv"))
        transfers = sorted(n.op for n in graph.node if n.op in ("_Send", "_Recv"))
        found.append((device, own, transfers))
    return sorted(found)
"""

LOCAL = {
    "one device": """
x = tf.placeholder(tf.float32, [], name="x")
v = tf.Variable(2.0, name="v")
result = graphs("", [tf.add(v * 3.0, x, name="y"), v], {x: 1.0})
""",
    "two devices": """
with tf.device("/cpu:1"):
    v = tf.Variable(2.0, name="v")
    w = tf.multiply(v, 3.0, name="w")
with tf.device("/cpu:0"):
    b = tf.placeholder(tf.float32, [], name="b")
    a = tf.placeholder(tf.float32, [], name="a")
    y = tf.add_n([w, a, b], name="y")
    with tf.control_dependencies([w]):
        z = tf.identity(a, name="z")
result = graphs("", [z, y], {b: 1.0, a: 2.0}, device_count={"CPU": 2})
""",
}

CLUSTER = """
with tf.device("/job:ps/task:0"):
    v = tf.Variable(2.0, name="v")
    w = tf.multiply(v, 3.0, name="w")
with tf.device("/job:worker/task:0"):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.add(w, x, name="y")
result = graphs(target, y, {x: 1.0})
"""


def here(source: str, **names: Any) -> Any:
    with tf.Graph().as_default():
        found = {"tf": tf, "np": np, **names}
        exec(GRAPHS + source, found)
        return found["result"]


@pytest.mark.parametrize("case", LOCAL)
def test_a_local_step_has_the_same_graphs(case: str, oracle: Any) -> None:
    assert here(LOCAL[case]) == oracle.run(GRAPHS + LOCAL[case])


def test_a_step_on_two_tasks_has_the_same_graphs(oracle: Any) -> None:
    start = """
servers = [
    tf.train.Server(spec, job_name=job, task_index=0, protocol="grpc") for job in ("ps", "worker")
]
target = servers[1].target
"""
    with in_process({"ps": 1, "worker": 1}) as free:
        spec = free.spec
    theirs = oracle.run(start + GRAPHS + CLUSTER, spec=spec)
    with in_process({"ps": 1, "worker": 1}) as cluster:
        assert here(CLUSTER, target=cluster.target("worker:0")) == theirs
