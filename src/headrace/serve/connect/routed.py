"""A peer behind ``host:port``: over gRPC, and over the lane as soon as it has said that it has one.

Called by: serve.connect.peers.connect.  Threads: any.
"""

from __future__ import annotations

import logging
from typing import Any

from headrace.codec import protos as pb
from headrace.run.exec.keys import source_task
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.liveness import OutstandingRpcs, Revived
from headrace.serve.connect.retries import call_with_retries
from headrace.serve.connect.unreachable import why
from headrace.serve.grpc.client import GrpcPeer, peer_name
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.connect import Unreachable, leads_here
from headrace.serve.lane.connection import Told
from headrace.serve.lane.options import lane_options, max_message_bytes
from headrace.serve.lane.wire import VERSION
from headrace.serve.rpc.cancelled_calls import cancelled_calls_of
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.methods import (
    ATTEND_SESSION,
    CREATE_SESSION,
    GET_STATUS,
    PUSHES_LOST,
    Method,
)
from headrace.serve.rpc.security import Security, chosen
from headrace.serve.rpc.tcp import listens
from headrace.serve.rpc.waiting import patient

_ASK_WITHIN_S = 5.0
_PATIENCE_S = 0.01  # past the deadline, so that its error says what was waited for

_log = logging.getLogger("headrace")


class RoutedPeer:
    """A `Peer` at a gRPC address."""

    remote = True
    stale = False  # either way it connects again by itself

    def __init__(self, address: str, name: str, trusting: Security | None = None) -> None:
        """trusting: what it asks of the server and shows it; None: as the environment says."""
        self.name = peer_name(address, name)
        self._security = trusting = chosen(trusting)

        def probe(answer_s: float) -> GrpcPeer:
            return GrpcPeer(address, name, connect_within_s=answer_s, trusting=trusting)

        self._rpcs = OutstandingRpcs(self.name, probe)
        self.cancelled_calls = cancelled_calls_of(address)
        self._grpc = GrpcPeer(
            address, name, self._rpcs, trusting=trusting, cancelled_calls=self.cancelled_calls
        )
        self._address = address
        self._host = address.rpartition(":")[0]
        self._lane: LanePeer | None = None
        self._asked = False
        self._unreachable = 0  # the server whose lane was tried in vain

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
            return Revived(self, self._rpcs, method, request, scope)
        # The one would keep a connection; who waits for the server to be ready may have an old one.
        lane = None if method is ATTEND_SESSION or wait_for_ready else self._lane
        if not silent and lane is not None:
            try:
                return lane.call(method, request, scope, watched)
            except Unreachable as error:
                self._give_up(lane, error)
        pending = self._grpc.call(method, request, scope, wait_for_ready)
        if method is CREATE_SESSION or method is GET_STATUS:
            self._asked = True
            pending.on_done(self._learn)
        elif not self._asked:
            self._ask()
        return pending

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """See `Peer`."""
        lane = self._lane
        if lane is not None and not self._rpcs.silent:
            try:
                return lane.begin(method, request, scope)
            except Unreachable as error:
                self._give_up(lane, error)
        return self.call(method, request, scope)

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""
        if self._rpcs.silent:
            with patient(scope, _PATIENCE_S) as late:
                return self.call(method, request, scope).wait(late)
        lane = self._lane
        if lane is not None:
            try:
                return lane.call_now(method, request, scope)
            except Unreachable as error:
                self._give_up(lane, error)
        if not self._asked:
            self._ask()
        return self._grpc.call_now(method, request, scope)

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """See `Peer`.  Only over the lane."""
        lane = self._lane
        if lane is not None and not self._rpcs.silent:
            try:
                lane.tell(method, request, scope)
                return True
            except Unreachable as error:
                self._give_up(lane, error)
        return False

    def prepare(self, start: int = 0) -> None:
        """See `Peer`."""
        lane = self._lane
        if start and lane is not None and lane.lane.server != start:
            self._drop(lane)
            self._asked = False
        if not self._asked:
            self._ask()

    def listens(self, scope: Scope) -> bool:
        """See `Peer`."""
        return not self._rpcs.silent and listens(self._address, scope)

    def why_silent(self, scope: Scope) -> str:
        """See `Peer`."""
        return why(self._address, self._security, scope)

    def _ask(self) -> None:
        """Ask for the lane, for calls to come; once, if there is an answer."""
        self._asked = True
        self._grpc.call(GET_STATUS, pb.GetStatusRequest(), Scope(_ASK_WITHIN_S)).on_done(
            self._learn
        )

    def _learn(self, reply: Pending[Any]) -> None:
        """Take the lane that the server offers, unless it is known not to lead there."""
        if reply.error is not None:
            self._asked = False
            return
        offered: pb.LaneAddress = reply.result().headrace_lane
        if offered.version != VERSION or offered.server == self._unreachable:
            return
        if not leads_here(offered):
            return
        if lane_options().on and (self._lane is None or self._lane.lane.server != offered.server):
            earlier, self._lane = (
                self._lane,
                LanePeer(
                    offered,
                    self._host,
                    self.name,
                    max_message_bytes(),
                    self._rpcs,
                    self._security,
                    self._lost,
                    self.cancelled_calls,
                ),
            )
            if earlier is not None:
                earlier.close()

    def _give_up(self, lane: LanePeer, error: Unreachable) -> None:
        """Back to gRPC.  It is said once, and only if gRPC does lead to that server."""
        if not self._drop(lane):
            return
        self._unreachable = lane.lane.server

        def answered(reply: Pending[Any]) -> None:
            if reply.error is not None:
                self._asked = (
                    False  # it is gone, which is said where it matters; its next start is asked
                )
                return
            if reply.result().headrace_lane.server == lane.lane.server:
                _log.warning("%s; going on over gRPC, which is slower", error)
            else:
                self._learn(reply)  # it was started anew

        asking = Scope(_ASK_WITHIN_S)
        self._grpc.call(GET_STATUS, pb.GetStatusRequest(), asking).on_done(answered)

    def _drop(self, lane: LanePeer) -> bool:
        """Use it no longer; false if that was so already."""
        if self._lane is not lane:
            return False
        self._lane = None
        lane.close()
        return True

    def _lost(self, told: Told) -> None:
        """Tell a worker for which steps it may wait in vain."""
        source = source_task(next(reversed(told.values())))
        request = pb.PushesLostRequest(source=source, step_id=told)
        call_with_retries(self._grpc, PUSHES_LOST, request, Scope(_ASK_WITHIN_S))

    def close(self) -> None:
        """See `Peer`."""
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()
        self._grpc.close()
        self._rpcs.close()
