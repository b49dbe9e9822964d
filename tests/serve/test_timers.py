"""What is looked at when, on a thread that is there only while there is something to look at."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.serve.rpc import timers
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.timers import PerProcess, TimerQueue

WITHIN_S = 60.0
NEVER = 1e6


class Looks:
    """What is looked at, in order; `again` says when the next time is, None if there is none."""

    def __init__(self) -> None:
        self.again: dict[str, float] = {}
        self.seen: queue.Queue[str] = queue.Queue()
        self.table = TimerQueue("looks", self._check)

    def _check(self, thing: str) -> float | None:
        self.seen.put(thing)
        again = self.again.pop(thing, None)
        if again == NEVER:
            raise ValueError(f"no more of {thing}")
        return again

    def next(self) -> str:
        return self.seen.get(timeout=WITHIN_S)


@pytest.fixture
def checks() -> Iterator[Looks]:
    checks = Looks()
    yield checks
    for thing in list(checks.table._due):
        checks.table.forget(thing)


def ended(name: str = "looks") -> bool:
    """Whether the thread ends."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(WITHIN_S)
            return not thread.is_alive()
    return True


def test_each_is_looked_at_when_its_time_has_come(checks: Looks) -> None:
    now = time.monotonic()
    with (
        checks.table._changed
    ):  # else a busy machine may look at the first before there is a second
        checks.table.call_at("late", now + 0.04)
        checks.table.call_at("soon", now + 0.02)
    assert (checks.next(), checks.next()) == ("soon", "late")
    assert time.monotonic() >= now + 0.04
    assert ended()
    assert checks.table.empty


def test_it_is_looked_at_again_as_long_as_the_look_says_so(checks: Looks) -> None:
    checks.again["a"] = time.monotonic()
    checks.table.call_at("a", 0.0)
    assert (checks.next(), checks.next()) == ("a", "a")
    assert ended()
    assert checks.seen.empty()


def test_what_is_forgotten_is_not_looked_at(checks: Looks) -> None:
    checks.table.call_at("a", time.monotonic() + NEVER)
    checks.table.forget("a")
    assert ended()
    assert checks.seen.empty()


def test_a_time_may_be_changed_or_only_brought_forward(checks: Looks) -> None:
    far = time.monotonic() + NEVER
    checks.table.call_at("a", far)
    checks.table.call_by("a", far + 1)
    assert checks.table._due["a"] == far
    checks.table.call_at("a", far + 1)
    assert checks.table._due["a"] == far + 1
    checks.table.call_by("a", 0.0)
    assert checks.next() == "a"


@pytest.mark.parametrize("how", ["look_at", "look_at_latest"])
def test_who_asks_during_a_look_is_heard(how: str) -> None:
    checks = 0
    done = threading.Event()

    def check(thing: str) -> None:
        nonlocal checks
        checks += 1
        if checks == 1:
            getattr(table, how)(thing, time.monotonic())
        else:
            done.set()

    table: TimerQueue[str] = TimerQueue("asking", check)
    table.call_at("a", 0.0)
    assert done.wait(WITHIN_S)
    assert ended("asking")


def test_a_thread_that_could_not_be_started_is_started_by_who_comes_next(
    checks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            checks.table.call_at("a", 0.0)
    checks.table.call_at("b", 1.0)
    assert {checks.next(), checks.next()} == {"a", "b"}


def test_who_forgets_during_a_look_is_heard() -> None:
    def check(thing: str) -> float:
        table.forget(thing)
        return 0.0

    table: TimerQueue[str] = TimerQueue("forgetting", check)
    table.call_at("a", 0.0)
    assert ended("forgetting")
    assert table.empty


def test_a_look_that_fails_is_logged_and_tried_again_and_the_others_do_not_suffer(
    checks: Looks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(LIMITS, "after_failure_s", 0.01)
    checks.again["bad"] = NEVER
    with caplog.at_level(logging.ERROR, "headrace"):
        checks.table.call_at("bad", 0.0)
        checks.table.call_at("good", time.monotonic())
        seen = [checks.next() for _ in range(3)]
    assert sorted(seen) == ["bad", "bad", "good"]
    assert ended()
    assert "no more of bad" in caplog.text


def test_a_forks_child_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: PerProcess[object] = PerProcess(object)
    mine = made()
    assert made() is mine
    monkeypatch.setattr(timers.os, "getpid", lambda: -1)
    assert made() is not mine
