"""The lane, client side: a peer behind framed sockets.

A call takes an idle connection, or makes one.  Whoever waits for the reply reads it, so that no
other thread has to be woken; until somebody waits, the watcher looks for it.  Who gives up a call closes
its half of the connection, which cancels the call there; the other half is closed when that is done.
Called by: serve.routed.  Threads: any.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.run import long_waits
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope, nap
from headrace.serve import messages as m
from headrace.serve.lane_connect import Connector, Unreachable
from headrace.serve.lane_socket import LaneSocket, NothingSent
from headrace.serve.lane_wire import BETWEEN_TASKS, CODECS, GREETING, Codec
from headrace.serve.links import CallersLink, Link, LinkedCall
from headrace.serve.liveness import Debts
from headrace.serve.security import Security
from headrace.serve.status import as_op_error, from_bytes
from headrace.serve.waiting import passed_deadline
from headrace.serve.watcher import watcher
from headrace.serve.wire import Method

_PATIENCE_S = 0.05  # past the deadline: the other side, which knows more, reports it first
_CONNECT_WITHIN_S = 5.0
_CONNECT_PATIENCE_S = 0.01  # past the deadline, so that it has passed
_MOST_IDLE = 64
_IDLE_S = 60.0
_KEEPS_MEMORY_S = 2.0  # an idle connection that shares memory with the other side
_CONFIRM_WITHIN_S = 0.08  # for the server to end a call that was given up
_CONFIRM_LATE_S = 0.01  # the same after the deadline: it has ended it by itself, if it lives
_MOST_TOLD = 256  # steps of which a connection remembers that they were told something
_AN_INSTANT_S = 0.001  # no time at all would be for ever
_LOOK_S = 1.0  # between looks at the scope while a large message is being sent
_LOOK_AT_DEADLINE_S = 0.05  # the same if the scope has a deadline

_REQUEST, _ERROR, _ONE_WAY = Kind.REQUEST, Kind.ERROR, Kind.ONE_WAY  # found sooner than in the enum

Told = dict[int, str]
"""By step, the key of the last value that was sent for it."""


class LanePeer:
    """A service behind a lane address."""

    def __init__(
        self,
        lane: pb.LaneAddress,
        host: str,
        name: str,
        max_message_bytes: int,
        debts: Debts,
        trusting: Security,
        lost: Callable[[Told], object] = lambda told: None,
    ) -> None:
        """host: of the server's gRPC address, where its TCP port is too.  debts: of the server.

        lost: called, from any thread, with what was told over a connection that has broken since.
        """
        self.lane = lane
        self._lost = lost
        self.name = name
        self._connector = Connector(lane, host, name, max_message_bytes, debts, trusting)
        self._debts = debts
        self._idle: list[Connection] = []
        self._closed = False
        self._looks_for_memory = False

    def call(
        self, method: Method, request: Any, scope: Scope, watched: bool = True, again: bool = True
    ) -> Pending[Any]:
        """Send a request; the reply comes later.  Abandoning the result cancels the call.

        watched: whether the watcher is to look for the reply from the beginning.
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
        call = _Call(self, connection, method, scope)
        connection.call = call
        try:
            self._send(connection, CODECS[method], request, scope, Kind.REQUEST)
        except BaseException as failure:
            self.drop(connection)
            if again and self._had_ended(connection, scope, failure):
                return self.call(method, request, scope, watched, again=False)
            if isinstance(failure, (OSError, EOFError)):
                return Pending.failed_with(self.broken(connection, method, scope, failure))
            raise
        call.begin(watched)
        return call

    def call_now(self, method: Method, request: Any, scope: Scope, again: bool = True) -> Any:
        """Send a request and wait for the reply.  again: see `call`.  Raises Unreachable."""
        scope.check()
        connection = self._take(scope, fresh=not again)
        codec = CODECS[method]
        scope.attach(connection, partial(connection.follow, scope))
        try:
            self._send(connection, codec, request, scope, _REQUEST)
            frame = connection.wait(scope, _PATIENCE_S)
        except (OSError, EOFError) as failure:
            last = connection.last_word()
            self.drop(connection)
            if last is not None:
                return result_of(last, method)
            if again and self._had_ended(connection, scope, failure):
                scope.detach(connection)
                return self.call_now(method, request, scope, again=False)
            raise self.broken(connection, method, scope, failure) from failure
        except BaseException:  # the deadline, Ctrl-C
            connection.take_back(scope, _PATIENCE_S)
            self.drop(connection)
            raise
        finally:
            scope.detach(connection)
        if connection.told:
            connection.told.clear()  # frames are handled in order: it has all arrived
        if frame.method == GREETING:
            self.drop(connection)
        else:
            self.give_back(connection)
        if frame.kind is _ERROR:
            raise from_bytes(frame.header)
        return codec.decode_reply(frame.header, frame.values)

    def tell(
        self, method: Method, request: m.SendTensorRequest, scope: Scope, again: bool = True
    ) -> None:
        """Send what needs no reply.  Blocks while the other side is behind with reading.

        again: see `call`.  Raises Unreachable, Unavailable.
        """
        connection = self._take(scope, fresh=not again)
        unregister = scope.on_cancel(connection.withdraw)
        try:
            self._send(connection, CODECS[method], request, scope, Kind.ONE_WAY)
        except (OSError, EOFError) as failure:
            self.drop(connection)
            if again and self._had_ended(connection, scope, failure):
                self.tell(method, request, scope, again=False)
                return
            raise self.broken(connection, method, scope, failure) from failure
        except BaseException:
            self.drop(connection)
            raise
        finally:
            unregister()
        told = connection.told
        told[request.step_id] = request.rendezvous_key
        if len(told) > _MOST_TOLD:
            del told[next(iter(told))]
        self.give_back(connection)

    def _had_ended(self, connection: Connection, scope: Scope, failure: BaseException) -> bool:
        """Whether the connection had ended before it was taken, and not because somebody here shut it."""
        ended = isinstance(failure, NothingSent) and connection.error is None and not scope.error
        if ended:
            self._report(connection)
        return ended

    def _send(
        self, connection: Connection, codec: Codec, request: Any, scope: Scope, kind: Kind
    ) -> None:
        self._debts.add(connection, connection.lost)
        header, values = codec.encode_request(request)
        timeout_us, look_s = 0, _LOOK_S
        if scope.deadline is not None:
            timeout_us = max(1, round((scope.remaining() or 0.0) * 1e6))
            look_s = _LOOK_AT_DEADLINE_S
        number = codec.number
        connection.socket.send_frame(
            kind, number, header, values, timeout_us, look_s, scope.check, number in BETWEEN_TASKS
        )  # fmt: skip

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
        return Connection(self, self._connector.connect(scope))

    def after(self, frame: Frame, connection: Connection) -> None:
        """A call has been answered; by an error that is not its own the connection ends."""
        if frame.method == GREETING:
            self.drop(connection)
        else:
            self.give_back(connection)

    def give_back(self, connection: Connection) -> None:
        """A call has ended well: the next one may have the connection."""
        self._debts.settle(connection)
        connection.call = None
        connection.idle_since = now = time.monotonic()
        idle = self._idle
        idle.append(connection)
        if self._closed:  # meanwhile, and perhaps without this one
            self.close()
        elif connection.gone:
            self.forget(connection)
        else:
            try:
                due = now - idle[0].idle_since > _IDLE_S or len(idle) > _MOST_IDLE
            except IndexError:  # another thread has taken it
                return
            if due or connection.socket.has_shared:
                self._look_after(connection, now)

    def _look_after(self, connection: Connection, now: float) -> None:
        """See to it that no more is kept than may be used again soon."""
        if connection.socket.has_shared and not self._looks_for_memory:
            self._looks_for_memory = True
            watcher().later(_KEEPS_MEMORY_S, self._give_memory_back)
        with contextlib.suppress(IndexError, ValueError):  # another thread has taken it
            oldest = self._idle[0]
            if len(self._idle) > _MOST_IDLE or now - oldest.idle_since > _IDLE_S:
                self._idle.remove(oldest)
                oldest.close()

    def _give_memory_back(self) -> None:
        """Close connections that share memory and have been idle for long: it goes with them, on either side."""
        self._looks_for_memory = False
        since = time.monotonic() - _KEEPS_MEMORY_S
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
            watcher().later(_KEEPS_MEMORY_S, self._give_memory_back)

    def drop(self, connection: Connection) -> None:
        """A call has not ended well: its connection is of no more use."""
        self._debts.settle(connection)
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
            return error
        self._report(connection)
        return errors.unavailable(
            f"the connection to {self.name} broke while {method.name} was under way ({failure}): "
            "its process has ended, or the network between"
        )

    def close(self) -> None:
        """Close the idle connections; the others when their calls have ended."""
        self._closed = True
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().close()


class Connection:
    """A connection: idle, or with one call.  `error`: why it was shut, if the server does not live."""

    __slots__ = ("_peer", "call", "error", "gone", "idle_since", "socket", "told")

    def __init__(self, peer: LanePeer, lane: LaneSocket) -> None:
        """gone: the other side has closed it."""
        self._peer = peer
        self.gone = False
        self.told: Told = {}
        self.socket = lane
        self.call: _Call | None = None
        self.error: errors.OpError | None = None
        self.idle_since = 0.0
        watcher().add(lane, self._event)

    def wait(self, scope: Scope, patience_s: float) -> Frame:
        """Read the reply in this thread.

        patience_s: past the deadline, for the other side to say more.
        Raises the scope's error, DeadlineExceeded, EOFError, OSError; then the connection is dropped.
        """
        lane = self.socket
        look_s, since = long_waits.first_look_s, 0.0
        frame = lane.read(_read_limit(scope, look_s, patience_s))
        while frame is None or frame.kind is _ONE_WAY:
            if frame is not None:
                self.passed(frame)
                frame = lane.read(_read_limit(scope, look_s, patience_s))
                continue
            since = since or time.monotonic()
            look_s = long_waits.tell(scope, since, look_s)
            remaining = scope.remaining()
            if remaining is None or not passed_deadline(scope):
                scope.check()
            elif time.monotonic() >= (scope.deadline or 0.0) + patience_s:
                raise scope.deadline_error(f"an answer of {self._peer.name}")
            frame = lane.read(_read_limit(scope, look_s, patience_s))
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
        """The watcher's."""
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
        self.socket.half_close()
        watcher().later(_CONFIRM_WITHIN_S, self.socket.shut)

    def take_back(self, scope: Scope, patience_s: float) -> None:
        """As `withdraw`, for the thread that reads; returns when the server has ended the call, or soon."""
        self.withdraw()
        until = time.monotonic() + _CONFIRM_WITHIN_S
        if scope.deadline is not None:
            until = min(until, scope.deadline + patience_s + _CONFIRM_LATE_S)
        with contextlib.suppress(OSError, EOFError, errors.OpError):
            while (left := until - time.monotonic()) > 0:
                self.socket.read(left)

    def follow(self, scope: Scope) -> None:
        """As `withdraw`, if the scope was cancelled; its deadline is the server's to keep."""
        if not passed_deadline(scope):
            self.withdraw()

    def close(self) -> None:
        """Give it back to the system; nobody may be reading."""
        watcher().remove(self.socket)
        self.socket.close()


def _read_limit(scope: Scope, look_s: float, patience_s: float) -> float:
    """How long one read may take: to the deadline and a little longer, or the main thread's nap, or
    until the wait is a long one.
    """
    left_s = scope.deadline
    if left_s is not None:
        left_s = max(_AN_INSTANT_S, left_s + patience_s - time.monotonic())
    nap_s = nap(left_s)
    return look_s + _PATIENCE_S if nap_s is None else min(look_s + _PATIENCE_S, nap_s)


def result_of(frame: Frame, method: Method) -> Any:
    """The reply in a frame.  Raises the error in it, and OpError for what is no reply."""
    if frame.kind is Kind.ERROR:
        raise from_bytes(frame.header)
    return CODECS[method].decode_reply(frame.header, frame.values)


_NOBODY, _WATCHED, _IN_PERSON, _OVER = range(4)


class _Call(LinkedCall):
    """A call under way, read by the watcher, or by the thread that waits for it."""

    __slots__ = (
        "_connection", "_early", "_link", "_method", "_peer", "_reader", "_scope", "_turn", "_unregister",
    )  # fmt: skip

    def __init__(
        self, peer: LanePeer, connection: Connection, method: Method, scope: Scope
    ) -> None:
        super().__init__(WaitInfo(method.name, peer.name), _Call._given_up)  # type: ignore[arg-type]
        self._peer = peer
        self._connection = connection
        self._method = method
        self._scope = scope
        self._turn = threading.Lock()
        self._reader = _NOBODY
        self._link: CallersLink | None = None
        self._early: list[Frame] = []  # values that came before there was a link
        self._unregister: Any = None

    def begin(self, watched: bool) -> None:
        """The request has been sent.  The scope's end ends the call; a deadline is the server's to keep."""
        scope = self._scope

        def ended() -> None:
            if not passed_deadline(scope):
                self.abandon(scope.error or errors.cancelled("the call was cancelled"))

        self._unregister = scope.on_cancel(ended)
        if watched:
            self.watch()

    def link(self) -> Link:
        """See `LinkedCall`."""
        link = CallersLink(self, self._connection.socket)
        with self._turn:
            if self._reader == _NOBODY:
                self._reader = _IN_PERSON
            early, self._early, self._link = self._early, [], link
        for frame in early:
            link.take(frame)
        return link

    def passed(self, frame: Frame) -> None:
        """A value has come before the reply."""
        if self._link is None:
            self._early.append(frame)
        else:
            self._link.take(frame)

    def leave(self) -> None:
        """See `LinkedCall`."""
        with self._turn:
            if self._reader != _IN_PERSON:
                return
            self._reader = _NOBODY
        watcher().arm(self._connection.socket, wants_input=False)

    def pump(self) -> None:
        """See `LinkedCall`."""
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
        watcher().arm(self._connection.socket, wants_input=True)

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
            watcher().arm(connection.socket, wants_input=False)
        unregister = scope.on_cancel(lambda: connection.follow(scope))
        try:
            frame = connection.wait(scope, 0.0)
        except (OSError, EOFError) as failure:
            self._broke(self._peer.broken(connection, self._method, scope, failure))
        except errors.OpError as error:
            connection.take_back(scope, 0.0)
            self._broke(error)
        except BaseException:
            connection.take_back(scope, 0.0)
            self._broke(errors.cancelled("interrupted"))
            raise
        else:
            self._take(frame)
        finally:
            unregister()
        return self.result()

    def event(self) -> None:
        """The watcher's: there is something to read, or the other side has gone."""
        broken: errors.OpError | None = None
        frame: Frame | None = None
        with self._turn:
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
                broken = error
            watcher().arm(
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
        self._peer.after(frame, self._connection)
        try:
            value = result_of(frame, self._method)
        except Exception as error:  # the other side's, or a reply that cannot be understood
            self.reject(as_op_error(error, self._method.name))
        else:
            self.resolve(value)

    def _broke(self, error: errors.OpError) -> None:
        self._end()
        self._peer.drop(self._connection)
        self.reject(error)

    def _end(self) -> None:
        with self._turn:
            self._reader = _OVER
        if self._unregister is not None:
            self._unregister()

    def _given_up(self) -> bool:
        """The server is told; whoever reads finds out when it has ended the call."""
        with self._turn:
            over = self._reader == _OVER
        if not over:
            self._connection.withdraw()
        return True
