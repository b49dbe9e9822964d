"""Scope: how long a wait may last, and who may end it sooner.

Every wait of the runtime takes one.  A scope ends once, with one error: the first `cancel` wins,
and a deadline that has passed is a cancel with DeadlineExceededError.  A child ends when its parent
does, never the other way. There is no timer thread: whoever waits with a scope waits no longer than
its deadline and then ends it, which runs the callbacks.

Called by: everything that waits (run.pending, run.thread_group), everything that ends steps (client,
serve).
Threads: any.  Callbacks run in the thread that ends the scope, outside its lock; they must be short
and must not raise.  A parent holds its children weakly, so a step's scope that is dropped costs its
session nothing.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from types import TracebackType

from headrace.base import errors

Callback = Callable[[], object]

CTRL_C_S = 0.1
MOST_S = 1e9
"""Seconds, 31 years: from there on a time limit is none.  gRPC and the system's calls count no further."""


_main_thread = threading.main_thread().ident
_ending = threading.RLock()  # held for two statements, so one does for all scopes


def _begin_anew() -> None:
    """In a fork's child the main thread is the one that forked, and nobody ends a scope."""
    global _main_thread, _ending
    _main_thread = threading.main_thread().ident
    _ending = threading.RLock()


os.register_at_fork(after_in_child=_begin_anew)


def sleep_limit(remaining_s: float | None) -> float | None:
    """See `Scope.sleep_limit`; for waits without a scope."""
    if threading.get_ident() != _main_thread:
        return remaining_s
    return CTRL_C_S if remaining_s is None or remaining_s > CTRL_C_S else remaining_s


def wait_until_set(event: threading.Event) -> None:
    """Block until `event` is set; Ctrl-C ends the wait, and other signals' handlers run, in time."""
    scope = Scope()
    while not event.wait(scope.sleep_limit()):
        pass


class Scope:
    """A deadline and a cancellation; as a context manager it detaches from its parent on leaving.

    ended_by: the error that ended it, if somebody has noticed; `error` looks at the deadline too.
    on_long_wait: called by a step that is about to wait for long; children have their parent's.  For
    whoever would rather not watch over what is done in an instant.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_detach",
        "_timeout_s",
        "deadline",
        "ended_by",
        "on_long_wait",
        "parent",
    )

    def __init__(self, timeout_s: float | None = None, parent: Scope | None = None) -> None:
        """`timeout_s` counts from now, from `MOST_S` on it is none; the parent's deadline holds too when it is
        earlier.
        """
        if timeout_s is not None and not timeout_s < MOST_S:
            timeout_s = None
        self.deadline: float | None = None
        self.parent = parent
        self.on_long_wait: Callback | None = None
        self._timeout_s = timeout_s
        self.ended_by: errors.OpError | None = None
        self._callbacks: dict[object, Callback] = {}
        self._detach: Callback | None = None
        if timeout_s is not None:
            self.deadline = time.monotonic() + timeout_s
        if parent is not None:
            self.on_long_wait = parent.on_long_wait
            self._attach(parent)

    def _attach(self, parent: Scope) -> None:
        if parent.deadline is not None and (
            self.deadline is None or parent.deadline < self.deadline
        ):
            self.deadline = parent.deadline
            self._timeout_s = parent._timeout_s
        key = object()
        callbacks = parent._callbacks

        def forget(
            _: object = None,
        ) -> None:  # one dict operation: safe inside the garbage collector
            callbacks.pop(key, None)

        child = weakref.ref(self, forget)

        def inherit() -> None:
            scope = child()
            if scope is not None and parent.ended_by is not None:
                scope.cancel(parent.ended_by)

        self._detach = forget
        if not parent._register(key, inherit):
            inherit()

    @property
    def error(self) -> errors.OpError | None:
        """Why the scope has ended, None while it goes on; to raise it, `check`.

        A passed deadline counts as soon as anyone looks.
        """
        if (
            self.ended_by is None
            and self.deadline is not None
            and time.monotonic() >= self.deadline
        ):
            self.cancel(self.deadline_error())
        return self.ended_by

    @property
    def cancelled(self) -> bool:
        """Whether somebody has ended it; a passed deadline counts if anyone has looked."""
        return self.ended_by is not None

    def deadline_error(self, waiting_for: str = "") -> errors.OpError:
        """The DeadlineExceededError of this scope, saying what was `waiting_for`."""
        what = f" while waiting for {waiting_for}" if waiting_for else ""
        limit = "" if self._timeout_s is None else f" of {self._timeout_s:g} s"
        return errors.deadline_exceeded(
            f"Timed out waiting for notification (Deadline Exceeded): the time limit{limit} passed{what}"
        )

    def remaining(self) -> float | None:
        """Seconds until the deadline, never negative; None without a deadline."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.monotonic())

    def later(self, extra_s: float) -> Scope:
        """A scope whose deadline, which there must be, is so much later.  It ends by itself alone; `parent` is for
        whoever watches over it.
        """
        assert self.deadline is not None
        late = Scope()
        late.deadline, late._timeout_s = self.deadline + extra_s, self._timeout_s
        late.parent = self
        return late

    def check(self) -> None:
        """Raise the error that ended the scope, if it has ended."""
        if self.ended_by is None and self.deadline is None:
            return
        error = self.error
        if error is not None:
            raise errors.copied(error)

    def cancel(self, error: errors.OpError) -> bool:
        """End the scope with `error` and run the callbacks; False if it had ended already."""
        with _ending:
            if self.ended_by is not None:
                return False
            self.ended_by = errors.detached(error)
        callbacks = self._callbacks
        while callbacks:
            for key in list(callbacks):
                callback = callbacks.pop(key, None)
                if callback is not None:
                    callback()
        return True

    def on_cancel(self, callback: Callback) -> Callback:
        """Run `callback` when the scope ends, at once if it has; returns what unregisters it.

        After unregistering, a callback that another thread has begun to run may still run.
        """
        key = object()
        if not self._register(key, callback):
            callback()
        callbacks = self._callbacks
        return lambda: callbacks.pop(key, None)

    def attach(self, key: object, callback: Callback) -> None:
        """As `on_cancel`, under a key of the caller's until `detach`."""
        self._callbacks[key] = callback
        if (
            self.ended_by is not None and self._callbacks.pop(key, None) is not None
        ):  # see _register
            callback()

    def detach(self, key: object) -> bool:
        """Forget what was attached under `key`.  False if that was called, or is being called now."""
        return self._callbacks.pop(key, None) is not None

    def _register(self, key: object, callback: Callback) -> bool:
        """False, and nothing registered, if the scope has ended; then it is the caller's to run.

        Whoever ends the scope does so before they look for callbacks, and a callback is taken out by one dict
        operation: either side may find it, and one of them does.
        """
        self._callbacks[key] = callback
        return self.ended_by is None or self._callbacks.pop(key, None) is None

    def sleep_limit(self) -> float | None:
        """How long this thread may sleep before it looks again: `remaining`, but on the main thread
        no longer than a Ctrl-C may go unnoticed.

        CPython loses the wake-up of a signal that arrives between its last look and the sleep.
        """
        return sleep_limit(None if self.deadline is None else self.remaining())

    def wait_for(
        self, condition: threading.Condition, predicate: Callable[[], object], what: str = ""
    ) -> None:
        """Wait with `condition` held until `predicate()` is true; raises the scope's error when it
        ends first.

        Whoever cancels the scope must not hold the condition.  `what` is named in the deadline's
        error.  A deadline that passes here raises but leaves the callbacks to the next one who
        looks at `error`.
        """
        if predicate():
            return
        key = object()

        def wake() -> None:
            with condition:
                condition.notify_all()

        if not self._register(key, wake):
            self.check()
        try:
            while not predicate():
                if self.ended_by is not None:
                    raise errors.copied(self.ended_by)
                remaining = self.remaining()
                if (
                    remaining == 0.0
                ):  # not cancel(): callbacks of others may want the condition we hold
                    raise self.deadline_error(what)
                condition.wait(self.sleep_limit())
        finally:
            self._callbacks.pop(key, None)

    def close(self) -> None:
        """Detach from the parent; the scope itself goes on."""
        if self._detach is not None:
            self._detach()

    def __enter__(self) -> Scope:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
