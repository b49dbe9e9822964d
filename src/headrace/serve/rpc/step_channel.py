"""Step channels: values of a step pass over the very connection on which its master asked for a partition.

Whoever runs a partition reads that connection itself while it waits, so no other thread is woken, and what it sends
leaves with its reply.  A channel need not take every value: what it does not take is sent by itself.
Called by: serve.master.step and serve.worker.worker (make StepChannels), serve.worker.remote_rendezvous (sends),
run.program (waits), the transports (the channels).  Threads: a channel is the step's own thread's; `wake` is any's.
"""

from __future__ import annotations

import os
import queue
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from headrace.serve.rpc import messages as m
from headrace.serve.rpc.peer_call import PeerCall

Deliver = Callable[[m.SendTensorRequest], object]


class StepChannel(Protocol):
    """One end of a connection during one call."""

    @property
    def over(self) -> bool:
        """Whether the call has ended: nothing more passes."""

    def deliver_to(self, deliver: Deliver) -> None:
        """Who takes what comes, and what has come."""

    def send(self, request: m.SendTensorRequest, hold: bool) -> bool:
        """Send a value if it fits; False if not.

        hold: with what is sent next.  Raises OSError.
        """

    def flush(self) -> None:
        """Send what is held.  Raises OSError."""

    def receive(self) -> None:
        """Take what has come.  Something has, or the other side has gone; then the step is cancelled."""

    def fileno(self) -> int:
        """What says that there is something to receive; -1 if what comes is delivered by itself."""


class ChannelCall(PeerCall):
    """A call of RunPart whose connection can be a step channel."""

    __slots__ = ()

    def channel(self) -> StepChannel:
        """The caller's end.  From now on this thread reads, until `leave`."""
        raise NotImplementedError

    def receive(self) -> None:
        """Take the values that have come, and the reply; for the thread that has the channel."""
        raise NotImplementedError

    def leave(self) -> None:
        """Others may read again."""
        raise NotImplementedError


class Caller(Protocol):
    """What a handler that `takes_caller` is told of whoever called, beside the request.

    lends: values of the reply may be leases: it is made into bytes, or the caller releases them.
    channels: those of the step, if it is the caller's own part of it.
    """

    lends: bool
    channels: StepChannels | None

    def channel(self) -> StepChannel | None:
        """This end, for the call that begins, if values can pass beside it."""


class PlainCaller:
    """A caller to whom no values pass beside the reply."""

    __slots__ = ("channels", "lends")

    def __init__(self, lends: bool, channels: StepChannels | None = None) -> None:
        self.lends = lends
        self.channels = channels

    def channel(self) -> StepChannel | None:
        """See `Caller`."""
        return None


PLAIN = PlainCaller(False)
"""Any caller of this process."""

LENDS = PlainCaller(True)
"""Any caller over a transport without channels whose replies are made into bytes."""

Handler = TypeVar("Handler", bound=Callable[..., Any])


def takes_caller(handler: Handler) -> Handler:
    """Decorator: the handler takes a `Caller` beside request and scope; `PLAIN` if there is none."""
    handler.takes_caller = True  # type: ignore[attr-defined]
    return handler


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


class StepChannels:
    """The channels of a step on one task, by the task at the other end.

    holds: what is sent may wait for what is sent next, or for `flush`.
    """

    def __init__(self, channels: Mapping[str, StepChannel]) -> None:
        self._by_task = channels
        self._lock = threading.Lock()
        self._sleeping = False
        self._waker = -1
        self._poll: select.poll | None = None  # of the open ones
        self._open: dict[int, StepChannel] = {}  # by descriptor
        self._held = False  # whether anything may be
        self.holds = False

    def deliver_to(self, deliver: Deliver) -> None:
        """Who takes what comes, and what has come."""
        for channel in self._by_task.values():
            channel.deliver_to(deliver)

    def send(self, task: str, request: m.SendTensorRequest) -> bool:
        """Send a value if there is a channel to its task that takes it."""
        channel = self._by_task.get(task)
        self._held = self._held or self.holds
        try:
            return channel is not None and channel.send(request, self.holds)
        except OSError:  # whoever reads finds out, and says more
            return True

    def flush(self) -> None:
        """Send what is held."""
        if not self._held:
            return
        self._held = False
        for channel in self._by_task.values():
            try:
                channel.flush()
            except OSError:  # as above
                continue

    def get(self, done: queue.SimpleQueue[int], timeout_s: float | None) -> int:
        """The next of `done`; while there is none, what comes over the channels is taken.

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
        """Wait until something comes over a channel, or `wake`."""
        poll = self._poll or self._begin_to_poll()
        for fd, channel in [*self._open.items()]:
            if channel.over:
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
                self._open[fd].receive()

    def _begin_to_poll(self) -> select.poll:
        poll = self._poll = select.poll()
        self._open = {
            channel.fileno(): channel for channel in self._by_task.values() if not channel.over
        }
        self._open.pop(-1, None)
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
