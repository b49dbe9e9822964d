"""A limit for those who wait at a barrier for a task that does not come back.

A step whose gradients are not enough waits for those of others (`BlockedStep.missing`).  A task that is killed may be
started again, so that such a wait is no error at first.  A session with a limit is ended by one that names the task,
when a step has waited for so long and all who answer have brought theirs.  It is looked at only while something waits
for long (run.long_waits).
Called by: client.session.  Threads: one of its own per process while something is to be checked.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Final

from headrace.base import errors
from headrace.serve.observe.blocked import seconds
from headrace.serve.rpc.timers import PerProcess, TimerQueue

if TYPE_CHECKING:
    from headrace.client.session import BaseSession

_AGAIN_S: Final = 1.0  # the least between two looks


class MemberLimit:
    """See the module header.  Of one session."""

    def __init__(self, session: BaseSession, limit_s: float) -> None:
        self._session = weakref.ref(session)
        self._limit_s = limit_s

    def waits(self, waited_s: float) -> None:
        """Something has waited for so long."""
        left_s = max(0.0, self._limit_s - waited_s)
        _timers().call_by(self, time.monotonic() + left_s)

    def forget(self) -> None:
        """The session has ended."""
        _timers().forget(self)

    def check(self) -> float | None:
        """End the session if it is time; when to look again, None if nothing waits."""
        session = self._session()
        if session is None:
            return None
        try:
            steps = session.blocked_steps()
        except errors.OpError:
            return None  # whoever waits says so again
        if not steps:
            return None
        for step in steps:
            if step.missing and step.waited_s >= self._limit_s:
                session._engine.scope.cancel(
                    errors.deadline_exceeded(
                        f"{', '.join(step.missing)} did not come back within {seconds(self._limit_s)}, and the others "
                        f"cannot go on without: {step}"
                    )
                )
                return None
        longest_s = max(step.waited_s for step in steps)
        return time.monotonic() + max(_AGAIN_S, self._limit_s - longest_s, self._limit_s / 10)


def _check(limit: MemberLimit) -> float | None:
    return limit.check()


_timers: PerProcess[TimerQueue[MemberLimit]] = PerProcess(
    lambda: TimerQueue("headrace members", _check)
)
