"""Steps of replicas in step: which stages they are cut into, and which steps are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.plan.partition import Partition
from headrace.plan.relay import relay
from tests.plan.test_round_trip import OWN, PS, PS1, WORKER, Built, parts, types

PS0_TASK, PS1_TASK = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"


def synchronous(servers: int) -> Built:
    """Two variables on that many parameter servers."""
    with tf.device(tf.train.replica_device_setter(servers, worker_device="/job:worker/task:0")):
        x = tf.placeholder(tf.float32, [2])
        w, b = tf.Variable([1.0, 2.0]), tf.Variable([0.5, 0.5])
        loss = tf.reduce_sum(tf.square(x * w + b))
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
        return [optimizer.minimize(loss, tf.train.get_or_create_global_step()), loss], [x]


def staged(built: Built) -> list[list[Partition]]:
    found, stages = relay(parts(built), OWN) or ([], [])
    return [[found[index] for index in stage] for stage in stages]


def test_a_step_reads_computes_hands_over_with_its_wait_and_keeps_the_token() -> None:
    with tf.Graph().as_default():
        (before,), (own,), (after,), (tail,) = staged(synchronous(1))
    assert types(before) == ["Identity", "Identity", "VariableV2", "VariableV2"]
    assert types(after).count("ResourceAccumulatorApplyGradient") == 2
    assert "QueueDequeueV2" in types(after)
    assert types(tail) == ["Assign", "VariableV2"]
    assert (before.task, own.task, after.task, tail.task) == (PS0_TASK, OWN, PS0_TASK, OWN)
    assert list(own.taken) == list(before.given)
    assert list(own.given) == list(after.taken)
    assert list(tail.taken) == list(after.given)
    assert len(after.given) == 1


def test_of_several_servers_one_waits_when_all_have_their_gradients() -> None:
    with tf.Graph().as_default():
        before, own, after, last, tail = staged(synchronous(2))
    assert [[part.task for part in stage] for stage in (before, own, after, last, tail)] == [
        [PS0_TASK, PS1_TASK], [OWN], [PS0_TASK, PS1_TASK], [PS0_TASK], [OWN],
    ]  # fmt: skip
    assert types(last[0]) == ["FIFOQueueV2", "QueueDequeueV2"]
    assert [key for part in after for key in part.given] == []
    assert list(tail[0].taken) == list(last[0].given)


def test_nothing_is_sent_or_received_any_more_and_every_input_is_there() -> None:
    with tf.Graph().as_default():
        for stage in staged(synchronous(2)):
            for part in stage:
                names = {node.name for node in part.graph_def.node}
                for node in part.graph_def.node:
                    assert names.issuperset(x.lstrip("^").partition(":")[0] for x in node.input)
                    assert node.op not in ("_Send", "_Recv") or node.attr["client_terminated"].b


def _on(device: str, make: Callable[[], Any]) -> Any:
    with tf.device(device):
        return make()


def something_else_comes_back() -> Any:
    """What does not need the token would wait for it."""
    w = _on(PS, lambda: tf.Variable(1.0))
    gradient = _on(WORKER, lambda: w * 2.0)
    with tf.device(PS):
        updated = w.assign_sub(gradient)
        with tf.control_dependencies([updated]):
            token = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
        also = updated + 1.0
    return _on(WORKER, lambda: [tf.square(also), tf.square(token)])


def it_waits_before_it_gets_all() -> Any:
    """The dequeue need not wait for the gradient."""
    w = _on(PS, lambda: tf.Variable(1.0))
    gradient = _on(WORKER, lambda: w * 2.0)
    with tf.device(PS):
        updated = w.assign_sub(gradient)
        token = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    return [_on(WORKER, lambda: tf.square(token)), updated]


def two_wait() -> Any:
    w = _on(PS, lambda: tf.Variable(1.0))
    gradient = _on(WORKER, lambda: w * 2.0)

    def token() -> Any:
        with tf.control_dependencies([gradient]):
            return tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()

    first, second = _on(PS, token), _on(PS1, token)
    return [_on(WORKER, lambda: first + second)]


def what_was_read_is_needed_in_the_end() -> Any:
    w = _on(PS, lambda: tf.Variable(1.0))
    read = _on(WORKER, lambda: w * 2.0)
    with tf.device(PS), tf.control_dependencies([w.assign_sub(read)]):
        token = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue()
    return [_on(WORKER, lambda: read + token)]


@pytest.mark.parametrize(
    "build",
    [
        something_else_comes_back,
        it_waits_before_it_gets_all,
        two_wait,
        what_was_read_is_needed_in_the_end,
    ],
)
def test_others_talk_to_each_other(build: Callable[[], Any]) -> None:
    with tf.Graph().as_default():
        made = parts((build(), []))
        before = [part.graph_def.SerializeToString() for part in made]
        assert relay(made, OWN) is None
        assert [part.graph_def.SerializeToString() for part in made] == before
