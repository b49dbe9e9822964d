"""Tensors that stay on their task between steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import headrace as tf
from tests.serve.clusters import in_process


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def test_a_tensor_stays_on_the_task_that_computed_it() -> None:
    with (
        in_process({"ps": 1, "worker": 1}) as tasks,
        tf.Session(tasks.target("worker:0")) as session,
    ):
        with tf.device("/job:ps/task:0"):
            made = tf.constant([1.0, 2.0]) * 2
        kept = session.run(tf.get_session_handle(made))
        assert kept.handle.startswith("GetSessionHandle;0;/job:ps/replica:0/task:0")
        holder, tensor = tf.get_session_tensor(kept.handle, tf.float32)
        assert "/job:ps" in tensor.device
        assert session.run(tensor + 1, {holder: kept.handle}).tolist() == [3.0, 5.0]
        kept.delete()
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            session.run(tensor, {holder: kept.handle})


def test_what_is_kept_is_a_copy_and_so_is_what_is_read() -> None:
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(v.initializer)
        kept = session.run(tf.get_session_handle(v.read_value()))
        session.run(v.assign([7.0, 7.0]))
        first = kept.eval()
        first[0] = 9.0
        assert kept.eval().tolist() == [1.0, 2.0]
        assert np.asarray(kept).tolist() == [1.0, 2.0]


def test_a_tensor_of_another_dtype_is_refused() -> None:
    with tf.Session() as session:
        kept = session.run(tf.get_session_handle(tf.constant([1, 2])))
        holder, tensor = tf.get_session_tensor(kept.handle, tf.float32)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"is int32, and float32"):
            session.run(tensor, {holder: kept.handle})
