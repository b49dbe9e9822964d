"""The gRPC transport, client side: a peer behind ``host:port``.

Calls are futures, so that Ctrl-C and deadlines end a wait at once; a connection that does not come
up is tried again quickly, and `wait_for_ready` calls wait for it.
Called by: serve.connect.routed.  Threads: any; replies are completed on grpcio's.
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.uninterrupted import changes
from headrace.serve.grpc.call import GrpcCall
from headrace.serve.grpc.grpcio import grpc
from headrace.serve.grpc.server import (
    CALL_KEY,
    GIVEN_UP_KEY,
    GRPC_MOST_BYTES,
    PATIENCE_KEY,
    TOKEN_KEY,
)
from headrace.serve.rpc.cancelled_calls import MOST_BY_GRPC, CancelledCalls, new_number
from headrace.serve.rpc.encoding import INLINE
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.names import grpc_target
from headrace.serve.rpc.options import max_message_bytes
from headrace.serve.rpc.peer import peer_name
from headrace.serve.rpc.security import Security, chosen
from headrace.serve.rpc.tcp import listens
from headrace.serve.rpc.traffic import Traffic
from headrace.serve.rpc.transport import Outstanding
from headrace.serve.rpc.waiting import patient

CONNECT_WITHIN_S = 2.0  # far away, over TLS, or a packet was lost on the way


@changes
class GrpcPeer:
    """A `Peer` over gRPC."""

    remote = True

    def __init__(
        self,
        address: str,
        name: str = "",
        rpcs: Outstanding | None = None,
        connect_within_s: float = CONNECT_WITHIN_S,
        trusting: Security | None = None,
        cancelled_calls: CancelledCalls | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        """rpcs: of that server, if it is to be seen whether it lives.  cancelled_calls: of it, if it is asked for
        steps.  traffic: of it.

        connect_within_s: how long one attempt to connect may take.  trusting: None: as the
        environment says.
        """
        trusting = chosen(trusting)
        self.name = peer_name(address, name)
        self.traffic = Traffic() if traffic is None else traffic
        self._address = address
        self._rpcs = rpcs
        self.cancelled_calls = CancelledCalls() if cancelled_calls is None else cancelled_calls
        options = [
            ("grpc.max_receive_message_length", min(max_message_bytes(), GRPC_MOST_BYTES)),
            ("grpc.max_send_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", round(connect_within_s * 1000)),
            ("grpc.max_reconnect_backoff_ms", 250),
            # A task that was moved has another address under its name; by default that is asked for every 30 s at most.
            ("grpc.dns_min_time_between_resolutions_ms", 100),
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if trusting.tls:
            credentials = grpc.ssl_channel_credentials(
                trusting.authorities, trusting.key, trusting.certificate
            )
            self._channel = grpc.secure_channel(grpc_target(address), credentials, options=options)
        else:
            self._channel = grpc.insecure_channel(grpc_target(address), options=options)
        token = trusting.token
        self._shown = ((TOKEN_KEY, token),) if token else ()
        self._stubs: dict[str, Any] = {}

    @property
    def stale(self) -> bool:
        """See `Peer`.  A channel connects again by itself."""
        return False

    def call(
        self,
        method: Method,
        request: Any,
        scope: Scope,
        wait_for_ready: bool = False,
        watched: bool = True,
    ) -> Pending[Any]:
        """See `Peer`.  Fails with Unavailable naming the address if nobody answers there."""
        stub = self._stubs.get(method.path)
        if stub is None:
            stub = self._stubs[method.path] = self._channel.unary_unary(method.path)
        error = scope.error
        if error is not None:
            return Pending.failed_with(error)
        remaining = scope.remaining()
        limit: dict[str, Any] = {}
        metadata = self._shown
        if remaining is not None:
            limit["timeout"] = remaining + LIMITS.call_patience_s
            metadata = ((PATIENCE_KEY, str(LIMITS.call_patience_s)), *metadata)
        number, told = 0, None
        if method.runs_steps:
            number = new_number()
            metadata = (*metadata, (CALL_KEY, str(number)))
            if self.cancelled_calls.any:
                told = self.cancelled_calls.request(MOST_BY_GRPC)
                metadata = (*metadata, (GIVEN_UP_KEY, told.SerializeToString()))
        if metadata:
            limit["metadata"] = metadata
        data = method.encode_request(request, INLINE)
        size = len(data)
        self.traffic.sent += size
        try:
            future = stub.future(data, wait_for_ready=wait_for_ready, **limit)
        except ValueError as closed:  # the channel, by close() or by the garbage collector
            return Pending.failed_with(errors.cancelled(f"{self.name}: {closed}"))
        rpcs = None if wait_for_ready else self._rpcs  # it need not be up yet
        return GrpcCall(self, method, scope, future, rpcs, number, told)

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """See `Peer`."""
        return self.call(method, request, scope)

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""
        pending = self.call(method, request, scope)
        with patient(scope, LIMITS.call_patience_s) as late:
            return pending.wait(late)

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """See `Peer`.  Never: the reply tells whether the request arrived."""
        return False

    def prepare(self, start: int = 0) -> None:
        """See `Peer`.  There is one way."""

    def listens(self, scope: Scope) -> bool:
        """See `Peer`."""
        return listens(self._address, scope)

    def why_silent(self, scope: Scope) -> str:
        """See `Peer`.  It is asked by whoever has the address."""
        return ""

    def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        self._channel.close()
