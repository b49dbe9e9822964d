"""Which way the steps of this process's sessions go: to their master, or straight to their task."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import headrace as tf
from headrace.client.direct import Route, RouteToOne
from headrace.client.reaching import Task
from headrace.client.scattered import ScatteredRoute
from headrace.run.scope import Scope
from headrace.serve.rpc.limits import LIMITS

WITHIN_S = 60.0


class Ways:
    """Counts the steps that were sent straight to their task, and says when a task has been looked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.direct = 0
        self._looked = threading.Semaphore(0)
        self._sent = threading.Semaphore(0)
        reach = Task._reach
        monkeypatch.setattr(LIMITS, "reach_within_s", WITHIN_S)  # the machine may be busy

        def counted(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
            def counting(route: Route, ways: Any, values: Sequence[Any], scope: Scope) -> list[Any]:
                self.direct += 1
                self._sent.release()
                return run(route, ways, values, scope)

            return counting

        def looking(task: Task) -> None:
            reach(task)
            self._looked.release()

        for kind in (RouteToOne, ScatteredRoute):
            monkeypatch.setattr(kind, "run", counted(kind.run))
        monkeypatch.setattr(Task, "_reach", looking)

    def wait_until_looked(self) -> None:
        """Block until a task was found, or given up."""
        assert self._looked.acquire(timeout=WITHIN_S), "no task was looked for"

    def look(self, session: tf.Session, step: Any) -> None:
        """Have the session look for the task of a step that may be run again and again."""
        session.run(step)  # by its names
        session.run(step)  # by its number: the task is looked for
        self.wait_until_looked()

    def open(self, session: tf.Session, step: Any) -> None:
        """The same, and find it, whatever other tasks were looked for before."""
        session.run(step)
        before = self.direct
        session.run(step)
        while self.direct == before:
            self.wait_until_looked()
            session.run(step)

    def of(self, session: tf.Session, step: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
        """The outcome of a step that goes straight, whose task has been found."""
        while self._sent.acquire(blocking=False):
            pass
        value = session.run(step, feeds)
        assert self._sent.acquire(blocking=False), "it went to the master"
        return value


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    """See `Ways`."""
    return Ways(monkeypatch)
