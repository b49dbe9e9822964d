"""Pending: the result of an operation that may have to wait for others.

An operation on shared state never parks the thread that asks.  It returns a Pending: already done
when nothing had to be waited for, otherwise completed later by whichever thread changes the state.
Exactly one of resolve, reject and abandon wins.  Abandoning takes the operation back out of the
state it waits in, so that it leaves no trace.

Called by: run.queues.queue, run.exec.rendezvous (make and complete them), run's executor (`on_done`), whoever
blocks (`wait`).
Threads: any.  Callbacks run in the thread that completes the Pending, outside all locks; they must
not raise. Whoever completes Pendings under a lock of its own calls `settle` there and `announce`
after releasing it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from headrace.base import errors
from headrace.run import long_waits
from headrace.run.scope import Scope
from headrace.run.uninterrupted import changes

T = TypeVar("T")

_WAITING, _RESOLVED, _REJECTED = 0, 1, 2


class WaitInfo:
    """What an operation waits for: `kind` of operation, `on` what, `since` when (time.monotonic
    seconds).

    subject: the operation itself, as the state that it waits in knows it.
    """

    __slots__ = ("_detail", "kind", "on", "since", "subject")

    def __init__(
        self,
        kind: str,
        on: str,
        detail: Callable[[], str] | None = None,
        subject: object = None,
    ) -> None:
        """`detail` says what there is and what is missing, at the moment it is called."""
        self.kind = kind
        self.subject = subject
        self.on = on
        self.since = time.monotonic()
        self._detail = detail

    @property
    def detail(self) -> str:
        """What there is and what is missing now, "" if unknown."""
        return "" if self._detail is None else self._detail()

    def __str__(self) -> str:
        detail = self.detail
        text = f"{self.kind} on {self.on}, for {time.monotonic() - self.since:.1f} s"
        return f"{text} ({detail})" if detail else text


@changes
class Pending(Generic[T]):
    """A one-shot result: waiting, then resolved with a value or rejected with an error, once and
    for all.
    """

    __slots__ = ("_callbacks", "_error", "_lock", "_state", "_value", "_wait_info", "_withdraw")

    _value: T
    _error: errors.OpError

    def __init__(
        self,
        wait_info: WaitInfo | None = None,
        withdraw: Callable[[Pending[T]], bool] | None = None,
    ) -> None:
        """`withdraw` takes the operation out of what it waits in; it returns False if that has
        completed it already.

        After it has returned True nobody but the abandoning thread may complete the Pending.
        """
        self._state = _WAITING
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Pending[T]], object]] = []
        self._wait_info = wait_info
        self._withdraw = withdraw

    @classmethod
    def done_with(cls, value: T) -> Pending[T]:
        """A Pending that has its value from the start."""
        pending: Pending[T] = cls.__new__(cls)
        pending._state = _RESOLVED
        pending._value = value
        return pending

    @classmethod
    def failed_with(cls, error: errors.OpError) -> Pending[T]:
        """A Pending that has its error from the start."""
        pending: Pending[T] = cls.__new__(cls)
        pending._state = _REJECTED
        pending._error = errors.detached(error)
        return pending

    @property
    def done(self) -> bool:
        """True as soon as it has its value or error, also if nobody has been told yet."""
        return self._state != _WAITING

    @property
    def error(self) -> errors.OpError | None:
        """The error it was rejected or abandoned with; None while waiting and after success.  To raise it, `result`."""
        return self._error if self._state == _REJECTED else None

    @property
    def wait_info(self) -> WaitInfo | None:
        """What it waits for; None when done."""
        return self._wait_info if self._state == _WAITING else None

    def result(self) -> T:
        """The value, or raises the error.

        Never blocks: InternalError while it is still waiting.
        """
        if self._state == _RESOLVED:
            return self._value
        if self._state == _REJECTED:
            raise errors.copied(self._error)
        raise errors.internal(f"the result was asked for before it was there: {self._wait_info}")

    def resolve(self, value: T) -> bool:
        """Complete with `value` and run the callbacks; False, with no effect, if it was done
        already.
        """
        if self.settle(value):
            self.announce()
            return True
        return False

    def reject(self, error: errors.OpError) -> bool:
        """Complete with `error` and run the callbacks; False, with no effect, if it was done
        already.
        """
        if self.settle_error(error):
            self.announce()
            return True
        return False

    def settle(self, value: T) -> bool:
        """The first half of `resolve`, allowed under locks: done from now on, but nobody has been
        told.
        """
        if self._state:
            return False
        with self._lock:
            if self._state:
                return False
            self._value = value
            self._state = _RESOLVED
            return True

    def settle_error(self, error: errors.OpError) -> bool:
        """The first half of `reject`, allowed under locks."""
        if self._state:
            return False
        with self._lock:
            if self._state:
                return False
            self._error = errors.detached(error)
            self._state = _REJECTED
            return True

    def announce(self) -> None:
        """The second half of `resolve` and `reject`: run the callbacks, outside all locks.

        Once per settle.
        """
        self._wait_info = self._withdraw = None  # which may hold what waited, and that this
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def abandon(self, error: errors.OpError) -> bool:
        """Give up: the operation leaves no trace and the result is `error`.

        False if it was done already.
        """
        if self._state:
            return False
        withdraw = self._withdraw
        if withdraw is not None and not withdraw(self):
            return False
        return self.reject(error)

    def on_done(self, callback: Callable[[Pending[T]], object]) -> None:
        """Call `callback(self)` once when done, at once if it is.

        It must be short and must not raise.
        """
        if not self._state:
            with self._lock:
                if not self._state:
                    self._callbacks.append(callback)
                    return
        callback(self)

    def watch(self) -> None:
        """See to it that it completes though nobody waits.  Most do so by themselves."""

    def wait(self, scope: Scope) -> T:
        """Block until done and return the value, or raise its error.

        When the scope ends first the operation is abandoned and the scope's error raised; at the
        scope's deadline, a DeadlineExceededError that says what was waited for.  Ctrl-C abandons it
        too and goes on as KeyboardInterrupt.
        """
        if self._state:
            return self.result()
        info = self._wait_info
        wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()
        since, poll_s = time.monotonic(), long_waits.first_poll_s
        self.on_done(lambda _: wakeups.put(None))
        unregister = scope.on_cancel(lambda: wakeups.put(None))
        try:
            while not self._state and scope.error is None:
                try:
                    wakeups.get(timeout=long_waits.sleep_limit(scope, poll_s))
                except queue.Empty:  # the deadline, or a clock's tick before it, or a long wait
                    poll_s = long_waits.tell(scope, since, poll_s)
        except BaseException:  # Ctrl-C, in whatever dress a signal handler gives it
            self.abandon(errors.cancelled(f"interrupted while waiting for {info}"))
            raise
        finally:
            unregister()
        if not self._state:
            self._give_up(scope, info)
        return self.result()

    def _give_up(self, scope: Scope, info: WaitInfo | None) -> None:
        """The scope has ended.  Raises its error unless the result has arrived meanwhile."""
        error = scope.error
        assert error is not None, "woken neither by the result nor by the scope"
        if isinstance(error, errors.DeadlineExceededError) and info is not None:
            described = scope.deadline_error(str(info))
            described.__cause__ = error
            error = described
        if self.abandon(error):
            raise errors.copied(error)


@changes
def announce_all(settled: Iterable[Pending[Any]]) -> None:
    """Announce what was settled under a lock, after its release."""
    for pending in settled:
        pending.announce()
