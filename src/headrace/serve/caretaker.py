"""Caretaker: closes the sessions of a master that nobody will use again.

A client of ours attends each session with a call that lasts as long as the session; when that breaks and no other
comes within some seconds, the client is gone.  Other clients, TensorFlow's, are known by their steps alone: a
session without one for the idle limit is closed, if there is such a limit.  Whoever still has it gets Aborted.
Called by: serve.master.  Threads: one of the pool, while there is something to look at.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo
from headrace.serve.master_session import MasterSession
from headrace.serve.pool import GrowingPool

_GONE_AFTER_S = 15.0
_LOOKS = 4  # at a session within the idle limit


def session_idle_s() -> float | None:
    """How long a session may do nothing, if its client does not attend it; None: for ever.

    The environment's HEADRACE_SESSION_IDLE_S; 0 there means for ever, too.  Raises InvalidArgument.
    """
    text = os.environ.get("HEADRACE_SESSION_IDLE_S", "").strip()
    try:
        seconds = float(text) if text else 0.0
    except ValueError:
        seconds = -1.0
    if seconds < 0:
        raise errors.invalid_argument(
            f"HEADRACE_SESSION_IDLE_S={text!r} is not a number of seconds (0: sessions may be idle for ever)"
        )
    return seconds or None


class _Kept:
    """A session, and when it was last known to have a client (time.monotonic seconds)."""

    __slots__ = ("attendants", "attends", "session", "since")

    def __init__(self, session: MasterSession, attends: bool) -> None:
        self.session = session
        self.attendants: set[Pending[Any]] = set()
        self.attends = attends
        self.since = time.monotonic()


class Caretaker:
    """See the module header."""

    def __init__(self, close: Callable[[str, errors.OpError], object], pool: GrowingPool) -> None:
        """close(handle, error): closes a session; on a thread of `pool`.  Raises InvalidArgument."""
        self._close = close
        self._pool = pool
        self._idle_s = session_idle_s()
        self._changed = threading.Condition()
        self._kept: dict[str, _Kept] = {}
        self._due: dict[str, float] = {}
        self._running = False

    def take(self, session: MasterSession, attends: bool) -> None:
        """Look after a session, which its client attends."""
        with self._changed:
            self._kept[session.handle] = _Kept(session, attends)
            if attends:
                self._look_within(session.handle, _GONE_AFTER_S)
            elif self._idle_s is not None:
                self._look_within(session.handle, self._idle_s / _LOOKS)

    def attend(self, handle: str) -> Pending[None]:
        """A client has the session until the result is abandoned; it is resolved when the session ends.

        Raises Aborted if it has ended.
        """
        attendance: Pending[None] = Pending(
            WaitInfo("attended", f"session {handle}"), lambda pending: self._left(handle, pending)
        )
        with self._changed:
            kept = self._kept.get(handle)
            if kept is None:
                raise errors.aborted(f"session {handle!r} has ended")
            kept.attendants.add(attendance)
            kept.attends = True
            self._due.pop(handle, None)
        return attendance

    def _left(self, handle: str, attendance: Pending[None]) -> bool:
        with self._changed:
            kept = self._kept.get(handle)
            if kept is not None:
                kept.attendants.discard(attendance)
                if not kept.attendants:
                    kept.since = time.monotonic()
                    self._look_within(handle, _GONE_AFTER_S)
        return True

    def forget(self, handle: str) -> None:
        """The session has ended."""
        with self._changed:
            kept = self._kept.pop(handle, None)
            self._due.pop(handle, None)
            self._changed.notify()
        for attendance in kept.attendants if kept is not None else ():
            attendance.resolve(None)

    def _look_within(self, handle: str, seconds: float) -> None:
        self._due[handle] = time.monotonic() + seconds
        if self._running:
            self._changed.notify()
            return
        try:
            self._pool.submit(self._work)
            self._running = True
        except RuntimeError:  # the server is being stopped: so are all its sessions
            self._due.clear()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._due:
                    self._running = False
                    return
                handle = min(self._due, key=self._due.__getitem__)
                left = self._due[handle] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                del self._due[handle]
                error = self._verdict(self._kept[handle])
            if error is not None:
                self._close(handle, error)

    def _verdict(self, kept: _Kept) -> errors.OpError | None:
        """Why the session is to be closed now; else it is looked at again."""
        now = time.monotonic()
        limit_s = _GONE_AFTER_S if kept.attends else self._idle_s or 0.0
        if not kept.attends and kept.session.was_used():
            kept.since = now
        left = kept.since + limit_s - now
        if left > 0:
            self._look_within(kept.session.handle, min(left, limit_s / _LOOKS))
            return None
        handle = kept.session.handle
        if kept.attends:
            return errors.aborted(
                f"session {handle!r} was closed: its client {kept.session.client} has been gone for {limit_s:g} s"
            )
        return errors.aborted(
            f"session {handle!r} was closed: it had no step for {limit_s:g} s (HEADRACE_SESSION_IDLE_S of its server); "
            "make a new session"
        )
