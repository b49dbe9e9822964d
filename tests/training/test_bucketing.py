"""tf.contrib.training.bucket and bucket_by_sequence_length: batches of what belongs together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf

training = tf.contrib.training


@pytest.fixture(autouse=True)
def _in_a_graph_of_its_own() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def element(count: int) -> tuple[Any, Any]:
    """0, 1, … count - 1, each as itself and as many copies of it."""
    number = tf.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()
    return number, tf.fill([number], number)


def all_of(fetches: Any) -> list[Any]:
    """Values of `fetches` until there are no more."""
    found = []
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            while True:
                found.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            pass
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
    return found


@pytest.mark.parametrize("smaller", [False, True])
def test_sequences_of_like_length_are_batched_and_padded(smaller: bool) -> None:
    number, values = element(8)
    lengths, batch = training.bucket_by_sequence_length(
        number, {"values": values}, 2, [2, 5], dynamic_pad=True, allow_smaller_final_batch=smaller
    )
    assert (
        lengths.shape.as_list() == batch["values"].shape.as_list()[:1] == [None if smaller else 2]
    )
    found = all_of((lengths, batch))
    for sizes, each in found:
        assert each["values"].shape[1] == max(sizes)
        assert [row.tolist() for row in each["values"]] == [
            [size] * size + [0] * (max(sizes) - size) for size in sizes
        ]
    groups = sorted(tuple(sorted(sizes.tolist())) for sizes, _ in found)
    assert groups == ([(0, 1), (2, 3), (4,), (5, 6), (7,)] if smaller else [(0, 1), (2, 3), (5, 6)])


def test_buckets_of_sizes_of_their_own_and_what_is_not_kept() -> None:
    number, _ = element(10)
    which, found = training.bucket(
        [number, number * 10],
        number % 2,
        [2, 3],
        2,
        keep_input=number > 0,
        shapes=[[], []],
        bucket_capacities=[4, 5],
        shared_name="q",
    )
    batches = sorted(
        (int(at), sorted(n.tolist()), sorted(m.tolist())) for at, (n, m) in all_of((which, found))
    )
    assert batches == [
        (0, [2, 4], [20, 40]),
        (0, [6, 8], [60, 80]),
        (1, [1, 3, 5], [10, 30, 50]),
    ]


def test_what_does_not_fit_is_refused() -> None:
    number, values = element(3)
    for wrong, says in (([], "empty"), ([3, 2], "increasing")):
        with pytest.raises(ValueError, match=says):
            training.bucket_by_sequence_length(number, values, 2, wrong)
    with pytest.raises(TypeError, match="integers"):
        training.bucket_by_sequence_length(number, values, 2, [1.5, 2])
    with pytest.raises(TypeError, match="list or tuple"):
        training.bucket_by_sequence_length(number, values, 2, 3)
    with pytest.raises(ValueError, match="dynamic_pad"):
        training.bucket_by_sequence_length(number, values, 2, [2])
    with pytest.raises(ValueError, match="num_buckets elements"):
        training.bucket([number], 0, [2], 2)
    with pytest.raises(ValueError, match="bucket_capacities"):
        training.bucket([number], 0, 2, 2, bucket_capacities=[1])
