"""Steps in flight: so that closing a session can wait for them.

Called by: client.local, client.remote.  Threads: any.
"""

from __future__ import annotations

import threading
from types import TracebackType

from headrace.base import errors
from headrace.run.scope import Scope


class StepsInFlight:
    """Counts the steps that run, by thread; a context manager around each.

    A thread changes nothing but its own entries, which takes no lock.
    steps: the threads of steps for which a context manager would be too much: whoever runs one puts it in under a key
    that is new, takes it out, and then, if `awaited`, calls `tell`.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads: dict[int, int] = {}
        self.steps: dict[object, int] = {}
        self.awaited = False

    def __enter__(self) -> None:
        me = threading.get_ident()
        self._threads[me] = self._threads.get(me, 0) + 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        me = threading.get_ident()
        left = self._threads.pop(me) - 1
        if left:
            self._threads[me] = left
        elif self.awaited:
            self.tell()

    def tell(self) -> None:
        """A step has ended, and somebody waits for that."""
        with self._changed:
            self._changed.notify_all()

    def _others(self) -> set[int]:
        """The other threads that run steps."""
        return {*self._threads.copy(), *self.steps.copy().values()} - {threading.get_ident()}

    def wait_until_none(self, timeout_s: float) -> bool:
        """Block until no other thread runs a step; False if that takes longer.

        This thread's own step does not count: a signal handler may have come in its way.
        """
        try:
            with self._changed, Scope(timeout_s) as scope:
                self.awaited = True
                scope.wait_for(self._changed, lambda: not self._others())
        except errors.DeadlineExceededError:
            return False
        return True
