"""The lane, server side: one thread reads all connections whose requests are answered at once, while there are several.

A thread a connection takes the interpreter's lock from another one at each system call.  So when a second connection
asks again and again what is answered at once (`serve.lane.repeated`), both are handed to one thread, which answers what
has come on any of them in one go.  A request of another kind takes its connection back to a thread of its own, and so
does being the last one.
Called by: serve.lane.served.  Threads: any; `_run` is that of the connection which came second.
"""

from __future__ import annotations

import select
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence

from headrace.serve.rpc.limits import LIMITS

STEADY = 16  # requests that are answered at once, one after the other, before a connection may be handed over


class Member(ABC):
    """A connection that may be handed over."""

    @abstractmethod
    def fileno(self) -> int:
        """Its file descriptor."""

    @abstractmethod
    def answer_available(self) -> bool:
        """Answer what has come, without waiting.  False: it has to go on by itself, or has ended.  Does not raise."""

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

    def steadies(self, more: int) -> None:
        """A connection has become steady (1), or is not any more (-1)."""
        with self._lock:
            self._steady += more
            self.several = self._steady > 1 and sys.platform == "linux"

    def take(self, member: Member) -> None:
        """Have a steady connection.  Returns at once, or when it and all that came later have left."""
        with self._lock:
            running, epoll = self._epoll is not None, self._epoll or select.epoll()
            self._epoll = epoll
            self._members[member.fileno()] = member
            epoll.register(member.fileno(), select.EPOLLIN)
        if not running:
            self._run(epoll)

    def _run(self, epoll: select.epoll) -> None:
        members = self._members
        left: Sequence[Member] | None = None
        while left is None:
            ready = epoll.poll(LIMITS.multiplexed_idle_s)
            for fd, _ in ready:
                member = members[fd]
                if not member.answer_available():
                    with self._lock:
                        self._forget(fd)
                    member.go_on()
            if not ready or len(members) < 2:
                left = self._end(idle=not ready)
        for member in left:
            member.go_on() if ready else member.rest()

    def _forget(self, fd: int) -> None:
        """The lock is held."""
        assert self._epoll is not None
        self._epoll.unregister(fd)
        del self._members[fd]
        self._steady -= 1
        self.several = self._steady > 1

    def _end(self, idle: bool) -> Sequence[Member] | None:
        """Let go of the members there are.  None: another has come, so it goes on."""
        with self._lock:
            if len(self._members) > 1 and not idle:
                return None
            left = list(self._members.values())
            for fd in list(self._members):
                self._forget(fd)
            assert self._epoll is not None
            self._epoll.close()
            self._epoll = None
        return left
