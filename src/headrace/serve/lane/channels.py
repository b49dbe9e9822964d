"""The lane's step channels, see serve.rpc.step_channel.

A channel takes no more than the system holds for a reader that does not read, until it hears what has been taken, which
every value says that comes back: small values, and those that lie in memory that both sides share.  Everything else is
pushed, over connections that are always being read.  So two tasks that send each other large values never wait for each
other.
Called by: serve.lane.client, serve.lane.served (the two kinds of LaneChannel).  Threads: a channel is the step's own
thread's.
"""

from __future__ import annotations

from collections import deque

from headrace.base import errors
from headrace.codec.frames import Frame, Kind, pack, whole
from headrace.run.state.variable import Lease
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import NUMBERS
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.brief import decode_sent, encode_sent
from headrace.serve.rpc.methods import SEND_TENSOR
from headrace.serve.rpc.step_channel import ChannelCall, Deliver

_SEND_TENSOR = NUMBERS[SEND_TENSOR.path]
_LARGEST = 1 << 15  # bytes of a value
_ROOM = (
    48 << 10
)  # bytes of one side that may be on the way: a TCP connection takes so much without being read
_OVERHEAD = 512  # what the system needs for a message beside its bytes
# What a message with a value that is lent needs beside its header: more than one of 254 dimensions does.
_LENT = 4 << 10


class LaneChannel:
    """One end of a connection during one call: a `StepChannel`."""

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

    def receive(self) -> None:
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
            # What is lent must be sent: only that has it given back.
            lent = self._socket.lend(value) if len(header) + _LENT < self._left else None
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


class CallersChannel(LaneChannel):
    """The caller's end of a channel."""

    __slots__ = ("_call",)

    def __init__(self, call: ChannelCall, socket: LaneSocket) -> None:
        super().__init__(socket)
        self._call = call

    @property
    def over(self) -> bool:
        """See `LaneChannel`."""
        return self._call.done

    def receive(self) -> None:
        """See `LaneChannel`."""
        self._call.receive()
