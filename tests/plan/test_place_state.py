"""State stays where it is: a group of nodes is the whole graph's, whatever part of it a run needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import headrace as tf
from headrace.plan.place import Groups, place

PS, W0, W1 = (
    f"/job:{task}/device:CPU:0"
    for task in ("ps/replica:0/task:0", "worker/replica:0/task:0", "worker/replica:0/task:1")
)
DEVICES = [PS, W0, W1]


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


class Placing:
    """Runs of one session on a graph that grows."""

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._groups = Groups()

    def __call__(self, *names: str) -> list[str]:
        """Devices of the nodes in a run of just these."""
        self._groups.add(self._graph.operations_since(self._groups.count))
        ops = [self._graph.get_operation_by_name(name) for name in names]
        found = place(ops, DEVICES, groups=self._groups)
        return [found[op] for op in ops]


@pytest.fixture
def run(graph: tf.Graph) -> Placing:
    return Placing(graph)


def queue_with_a_user() -> None:
    queue = tf.FIFOQueue(1, [tf.float32], [[]], name="state")
    with tf.device("/job:worker/task:1"):
        queue.enqueue(1.0, name="user")
    queue.size(name="other")


def variable_with_a_user() -> None:
    variable = tf.Variable(1.0, name="state")
    with tf.device("/job:worker/task:1"):
        variable.assign_add(1.0, name="user")
    variable.op._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue()))
    tf.get_default_graph().get_operation_by_name("user").device = "/job:worker/task:1"
    tf.assign(variable, 2.0, name="other")


def group_with_a_device() -> None:
    state = tf.Variable(1.0, name="state")
    with tf.colocate_with(state):
        tf.no_op(name="other")
    with tf.colocate_with(state):
        tf.no_op(name="user")
    tf.get_default_graph().get_operation_by_name("user").device = "/job:worker/task:1"


@pytest.mark.parametrize("build", [queue_with_a_user, variable_with_a_user, group_with_a_device])
def test_a_run_without_the_node_that_names_the_device_finds_the_state_there(
    run: Placing, build: Callable[[], None]
) -> None:
    build()
    assert run("state", "other") == [W1, W1]
    assert run("state", "user") == [W1, W1]


def test_state_that_was_placed_stays_though_the_graph_grows(run: Placing) -> None:
    queue = tf.FIFOQueue(1, [tf.float32], [[]], name="state")
    queue.size(name="size")
    assert run("state", "size") == [PS, PS]
    with tf.device("/job:worker/task:1"):
        queue.enqueue(1.0, name="user")
    assert run("state", "user") == [PS, PS]
    assert run("state", "size") == [PS, PS]


def test_a_group_may_be_named_before_its_first_member_is_there(
    graph: tf.Graph, run: Placing
) -> None:
    early = tf.no_op(name="early")
    early._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@late"])))
    run("early")
    with tf.device("/job:worker/task:0"):
        tf.Variable(1.0, name="late")
    assert run("early", "late") == [W0, W0]


def test_a_conflict_in_a_group_that_is_not_run_does_not_matter(run: Placing) -> None:
    with tf.device("/job:ps"):
        tf.no_op(name="a")
    with tf.device("/job:worker"):
        b = tf.no_op(name="b")
        tf.no_op(name="free")
    b._set_attr("_class", tf.AttrValue(list=tf.AttrValue.ListValue(s=[b"loc:@a"])))
    assert run("free") == [W0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="'a' and 'b' must be on one device"):
        run("a")
