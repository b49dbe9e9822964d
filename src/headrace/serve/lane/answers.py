"""The lane, server side: how one connection answers requests that come again.

By a thread of its own, or, handed over to the multiplexer, by that's: then what has to wait is answered when what it
waits for is there, and has no thread meanwhile.  If that takes long, the connection goes back to a thread of its own,
and the request is answered there as any other.
Called by: serve.lane.served (has it).  Threads: the one that reads the connection; `_call` is that one's alone.
"""

from __future__ import annotations

import contextlib
import functools
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.base import errors
from headrace.codec.frames import Kind
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.variable import release
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.handler import Handler
from headrace.serve.lane.multiplexer import Member
from headrace.serve.lane.repeated import Answering, Repeated, beginning
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.wire import Answer
from headrace.serve.rpc.again import ChangesAgain, CopiesAgain, RunsAgain, WaitsAgain
from headrace.serve.rpc.brief import STEP_BYTES
from headrace.serve.rpc.status import as_op_error, to_detail

if TYPE_CHECKING:
    from headrace.serve.lane.server import LaneServer

STALLED_S: Final = 2.0  # for a read of at most a second: this process was stopped

_LATER: Final = errors.cancelled("the request is answered in another way")

_REPLY = Kind.REPLY  # found sooner than in the enum


class _Call(NamedTuple):
    """One that waits, without a thread.  reply: the frame with the bytes of its values."""

    bound: WaitsAgain
    pending: Pending[Any]
    scope: Scope
    request: bytes
    reply: Callable[[bytes], bytes]

    def end(self) -> bytes | None:
        """The reply; None: nothing has been done."""
        values = self.bound.end(self.pending, self.scope)
        return None if values is None else self.reply(values)


class AnswersAgain(Member, Answering):
    """A part of `ServedConnection`."""

    _transport: LaneServer
    _handlers: Mapping[int, Handler]
    _lane: LaneSocket
    _repeated: Repeated
    _gone: bool
    _scope: Scope | None
    _fresh: Scope
    _number: int
    _last_s: float
    _parked: bool
    _lock: Any

    def __init__(self) -> None:
        self._call: _Call | None = None
        self._has_thread = True
        self._failed: Exception | None = None

    @abstractmethod
    def _serve(self) -> None:
        """Go on, on this thread."""

    @abstractmethod
    def _end(self) -> None:
        """The connection has ended."""

    @abstractmethod
    def _look_up(self) -> None:
        """A call has come."""

    @abstractmethod
    def _send(
        self, kind: Kind, number: int, header: bytes, given: Sequence[Any], in_place: bool
    ) -> bool:
        """Send a reply.  False if there are no leases among its values."""

    # -- handed over ----------------------------------------------------------------------------

    def hand_over(self) -> None:
        """Have the multiplexer read it, which may take this thread."""
        self._has_thread = False
        self._transport.multiplexer.take(self)

    def fileno(self) -> int:
        """See `Member`."""
        return self._lane.fileno()

    def answer_available(self) -> bool:
        """See `Member`."""
        if self._call is not None:  # which its caller has given up, it seems
            return False
        try:
            return self._lane.answer_available(self._repeated.at_once)
        except Exception as error:  # told by who goes on
            self._failed = error
            return False

    def answer_due(self) -> bool:
        """See `Member`."""
        call = self._call
        if call is None or not call.pending.done:
            return True
        self._call = None
        try:
            reply = self._over(call)
            return reply is not None and self._lane.send_available(reply)
        except Exception as error:  # told by who goes on
            self._failed = error
            return False

    def _over(self, call: _Call) -> bytes | None:
        """A call that has waited is over: its reply.  None: nobody wants it, or it is to be answered as any other."""
        reply = call.end()
        self._scope, self._fresh = None, Scope()
        if reply is None:
            self._lane.put_back(call.request)
        elif self._gone:
            self._transport.calls.left(self._number)
            return None
        return reply

    def go_on(self) -> None:
        """See `Member`."""
        call, self._call = self._call, None
        go_on: Callable[[], object] = self._serve
        if call is not None and call.bound.keeps_place(call.pending):
            go_on = functools.partial(self._wait_out, call)
        elif call is not None:
            call.pending.abandon(_LATER)
            self._hold_reply(call)
        self._has_thread = True
        try:
            self._transport.pool.submit(go_on)
        except RuntimeError:  # no thread to be had
            self._end()

    def _wait_out(self, call: _Call) -> None:
        """Go on when what the call waits for is there, or its scope has ended."""
        with contextlib.suppress(errors.OpError):
            call.pending.wait(call.scope)
        self._hold_reply(call)
        self._serve()

    def _hold_reply(self, call: _Call) -> None:
        """A call that has waited is over: have its reply sent by who goes on."""
        try:
            reply = self._over(call)
            if reply is not None:
                self._lane.hold(reply)
        except Exception as error:  # told by who goes on
            self._failed = error

    def rest(self) -> None:
        """See `Member`."""
        if self._call is not None:
            self.go_on()
            return
        self._has_thread = True
        self._lane.rest()
        with self._lock:
            self._parked = True
        event_loop().arm(self._lane, wants_input=True)

    # -- answers ----------------------------------------------------------------------------------

    def changing(self, number: int, bound: ChangesAgain) -> Answer:
        """See `Answering`.  By the reply that has been given before, with the values of now."""
        begins, contents = beginning(number, bound.values), bound.contents
        lane, monotonic = self._lane, time.monotonic

        def answer(request: bytes) -> bytes | None:
            # One function: each more touches as much memory as the change.
            now = monotonic()
            if now - self._last_s > STALLED_S and lane.hung_up():  # see `_look_up`
                self._gone = True
            self._last_s = now
            self._scope = self._fresh  # a call is under way
            try:
                values = None if self._gone else contents()
            finally:
                self._scope = None
            if self._gone:
                self._transport.calls.left(self._number)
                return None if values is None else b""
            return None if values is None else begins + values

        return answer

    def copies(self, number: int) -> bool:
        """See `Answering`."""
        return self._lane.lends and not self._handlers[number].in_place

    def copying(self, number: int, bound: CopiesAgain) -> Answer:
        """See `Answering`.  Into memory that the other side has given back; else the general way."""
        run = self.running(number, bound.otherwise)
        copied = self._lane.copying(_REPLY, number, bound.dtype, bound.shape, bound.copy_to)

        def answer(request: bytes) -> bytes | None:
            reply = copied()
            if reply is None:
                return run(request) if self._has_thread else None
            return reply

        return answer

    def waiting(self, number: int, bound: WaitsAgain) -> Answer:
        """See `Answering`.  At once, or when what it waits for is there."""
        run = self.running(number, bound.otherwise)
        known: Sequence[Any] | None = None
        begins = b""

        def reply(values: bytes) -> bytes:
            nonlocal known, begins
            if bound.values is not known:
                known = bound.values
                begins = beginning(number, known)
            return begins + values

        def answer(request: bytes) -> bytes | None:
            if self._has_thread and not bound.ready():
                return run(request)
            self._look_up()
            if self._gone:
                return None
            scope = self._scope = self._fresh
            found = bound.begin(scope)
            if isinstance(found, Pending):
                call = _Call(bound, found, scope, request, reply)
                if not self._has_thread:
                    self._call = call
                    self._transport.multiplexer.wait_for(self, found)
                    return b""
                found.abandon(_LATER)
                replied = call.end()
                if replied is None:
                    return run(request)
                self._scope, self._fresh = None, Scope()
                return replied
            self._scope = None
            if self._gone:
                self._transport.calls.left(self._number)
                return None if found is None else b""
            return None if found is None else reply(found)

        return answer

    def running(self, number: int, bound: RunsAgain) -> Answer:
        """See `Answering`.  As `_answer` does."""
        handler, run = self._handlers[number], bound.run
        known: Sequence[Any] | None = None
        begins = b""

        def answer(request: bytes) -> bytes | None:
            nonlocal known, begins
            self._look_up()
            scope = self._scope = self._fresh
            try:
                if self._gone:
                    return None
                values = run(int.from_bytes(request[-STEP_BYTES:], "little"), scope)
                if values is None:
                    return None
            except Exception as error:  # the caller gets every failure
                failure = told(error, handler.name)
                if not self._gone:
                    self._lane.send_frame(Kind.ERROR, number, failure)
                return b""
            finally:
                self._scope, self._fresh = None, Scope()
                if self._gone:
                    self._transport.calls.left(self._number)
            if values.__class__ is bytes:
                if bound.values is not known:
                    known = bound.values
                    begins = beginning(number, known)
                return b"" if self._gone else begins + values
            leased = True
            try:
                if not self._gone:
                    leased = self._send(_REPLY, number, b"", values, handler.in_place)
            finally:
                if leased:
                    release(values)
            return b""

        return answer


def told(error: Exception, what: str) -> bytes:
    """The failure of a call, as its caller gets it."""
    return to_detail(as_op_error(error, what)).SerializeToString()
