"""For tests that need to know that a step has begun to wait."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.run import long_waits


class WaitingSteps(dict[Any, None]):
    """Takes the place of `long_waits.waiting`; counts the nodes that have begun to wait."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._seen: dict[str, int] = {}
        self._lost: BaseException | None = None

    def __setitem__(self, execution: Any, value: None) -> None:
        super().__setitem__(execution, value)
        with self._changed:
            for node, pending in execution.waits():
                if not pending.done:
                    self._seen[node.name] = self._seen.get(node.name, 0) + 1
            self._changed.notify_all()

    def until(self, node: str, times: int = 1) -> None:
        """Block until steps have begun to wait in `node` that many times in all."""
        with self._changed:
            seen = self._changed.wait_for(
                lambda: self._lost is not None or self._seen.get(node, 0) >= times, 60
            )
            if self._lost is not None:
                raise self._lost
            assert seen, f"no step waits in {node!r}; they wait in {sorted(self._seen)}"

    def give_up(self, error: BaseException) -> None:
        """Whoever waits for steps that wait, now or later, gets `error`: there may be none."""
        with self._changed:
            self._lost = error
            self._changed.notify_all()


@pytest.fixture
def waiting_steps(monkeypatch: pytest.MonkeyPatch) -> WaitingSteps:
    """Says when steps of this process have begun to wait."""
    steps = WaitingSteps()
    monkeypatch.setattr(long_waits, "waiting", steps)
    return steps
