"""Which two partitions need not talk to each other, because their master relays the values of one to the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.plan.partition import Partition, partition
from headrace.plan.prune import needed
from headrace.plan.relay import relay

PS, WORKER, OTHER = (
    f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker", "other")
)
OWN = "/job:worker/replica:0/task:0"


def parts(fetches: list[Any]) -> list[Partition]:
    pruned = needed([], fetches, [], exact=False)
    return partition(pruned, [], fetches, {op: op.device for op in pruned.ops}, lambda device: 7)


def variable(device: str = PS) -> tf.Tensor:
    with tf.device(device):
        return tf.Variable(1.0).value()


def plus_one() -> list[Any]:
    x = variable()
    with tf.device(WORKER):
        return [x + 1.0]


def with_a_variable_of_its_own() -> list[Any]:
    x, own = variable(), variable(WORKER)
    with tf.device(WORKER):
        return [x + own, x]


def after_a_dequeue_there() -> list[Any]:
    with tf.device(PS):
        x = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    with tf.device(WORKER):
        return [x + 1.0]


def beside_a_dequeue_there() -> list[Any]:
    """What is computed of x must not wait for the dequeue, which may never end."""
    with tf.device(PS):
        dequeued = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    return [dequeued, *plus_one()]


def after_an_update_there() -> list[Any]:
    x = variable()
    with tf.device(PS):
        update = tf.assign_add(tf.Variable(0.0), 1.0)
    with tf.device(WORKER), tf.control_dependencies([update]):
        return [x + 1.0]


def after_an_update_there_whose_value_it_wants() -> list[Any]:
    """The value says that the update has run: it comes with the request, and nothing may wait for more."""
    with tf.device(PS):
        update = tf.assign_add(tf.Variable(0.0), 1.0)
    with tf.device(WORKER), tf.control_dependencies([update.op]):
        return [tf.constant(1.0) + update]


def work_of_its_own() -> list[Any]:
    x = variable()
    with tf.device(WORKER):
        return [x + tf.random_uniform([])]


def a_dequeue_of_its_own() -> list[Any]:
    x = variable()
    with tf.device(WORKER):
        return [x + tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()]


def of_three_tasks() -> list[Any]:
    x, z = variable(), variable(OTHER)
    with tf.device(WORKER):
        return [x + z]


def of_one_task() -> list[Any]:
    return [variable(WORKER)]


def to_another_task() -> list[Any]:
    x = variable()
    with tf.device(OTHER):
        return [x + 1.0]


@pytest.mark.parametrize(
    "build",
    [
        plus_one,
        with_a_variable_of_its_own,
        after_an_update_there,
        after_an_update_there_whose_value_it_wants,
    ],
)
def test_what_begins_with_the_values_of_another_part_gets_them_from_the_master(
    build: Callable[[], list[Any]],
) -> None:
    with tf.Graph().as_default():
        made = parts(build())
        found, stages = relay(made, OWN) or ([], [])
        first, second = (found[index] for (index,) in stages)
        assert (first.task, second.task) == ("/job:ps/replica:0/task:0", OWN)
        assert first.given == second.taken == sorted(first.sends)
        for part in made:
            transfers = [node for node in part.graph_def.node if node.op in ("_Send", "_Recv")]
            assert all(node.attr["client_terminated"].b for node in transfers)
            fed = {f"^{node.name}" for node in transfers if node.op == "_Recv"}
            assert fed.isdisjoint(name for node in part.graph_def.node for name in node.input)


@pytest.mark.parametrize(
    "build",
    [
        after_a_dequeue_there,
        beside_a_dequeue_there,
        work_of_its_own,
        a_dequeue_of_its_own,
        of_three_tasks,
        of_one_task,
        to_another_task,
    ],
)
def test_others_talk_to_each_other(build: Callable[[], list[Any]]) -> None:
    with tf.Graph().as_default():
        made = parts(build())
        before = [part.graph_def.SerializeToString() for part in made]
        assert relay(made, OWN) is None
        assert [part.graph_def.SerializeToString() for part in made] == before
