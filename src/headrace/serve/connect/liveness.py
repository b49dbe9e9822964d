"""Liveness: notices a peer that has calls outstanding and does not live, though its connections stay open.

A process that is stopped, or behind a network that swallows everything, looks like one whose step
waits for a queue.  So a peer with a call outstanding for some seconds is asked for its status, over a
connection of its own; its outstanding calls are lost only if that stays unanswered, and however long a step
takes, a peer that answers is left in peace.  A peer without an outstanding call is not asked.
Called by: serve.connect.routed (makes the OutstandingRpcs), the transports' clients (keep them).  Threads: any; one of
its own per process while a call is outstanding.  What it calls back must neither block nor raise.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.serve.rpc.env_seconds import seconds_of
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import GET_STATUS, Method
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.peer_call import PeerCall
from headrace.serve.rpc.timers import PerProcess, TimerQueue
from headrace.serve.rpc.transport import Channel, Lost

_FROZEN_AFTER_S = 7.5
_STALLED_S = 0.5  # later than it should be: this process was stopped itself, or has no time


def frozen_after_s() -> float | None:
    """How long a peer may have calls outstanding and answer nothing until it is given up; None: for ever.

    The environment's HEADRACE_FROZEN_AFTER_S, else 7.5; 0 there means for ever.  Raises InvalidArgument.
    """
    return seconds_of("HEADRACE_FROZEN_AFTER_S", _FROZEN_AFTER_S, "no peer is given up")


class OutstandingRpcs:
    """What is outstanding of one peer: calls without a reply, requests that it does not read.

    answer_s: how long an answer may take.  silent: it was found not to live, and nothing has been heard of it since.
    calls: since when (time.monotonic), and whom to tell that it is lost; what is outstanding may say by its `start` to
    which start of the server it went.  observed: somebody checks it; who adds to `calls` without `add` sees to that.
    renew: called by the timer when what was reached says nothing any more, or is not what answers: with the start that
    does, 0 for none.  There may be another way, by the server's name.
    """

    def __init__(self, name: str, connect: Callable[[float], Channel]) -> None:
        """name: the peer's, for the error.  connect(answer_s): makes a connection to ask for its
        status, which gets that long.
        """
        self._name = name
        self._connect = connect
        whole_s = frozen_after_s()
        self._ask_after_s = (whole_s or 0.0) * LIMITS.ask_after
        self.answer_s = (whole_s or 0.0) - self._ask_after_s
        self.calls: dict[object, tuple[float, Lost]] = {}
        self._lock = threading.Lock()
        self.silent = False
        self.renew: Callable[[int], object] = lambda start: None
        self._renewing: int | None = None
        self.observed = False
        self._closed = whole_s is None
        self._probe: Channel | None = None
        self._asking = False

    def add(self, what: object, lost: Lost) -> None:
        """`what` is outstanding from now on; `lost(error)` is called if the peer is found not to live."""
        self.calls[what] = time.monotonic(), lost
        if not self.observed:
            self.observe()

    def settle(self, what: object) -> None:
        """`what` is not outstanding any more, if it was."""
        self.calls.pop(what, None)

    def answered(self) -> None:
        """The peer has been heard of."""
        self.silent = False

    def silence_error(self, cause: errors.OpError) -> errors.OpError:
        """The error of a call that such a peer was not sent."""
        found = errors.unavailable(
            f"{self._name} was found not to answer, and still does not: its process is stopped or frozen, "
            "or the network between is cut"
        )
        found.__cause__ = cause
        return found

    def close(self) -> None:
        """Ask no more."""
        with self._lock:
            self._closed = True
            probe, self._probe = self._probe, None
        _timers().forget(self)
        if probe is not None:
            probe.close()

    def observe(self) -> None:
        """See to it that somebody checks."""
        with self._lock:
            if self.observed:
                return
            self.observed = True
            if self._closed:
                return  # nor ever
        _timers().call_at(self, time.monotonic() + self._ask_after_s)

    def check(self) -> float | None:
        """The timer's: ask the peer if a call has been outstanding for long; when to be called again."""
        if self._closed:  # while somebody had this checked
            return None
        start, self._renewing = self._renewing, None
        if start is not None:
            self.renew(start)
            if start:
                self._lose_earlier(start)
        now = time.monotonic()
        calls = self.calls.copy()
        if not calls:
            with self._lock:
                self.observed = False  # first, so that who begins a call now sees it, or is seen
                observed = self.observed = bool(self.calls) or self._closed
                probe, self._probe = self._probe, None
            if probe is not None:
                probe.close()
            return now + self._ask_after_s if observed and not self._closed else None
        due = min(since for since, _ in calls.values()) + self._ask_after_s
        if due > now:
            return due
        if not self._asking:
            self._ask()
        return now + self._ask_after_s

    def _ask(self) -> None:
        with self._lock:
            if self._closed:
                return
            if self._probe is None:
                self._probe = self._connect(self.answer_s)
            probe = self._probe
            self._asking = True
        # Not before grpcio is loaded, which may take longer than an answer.
        asked_at = time.monotonic()
        asking = Scope(self.answer_s)
        asked = probe.call(GET_STATUS, pb.GetStatusRequest(), asking, wait_for_ready=True)

        def arrived(reply: Pending[pb.GetStatusResponse]) -> None:
            self._asking = False
            if isinstance(reply.error, (errors.UnavailableError, errors.DeadlineExceededError)):
                self._silence(asked_at, reply.error)
            else:
                self.answered()
                if reply.error is None and reply.result().device_attributes:
                    self._compare(reply.result().device_attributes[0].incarnation)

        asked.on_done(arrived)

    def _compare(self, start: int) -> None:
        """This start of the server answers at its name.  If calls went to another one, on connections that have not
        broken, the task has moved, and where it was nothing says so: its host is stopped, or cut off.
        """
        if any(getattr(what, "start", start) != start for what in self.calls.copy()):
            self._renew_soon(start)

    def _renew_soon(self, start: int) -> None:
        """From a thread that may be a transport's own, which must not close what it has."""
        self._renewing = start
        _timers().call_at(self, time.monotonic())

    def _lose_earlier(self, start: int) -> None:
        """What was outstanding of any other start than this is lost."""
        now = time.monotonic()
        for what, (since, lost) in self.calls.copy().items():
            if getattr(what, "start", start) == start or self.calls.pop(what, None) is None:
                continue
            lost(
                errors.unavailable(
                    f"{self._name} is elsewhere now: another start of it answers, and the earlier one has owed a reply "
                    f"for {now - since:.1f} s: its host is stopped or frozen, or the network between is cut"
                )
            )

    def _silence(self, asked_at: float, error: errors.OpError) -> None:
        """Nobody answered: what was outstanding when the question was asked is lost."""
        now = time.monotonic()
        if self._closed or now > asked_at + self.answer_s + _STALLED_S:
            return  # no wonder; it is asked again soon
        self.silent = True
        for what, (since, lost) in self.calls.copy().items():
            if since > asked_at or self.calls.pop(what, None) is None:
                continue
            failed = errors.unavailable(
                f"{self._name} has not answered anything for {now - asked_at:.1f} s, and owed a reply for "
                f"{now - since:.1f} s: its process is stopped or frozen, or the network between is cut"
            )
            failed.__cause__ = error
            lost(failed)
        self._renew_soon(0)


class ResumedCall(PeerCall):
    """The reply to a call to a peer that was silent: made when it has answered a question.

    A peer that does not live is sent nothing that it might do when it does again.
    """

    __slots__ = ("_asked", "_call", "_rpcs", "_scope")

    def __init__(
        self, peer: Peer, rpcs: OutstandingRpcs, method: Method, request: Any, scope: Scope
    ) -> None:
        super().__init__(WaitInfo(method.name, peer.name))
        self._rpcs = rpcs
        self._scope = scope
        self._call: Callable[[], Pending[Any]] = lambda: peer.call(method, request, scope)
        asking = Scope(rpcs.answer_s, scope)
        self._asked: Pending[Any] = peer.call(
            GET_STATUS, pb.GetStatusRequest(), asking, wait_for_ready=True
        )
        self._asked.on_done(self._answered)

    def give_up(self) -> None:
        """See `PeerCall`."""
        self._asked.abandon(errors.cancelled("the call was given up"))

    def _answered(self, reply: Pending[Any]) -> None:
        if self.done or self.given_up:
            return
        if reply.error is None:
            self._rpcs.answered()
            self._asked = self._call()
            if self.given_up:  # meanwhile
                self.give_up()
            self._asked.on_done(self._arrived)
        else:
            self.failed(self._scope.error or self._rpcs.silence_error(reply.error))

    def _arrived(self, reply: Pending[Any]) -> None:
        if reply.error is None:
            self.replied(reply.result())
        else:
            self.failed(reply.error)


_timers: PerProcess[TimerQueue[OutstandingRpcs]] = PerProcess(
    lambda: TimerQueue("headrace liveness", OutstandingRpcs.check)
)
