"""gRPC, as the transport of servers' own addresses.

grpcio is loaded when it is first used: a client on the host of its cluster never does (see `Transport.nearby`).
Called by: serve.connect.transports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.imports import collects_nothing
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.tcp import listens
from headrace.serve.rpc.transport import Destination, Nearby, Serving

if TYPE_CHECKING:
    from headrace.serve.grpc.client import GrpcPeer


class _Grpc:
    """A `Transport`."""

    on = True

    def leads_to(self, offer: pb.LaneAddress) -> bool:
        """See `Transport`.  It is never offered: everybody listens over it."""
        return False

    def connect(self, to: Destination) -> GrpcPeer:
        """See `Transport`."""
        with collects_nothing():
            from headrace.serve.grpc.client import CONNECT_WITHIN_S, GrpcPeer
        within_s = CONNECT_WITHIN_S if to.connect_within_s is None else to.connect_within_s
        return GrpcPeer(
            to.address,
            to.name,
            to.outstanding,
            within_s,
            to.security,
            to.cancelled_calls,
            to.traffic,
        )

    def nearby(self, address: str, security: Security) -> Nearby | None:
        """See `Transport`.  It is at the address."""
        return None

    def listens(self, address: str, scope: Scope) -> bool:
        """See `Transport`."""
        return listens(address, scope)

    def why_silent(self, address: str, security: Security, scope: Scope) -> str:
        """See `Transport`."""
        from headrace.serve.grpc.unreachable import why

        return why(address, security, scope)

    def listen(self, serving: Serving) -> _Listener:
        """See `Transport`."""
        return _Listener(serving)


class _Listener:
    """A `Listener`."""

    offer: pb.LaneAddress | None = None

    def __init__(self, serving: Serving) -> None:
        """Raises RuntimeError: the address is taken, or none of this host's."""
        with collects_nothing():
            from headrace.serve.grpc.server import GrpcServer
        self._transport = GrpcServer(
            serving.services,
            serving.pool,
            serving.max_message_bytes,
            serving.security,
            serving.calls,
        )
        self.port = self._transport.bind(f"{serving.host}:{serving.port}")

    def start(self, address: str) -> None:
        """See `Listener`."""
        self._transport.start()

    def stop(self, last_words_s: float = 0.0) -> None:
        """See `Listener`."""
        self._transport.stop(last_words_s)


TRANSPORT = _Grpc()
