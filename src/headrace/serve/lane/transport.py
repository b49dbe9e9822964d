"""The lane, as a transport beside gRPC.

Called by: serve.connect.transports.
"""

from __future__ import annotations

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run import spans
from headrace.run.scope import Scope
from headrace.serve.lane.client import LanePeer
from headrace.serve.lane.connect import has_socket
from headrace.serve.lane.known import Nearby
from headrace.serve.lane.options import LaneOptions, lane_options
from headrace.serve.lane.wire import VERSION
from headrace.serve.rpc.options import max_message_bytes
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.transport import Destination, Serving
from headrace.serve.rpc.transport import Nearby as AnyNearby


class _Lane:
    """A `Transport`."""

    @property
    def on(self) -> bool:
        """See `Transport`."""
        return lane_options().on

    def leads_to(self, offer: pb.LaneAddress) -> bool:
        """See `Transport`.  Peers of another version do not speak it."""
        return offer.version == VERSION and has_socket(offer) and lane_options().on

    def connect(self, to: Destination) -> LanePeer:
        """See `Transport`."""
        assert to.offer is not None
        assert to.outstanding is not None
        host = to.address.rpartition(":")[0]
        kind = LanePeer
        if spans.wanted():
            from headrace.serve.lane.traced import TracedLanePeer

            kind = TracedLanePeer
        peer = kind(
            to.offer,
            host,
            to.name,
            max_message_bytes(),
            to.outstanding,
            to.security,
            to.lost,
            to.cancelled_calls,
            to.gave_up,
            to.traffic,
        )
        if isinstance(to.nearby, Nearby):
            peer.connect_early(to.nearby.sock)
        else:
            peer.connect_early()
        return peer

    def nearby(self, address: str, security: Security) -> AnyNearby | None:
        """See `Transport`.  TLS says who a server is, which a name does not."""
        if security.tls or not lane_options().unix:
            return None
        found = Nearby(address, security)
        return None if found.sock is None else found

    def listens(self, address: str, scope: Scope) -> bool:
        """See `Transport`.  It listens at no address."""
        return False

    def why_silent(self, address: str, security: Security, scope: Scope) -> str:
        """See `Transport`."""
        return ""

    def listen(self, serving: Serving) -> _Listener | None:
        """See `Transport`.

        Where gRPC goes over TLS there is no TCP port beside it that does not.
        """
        options = lane_options()
        return _Listener(serving, options) if options.on else None


class _Listener:
    """A `Listener`."""

    offer: pb.LaneAddress | None

    def __init__(self, serving: Serving, options: LaneOptions) -> None:
        """Raises Unknown: it cannot be bound."""
        from headrace.serve.lane.server import LaneServer  # no client needs it

        self._transport = LaneServer(
            serving.services,
            serving.pool,
            serving.start,
            serving.max_message_bytes,
            serving.security,
            serving.calls,
        )
        port = options.tcp_port if options.tcp and not serving.security.tls else None
        try:
            self.offer = self._transport.listen(serving.host.strip("[]"), port, options.unix)
        except OSError as error:
            self._transport.stop()
            raise errors.unknown(
                f"could not listen for headrace peers of {serving.task} on {serving.host}:{port}: {error}; another "
                "HEADRACE_LANE_PORT, or HEADRACE_LANE=off, helps"
            ) from error
        self.port = self.offer.tcp_port
        self._is_named = options.unix and not serving.security.tls

    def start(self, address: str) -> None:
        """See `Listener`.  It has begun, but for those who know nothing but the address."""
        if address and self._is_named:
            self._transport.listen_for(address)

    def stop(self, last_words_s: float = 0.0) -> None:
        """See `Listener`."""
        self._transport.stop(last_words_s)


TRANSPORT = _Lane()
