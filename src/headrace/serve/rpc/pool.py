"""A thread pool that grows: a call that blocks never keeps another from being served.

A call is handed to an idle thread, or to a new one when none is idle; a thread that has been idle
for `idle_s` ends.  Threads are daemons: a finished program is not kept alive by its server.
Called by: the gRPC transport (grpcio's executor), peers in one process.  Threads: any.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

_Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class GrowingPool(Executor):
    """An Executor without a limit on threads."""

    def __init__(self, name: str, idle_s: float = 30.0) -> None:
        self._name = name
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Job | None]] = []
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` on a thread at once.

        Raises RuntimeError after `shutdown`, and when the system has no thread left to give.
        """
        future: Future[Any] = Future()
        job = (future, fn, args, kwargs)
        with self._lock:
            if self._closed:
                raise RuntimeError(f"pool {self._name!r} has been shut down")
            inbox = self._idle.pop() if self._idle else None
            if inbox is None:
                inbox = queue.SimpleQueue()
                thread = threading.Thread(
                    target=self._work, args=(inbox,), name=self._name, daemon=True
                )
                inbox.put(job)
                thread.start()
                self._threads.add(thread)
                return future
        inbox.put(job)
        return future

    def _work(self, inbox: queue.SimpleQueue[_Job | None]) -> None:
        try:
            while True:
                job = self._next(inbox)
                if job is None:
                    return
                future, fn, args, kwargs = job
                if future.set_running_or_notify_cancel():
                    try:
                        future.set_result(fn(*args, **kwargs))
                    except BaseException as error:
                        future.set_exception(error)
                del job, future, fn, args, kwargs
                with self._lock:
                    if self._closed:
                        return
                    self._idle.append(inbox)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _next(self, inbox: queue.SimpleQueue[_Job | None]) -> _Job | None:
        try:
            return inbox.get(timeout=self._idle_s)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
        return inbox.get()  # a job was handed over as the time ran out

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; end idle threads; with `wait`, join the others too."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            threads = list(self._threads)
        for inbox in idle:
            inbox.put(None)
        if wait:
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join()

    @property
    def size(self) -> int:
        """Threads alive."""
        return len(self._threads)
