"""Beside: calls that one thread of the worker pool makes for a step, in order, while the step's own thread goes on.

What a step needs only later need not keep it: the sum that a loop makes of a product in each of its iterations, say,
which nothing looks at before the loop is over (`plan.rules.loop_sums`).  It pays for calls that let go of the
interpreter's lock for most of their time.
Whoever waits for the calls makes those that are left, if no thread of the pool is at it: where other programs keep
the processors busy nothing is lost but a few microseconds.  Calls are made one after the other, so what comes of them
does not depend on who makes them.
Called by: plan.rules.loop_sums, run.exec.branches.  Threads: one adds and finishes; those of a worker pool help.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from headrace.run.exec.worker_pool import ask
from headrace.run.uninterrupted import changes

_MOST = 16  # calls that wait; what they hold on to is memory


@changes
class Beside:
    """See the module header."""

    __slots__ = ("_asked", "_calls", "_failure", "_turn")

    def __init__(self) -> None:
        self._calls: deque[Callable[[], object]] = deque()
        self._turn = threading.Lock()  # whoever makes calls has it
        self._asked = False  # a thread of the pool is at it, or will be when it is free
        self._failure: BaseException | None = None

    def add(self, call: Callable[[], object]) -> None:
        """Have `call` made after all that were added before.  May raise as `finish`."""
        self._calls.append(call)
        if len(self._calls) > _MOST:
            self.finish()
        elif not self._asked:
            self._asked = True
            if not ask(self):
                self._asked = False
                self.finish()

    def finish(self) -> None:
        """Return when all calls are made.  Raises the first failure, after which none was made."""
        with self._turn:
            self._make_calls()
        failure, self._failure = self._failure, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # whose traceback holds this frame

    def help(self) -> None:
        """Make calls until none is left, unless somebody does."""
        while True:
            if self._turn.acquire(blocking=False):
                try:
                    self._make_calls()
                finally:
                    self._turn.release()
            self._asked = False
            if not self._calls or self._asked:  # what was added just before has asked nobody
                return
            self._asked = True

    def _make_calls(self) -> None:
        calls = self._calls
        try:
            while calls:
                calls.popleft()()
        except BaseException as error:  # of another thread, perhaps: raised by `finish`
            calls.clear()
            if self._failure is None:
                self._failure = error


class Later:
    """A value that may not be there yet."""

    __slots__ = ()

    def value(self) -> Any:
        """What it is, once it is there.  Raises what making it did."""
        raise NotImplementedError


def settled(value: Any) -> Any:
    """What a value that may not be there yet has come to; others as they are."""
    return value.value() if isinstance(value, Later) else value
