"""Errors of nodes that fail somewhere in a cluster, over every transport: class, text and every field."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import Cluster

PS, WORKER_1 = (
    f"/job:{task}/device:CPU:0" for task in ("ps/replica:0/task:0", "worker/replica:0/task:1")
)


@pytest.mark.parametrize("device", [PS, WORKER_1])
def test_an_error_carries_node_op_device_step_and_where_it_was_built(
    cluster: Cluster, device: str
) -> None:
    with tf.device(device):
        x = tf.placeholder(tf.int32, [None], name="x")
        bad = tf.gather(x, 7, name="lookup")  # built here
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.endswith("# built here")
    )
    with tf.Session(cluster.target("worker:0")) as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(bad, {x: [1, 2]})
        error = caught.value
        assert error.error_code == tf.errors.INVALID_ARGUMENT
        assert error.node == bad.op.name
        assert error.op_type == bad.op.type
        assert error.device == device
        assert error.step is not None
        assert error.step > 0
        assert error.built_at is not None
        assert error.built_at.endswith(f"test_errors.py:{line}")
        assert error.op is bad.op
        assert error.node_def == bad.op.node_def
        for part in (bad.op.name, device, "test_errors.py"):
            assert part in str(error)
        assert session.run(x + 1, {x: [1]}).tolist() == [2]


def test_the_consumer_on_another_task_gets_the_producers_error(cluster: Cluster) -> None:
    with tf.device(PS):
        variable = tf.Variable([1.0], name="never_initialized")
    with tf.device(WORKER_1):
        total = tf.reduce_sum(variable * 2.0)
    with tf.Session(cluster.target("worker:0")) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="never_initialized") as caught:
            session.run(total)
        assert caught.value.device == PS
        assert caught.value.op is not None
        session.run(variable.initializer)
        assert session.run(total) == 2.0


ERRORS = {
    "OutOfRangeError": lambda q: [q.close(), q.dequeue()],
    "CancelledError": lambda q: [q.close(), q.enqueue([1])],
}


@pytest.mark.parametrize("name", ERRORS)
def test_classes_of_errors_survive(cluster: Cluster, name: str) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(1, [tf.int32], [[]], name="tasks")
    close, fails = ERRORS[name](queue)
    with tf.Session(cluster.target("worker:1")) as session:
        session.run(close)
        with pytest.raises(getattr(tf.errors, name), match="is closed"):
            session.run(fails)


def test_what_led_to_an_error_is_its_cause(cluster: Cluster) -> None:
    with tf.device(PS):
        a = tf.placeholder(tf.float32)
        product = tf.matmul(a, a)
    with (
        tf.Session(cluster.target("worker:1")) as session,
        pytest.raises(tf.errors.InvalidArgumentError) as caught,
    ):
        session.run(product, {a: np.ones((2, 3), np.float32)})
    assert "[2,3]" in str(caught.value)


def test_a_text_that_is_far_too_long_for_a_header_still_arrives(cluster: Cluster) -> None:
    with tf.device("/job:" + "j" * 5000):
        nowhere = tf.constant(1)
    with (
        tf.Session(cluster.target("worker:0")) as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device for operation"),
    ):
        session.run(nowhere)


def test_the_first_failure_ends_the_partitions_that_wait(cluster: Cluster) -> None:
    with tf.device(PS):
        never = tf.FIFOQueue(1, [tf.int32], [[]]).dequeue()
    with tf.device(WORKER_1):
        x = tf.placeholder(tf.int32, [None])
        bad = tf.gather(x, 7)
    with (
        tf.Session(cluster.target("worker:0")) as session,
        pytest.raises(tf.errors.InvalidArgumentError),
    ):
        session.run([never, bad], {x: [1]})
