"""Over every transport: what made a producer's queue close reaches consumers in other sessions."""

from __future__ import annotations

import pytest

import headrace as tf
from headrace.serve.rpc.status import from_bytes, from_detail, to_detail
from tests.serve.clusters import Cluster

PS = "/job:ps/task:0"


def test_a_producers_error_reaches_a_consumer_elsewhere(cluster: Cluster) -> None:
    with tf.device(PS):
        queue = tf.FIFOQueue(10, tf.int32, shared_name="examples")
        number = tf.placeholder_with_default("12 apples", [], name="number")
        parsed = tf.string_to_number(number, tf.int32, name="parse")
        element = queue.dequeue()
    runner = tf.train.QueueRunner(queue, [queue.enqueue(parsed)])
    with (
        tf.Session(cluster.target("worker:0")) as loader,
        tf.Session(cluster.target("worker:1")) as trainer,
    ):
        coordinator = tf.train.Coordinator()
        threads = runner.create_threads(loader, coordinator, start=True)
        try:
            with pytest.raises(tf.errors.OutOfRangeError, match="12 apples") as end:
                trainer.run(element)
        finally:
            coordinator.request_stop()
        with pytest.raises(tf.errors.InvalidArgumentError, match="12 apples"):
            coordinator.join(threads, stop_grace_period_secs=60)
    cause = end.value.__cause__
    assert isinstance(cause, tf.errors.InvalidArgumentError)
    assert (cause.node, cause.op_type) == ("parse", "StringToNumber")
    assert "closed because of InvalidArgumentError: " in end.value.message


def test_causes_keep_their_classes_and_fields() -> None:
    first = ValueError("one")
    second = tf.errors.NotFoundError(None, None, "two", node="open")
    third = tf.errors.OutOfRangeError(None, None, "three")
    second.__cause__, third.__cause__ = first, second
    found = from_bytes(to_detail(third).SerializeToString())
    assert isinstance(found.__cause__, tf.errors.NotFoundError)
    assert found.__cause__.node == "open"
    assert isinstance(found.__cause__.__cause__, tf.errors.UnknownError)
    assert found.__cause__.__cause__.message == "ValueError: one"


def test_no_more_causes_travel_than_are_of_use() -> None:
    error = tf.errors.AbortedError(None, None, "0")
    for number in range(1, 50):
        later = tf.errors.AbortedError(None, None, str(number))
        later.__cause__ = error
        error = later
    seen: BaseException | None = from_detail(to_detail(error))
    count = 0
    while seen is not None:
        seen, count = seen.__cause__, count + 1
    assert 2 <= count <= 10


def test_bytes_that_are_no_error_are_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="not an ErrorDetail"):
        from_bytes(b"\xff\xff\xff")
