"""Devices that are no hosts: what is placed on them, what is computed there, and what is copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from tests.serve.clusters import in_process
from tests.support.toy_device import ToyDevice, toy_devices

TOY, OTHER = "/device:TOY:0", "/device:TOY:1"


@pytest.fixture
def toys() -> Iterator[list[ToyDevice]]:
    with toy_devices() as devices, tf.Graph().as_default():
        yield devices


def test_a_chain_is_copied_in_once_and_out_once(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [3])
    with tf.device(TOY):
        y = tf.exp(tf.negative(tf.square(x))) + x
    with tf.Session() as session:
        found = session.run(y, {x: [1.0, 2.0, 3.0]})
    given = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(found, np.exp(-np.square(given)) + given, 1e-6)
    assert toys[0].counts == {"put": 1, "get": 1, "kernel": 4}
    assert not toys[1].counts


def test_constants_are_copied_when_the_step_is_planned(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [2, 2])
    weights = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.device(TOY):
        y = tf.matmul(x, weights)
    with tf.Session() as session:
        for _ in range(3):
            found = session.run(y, {x: np.eye(2)})
    np.testing.assert_array_equal(found, [[1.0, 2.0], [3.0, 4.0]])
    assert toys[0].counts == {"put": 4, "get": 3, "kernel": 3}


def test_values_go_from_one_device_to_another_by_way_of_the_host(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device(TOY):
        a = tf.exp(x)
    with tf.device(OTHER):
        b = tf.exp(a)
    c = tf.exp(b)
    with tf.Session() as session:
        assert session.run(c, {x: -1.0}) == pytest.approx(np.exp(np.exp(np.exp(-1.0))))
    assert [each.counts for each in toys] == [{"put": 1, "get": 1, "kernel": 1}] * 2


def test_shapes_and_axes_stay_with_the_host(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [None, None])
    axis = tf.placeholder(tf.int32, [])
    with tf.device(TOY):
        y = tf.reduce_sum(tf.reshape(x, tf.shape(x)[::-1]), axis)
    with tf.Session() as session:
        found = session.run(y, {x: np.ones((2, 3)), axis: 0})
    np.testing.assert_array_equal(found, [3.0, 3.0])
    assert toys[0].counts["put"] == 1


def test_nothing_is_computed_there_unasked(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.Session() as session:
        assert session.run(tf.exp(x), {x: 0.0}) == 1.0
    assert not toys[0].counts


def test_branches_and_loops_compute_there(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device(TOY):
        branch = tf.cond(x > 0.0, lambda: tf.exp(x), lambda: tf.negative(x))
        _, loop = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.exp(-y) + y), [tf.constant(0), x]
        )
    with tf.Session() as session:
        for given in (2.0, -2.0):
            y = given
            for _ in range(3):
                y = np.exp(-y) + y
            taken = np.exp(given) if given > 0 else -given
            np.testing.assert_allclose(session.run([branch, loop], {x: given}), [taken, y], 1e-5)
    assert toys[0].counts["kernel"] > 12


def test_a_model_trains_as_on_the_host(toys: list[ToyDevice]) -> None:
    def losses(device: str) -> list[Any]:
        with tf.Graph().as_default(), tf.device(device):
            x = tf.constant(np.linspace(-1, 1, 12).reshape(6, 2), tf.float32)
            labels = tf.constant([0, 1, 2, 0, 1, 2], tf.int64)
            weights = tf.Variable(np.linspace(-0.5, 0.5, 6).reshape(2, 3), dtype=tf.float32)
            bias = tf.Variable(tf.zeros([3]))
            logits = tf.nn.relu(tf.matmul(x, weights) + bias)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
            train = tf.train.MomentumOptimizer(0.5, 0.9).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return [session.run([loss, train])[0] for _ in range(10)]

    np.testing.assert_allclose(losses(TOY), losses("/cpu:0"), 1e-5)
    assert toys[0].counts["kernel"] > 50


def test_a_variable_that_changes_in_the_step_is_read_each_time(toys: list[ToyDevice]) -> None:
    variable = tf.Variable(1.0)
    with tf.device(TOY):
        before = tf.exp(variable)
        with tf.control_dependencies([before]):
            more = variable.assign_add(1.0)
        with tf.control_dependencies([more]):
            after = tf.exp(variable)
    with tf.Session() as session:
        session.run(variable.initializer)
        found = session.run([before, after])
    np.testing.assert_allclose(found, np.exp([1.0, 2.0]), 1e-6)


# -- placement --------------------------------------------------------------------------------------


def test_devices_are_listed(toys: list[ToyDevice]) -> None:
    with tf.Session() as session:
        listed = {d.name.rpartition("/")[2]: d for d in session.list_devices()}
    assert list(listed) == ["device:CPU:0", "device:TOY:0", "device:TOY:1"]
    assert listed["device:TOY:0"].device_type == "TOY"
    assert listed["device:TOY:0"].memory_limit_bytes == 1 << 20
    with tf.Session(config=tf.ConfigProto(device_count={"TOY": 1})) as session:
        assert len(session.list_devices()) == 2


def test_what_has_no_kernel_there_is_refused_or_moved(toys: list[ToyDevice]) -> None:
    with tf.device(TOY):
        text = tf.string_join([tf.placeholder_with_default("a", []), "b"], name="joined")
    with (
        tf.Session() as session,
        pytest.raises(errors.InvalidArgumentError, match="no supported kernel for TOY devices"),
    ):
        session.run(text)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        assert session.run(text) == b"ab"


def test_users_functions_are_the_hosts(toys: list[ToyDevice]) -> None:
    with tf.device(TOY):
        value = tf.py_func(lambda: np.float32(1.0), [], tf.float32)
    with (
        tf.Session() as session,
        pytest.raises(errors.InvalidArgumentError, match="no supported kernel for TOY devices"),
    ):
        session.run(value)


def test_a_device_that_is_missing_is_named_beside_those_there_are(toys: list[ToyDevice]) -> None:
    with tf.device("/device:TOY:7"):
        x = tf.exp(tf.placeholder_with_default(1.0, []))
    with (
        tf.Session() as session,
        pytest.raises(errors.InvalidArgumentError, match=r"TOY:7 but available .*TOY:1"),
    ):
        session.run(x)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(x)
    assert toys[0].counts["kernel"] == 1


def test_errors_are_the_hosts(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32)
    found = []
    for device in (TOY, "/cpu:0"):
        with tf.device(device):
            product = tf.matmul(x, tf.zeros([3, 3]), name="product")
        with tf.Session() as session, pytest.raises(errors.InvalidArgumentError) as info:
            session.run(product, {x: np.zeros((2, 2))})
        found.append(info.value.message.replace("product_1", "product"))
    assert found[0].split("[")[0] == found[1].split("[")[0]


# -- traces and clusters ----------------------------------------------------------------------------


def test_a_trace_shows_the_device(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.device(TOY):
        y = tf.exp(x, name="there")
    z = tf.exp(y, name="here")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(z, {x: 1.0}, options=options, run_metadata=metadata)
    shown = {
        device.device.rpartition("/")[2]: {node.node_name for node in device.node_stats}
        for device in metadata.step_stats.dev_stats
    }
    assert "there" in shown["device:TOY:0"]
    assert "here" in shown["device:CPU:0"]


def test_tasks_of_a_cluster_have_them(toys: list[ToyDevice]) -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:ps/task:0/device:TOY:0"):
        there = tf.exp(x)
    with tf.device("/job:worker/task:0/device:TOY:1"):
        here = tf.exp(there)
    with (
        in_process({"ps": 1, "worker": 1}) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        for _ in range(3):
            found = session.run(here, {x: [0.0, 1.0]})
        listed = [d.name for d in session.list_devices() if "TOY" in d.name]
    np.testing.assert_allclose(found, np.exp(np.exp([0.0, 1.0])), 1e-6)
    assert len(listed) == 4
    assert [each.counts["kernel"] for each in toys] == [3, 3]


def test_a_task_without_such_a_device_says_so() -> None:
    with in_process({"ps": 1}) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0/device:TOY:0"):
            x = tf.exp(1.0)
        with (
            tf.Session(cluster.target("ps:0")) as session,
            pytest.raises(errors.InvalidArgumentError, match="TOY"),
        ):
            session.run(x)


def test_a_graph_that_the_general_executor_runs_computes_there(toys: list[ToyDevice]) -> None:
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    flag = tf.placeholder(tf.bool, [])
    with tf.device(TOY):
        x = tf.exp(tf.cond(flag, queue.dequeue, lambda: tf.constant(1.0)))
    with tf.Session() as session:
        session.run(queue.enqueue(2.0))
        found = [session.run(x, {flag: way}) for way in (True, False)]
    np.testing.assert_allclose(found, np.exp([2.0, 1.0]), 1e-6)
    assert toys[0].counts["kernel"] == 2


def test_a_recurrent_network_that_is_there_stays_there(toys: list[ToyDevice]) -> None:
    def trained(device: str, time: int) -> tuple[Any, tuple[int, int]]:
        with tf.Graph().as_default(), tf.device(device):
            x = tf.placeholder(tf.float32, [2, time, 3])
            cell = tf.nn.rnn_cell.GRUCell(3, kernel_initializer=tf.constant_initializer(0.3))
            outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
            loss = tf.reduce_sum(tf.square(outputs))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            fed = {x: np.linspace(-1, 1, 6 * time).reshape(2, time, 3)}
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                found = [session.run([loss, train], fed)[0] for _ in range(2)]
                before = toys[0].transfers["put"], toys[0].transfers["got"]
                found.append(session.run([loss, train], fed)[0])
                after = toys[0].transfers["put"], toys[0].transfers["got"]
        return found, (after[0] - before[0], after[1] - before[1])

    moved = []
    for time in (2, 5):
        found, of_last = trained(TOY, time)
        np.testing.assert_allclose(found, trained("/cpu:0", time)[0], 1e-4)
        moved.append(of_last)
    assert moved[0] == moved[1]
    assert moved[0] <= (2, 1)


def test_unpinned_nodes_of_a_cluster_go_to_the_gpu_of_their_task() -> None:
    """As in a local session; what a GPU has no kernel for stays on the CPU, and so does the state beside it."""
    with (
        toy_devices(type="GPU") as gpus,
        tf.Graph().as_default(),
        in_process({"ps": 1, "worker": 1}) as cluster,
    ):
        weights = tf.Variable(np.float32(1.0), name="weights")
        more = weights.assign_add(1.0)
        with tf.device("/job:worker/task:0"):
            there = tf.exp(weights)
            text = tf.as_string(there)
        for target in ("worker:0", "ps:0"):  # whichever server the session is on
            metadata = tf.RunMetadata()
            with tf.Session(cluster.target(target)) as session:
                session.run(weights.initializer)
                session.run(more)
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                found, _ = session.run([there, text], options=options, run_metadata=metadata)
                assert found == pytest.approx(np.exp(2.0), 1e-5)
            where = {
                node.node_name: device.device
                for device in metadata.step_stats.dev_stats
                for node in device.node_stats
            }
            assert where["Exp"] == "/job:worker/replica:0/task:0/device:GPU:0"
            assert where["weights"] == "/job:ps/replica:0/task:0/device:GPU:0"
            assert where["AsString"] == "/job:worker/replica:0/task:0/device:CPU:0"
    assert gpus[0].counts["kernel"] == 4
    assert not gpus[1].counts


def test_a_variable_that_was_placed_stays_where_it_is() -> None:
    with (
        toy_devices(type="GPU") as gpus,
        tf.Graph().as_default(),
        in_process({"ps": 1}) as cluster,
        tf.Session(cluster.target("ps:0")) as session,
    ):
        with tf.device("/cpu:0"):
            weights = tf.Variable(np.float32(1.0))
        session.run(weights.initializer)
        assert session.run(weights + 1.0) == 2.0
        assert session.run(weights.assign_add(2.0)) == 3.0
    assert gpus[0].counts["kernel"] == 1
