"""The lane, client side: one connection of a peer, idle or with one call.

Called by: serve.lane.client.  Threads: any; one at a time reads.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from headrace.base import errors
from headrace.codec.frames import Frame, Kind
from headrace.run import long_waits
from headrace.run.scope import Scope, sleep_limit
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.transport import Told
from headrace.serve.rpc.waiting import passed_deadline

if TYPE_CHECKING:
    from headrace.serve.lane.call import Call
    from headrace.serve.lane.client import LanePeer

_CONFIRM_WITHIN_S = 0.08  # for the server to end a call that was given up
_CONFIRM_LATE_S = 0.01  # the same after the deadline: it has ended it by itself, if it lives
_AN_INSTANT_S = 0.001  # no time at all would be for ever

_REPLY, _ONE_WAY = Kind.REPLY, Kind.ONE_WAY  # found sooner than in the enum


class Connection:
    """A connection: idle, or with one call.  `error`: why it was shut, if the server does not live."""

    __slots__ = (
        "_peer",
        "call",
        "error",
        "gone",
        "idle_since",
        "scope",
        "socket",
        "told",
        "withdrawn",
    )

    def __init__(self, peer: LanePeer, lane: LaneSocket) -> None:
        """gone: the other side has closed it.  withdrawn: this side has begun to, and it takes no more calls.

        scope: of the call that reads its reply itself.
        """
        self._peer = peer
        self.gone = False
        self.withdrawn = False
        self.told: Told = {}
        self.socket = lane
        self.call: Call | None = None
        self.scope: Scope | None = None
        self.error: errors.OpError | None = None
        self.idle_since = 0.0
        event_loop().add(lane, self._event)

    @property
    def start(self) -> int:
        """Of the server, that it leads to."""
        return self._peer.lane.server

    def wait_on(self, scope: Scope, frame: Frame | None, patience_s: float | None = None) -> Frame:
        """Read the reply in this thread.

        frame: what has come so far.  patience_s: past the deadline, for the other side to say more; None: the usual.
        Raises the scope's error, DeadlineExceeded, EOFError, OSError; then the connection is dropped.
        """
        lane = self.socket
        poll_s, since = long_waits.first_poll_s, 0.0
        if patience_s is None:
            patience_s = LIMITS.call_patience_s
        elif frame is None:
            frame = lane.read(read_limit(scope, poll_s, patience_s))
        while frame is None or frame.kind is _ONE_WAY:
            if frame is not None:
                self.passed(frame)
                frame = lane.read(read_limit(scope, poll_s, patience_s))
                continue
            since = since or time.monotonic()
            poll_s = long_waits.tell(scope, since, poll_s)
            remaining = scope.remaining()
            if remaining is None or not passed_deadline(scope):
                scope.check()
            elif time.monotonic() >= (scope.deadline or 0.0) + patience_s:
                raise scope.deadline_error(f"an answer of {self._peer.name}")
            frame = lane.read(read_limit(scope, poll_s, patience_s))
        return frame

    def passed(self, frame: Frame) -> None:
        """A value has come before the reply."""
        if self.call is not None:
            self.call.passed(frame)

    def last_word(self) -> Frame | None:
        """Why the other side has closed the connection, if it says so."""
        with contextlib.suppress(OSError, EOFError, errors.OpError):
            frame = self.socket.read_available()
            if frame is not None and frame.kind is Kind.ERROR:
                return frame
        return None

    def _event(self, hung_up: bool) -> None:
        """The event loop's."""
        call = self.call
        if call is not None:
            call.event()
        elif hung_up and self.socket.hung_up():
            self.gone = True
            self._peer.forget(self)

    def lost(self, error: errors.OpError) -> None:
        """The server does not live: whoever reads or writes finds out at once."""
        self.error = error
        self.socket.shut()

    def withdraw(self) -> None:
        """Have the server end the call; who reads finds out when it has, or soon after."""
        self.withdrawn = True
        self.socket.half_close()
        event_loop().later(_CONFIRM_WITHIN_S, self.socket.shut)

    def take_back(self, scope: Scope, patience_s: float | None = None) -> None:
        """As `withdraw`, for the thread that reads; returns when the server has ended the call, or soon."""
        self.withdraw()
        until = time.monotonic() + _CONFIRM_WITHIN_S
        if scope.deadline is not None:
            late_s = (
                LIMITS.call_patience_s if patience_s is None else patience_s
            ) + _CONFIRM_LATE_S
            until = min(until, scope.deadline + late_s)
        with contextlib.suppress(OSError, EOFError, errors.OpError):
            while (left := until - time.monotonic()) > 0:
                self.socket.read(left)

    def follow(self) -> None:
        """As `withdraw`, if the call's scope was cancelled; its deadline is the server's to keep."""
        scope = self.scope
        if scope is not None and scope.cancelled and not passed_deadline(scope):
            self.withdraw()

    def close(self) -> None:
        """Give it back to the system; nobody may be reading."""
        event_loop().remove(self.socket)
        self.socket.close()


def read_limit(scope: Scope, poll_s: float = 0.0, patience_s: float | None = None) -> float:
    """How long one read may take: to the deadline and a little longer, or the main thread's nap, or
    until the wait is a long one.

    poll_s: when that is; 0: as long as for any that begins.
    """
    limit_s = (poll_s or long_waits.first_poll_s) + LIMITS.call_patience_s
    if scope.deadline is not None:
        late_s = LIMITS.call_patience_s if patience_s is None else patience_s
        limit_s = min(limit_s, max(_AN_INSTANT_S, scope.deadline + late_s - time.monotonic()))
    return sleep_limit(limit_s) or limit_s
