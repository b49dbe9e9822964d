"""Variables that live on a device, in steps: what is computed there, what is copied, and who sees what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.base import errors
from headrace.tools.inspection.snapshot import Observer, as_data
from headrace.tools.inspection.tables import everything, live
from tests.serve.clusters import in_process
from tests.support import embedding_program
from tests.support.embedding_program import trained
from tests.support.toy_device import ToyDevice, toy_devices

TOY, OTHER, CPU = "/device:TOY:0", "/device:TOY:1", "/device:CPU:0"
ROWS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
KINDS = pytest.mark.parametrize("handles", [False, True], ids=["references", "handles"])


@pytest.fixture
def toys() -> Iterator[list[ToyDevice]]:
    with toy_devices() as devices, tf.Graph().as_default():
        yield devices


def moved(toy: ToyDevice) -> tuple[int, int]:
    """How many arrays were put there, and got from there."""
    return toy.transfers["put"], toy.transfers["got"]


def variable(value: Any = ROWS, device: str = TOY, handles: bool = False, **more: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value, use_resource=handles, **more)


# -- reading --------------------------------------------------------------------------------------------


@KINDS
def test_a_read_on_its_device_copies_nothing(toys: list[ToyDevice], handles: bool) -> None:
    weights = variable(handles=handles)
    with tf.device(TOY):
        total = tf.reduce_sum(tf.exp(weights) * weights)
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(total)
        put, got = moved(toys[0])
        for _ in range(3):
            assert session.run(total) == pytest.approx((np.exp(ROWS) * ROWS).sum(), 1e-5)
    assert moved(toys[0]) == (put, got + 3)  # what is fetched


@KINDS
def test_a_fetch_of_a_variable_is_one_copy(toys: list[ToyDevice], handles: bool) -> None:
    weights = variable(handles=handles)
    with tf.Session() as session:
        session.run(weights.initializer)
        _, got = moved(toys[0])
        found = session.run(weights)
        found[...] = 0
        np.testing.assert_array_equal(session.run(weights), ROWS)
    assert moved(toys[0])[1] == got + 2


@KINDS
def test_the_host_reads_a_copy_until_it_changes(toys: list[ToyDevice], handles: bool) -> None:
    weights = variable(handles=handles)
    with tf.device(TOY):
        more = weights.assign_add(ROWS)
    with tf.device(CPU):
        here = tf.reduce_sum(weights)
    with tf.Session() as session:
        session.run(weights.initializer)
        for times in (1, 2):
            for _ in range(3):
                assert session.run(here) == pytest.approx(times * ROWS.sum(), abs=1e-6)
            session.run(more.op)
    assert toys[0].transfers["got"] <= (6 if handles else 2)


def test_another_device_reads_by_way_of_the_host(toys: list[ToyDevice]) -> None:
    weights = variable()
    with tf.device(OTHER):
        there = tf.reduce_sum(tf.square(weights))
    with tf.Session() as session:
        session.run(weights.initializer)
        assert session.run(there) == pytest.approx(np.square(ROWS).sum())
    assert toys[1].counts["kernel"] == 2


@KINDS
def test_what_was_read_before_an_update_is_what_it_was(
    toys: list[ToyDevice], handles: bool
) -> None:
    weights = variable(np.float32(1.0), handles=handles)
    with tf.device(TOY):
        before = tf.exp(weights)
        with tf.control_dependencies([before]):
            more = weights.assign_add(1.0)
        with tf.control_dependencies([more]):
            after = tf.exp(weights.read_value())
    with tf.Session() as session:
        session.run(weights.initializer)
        for n in range(1, 4):
            np.testing.assert_allclose(session.run([before, after]), np.exp([n, n + 1.0]), 1e-5)


def test_branches_and_loops_read_and_change_it_there(toys: list[ToyDevice]) -> None:
    weights = variable(np.float32(1.0), handles=True)
    flag = tf.placeholder(tf.bool, [])
    with tf.device(TOY):
        branch = tf.cond(flag, lambda: weights.assign_add(1.0), lambda: tf.negative(weights))

        def body(i: Any) -> Any:
            with tf.control_dependencies([weights.assign_add(1.0)]):
                return i + 1

        loop = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with tf.Session() as session:
        session.run(weights.initializer)
        assert session.run(branch, {flag: True}) == 2.0
        assert session.run(branch, {flag: False}) == -2.0
        session.run(loop)
        assert session.run(weights) == 5.0
    assert toys[0].counts["kernel"] > 4


# -- changing -------------------------------------------------------------------------------------------


@KINDS
def test_assignments_of_what_is_there_copy_nothing(toys: list[ToyDevice], handles: bool) -> None:
    weights = variable(handles=handles)
    with tf.device(TOY):
        more = weights.assign_add(ROWS).op
        less = weights.assign_sub(2 * ROWS).op
        other = weights.assign(tf.square(weights)).op
    with tf.Session() as session:
        session.run(weights.initializer)
        for op in (more, less, other):
            session.run(op)
        kept = moved(toys[0])
        value = ROWS
        for _ in range(2):
            for op in (more, less, other):
                session.run(op)
        assert moved(toys[0]) == kept
        value = ROWS
        for _ in range(3):
            value = np.square(value + ROWS - 2 * ROWS)
        np.testing.assert_allclose(session.run(weights), value, 1e-5)


OPTIMIZERS: dict[str, Callable[[], tf.train.Optimizer]] = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rms": lambda: tf.train.RMSPropOptimizer(0.1),
    "centered": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
}


@KINDS
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_copies_nothing(toys: list[ToyDevice], name: str, handles: bool) -> None:
    """Variables, slots and their updates are on the device; so are the weights as on the host afterwards."""

    def weights_after(device: str) -> Any:
        with tf.Graph().as_default(), tf.device(device):
            weights = tf.Variable(ROWS, use_resource=handles)
            loss = tf.reduce_sum(tf.square(tf.matmul(weights, tf.constant(ROWS.T)) - 1.0))
            train = OPTIMIZERS[name]().minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                for n in range(5):
                    session.run(train)
                    if not n:
                        kept = moved(toys[0])
                assert moved(toys[0]) == kept
                return session.run(weights)

    np.testing.assert_allclose(weights_after(TOY), weights_after(CPU), 1e-4)
    assert toys[0].counts["kernel"] > 20


def test_an_update_that_the_device_has_not_is_done_on_the_host(toys: list[ToyDevice]) -> None:
    weights = variable()
    with tf.device(TOY):
        scattered = tf.scatter_update(weights, [1], [[7.0, 8.0, 9.0]]).op
        total = tf.reduce_sum(weights)
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(scattered)
        assert session.run(total) == pytest.approx(ROWS[0].sum() + 24)
        put = moved(toys[0])[0]
        session.run(total)
        assert moved(toys[0])[0] == put


@KINDS
def test_a_slice_is_assigned_where_the_variable_is(toys: list[ToyDevice], handles: bool) -> None:
    weights = variable(np.zeros((4, 3), np.float32), handles=handles)
    at = tf.placeholder(tf.int32, [])
    with tf.device(TOY):
        row = weights[at].assign([1.0, 2.0, 3.0])
        block = weights[:2, ::-2].assign(tf.fill([2, 2], 7.0))
        number = weights[3, 0].assign(5.0)
        amiss = weights[0:2].assign([1.0, 2.0])
    wanted = np.zeros((4, 3), np.float32)
    wanted[2], wanted[:2, ::-2], wanted[3, 0] = [1, 2, 3], 7.0, 5.0
    with tf.Session() as session:
        session.run(weights.initializer)
        for each in (row, block, number):
            session.run(each.op, {at: 2})
        got = moved(toys[0])[1]
        for place in (1, 2):
            session.run(row.op, {at: place})
        assert moved(toys[0])[1] == got
        with pytest.raises(errors.InvalidArgumentError, match="Cannot broadcast"):
            session.run(amiss.op)
        with pytest.raises(errors.InvalidArgumentError, match="slice index 4"):
            session.run(row.op, {at: 4})
        wanted[1] = wanted[2]
        np.testing.assert_array_equal(session.run(weights), wanted)


def test_updates_of_many_steps_all_count(toys: list[ToyDevice]) -> None:
    weights = variable(np.zeros(3, np.float32))
    with tf.device(TOY):
        more = weights.assign_add([1.0, 2.0, 3.0]).op
    with tf.Session() as session:
        session.run(weights.initializer)

        def work() -> None:
            for _ in range(25):
                session.run(more)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(session.run(weights), [100, 200, 300])


# -- what they may hold ---------------------------------------------------------------------------------


def test_whole_numbers_of_32_bits_and_text_stay_with_the_host(toys: list[ToyDevice]) -> None:
    count = variable(np.int32(1))
    with tf.device(TOY):
        more = count.assign_add(2)
    with tf.Session() as session:
        session.run(count.initializer)
        assert session.run(more) == 3
    assert not toys[0].transfers


@KINDS
def test_errors_are_the_hosts(toys: list[ToyDevice], handles: bool) -> None:
    found = []
    for device in (TOY, CPU):
        with tf.Graph().as_default(), tf.device(device):
            weights = tf.Variable(ROWS, use_resource=handles, name="w")
            value = tf.placeholder(tf.float32, None)
            for node in (
                tf.exp(weights),
                weights.assign_add(value),
                tf.assign(weights, value) if not handles else weights.assign_sub(value),
            ):
                with tf.Session() as session:
                    for ready in (False, True):
                        if ready:
                            session.run(weights.initializer)
                        try:
                            session.run(node, {value: [1.0]})
                        except errors.OpError as error:
                            found.append((type(error).__name__, error.message))
    half = len(found) // 2
    assert half > 2
    assert found[:half] == found[half:]


def test_another_shape_is_taken_if_it_need_not_be_validated(toys: list[ToyDevice]) -> None:
    weights = variable(validate_shape=False)
    with tf.device(TOY):
        other = tf.assign(weights, tf.zeros([4]), validate_shape=False)
        total = tf.reduce_sum(tf.exp(other))
    with tf.Session() as session:
        session.run(weights.initializer)
        assert session.run(total) == 4.0
        assert session.run(weights).shape == (4,)


def test_whether_it_has_a_value_is_asked_without_a_copy(toys: list[ToyDevice]) -> None:
    weights, other = variable(), variable(handles=True)
    asked = [tf.is_variable_initialized(weights), other.is_initialized()]
    with tf.Session() as session:
        assert session.run(asked) == [False, False]
        session.run([weights.initializer, other.initializer])
        got = moved(toys[0])[1]
        assert session.run(asked) == [True, True]
        assert session.run(tf.report_uninitialized_variables()).size == 0
    assert moved(toys[0])[1] == got


# -- savers, clusters, the general executor ---------------------------------------------------------------


@KINDS
def test_checkpoints_go_from_device_to_host_and_back(
    toys: list[ToyDevice], handles: bool, tmp_path: Path
) -> None:
    path = str(tmp_path / "model")
    for saves, restores in ((TOY, CPU), (CPU, TOY)):
        with tf.Graph().as_default():
            variable(ROWS, saves, handles, name="w")
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                tf.train.Saver().save(session, path)
        with tf.Graph().as_default():
            weights = variable(np.zeros_like(ROWS), restores, handles, name="w")
            with tf.device(restores):
                total = tf.reduce_sum(weights)
            with tf.Session() as session:
                tf.train.Saver().restore(session, path)
                np.testing.assert_array_equal(session.run(weights), ROWS)
                assert session.run(total) == pytest.approx(ROWS.sum(), abs=1e-6)


@KINDS
def test_tasks_of_a_cluster_keep_them_on_their_devices(
    toys: list[ToyDevice], handles: bool
) -> None:
    with tf.device("/job:ps/task:0/device:TOY:0"):
        weights = tf.Variable(ROWS, use_resource=handles)
    with tf.device("/job:worker/task:0/device:TOY:1"):
        loss = tf.reduce_sum(tf.square(weights))
    train = tf.train.GradientDescentOptimizer(0.25).minimize(loss)
    with (
        in_process({"ps": 1, "worker": 1}) as cluster,
        tf.Session(cluster.target("worker:0")) as session,
    ):
        session.run(tf.global_variables_initializer())
        for n in range(4):
            found = session.run(loss)
            session.run(train)
            assert found == pytest.approx(np.square(ROWS / 2**n).sum(), 1e-4)
        np.testing.assert_allclose(session.run(weights), ROWS / 16, 1e-5)
    assert toys[0].counts["kernel"] >= 4
    assert toys[1].counts["kernel"] > 4


def test_the_general_executor_reads_and_changes_them(toys: list[ToyDevice]) -> None:
    weights = variable(np.float32(1.0))
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    flag = tf.placeholder(tf.bool, [])
    with tf.device(TOY):
        given = tf.cond(flag, queue.dequeue, lambda: tf.constant(1.0))
        more = weights.assign_add(given)
        after = tf.exp(more)
    with tf.Session() as session:
        session.run([weights.initializer, queue.enqueue(2.0)])
        found = [session.run(after, {flag: way}) for way in (True, False)]
    np.testing.assert_allclose(found, np.exp([3.0, 4.0]), 1e-5)


def test_another_session_finds_it_where_it_lives(toys: list[ToyDevice]) -> None:
    """A session without such devices changes it on the host; it is read there as changed."""
    with in_process({"ps": 1}) as cluster:
        with tf.device("/job:ps/task:0/device:TOY:0"):
            weights = tf.Variable(np.float32(1.0), name="w")
            total = tf.exp(weights)
        with tf.Session(cluster.target("ps:0")) as session:
            session.run(weights.initializer)
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0/cpu:0"):
                same = tf.Variable(np.float32(0.0), name="w")
                more = same.assign_add(1.0)
            with tf.Session(cluster.target("ps:0")) as other:
                for n in range(4):
                    assert other.run(more) == 2.0 + n
        with tf.Session(cluster.target("ps:0")) as session:
            assert session.run(total) == pytest.approx(np.exp(5.0))


def test_a_trace_says_how_large_what_is_there_is(toys: list[ToyDevice]) -> None:
    weights = variable(name="w")
    with tf.device(TOY):
        there = tf.exp(weights, name="there")
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(weights.initializer)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(there, options=options, run_metadata=metadata)
    shown = {
        node.node_name: node.output[0].tensor_description
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.output
    }
    for name in ("w", "there"):
        assert [dim.size for dim in shown[name].shape.dim] == [2, 3]
        assert shown[name].allocation_description.requested_bytes == 24
    assert shown["there"].dtype == tf.float32.as_datatype_enum


# -- memory -----------------------------------------------------------------------------------------------


def test_memory_that_is_missing_names_node_shape_and_holders(toys: list[ToyDevice]) -> None:
    toys[0].memory_bytes = 100_000
    large = variable(np.zeros((100, 100), np.float32), name="large")
    small = variable(np.zeros(10, np.float32), name="small")
    x = tf.placeholder(tf.float32, [None, 100])
    with tf.device(TOY):
        product = tf.matmul(x, large, name="product")
        total = tf.reduce_sum(product) + tf.reduce_sum(small)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(errors.ResourceExhaustedError) as info:
            session.run(total, {x: np.ones((100, 100))})
        for words in (
            "MatMul 'product'",
            "float32[?,100]",
            "float32[100,100]",
            "TOY:0",
            "of 97.7 kB; the largest holders: variable large 39.1 kB, variable small 40 bytes",
        ):
            assert words in info.value.message
        assert info.value.op.name == "product"
        with pytest.raises(errors.ResourceExhaustedError, match="the value for MatMul 'product'"):
            session.run(total, {x: np.ones((1000, 100))})
        del info
        assert session.run(total, {x: np.ones((10, 100))}) == 0.0  # the session goes on


def test_an_update_without_memory_leaves_the_variable_as_it_was(toys: list[ToyDevice]) -> None:
    toys[0].memory_bytes = 100_000
    large = variable(np.ones((100, 100), np.float32), name="large")
    with tf.device(TOY):
        more = large.assign_add(tf.fill([100, 100], 1.0)).op
    with tf.Session() as session:
        session.run(large.initializer)
        toys[0].memory_bytes = 90_000
        with pytest.raises(errors.ResourceExhaustedError, match="AssignAdd"):
            session.run(more)
        toys[0].memory_bytes = 200_000
        session.run(more)
        np.testing.assert_array_equal(session.run(large), np.full((100, 100), 2))


def test_what_variables_hold_is_told_by_device(toys: list[ToyDevice]) -> None:
    with tf.device("/job:ps/task:0/device:TOY:0"):
        weights = tf.Variable(ROWS, name="w")
    with in_process({"ps": 1}) as cluster, tf.Session(cluster.target("ps:0")) as session:
        session.run(weights.initializer)
        with Observer(cluster.target("ps:0")) as observer:
            snapshot = observer.look()
        (task,) = as_data(snapshot)["tasks"]
    (device,) = [each for each in task["devices"] if each["name"] == "TOY:0"]
    assert device["variable_bytes"] == 24
    assert device["held_bytes"] >= 24
    assert device["limit_bytes"] == 1 << 20
    (told,) = task["variables"]
    assert (told["kind"], told["device"], told["bytes"]) == ("Variable", "TOY:0", 24)
    for parts in (everything(snapshot, 120), live(snapshot, 120, 40)):
        shown = str(parts)
        assert "TOY:0" in shown
        assert "of" in shown


@KINDS
@pytest.mark.parametrize("name", embedding_program.OPTIMIZERS)
def test_rows_of_an_embedding_are_updated_where_it_is(
    toys: list[ToyDevice], name: str, handles: bool
) -> None:
    """What is copied are ids and a few rows; the table of 16,000 bytes stays, and so do its slots."""
    table, copied = trained(TOY, toys[0], name, handles)
    assert copied < 3 * 2000
    np.testing.assert_allclose(table, trained(CPU, toys[0], name, handles)[0], 1e-4, 1e-5)
