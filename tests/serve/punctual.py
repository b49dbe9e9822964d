"""Promises about time, tested on a machine that may be busy.

That makes everything late, again and again; so it is the best of many attempts that counts.  An implementation that is
late is late every time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf

LIMIT_MS = 60
LATE_MS = 100
ATTEMPTS = 50
PATIENT_MS = {10: 1_000, 20: 5_000, 30: 20_000}
"""Before which attempts to plan a step, and how long that may take."""

SOMEBODY = "somebody"

OPTIONS = tf.RunOptions(timeout_in_ms=LIMIT_MS)
CONFIG = tf.ConfigProto(operation_timeout_in_ms=LIMIT_MS)
PATIENT = tf.RunOptions(timeout_in_ms=60_000)  # for what is only prepared in a session of CONFIG


def in_the_end(call: Callable[[], Any]) -> Any:
    """Its value; what is only prepared may run into the limit some times, even before a task has answered."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(tf.errors.DeadlineExceededError, tf.errors.UnavailableError):
            return call()
    return call()


def check_kept(
    call: Callable[[], Any],
    what: str,
    node: str | None = None,
    patiently: Callable[[tf.RunOptions], Any] | None = None,
) -> None:
    """call() must run into its limit, LIMIT_MS, and end not LATE_MS later, naming `node` (SOMEBODY: any).

    patiently(options): the step with a limit of its own, now and then: a machine so busy that it cannot plan the step
    within LIMIT_MS never comes to where it waits.
    """
    story = []
    for attempt in range(ATTEMPTS):
        if patiently is not None and (limit_ms := PATIENT_MS.get(attempt)):
            with contextlib.suppress(tf.errors.DeadlineExceededError, tf.errors.UnavailableError):
                patiently(tf.RunOptions(timeout_in_ms=limit_ms))
        started = time.monotonic()
        with pytest.raises((tf.errors.DeadlineExceededError, tf.errors.UnavailableError)) as caught:
            call()
        late_ms = (time.monotonic() - started) * 1000 - LIMIT_MS
        assert late_ms > -5, f"{what}: {-late_ms:.0f} ms early, {caught.value}"
        named = caught.value.node
        if isinstance(caught.value, tf.errors.UnavailableError):
            named = "nothing yet: there was no answer at all"
        elif late_ms < LATE_MS and (node in (None, named) or (node is SOMEBODY and named)):
            return
        story.append(f"{late_ms:.0f} ms late, in {named}")
    raise AssertionError(f"{what}: {'; '.join(story)}")


def check_ends_in_time(call: Callable[[], Any], what: str) -> None:
    """call() must end, because of its limit, of whom it needs, or well, not LATE_MS after the limit."""
    story = []
    for _ in range(ATTEMPTS):
        started = time.monotonic()
        with contextlib.suppress(tf.errors.DeadlineExceededError, tf.errors.UnavailableError):
            call()
        late_ms = (time.monotonic() - started) * 1000 - LIMIT_MS
        if late_ms < LATE_MS:
            return
        story.append(f"{late_ms:.0f} ms late")
    raise AssertionError(f"{what}: {'; '.join(story)}")


def complaints(said: str) -> list[str]:
    """The lines of a process's stderr, but those that it waits for long, as it may on a busy machine."""
    waits = "still waiting, for ", " has waited "
    return [line for line in said.splitlines() if not any(text in line for text in waits)]


def soon(attempt: Callable[[], float], within_s: float, attempts: int = 5) -> None:
    """One of the attempts, which give the seconds that it took, must be quick enough."""
    took = []
    for _ in range(attempts):
        took.append(attempt())
        if took[-1] < within_s:
            return
    raise AssertionError(f"it took {took} s, not {within_s} s")
