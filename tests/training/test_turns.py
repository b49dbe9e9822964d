"""Threads that take turns while their steps are short: who goes on, who waits, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.training import turns as module
from headrace.training.turns import Turns

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However busy the machine is, steps are short and threads wait."""
    monkeypatch.setattr(module, "_LONG_S", WAIT_S)
    monkeypatch.setattr(module, "_PATIENCE_S", WAIT_S)
    monkeypatch.setattr(module, "_LONGEST_PATIENCE_S", WAIT_S)
    with tf.Graph().as_default():
        yield


class Steps:
    """What threads do: their names, in the order in which they did."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def of(self, name: str) -> Any:
        return lambda: self.taken.append(name)


class Watched:
    """The lock of turns; `waits` is set when a thread waits for it, and meanwhile steps are taken if `goes_on`."""

    def __init__(self, turns: Turns, goes_on: bool = False) -> None:
        self._turns, self._lock, self._goes_on = turns, turns.lock, goes_on
        self.waits = threading.Event()
        turns.lock = self  # type: ignore[assignment]

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            self.waits.set()
        got = self._lock.acquire(blocking, timeout)
        if blocking and self._goes_on:
            self._turns.taken += 1
        return got

    def release(self) -> None:
        self._lock.release()


def in_thread(call: Any) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def failing() -> None:
    raise KeyError("ended")


def test_a_thread_goes_on_until_it_fails_and_then_the_next_one_does() -> None:
    steps, turns = Steps(), Turns()
    first, second = turns.of(steps.of("first")), turns.of(steps.of("second"))
    first()
    lock = Watched(turns)
    waiting = in_thread(second)
    assert lock.waits.wait(WAIT_S)
    for _ in range(100):
        first()
    assert steps.taken == ["first"] * 101
    first._step = failing
    with pytest.raises(KeyError):
        first()
    waiting.join(WAIT_S)
    assert steps.taken == ["first"] * 101  # who has waited looks first whether it is to stop
    second()
    assert steps.taken[101:] == ["second"]


def test_who_waits_for_a_thread_that_goes_on_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 1e-3)
    monkeypatch.setattr(module, "_LONGEST_PATIENCE_S", 1e-3)
    steps, turns = Steps(), Turns()
    first, second = turns.of(steps.of("first")), turns.of(steps.of("second"))
    first()
    Watched(turns, goes_on=True)
    for _ in range(20):
        second()
    assert steps.taken == ["first"]


def test_nobody_waits_for_a_thread_that_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 1e-3)
    steps, turns, goes_on = Steps(), Turns(), threading.Event()
    begun = threading.Event()

    def stands() -> None:
        begun.set()
        assert goes_on.wait(WAIT_S)
        steps.taken.append("first")

    first, second = turns.of(stands), turns.of(steps.of("second"))
    standing = in_thread(first)
    assert begun.wait(WAIT_S)
    for _ in range(6):
        second()
    assert steps.taken == ["second"] * 3  # having waited in vain it looks whether it is to stop
    goes_on.set()
    standing.join(WAIT_S)
    assert steps.taken[3:] == ["first"]


def test_long_steps_are_taken_side_by_side_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, turns = Steps(), Turns()
    first, second = turns.of(steps.of("first")), turns.of(steps.of("second"))
    first()
    lock = Watched(turns)
    waiting = in_thread(second)
    assert lock.waits.wait(WAIT_S)
    monkeypatch.setattr(module, "_LONG_S", -1.0)
    first()  # and now it has left
    waiting.join(WAIT_S)
    assert turns.apart == 2 * module._SIDE_BY_SIDE
    for _ in range(module._SIDE_BY_SIDE):
        first()
        second()
    assert steps.taken == ["first"] * 2 + ["first", "second"] * module._SIDE_BY_SIDE
    assert turns.apart == 0
    second()  # its turn, and it has left
    assert turns.apart == 4 * module._SIDE_BY_SIDE


@pytest.mark.parametrize("threads", [2, 5])
def test_runners_of_several_threads_enqueue_everything_and_stop(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As users have it: what a stop lets in is one element a thread at most."""
    monkeypatch.undo()  # and with the patience that there is
    source = tf.FIFOQueue(200_000, [tf.int32], [[]])
    queue = tf.FIFOQueue(200_000, [tf.int32], [[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue(source.dequeue())] * threads)
    with tf.Session() as session:
        held = session.make_callable(queue.size())
        session.run(source.enqueue_many([np.arange(200_000)]))
        coordinator = tf.train.Coordinator()
        running = runner.create_threads(session, coordinator, daemon=True, start=True)
        assert len(runner._turns[session]) == 1
        found = session.run(queue.dequeue_many(2000))
        coordinator.request_stop()
        before = held()
        coordinator.join(running, stop_grace_period_secs=WAIT_S)
        after = held()
        assert before <= after <= before + threads
        found = np.concatenate([found, session.run(queue.dequeue_up_to(after))])
    assert len(set(found.tolist())) == len(found)
