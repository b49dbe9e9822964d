"""Until when graphs that are built now can be read: `tf.compat.forward_compatible`.

Graphs are those of TensorFlow 2.21, so the horizon is that of its release.
Called by: programs.  Threads: the horizon is the process's.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["forward_compatibility_horizon", "forward_compatible"]

_horizon = datetime.date(2026, 1, 16)


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Whether what was new on that day may be in graphs."""
    return _horizon > datetime.date(year, month, day)


@contextmanager
def forward_compatibility_horizon(year: int, month: int, day: int) -> Iterator[None]:
    """Within it, that day is the horizon: tests of programs look at both sides of it."""
    global _horizon
    before = _horizon
    _horizon = datetime.date(year, month, day)
    try:
        yield
    finally:
        _horizon = before
