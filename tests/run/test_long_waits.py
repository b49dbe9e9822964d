"""Waits that get long say so to whoever watches over their scope; steps that wait are known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.run import long_waits
from headrace.run.pending import Pending
from headrace.run.queues.queue import Queue
from headrace.run.scope import Scope


@pytest.fixture
def soon() -> Iterator[None]:
    """A wait is long after an instant."""
    before = long_waits.threshold_s
    long_waits.report_after(0.001)
    yield
    long_waits.report_after(before)


def test_a_wait_that_gets_long_tells_whoever_watches_over_a_parent(soon: None) -> None:
    above = Scope()
    pending: Pending[int] = Pending()
    told: list[float] = []

    def hear(waited_s: float) -> None:
        told.append(waited_s)
        if len(told) == 3:
            pending.resolve(7)

    long_waits.watch_over(above, hear)
    assert pending.wait(Scope(parent=Scope(parent=above))) == 7
    assert told[0] >= 0.0005
    assert told[1] >= 0.001
    assert told[2] >= 0.002


def test_a_wait_under_a_deadline_still_ends_there(soon: None) -> None:
    with pytest.raises(tf.errors.DeadlineExceededError):
        Pending[int]().wait(Scope(0.02))


def test_a_step_is_among_the_waiting_while_it_waits(soon: None) -> None:
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(3, tf.int32, name="numbers")
        element = queue.dequeue(name="take")
        enqueue = queue.enqueue(5)
        told = threading.Event()
        seen: list[str] = []
        with tf.Session() as session:

            def hear(waited_s: float) -> None:
                for execution in list(long_waits.waiting):
                    for node, pending in execution.waits():
                        seen.append(f"{node.name}: {pending.wait_info}")
                told.set()

            long_waits.watch_over(session._engine.scope, hear)
            release = threading.Thread(target=lambda: told.wait(60) and session.run(enqueue))
            release.start()
            assert session.run(element) == 5
            release.join()
    assert seen[0].startswith("take: dequeue on FIFOQueue 'numbers', for ")
    left = [node.name for execution in list(long_waits.waiting) for node, _ in execution.waits()]
    assert "take" not in left


@pytest.mark.parametrize(
    ("text", "seconds"), [("", 10.0), ("2.5", 2.5), ("0", None), ("-1", None), ("soon", 10.0)]
)
def test_the_threshold_is_the_environments(text: str, seconds: float | None) -> None:
    assert long_waits._asked_for({"HEADRACE_BLOCKED_AFTER_S": text}) == seconds


def test_long_waits_are_told_also_when_blocked_steps_are_not_reported() -> None:
    """They may be waits for servers."""
    before = long_waits.threshold_s
    long_waits.report_after(None)
    try:
        assert long_waits.threshold_s is None
        assert long_waits.first_poll_s == 5.0
    finally:
        long_waits.report_after(before)


def test_a_step_that_is_ended_before_it_waits_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be there until it looks again, and take what it was no longer to take."""
    naps = []
    with tf.Graph().as_default(), tf.Session() as session:
        take = tf.FIFOQueue(1, [tf.int32], [[]]).dequeue()
        start = Queue.dequeue

        def dequeue(queue: Queue, *args: Any, **kwargs: Any) -> Any:
            pending = start(queue, *args, **kwargs)
            session._engine.scope.cancel(errors.cancelled("ended by the test"))
            return pending

        def sleep_limit(scope: Scope, poll_s: float) -> float:
            naps.append(poll_s)
            return 0.0

        monkeypatch.setattr(Queue, "dequeue", dequeue)
        monkeypatch.setattr(long_waits, "sleep_limit", sleep_limit)
        with pytest.raises(tf.errors.CancelledError, match="ended by the test"):
            session.run(take)
    assert naps == []
