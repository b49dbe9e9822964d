"""A GraphDef that is asked for again is the one that was made, unless the graph has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.graphdef import _of

CHANGES: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda x: None,
    "a node": lambda x: tf.identity(x),
    "a shape": lambda x: x.set_shape([3]),
    "a device": lambda x: x.op._set_device("/job:ps/task:1"),
    "an attr": lambda x: x.op._set_attr("_note", b"text"),
    "an attr less": lambda x: x.op._clear_attr("_kept"),
    "a control input": lambda x: x.graph.get_operation_by_name("y")._add_control_input(x.op),
    "an input": lambda x: x.graph.get_operation_by_name("y")._update_input(0, x),
    "a function": lambda x: tf.data.Dataset.range(3).map(lambda n: n + 1).make_one_shot_iterator(),
}


@pytest.mark.parametrize("add_shapes", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_seen(change: str, add_shapes: bool) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None], name="x")
        x.op._set_attr("_kept", 3)
        tf.identity(tf.placeholder(tf.float32, [None]), name="y")
        before = graph.as_graph_def(add_shapes=add_shapes)
        assert graph.as_graph_def(add_shapes=add_shapes) == before
        CHANGES[change](x)
        after = graph.as_graph_def(add_shapes=add_shapes)
        nodes = _of(graph.get_operations(), add_shapes).node
        assert list(after.node) == list(nodes)
        assert (after == before) is (
            change == "nothing" or (change == "a shape" and not add_shapes)
        )


def test_what_is_given_is_the_callers_own() -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="x")
        for _ in range(3):
            found = graph.as_graph_def()
            assert [node.name for node in found.node] == ["x"]
            found.node[0].name = "y"
            found.node.add(name="z")


def test_a_large_graph_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.graph.graphdef._MOST_REMEMBERED", 100)
    with tf.Graph().as_default() as graph:
        tf.constant([1.0] * 1000)
        graph.as_graph_def()
        assert not graph._as_bytes
        assert isinstance(graph.as_graph_def(), pb.GraphDef)
