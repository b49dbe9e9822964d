"""One start of a task, asked for steps over the transport beside the main one, or not at all.

On this host it is found there by its address; elsewhere it is asked over the main transport where it listens.
Called by: client.direct.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.liveness import OutstandingRpcs
from headrace.serve.connect.transports import transports
from headrace.serve.rpc.cancelled_calls import cancelled_calls_of
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import GET_STATUS
from headrace.serve.rpc.peer import peer_name
from headrace.serve.rpc.security import Security, chosen
from headrace.serve.rpc.transport import Channel, Destination, Nearby, Transport


class DirectRoute:
    """See the module header."""

    def __init__(
        self,
        address: str,
        task: str,
        start: int,
        security: Security | None,
        gave_up: Callable[[int], object],
    ) -> None:
        """start: its incarnation.  gave_up: called, from any thread, with the number of a call that was given up."""
        self.name = peer_name(address, task)
        self._start = start
        self._gave_up = gave_up
        self._security = chosen(security)
        self._address = address
        self._task = task

        def probe(answer_s: float) -> Channel:
            return transports().main.connect(
                Destination(address, task, self._security, connect_within_s=answer_s)
            )

        self._rpcs = OutstandingRpcs(self.name, probe)
        self._reached: Channel | None = None  # once

    @property
    def silent(self) -> bool:
        """Whether it was found not to live, and has not been heard of since."""
        return self._rpcs.silent

    def reach(self, scope: Scope) -> Channel:
        """The way, with a connection.  Raises OpError, Unreachable."""
        beside = transports().beside
        if beside is None:
            raise errors.failed_precondition("there is no lane")
        with ExitStack() as undo:
            nearby = beside.nearby(self._address, self._security)
            offer = None
            if nearby is not None:
                undo.callback(nearby.close)
                offer = nearby.offer(LIMITS.nearby_within_s)
            if offer is None:
                nearby = None
                offer = self._asked_for_offer(scope)
            elif offer.server != self._start:
                raise errors.failed_precondition("another server answers there")
            if not beside.leads_to(offer):
                raise errors.failed_precondition("it has no lane that leads there")
            if self._reached is None:
                self._reached = self._connected(beside, offer, nearby)
                undo.pop_all()
        self._reached.call_now(GET_STATUS, pb.GetStatusRequest(), scope)
        self._rpcs.answered()
        return self._reached

    def _connected(
        self, beside: Transport, offer: pb.LaneAddress, nearby: Nearby | None
    ) -> Channel:
        return beside.connect(
            Destination(
                self._address,
                self.name,
                self._security,
                self._rpcs,
                cancelled_calls_of(self._address),
                offer,
                gave_up=self._gave_up,
                nearby=nearby,
            )
        )

    def _asked_for_offer(self, scope: Scope) -> pb.LaneAddress:
        """Where it is reached beside the main transport, as it says over that."""
        asked = transports().main.connect(Destination(self._address, self._task, self._security))
        try:
            status = asked.call(GET_STATUS, pb.GetStatusRequest(), scope, wait_for_ready=True).wait(
                scope
            )
        finally:
            asked.close()
        if all(device.incarnation != self._start for device in status.device_attributes):
            raise errors.failed_precondition("another server answers there")
        offer: pb.LaneAddress = status.headrace_lane
        return offer

    def close(self) -> None:
        """Close the connections; those with a step when it has ended."""
        if self._reached is not None:
            self._reached.close()
        self._rpcs.close()
