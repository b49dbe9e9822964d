"""Training steps that ask the parameter server twice, over every transport: results, failures, several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.thread_group import ThreadGroup
from headrace.serve.master import step
from tests.serve.clusters import Cluster

STEPS = 4
ROWS = 300  # times as many columns: large enough for memory that both sides share


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Of every step that was run in stages, how many parts each had."""
    found: list[list[int]] = []
    run_stages = step.run_stages

    def noting(*given: Any) -> list[Any]:
        asks = given[2].plan.asks
        if len(asks) > 1:
            found.append([len(stage) for _, stage in asks])
        return run_stages(*given)

    monkeypatch.setattr("headrace.serve.master.master_session.run_stages", noting)
    return found


def training(optimizer: Callable[[], Any], resource: bool) -> tuple[Any, Any, Any]:
    """What a step is fed, a step with the loss before it, and the weights."""
    x = tf.placeholder(tf.float32, [None, ROWS])
    start = np.linspace(-1, 1, ROWS * ROWS, dtype=np.float32).reshape(ROWS, ROWS)
    w = tf.Variable(start, use_resource=resource)
    b = tf.Variable(np.zeros(ROWS, np.float32), use_resource=resource)
    loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(x, w) + b)))
    count = tf.Variable(0, trainable=False, dtype=tf.int64, use_resource=resource)
    return x, [optimizer().minimize(loss, global_step=count), loss], [w.value(), b.value(), count]


def results(target: str, optimizer: Callable[[], Any], resource: bool, placed: bool) -> Any:
    with tf.Graph().as_default():
        setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
        with tf.device(setter if placed else None):
            x, train, weights = training(optimizer, resource)
        batch = np.linspace(0, 1, 2 * ROWS, dtype=np.float32).reshape(2, ROWS)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run(train, {x: batch})[1] for _ in range(STEPS)]
            return [*losses, *session.run(weights)]


@pytest.mark.parametrize("resource", [False, True], ids=["refs", "resources"])
@pytest.mark.parametrize(
    "optimizer",
    [lambda: tf.train.GradientDescentOptimizer(0.1), lambda: tf.train.AdamOptimizer(0.1)],
    ids=["descent", "adam"],
)
def test_a_step_gives_the_bits_that_it_gives_in_a_local_session(
    cluster: Cluster, optimizer: Callable[[], Any], resource: bool, stages: list[list[int]]
) -> None:
    wanted = results("", optimizer, resource, placed=False)
    found = results(cluster.target("worker:0"), optimizer, resource, placed=True)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert wanted[-1] == STEPS
    assert stages.count([1, 1, 1]) == STEPS


def test_steps_are_logged_without_being_disturbed(
    cluster: Cluster, stages: list[list[int]]
) -> None:
    for server in cluster.servers.values():
        server.worker.log.enable()
    descent = lambda: tf.train.GradientDescentOptimizer(0.1)  # noqa: E731
    found = results(cluster.target("worker:0"), descent, False, placed=True)
    assert found[-1] == STEPS
    assert [1, 1, 1] in stages
    logged = cluster.servers["ps:0"].worker.log.take([])
    both = [  # what comes before the worker's part, and what comes after it, are one step, on one device
        device
        for step in logged
        for device in step.step_stats.dev_stats
        if {"Variable/read", "GradientDescent"} <= {node.node_name for node in device.node_stats}
    ]
    assert len(both) == STEPS
    training = {step.step_id for step in logged if step.step_stats.dev_stats[0] in both}
    assert not {step_id + 1 for step_id in training} & {step.step_id for step in logged}


def test_a_step_that_fails_on_the_worker_updates_nothing(
    cluster: Cluster, stages: list[list[int]]
) -> None:
    with tf.device("/job:ps"):
        w = tf.Variable([1.0, 2.0])
    with tf.device("/job:worker/task:0"):
        x = tf.placeholder(tf.float32, [2])
        gradient = tf.check_numerics(w * x, "of the step")
    update = w.assign_sub(gradient)
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(w.initializer)
        for _ in range(2):
            with pytest.raises(tf.errors.InvalidArgumentError, match="of the step"):
                session.run(update, {x: [np.inf, 1.0]})
            assert session.run(w).tolist() == [1.0, 2.0]
        assert session.run(update, {x: [1.0, 0.5]}).tolist() == [0.0, 1.0]
    assert stages[-1] == [1, 1, 1]


def test_an_uninitialized_variable_is_named(cluster: Cluster, stages: list[list[int]]) -> None:
    with tf.device("/job:ps"):
        w = tf.Variable(1.0, name="weight")
    with tf.device("/job:worker/task:0"):
        gradient = w + 1.0
    update = w.assign_sub(gradient)
    with (
        tf.Session(cluster.target("worker:0")) as session,
        pytest.raises(tf.errors.FailedPreconditionError, match="weight"),
    ):
        session.run(update)
    assert stages == [[1, 1, 1]]


def test_no_worker_sees_a_variable_that_is_half_updated_and_no_update_is_lost(
    cluster: Cluster,
) -> None:
    workers, side = (
        2,
        100,
    )  # as large as is shared at all: over connections that dawdle each byte costs

    def train(task: int) -> None:
        with tf.Graph().as_default():
            with tf.device("/job:ps"):
                w = tf.get_variable(
                    "w", [side, side], initializer=tf.zeros_initializer(), use_resource=False
                )
            with tf.device(f"/job:worker/task:{task}"):
                lowest, highest = tf.reduce_min(w), tf.reduce_max(w)
                gradient = tf.ones_like(w) + w * 0.0
            update = w.assign_add(gradient).op
            with tf.Session(cluster.target(f"worker:{task}")) as session:
                for _ in range(5 * STEPS):
                    _, low, high = session.run([update, lowest, highest])
                    assert low == high

    with tf.device("/job:ps"):
        w = tf.get_variable("w", [side, side], initializer=tf.zeros_initializer())
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(w.initializer)
        with ThreadGroup("workers") as group:
            for task in range(workers):
                group.start(train, task, name=f"worker {task}")
        total = session.run(w)
    assert (total == workers * 5 * STEPS).all()


def test_a_node_that_waits_for_another_and_wants_its_value_too_runs(cluster: Cluster) -> None:
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            count = tf.Variable(0.0)
            added = tf.assign_add(count, 1.0)
        with tf.device("/job:worker/task:0"), tf.control_dependencies([added.op]):
            result = tf.constant(10.0) + added
        with tf.Session(cluster.target("worker:0")) as session:
            session.run(count.initializer)
            options = tf.RunOptions(timeout_in_ms=60_000)
            got = [session.run(result, options=options) for _ in range(STEPS)]
            assert got == [11.0, 12.0, 13.0, 14.0]
