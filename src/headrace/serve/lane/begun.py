"""The lane, client side: a request that was sent, whose reply is read by the thread that sent it.

Lighter than a `Call`: nobody else looks for the reply meanwhile.  For threads that ask many peers at once
(`rpc.gather`).
Called by: serve.lane.client.  Threads: the one that began it; `give_up` from any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.uninterrupted import takes
from headrace.serve.lane.connection import Connection
from headrace.serve.lane.wire import CODECS, Codec
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.status import as_op_error, from_bytes

if TYPE_CHECKING:
    from headrace.serve.lane.client import LanePeer

_REQUEST, _REPLY, _ONE_WAY = Kind.REQUEST, Kind.REPLY, Kind.ONE_WAY  # found sooner than in the enum


class LaneBegun:
    """See the module header, and `rpc.gather.Begun`."""

    __slots__ = (
        "_codec",
        "_connection",
        "_frame",
        "_method",
        "_peer",
        "_told",
        "error",
        "name",
        "over",
        "reply",
    )

    @takes
    def __init__(
        self,
        peer: LanePeer,
        connection: Connection,
        method: Method,
        codec: Codec,
        told: pb.GiveUpRequest | None,
    ) -> None:
        """codec: of the method.  told: what went ahead of the request."""
        self._peer = peer
        self._connection = connection
        self._method = method
        self._codec = codec
        self._told = told
        self._frame: Frame | None = None
        self.name = peer.name
        self.over = False
        self.reply: Any = None
        self.error: errors.OpError | None = None

    def fileno(self) -> int:
        """See `rpc.gather.Begun`."""
        return self._connection.socket.fileno()

    def read(self, limit_s: float, scope: Scope) -> bool:
        """See `rpc.gather.Begun`."""
        socket = self._connection.socket
        try:
            frame = socket.read(limit_s) if limit_s else socket.read_available()
            while frame is not None and frame.kind is _ONE_WAY:  # for nobody
                frame = socket.read_available()
        except (OSError, EOFError) as failure:
            frame = self._connection.last_word()
            if frame is None:
                self.error = self._peer.broken(self._connection, self._method, scope, failure)
        except errors.OpError as error:
            self.error = errors.detached(error)
        if frame is None:
            self.over = self.error is not None
            return self.over
        self.over = True
        self._peer._rpcs.calls.pop(self._connection, None)
        self._frame = frame
        kind, _, _, _, header, values = frame
        try:
            if kind is _REPLY:
                self.reply = self._codec.decode_reply(header, values)
            else:
                self.error = from_bytes(header)
        except Exception as error:  # a reply that cannot be understood
            self.error = as_op_error(error, self._method.name)
        return True

    def give_up(self) -> None:
        """See `rpc.gather.Begun`."""
        self._peer.gave_up(self._connection, self._method)
        self._connection.withdraw()

    def close(self) -> None:
        """See `rpc.gather.Begun`."""
        connection, frame = self._connection, self._frame
        if frame is None or connection.withdrawn:
            self._peer.drop(connection)
            return
        if connection.told:
            connection.told.clear()  # frames are handled in order: it has all arrived
        if self._told is not None:
            self._peer.heard(self._told)
        if frame.kind is _REPLY and not connection.socket.has_shared:
            self._peer.keep(connection, connection.idle_since)
        else:
            self._peer.after(frame, connection)


@takes
def begin(
    peer: LanePeer, method: Method, request: Any, scope: Scope, again: bool = True
) -> LaneBegun | Pending[Any]:
    """Send a request to `peer`; a Pending has failed.

    again: once more, over a new connection, if an idle one proves to have ended before.
    Raises Unreachable.
    """
    connection: Connection | None = None
    told = None
    codec = CODECS[method]
    try:
        if scope.ended_by is not None or scope.deadline is not None:
            scope.check()
        connection = peer._take(scope, fresh=not again)
        if peer._cancelled_calls.any and method.runs_steps:
            told = peer._tell_ahead(connection)
        peer._send(connection, codec, request, scope, _REQUEST)
    except BaseException as failure:
        if connection is not None:
            peer.drop(connection)
            if again and peer._had_ended(connection, scope, failure):
                return begin(peer, method, request, scope, again=False)
            peer.gave_up(connection, method)
            if isinstance(failure, (OSError, EOFError)):
                return Pending.failed_with(peer.broken(connection, method, scope, failure))
        if isinstance(failure, errors.OpError):
            return Pending.failed_with(failure)
        raise
    return LaneBegun(peer, connection, method, codec, told)
