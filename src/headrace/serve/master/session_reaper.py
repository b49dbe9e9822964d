"""Session reaper: closes the sessions of a master that nobody will use again.

A client of ours keeps each session alive with a call that lasts as long as the session; when that breaks and no other
comes within some seconds, the client is gone.  Other clients, TensorFlow's, are known by their steps alone: a
session without one for the idle limit is closed, if there is such a limit.  Whoever still has it gets Aborted.
Called by: serve.master.master.  Threads: any; one of its own while there is something to check.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo
from headrace.serve.master.master_session import MasterSession
from headrace.serve.rpc.env_seconds import seconds_of
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.status import SessionExpiredError
from headrace.serve.rpc.timers import TimerQueue

_CHECKS = 4  # at a session within the idle limit


def session_idle_s() -> float | None:
    """How long a session may do nothing, if its client does not keep it alive; None: for ever.

    The environment's HEADRACE_SESSION_IDLE_S; 0 there means for ever, too.  Raises InvalidArgument.
    """
    return seconds_of("HEADRACE_SESSION_IDLE_S", 0.0, "sessions may be idle for ever")


class _Watched:
    """A session, and when it was last known to have a client (time.monotonic seconds)."""

    __slots__ = ("keep_alives", "keeps_alive", "session", "since")

    def __init__(self, session: MasterSession, keeps_alive: bool) -> None:
        self.session = session
        self.keep_alives: set[Pending[errors.OpError]] = set()
        self.keeps_alive = keeps_alive
        self.since = time.monotonic()


class SessionReaper:
    """See the module header."""

    def __init__(self, close: Callable[[str, errors.AbortedError], object]) -> None:
        """close(handle, error): closes a session; on a thread of this.  Raises InvalidArgument."""
        self._close = close
        self._idle_s = session_idle_s()
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._timers = TimerQueue("headrace session reaper", self._check)

    def take(self, session: MasterSession, keeps_alive: bool) -> None:
        """Look after a session, which its client keeps alive."""
        with self._lock:
            self._watched[session.handle] = _Watched(session, keeps_alive)
            if keeps_alive:
                self._check_within(session.handle, LIMITS.client_gone_after_s)
            elif self._idle_s is not None:
                self._check_within(session.handle, self._idle_s / _CHECKS)

    def keep_alive(self, handle: str) -> Pending[errors.OpError]:
        """A client has the session until the result is abandoned; it is resolved when the session ends, with why.

        Raises Aborted if it has ended.
        """
        keep_alive: Pending[errors.OpError] = Pending(
            WaitInfo("attended", f"session {handle}"), lambda pending: self._left(handle, pending)
        )
        with self._lock:
            watched = self._watched.get(handle)
            if watched is None:
                raise errors.aborted(f"session {handle!r} has ended")
            watched.keep_alives.add(keep_alive)
            watched.keeps_alive = True
            self._timers.forget(handle)
        return keep_alive

    def _left(self, handle: str, keep_alive: Pending[errors.OpError]) -> bool:
        with self._lock:
            watched = self._watched.get(handle)
            if watched is not None:
                watched.keep_alives.discard(keep_alive)
                if not watched.keep_alives:
                    watched.since = time.monotonic()
                    self._check_within(handle, LIMITS.client_gone_after_s)
        return True

    def forget(self, handle: str, reason: errors.OpError) -> None:
        """The session has ended, for that reason."""
        with self._lock:
            watched = self._watched.pop(handle, None)
            self._timers.forget(handle)
        for keep_alive in watched.keep_alives if watched is not None else ():
            keep_alive.resolve(reason)

    def _check_within(self, handle: str, seconds: float) -> None:
        self._timers.call_at(handle, time.monotonic() + seconds)

    def _check(self, handle: str) -> float | None:
        """The timer's: close the session if nobody has it; when to be called again."""
        with self._lock:
            watched = self._watched.get(handle)
            if watched is None or watched.keep_alives:
                return None
            again_s, error = self._expiry(watched)
        if error is not None:
            self._close(handle, error)
            return None
        return time.monotonic() + again_s

    def _expiry(self, watched: _Watched) -> tuple[float, errors.AbortedError | None]:
        """Seconds until the next check, or why the session is to be closed now."""
        now = time.monotonic()
        limit_s = LIMITS.client_gone_after_s if watched.keeps_alive else self._idle_s or 0.0
        if not watched.keeps_alive and watched.session.was_used():
            watched.since = now
        left = watched.since + limit_s - now
        if left > 0:
            return min(left, limit_s / _CHECKS), None
        handle = watched.session.handle
        if watched.keeps_alive:
            return 0.0, SessionExpiredError.of(
                f"session {handle!r} was closed: its client {watched.session.client} has been gone for {limit_s:g} s"
            )
        return 0.0, errors.aborted(
            f"session {handle!r} was closed: it had no step for {limit_s:g} s (HEADRACE_SESSION_IDLE_S of its server); "
            "make a new session"
        )
