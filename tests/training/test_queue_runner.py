"""Queue runners: threads that fill a queue, close it at the input's end, and stop when told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as fresh:
        yield fresh


def counted(limit: int) -> tuple[Any, Any]:
    """A queue and an enqueue op that can run `limit` times."""
    count = tf.Variable(0, trainable=False)
    queue = tf.FIFOQueue(100, tf.int32, shapes=[[]])
    return queue, queue.enqueue(count.count_up_to(limit))


def test_every_element_arrives_and_then_the_queue_is_closed() -> None:
    queue, enqueue = counted(30)
    runner = tf.train.QueueRunner(queue, [enqueue] * 3)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for thread in (threads := runner.create_threads(session, start=True)):
            thread.join(60)
        assert len(threads) == 3
        assert session.run(queue.is_closed())
        assert sorted(session.run(queue.dequeue_many(30)).tolist()) == list(range(30))
    assert runner.exceptions_raised == []


def test_a_blocked_enqueue_is_released_by_the_coordinator() -> None:
    queue = tf.FIFOQueue(1, tf.int32, name="small")
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    tf.train.add_queue_runner(runner)
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        names = sorted(thread.name for thread in threads)
        assert names == [
            "QueueRunnerThread-small-close_on_stop", "QueueRunnerThread-small-small_enqueue",
        ]  # fmt: skip
        assert session.run(queue.dequeue()) == 1
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
        assert session.run(queue.is_closed())


def test_an_error_travels_to_join() -> None:
    queue = tf.FIFOQueue(10, tf.string, name="contents")
    tf.train.add_queue_runner(
        tf.train.QueueRunner(queue, [queue.enqueue(tf.read_file("/nowhere/at/all"))])
    )
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        with pytest.raises(tf.errors.NotFoundError, match="/nowhere/at/all"):
            coordinator.join(threads, stop_grace_period_secs=60)


def consume(session: tf.Session, element: Any) -> tf.errors.OutOfRangeError:
    """Run `element` until the queue behind it ends; how it ended."""
    while True:
        try:
            session.run(element)
        except tf.errors.OutOfRangeError as end:
            return end


def test_a_producers_error_reaches_the_consumer() -> None:
    queue = tf.FIFOQueue(10, tf.string, name="contents")
    read = tf.read_file("/nowhere/at/all", name="open")
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(read)]))
    element = queue.dequeue()
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        tf.train.start_queue_runners(session, coordinator)
        end = consume(session, element)
        coordinator.request_stop()
        with pytest.raises(tf.errors.NotFoundError):
            coordinator.join(stop_grace_period_secs=60)
    assert isinstance(end.__cause__, tf.errors.NotFoundError)
    assert end.__cause__.node == "open"
    assert end.message.startswith(
        "FIFOQueue 'contents' is closed and has insufficient elements (requested 1, current size 0); "
        "it was closed because of NotFoundError: "
    )
    assert "/nowhere/at/all" in end.message


def test_an_error_goes_down_a_pipeline_of_queues() -> None:
    names = tf.train.string_input_producer(["/nowhere/at/all"], num_epochs=1)
    _, line = tf.TextLineReader().read(names)
    batch = tf.train.batch([line], 2)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        tf.train.start_queue_runners(session, coordinator)
        end = consume(session, batch)
        coordinator.request_stop()
        with pytest.raises(tf.errors.NotFoundError):
            coordinator.join(stop_grace_period_secs=60)
    assert isinstance(end.__cause__, tf.errors.NotFoundError)


def test_the_end_of_the_input_has_no_cause() -> None:
    names = tf.train.string_input_producer(["a", "b"], num_epochs=1)
    element = names.dequeue()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        end = consume(session, element)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
    assert end.__cause__ is None
    assert "because" not in end.message


def test_a_queue_that_had_ended_is_not_closed_by_a_later_error() -> None:
    queue = tf.FIFOQueue(10, tf.int32)
    element, close = queue.dequeue(), queue.close()
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    with tf.Session() as session:
        session.run(close)
        coordinator = tf.train.Coordinator()
        coordinator.request_stop(ValueError("too late"))
        for thread in runner.create_threads(session, coordinator, start=True):
            thread.join(60)
        end = consume(session, element)
    assert end.__cause__ is None


class Losing:
    """Has `Session.run` lose its connection for the first `times` that it runs `op`."""

    def __init__(self, monkeypatch: Any, op: Any, times: int) -> None:
        self.times = times
        run = tf.Session.run

        def losing(session: tf.Session, fetches: Any, *args: Any, **options: Any) -> Any:
            if fetches is op and self.times:
                self.times -= 1
                raise tf.errors.UnavailableError(None, None, "the connection broke")
            return run(session, fetches, *args, **options)

        monkeypatch.setattr(tf.Session, "run", losing)


def test_closing_is_tried_again_when_a_connection_breaks(monkeypatch: Any) -> None:
    """Else a consumer in another process would wait for ever."""
    queue, enqueue = counted(3)
    runner = tf.train.QueueRunner(queue, [enqueue])
    element = queue.dequeue()
    runner.close_pause_s = 0.0
    lost = Losing(monkeypatch, runner.close_op, 2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = runner.create_threads(session, start=True)
        consume(session, element)
        for thread in threads:
            thread.join(60)
    assert lost.times == 0


def test_a_queue_that_cannot_be_closed_is_given_up_aloud(monkeypatch: Any, caplog: Any) -> None:
    queue, enqueue = counted(0)
    runner = tf.train.QueueRunner(queue, [enqueue])
    Losing(monkeypatch, runner.close_op, 1)
    runner.close_within_s = -1.0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for thread in runner.create_threads(session, start=True):
            thread.join(60)
    assert "could not be closed: the connection broke" in caplog.text


def test_without_a_coordinator_the_runner_keeps_the_error(monkeypatch: Any) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: raised.append(args.exc_value))
    queue = tf.FIFOQueue(10, tf.string)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(tf.read_file("/nowhere/at/all"))])
    with tf.Session() as session:
        for thread in runner.create_threads(session, start=True):
            thread.join(60)
    (kept,) = runner.exceptions_raised
    assert isinstance(kept, tf.errors.NotFoundError)
    assert raised == [kept]


def test_closing_the_session_releases_its_threads() -> None:
    queue = tf.FIFOQueue(1, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)] * 2)
    session = tf.Session()
    coordinator = tf.train.Coordinator()
    threads = runner.create_threads(session, coordinator, start=True)
    session.run(queue.dequeue())
    session.close()
    with pytest.raises((tf.errors.CancelledError, RuntimeError)):
        coordinator.join(threads, stop_grace_period_secs=60)


def test_threads_run_once_per_session() -> None:
    queue = tf.FIFOQueue(1, tf.int32)
    runner = tf.train.QueueRunner(queue, [queue.enqueue(1)])
    with tf.Session() as one, tf.Session() as other:
        coordinator = tf.train.Coordinator()
        first = runner.create_threads(one, coordinator, start=True)
        assert len(first) == 2
        assert runner.create_threads(one, coordinator, start=True) == []
        second = runner.create_threads(other, coordinator, start=True)
        assert len(second) == 2
        coordinator.request_stop()
        coordinator.join([*first, *second], stop_grace_period_secs=60)
        again = tf.train.Coordinator()
        third = runner.create_threads(one, again, daemon=True)
        assert [thread.daemon for thread in third] == [True, True]


def test_several_runners_of_one_session_work_side_by_side() -> None:
    names = tf.train.range_input_producer(4, num_epochs=1, shuffle=False)
    squares = tf.FIFOQueue(10, tf.int32, shapes=[[]])
    one = names.dequeue()
    tf.train.add_queue_runner(tf.train.QueueRunner(squares, [squares.enqueue(one * one)] * 2))
    out = squares.dequeue_up_to(3)
    seen: list[int] = []

    def drain(session: tf.Session) -> None:
        while True:
            seen.extend(session.run(out).tolist())

    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(coord=coordinator)
        with pytest.raises(tf.errors.OutOfRangeError):
            drain(session)
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=60)
    assert sorted(seen) == [0, 1, 4, 9]


def test_a_runner_survives_its_proto(graph: tf.Graph) -> None:
    with tf.name_scope("outer"):
        queue, enqueue = counted(3)
        runner = tf.train.QueueRunner(
            queue,
            [enqueue],
            queue_closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.CancelledError),
        )
    proto = runner.to_proto()
    assert proto is not None
    again = tf.train.QueueRunner.from_proto(proto)
    assert again.to_proto() == proto
    assert again.enqueue_ops == [enqueue]
    assert again.queue_closed_exception_types == (
        tf.errors.OutOfRangeError, tf.errors.CancelledError,
    )  # fmt: skip
    inner = runner.to_proto(export_scope="outer")
    assert inner is not None
    assert inner.queue_name == "fifo_queue"
    assert runner.to_proto(export_scope="elsewhere") is None
    assert tf.train.QueueRunner.from_proto(inner, import_scope="outer").to_proto() == proto
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for thread in again.create_threads(session, start=True):
            thread.join(60)
        assert session.run(queue.size()) == 3


def test_a_runner_is_made_properly() -> None:
    queue = tf.FIFOQueue(1, tf.int32)
    enqueue = queue.enqueue(1)
    with pytest.raises(ValueError, match="Must provide queue and enqueue_ops"):
        tf.train.QueueRunner(queue, [])
    for types in ([tf.errors.OutOfRangeError], (), (ValueError,)):
        with pytest.raises(TypeError, match=r"tf\.errors"):
            tf.train.QueueRunner(queue, [enqueue], queue_closed_exception_types=types)  # type: ignore[arg-type]
    proto = tf.train.QueueRunner(queue, [enqueue]).to_proto()
    with pytest.raises(ValueError, match="exclusive"):
        tf.train.QueueRunner(queue, queue_runner_def=proto)
    with pytest.raises(TypeError, match="QueueRunnerDef"):
        tf.train.QueueRunner(queue_runner_def=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="default session"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match=r"tf\.Session"):
        tf.train.start_queue_runners(sess=3)
