"""Reporter: logs a line for each step that is blocked for long, and again at growing intervals.

A wait that gets long says so (run.long_waits) to its session, which has the reporter look at it when
the threshold is reached.  The thread is there only while something is to be looked at.
Steps that wait for the same queue in the same way share a line, that of the longest wait.  An enqueue
into a queue that moves is not blocked, however long it waits: its consumers are slow, that is all.
Called by: client.session, serve.  Threads: one of its own per process.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Protocol

from headrace.base import errors
from headrace.run import long_waits
from headrace.serve.blocked import BlockedStep, seconds

_log = logging.getLogger("headrace")

_GROWTH = 2.0
_SOON_S = 0.001


class Subject(Protocol):
    """A session, or who stands for some."""

    def blocked_steps(self) -> list[BlockedStep]:
        """What waits now.  Raises OpError if that cannot be told."""


Key = tuple[str, int, str, str]


class _Watched:
    """A subject, and what has been said of it: after how long each step is due for a line."""

    def __init__(self, subject: Subject, title: str) -> None:
        self.subject = weakref.ref(subject)
        self._title = title
        self.due: dict[Key, float] = {}
        self.since = time.monotonic()
        self.unknown_due: float | None = None
        self.forgotten = False

    def look(self, threshold_s: float) -> float | None:
        """Log what is due; seconds until the next look, None if nothing waits."""
        subject = self.subject()
        if subject is None:
            return None
        try:
            steps = subject.blocked_steps()
        except (errors.CancelledError, errors.AbortedError):
            return None  # it has ended
        except errors.OpError as error:
            return None if self.forgotten else self._cannot_say(error, threshold_s)
        keys = {_key(step): step for step in steps}
        self.due = {key: due for key, due in self.due.items() if key in keys}
        ready = [step for step in steps if _counts(step) >= self.due.get(_key(step), threshold_s)]
        for step in ready:
            self.due[_key(step)] = max(threshold_s, _counts(step)) * _GROWTH
        for step in _one_each(ready):
            _log.warning("%s", step)
        if not steps:
            return None
        return min(
            max(_SOON_S, self.due.get(key, threshold_s) - _counts(step))
            for key, step in keys.items()
        )

    def _cannot_say(self, error: errors.OpError, threshold_s: float) -> float | None:
        waited_s = time.monotonic() - self.since
        if waited_s >= (self.unknown_due or 0.0):
            self.unknown_due = max(waited_s, threshold_s) * _GROWTH
            why = (
                "it is not a headrace server"
                if isinstance(error, errors.UnimplementedError)
                else error.message
            )
            _log.warning(
                "%s has waited %s and more for a step, and cannot learn what that waits for: %s",
                self._title,
                seconds(threshold_s),
                why,
            )
        return None  # whoever waits says so again


def _key(step: BlockedStep) -> Key:
    return step.session, step.step, step.task, step.node


def _counts(step: BlockedStep) -> float:
    """For how long it has been blocked."""
    if step.kind.startswith("enqueue"):
        return min(step.waited_s, step.unmoved_s)
    return step.waited_s


def _one_each(steps: Iterable[BlockedStep]) -> list[BlockedStep]:
    """The first of those that wait in the same way for the same thing."""
    found: dict[tuple[object, ...], BlockedStep] = {}
    for step in steps:
        queue = step.queue
        if queue is None:
            found[_key(step)] = step
        else:
            way = "in" if step.kind.startswith("enqueue") else step.kind
            found.setdefault((step.task, queue.container, queue.name, way), step)
    return list(found.values())


class _Reporter:
    def __init__(self) -> None:
        self._changed = threading.Condition()  # reentrant: a session may be collected at any moment
        self._watched: dict[int, tuple[float, _Watched]] = {}
        self._running = False

    def watch(self, subject: Subject, title: str, waited_s: float) -> None:
        threshold_s = long_waits.threshold_s
        if threshold_s is None:
            return
        when = time.monotonic() + max(0.0, threshold_s - waited_s)
        with self._changed:
            due, watched = self._watched.get(id(subject), (when, None))
            if watched is None:
                watched = _Watched(subject, title)
                watched.since -= waited_s
            self._watched[id(subject)] = min(due, when), watched
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="headrace blocked", daemon=True).start()
            else:
                self._changed.notify()

    def forget(self, subject: Subject) -> None:
        with self._changed:
            _, watched = self._watched.pop(id(subject), (0.0, None))
            if watched is not None:
                watched.forgotten = True
            self._changed.notify()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._watched:
                    self._running = False
                    return
                rows = self._watched.copy()
                number = min(rows, key=lambda each: rows[each][0])
                due, watched = rows[number]
                left = due - time.monotonic()
                if left > 0:
                    self._changed.wait(left)
                    continue
                threshold_s = long_waits.threshold_s
                self._watched[number] = time.monotonic() + (threshold_s or 0.0), watched
            again: float | None = None
            try:
                if threshold_s is not None:
                    again = watched.look(threshold_s)
            except Exception:  # the others must not suffer for it
                _log.exception("blocked steps could not be reported")
            with self._changed:
                if self._watched.get(number, (0.0, None))[1] is watched:
                    if again is None:
                        del self._watched[number]
                    else:
                        self._watched[number] = time.monotonic() + again, watched


_reporters: dict[int, _Reporter] = {}


def _reporter() -> _Reporter:
    """The reporter of this process (a fork's child has one of its own)."""
    pid = os.getpid()
    found = _reporters.get(pid)
    if found is None:
        found = _reporters.setdefault(pid, _Reporter())
    return found


def watch(subject: Subject, title: str, waited_s: float) -> None:
    """Look at `subject`, in which something has waited `waited_s`, when that is worth a line.

    title: what to call it if it cannot say what it waits for.
    """
    _reporter().watch(subject, title, waited_s)


def forget(subject: Subject) -> None:
    """It has ended."""
    _reporter().forget(subject)
