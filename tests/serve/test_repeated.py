"""Requests that come again over one connection: what is remembered of them, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from headrace.run.scope import Scope
from headrace.serve.lane import repeated
from headrace.serve.lane.repeated import Answering, Repeated
from headrace.serve.lane.wire import Answer
from headrace.serve.rpc.again import (
    AtOnceOrLater,
    Bound,
    ChangesAgain,
    CopiesAgain,
    ReadsAgain,
    RunsAgain,
    RunsByNumber,
    WaitsAgain,
)
from headrace.serve.rpc.brief import STEP_BYTES

METHOD = 7


class Reads(ReadsAgain):
    """Reads a number, as long as it `is_there`."""

    def __init__(self, number: int) -> None:
        self.values = [np.int64(number)]
        self.is_there = True

    def contents(self) -> bytes | None:
        value: bytes = self.values[0].tobytes()
        return value if self.is_there else None


class Steps(RunsByNumber):
    """Of which those with even numbers are answered at once."""

    def __init__(self) -> None:
        self.bound: list[Reads] = []

    def at_once(self, number: int) -> AtOnceOrLater | None:
        if number % 2:
            return None
        self.bound.append(Reads(number))
        return self.bound[-1]

    def run(self, number: int, scope: Scope) -> Sequence[Any] | bytes | None:
        return None


class Runs(RunsAgain):
    """Is run."""

    def run(self, number: int, scope: Scope) -> Sequence[Any] | bytes | None:
        return None


class Copies(CopiesAgain):
    """Gives a vector of zeros."""

    dtype, shape = np.dtype(np.float32), (100_000,)

    def __init__(self) -> None:
        self.otherwise = Runs()

    def copy_to(self, target: Any) -> bool:
        target[...] = 0
        return True

    def holds(self) -> bool:
        return True


class Answers(Answering):
    """Says how it would answer."""

    def __init__(self, has_memory: bool = True) -> None:
        self.has_memory = has_memory

    def running(self, number: int, bound: RunsAgain) -> Answer:
        return lambda request: b"run"

    def changing(self, number: int, bound: ChangesAgain) -> Answer:
        return lambda request: b"changed"

    def copies(self, number: int) -> bool:
        return self.has_memory

    def copying(self, number: int, bound: CopiesAgain) -> Answer:
        return lambda request: b"copied"

    def waiting(self, number: int, bound: WaitsAgain) -> Answer:
        return lambda request: b"waited"


def header(number: int) -> bytes:
    return b"session" + number.to_bytes(STEP_BYTES, "little")


def noted(requests: Repeated, number: int, bound: Bound, has_memory: bool = True) -> None:
    answers = Answers(has_memory)
    requests.note(METHOD, header(number), None, lambda request: bound, answers)


def answer(requests: Repeated, number: int) -> str:
    frame = repeated._frame(METHOD, header(number))
    same = frame[:-STEP_BYTES]
    found = requests.at_once.get(frame) or requests.at_once.get(same) or requests.known.get(same)
    if found is None:
        return "nothing"
    reply = found(frame)
    assert reply is not None
    if reply in (b"run", b"copied"):
        return reply.decode()
    return f"{int.from_bytes(reply[-8:], 'little')} at once"


def test_steps_with_numbers_are_answered_each_in_its_way() -> None:
    requests, steps = Repeated(), Steps()
    assert answer(requests, 2) == "nothing"
    for number in (2, 3, 4):
        noted(requests, number, steps)
    assert [answer(requests, n) for n in (2, 3, 4)] == ["2 at once", "run", "4 at once"]


def test_what_does_not_hold_any_more_is_bound_again() -> None:
    requests, steps = Repeated(), Steps()
    noted(requests, 2, steps)
    noted(requests, 2, steps)
    assert len(steps.bound) == 1
    steps.bound[0].is_there = False
    noted(requests, 2, steps)
    assert len(steps.bound) == 2
    assert answer(requests, 2) == "2 at once"


def test_there_is_an_end_to_the_numbers_that_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated, "MOST_NUMBERS", 3)
    requests, steps = Repeated(), Steps()
    for number in (2, 4, 6, 8):
        noted(requests, number, steps)
    assert [answer(requests, n) for n in (2, 8)] == ["nothing", "nothing"]
    noted(requests, 8, steps)
    assert [answer(requests, n) for n in (2, 8)] == ["run", "8 at once"]
    requests.forget()
    assert answer(requests, 8) == "nothing"


def test_large_values_are_copied_where_the_other_side_has_memory() -> None:
    here, elsewhere = Repeated(), Repeated()
    noted(here, 2, Copies())
    assert answer(here, 2) == "copied"
    noted(elsewhere, 2, Copies(), has_memory=False)
    assert answer(elsewhere, 2) == "run"
