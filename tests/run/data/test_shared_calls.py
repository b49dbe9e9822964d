"""A parallel map of short calls that let others run: the task's threads share them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.base import errors
from headrace.run.data import mapping
from headrace.run.data.mapping import ParallelMap
from headrace.run.data.stage import Iteration
from headrace.run.exec.worker_pool import WorkerPool
from tests.run.data.stage_numbers import numbers
from tests.run.data.test_function_stages import Python, doubled


@pytest.mark.parametrize("fails", [False, True])
def test_short_calls_that_let_others_run_are_shared_by_the_tasks_threads(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "_SHARED_S", -1.0)
    pool = WorkerPool(2)
    function = Python(doubled if fails else lambda n: n * 2, "lets others run")
    monkeypatch.setattr(function, "_runtime", SimpleNamespace(workers=pool), raising=False)
    try:
        run = Iteration()
        stage = ParallelMap(run, numbers(list(range(5))).stage(run), function, 2, True)
        found = []
        for _ in range(6):
            try:
                chunk = stage.pull(5)
            except errors.InvalidArgumentError:
                found.append("failed")
            else:
                found += [] if chunk is None else [int(value) for (value,) in chunk.elements()]
        assert found == [0, 2, 4, "failed" if fails else 6, 8]
    finally:
        pool.close()
