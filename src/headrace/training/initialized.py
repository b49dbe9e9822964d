"""Waiting until somebody else has initialized variables.

Called by: training.session_manager.  Threads: the caller's.
"""

from __future__ import annotations

from typing import Any

__all__ = ["InitializedWait"]


class InitializedWait:
    """For variables of a session's graph, by name."""

    def __init__(self, session: Any, names: list[str]) -> None:
        self._session = session
        self._names = names

    def wait(self, timeout_s: float) -> bool:
        """Whether it can be told that they are initialized now, or that the time is up; False: ask again later."""
        return False
