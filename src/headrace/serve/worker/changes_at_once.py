"""Changes at once: steps that take no time in which they could be ended, and are booked as all others are.

Called by: serve.worker.worker (has it), serve.worker.bound_parts.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.base import errors
from headrace.run.scope import Scope
from headrace.serve.worker.worker_session import Steps


class ChangesAtOnce:
    """A part of `Worker`."""

    _running: dict[Scope, Steps]
    _awaited: bool
    _tell_idle: Callable[[], None]
    turns_away: errors.OpError | None

    def change_at_once(
        self, kind: Steps, booked: Scope, change: Callable[[], bytes | None]
    ) -> bytes | None:
        """As `enter`, of a step that takes no time in which it could be ended.

        booked: of nobody else meanwhile; whoever cancels it comes too late.  None: the step is to enter as any other.
        """
        session = kind.session
        running = self._running
        running[booked] = kind
        try:
            if (
                self.turns_away is not None
                or (kind.direct and session.direct_over is not None)
                or session.leaving.any
            ):
                return None
            return change()
        finally:
            del running[booked]
            if session.leaving.any:
                session.leaving.left(booked)
            if self._awaited:
                self._tell_idle()
