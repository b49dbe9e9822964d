"""A short run of the chaos, a hundred starts and stops, some restarts, and that the books would show what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.soak import cycles, restarts
from tests.soak.chaos import TASKS, Run, plan
from tests.soak.journal import Step, check_errors, check_queue, check_training

SEED, FAULTS = 3, 4


@pytest.mark.timeout(600)  # of which it needs some 15 where nothing else runs
def test_nothing_is_applied_twice_and_nothing_hangs_while_processes_die_and_freeze() -> None:
    """Every task and a client has its turn."""
    outcomes = Run(SEED, FAULTS, print)()
    assert outcomes["done"] > FAULTS
    assert {fault.victim for fault in plan(SEED, FAULTS)[1]} == {*TASKS, "client:0"}


def test_a_hundred_starts_and_stops_on_one_port_leave_nothing_behind() -> None:
    cycles.run(100)


def test_two_restarts_of_a_ps_are_told_once_each_to_the_sessions_of_two_clients() -> None:
    restarts.run(2)


def test_what_is_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(cycles, "SETTLED_WITHIN_S", 0.5)
    monkeypatch.setattr(cycles, "cycle", lambda port: kept.append(open(__file__)))  # noqa: SIM115
    try:
        with pytest.raises(AssertionError, match=r"left behind .*descriptors"):
            cycles.run(20)
    finally:
        for file in kept:
            file.close()


# -- the books ------------------------------------------------------------------------------------


def step(number: int, kind: str, error: str = "", value: int | None = None, **more: Any) -> Step:
    return Step(0, kind, number, 5.0, 30.0, error, value=value, **more)


def counts(**applied: int) -> Any:
    found = np.zeros(10, np.int32)
    for name, count in applied.items():
        found[int(name[1:])] = count
    return found


TRAINING = [step(1, "train"), step(2, "train", "UnavailableError"), step(3, "train", "unknown")]


@pytest.mark.parametrize(
    ("applied", "global_step", "wrong"),
    [
        ({"n1": 1}, 1, None),
        ({"n1": 1, "n2": 1, "n3": 1}, 3, None),
        ({"n1": 2}, 2, "applied 2 times"),
        ({"n1": 1, "n2": 2}, 2, "applied 2 times"),
        ({"n2": 1}, 1, "were confirmed"),
        ({"n1": 1, "n4": 1}, 2, "nobody had begun"),
        ({"n1": 1}, 4, "global_step is 4"),
    ],
)
def test_the_books_of_training(
    applied: dict[str, int], global_step: int, wrong: str | None
) -> None:
    if wrong is None:
        check_training(TRAINING, counts(**applied), global_step, since=1.0)
    else:
        with pytest.raises(AssertionError, match=wrong):
            check_training(TRAINING, counts(**applied), global_step, since=1.0)


def test_what_was_confirmed_before_the_variables_were_lost_may_be_lost() -> None:
    check_training(TRAINING, counts(), 0, since=9.0)


PUTS = [step(1, "put"), step(2, "put"), step(3, "put", "UnavailableError")]


@pytest.mark.parametrize(
    ("takes", "rest", "wrong"),
    [
        ([step(8, "take", value=1)], [2], None),
        ([step(8, "take", value=1)], [2, 3], None),
        ([step(8, "take", value=1), step(9, "take", "UnavailableError")], [], None),
        ([step(8, "take", value=1)], [], "never came out"),
        ([step(8, "take", value=1), step(9, "take", value=1)], [2], "twice"),
        ([step(8, "take", value=1)], [1, 2], "twice"),
        ([step(8, "take", value=7)], [1, 2], "nobody had put"),
    ],
)
def test_the_books_of_the_queue(takes: list[Step], rest: list[int], wrong: str | None) -> None:
    if wrong is None:
        check_queue([*PUTS, *takes], rest, since=1.0)
    else:
        with pytest.raises(AssertionError, match=wrong):
            check_queue([*PUTS, *takes], rest, since=1.0)


@pytest.mark.parametrize(
    ("kind", "error", "message", "lost", "wrong"),
    [
        ("train", "UnavailableError", "/job:ps/task:0 is gone", False, None),
        ("train", "UnavailableError", "something is gone", False, "names no task"),
        ("train", "AbortedError", "it is gone", False, "names no task"),
        ("put", "DeadlineExceededError", "", False, None),
        ("train", "DeadlineExceededError", "", False, "hung"),
        ("train", "FailedPreconditionError", "uninitialized", True, None),
        ("train", "FailedPreconditionError", "uninitialized", False, "uninitialized"),
        ("train", "InternalError", "/job:ps/task:0", True, "InternalError"),
    ],
)
def test_the_books_of_errors(
    kind: str, error: str, message: str, lost: bool, wrong: str | None
) -> None:
    steps = [step(1, kind, error, message=message)]
    if wrong is None:
        check_errors(steps, ["/job:ps/task:0"], lost)
    else:
        with pytest.raises(AssertionError, match=wrong):
            check_errors(steps, ["/job:ps/task:0"], lost)
