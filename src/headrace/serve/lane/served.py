"""The lane, server side: one connection, served.

It has one call at a time.  The thread that reads a request runs it and writes the reply; then it waits for the next
one, for about a second, or less if many threads do.  An idle connection has no thread and no buffer: the event loop
hands it to one of the pool when something comes.  While a call runs, the event loop looks for the caller going away,
which cancels the call's scope.
Called by: serve.lane.server.  Threads: one of the pool while it is not idle; the event loop's.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.base import errors
from headrace.codec.frames import Frame, Kind, whole
from headrace.run import spans
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.lane.answers import STALLED_S, AnswersAgain, told
from headrace.serve.lane.channels import LaneChannel
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.handler import Handler
from headrace.serve.lane.repeated import Repeated
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import (
    CONTEXT,
    HANDSHAKE,
    PROOF,
    handshake,
)
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.cancelled_calls import new_number
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.security import NONCE_BYTES, new_nonce
from headrace.serve.rpc.status import as_op_error, to_detail
from headrace.serve.rpc.step_channel import Deliver, StepChannels

if TYPE_CHECKING:
    from headrace.serve.lane.server import LaneServer

_SOON_S = 0.02  # within which the next call of a busy client comes
_LINGER_S = 1.0
_HANDSHAKE_WITHIN_S = 1.0

_REPLY, _ONE_WAY = Kind.REPLY, Kind.ONE_WAY  # found sooner than in the enum

_log = logging.getLogger("headrace")


class ServedConnection(AnswersAgain):
    """One connection, served; the `rpc.step_channel.Caller` of its calls."""

    lends = True
    channels: StepChannels | None = None

    def __init__(self, transport: LaneServer, lane: LaneSocket, peer: str) -> None:
        """peer: see `PeerLog`."""
        super().__init__()
        self._peer = peer
        self._transport = transport
        self._handlers = transport.handlers
        self._that_last = transport.that_last
        self._lane = lane
        self._lock = threading.Lock()
        self._parked = True
        self._trusted = False
        self._nonce = b""
        self._gone = False
        self._finishing = False
        self._scope: Scope | None = None
        self._fresh = Scope()  # the next call's, if that has no deadline: made while nobody waits
        self._own_channel: _CalledChannel | None = None
        self._handed_over = False
        self._repeated = Repeated()
        self._last_s = 0.0  # when the last call came
        self._number = new_number()

    def begin(self) -> None:
        """Send the handshake, and wait for the first request.  A new socket has room for the handshake."""
        with self._lock:
            if not self._gone:  # else the transport was stopped before this had begun
                self._transport.calls.add(self._number, self.give_up)
                self._send_handshake()

    def _send_handshake(self) -> None:
        untrusted = bool(self._transport.trusting.secret)
        if untrusted:
            self._nonce = new_nonce()
        else:
            self._trust()
        self._lane.rest()
        event_loop().add(self._lane, self._event)
        if untrusted:
            here = weakref.ref(self)  # one that has ended is not kept until then
            event_loop().later(LIMITS.prove_within_s, lambda: _cut_untrusted(here))
        try:
            packed = handshake(self._transport.server, self._nonce, self._number)
            self._lane.send([packed], _HANDSHAKE_WITHIN_S, _too_slow)
        except OSError:
            self._end()
            return
        event_loop().arm(self._lane, wants_input=True)

    def _event(self, hung_up: bool) -> None:
        """The event loop's: something has come on an idle connection, or the caller of a busy one is gone."""
        with self._lock:
            parked, self._parked = self._parked, False
        if parked:
            # While this process was stopped, say; but the event may be of a connection that had this descriptor before.
            self._gone = self._gone or (hung_up and self._lane.hung_up())
            self.go_on()
        elif hung_up and not self._finishing and self._lane.hung_up():
            self._gone = True
            scope = self._scope
            if scope is not None:
                scope.cancel(errors.cancelled("the caller is gone"))

    def _serve(self) -> None:
        """Calls, one after the other, until there is none for a while."""
        lane = self._lane
        event_loop().arm(lane, wants_input=False)
        try:
            if self._failed is not None:
                raise self._failed
            lane.flush()
            self._last_s = time.monotonic()
            while (frame := self._next()) is not None:
                self._look_up()
                if not self._trusted:
                    self._hear(frame)
                elif frame.method not in self._that_last:
                    self._answer(frame)
                elif frame.method == CONTEXT:
                    self._answer_within(frame.header)
                else:
                    self._answer_later(frame)
                    return
                del frame
        except (OSError, EOFError):
            self._end()
        except errors.OpError as error:
            self._warn(f"a connection of the lane was closed ({self._peer}): {error}")
            self._refuse(error)
            self._end()
        except Exception:  # of what answers requests that come again
            _log.exception("a connection of the lane was closed: a request could not be answered")
            self._end()
        else:
            if self._handed_over:
                self._handed_over = False
                self.hand_over()
            else:
                self.rest()

    def _next(self) -> Frame | None:
        """The next call; None if there is none for a while, or it is to be handed over.

        What comes again is answered meanwhile.
        """
        lane, repeated = self._lane, self._repeated
        if (repeated.at_once or repeated.known) and lane.at_rest:
            together = self._transport.multiplexer
            came = lane.answer_known(repeated.known, repeated.at_once, together)
            if came is None:
                self._handed_over = True
                return None
            if not came:
                return self._linger()
        return lane.read(_SOON_S) or self._linger()

    def _look_up(self) -> None:
        """A call has come; its caller may have gone while this process was stopped, or after a long call."""
        now = time.monotonic()
        if now - self._last_s > STALLED_S and self._lane.hung_up():
            self._gone = True
        self._last_s = now

    def _linger(self) -> Frame | None:
        """The next call, which has not come soon; None if there is none for a while, or many threads wait for one.

        For the untrusted no thread waits.
        """
        if not self._trusted or not self._transport.lingering.acquire(blocking=False):
            return None
        try:
            return self._lane.read(_LINGER_S)
        finally:
            self._transport.lingering.release()

    def _trust(self) -> None:
        self._trusted = True
        self._lane.trust(self._transport.max_message_bytes)

    def _hear(self, frame: Frame) -> None:
        """The first frame must prove that the caller knows the secret; then it is proved to them.

        Raises Unauthenticated.
        """
        trusting, shown = self._transport.trusting, frame.header
        theirs = shown[:NONCE_BYTES]
        told = frame.method == PROOF and len(theirs) == NONCE_BYTES
        if not told or not trusting.proves(b"client", self._nonce, theirs, shown[NONCE_BYTES:]):
            raise errors.unauthenticated(
                "the caller does not know the secret of this server; set HEADRACE_SECRET_FILE to the file that the "
                "server has"
            )
        answer = trusting.proof(b"server", self._nonce, theirs)
        self._lane.send_frame(Kind.REPLY, PROOF, answer)
        self._trust()

    def _warn(self, line: str) -> None:
        self._transport.log.warning(self._peer, line)

    def _refuse(self, error: errors.OpError) -> None:
        """Say why the connection is closed."""
        with contextlib.suppress(OSError):
            detail = to_detail(error).SerializeToString()
            self._lane.send_frame(
                Kind.ERROR, HANDSHAKE, detail, limit_s=_HANDSHAKE_WITHIN_S, check=_too_slow
            )

    def _answer_later(self, frame: Frame) -> None:
        """Run a call that lasts as long as its caller likes: no thread waits for its reply."""
        number, scope, gone = frame.method, self._fresh, errors.cancelled("the caller is gone")
        handler = self._handlers[number]
        self._scope = scope
        try:
            reply: Pending[Any] = handler.handle(handler.decode(frame.header, []), scope)
        except Exception as error:  # the caller gets every failure
            reply = Pending.failed_with(as_op_error(error, handler.name))
        self._lane.rest()
        if self._gone:
            scope.cancel(gone)
        scope.on_cancel(lambda: reply.abandon(scope.error or gone))
        late = functools.partial(self._reply_late, number, handler)

        def over(done: Pending[Any]) -> None:  # on a thread that must not wait
            try:
                self._transport.pool.submit(late, done)
            except RuntimeError:  # no thread to be had, or the server ends
                self._end()

        reply.on_done(over)

    def _reply_late(self, number: int, handler: Handler, done: Pending[Any]) -> None:
        """The reply of a call that has lasted is there; from now on others are served."""
        self._scope, self._fresh = None, Scope()
        try:
            assert handler.encode is not None
            (header, given), kind = handler.encode(done.result()), _REPLY
        except Exception as error:  # the caller gets every failure
            kind, header, given = Kind.ERROR, told(error, handler.name), ()
        try:
            if not self._gone:
                self._send(kind, number, header, given, handler.in_place)
        except OSError:
            self._end()
        else:
            self._serve()

    def _answer_within(self, context: bytes) -> None:
        """Answer the call that comes behind the context of its caller's span."""
        frame = self._lane.read(_LINGER_S)
        if frame is not None:
            with spans.within(context):
                self._answer(frame)

    def _answer(self, frame: Frame) -> None:
        asked, number, _, timeout_us, header, values = frame
        reply: Any = None
        what, kind = "a call", _REPLY
        in_place = False
        given: Sequence[Any] = ()
        try:
            found = self._handlers.get(number)
            if found is None:
                raise errors.unimplemented(f"the lane has no method number {number}")
            what, decode, handle, encode, in_place, takes_caller, binder, _ = found
            scope = self._scope = Scope(timeout_us / 1e6) if timeout_us else self._fresh
            if self._gone:
                scope.cancel(errors.cancelled("the caller is gone"))
                if asked is Kind.REQUEST:
                    scope.check()
            feeds = bool(values)
            if values:  # the request's alone, so that they go when they are used up
                values = values.copy()
                frame.values.clear()
            request = decode(header, values)
            del values
            reply = handle(request, scope, self) if takes_caller else handle(request, scope)
            if binder is not None and not (feeds or timeout_us):
                self._repeated.note(number, header, request, binder, self)
            del request
            if isinstance(reply, Pending):
                reply = reply.wait(scope)
            header, given = encode(reply) if encode is not None else (b"", reply)
        except Exception as error:  # the caller gets every failure
            kind, header, given = Kind.ERROR, told(error, what), ()
            if asked is _ONE_WAY:
                self._warn(
                    f"{what} failed, whose caller waits for no reply: {as_op_error(error, what)}"
                )
        finally:
            self._scope = None
            if self._gone:
                self._transport.calls.left(self._number)
        leased = True
        try:
            if not self._gone and asked is not _ONE_WAY:
                leased = self._send(kind, number, header, given, in_place)
        finally:
            if leased:
                m.release(reply)
        self._fresh = Scope()

    def _send(
        self, kind: Kind, number: int, header: bytes, given: Sequence[Any], in_place: bool
    ) -> bool:
        """Send a reply.  False if there are no leases among its values."""
        lane = self._lane
        data = whole(kind, number, header, given)
        if data is not None:
            lane.send_whole(data)
            return False
        try:
            return lane.send_frame(kind, number, header, given, in_place=in_place)
        except errors.OpError as error:  # a value that no message can hold; nothing has been sent
            lane.send_frame(Kind.ERROR, number, to_detail(error).SerializeToString())
            return True

    def channel(self) -> LaneChannel:
        """See `rpc.step_channel.Caller`."""
        channel = self._own_channel
        if channel is None:
            channel = self._own_channel = _CalledChannel(self, self._lane)
        else:
            channel.renew()
        return channel

    def give_up(self) -> bool:
        """Its caller has; what comes on it is refused.  Whether a call is under way."""
        self._gone = True
        scope = self._scope
        if scope is None:
            return False
        scope.cancel(errors.cancelled("the caller has given up the call"))
        return True

    def lost(self, error: errors.OpError) -> None:
        """The connection has broken under its call, or cannot be understood any more."""
        self._gone = True
        scope = self._scope
        if scope is not None:
            scope.cancel(error)

    def finish(self) -> None:
        """End the connection; what runs on it is cancelled, and closes it when that has been told."""
        with self._lock:
            self._finishing = True
            parked, self._parked = self._parked, False
            if parked:
                self._gone = True
        if parked:
            self._end()
            return
        scope = self._scope
        if scope is not None:
            scope.cancel(errors.unavailable("the server was stopped"))
        self._lane.stop_reading()

    @property
    def trusted(self) -> bool:
        """Whether the caller has proved to know the secret, or need not."""
        return self._trusted

    def cut(self) -> None:
        """End the connection without a word; its thread finds out."""
        self._gone = True
        self._lane.shut()

    def _end(self) -> None:
        event_loop().remove(self._lane)
        self._lane.close()
        self._repeated.forget()
        self._transport.calls.forget(self._number)
        self._transport.forget(self)


class _CalledChannel(LaneChannel):
    """The called task's end of a channel."""

    __slots__ = ("_connection", "_lane")

    def __init__(self, connection: ServedConnection, lane: LaneSocket) -> None:
        super().__init__(lane)
        self._connection = connection
        self._lane = lane

    def deliver_to(self, deliver: Deliver) -> None:
        """See `LaneChannel`.  Values may have come in one piece with the request."""
        super().deliver_to(deliver)
        while (frame := self._lane.read_ahead()) is not None:
            self.take(frame)

    def receive(self) -> None:
        """See `LaneChannel`."""
        try:
            frame = self._lane.read_available()
            while frame is not None:
                self.take(frame)
                frame = self._lane.read_ahead()
        except (OSError, EOFError):
            self._connection.lost(errors.cancelled("the caller is gone"))
        except errors.OpError as error:
            self._connection.lost(error)


def _cut_untrusted(here: weakref.ref[ServedConnection]) -> None:
    """End a connection whose caller has not proved to know the secret in time."""
    connection = here()
    if connection is not None and not connection.trusted:
        connection.cut()


def _too_slow() -> None:
    raise OSError("the other side does not read")
