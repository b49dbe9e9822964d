"""Worker pool: threads that share one large operation.

`parallel_for(function, parts)` calls `function` for every part, on the calling thread and on those of the pool that are
free, and returns when all are done.  What the parts are must not depend on the pool, so that results do not either.
NumPy lets go of the interpreter's lock in loops over large arrays, so parts of some 100 µs and more run side by side.

OpenBLAS has threads of its own for a large product, which spin for a while after it and keep other tasks of the host
from their work.  So the first large product of a step (`hold_blas`) has BLAS use one thread a call until the step ends,
or waits (`let_blas_go`); a step without one leaves BLAS alone.

Where other programs keep the processors busy, a helper that has taken a part may be kept from running, and the product
waits for it.  A worker pool whose helpers were late makes the next products on the calling thread alone, the more of
them the more often that happens.

A task (or local session) has a worker pool; its threads are started by the first operation that has parts to share, and
end with `close`, or when nobody holds the pool any more.  A step makes its task's worker pool the current one of its
thread for as long as it runs; where there is none, in a worker's own thread too, parts run one after the other.
Called by: ops (kernels of large operations), run.exec.program.  Threads: any; a worker pool serves any number of steps
at once.
"""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from headrace.run.exec import blas
from headrace.run.exec.callback_threads import CallbackThreads
from headrace.run.exec.float_warnings import BUFFER
from headrace.run.exec.processors import processors
from headrace.run.uninterrupted import changes


class Helped(Protocol):
    """What a thread of the pool may work at."""

    def help(self) -> None:
        """Work as long as there is something to do.  Raises nothing."""


_Inbox = queue.SimpleQueue[Helped | None]
_PATIENCE_S = 0.0002  # helpers of a small product may come so late
_FIRST_PAUSE, _LONGEST_PAUSE = 8, 256  # products

clock = time.perf_counter


class _Job:
    """Parts of one operation; `help` is what a thread does for it."""

    __slots__ = ("_done", "_error", "_function", "_helping", "_lock", "_over", "_parts")

    def __init__(self, function: Callable[[Any], object], parts: Iterator[Any]) -> None:
        """parts: an iterator whose `next` may be called by several threads, such as a list's."""
        self._function = function
        self._parts = parts
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._helping = 0
        self._over = False
        self._error: BaseException | None = None

    def help(self) -> None:
        """Work until no part is left; nothing if the job is over."""
        with self._lock:
            if self._over:
                return
            self._helping += 1
        self._work()
        with self._lock:
            self._helping -= 1
            if self._over and not self._helping:
                self._done.release()

    def lead(self) -> bool:
        """Work until no part is left, then wait for the helpers; whether that took longer than the work.

        Raises the first failure.
        """
        began = clock()
        self._work()
        with self._lock:
            self._over = True
            wait = self._helping > 0
        late = False
        if wait:
            worked = clock()
            self._done.acquire()
            late = clock() - worked > max(worked - began, _PATIENCE_S)
        failure, self._error = self._error, None
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # whose traceback holds this frame
        return late

    def _work(self) -> None:
        try:
            for part in self._parts:
                self._function(part)
                if self._error is not None:
                    return
        except BaseException as error:  # of a thread: raised where the operation was called
            with self._lock:
                if self._error is None:
                    self._error = error


def _serve(inbox: _Inbox) -> None:
    """A pool's thread."""
    with np.errstate(all="ignore"):
        np.setbufsize(BUFFER)
        while True:
            job = inbox.get()
            if job is None:
                return
            job.help()
            del job


def _end(inbox: _Inbox, threads: list[threading.Thread]) -> None:
    for _ in threads:
        inbox.put(None)


class WorkerPool:
    """See the module header."""

    def __init__(self, size: int = 0) -> None:
        """size: threads at work at once, the calling one included; 0 for as many as there are processors.

        A number that is given holds for the threads of BLAS too, while the pool is the current one.
        """
        self.size = size if size > 0 else processors()
        self._limited = size > 0
        self._pause = 0  # products that are not shared after one whose helpers were late
        self._alone = 0  # how many of those are left
        self._lock = threading.Lock()
        self._inbox: _Inbox = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.callbacks = CallbackThreads()
        """Threads for users' functions; they end with the pool's."""
        weakref.finalize(self, _end, self._inbox, self._threads)

    def parallel_for(
        self, function: Callable[[Any], object], parts: Iterable[Any], products: bool = False
    ) -> None:
        """Call `function` for every part.  Raises the first failure, when no call is under way any more.

        products: parts multiply matrices; BLAS uses one thread a call meanwhile, or as long as `hold_blas` says.
        """
        if products and not hold_blas():
            with blas.threads(1):
                self._parallel_for(function, parts, products)
        else:
            self._parallel_for(function, parts, products)

    def _parallel_for(
        self, function: Callable[[Any], object], parts: Iterable[Any], products: bool
    ) -> None:
        listed = list(parts)
        helpers = min(self.size, len(listed)) - 1
        if products and self._alone > 0:
            self._alone -= 1
            helpers = 0
        if helpers <= 0 or not self._ready():
            for part in listed:
                function(part)
            return
        job = _Job(function, iter(listed))
        for _ in range(helpers):
            self._inbox.put(job)
        late = job.lead()
        if products:
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LONGEST_PAUSE) if late else 0
            self._alone = self._pause

    def ask(self, work: Helped) -> bool:
        """Have a thread that is free help with `work`, sooner or later; False if there is none but the caller's."""
        if self.size < 2 or not self._ready():
            return False
        self._inbox.put(work)
        return True

    def _ready(self) -> bool:
        if self._threads:
            return True
        with self._lock:
            if not self._threads and not self._closed:
                for number in range(1, self.size):
                    thread = threading.Thread(
                        target=_serve,
                        args=(self._inbox,),
                        name=f"worker pool/{number}",
                        daemon=True,
                    )
                    try:
                        thread.start()
                    except RuntimeError:  # the system has none left to give; the caller's will do
                        break
                    self._threads.append(thread)
        return bool(self._threads)

    def close(self) -> None:
        """End the threads and wait for them; operations run on the calling thread from now on."""
        with self._lock:
            self._closed = True
            threads, self._threads[:] = list(self._threads), []
        _end(self._inbox, threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()
        self.callbacks.close()

    @property
    def started(self) -> int:
        """Threads that there are beside the calling one."""
        return len(self._threads)

    @changes
    def __enter__(self) -> WorkerPool:
        """Make this the current worker pool of the calling thread."""
        _current.pools.append(self)
        if self._limited:
            limit = blas.threads(self.size)
            _current.limits.append(limit)
            limit.__enter__()
        return self

    @changes
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.pools.pop()
        if self._limited:
            _current.limits.pop().__exit__()
        if _current.held and not _current.pools:
            let_blas_go()


class _Current(threading.local):
    def __init__(self) -> None:
        self.pools: list[WorkerPool] = []
        self.limits: list[blas.threads] = []  # of those pools that were given a size
        self.held = False


_current = _Current()


@changes
def hold_blas() -> bool:
    """Have BLAS use one thread a call, until the step on this thread ends or waits.  False if there is none here."""
    current = _current
    if not current.held:
        if not current.pools:
            return False
        blas.hold()
        current.held = True
    return True


@changes
def let_blas_go() -> None:
    """The step on this thread ends or waits: what `hold_blas` asked for is over."""
    current = _current
    if current.held:
        current.held = False
        blas.let_go()


def size() -> int:
    """Threads of the calling thread's current worker pool, itself included."""
    return _current.pools[-1].size if _current.pools else 1


@changes
class by_itself:
    """Context manager: what is done here is one part of a large operation, and shares nothing in turn."""

    __slots__ = ("_pools",)

    def __enter__(self) -> None:
        self._pools, _current.pools = _current.pools, []

    def __exit__(self, *exc: object) -> None:
        _current.pools = self._pools


def parallel_for(
    function: Callable[[Any], object], parts: Iterable[Any], products: bool = False
) -> None:
    """`WorkerPool.parallel_for` of the calling thread's current worker pool; without one, one part after the other."""
    if _current.pools:
        _current.pools[-1].parallel_for(function, parts, products)
        return
    for part in parts:
        function(part)


def ask(work: Helped) -> bool:
    """`WorkerPool.ask` of the calling thread's current worker pool; False without one."""
    return bool(_current.pools) and _current.pools[-1].ask(work)
