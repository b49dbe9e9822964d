"""What partitions send each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.graph.registry import get
from headrace.plan.check import check_partitions
from headrace.plan.partition import partition
from headrace.plan.prune import needed

PS, WORKER = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as made:
        yield made


def sent(fetch: tf.Tensor, feeds: list[tf.Tensor] | None = None) -> dict[str, pb.NodeDef]:
    """What the ps sends, by name; the worker's nodes must find all that they name."""
    feeds = feeds or []
    pruned = needed(feeds, [fetch], [])
    ops = [*pruned.ops, *(tensor.op for tensor in feeds)]
    ps, worker = partition(pruned, feeds, [fetch], {op: op.device for op in ops}, lambda _: 7)
    check_partitions([ps, worker])
    names = {node.name for node in worker.graph_def.node}
    for node in worker.graph_def.node:
        assert {each.lstrip("^").partition(":")[0] for each in node.input} <= names
    nodes = {node.name: node for node in ps.graph_def.node}
    return {
        node.input[0]: node
        for node in nodes.values()
        if node.op == "_Send" and not node.attr["client_terminated"].b
    }


def source() -> tf.Tensor:
    with tf.device(PS):
        return tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue(name="source")


def after(op: tf.Operation, value: tf.Tensor | float) -> tf.Tensor:
    with tf.device(WORKER), tf.control_dependencies([op]):
        return tf.constant(1.0) + value


def test_a_value_says_that_its_node_has_run() -> None:
    x = source()
    assert [*sent(after(x.op, x))] == ["source"]


@pytest.mark.parametrize("first", ["value", "order"])
def test_it_does_so_wherever_it_goes_on_that_task(first: str) -> None:
    x = source()
    with tf.device(WORKER):
        pair = [after(x.op, 1.0), x + 1.0] if first == "order" else [x + 1.0, after(x.op, 1.0)]
        both = tf.add_n(pair)
    assert [*sent(both)] == ["source"]


def test_an_order_without_a_value_is_sent() -> None:
    assert [*sent(after(source().op, 1.0))] == ["source/ctrl/_1"]


def test_a_switch_that_has_run_is_told_apart_from_its_outputs_one_of_which_is_dead() -> None:
    x = source()
    with tf.device(PS):
        pred = tf.placeholder(tf.bool, [])
        no, _ = get("Switch")(x, pred)
    with tf.device(WORKER):
        merged = after(no.op, no)
    found = sent(merged, [pred])
    assert len(found) == 2
    assert any("/ctrl/" in name for name in found)


def test_a_value_that_is_fed_does_not_say_that_its_node_has_run() -> None:
    x = source()
    found = sent(after(x.op, x), [x])
    assert sorted(found) == ["_recv_source_0", "source/ctrl/_1"]
