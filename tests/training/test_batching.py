"""Batching: nothing lost or doubled, in whatever form the tensors are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def drained(tensors: Any) -> list[Any]:
    """Every batch until the input ends."""
    seen = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        with coordinator.stop_on_exception():
            while not coordinator.should_stop():
                seen.append(session.run(tensors))
        coordinator.join(threads, stop_grace_period_secs=60)
    return seen


def numbers(count: int) -> Any:
    return tf.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()


def test_what_does_not_fill_a_batch_is_dropped_or_makes_a_shorter_one() -> None:
    assert [b.tolist() for b in drained(tf.train.batch([numbers(7)], 3))] == [[0, 1, 2], [3, 4, 5]]
    short = tf.train.batch([numbers(7)], 3, allow_smaller_final_batch=True)
    assert [b.tolist() for b in drained(short)] == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_dict_comes_back_as_a_dict() -> None:
    n = numbers(4)
    batches = drained(tf.train.batch({"n": n, "double": [n, n]}, 2))
    assert [sorted(b) for b in batches] == [["double", "n"]] * 2
    assert batches[1]["double"].tolist() == [[2, 2], [3, 3]]
    only = drained(tf.train.batch({"n": numbers(2)}, 2))
    assert only[0]["n"].tolist() == [0, 1]


JOINS: list[Callable[[list[Any]], Any]] = [
    lambda sets: tf.train.batch_join(sets, 4, allow_smaller_final_batch=True),
    lambda sets: tf.train.shuffle_batch_join(sets, 4, 40, 9, seed=2, allow_smaller_final_batch=True),
    lambda sets: tf.train.batch(sets[0], 4, num_threads=3, allow_smaller_final_batch=True),
    lambda sets: tf.train.shuffle_batch(sets[0], 4, 40, 9, num_threads=3, allow_smaller_final_batch=True),
]  # fmt: skip


@pytest.mark.parametrize("join", JOINS, ids=["join", "shuffle join", "threads", "shuffle threads"])
def test_several_threads_lose_and_double_nothing(join: Callable[[list[Any]], Any]) -> None:
    n = numbers(200)
    batches = drained(join([[n, tf.as_string(n)]] * 3))
    pairs = sorted(
        (int(a), int(b)) for left, right in batches for a, b in zip(left, right, strict=True)
    )
    assert pairs == [(i, i) for i in range(200)]


def test_what_is_not_to_be_kept_is_left_out_one_by_one_or_in_rows() -> None:
    n = numbers(10)
    kept = tf.train.maybe_batch([n], n % 3 > 0, 2)
    assert [b.tolist() for b in drained(kept)] == [[1, 2], [4, 5], [7, 8]]
    rows = tf.train.range_input_producer(12, num_epochs=1, shuffle=False).dequeue_many(4)
    kept = tf.train.maybe_shuffle_batch([rows], 2, 40, 1, rows % 3 > 0, enqueue_many=True)
    assert sorted(np.concatenate(drained(kept)).tolist()) == [1, 2, 4, 5, 7, 8, 10, 11]


def test_sparse_tensors_come_out_as_the_rows_that_went_in() -> None:
    n = tf.cast(numbers(5), tf.int64)
    row = tf.SparseTensor(tf.reshape(n, [1, 1]), tf.as_string([n]), tf.reshape(n + 1, [1]))
    batches = drained(tf.train.batch([row, n], 3, allow_smaller_final_batch=True))
    assert [[part.tolist() for part in sparse] for sparse, _ in batches] == [
        [[[0, 0], [1, 1], [2, 2]], [b"0", b"1", b"2"], [3, 3]],
        [[[0, 3], [1, 4]], [b"3", b"4"], [2, 5]],
    ]


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: tf.train.batch([], 3), ValueError, "at least one tensor"),
        (lambda: tf.train.batch_join([], 3), ValueError, "at least one set"),
        (lambda: tf.train.batch_join([[1], [1, 2]], 3), ValueError, r"lengths: \[1, 2\]"),
        (lambda: tf.train.batch_join([{"a": 1}, {"b": 1}], 3), ValueError, "same keys"),
        (lambda: tf.train.batch_join([[1], [1.0]], 3), TypeError, "int32 vs. float32"),
        (lambda: tf.train.batch([tf.placeholder(tf.int32)], 3), ValueError, "give `shapes`"),
        (lambda: tf.train.shuffle_batch([1], 3, 5, 5), ValueError, "bigger than min_after_dequeue 5"),
        (lambda: tf.train.maybe_batch([1], [True], 3), ValueError, "scalar when enqueue_many"),
        (lambda: tf.train.maybe_batch([1], tf.placeholder(tf.bool), 3), ValueError, "known rank"),
    ],
)  # fmt: skip
def test_what_cannot_be_batched_is_refused(make: Any, kind: Any, says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


def test_batches_need_no_more_than_their_runners(graph: tf.Graph) -> None:
    batch = tf.train.batch([tf.constant(1)], 2)
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        assert session.run(batch).tolist() == [1, 1]
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
    assert len(graph.get_collection(tf.GraphKeys.SUMMARIES)) == 1
