"""Links: values of a step pass over the very connection on which its master asked for a partition.

Whoever runs a partition reads that connection itself while it waits, so no other thread is woken, and
what it sends leaves with its reply.  A link takes no more than the system holds for a reader that does
not read, until it hears what has been taken, which every value says that comes back: small values, and
those that lie in memory that both sides share.  Everything else is pushed, over connections that are
always being read.  So two tasks that send each other large values never wait for each other.
Called by: serve.master.step and serve.worker.worker (make Links), serve.worker.remote_rendezvous (sends),
run.exec.program (waits), the lane (the two kinds of Link).  Threads: a link is the step's own thread's; `wake` is
any's.
"""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headrace.base import errors
from headrace.codec.frames import Frame, Kind, pack, whole
from headrace.run.pending import Pending
from headrace.run.state.variable import Lease
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import NUMBERS, decode_sent, encode_sent
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.methods import SEND_TENSOR

_SEND_TENSOR = NUMBERS[SEND_TENSOR.path]
_LARGEST = 1 << 15  # bytes of a value
_ROOM = (
    48 << 10
)  # bytes of one side that may be on the way: a TCP connection takes so much without being read
_OVERHEAD = 512  # what the system needs for a message beside its bytes

Deliver = Callable[[m.SendTensorRequest], object]


class Link:
    """One end of a connection during one call."""

    __slots__ = ("_deliver", "_early", "_left", "_sizes", "_socket", "_taken", "_taken_there")

    def __init__(self, socket: LaneSocket) -> None:
        self._socket = socket
        self._left = _ROOM
        self._sizes: deque[int] = deque()  # of what was sent, and may not have been taken yet
        self._taken = 0  # values, here
        self._taken_there = 0
        self._deliver: Deliver | None = None
        self._early: list[m.SendTensorRequest] = []

    def deliver_to(self, deliver: Deliver) -> None:
        """Who takes what comes, and what has come."""
        self._deliver = deliver
        early, self._early = self._early, []
        for request in early:
            deliver(request)

    @property
    def over(self) -> bool:
        """Whether the call has ended: nothing more passes."""
        return False

    def pump(self) -> None:
        """Take what has come.  Something has, or the other side has gone; then the step is cancelled."""
        raise NotImplementedError

    def renew(self) -> None:
        """The connection has another call."""
        self._left = _ROOM
        self._sizes = deque()
        self._taken = self._taken_there = 0
        self._deliver = None
        self._early = []

    def fileno(self) -> int:
        """Of the connection."""
        return self._socket.fileno()

    def send(self, request: m.SendTensorRequest, hold: bool) -> bool:
        """Send a value if it is small, or need not be in the stream; False if not.

        hold: with what is sent next.  Raises OSError.
        """
        value = request.value
        if self.over:
            return False
        request.taken = self._taken
        header, values = encode_sent(request)
        if values and (value.nbytes > _LARGEST or isinstance(value, Lease)):
            lent = self._socket.lend(value)
            if lent is None:
                return False
            values = (lent,)
        data = whole(Kind.ONE_WAY, _SEND_TENSOR, header, values)
        if data is None:
            data = b"".join(pack(Kind.ONE_WAY, _SEND_TENSOR, 0, header, values))
        size = len(data) + _OVERHEAD
        if size > self._left:
            return False
        self._left -= size
        self._sizes.append(size)
        self._socket.hold(data)
        if not hold:
            self._socket.flush()
        return True

    def flush(self) -> None:
        """Send what is held.  Raises OSError."""
        if not self.over:
            self._socket.flush()

    def take(self, frame: Frame) -> None:
        """A frame that is no reply.  Raises InvalidArgument for what is no value."""
        if frame.kind is not Kind.ONE_WAY or frame.method != _SEND_TENSOR:
            raise errors.invalid_argument(
                f"a frame of kind {frame.kind.name} and method {frame.method} came within a step"
            )
        request = decode_sent(frame.header, frame.values)
        self._taken += 1
        if request.taken != self._taken_there:
            self._were_taken(request.taken)
        if self._deliver is None:
            self._early.append(request)
        else:
            self._deliver(request)

    def _were_taken(self, count: int) -> None:
        """The other side has taken so many of the values that were sent, and there is room for others."""
        fresh = count - self._taken_there
        if not 0 < fresh <= len(self._sizes):
            raise errors.invalid_argument(
                f"{count} values of a step are said to have been taken; {self._taken_there} had been, and "
                f"{len(self._sizes)} more were sent"
            )
        self._taken_there = count
        for _ in range(fresh):
            self._left += self._sizes.popleft()


class LinkedCall(Pending[Any]):
    """A call whose connection can be a link."""

    __slots__ = ()

    def link(self) -> Link:
        """The caller's end.  From now on this thread reads, until `leave`."""
        raise NotImplementedError

    def pump(self) -> None:
        """Take the values that have come, and the reply; for the thread that has the link."""
        raise NotImplementedError

    def leave(self) -> None:
        """Others may read again."""
        raise NotImplementedError


class CallersLink(Link):
    """The caller's end of a link."""

    __slots__ = ("_call",)

    def __init__(self, call: LinkedCall, socket: LaneSocket) -> None:
        super().__init__(socket)
        self._call = call

    @property
    def over(self) -> bool:
        """See `Link`."""
        return self._call.done

    def pump(self) -> None:
        """See `Link`."""
        self._call.pump()


class _Waker:
    """An eventfd."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)

    def __del__(self) -> None:
        os.close(self.fd)


_of_thread = threading.local()


def _own_waker() -> int:
    """This thread's, which ends with it."""
    waker: _Waker | None = getattr(_of_thread, "waker", None)
    if waker is None:
        waker = _of_thread.waker = _Waker()
    return waker.fd


class Links:
    """The links of a step on one task, by the task at the other end.

    holds: what is sent may wait for what is sent next, or for `flush`.
    """

    def __init__(self, links: Mapping[str, Link]) -> None:
        self._by_task = links
        self._lock = threading.Lock()
        self._sleeping = False
        self._waker = -1
        self._poll: select.poll | None = None  # of the open ones
        self._open: dict[int, Link] = {}  # by descriptor
        self._held = False  # whether anything may be
        self.holds = False

    def deliver_to(self, deliver: Deliver) -> None:
        """Who takes what comes, and what has come."""
        for link in self._by_task.values():
            link.deliver_to(deliver)

    def send(self, task: str, request: m.SendTensorRequest) -> bool:
        """Send a value if there is a link to its task that takes it."""
        link = self._by_task.get(task)
        self._held = self._held or self.holds
        try:
            return link is not None and link.send(request, self.holds)
        except OSError:  # whoever reads finds out, and says more
            return True

    def flush(self) -> None:
        """Send what is held."""
        if not self._held:
            return
        self._held = False
        for link in self._by_task.values():
            try:
                link.flush()
            except OSError:  # as above
                continue

    def get(self, done: queue.SimpleQueue[int], timeout_s: float | None) -> int:
        """The next of `done`; while there is none, what comes over the links is taken.

        Raises queue.Empty when that takes longer.
        """
        self.flush()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while done.empty():
            left = None if until is None else until - time.monotonic()
            if left is not None and left < 0:
                raise queue.Empty
            self._sleep(done, left)
        return done.get_nowait()

    def _sleep(self, done: queue.SimpleQueue[int], limit_s: float | None) -> None:
        """Wait until something comes over a link, or `wake`."""
        poll = self._poll or self._begin_to_poll()
        for fd, link in [*self._open.items()]:
            if link.over:
                poll.unregister(fd)
                del self._open[fd]
        self._sleeping = True
        try:
            # Who puts something into `done` looks at `_sleeping` afterwards.
            ready = (
                poll.poll(None if limit_s is None else limit_s * 1000 + 1) if done.empty() else []
            )
        finally:
            with self._lock:
                self._sleeping = False
        for fd, _ in ready:
            if fd == self._waker:
                os.eventfd_read(fd)
            else:
                self._open[fd].pump()

    def _begin_to_poll(self) -> select.poll:
        poll = self._poll = select.poll()
        self._open = {link.fileno(): link for link in self._by_task.values() if not link.over}
        self._waker = _own_waker()
        for fd in (*self._open, self._waker):
            poll.register(fd, select.POLLIN)
        return poll

    def wake(self) -> None:
        """Something has been put into `done`."""
        if self._sleeping:
            with self._lock:
                if self._sleeping:
                    os.eventfd_write(self._waker, 1)
