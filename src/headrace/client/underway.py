"""Steps under way: so that closing a session can wait for them.

Called by: client.local, client.remote.  Threads: any.
"""

from __future__ import annotations

import threading
from types import TracebackType

from headrace.base import errors
from headrace.run.scope import Scope


class UnderWay:
    """Counts the steps that run, by thread; a context manager around each."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads: dict[int, int] = {}

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self._threads[me] = self._threads.get(me, 0) + 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        me = threading.get_ident()
        with self._changed:
            self._threads[me] -= 1
            if not self._threads[me]:
                del self._threads[me]
                self._changed.notify_all()

    def wait_until_none(self, timeout_s: float) -> bool:
        """Block until no other thread runs a step; False if that takes longer.

        This thread's own step does not count: a signal handler may have come in its way.
        """
        me = threading.get_ident()
        try:
            with self._changed, Scope(timeout_s) as scope:
                scope.wait_for(self._changed, lambda: not self._threads.keys() - {me})
        except errors.DeadlineExceededError:
            return False
        return True
