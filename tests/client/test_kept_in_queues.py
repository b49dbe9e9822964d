"""What a queue keeps without a copy is nobody else's: no update, no caller and no step can change it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.queues.columns import Chunks

ROWS, WIDTH = 6, 1000


@pytest.fixture
def session() -> Iterator[tf.Session]:
    with tf.Graph().as_default(), tf.Session() as running:
        yield running


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch that was put into large queues was kept as it is."""
    seen: list[bool] = []
    put_many = Chunks.put_many

    def noted(self: Any, batch: Any, start: int, stop: int, kept: Any = ()) -> None:
        put_many(self, batch, start, stop, kept)
        seen.append(self._chunks[-1].arrays[0] is batch[0])

    monkeypatch.setattr(Chunks, "put_many", noted)
    return seen


def queue_of_rows(capacity: int = 100) -> Any:
    return tf.FIFOQueue(capacity, [tf.float32], [[WIDTH]])


@pytest.mark.parametrize("use_resource", [False, True])
def test_updates_of_a_variable_do_not_reach_what_was_enqueued_of_it(
    session: tf.Session, use_resource: bool, kept: list[bool]
) -> None:
    x = tf.get_variable(
        "x", initializer=np.zeros((ROWS, WIDTH), np.float32), use_resource=use_resource
    )
    queue = queue_of_rows()
    put, get = queue.enqueue_many([x]), queue.dequeue_many(ROWS)
    session.run(tf.global_variables_initializer())
    for number in range(3):
        session.run(put)
        session.run(x.assign_add(np.full((ROWS, WIDTH), 1, np.float32)))
        session.run(put)
        for wanted in (number, number + 1):
            found = session.run(get)
            assert np.unique(found) == [wanted]
            found[:] = -1  # the caller's own
        assert np.unique(session.run(x)) == [number + 1]
    if not use_resource:
        assert all(kept)


def test_a_step_may_update_what_it_has_enqueued_and_dequeue_it_again(session: tf.Session) -> None:
    x = tf.Variable(np.ones((ROWS, WIDTH), np.float32))
    queue = queue_of_rows()
    with tf.control_dependencies([queue.enqueue_many([x])]):
        changed = x.assign(np.full((ROWS, WIDTH), 5, np.float32))
    with tf.control_dependencies([changed.op]):
        back = queue.dequeue_many(ROWS)
    total = tf.reduce_sum(back)
    session.run(tf.global_variables_initializer())
    assert session.run(total) == ROWS * WIDTH
    assert np.unique(session.run(x)) == [5]


def test_a_value_made_for_the_queue_alone_is_kept(session: tf.Session, kept: list[bool]) -> None:
    fed = tf.placeholder(tf.float32, [ROWS, WIDTH])
    queue = queue_of_rows()
    put, get = queue.enqueue_many([fed * 2.0]), queue.dequeue_many(ROWS)
    session.run(put, {fed: np.ones((ROWS, WIDTH))})
    found = session.run(get)
    assert kept == [True]
    assert np.unique(found) == [2]
    found[:] = 7
    session.run(put, {fed: np.ones((ROWS, WIDTH))})
    assert np.unique(session.run(get)) == [2]


def test_what_is_fetched_fed_used_twice_or_constant_is_copied(
    session: tf.Session, kept: list[bool]
) -> None:
    fed = tf.placeholder(tf.float32, [ROWS, WIDTH])
    queue = queue_of_rows()
    get = queue.dequeue_many(ROWS)
    value = np.ones((ROWS, WIDTH), np.float32)

    put = queue.enqueue_many([fed])
    session.run(put, {fed: value})
    value[:] = 9
    assert np.unique(session.run(get)) == [1]

    doubled = fed * 2.0
    put = queue.enqueue_many([doubled])
    mine, _ = session.run([doubled, put], {fed: value})
    mine[:] = 0
    assert np.unique(session.run(get)) == [18]

    mine, _ = session.run([fed * 2.0, put], {fed: value})  # an equal node, which runs once
    mine[:] = 0
    assert np.unique(session.run(get)) == [18]

    mine, _ = session.run([tf.reshape(doubled, [-1]), put], {fed: value})
    mine[:] = 0
    assert np.unique(session.run(get)) == [18]

    tripled = fed * 3.0
    session.run([queue.enqueue_many([tripled]), queue.enqueue_many([tripled])], {fed: value})
    first, second = session.run(get), session.run(get)
    first[:] = 0
    assert np.unique(second) == [27]

    constant = tf.constant(np.full((ROWS, WIDTH), 4, np.float32))
    session.run(queue.enqueue_many([constant]))
    session.run(get)[:] = 0
    assert np.unique(session.run(constant)) == [4]
    assert not any(kept)


def test_a_batch_that_waits_for_room_goes_in_whole_or_in_parts(session: tf.Session) -> None:
    x = tf.Variable(np.zeros((ROWS, WIDTH), np.float32))
    queue = queue_of_rows(capacity=ROWS + 2)
    put, get = queue.enqueue_many([x + 1.0]), queue.dequeue_many(ROWS)
    session.run(tf.global_variables_initializer())
    put_reference = queue.enqueue_many([x])
    session.run(put)
    runner = tf.train.QueueRunner(queue, [put_reference])
    coordinator = tf.train.Coordinator()
    threads = runner.create_threads(session, coordinator, daemon=True, start=True)
    assert np.unique(session.run(get)) == [1]
    for _ in range(3):
        assert np.unique(session.run(get)) == [0]
    session.run(x.assign(np.full((ROWS, WIDTH), 5, np.float32)))
    while session.run(get)[0, 0] != 5:
        pass
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=60)
