"""Timers: what is to be checked, and when, on a thread of its own that is there while there is anything.

Called by: serve.connect.liveness, serve.master.session_reaper, serve.observe.reporter.  Threads: any.  A check is made
without any lock, one at a time; it may block for a moment, and if it fails the others do not suffer for it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from headrace.serve.rpc.limits import LIMITS

_log = logging.getLogger("headrace")

T = TypeVar("T")
Thing = TypeVar("Thing", bound=Hashable)


class TimerQueue(Generic[Thing]):
    """See the module header.  Times are those of the monotonic clock."""

    def __init__(self, name: str, check: Callable[[Thing], float | None]) -> None:
        """name: the thread's.  check(thing): when to check it again; None: no more, unless somebody asks anew."""
        self._name = name
        self._check = check
        self._changed = threading.Condition()  # reentrant: who is collected may ask to be forgotten
        self._due: dict[Thing, float] = {}
        self._looked_at: Thing | None = None  # until somebody asks for it anew, or has it forgotten
        self._running = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing to check."""
        return not self._due

    def call_at(self, thing: Thing, when: float) -> None:
        """Have `thing` checked then, and not at the time that was said before."""
        with self._changed:
            if self._looked_at == thing:
                self._looked_at = None
            self._due[thing] = when
            if not self._running:
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
                self._running = True
            else:
                self._changed.notify()

    def call_by(self, thing: Thing, when: float) -> None:
        """The same, unless it is to be checked sooner anyway."""
        with self._changed:
            due = self._due.get(thing)
            if due is None or when < due or self._looked_at == thing:
                self.call_at(thing, when)

    def forget(self, thing: Thing) -> None:
        """Check it no more; a check under way may still end."""
        with self._changed:
            if self._looked_at == thing:
                self._looked_at = None
            if self._due.pop(thing, None) is not None and not self._due:
                self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                due = self._due.copy()
                if not due:
                    self._running = False
                    return
                thing = min(due, key=due.__getitem__)
                left = due[thing] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                self._looked_at = thing
                self._due[thing] = time.monotonic() + LIMITS.after_failure_s
            try:
                again = self._check(thing)
            except Exception:
                _log.exception("%s: a check failed", self._name)
                again = time.monotonic() + LIMITS.after_failure_s
            with self._changed:
                if self._looked_at == thing:
                    self._looked_at = None
                    if again is None:
                        self._due.pop(thing, None)
                    else:
                        self._due[thing] = again


class PerProcess(Generic[T]):
    """Something that a process has once; a fork's child gets one of its own, as it has none of its parent's threads."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[int, T] = {}

    def __call__(self) -> T:
        pid = os.getpid()
        found = self._made.get(pid)
        return self._made.setdefault(pid, self._make()) if found is None else found
