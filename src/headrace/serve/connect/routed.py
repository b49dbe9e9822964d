"""A peer behind ``host:port``: over the main transport, and over the one beside it as soon as it is offered.

A server of this host is found beside the main one at once, which is not even loaded then.
Called by: serve.connect.peers.connect.  Threads: any.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import Any

from headrace.codec import protos as pb
from headrace.run.exec.keys import source_task
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.liveness import OutstandingRpcs, ResumedCall
from headrace.serve.connect.retries import call_with_retries
from headrace.serve.connect.transports import transports
from headrace.serve.rpc.cancelled_calls import cancelled_calls_of
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import (
    ATTEND_SESSION,
    CREATE_SESSION,
    GET_STATUS,
    PUSHES_LOST,
    Method,
)
from headrace.serve.rpc.peer import peer_name
from headrace.serve.rpc.security import Security, chosen
from headrace.serve.rpc.traffic import Traffic
from headrace.serve.rpc.transport import Channel, Destination, Nearby, Told, Unreachable
from headrace.serve.rpc.waiting import patient

_ASK_WITHIN_S = 5.0

_WHENEVER = Scope()

_log = logging.getLogger("headrace")


class RoutedPeer:
    """A `Peer` at a gRPC address."""

    remote = True
    stale = False  # either way it connects again by itself

    def __init__(self, address: str, name: str, trusting: Security | None = None) -> None:
        """trusting: what it asks of the server and shows it; None: as the environment says."""
        self.name = peer_name(address, name)
        self._security = trusting = chosen(trusting)

        self._main, self._beside, _ = transports()

        def probe(answer_s: float) -> Channel:
            to = Destination(address, name, trusting, connect_within_s=answer_s)
            return self._main.connect(to)

        self._rpcs = OutstandingRpcs(self.name, probe)
        self._rpcs.renew = self._renew
        self.cancelled_calls = cancelled_calls_of(address)
        self.traffic = Traffic()
        self._lock = threading.Lock()
        self._main_channel: Channel | None = None
        self._earlier: Channel | None = None  # the main one before, on which calls may be under way
        self._nearby = None if self._beside is None else self._beside.nearby(address, trusting)
        self._attends_nearby = False  # whether it was there a moment ago
        self._address = address
        self._name = name
        self._fast: Channel | None = None
        self._fast_to = 0  # the server to which it leads
        self._asked = False
        self._closed = False
        self._unreachable = 0  # the server whose offer was tried in vain

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
    ) -> Pending[Any]:
        """See `Peer`."""
        silent = self._rpcs.silent
        if silent and not wait_for_ready:
            return ResumedCall(self, self._rpcs, method, request, scope)
        fast: Channel | None = None
        if (
            method is ATTEND_SESSION
        ):  # it would keep a connection; see LaneServer for that of one host
            if self._attends_nearby:
                self._attends_nearby, fast = False, self._fast
        elif wait_for_ready:  # there may be a new one
            fast = None if silent else self._look_nearby(scope)
        elif not silent:
            fast = self._fast or self._look_first(scope)
        if fast is not None:
            try:
                return fast.call(method, request, scope, watched=watched)
            except Unreachable as error:
                self._give_up(fast, error)
        pending = self._slow.call(method, request, scope, wait_for_ready)
        if method is CREATE_SESSION or method is GET_STATUS:
            self._asked = True
            pending.on_done(self._learn)
        elif not self._asked:
            self._ask()
        return pending

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """See `Peer`."""
        fast = self._fast or self._look_first(scope)
        if fast is not None and not self._rpcs.silent:
            try:
                return fast.begin(method, request, scope)
            except Unreachable as error:
                self._give_up(fast, error)
        return self.call(method, request, scope)

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""
        if self._rpcs.silent:
            with patient(scope, LIMITS.ready_patience_s) as late:
                return self.call(method, request, scope).wait(late)
        fast = self._fast or self._look_first(scope)
        if fast is not None:
            try:
                return fast.call_now(method, request, scope)
            except Unreachable as error:
                self._give_up(fast, error)
        if not self._asked:
            self._ask()
        return self._slow.call_now(method, request, scope)

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """See `Peer`.  Only over the transport beside the main one."""
        fast = self._fast or self._look_first(scope)
        if fast is not None and not self._rpcs.silent:
            try:
                return fast.tell(method, request, scope)
            except Unreachable as error:
                self._give_up(fast, error)
        return False

    def prepare(self, start: int = 0) -> None:
        """See `Peer`."""
        if start:
            self._leave_earlier(start)
        if not (self._asked or self._look_first(_WHENEVER)):
            self._ask()

    def listens(self, scope: Scope) -> bool:
        """See `Peer`."""
        return not self._rpcs.silent and self._main.listens(self._address, scope)

    def why_silent(self, scope: Scope) -> str:
        """See `Peer`."""
        return self._main.why_silent(self._address, self._security, scope)

    @property
    def _slow(self) -> Channel:
        """Over the main transport."""
        with self._lock:
            if self._main_channel is None:
                self._main_channel = self._main.connect(
                    Destination(
                        self._address,
                        self._name,
                        self._security,
                        self._rpcs,
                        self.cancelled_calls,
                        traffic=self.traffic,
                    )
                )
                if self._closed:
                    self._main_channel.close()
            return self._main_channel

    def _look_first(self, scope: Scope) -> Channel | None:
        """The server on this host, if nobody has looked for it since this was made."""
        return None if self._nearby is None else self._look_nearby(scope)

    def _look_nearby(self, scope: Scope) -> Channel | None:
        """The server that is there now, if it is found on this host.  Blocks for a moment."""
        beside = self._beside
        if beside is None or self._closed:
            return None
        with self._lock:
            nearby, self._nearby = self._nearby, None
        if nearby is None:
            nearby = beside.nearby(self._address, self._security)
            if nearby is None:
                return None
        left_s = scope.remaining()
        within_s = LIMITS.nearby_within_s
        if left_s is not None:
            within_s = min(within_s, left_s / 2)
        with ExitStack() as undo:
            undo.callback(nearby.close)
            offer = nearby.offer(within_s)
            if offer is None or offer.server == self._unreachable:
                return None
            self._asked = self._attends_nearby = True
            fast = self._fast
            if fast is not None and self._fast_to == offer.server:
                return fast
            self._lead_to(offer, nearby)
            undo.pop_all()
        return self._fast

    def _lead_to(self, offer: pb.LaneAddress, nearby: Nearby | None = None) -> None:
        """Take that way from now on, if another thread has not just done so."""
        assert self._beside is not None
        to = Destination(
            self._address,
            self.name,
            self._security,
            self._rpcs,
            self.cancelled_calls,
            offer,
            lost=self._lost,
            nearby=nearby,
            traffic=self.traffic,
        )
        with self._lock:
            unwanted: Channel | Nearby | None = self._fast
            if unwanted is not None and self._fast_to == offer.server:
                unwanted = nearby
            else:
                self._fast_to, self._fast = offer.server, self._beside.connect(to)
        if unwanted is not None:
            unwanted.close()
        if self._closed:  # meanwhile
            self._leave_fast()

    def _ask(self) -> None:
        """Ask for a better way, for calls to come; once, if there is an answer."""
        self._asked = True
        self._slow.call(GET_STATUS, pb.GetStatusRequest(), Scope(_ASK_WITHIN_S)).on_done(
            self._learn
        )

    def _learn(self, reply: Pending[Any]) -> None:
        """Take the way that the server offers, unless it is known not to lead there."""
        if reply.error is not None:
            self._asked = False
            return
        offer: pb.LaneAddress = reply.result().headrace_lane
        beside = self._beside
        if beside is None or offer.server == self._unreachable or not beside.leads_to(offer):
            return
        if self._fast is None or self._fast_to != offer.server:
            self._lead_to(offer)

    def _renew(self, start: int) -> None:
        """Connect anew, by the name, for calls to come: see `OutstandingRpcs.renew`."""
        if start:
            self._leave_earlier(start)
        with self._lock:
            if self._closed or self._main_channel is None:
                return
            earlier, self._earlier = self._earlier, self._main_channel
            self._main_channel = None
        if earlier is not None:
            earlier.close()

    def _leave_earlier(self, start: int) -> None:
        """That start of the server answers: what leads to another one is given up."""
        fast = self._fast
        if fast is not None and self._fast_to != start:
            self._drop(fast)
            self._asked = False

    def _leave_fast(self) -> None:
        with self._lock:
            fast, self._fast = self._fast, None
        if fast is not None:
            fast.close()

    def _give_up(self, fast: Channel, error: Unreachable) -> None:
        """Back to gRPC.  It is said once, and only if gRPC does lead to that server."""
        server = self._fast_to
        if not self._drop(fast):
            return
        self._unreachable = server

        def answered(reply: Pending[Any]) -> None:
            if reply.error is not None:
                self._asked = (
                    False  # it is gone, which is said where it matters; its next start is asked
                )
                return
            if reply.result().headrace_lane.server == server:
                _log.warning("%s; going on over gRPC, which is slower", error)
            else:
                self._learn(reply)  # it was started anew

        asking = Scope(_ASK_WITHIN_S)
        self._slow.call(GET_STATUS, pb.GetStatusRequest(), asking).on_done(answered)

    def _drop(self, fast: Channel) -> bool:
        """Use it no longer; false if that was so already."""
        with self._lock:
            if self._fast is not fast:
                return False
            self._fast = None
        fast.close()
        return True

    def _lost(self, told: Told) -> None:
        """Tell a worker for which steps it may wait in vain."""
        source = source_task(next(reversed(told.values())))
        request = pb.PushesLostRequest(source=source, step_id=told)
        call_with_retries(self._slow, PUSHES_LOST, request, Scope(_ASK_WITHIN_S))

    def close(self) -> None:
        """See `Peer`."""
        with self._lock:
            self._closed = True
            nearby, self._nearby = self._nearby, None
            channels = [each for each in (self._main_channel, self._earlier) if each is not None]
        if nearby is not None:
            nearby.close()
        self._leave_fast()
        for each in channels:
            each.close()
        self._rpcs.close()
