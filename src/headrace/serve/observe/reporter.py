"""Reporter: logs a line for each step that is blocked for long, and again at growing intervals.

A wait that gets long says so (run.long_waits) to its session, which has the reporter check it when
the threshold is reached.  The thread is there only while something is to be checked.
Steps that wait for the same queue in the same way share a line, that of the longest wait.  An enqueue
into a queue that moves is not blocked, however long it waits: its consumers are slow, that is all.
Called by: client.session, serve.  Threads: one of its own per process.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Iterable
from typing import Protocol

from headrace.base import errors
from headrace.base.log_fields import FIELDS
from headrace.run import long_waits
from headrace.serve.observe.blocked import BlockedStep, seconds
from headrace.serve.rpc.timers import PerProcess, TimerQueue

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

    def check(self, threshold_s: float) -> float | None:
        """Log what is due; seconds until the next check, None if nothing waits."""
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
            _log.warning("%s", step, extra={FIELDS: _fields(step)})
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


def _fields(step: BlockedStep) -> dict[str, object]:
    """What a line of a structured log has of it beside its text."""
    names = "session client step task device node op built_at waited_s kind on cause".split()
    return {"event": "blocked_step", **{name: getattr(step, name) for name in names}}


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
        self._watched: dict[int, _Watched] = {}
        self._timers = TimerQueue("headrace blocked", self._check)

    def watch(self, subject: Subject, title: str, waited_s: float) -> None:
        threshold_s = long_waits.threshold_s
        if threshold_s is None:
            return
        number = id(subject)
        watched = self._watched.get(number)
        if watched is None or watched.subject() is not subject:
            watched = _Watched(subject, title)
            watched.since -= waited_s
            self._watched[number] = watched
        self._timers.call_by(number, time.monotonic() + max(0.0, threshold_s - waited_s))

    def forget(self, subject: Subject) -> None:
        watched = self._watched.pop(id(subject), None)
        if watched is not None:
            watched.forgotten = True
        self._timers.forget(id(subject))

    def _check(self, number: int) -> float | None:
        threshold_s = long_waits.threshold_s
        watched = self._watched.get(number)
        if watched is None or threshold_s is None:
            return None
        again_s = watched.check(threshold_s)
        if again_s is not None:
            return time.monotonic() + again_s
        if self._watched.get(number) is watched:
            del self._watched[number]
        return None


_reporter = PerProcess(_Reporter)


def watch(subject: Subject, title: str, waited_s: float) -> None:
    """Look at `subject`, in which something has waited `waited_s`, when that is worth a line.

    title: what to call it if it cannot say what it waits for.
    """
    _reporter().watch(subject, title, waited_s)


def forget(subject: Subject) -> None:
    """It has ended."""
    _reporter().forget(subject)
