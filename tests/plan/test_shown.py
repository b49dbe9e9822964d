"""Graphs as they are shown to who asks for them: one per device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.plan.partition import shown
from headrace.plan.place import place
from headrace.plan.prune import needed
from headrace.serve.server import Server

CPUS = [f"/job:localhost/replica:0/task:0/device:CPU:{number}" for number in range(2)]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def graphs_of(feeds: list[tf.Tensor], fetches: list[tf.Tensor]) -> list[pb.GraphDef]:
    pruned = needed(feeds, fetches, [])
    ops = list(dict.fromkeys([*pruned.ops, *(tensor.op for tensor in feeds)]))
    return shown(pruned, feeds, fetches, place(ops, CPUS), 1)


def test_every_input_is_a_node_of_the_same_graph() -> None:
    with tf.device("/cpu:1"):
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        total = x + y
    with tf.device("/cpu:0"):
        result = tf.identity(total * 2.0, name="total/_1")  # as a transfer might be called
        more = tf.identity(total)
    for graph in graphs_of([y, x], [result, more, x]):
        names = [node.name for node in graph.node]
        assert len(set(names)) == len(names)
        inputs = {name.lstrip("^").partition(":")[0] for node in graph.node for name in node.input}
        assert inputs <= set(names)
        numbers = [node.attr["index"].i for node in graph.node if node.op == "_Arg"]
        assert numbers in ([], [0, 1], [1, 0])


def test_a_loop_from_device_to_device_is_shown_whole() -> None:
    def body(i: tf.Tensor) -> tf.Tensor:
        with tf.device("/cpu:1"):
            return i + 1

    with tf.device("/cpu:0"):
        result = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    names = {node.name for graph in graphs_of([], [result]) for node in graph.node}
    assert {op.name for op in needed([], [result], []).ops} <= names
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        assert session.run(result) == 3


def test_a_task_with_two_devices_shows_both() -> None:
    with tf.device("/cpu:1"):
        a = tf.constant(1.0) + 1.0
    with tf.device("/cpu:0"):
        b = tf.identity(a * 2.0)
    config = tf.ConfigProto(device_count={"CPU": 2})
    metadata = tf.RunMetadata()
    with Server.create_local_server(config) as server, tf.Session(server.target) as session:
        wanted = tf.RunOptions(output_partition_graphs=True)
        assert session.run(b, options=wanted, run_metadata=metadata) == 4.0
    shown_on = [{node.device[-1] for node in graph.node} for graph in metadata.partition_graphs]
    assert shown_on == [{"0"}, {"1"}]
