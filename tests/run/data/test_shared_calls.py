"""A parallel map of short calls that let others run, or are made in groups: the task's threads share them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.base import errors
from headrace.run.data import mapping
from headrace.run.data.mapping import Map, ParallelMap
from headrace.run.data.stage import Iteration, Stage
from headrace.run.exec.worker_pool import WorkerPool
from tests.run.data.stage_numbers import numbers
from tests.run.data.test_function_stages import Python, doubled


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

    def __init__(self) -> None:
        super().__init__(lambda n: n * 2, "groups")
        self.counts: list[int] = []

    def many(self, chunk: Any) -> Any:
        self.counts.append(chunk.count)
        return super().many(chunk)


def test_a_parallel_map_gives_each_thread_a_group() -> None:
    pool = WorkerPool(2)
    function = Counted()
    function._runtime = SimpleNamespace(workers=pool)
    try:
        run = Iteration()
        stage = ParallelMap(run, numbers(list(range(21))).stage(run), function, 2)
        stage.pull(1)  # which plans it
        chunk = stage.pull(20)
    finally:
        pool.close()
    assert chunk is not None
    assert [int(value) for (value,) in chunk.elements()] == list(range(2, 42, 2))
    assert function.counts == [10, 10]


def test_groups_of_a_map_grow_as_long_as_they_take_little() -> None:
    function = Counted()
    run = Iteration()
    stage = Map(run, numbers(list(range(100))).stage(run), function)
    assert [int(v) for c in iter(lambda: stage.pull(40), None) for (v,) in c.elements()] == list(
        range(0, 200, 2)
    )
    assert function.counts[:5] == [1, 2, 4, 8, 16]
    assert max(function.counts) == 16
