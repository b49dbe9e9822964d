"""Thread group: threads that belong to somebody.

Leaving the block joins every thread that was started in it.  The first failure, in a thread or in
the block itself, ends the group's scope, so that the others stop waiting, and is raised when the
block is left.  Threads started here are daemons: a program that ends without leaving the block
(os._exit, a dying interpreter) does not hang on them.

Called by: whoever needs a thread (serve, training, tools); there is no other place that starts one.
Threads: `start` may be called from any thread, the group's own included, until the block has been
left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVarTuple

from headrace.base import errors
from headrace.run.scope import Scope, sleep_limit

Args = TypeVarTuple("Args")


class ThreadGroup:
    """A named group of threads with one Scope, `group.scope`, that their waits should take."""

    def __init__(self, name: str, scope: Scope | None = None) -> None:
        """The group's scope is a child of `scope`: it ends when that does."""
        self.name = name
        self.scope = Scope(parent=scope)
        self._lock = threading.Lock()
        self._running: set[threading.Thread] = set()
        self._ending: list[threading.Thread] = []
        self._failure: BaseException | None = None
        self._left = False

    def start(
        self, target: Callable[[*Args], object], *args: *Args, name: str = ""
    ) -> threading.Thread:
        """Run `target(*args)` in a new thread named `group/name`."""
        label = f"{self.name}/{name or getattr(target, '__name__', 'thread')}"
        thread = threading.Thread(target=self._run, args=(target, args), name=label, daemon=True)
        with self._lock:
            if self._left:
                raise RuntimeError(
                    f"thread group {self.name!r} has been left; {label!r} cannot start"
                )
            self._ending = [t for t in self._ending if t.is_alive()]
            self._running.add(thread)
        try:
            thread.start()
        except BaseException:
            with self._lock:
                self._running.discard(thread)
            raise
        return thread

    def _run(self, target: Callable[..., object], args: tuple[object, ...]) -> None:
        try:
            target(*args)
        except (
            BaseException
        ) as failure:  # the boundary of the thread: it is raised again in __exit__
            self._fail(failure)
        finally:
            me = threading.current_thread()
            with self._lock:
                self._running.discard(me)
                self._ending.append(me)

    def _fail(self, failure: BaseException) -> None:
        """Keep the first failure; one that only repeats why the scope ended is none."""
        ended_by = self.scope.error
        if ended_by is not None and (
            errors.same(failure, ended_by)
            or (failure.__cause__ is not None and errors.same(failure.__cause__, ended_by))
        ):
            return
        with self._lock:
            first = self._failure is None
            if first:
                self._failure = failure
            elif failure is not self._failure:
                assert self._failure is not None
                self._failure.add_note(
                    f"thread group {self.name!r}, later: {type(failure).__name__}: {failure}"
                )
        if first:
            self.scope.cancel(self._as_error(failure))

    def _as_error(self, failure: BaseException) -> errors.OpError:
        if isinstance(failure, errors.OpError):
            return failure
        error = errors.cancelled(
            f"thread group {self.name!r} stopped because of {type(failure).__name__}: {failure}"
        )
        error.__cause__ = failure
        return error

    def __enter__(self) -> ThreadGroup:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if value is not None:
            self._fail(value)
        try:
            self._join()
        except (
            BaseException
        ) as interrupt:  # Ctrl-C while joining: stop the threads, then go on with it
            self._fail(interrupt)
            self._join()
            raise
        finally:
            self.scope.close()
        if self._failure is not None and self._failure is not value:
            raise self._failure

    def _join(self) -> None:
        """Wait for every thread.

        At the deadline the scope is ended, and the waiting goes on for the threads to see it.
        """
        while True:
            with self._lock:
                thread = next(iter(self._running), None) or (
                    self._ending.pop() if self._ending else None
                )
                if thread is None:
                    self._left = True
                    return
            while thread.is_alive():
                thread.join(
                    sleep_limit(None) if self.scope.error is not None else self.scope.sleep_limit()
                )
