"""Waiting for what nobody tells: other threads run meanwhile, and get the interpreter's lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WITHIN_S = 60.0


def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Return when `condition` holds; fail if it does not come to that."""
    pause, end = threading.Event(), time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "what was waited for has not come"
        pause.wait(0.001)
