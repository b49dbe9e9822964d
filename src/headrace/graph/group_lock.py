"""GroupLock: threads of one group hold it together, those of two groups never.

Called by: graph.low_level.  Threads: any; a thread that holds it for one group may take it for either, which waits for
nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Depth(threading.local):
    held = 0


class GroupLock:
    """A lock of two groups, 0 and 1."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders = [0, 0]
        self._here = _Depth()

    @contextmanager
    def group(self, number: int) -> Iterator[None]:
        """Hold it for this group, once no other thread holds it for the other one."""
        here = self._here
        if here.held:
            here.held += 1
            try:
                yield
            finally:
                here.held -= 1
            return
        with self._changed:
            while self._holders[1 - number]:
                self._changed.wait()
            self._holders[number] += 1
        here.held = 1
        try:
            yield
        finally:
            here.held = 0
            with self._changed:
                self._holders[number] -= 1
                if not self._holders[number]:
                    self._changed.notify_all()
