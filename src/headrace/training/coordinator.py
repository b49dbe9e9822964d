"""Coordinator: several threads that stop together, and the error that made them.

Any thread may ask for the stop; the first error reported is raised by `join`.  The coordinator
starts no work of its own.
Called by: queue runners, supervisors, programs.  Threads: any; one lock, never held while waiting.
Source: TF 1.15 python/training/coordinator.py, for behaviour
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from headrace.base import errors
from headrace.run.scope import sleep_limit, wait_until_set

__all__ = ["Coordinator", "LooperThread"]

log = logging.getLogger("headrace")

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]


class Coordinator:
    """Asks threads to stop and waits for them."""

    def __init__(
        self, clean_stop_exception_types: tuple[type[BaseException], ...] | None = None
    ) -> None:
        """Errors of `clean_stop_exception_types` (OutOfRangeError) end the work without failing it."""
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (errors.OutOfRangeError,)
        self._clean = tuple(clean_stop_exception_types)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._joined = False
        self._registered: set[threading.Thread] = set()
        self._wakers: set[threading.Event] = set()

    # -- stopping -----------------------------------------------------------------------------

    def request_stop(self, ex: BaseException | ExcInfo | None = None) -> None:
        """Ask all threads to stop; `ex`, an exception or a `sys.exc_info()`, is why.

        The first error counts and is raised by `join`; after `join` it is raised here instead.
        """
        failure = self._failure_of(ex)
        with self._lock:
            if not self._joined:
                if not self._stop.is_set():
                    self._failure = failure
                    self._stop.set()
                    for waker in self._wakers:
                        waker.set()
                    if failure is not None:
                        log.info("error reported to the coordinator: %s", failure)
                return
        if failure is not None:
            raise failure

    def _failure_of(self, ex: BaseException | ExcInfo | None) -> BaseException | None:
        if ex is None:
            return None
        failure: Any = ex
        if isinstance(ex, tuple):
            if len(ex) != 3 or not isinstance(ex[1], BaseException):
                raise ValueError(f"ex must be an exception or a sys.exc_info() triple, not {ex!r}")
            failure = ex[1] if ex[2] is None else ex[1].with_traceback(ex[2])
        if not isinstance(failure, BaseException):
            raise TypeError(f"ex must be an exception or a sys.exc_info() triple, not {ex!r}")
        return None if isinstance(failure, self._clean) else failure

    def clear_stop(self) -> None:
        """Forget the stop and its error, so that the coordinator can serve again."""
        with self._lock:
            self._joined = False
            self._failure = None
            self._stop.clear()

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    def _unless_stopped(self, act: Callable[[], int]) -> int:
        """What `act` gives, with nobody asking for a stop meanwhile; 0 without calling it after a stop."""
        with self._lock:
            return 0 if self._stop.is_set() else act()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Block until a stop is asked for, or `timeout` seconds; returns `should_stop()`."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Inside the block, any exception becomes a `request_stop` with it."""
        try:
            yield
        except BaseException:  # Ctrl-C too: join raises it in the thread that waits there
            info = sys.exc_info()
            assert info[0] is not None
            assert info[1] is not None
            self.request_stop((info[0], info[1], info[2]))

    # -- joining ------------------------------------------------------------------------------

    def register_thread(self, thread: threading.Thread) -> None:
        """`join` waits for this one too."""
        with self._lock:
            self._registered.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until all threads, given and registered ones, have ended.

        Once a stop was asked for they have `stop_grace_period_secs` left.  Raises the error given to
        `request_stop`; else RuntimeError if threads are still running, unless `ignore_live_threads`.
        Threads that were never started count as ended.
        """
        with self._lock:
            waiting = self._registered.union(() if threads is None else threads)
        self._until_ended_or_stopped(waiting)
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            while thread.is_alive() and (left := deadline - time.monotonic()) > 0:
                thread.join(sleep_limit(left))
        stragglers = sorted(thread.name for thread in waiting if thread.is_alive())
        with self._lock:
            self._joined = True
            self._registered = set()
            failure = self._failure
        if failure is not None:
            raise failure
        if stragglers:
            text = f"Coordinator stopped with threads still running: {', '.join(stragglers)}"
            if not ignore_live_threads:
                raise RuntimeError(text)
            log.info(text)

    def _until_ended_or_stopped(self, threads: set[threading.Thread]) -> None:
        """Wait for the last of `threads` to end or for a stop, whichever is first."""
        if self._stop.is_set() or not any(thread.is_alive() for thread in threads):
            return
        woken = threading.Event()
        with self._lock:
            self._wakers.add(woken)
            if self._stop.is_set():
                woken.set()
        # A thread's end cannot be waited for together with an event, so a thread waits for each.
        # It outlives this call only while threads that were asked to stop go on.
        threading.Thread(
            target=_wake_after, args=(threads, woken), name="Coordinator-join", daemon=True
        ).start()
        try:
            wait_until_set(woken)
        finally:
            with self._lock:
                self._wakers.discard(woken)

    @property
    def joined(self) -> bool:
        """Whether `join` has ended, and no `clear_stop` came since."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raise the error given to `request_stop`, if there was one."""
        with self._lock:
            failure = self._failure
        if failure is not None:
            raise failure


def _wake_after(threads: set[threading.Thread], woken: threading.Event) -> None:
    for thread in threads:
        if thread.is_alive():
            thread.join()
    woken.set()


class LooperThread(threading.Thread):
    """A daemon thread that calls `run_loop` again and again until its coordinator stops."""

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object] | None = None,
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        """Calls every `timer_interval_secs`, or without a pause when that is None.

        `target(*args, **kwargs)` is what the default `run_loop` calls.  Raises ValueError.
        """
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord!r} is none")
        super().__init__()
        self.daemon = True
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        if target is None and (args is not None or kwargs is not None):
            raise ValueError("args and kwargs are of use only with a target")
        self._loop_target = target
        self._loop_args = tuple(args or ())
        self._loop_kwargs = dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., object],
        args: Iterable[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> LooperThread:
        """Make and start one."""
        looper = LooperThread(coord, timer_interval_secs, target=target, args=args, kwargs=kwargs)
        looper.start()
        return looper

    def run(self) -> None:
        """Loop until the coordinator stops; an exception stops it."""
        with self._coord.stop_on_exception():
            self.start_loop()
            interval = self._timer_interval_secs
            if interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                due = time.monotonic()
                while not self._coord.wait_for_stop(max(0.0, due - time.monotonic())):
                    due += interval
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once before the first `run_loop`."""

    def stop_loop(self) -> None:
        """Called once after the last `run_loop`."""

    def run_loop(self) -> None:
        """One round; override it or give a target."""
        if self._loop_target is not None:
            self._loop_target(*self._loop_args, **self._loop_kwargs)
