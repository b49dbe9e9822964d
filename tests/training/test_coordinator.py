"""Coordinator: one asks, all stop, the first error is raised where the threads are joined."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from headrace.training.coordinator import Coordinator, LooperThread


def started(target: Callable[..., Any], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args)
    thread.start()
    return thread


def test_join_waits_for_threads_that_end_by_themselves() -> None:
    coordinator, done = Coordinator(), []
    threads = [started(done.append, n) for n in range(3)]
    coordinator.join(threads)
    assert sorted(done) == [0, 1, 2]
    assert coordinator.joined
    assert not coordinator.should_stop()


def test_a_stop_releases_who_waits_for_it() -> None:
    coordinator = Coordinator()
    threads = [started(coordinator.wait_for_stop) for _ in range(3)]
    assert not coordinator.wait_for_stop(0)
    started(coordinator.request_stop).join()
    coordinator.join(threads, stop_grace_period_secs=60)
    assert coordinator.should_stop()


def test_join_is_woken_by_a_stop_from_another_thread() -> None:
    coordinator, entered = Coordinator(), threading.Event()

    def work() -> None:
        entered.set()
        coordinator.wait_for_stop()

    coordinator.register_thread(started(work))
    asker = started(lambda: (entered.wait(60), coordinator.request_stop()))
    coordinator.join(stop_grace_period_secs=60)
    asker.join()


def test_the_first_error_is_the_one_that_join_raises() -> None:
    coordinator = Coordinator()

    def fail(text: str) -> None:
        with coordinator.stop_on_exception():
            raise KeyError(text)

    first = started(fail, "first")
    first.join()
    second = started(fail, "second")
    with pytest.raises(KeyError, match="first"):
        coordinator.join([first, second])
    with pytest.raises(KeyError, match="first"):
        coordinator.raise_requested_exception()


def test_the_end_of_the_input_is_a_clean_stop() -> None:
    coordinator = Coordinator()
    with coordinator.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "no more")
    assert coordinator.should_stop()
    coordinator.join()
    coordinator.raise_requested_exception()


def test_clean_stop_types_can_be_chosen() -> None:
    coordinator = Coordinator(clean_stop_exception_types=(KeyError,))
    coordinator.request_stop(KeyError("fine"))
    coordinator.join()
    strict = Coordinator(clean_stop_exception_types=())
    strict.request_stop(tf.errors.OutOfRangeError(None, None, "no more"))
    with pytest.raises(tf.errors.OutOfRangeError):
        strict.join()


def test_exc_info_keeps_its_traceback() -> None:
    coordinator = Coordinator()
    try:
        raise KeyError("here")
    except KeyError as error:
        coordinator.request_stop((KeyError, error, error.__traceback__))
    with pytest.raises(KeyError) as caught:
        coordinator.join()
    names = [entry.name for entry in caught.traceback]
    assert "test_exc_info_keeps_its_traceback" in names


@pytest.mark.parametrize(("ex", "error"), [(3, TypeError), ((1, 2, 3), ValueError)])
def test_a_reason_must_be_an_exception(ex: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Coordinator().request_stop(ex)


def test_after_join_an_error_is_raised_at_once() -> None:
    coordinator = Coordinator()
    coordinator.join()
    coordinator.request_stop()
    coordinator.request_stop(tf.errors.OutOfRangeError(None, None, "clean"))
    with pytest.raises(KeyError, match="late"):
        coordinator.request_stop(KeyError("late"))


def test_threads_that_do_not_stop_are_named() -> None:
    coordinator, release = Coordinator(), threading.Event()
    stubborn = threading.Thread(target=release.wait, name="stubborn")
    stubborn.start()
    coordinator.request_stop()
    try:
        with pytest.raises(RuntimeError, match="stubborn"):
            coordinator.join([stubborn], stop_grace_period_secs=0)
        coordinator.join([stubborn], stop_grace_period_secs=0, ignore_live_threads=True)
    finally:
        release.set()
        stubborn.join()


def test_a_cleared_coordinator_serves_again() -> None:
    coordinator = Coordinator()
    coordinator.request_stop(KeyError("old"))
    coordinator.clear_stop()
    assert not coordinator.should_stop()
    coordinator.join()


def test_ctrl_c_interrupts_join(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator()
    thread = started(coordinator.wait_for_stop)

    class Interrupted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            raise KeyboardInterrupt

    monkeypatch.setattr("headrace.training.coordinator.threading.Event", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        coordinator.join([thread])
    monkeypatch.undo()
    coordinator.request_stop()
    coordinator.join([thread])


def test_a_looper_loops_until_the_stop() -> None:
    coordinator, enough = Coordinator(), threading.Event()
    count = []

    def tick(step: int, more: int = 0) -> None:
        count.append(step + more)
        if len(count) >= 5:
            enough.set()

    looper = LooperThread.loop(coordinator, None, tick, args=(1,), kwargs={"more": 2})
    assert enough.wait(60)
    coordinator.request_stop()
    coordinator.join()
    assert not looper.is_alive()
    assert set(count) == {3}


def test_a_timed_looper_starts_at_once_and_tells_start_and_stop() -> None:
    coordinator, events = Coordinator(), []

    class Looper(LooperThread):
        def start_loop(self) -> None:
            events.append("start")

        def run_loop(self) -> None:
            events.append("loop")
            self._coord.request_stop()

        def stop_loop(self) -> None:
            events.append("stop")

    Looper(coordinator, 3600.0).start()
    coordinator.join(stop_grace_period_secs=60)
    assert events == ["start", "loop", "stop"]


def test_a_looper_that_fails_stops_the_others() -> None:
    coordinator = Coordinator()
    LooperThread.loop(coordinator, 3600.0, lambda: None)
    LooperThread.loop(coordinator, None, lambda: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        coordinator.join(stop_grace_period_secs=60)


def test_a_looper_is_made_properly() -> None:
    with pytest.raises(ValueError, match="Coordinator"):
        LooperThread(1, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="target"):
        LooperThread(Coordinator(), None, args=[1])
