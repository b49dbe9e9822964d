"""What masters of this process close because nobody seems to have it any more."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.base import errors
from headrace.serve.master.master import Master
from headrace.serve.master.session_reaper import SessionReaper

WITHIN_S = 60.0


class Endings:
    """What masters of this process close of themselves, and what they let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[errors.OpError] = []
        self.checks = threading.Semaphore(0)
        self._closed = threading.Semaphore(0)
        self._kept_alive = threading.Semaphore(0)
        close, verdict = Master._close_unused, SessionReaper._expiry
        keep_alive = SessionReaper.keep_alive

        def closing(master: Master, handle: str, error: errors.OpError) -> None:
            close(master, handle, error)
            self.errors.append(error)
            self._closed.release()

        def looking(self_: SessionReaper, watched: Any) -> tuple[float, errors.OpError | None]:
            found = verdict(self_, watched)
            if found[1] is None:
                self.checks.release()
            return found

        def keeping(self_: SessionReaper, handle: str) -> Any:
            found = keep_alive(self_, handle)
            self._kept_alive.release()
            return found

        monkeypatch.setattr(Master, "_close_unused", closing)
        monkeypatch.setattr(SessionReaper, "_expiry", looking)
        monkeypatch.setattr(SessionReaper, "keep_alive", keeping)

    def wait(self) -> str:
        """Block until a session was closed; why it was."""
        assert self._closed.acquire(timeout=WITHIN_S)
        return self.errors[-1].message

    def wait_for_keep_alive(self) -> None:
        """Block until a client keeps a session alive, after those that were waited for before."""
        assert self._kept_alive.acquire(timeout=WITHIN_S)

    def wait_for_looks(self, count: int) -> None:
        """Block until so many sessions were looked at and let be, from now on."""
        while self.checks.acquire(blocking=False):
            pass
        for _ in range(count):
            assert self.checks.acquire(timeout=WITHIN_S)


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> Endings:
    return Endings(monkeypatch)
