"""Variables that live on GPUs: training steps that copy nothing, and what others see of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.devices import gpus, xla
from headrace.run.devices.device import Device
from headrace.run.devices.table import of_name
from tests.plan.test_device_variables import OPTIMIZERS
from tests.support import embedding_program
from tests.support.embedding_program import trained

GPU, CPU = "/device:GPU:0", "/device:CPU:0"
ROWS = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
KINDS = pytest.mark.parametrize("handles", [False, True], ids=["references", "handles"])


@pytest.fixture
def gpu() -> Iterator[Device]:
    with tf.Graph().as_default():
        yield of_name(GPU)


def moved(gpu: Device) -> tuple[int, int]:
    """How many arrays were put there, and got from there."""
    return gpu.transfers["put"], gpu.transfers["got"]


@KINDS
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_copies_nothing(gpu: Device, name: str, handles: bool) -> None:
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
                        kept = moved(gpu)
                assert moved(gpu) == kept
                return session.run(weights)

    np.testing.assert_allclose(weights_after(GPU), weights_after(CPU), 1e-4)


@KINDS
def test_the_device_holds_them_and_lets_them_go(gpu: Device, handles: bool) -> None:
    gc.collect()  # what other tests have left
    before = gpu.bytes_held()
    with tf.device(GPU):
        weights = tf.Variable(tf.zeros([256, 256]), use_resource=handles)
        more = weights.assign_add(tf.fill([256, 256], 1.0)).op
    with tf.Session() as session:
        session.run(weights.initializer)
        for _ in range(5):
            session.run(more)
        held = gpu.bytes_held()
        assert held is not None
        assert before is not None
        assert held - before >= 256 * 256 * 4
        np.testing.assert_array_equal(session.run(weights), np.full((256, 256), 5.0))


def test_double_precision_is_kept_in_updates(gpu: Device) -> None:
    with tf.device(GPU):
        weights = tf.Variable(np.float64(1.0))
        more = weights.assign_add(np.float64(1e-12)).op
    with tf.Session() as session:
        session.run(weights.initializer)
        session.run(more)
        assert session.run(weights) == 1.0 + 1e-12


def test_what_was_read_is_not_changed_by_later_updates(gpu: Device) -> None:
    with tf.device(GPU):
        weights = tf.Variable(ROWS, use_resource=True)
        before = weights.read_value()
        with tf.control_dependencies([before]):
            more = weights.assign_add(ROWS)
        with tf.control_dependencies([more]):
            after = tf.reduce_sum(before * 1.0)
    with tf.Session() as session:
        session.run(weights.initializer)
        for n in range(1, 4):
            assert session.run(after) == pytest.approx(n * ROWS.sum(), abs=1e-5)


def test_checkpoints_are_the_same_from_and_to_any_device(gpu: Device, tmp_path: Path) -> None:
    path = str(tmp_path / "model")
    for saves, restores in ((GPU, CPU), (CPU, GPU)):
        with tf.Graph().as_default(), tf.device(saves):
            tf.Variable(ROWS, name="w")
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                with tf.device(CPU):
                    saver = tf.train.Saver()
                saver.save(session, path)
        with tf.Graph().as_default(), tf.device(restores):
            weights = tf.Variable(np.zeros_like(ROWS), name="w")
            total = tf.reduce_sum(tf.square(weights))
            with tf.Session() as session:
                with tf.device(CPU):
                    saver = tf.train.Saver()
                saver.restore(session, path)
                assert session.run(total) == pytest.approx(np.square(ROWS).sum())


def test_bfloat16_and_half_live_there_too(gpu: Device) -> None:
    for dtype in (tf.bfloat16, tf.float16):
        with tf.Graph().as_default(), tf.device(GPU):
            weights = tf.Variable(tf.cast(tf.constant(ROWS), dtype))
            with tf.Session() as session:
                session.run(weights.initializer)
                found = session.run(weights.assign_sub(tf.cast(tf.constant(ROWS), dtype)))
        np.testing.assert_array_equal(found.astype(np.float32), np.zeros_like(ROWS))


@KINDS
@pytest.mark.parametrize("name", embedding_program.OPTIMIZERS)
def test_rows_of_an_embedding_are_updated_where_it_is(
    gpu: Device, name: str, handles: bool
) -> None:
    """What is copied are ids and a few rows; the table of 16,000 bytes stays, and so do its slots."""
    table, copied = trained(GPU, gpu, name, handles)
    assert copied < 3 * 2000
    np.testing.assert_allclose(table, trained(CPU, gpu, name, handles)[0], 1e-4, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "float64", "complex64"])
def test_what_comes_from_a_device_is_a_copy_of_its_own(dtype: str) -> None:
    """As from a GPU, whose memory is not the host's."""
    if gpus.count() < 2:
        pytest.skip("it is one of two devices of the host")
    device = of_name("/device:GPU:1")
    for shape in ((3, 5), (), (0, 2)):
        wanted = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(tf.as_dtype(dtype).np)
        there = device.put(wanted)
        found = xla._got(there)
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
        found[...] = np.ones((), found.dtype)
        np.testing.assert_array_equal(device.get(there), wanted)
        assert there._npy_value is None  # JAX has kept none
