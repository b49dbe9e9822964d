"""The lane, client side: a call under way, whose reply is read by whoever waits for it.

Called by: serve.lane.client.  Threads: any; one at a time reads.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.run.pending import WaitInfo
from headrace.run.scope import Scope
from headrace.serve.lane.channels import CallersChannel
from headrace.serve.lane.connection import Connection
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.wire import CODECS
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.status import as_op_error, from_bytes
from headrace.serve.rpc.step_channel import ChannelCall
from headrace.serve.rpc.waiting import passed_deadline

if TYPE_CHECKING:
    from headrace.serve.lane.client import LanePeer


def result_of(frame: Frame, method: Method) -> Any:
    """The reply in a frame.  Raises the error in it, and OpError for what is no reply."""
    if frame.kind is Kind.ERROR:
        raise from_bytes(frame.header)
    return CODECS[method].decode_reply(frame.header, frame.values)


_SENDING, _HUNG_UP, _NOBODY, _WATCHED, _IN_PERSON, _OVER = range(6)


class Call(ChannelCall):
    """A call under way, read by the event loop, or by the thread that waits for it.

    While its request is being sent nobody reads: whoever sends finds out that the other side has hung up.
    """

    __slots__ = (
        "_connection",
        "_early",
        "_channel",
        "_method",
        "_peer",
        "_reader",
        "_scope",
        "_turn",
        "_unregister",
        "told",
    )

    def __init__(
        self, peer: LanePeer, connection: Connection, method: Method, scope: Scope
    ) -> None:
        super().__init__(WaitInfo(method.name, peer.name))
        self._peer = peer
        self._connection = connection
        self._method = method
        self._scope = scope
        self._turn = threading.Lock()
        self._reader = _SENDING
        self._channel: CallersChannel | None = None
        self._early: list[Frame] = []  # values that came before there was a channel
        self._unregister: Any = None
        self.told: pb.GiveUpRequest | None = None  # what went ahead of the request

    def begin(self, watched: bool) -> None:
        """The request has been sent.  The scope's end ends the call; a deadline is the server's to keep."""
        scope = self._scope

        def ended() -> None:
            if not passed_deadline(scope):
                self.abandon(scope.error or errors.cancelled("the call was cancelled"))

        with self._turn:
            hung_up = self._reader == _HUNG_UP
            self._reader = _NOBODY
        self._unregister = scope.on_cancel(ended)
        if watched:
            self.watch()
        elif hung_up:
            event_loop().arm(self._connection.socket, wants_input=False)

    def channel(self) -> CallersChannel:
        """See `ChannelCall`."""
        channel = CallersChannel(self, self._connection.socket)
        with self._turn:
            if self._reader == _NOBODY:
                self._reader = _IN_PERSON
            early, self._early, self._channel = self._early, [], channel
        for frame in early:
            channel.take(frame)
        return channel

    def passed(self, frame: Frame) -> None:
        """A value has come before the reply."""
        if self._channel is None:
            self._early.append(frame)
        else:
            self._channel.take(frame)

    def leave(self) -> None:
        """See `ChannelCall`."""
        with self._turn:
            if self._reader != _IN_PERSON:
                return
            self._reader = _NOBODY
        event_loop().arm(self._connection.socket, wants_input=False)

    def receive(self) -> None:
        """See `ChannelCall`."""
        connection = self._connection
        try:
            frame = connection.socket.read_available()
            while frame is not None and frame.kind is Kind.ONE_WAY:
                self.passed(frame)
                frame = connection.socket.read_ahead()
        except (OSError, EOFError) as failure:
            self._broke(self._peer.broken(connection, self._method, self._scope, failure))
        except errors.OpError as error:
            self._broke(error)
        else:
            if frame is not None:
                self._take(frame)

    def watch(self) -> None:
        """See `Pending.watch`."""
        with self._turn:
            if self._reader != _NOBODY:
                return
            self._reader = _WATCHED
        event_loop().arm(self._connection.socket, wants_input=True)

    def wait(self, scope: Scope) -> Any:
        """See `Pending.wait`.  Reads the reply itself, unless another thread is at it."""
        with self._turn:
            was_watched = self._reader == _WATCHED
            mine = was_watched or self._reader == _NOBODY
            if mine:
                self._reader = _IN_PERSON
        if not mine:
            return super().wait(scope)
        connection = self._connection
        if was_watched:
            event_loop().arm(connection.socket, wants_input=False)
        connection.scope = scope
        scope.attach(connection, connection.follow)
        frame: Frame | None = None
        try:
            frame = connection.wait_on(scope, None, 0.0)
        except (OSError, EOFError) as failure:
            self._broke(self._peer.broken(connection, self._method, scope, failure))
        except errors.OpError as error:
            connection.take_back(scope, 0.0)
            self._broke(error)
        except BaseException:
            connection.take_back(scope, 0.0)
            self._broke(errors.cancelled("interrupted"))
            raise
        finally:  # before anybody else may have the connection
            if not scope.detach(connection):
                connection.withdrawn = True
            connection.scope = None
        if frame is not None:
            self._take(frame)
        return super().wait(scope)  # for who gives it up meanwhile, and has yet to say why

    def event(self) -> None:
        """The event loop's: there is something to read, or the other side has gone."""
        broken: errors.OpError | None = None
        frame: Frame | None = None
        with self._turn:
            if self._reader == _SENDING:
                self._reader = _HUNG_UP
            if self._reader not in (_NOBODY, _WATCHED):
                return
            watched = self._reader == _WATCHED
            try:
                frame = self._connection.socket.read_available()
                while frame is not None and frame.kind is Kind.ONE_WAY:
                    self.passed(frame)
                    frame = self._connection.socket.read_available()
            except (OSError, EOFError) as failure:
                broken = self._peer.broken(self._connection, self._method, self._scope, failure)
            except errors.OpError as error:
                broken = errors.detached(error)
            event_loop().arm(
                self._connection.socket, wants_input=watched and frame is None and broken is None
            )
            if frame is None and broken is None:
                return
            self._reader = _OVER
        if broken is not None:
            self._broke(broken)
        elif frame is not None:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        """The reply has come."""
        self._end()
        self._connection.told.clear()
        if self.told is not None:
            self._peer.heard(self.told)
        self._peer.after(frame, self._connection)
        try:
            value = result_of(frame, self._method)
        except Exception as error:  # the other side's, or a reply that cannot be understood
            self.failed(as_op_error(error, self._method.name))
        else:
            self.replied(value)

    def _broke(self, error: errors.OpError) -> None:
        self._end()
        if not self.done:
            self._peer.gave_up(self._connection, self._method)
        self._peer.drop(self._connection)
        self.failed(error)

    def _end(self) -> None:
        with self._turn:
            self._reader = _OVER
        if self._unregister is not None:
            self._unregister()

    def give_up(self) -> None:
        """See `PeerCall`.  The server is told; whoever reads finds out when it has ended the call."""
        with self._turn:  # so that a connection is not withdrawn that another call has got
            if self._reader != _OVER:
                self._peer.gave_up(self._connection, self._method)
                self._connection.withdraw()
