"""Mutex: what one step at a time may hold, in the order in which they ask.

A holder gives it back by consuming the lock.  A step that fails or is cancelled gives back what it holds, so that
neither a client that was killed nor an op that raised keeps others waiting (`run.exec.kernel.StepState.failed`); a
lock that was taken and never consumed goes with the last value that refers to it.

Called by: ops.state.mutexes.  Threads: any; see wait_queues.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from headrace.run.pending import Pending
from headrace.run.state.variants import Variant
from headrace.run.state.wait_queues import WAIT, WaitingResource, WaitQueue
from headrace.run.uninterrupted import changes


@changes
class Mutex(WaitingResource):
    """Held by at most one lock."""

    def __init__(self, name: str) -> None:
        self._waiting = WaitQueue(strict=True)
        super().__init__(name, self._waiting)
        # The garbage collector may drop a lock in a thread that is in here.
        self._lock: Any = threading.RLock()
        self._holder: _Hold | None = None

    def state(self) -> str:
        """Who holds it, and for how long."""
        hold = self._holder
        if hold is None:
            return "free"
        return f"held by {hold.who}, for {time.monotonic() - hold.since:.1f} s"

    def lock(self, who: str) -> Pending[MutexLock]:
        """Take it when everybody who asked before has given it back.  who: for those who wait meanwhile."""

        def attempt() -> Any:
            if self._holder is not None and not self._holder.over:
                return WAIT
            self._holder = _Hold(who)
            return MutexLock(self, self._holder)

        return self.wait_in(self._waiting, "lock", attempt)

    def give_back(self, hold: _Hold) -> None:
        """The holder has no more use for it; nothing if it has given it back before."""
        hold.over = True
        if (
            self._lock._is_owned()
        ):  # dropped by the garbage collector: whoever is served next sees it
            return

        def free() -> None:
            if self._holder is hold:
                self._holder = None

        self.change(free)


class _Hold:
    """One turn of a mutex."""

    __slots__ = ("over", "since", "who")

    def __init__(self, who: str) -> None:
        self.who = who
        self.since = time.monotonic()
        self.over = False


class MutexLock(Variant):
    """What a holder has; given back when nothing refers to it, if not before."""

    __slots__ = ("_hold", "mutex")
    type_name = "(anonymous namespace)::MutexLock"

    def __init__(self, mutex: Mutex, hold: _Hold) -> None:
        self.mutex = mutex
        self._hold = hold

    def release(self) -> None:
        """Give the mutex back; nothing the second time."""
        if not self._hold.over:
            self.mutex.give_back(self._hold)

    def __del__(self) -> None:
        self.release()

    def __str__(self) -> str:
        return f"the lock of {self.mutex}"
