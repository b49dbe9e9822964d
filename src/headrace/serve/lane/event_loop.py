"""Event loop: one thread that knows of every lane connection when it hangs up or has something to read.

A busy connection belongs to the thread that reads or runs its call; the event loop only looks for the
other side going away.  An idle one, or one whose call nobody waits for in person, is watched for
input too.  One event loop a process; its thread ends with the last connection.  Where there is no
epoll there is none, and no lane.
Called by: serve.lane.server, serve.lane.client.  Threads: `add`, `arm` and `remove` from any; the
callbacks run on the event loop's own and must neither block nor raise.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import Protocol

Callback = Callable[[bool], None]
"""callback(hung_up): the other side has gone away, or there is something to read."""

_log = logging.getLogger("headrace")


class HasFd(Protocol):
    """A socket, as far as the event loop is concerned."""

    def fileno(self) -> int:
        """Its file descriptor."""


def available() -> bool:
    """Whether this system has what an event loop needs."""
    return sys.platform == "linux"


if sys.platform == "linux":
    _HANG_UP = select.EPOLLRDHUP | select.EPOLLONESHOT
    _INPUT = select.EPOLLIN | _HANG_UP
    _GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR

    class EventLoop:
        """See the module header.  Every registration fires once and is then armed again or removed."""

        def __init__(self) -> None:
            self._epoll = select.epoll()
            self._lock = threading.Lock()
            self._callbacks: dict[int, Callback] = {}
            self._watching = False
            self._timers: list[tuple[float, int, Callable[[], object]]] = []
            self._count = itertools.count()
            self._wake = os.eventfd(0, os.EFD_NONBLOCK)
            self._epoll.register(self._wake, select.EPOLLIN)

        def add(self, socket: HasFd, callback: Callback, wants_input: bool = False) -> None:
            """Watch a socket for hang-up, and for input if that is wanted."""
            fd = socket.fileno()
            with self._lock:
                self._callbacks[fd] = callback
                if not self._watching:
                    name = "headrace event loop"
                    threading.Thread(target=self._watch, name=name, daemon=True).start()
                    self._watching = True
            self._epoll.register(fd, _INPUT if wants_input else _HANG_UP)

        def arm(self, socket: HasFd, wants_input: bool) -> None:
            """Watch once more.  A socket that is closed or was removed stays unwatched."""
            with contextlib.suppress(OSError, ValueError):
                self._epoll.modify(socket.fileno(), _INPUT if wants_input else _HANG_UP)

        def remove(self, socket: HasFd) -> None:
            """Forget a socket, before it is closed.  An event under way may still come."""
            fd = socket.fileno()
            if fd < 0:
                return
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)
            with self._lock:
                self._callbacks.pop(fd, None)
                if not self._callbacks:
                    os.eventfd_write(self._wake, 1)

        def later(self, delay_s: float, callback: Callable[[], object]) -> None:
            """Call back after a while, if any socket is still watched then."""
            with self._lock:
                when = time.monotonic() + delay_s
                heapq.heappush(self._timers, (when, next(self._count), callback))
            os.eventfd_write(self._wake, 1)

        def _due(self) -> float:
            """Call what is due; seconds until the next, -1 for none."""
            while True:
                with self._lock:
                    if not self._timers:
                        return -1.0
                    left = self._timers[0][0] - time.monotonic()
                    if left > 0:
                        return left
                    callback = heapq.heappop(self._timers)[2]
                try:
                    callback()
                except Exception:  # the connections must not suffer for it
                    _log.exception("a timer's callback failed")

        def _watch(self) -> None:
            while True:
                for fd, events in self._epoll.poll(self._due()):
                    callback = self._callbacks.get(fd)
                    if callback is not None:
                        try:
                            callback(bool(events & _GONE))
                        except Exception:  # the others' connections must not suffer for it
                            _log.exception("a connection's callback failed")
                    elif fd == self._wake and self._is_over():
                        return

        def _is_over(self) -> bool:
            """Whether there is nothing left to watch; then the thread ends."""
            with self._lock:
                os.eventfd_read(self._wake)
                self._watching = bool(self._callbacks)
                if not self._watching:
                    self._timers.clear()
                return not self._watching

else:

    class EventLoop:
        """What the system does not have."""

        def add(self, socket: HasFd, callback: Callback, wants_input: bool = False) -> None:
            """Never called: see `available`."""
            raise NotImplementedError("the lane needs epoll")

        def arm(self, socket: HasFd, wants_input: bool) -> None:
            """Never called."""

        def remove(self, socket: HasFd) -> None:
            """Never called."""

        def later(self, delay_s: float, callback: Callable[[], object]) -> None:
            """Never called."""


_lock = threading.Lock()
_loops: dict[int, EventLoop] = {}


def event_loop() -> EventLoop:
    """The event loop of this process (a fork's child has one of its own)."""
    found = _loops.get(os.getpid())
    if found is None:
        with _lock:
            found = _loops.get(os.getpid())
            if found is None:
                found = EventLoop()
                _loops.clear()
                _loops[os.getpid()] = found
    return found
