"""What is looked at when, on a thread that is there only while there is something to look at."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.serve.rpc import timetable
from headrace.serve.rpc.timetable import PerProcess, Timetable

WITHIN_S = 30.0
NEVER = 1e6


class Looks:
    """What is looked at, in order; `again` says when the next time is, None if there is none."""

    def __init__(self) -> None:
        self.again: dict[str, float] = {}
        self.seen: queue.Queue[str] = queue.Queue()
        self.table = Timetable("looks", self._look)

    def _look(self, thing: str) -> float | None:
        self.seen.put(thing)
        again = self.again.pop(thing, None)
        if again == NEVER:
            raise ValueError(f"no more of {thing}")
        return again

    def next(self) -> str:
        return self.seen.get(timeout=WITHIN_S)


@pytest.fixture
def looks() -> Iterator[Looks]:
    looks = Looks()
    yield looks
    for thing in list(looks.table._due):
        looks.table.forget(thing)


def ended(name: str = "looks") -> bool:
    """Whether the thread ends."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(WITHIN_S)
            return not thread.is_alive()
    return True


def test_each_is_looked_at_when_its_time_has_come(looks: Looks) -> None:
    now = time.monotonic()
    with looks.table._changed:  # else a busy machine may look at the first before there is a second
        looks.table.look_at("late", now + 0.04)
        looks.table.look_at("soon", now + 0.02)
    assert (looks.next(), looks.next()) == ("soon", "late")
    assert time.monotonic() >= now + 0.04
    assert ended()
    assert looks.table.empty


def test_it_is_looked_at_again_as_long_as_the_look_says_so(looks: Looks) -> None:
    looks.again["a"] = time.monotonic()
    looks.table.look_at("a", 0.0)
    assert (looks.next(), looks.next()) == ("a", "a")
    assert ended()
    assert looks.seen.empty()


def test_what_is_forgotten_is_not_looked_at(looks: Looks) -> None:
    looks.table.look_at("a", time.monotonic() + NEVER)
    looks.table.forget("a")
    assert ended()
    assert looks.seen.empty()


def test_a_time_may_be_changed_or_only_brought_forward(looks: Looks) -> None:
    far = time.monotonic() + NEVER
    looks.table.look_at("a", far)
    looks.table.look_at_latest("a", far + 1)
    assert looks.table._due["a"] == far
    looks.table.look_at("a", far + 1)
    assert looks.table._due["a"] == far + 1
    looks.table.look_at_latest("a", 0.0)
    assert looks.next() == "a"


@pytest.mark.parametrize("how", ["look_at", "look_at_latest"])
def test_who_asks_during_a_look_is_heard(how: str) -> None:
    looks = 0
    done = threading.Event()

    def look(thing: str) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            getattr(table, how)(thing, time.monotonic())
        else:
            done.set()

    table: Timetable[str] = Timetable("asking", look)
    table.look_at("a", 0.0)
    assert done.wait(WITHIN_S)
    assert ended("asking")


def test_a_thread_that_could_not_be_started_is_started_by_who_comes_next(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError):
            looks.table.look_at("a", 0.0)
    looks.table.look_at("b", 1.0)
    assert {looks.next(), looks.next()} == {"a", "b"}


def test_who_forgets_during_a_look_is_heard() -> None:
    def look(thing: str) -> float:
        table.forget(thing)
        return 0.0

    table: Timetable[str] = Timetable("forgetting", look)
    table.look_at("a", 0.0)
    assert ended("forgetting")
    assert table.empty


def test_a_look_that_fails_is_logged_and_tried_again_and_the_others_do_not_suffer(
    looks: Looks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timetable, "_AFTER_FAILURE_S", 0.01)
    looks.again["bad"] = NEVER
    with caplog.at_level(logging.ERROR, "headrace"):
        looks.table.look_at("bad", 0.0)
        looks.table.look_at("good", time.monotonic())
        seen = [looks.next() for _ in range(3)]
    assert sorted(seen) == ["bad", "bad", "good"]
    assert ended()
    assert "no more of bad" in caplog.text


def test_a_forks_child_has_one_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made: PerProcess[object] = PerProcess(object)
    mine = made()
    assert made() is mine
    monkeypatch.setattr(timetable.os, "getpid", lambda: -1)
    assert made() is not mine
