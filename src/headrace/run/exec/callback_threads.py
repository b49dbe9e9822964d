"""Callback threads: threads that call users' functions, which may wait for each other or for anything else.

A function is called in a thread of its own, so that it keeps nothing from running that does not need its result.  There
is no bound on the threads: with one, functions that wait for each other could wait for a thread as well.  A thread that
has nothing to do takes the next call, and ends after a while without one.
A function cannot be stopped from outside: a call that is abandoned (deadline, cancellation, Ctrl-C) goes on in its
thread, and nobody hears of its result.
Called by: ops.flow.py_functions, run.data.functions.  Threads: any.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, Final

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo

_IDLE_S: Final = 5.0

_Call = tuple[Callable[[], Any], Pending[Any]]
_Inbox = queue.SimpleQueue["_Call | None"]


class CallbackThreads:
    """The threads of one task or local session; see the module header."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[_Inbox, threading.Thread] = {}  # the latest to become idle last
        self._closed = False

    def call(
        self, function: Callable[[], Any], name: str, waits: WaitInfo | None = None
    ) -> Pending[Any]:
        """What `function` gives, or the OpError that it raises; begins at once.  waits: what people read of it."""
        pending: Pending[Any] = Pending(waits or WaitInfo("call", f"the function of {name!r}"))
        with self._lock:
            inbox = self._idle.popitem()[0] if self._idle else None
        if inbox is not None:
            inbox.put((function, pending))
        else:
            threading.Thread(
                target=self._serve, args=((function, pending),), name=f"call/{name}", daemon=True
            ).start()
        return pending

    def _serve(self, call: _Call | None) -> None:
        inbox: _Inbox = queue.SimpleQueue()
        while call is not None:
            _carry_out(*call)
            call = None
            with self._lock:
                if self._closed:
                    return
                self._idle[inbox] = threading.current_thread()
            try:
                call = inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._idle.pop(inbox, None) is not None:
                        return
                call = inbox.get()  # somebody has just taken this thread

    def close(self) -> None:
        """End the threads that have nothing to do, and wait for them; others end when their function does."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for inbox in idle:
            inbox.put(None)
        for thread in idle.values():
            thread.join()


def _carry_out(function: Callable[[], Any], pending: Pending[Any]) -> None:
    try:
        found = function()
    except errors.OpError as error:
        pending.reject(error)
    except BaseException as error:  # KeyboardInterrupt is the function's own doing in this thread
        failed = errors.unknown(errors.named(error))
        failed.__cause__ = error
        pending.reject(failed)
    else:
        pending.resolve(found)
