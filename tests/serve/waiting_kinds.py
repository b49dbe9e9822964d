"""Every kind of operation that may wait, with what it waits for and what must hold when it was given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import headrace as tf
from headrace.contrib.staging import MapStagingArea, StagingArea
from headrace.python.ops import data_flow_ops


class Kind(NamedTuple):
    """An operation that waits when `first` has run, and again whenever it has been released and has run.

    after: what each must give when it was given up and `release` has run.
    """

    wait: Any
    release: Any
    after: list[tuple[Any, Any]]
    first: list[Any]


def dequeue() -> Kind:
    queue = tf.FIFOQueue(9, [tf.float32], [[]])
    take = queue.dequeue()
    return Kind(take, queue.enqueue(5.0), [(queue.size(), 1), (take, 5.0)], [])


def dequeue_many() -> Kind:
    queue = tf.FIFOQueue(9, [tf.float32], [[]])
    put, take = queue.enqueue_many([[5.0, 6.0]]), queue.dequeue_many(2)
    return Kind(take, put, [(queue.size(), 2), (take, [5.0, 6.0])], [])


def enqueue() -> Kind:
    queue = tf.FIFOQueue(1, [tf.float32], [[]])
    put = queue.enqueue(1.0)
    return Kind(put, queue.dequeue(), [(queue.size(), 0)], [put])


def shuffled() -> Kind:
    queue = tf.RandomShuffleQueue(9, 0, [tf.float32], [[]])
    take = queue.dequeue()
    return Kind(take, queue.enqueue(5.0), [(queue.size(), 1), (take, 5.0)], [])


def barrier() -> Kind:
    made = data_flow_ops.Barrier((tf.float32,), shapes=((),))
    put, take = made.insert_many(0, ["a"], [4.0]), made.take_many(1)
    return Kind(take[1], put, [(made.ready_size(), 1), (take[1], [b"a"])], [])


def staged() -> Kind:
    area = StagingArea([tf.float32], [[]])
    (take,) = area.get()
    return Kind(take, area.put([3.0]), [(area.size(), 1), (take, 3.0)], [])


def staging() -> Kind:
    area = StagingArea([tf.float32], [[]], capacity=1)
    put = area.put([3.0])
    return Kind(put, area.get()[0], [(area.size(), 0)], [put])


def staged_by_key() -> Kind:
    area = MapStagingArea([tf.float32], [[]])
    take = area.get(7)[1][0]
    return Kind(take, area.put(7, [3.0], [0]), [(area.size(), 1), (take, 3.0)], [])


def accumulated() -> Kind:
    made = tf.ConditionalAccumulator(tf.float32, [])
    put, take = made.apply_grad(4.0, 1 << 40), made.take_grad(1)
    return Kind(take, put, [(made.num_accumulated(), 1), (take, 4.0)], [])


def accumulated_rows() -> Kind:
    made = tf.SparseConditionalAccumulator(tf.float32, [2])
    put = made.apply_grad([1], [4.0], local_step=1 << 40)
    take = made.take_indexed_slices_grad(1).values
    return Kind(take, put, [(made.num_accumulated(), 1), (take, [4.0])], [])


def dequeue_in_a_branch() -> Kind:
    queue = tf.FIFOQueue(9, [tf.float32], [[]])
    take = tf.cond(tf.placeholder_with_default(True, []), queue.dequeue, lambda: tf.constant(0.0))
    return Kind(take, queue.enqueue(5.0), [(queue.size(), 1), (take, 5.0)], [])


def dequeue_in_a_loop() -> Kind:
    queue = tf.FIFOQueue(9, [tf.float32], [[]])

    def body(count: Any, total: Any) -> Any:
        with tf.control_dependencies([total]):
            return count + 1, total + queue.dequeue()

    _, take = tf.while_loop(lambda count, _: count < 1, body, [0, 0.0])
    return Kind(take, queue.enqueue(5.0), [(queue.size(), 1), (take, 5.0)], [])


KINDS: tuple[Callable[[], Kind], ...] = (
    dequeue, dequeue_many, enqueue, shuffled, barrier, staged, staging, staged_by_key, accumulated,
    accumulated_rows, dequeue_in_a_branch, dequeue_in_a_loop,
)  # fmt: skip
