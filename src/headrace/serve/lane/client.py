"""The lane, client side: a peer behind framed sockets.

A call takes an idle connection, or makes one.  Whoever waits for the reply reads it, so that no
other thread has to be woken; until somebody waits, the event loop looks for it.  Who gives up a call closes
its half of the connection, which cancels the call there; the other half is closed when that is done.
Called by: serve.connect.routed.  Threads: any.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind, pack, whole
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.lane.begun import begin
from headrace.serve.lane.call import Call, result_of
from headrace.serve.lane.connect import Connector
from headrace.serve.lane.connection import Connection, read_limit
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.socket import NothingSent
from headrace.serve.lane.wire import CODECS, HANDSHAKE, Codec
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.cancelled_calls import CancelledCalls
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import GIVE_UP, Method
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.traffic import Traffic
from headrace.serve.rpc.transport import Outstanding, Told, Unreachable

_CONNECT_WITHIN_S = 5.0
_CONNECT_PATIENCE_S = 0.01  # past the deadline, so that it has passed
_MOST_IDLE = 64
_IDLE_S = 60.0
_MOST_TOLD = 256  # steps of which a connection remembers that they were told something
_POLL_S = 1.0  # between polls of the scope while a large message is being sent
_POLL_AT_DEADLINE_S = 0.05  # the same if the scope has a deadline

_REQUEST, _REPLY, _ONE_WAY = Kind.REQUEST, Kind.REPLY, Kind.ONE_WAY  # found sooner than in the enum


class LanePeer:
    """A service behind a lane address."""

    def __init__(
        self,
        lane: pb.LaneAddress,
        host: str,
        name: str,
        max_message_bytes: int,
        rpcs: Outstanding,
        trusting: Security,
        lost: Callable[[Told], object] = lambda told: None,
        cancelled_calls: CancelledCalls | None = None,
        gave_up: Callable[[int], object] = lambda number: None,
        traffic: Traffic | None = None,
    ) -> None:
        """host: of the server's gRPC address, where its TCP port is too.  rpcs: of the server.

        lost: called, from any thread, with what was told over a connection that has broken since.
        cancelled_calls, traffic: of the server.
        gave_up: called, from any thread, with the number of a call that was given up.
        """
        self.lane = lane
        self._lost = lost
        self.name = name
        self._connector = Connector(lane, host, name, max_message_bytes, rpcs, trusting, traffic)
        self._rpcs = rpcs
        self._cancelled_calls = CancelledCalls() if cancelled_calls is None else cancelled_calls
        self._gave_up = gave_up
        self._idle: list[Connection] = []
        self._asked: tuple[Any, bytes | None] = None, None  # see `call_now`
        self._closed = False
        self._looks_for_memory = False
        self._most_idle = 1  # that nobody has to look after; more while `_reap` will

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
        again: bool = True,
    ) -> Pending[Any]:
        """Send a request; the reply comes later.  Abandoning the result cancels the call.

        watched: whether the event loop is to look for the reply from the beginning.
        again: once more, over a new connection, if an idle one proves to have ended before.

        Raises Unreachable.
        """
        error = scope.error
        if error is not None:
            return Pending.failed_with(error)
        try:
            connection = self._take(scope, fresh=not again)
        except errors.OpError as lost:
            return Pending.failed_with(lost)
        call = Call(self, connection, method, scope)
        connection.call = call
        try:
            if self._cancelled_calls.any and method.runs_steps:
                call.told = self._tell_ahead(connection)
            self._send(connection, CODECS[method], request, scope, Kind.REQUEST)
            if method.lasting:
                self._rpcs.settle(connection)  # it is no wonder that there is no reply
        except BaseException as failure:
            self.drop(connection)
            if again and self._had_ended(connection, scope, failure):
                return self.call(method, request, scope, watched=watched, again=False)
            self.gave_up(connection, method)
            if isinstance(failure, (OSError, EOFError)):
                return Pending.failed_with(self.broken(connection, method, scope, failure))
            raise
        call.begin(watched)
        return call

    begin = begin  # see serve.lane.begun

    def connect_early(self, begun: socket.socket | None = None) -> None:
        """A connection is wanted soon.  begun: one that is there."""
        self._connector.begin(begun)

    def call_now(self, method: Method, request: Any, scope: Scope, again: bool = True) -> Any:
        """Send a request and wait for the reply.  again: see `call`.  Raises Unreachable.

        A step without feeds is the same request, unchanged, again and again: the frame of the last one is kept.
        """
        scope.check()
        connection = self._take(scope, not again)
        socket = connection.socket
        codec = CODECS[method]
        connection.scope = scope
        told = None
        scope.attach(connection, connection.follow)
        try:
            if self._cancelled_calls.any and method.runs_steps:
                told = self._tell_ahead(connection)
            asked, data = self._asked
            if request is asked and data is not None and scope.deadline is None:
                self._book(connection)
                socket.send_whole(data, _POLL_S, scope.check)
            else:
                data = self._send(connection, codec, request, scope, _REQUEST)
                if method.repeats and data is not None and not request.feeds:
                    self._asked = request, data
            frame = socket.read(read_limit(scope))
            if frame is None or frame.kind is _ONE_WAY:
                frame = connection.wait_on(scope, frame)
        except (OSError, EOFError) as failure:
            last = connection.last_word()
            self.drop(connection)
            if last is not None:
                return result_of(last, method)
            if not (again and self._had_ended(connection, scope, failure)):
                self.gave_up(connection, method)
                raise self.broken(connection, method, scope, failure) from failure
            scope.detach(connection)
            return self.call_now(method, request, scope, again=False)
        except BaseException:  # the deadline, Ctrl-C
            self.gave_up(connection, method)
            connection.take_back(scope)
            self.drop(connection)
            raise
        finally:
            if not scope.detach(connection):
                connection.withdrawn = True  # or will be in a moment
            connection.scope = None
        if connection.told:
            connection.told.clear()  # frames are handled in order: it has all arrived
        if told is not None:
            self._cancelled_calls.heard(told)
        kind, _, _, _, header, values = frame
        if kind is not _REPLY:
            self.after(frame, connection)
            return result_of(frame, method)
        if socket.has_shared or connection.withdrawn:
            self.give_back(connection)
        else:
            self._rpcs.calls.pop(connection, None)
            self.keep(connection, connection.idle_since)
        return codec.decode_reply(header, values)

    def tell(
        self, method: Method, request: m.SendTensorRequest, scope: Scope, again: bool = True
    ) -> bool:
        """Send what needs no reply.  Blocks while the other side is behind with reading.

        again: see `call`.  Raises Unreachable, Unavailable.
        """
        connection = self._take(scope, fresh=not again)
        scope.attach(connection, connection.withdraw)
        try:
            self._send(connection, CODECS[method], request, scope, Kind.ONE_WAY)
        except (OSError, EOFError) as failure:
            self.drop(connection)
            if again and self._had_ended(connection, scope, failure):
                return self.tell(method, request, scope, again=False)
            raise self.broken(connection, method, scope, failure) from failure
        except BaseException:
            self.drop(connection)
            raise
        finally:
            if not scope.detach(connection):
                connection.withdrawn = True
        told = connection.told
        told[request.step_id] = request.rendezvous_key
        if len(told) > _MOST_TOLD:
            del told[next(iter(told))]
        self.give_back(connection)
        return True

    def _tell_ahead(self, connection: Connection) -> pb.GiveUpRequest:
        """Have what was given up go ahead of the request that is sent next."""
        told = self._cancelled_calls.request()
        number, encode, *_ = CODECS[GIVE_UP]
        connection.socket.hold(b"".join(pack(_ONE_WAY, number, 0, *encode(told))))
        return told

    def gave_up(self, connection: Connection, method: Method) -> None:
        """Its call may still be under way there, and nobody waits for it any more."""
        if method.runs_steps:
            number = connection.socket.number
            self._cancelled_calls.add(calls=(number,))
            self._gave_up(number)

    def heard(self, told: pb.GiveUpRequest) -> None:
        """The server has answered a request that this went ahead of."""
        self._cancelled_calls.heard(told)

    def _had_ended(self, connection: Connection, scope: Scope, failure: BaseException) -> bool:
        """Whether the connection had ended before it was taken, and not because somebody here shut it."""
        ended = isinstance(failure, NothingSent) and connection.error is None and not scope.error
        if ended:
            self._report(connection)
        return ended

    def _book(self, connection: Connection) -> None:
        """A request is on its way: it is outstanding from now on."""
        connection.idle_since = now = time.monotonic()
        self._rpcs.calls[connection] = now, connection.lost
        if not self._rpcs.observed:
            self._rpcs.observe()

    def _send(
        self, connection: Connection, codec: Codec, request: Any, scope: Scope, kind: Kind
    ) -> bytes | None:
        """The frame that was sent, if that has all of it, and no deadline."""
        socket = connection.socket
        number, encode, _, _, _, in_place = codec
        self._book(connection)
        header, values = encode(request)
        timeout_us, poll_s = 0, _POLL_S
        if scope.deadline is not None:
            timeout_us = max(1, round((scope.remaining() or 0.0) * 1e6))
            poll_s = _POLL_AT_DEADLINE_S
        elif (data := whole(kind, number, header, values)) is not None:
            socket.send_whole(data, poll_s, scope.check)
            return data
        socket.send_frame(kind, number, header, values, timeout_us, poll_s, scope.check, in_place)
        return None

    # -- connections ----------------------------------------------------------------------------

    def _take(self, scope: Scope, fresh: bool = False) -> Connection:
        idle = self._idle
        while idle and not fresh:
            try:
                connection = idle.pop()
            except IndexError:  # another thread was sooner
                break
            if not connection.gone:
                return connection
            self._report(connection)
            connection.close()
        if self._closed:
            raise Unreachable("the peer has been closed")
        lane = self._connector.connect(scope)
        try:
            return Connection(self, lane)
        except BaseException:
            lane.close()
            raise

    def after(self, frame: Frame, connection: Connection) -> None:
        """A call has been answered; by an error that is not its own the connection ends."""
        if frame.method == HANDSHAKE:
            self.drop(connection)
        else:
            self.give_back(connection)

    def give_back(self, connection: Connection) -> None:
        """A call has ended well: the next one may have the connection, if nobody has withdrawn the call meanwhile."""
        if connection.withdrawn:
            self.drop(connection)
            return
        self._rpcs.settle(connection)
        connection.call = None
        connection.idle_since = now = time.monotonic()
        self._idle.append(connection)
        self._look_after(connection, now)

    def keep(self, connection: Connection, now: float) -> None:
        """As `give_back`, of one that is settled, since whose call began hardly any time has passed."""
        idle = self._idle
        idle.append(connection)
        if len(idle) > self._most_idle or connection.gone or self._closed:
            self._look_after(connection, now)

    def _look_after(self, connection: Connection, now: float) -> None:
        """See to it that no more is kept than may be used again soon, this connection included."""
        if self._closed:  # meanwhile, and perhaps without this one
            self.close()
            return
        if connection.gone:
            self.forget(connection)
            return
        if connection.socket.has_shared and not self._looks_for_memory:
            self._looks_for_memory = True
            event_loop().later(LIMITS.keeps_memory_s, self._give_memory_back)
        idle = self._idle
        if len(idle) > 1 == self._most_idle:
            self._most_idle = _MOST_IDLE
            event_loop().later(_IDLE_S, self._reap)
        try:
            oldest = idle[0]
            if len(idle) > _MOST_IDLE or now - oldest.idle_since > _IDLE_S:
                idle.remove(oldest)
                oldest.close()
        except (IndexError, ValueError):  # another thread has taken it
            return

    def _reap(self) -> None:
        """Close what nobody has used for long, but for one connection, and look again later if there are more."""
        since = time.monotonic() - _IDLE_S
        for connection in self._idle[:-1]:  # the last one was used last
            if connection.idle_since <= since:
                with contextlib.suppress(ValueError):  # somebody has taken it
                    self._idle.remove(connection)
                    connection.close()
        if len(self._idle) > 1:
            event_loop().later(_IDLE_S, self._reap)
        else:
            self._most_idle = 1

    def _give_memory_back(self) -> None:
        """Close connections that share memory and have been idle for long: it goes with them, on either side."""
        self._looks_for_memory = False
        since = time.monotonic() - LIMITS.keeps_memory_s
        more = False
        for connection in list(self._idle):
            if not connection.socket.shares:
                continue
            if connection.idle_since > since:
                more = True
                continue
            with contextlib.suppress(ValueError):  # somebody has taken it
                self._idle.remove(connection)
                connection.close()
        if more and not self._looks_for_memory:
            self._looks_for_memory = True
            event_loop().later(LIMITS.keeps_memory_s, self._give_memory_back)

    def drop(self, connection: Connection) -> None:
        """A call has not ended well: its connection is of no more use."""
        self._rpcs.settle(connection)
        connection.call = None
        connection.close()

    def forget(self, connection: Connection) -> None:
        """A connection was closed by the other side; if it is not idle, who has it finds out."""
        try:
            self._idle.remove(connection)
        except ValueError:
            return
        self._report(connection)
        connection.close()

    def _report(self, connection: Connection) -> None:
        """Its end was none of ours."""
        told = connection.told
        if told and not self._closed:
            connection.told = {}
            self._lost(told)

    def broken(
        self, connection: Connection, method: Method, scope: Scope, failure: BaseException
    ) -> errors.OpError:
        """The error of a call whose connection broke, or was shut because the scope has ended, or the
        server was found not to live.
        """
        error = scope.error or connection.error
        if error is not None:
            return errors.copied(error)
        self._report(connection)
        return errors.unavailable(
            f"the connection to {self.name} broke while {method.name} was under way ({failure}): "
            "its process has ended, or the network between"
        )

    def close(self) -> None:
        """Close the idle connections; the others when their calls have ended."""
        self._closed = True
        self._connector.close()
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().close()
