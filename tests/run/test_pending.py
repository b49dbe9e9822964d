"""Pending: exactly one outcome, told to everyone once."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.run.thread_group import ThreadGroup
from tests.support.ctrl_c import ctrl_c_when

STOP = errors.cancelled("stop")


def test_done_from_the_start() -> None:
    pending = Pending.done_with(5)
    assert pending.done
    assert pending.result() == 5
    assert pending.wait(Scope()) == 5
    assert pending.error is None
    assert pending.wait_info is None
    assert not pending.resolve(6)
    assert not pending.reject(STOP)
    assert not pending.abandon(STOP)
    assert pending.result() == 5


def test_failed_from_the_start() -> None:
    pending: Pending[int] = Pending.failed_with(STOP)
    assert pending.done
    assert pending.error is STOP
    with pytest.raises(errors.CancelledError, match="stop"):
        pending.wait(Scope())
    assert not pending.resolve(1)


OUTCOMES: dict[str, Callable[[Pending[str]], bool]] = {
    "resolve": lambda p: p.resolve("value"),
    "reject": lambda p: p.reject(STOP),
    "abandon": lambda p: p.abandon(errors.aborted("given up")),
}


@pytest.mark.parametrize("first", OUTCOMES)
@pytest.mark.parametrize("second", OUTCOMES)
def test_only_the_first_outcome_counts(first: str, second: str) -> None:
    pending: Pending[str] = Pending()
    told: list[Pending[str]] = []
    pending.on_done(told.append)
    assert OUTCOMES[first](pending)
    outcome = (pending._state, pending.error)
    assert not OUTCOMES[second](pending)
    assert (pending._state, pending.error) == outcome
    assert told == [pending]


def test_a_callback_registered_too_late_runs_at_once() -> None:
    pending: Pending[int] = Pending()
    pending.resolve(1)
    told: list[int] = []
    pending.on_done(lambda p: told.append(p.result()))
    assert told == [1]


def test_settling_and_announcing_are_two_steps() -> None:
    pending: Pending[int] = Pending()
    told: list[int] = []
    pending.on_done(lambda p: told.append(p.result()))
    assert pending.settle(3)
    assert pending.done
    assert told == []
    pending.announce()
    assert told == [3]


def test_asking_for_a_result_that_is_not_there_is_an_error_and_no_wait() -> None:
    with pytest.raises(errors.InternalError, match="dequeue on queue 'q'"):
        Pending(WaitInfo("dequeue", "queue 'q'")).result()


def test_abandoning_takes_the_operation_back_first() -> None:
    steps: list[str] = []

    def withdraw(pending: Pending[int]) -> bool:
        assert not pending.done
        steps.append("withdrawn")
        return True

    pending = Pending[int](withdraw=withdraw)
    pending.on_done(lambda _: steps.append("told"))
    assert pending.abandon(STOP)
    assert steps == ["withdrawn", "told"]
    assert pending.error is STOP


def test_what_cannot_be_withdrawn_is_not_abandoned() -> None:
    pending = Pending[int](withdraw=lambda p: not p.settle(1))
    assert not pending.abandon(STOP)
    assert pending.result() == 1


def test_wait_returns_what_another_thread_resolves() -> None:
    pending: Pending[str] = Pending()
    with ThreadGroup("test") as group:
        group.start(pending.resolve, "value")
        assert pending.wait(group.scope) == "value"


def test_a_scope_that_ends_abandons_the_wait() -> None:
    pending: Pending[str] = Pending()
    with ThreadGroup("test") as group:
        scope = Scope()
        group.start(scope.cancel, STOP)
        with pytest.raises(errors.CancelledError, match="stop"):
            pending.wait(scope)
    assert pending.error is STOP
    assert scope._callbacks == {}


def test_an_ended_scope_does_not_wait_but_takes_a_result_that_is_there() -> None:
    scope = Scope()
    scope.cancel(STOP)
    assert Pending.done_with(1).wait(scope) == 1
    with pytest.raises(errors.CancelledError):
        Pending[int]().wait(scope)


def test_a_deadline_says_what_was_awaited() -> None:
    pending = Pending[int](WaitInfo("dequeue_many(3)", "queue 'q'", lambda: "it holds 1"))
    with pytest.raises(
        errors.DeadlineExceededError,
        match=r"0\.01 s.*dequeue_many\(3\) on queue 'q', for .* s \(it holds 1\)",
    ):
        pending.wait(Scope(timeout_s=0.01))
    assert isinstance(pending.error, errors.DeadlineExceededError)


def test_a_result_that_beats_the_deadline_is_returned() -> None:
    pending = Pending[int](withdraw=lambda p: not p.settle(7))
    assert pending.wait(Scope(timeout_s=0)) == 7


def test_ctrl_c_abandons_the_wait_and_goes_on() -> None:
    withdrawn = threading.Event()

    def withdraw(_: Pending[int]) -> bool:
        withdrawn.set()
        return True

    pending = Pending[int](WaitInfo("dequeue", "queue 'q'"), withdraw)
    waiting = threading.Event()

    class Watched(Scope):
        def sleep_limit(self) -> float | None:
            waiting.set()
            return super().sleep_limit()

    with ctrl_c_when(waiting.wait):
        pending.wait(Watched())
    assert withdrawn.is_set()
    assert isinstance(pending.error, errors.CancelledError)


def test_one_of_many_racing_threads_wins() -> None:
    for _ in range(50):
        pending: Pending[int] = Pending()
        told: list[int] = []
        won: list[int] = []
        pending.on_done(lambda p, told=told: told.append(p.result()))  # type: ignore[misc]
        barrier = threading.Barrier(4)

        def race(
            number: int,
            p: Pending[int] = pending,
            w: list[int] = won,
            b: threading.Barrier = barrier,
        ) -> None:
            b.wait()
            if p.resolve(number):
                w.append(number)

        with ThreadGroup("race") as group:
            for number in range(4):
                group.start(race, number)
        assert told == won
        assert len(won) == 1
