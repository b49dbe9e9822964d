"""The processors that this process may use.

Called by: run.exec (how many threads share an operation).  Threads: any.
"""

from __future__ import annotations

import os


def processors() -> int:
    """How many there are."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
