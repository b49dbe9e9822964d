"""The gRPC transport, client side: a peer behind ``host:port``.

Calls are futures, so that Ctrl-C and deadlines end a wait at once; a connection that does not come
up is tried again quickly, and `wait_for_ready` calls wait for it.
Called by: serve.connect.routed.  Threads: any; replies are completed on grpcio's.
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.run.pending import Pending, WaitInfo
from headrace.run.scope import Scope
from headrace.run.uninterrupted import changes
from headrace.serve.grpc.grpcio import grpc
from headrace.serve.grpc.server import (
    CALL_KEY,
    DETAIL_KEY,
    GIVEN_UP_KEY,
    GRPC_MOST_BYTES,
    PATIENCE_KEY,
    TOKEN_KEY,
)
from headrace.serve.rpc.cancelled_calls import MOST_BY_GRPC, ORDERED, CancelledCalls, new_number
from headrace.serve.rpc.gather import Begun
from headrace.serve.rpc.methods import INLINE, Method
from headrace.serve.rpc.options import max_message_bytes
from headrace.serve.rpc.peer import peer_name
from headrace.serve.rpc.security import Security, chosen
from headrace.serve.rpc.status import as_op_error, from_bytes, from_text
from headrace.serve.rpc.tcp import listens
from headrace.serve.rpc.transport import Outstanding
from headrace.serve.rpc.waiting import passed_deadline, patient

_PATIENCE_S = 0.05  # past the deadline: the other side, which knows more, reports it first
CONNECT_WITHIN_S = 2.0  # far away, over TLS, or a packet was lost on the way
_CUT_SHORT = "CANCELLED"  # gRPC's own text, where no handler has said anything
_PATIENCE = ((PATIENCE_KEY, str(_PATIENCE_S)),)


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
    ) -> None:
        """rpcs: of that server, if it is to be seen whether it lives.  cancelled_calls: of it, if it is asked for
        steps.

        connect_within_s: how long one attempt to connect may take.  trusting: None: as the
        environment says.
        """
        trusting = chosen(trusting)
        self.name = peer_name(address, name)
        self._address = address
        self._rpcs = rpcs
        self.cancelled_calls = CancelledCalls() if cancelled_calls is None else cancelled_calls
        options = [
            ("grpc.max_receive_message_length", min(max_message_bytes(), GRPC_MOST_BYTES)),
            ("grpc.max_send_message_length", -1),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", round(connect_within_s * 1000)),
            ("grpc.max_reconnect_backoff_ms", 250),
            ("grpc.enable_http_proxy", 0),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if trusting.tls:
            credentials = grpc.ssl_channel_credentials(
                trusting.authorities, trusting.key, trusting.certificate
            )
            self._channel = grpc.secure_channel(address, credentials, options=options)
        else:
            self._channel = grpc.insecure_channel(address, options=options)
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
            limit["timeout"] = remaining + _PATIENCE_S
            metadata = (*_PATIENCE, *metadata)
        number, told = 0, None
        if method in ORDERED:
            number = new_number()
            metadata = (*metadata, (CALL_KEY, str(number)))
            if self.cancelled_calls.any:
                told = self.cancelled_calls.request(MOST_BY_GRPC)
                metadata = (*metadata, (GIVEN_UP_KEY, told.SerializeToString()))
        if metadata:
            limit["metadata"] = metadata
        data = method.encode_request(request, INLINE)
        try:
            future = stub.future(data, wait_for_ready=wait_for_ready, **limit)
        except ValueError as closed:  # the channel, by close() or by the garbage collector
            return Pending.failed_with(errors.cancelled(f"{self.name}: {closed}"))

        def gave_up() -> None:
            if number:
                self.cancelled_calls.add(calls=(number,))

        def withdraw(_: Pending[Any]) -> bool:
            gave_up()
            future.cancel()
            return True

        pending: Pending[Any] = Pending(WaitInfo(method.name, self.name), withdraw)

        def ended() -> None:
            if not passed_deadline(scope):  # which gRPC sees to
                pending.abandon(scope.error or errors.cancelled("the call was cancelled"))

        def lost(failure: errors.OpError) -> None:
            gave_up()
            pending.reject(failure)
            future.cancel()

        rpcs = None if wait_for_ready else self._rpcs  # it need not be up yet
        if rpcs is not None:
            rpcs.add(pending, lost)
        unregister = scope.on_cancel(ended)

        def arrived(done: Any) -> None:
            unregister()
            if rpcs is not None:
                rpcs.settle(pending)
            answered = done.code() is grpc.StatusCode.OK
            if told is not None and (answered or _is_answer(done)):
                self.cancelled_calls.heard(told)
            if not answered:  # `result` would raise `done`, which then holds this frame
                if not (pending.done or _is_answer(done)):
                    gave_up()
                if done.cancelled():
                    failed: errors.OpError = errors.cancelled(
                        f"{method.name} to {self.name} was cancelled"
                    )
                else:
                    failed = self._error(done, method)
                pending.reject(failed)
                return
            if rpcs is not None:
                rpcs.answered()
            try:
                reply = method.decode_reply(done.result(), INLINE)
            except Exception as failure:  # a reply that cannot be understood
                pending.reject(as_op_error(failure, f"{method.name} of {self.name}"))
            else:
                pending.resolve(reply)

        future.add_done_callback(arrived)
        return pending

    def begin(self, method: Method, request: Any, scope: Scope) -> Begun | Pending[Any]:
        """See `Peer`."""
        return self.call(method, request, scope)

    def call_now(self, method: Method, request: Any, scope: Scope) -> Any:
        """See `Peer`."""
        pending = self.call(method, request, scope)
        with patient(scope, _PATIENCE_S) as late:
            return pending.wait(late)

    def tell(self, method: Method, request: Any, scope: Scope) -> bool:
        """See `Peer`.  Never: the reply tells whether the request arrived."""
        return False

    def _error(self, failure: Any, method: Method) -> errors.OpError:
        for name, value in failure.trailing_metadata() or ():
            if name == DETAIL_KEY:
                return from_bytes(value)
        code = failure.code()
        number = code.value[0] if code is not None else errors.UNKNOWN
        text = failure.details() or code
        if (
            number == errors.CANCELLED and text == _CUT_SHORT
        ):  # by the other side: ours is a future's
            return errors.unavailable(f"{self.name} ended {method.name} unanswered: it was stopped")
        if number == errors.UNAVAILABLE:
            return errors.unavailable(
                f"{self.name} cannot be reached ({method.name}): {text}; is a server running there?"
            )
        if number == errors.DEADLINE_EXCEEDED:
            return errors.deadline_exceeded(
                f"{self.name} did not answer {method.name} in time: {text}"
            )
        if number == errors.UNIMPLEMENTED:
            return errors.unimplemented(f"{self.name} does not implement {method.name}: {text}")
        return from_text(number, str(text))

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


def _is_answer(failure: Any) -> bool:
    """Whether a server of ours has said it, and not gRPC."""
    return any(name == DETAIL_KEY for name, _ in failure.trailing_metadata() or ())
