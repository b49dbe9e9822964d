"""Caretaker: closes the sessions of a master that nobody will use again.

A client of ours attends each session with a call that lasts as long as the session; when that breaks and no other
comes within some seconds, the client is gone.  Other clients, TensorFlow's, are known by their steps alone: a
session without one for the idle limit is closed, if there is such a limit.  Whoever still has it gets Aborted.
Called by: serve.master.master.  Threads: any; one of its own while there is something to look at.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo
from headrace.serve.master.master_session import MasterSession
from headrace.serve.rpc.seconds import seconds_of
from headrace.serve.rpc.status import UnattendedError
from headrace.serve.rpc.timetable import Timetable

_GONE_AFTER_S = 15.0
_LOOKS = 4  # at a session within the idle limit


def session_idle_s() -> float | None:
    """How long a session may do nothing, if its client does not attend it; None: for ever.

    The environment's HEADRACE_SESSION_IDLE_S; 0 there means for ever, too.  Raises InvalidArgument.
    """
    return seconds_of("HEADRACE_SESSION_IDLE_S", 0.0, "sessions may be idle for ever")


class _Kept:
    """A session, and when it was last known to have a client (time.monotonic seconds)."""

    __slots__ = ("attendants", "attends", "session", "since")

    def __init__(self, session: MasterSession, attends: bool) -> None:
        self.session = session
        self.attendants: set[Pending[errors.OpError]] = set()
        self.attends = attends
        self.since = time.monotonic()


class Caretaker:
    """See the module header."""

    def __init__(self, close: Callable[[str, errors.AbortedError], object]) -> None:
        """close(handle, error): closes a session; on a thread of this.  Raises InvalidArgument."""
        self._close = close
        self._idle_s = session_idle_s()
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._looks = Timetable("headrace caretaker", self._look)

    def take(self, session: MasterSession, attends: bool) -> None:
        """Look after a session, which its client attends."""
        with self._lock:
            self._kept[session.handle] = _Kept(session, attends)
            if attends:
                self._look_within(session.handle, _GONE_AFTER_S)
            elif self._idle_s is not None:
                self._look_within(session.handle, self._idle_s / _LOOKS)

    def attend(self, handle: str) -> Pending[errors.OpError]:
        """A client has the session until the result is abandoned; it is resolved when the session ends, with why.

        Raises Aborted if it has ended.
        """
        attendance: Pending[errors.OpError] = Pending(
            WaitInfo("attended", f"session {handle}"), lambda pending: self._left(handle, pending)
        )
        with self._lock:
            kept = self._kept.get(handle)
            if kept is None:
                raise errors.aborted(f"session {handle!r} has ended")
            kept.attendants.add(attendance)
            kept.attends = True
            self._looks.forget(handle)
        return attendance

    def _left(self, handle: str, attendance: Pending[errors.OpError]) -> bool:
        with self._lock:
            kept = self._kept.get(handle)
            if kept is not None:
                kept.attendants.discard(attendance)
                if not kept.attendants:
                    kept.since = time.monotonic()
                    self._look_within(handle, _GONE_AFTER_S)
        return True

    def forget(self, handle: str, reason: errors.OpError) -> None:
        """The session has ended, for that reason."""
        with self._lock:
            kept = self._kept.pop(handle, None)
            self._looks.forget(handle)
        for attendance in kept.attendants if kept is not None else ():
            attendance.resolve(reason)

    def _look_within(self, handle: str, seconds: float) -> None:
        self._looks.look_at(handle, time.monotonic() + seconds)

    def _look(self, handle: str) -> float | None:
        """The timetable's: close the session if nobody has it; when to look again."""
        with self._lock:
            kept = self._kept.get(handle)
            if kept is None or kept.attendants:
                return None
            again_s, error = self._verdict(kept)
        if error is not None:
            self._close(handle, error)
            return None
        return time.monotonic() + again_s

    def _verdict(self, kept: _Kept) -> tuple[float, errors.AbortedError | None]:
        """Seconds until the next look, or why the session is to be closed now."""
        now = time.monotonic()
        limit_s = _GONE_AFTER_S if kept.attends else self._idle_s or 0.0
        if not kept.attends and kept.session.was_used():
            kept.since = now
        left = kept.since + limit_s - now
        if left > 0:
            return min(left, limit_s / _LOOKS), None
        handle = kept.session.handle
        if kept.attends:
            return 0.0, UnattendedError.of(
                f"session {handle!r} was closed: its client {kept.session.client} has been gone for {limit_s:g} s"
            )
        return 0.0, errors.aborted(
            f"session {handle!r} was closed: it had no step for {limit_s:g} s (HEADRACE_SESSION_IDLE_S of its server); "
            "make a new session"
        )
