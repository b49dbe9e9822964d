"""Lists of tensors that one task makes and another uses: everywhere, in loops too."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as tf
from headrace.ops.data import tensor_list_calls as lists
from tests.serve.clusters import Cluster

PS, OTHER = "/job:ps/task:0", "/job:worker/task:1"


@pytest.mark.parametrize("used_on", [PS, OTHER, "/job:worker/task:0"])
def test_a_list_of_one_task_is_used_on_another(cluster: Cluster, used_on: str) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    with tf.device(PS):
        made = lists.tensor_list_from_tensor(x, [2])
        made = tf.raw_ops.TensorListPushBack(input_handle=made, tensor=x[0] + 1.0)
    with tf.device(used_on):
        found = lists.tensor_list_stack(made, tf.float32)
        _, last = lists.tensor_list_pop_back(made, tf.float32)
    (slope,) = tf.gradients(found * found, x)
    with tf.Session(cluster.target("worker:0")) as session:
        for size in (1, 3, 20_000):
            value = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
            stacked, popped, dx = session.run([found, last, slope], {x: value})
            assert stacked.tolist() == [*value.tolist(), (value[0] + 1).tolist()]
            assert popped.tolist() == (value[0] + 1).tolist()
            wanted = 2 * value
            wanted[0] += 2 * (value[0] + 1)
            assert np.allclose(dx, wanted)


def test_vectors_of_lists_and_optionals_go_from_task_to_task(cluster: Cluster) -> None:
    with tf.device(PS):
        empty = lists.empty_tensor_list([], tf.string)
        both = tf.stack([empty, tf.raw_ops.TensorListPushBack(input_handle=empty, tensor=b"a")])
        some = tf.raw_ops.OptionalFromValue(components=[both])
    with tf.device(OTHER):
        (back,) = tf.raw_ops.OptionalGetValue(
            optional=some, output_types=[tf.variant], output_shapes=[[2]]
        )
        sizes = [tf.raw_ops.TensorListLength(input_handle=back[n]) for n in range(2)]
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(3):
            assert session.run(sizes) == [0, 1]


def test_a_loop_whose_list_grows_on_another_task(cluster: Cluster) -> None:
    def body(i, items):  # type: ignore[no-untyped-def]
        with tf.device(PS):
            return i + 1, tf.raw_ops.TensorListPushBack(
                input_handle=items, tensor=tf.cast(i, tf.float32)
            )

    with tf.device(OTHER):
        start = lists.empty_tensor_list([], tf.float32)
        _, items = tf.while_loop(lambda i, _: i < 4, body, [tf.constant(0), start])
        found = lists.tensor_list_stack(items, tf.float32)
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(3):
            assert session.run(found).tolist() == [0, 1, 2, 3]


def test_a_queue_of_lists_is_shared(cluster: Cluster) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(3, [tf.variant], shapes=[()], shared_name="lists")
    with tf.device(OTHER):
        put = queue.enqueue([lists.tensor_list_from_tensor([1.0, 2.0], [])])
        got = lists.tensor_list_stack(queue.dequeue(), tf.float32)
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(3):
            session.run(put)
            assert session.run(got).tolist() == [1, 2]


def test_a_list_is_nothing_to_fetch(cluster: Cluster) -> None:
    with tf.device(PS):
        made = lists.empty_tensor_list([], tf.float32)
    with tf.Session(cluster.target("worker:0")) as session:
        with pytest.raises(tf.errors.InternalError, match="Tensorflow type 21 not convertible"):
            session.run(made)
        session.run(made.op)
