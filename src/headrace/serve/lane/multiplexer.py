"""The lane, server side: one thread reads all connections whose requests need no thread that waits, while there are
several.

A thread a connection takes the interpreter's lock from another one at each system call.  So when a second connection
asks again and again what is answered at once, or when something is there (`serve.lane.repeated`), both are handed to
one thread, which answers what has come on any of them in one go, and then what such answers have made possible: a
dequeue, say, by an enqueue.  A request of another kind takes its connection back to a thread of its own, and so does
one that waits for long, and being the last one.
Called by: serve.lane.served.  Threads: any; `_run` is that of the connection which came second.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any

from headrace.run.pending import Pending
from headrace.serve.rpc.limits import LIMITS

STEADY = 16  # requests of that kind, one after the other, before a connection may be handed over
_NOTHING = None, 0.0

_log = logging.getLogger("headrace")


class Member(ABC):
    """A connection that may be handed over."""

    @abstractmethod
    def fileno(self) -> int:
        """Its file descriptor."""

    @abstractmethod
    def answer_available(self) -> bool:
        """Answer what has come, without waiting.  False: it has to go on by itself, or has ended.  Does not raise."""

    @abstractmethod
    def answer_due(self) -> bool:
        """Answer what has waited, as `answer_available` does."""

    @abstractmethod
    def go_on(self) -> None:
        """Go on by itself, on a thread of its own."""

    @abstractmethod
    def rest(self) -> None:
        """Nothing has come for a while."""


class Multiplexer:
    """See the module header.

    several: whether a connection that is steady is to be handed over.
    """

    def __init__(self) -> None:
        self.several = False
        self._lock = threading.Lock()
        self._steady = 0  # connections, those that were handed over included
        self._members: dict[int, Member] = {}
        self._epoll: select.epoll | None = None  # while a thread waits on it
        self._wake = -1  # an eventfd, by which others than that thread say that something is due
        self._reader = 0  # that thread
        self._waiting: dict[
            Member, tuple[Pending[Any], float]
        ] = {}  # what calls wait for, since when
        self._due: deque[tuple[Member, Pending[Any]]] = deque()  # which is there

    def steadies(self, more: int) -> None:
        """A connection has become steady (1), or is not any more (-1)."""
        with self._lock:
            self._count(more)

    def _count(self, more: int) -> None:
        """The lock is held."""
        self._steady += more
        self.several = self._steady > 1 and sys.platform == "linux"

    def take(self, member: Member) -> None:
        """Have a steady connection.  Returns at once, or when it and all that came later have left.

        Where the system has no file descriptor left, or watches as many as it may, it goes on by itself.
        """
        with self._lock:
            running, fd = self._epoll is not None, member.fileno()
            self._members[fd] = member  # before something comes of it, on the thread that reads
            try:
                epoll = self._epoll or self._opened()
                epoll.register(fd, select.EPOLLIN)
            except OSError:
                if not running:
                    self._close()
                del self._members[fd]
                self._count(-1)
                refused = True
            else:
                refused = False
        if refused:
            member.go_on()
        elif not running:
            try:
                self._run(epoll)
            except Exception:  # nobody would read them any more
                _log.exception("connections of the lane are read by a thread each from now on")
                for each in self._end(idle=True) or ():
                    each.go_on()

    def _opened(self) -> select.epoll:
        """What this thread waits on from now on.  Raises OSError; the lock is held."""
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._reader = threading.get_ident()
        return self._epoll

    def _close(self) -> None:
        """No thread waits; the lock is held."""
        if self._epoll is not None:
            self._epoll.close()
        if self._wake >= 0:
            os.close(self._wake)
        self._epoll, self._wake, self._reader = None, -1, 0

    def wait_for(self, member: Member, pending: Pending[Any]) -> None:
        """A member's call waits for that, says the thread that reads."""
        self._waiting[member] = pending, time.monotonic()
        pending.on_done(lambda done: self._is_due(member, done))

    def _is_due(self, member: Member, pending: Pending[Any]) -> None:
        if threading.get_ident() == self._reader:
            self._due.append((member, pending))
            return
        with self._lock:
            if self._epoll is not None:
                self._due.append((member, pending))
                os.eventfd_write(self._wake, 1)

    def _run(self, epoll: select.epoll) -> None:
        members = self._members
        left: Sequence[Member] | None = None
        while left is None:
            waits = bool(self._waiting)
            ready = epoll.poll(LIMITS.multiplexed_wait_s if waits else LIMITS.multiplexed_idle_s)
            for fd, _ in ready:
                if fd == self._wake:
                    os.eventfd_read(self._wake)
                elif not (member := members[fd]).answer_available():
                    self._let_go(member)
            if self._due:
                self._answer_due()
            if waits:
                self._let_go_of_late()
            if not (ready or waits) or len(members) < 2:
                left = self._end(idle=not (ready or waits))
        for member in left:
            member.go_on() if ready else member.rest()

    def _answer_due(self) -> None:
        """Answer those whose calls need not wait any more, and those that this has made possible."""
        due, waiting = self._due, self._waiting
        while due:
            member, pending = due.popleft()
            waits_for, _ = waiting.get(member, _NOTHING)
            if waits_for is not pending:  # it has gone on since
                continue
            del waiting[member]
            if not member.answer_due():
                self._let_go(member)

    def _let_go_of_late(self) -> None:
        """Let go of those whose calls have waited for long."""
        since = time.monotonic() - LIMITS.multiplexed_wait_s
        late = [member for member, (_, began) in self._waiting.items() if began <= since]
        for member in late:
            self._let_go(member)
        if self._due:  # what was set aside for one that has left
            self._answer_due()

    def _let_go(self, member: Member) -> None:
        """Have a member go on by itself."""
        with self._lock:
            self._forget(member.fileno())
        member.go_on()

    def _forget(self, fd: int) -> None:
        """The lock is held."""
        assert self._epoll is not None
        self._epoll.unregister(fd)
        self._waiting.pop(self._members.pop(fd), None)
        self._count(-1)

    def _end(self, idle: bool) -> Sequence[Member] | None:
        """Let go of the members there are.  None: another has come, so it goes on."""
        with self._lock:
            if len(self._members) > 1 and not idle:
                return None
            left = list(self._members.values())
            for fd in list(self._members):
                self._forget(fd)
            self._close()
            self._due.clear()
        return left
