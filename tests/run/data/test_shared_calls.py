"""A parallel map of short calls that let others run, or are made in groups: the task's threads share them."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base import errors
from headrace.run.data import mapping
from headrace.run.data.functions import Groups
from headrace.run.data.mapping import Map, ParallelMap
from headrace.run.data.stage import Iteration, Stage
from headrace.run.exec.worker_pool import WorkerPool
from tests.run.data.stage_numbers import numbers
from tests.run.data.test_function_stages import Python, doubled


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls count as short, however long a busy machine makes them: else others make them, and who pulls waits."""
    monkeypatch.setattr(mapping, "_QUICK_S", math.inf)


def all_of(stage: Stage, pulls: int) -> list[Any]:
    """The numbers, and where one failed."""
    found: list[Any] = []
    for _ in range(pulls):
        try:
            chunk = stage.pull(5)
        except errors.InvalidArgumentError:
            found.append("failed")
        else:
            found += [] if chunk is None else [int(value) for (value,) in chunk.elements()]
    return found


@pytest.mark.parametrize("kind", ["lets others run", "groups"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
def test_short_calls_are_shared_by_the_tasks_threads(
    calls: int, fails: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "_SHARED_S", -1.0)
    pool = WorkerPool(2)
    function = Python(doubled if fails else lambda n: n * 2, kind)
    monkeypatch.setattr(function, "_runtime", SimpleNamespace(workers=pool))
    try:
        run = Iteration()
        stage = ParallelMap(run, numbers(list(range(5))).stage(run), function, calls, True)
        assert all_of(stage, 6) == [0, 2, 4, "failed" if fails else 6, 8]
    finally:
        pool.close()


class Counted(Python):
    """Of how many elements it is asked at once."""

    def __init__(self, call: Any = lambda n: n * 2) -> None:
        super().__init__(call, "groups")
        self.counts: list[int] = []

    def many(self, chunk: Any, shared: bool = False) -> Any:
        self.counts.append(chunk.count)
        return super().many(chunk, shared)


QUICK_S, SLOW_S = 2.0**-17, 2.0**-10  # of an element; sums of these are exact


@pytest.mark.parametrize("parallel", [False, True])
def test_groups_grow_as_long_as_they_take_little(
    parallel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "thread_time", lambda: now_s[0])

    def call(number: int) -> int:
        now_s[0] += QUICK_S if number < 100 else SLOW_S
        return number * 2

    function = Counted(call)
    run = Iteration()
    source = numbers(list(range(300))).stage(run)
    stage = ParallelMap(run, source, function, 2) if parallel else Map(run, source, function)
    found = [int(v) for chunk in iter(lambda: stage.pull(40), None) for (v,) in chunk.elements()]
    assert found == list(range(0, 600, 2))
    # Of the 40 that are wanted equal parts are taken, where up to 16 and up to 32 may be.
    assert function.counts[:6] == [1, 2, 4, 8, 14, 20]
    assert max(function.counts) == 40
    assert max(function.counts[-2:]) == Groups.MOST_S // SLOW_S


@pytest.mark.parametrize(
    ("most", "size", "parts"), [(32, 26, 16), (32, 64, 32), (10, 4, 4), (1, 8, 1), (9, 4, 3)]
)
def test_groups_are_equal_parts_of_what_is_wanted(most: int, size: int, parts: int) -> None:
    groups = Groups(Counted())
    groups.size = size
    assert groups.some_of(most) == parts


@pytest.mark.parametrize("parallel", [False, True])
def test_groups_of_which_none_can_be_made_are_tried_no_more(parallel: bool) -> None:
    function = Counted()
    function._groups_fail = True
    run = Iteration()
    source = numbers(list(range(100))).stage(run)
    stage = ParallelMap(run, source, function, 2) if parallel else Map(run, source, function)
    found = [int(v) for chunk in iter(lambda: stage.pull(40), None) for (v,) in chunk.elements()]
    assert found == list(range(0, 200, 2))
    assert sum(count > 1 for count in function.counts) <= Groups.VAIN
