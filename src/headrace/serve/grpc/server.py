"""The gRPC transport, server side: both services on TensorFlow's method paths.

What grpcio does by itself and this undoes: a fixed thread pool (ours grows, so blocked dequeues
keep nobody out), threads that keep a finished program alive (ours are daemons), two servers on one
port (SO_REUSEPORT is off), a limit of 4 MB a message (ours is configurable).
Called by: serve.server.  Threads: one of the pool per call under way; none for calls that last.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import MOST_S, Scope
from headrace.serve.grpc.grpcio import grpc
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.cancelled_calls import Calls
from headrace.serve.rpc.encoding import INLINE, parse
from headrace.serve.rpc.methods import GIVE_UP, Method
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security
from headrace.serve.rpc.status import as_op_error, text_of, to_detail
from headrace.serve.rpc.step_channel import LENDS
from headrace.serve.rpc.tcp import addresses_of
from headrace.serve.rpc.vanished import server_options

DETAIL_KEY = "headrace-error-bin"
PATIENCE_KEY = "headrace-patience-s"
TOKEN_KEY = "headrace-token"
CALL_KEY = "headrace-call"
GIVEN_UP_KEY = "headrace-given-up-bin"
GRPC_MOST_BYTES = (1 << 31) - 1
_HEAD_START, _MOST_HEAD_START_S = 0.1, 0.1  # as a share of the time that is left
_MOST_TEXT = 3000  # characters of an error's text; HTTP/2 headers are small
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class _Services(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, handlers: dict[str, grpc.RpcMethodHandler], trusting: Security) -> None:
        self._handlers = handlers
        self._trusting = trusting
        # It takes a stream, which it does not read: nothing of a stranger's message is received.
        self._refusing = grpc.stream_unary_rpc_method_handler(_refuse)

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call; one that refuses it, whatever is in it, if the caller is a stranger."""
        if self._trusting.secret:
            shown = dict(handler_call_details.invocation_metadata).get(TOKEN_KEY, "")
            if not self._trusting.may_call(shown if isinstance(shown, str) else ""):
                return self._refusing
        return self._handlers.get(handler_call_details.method)


def _refuse(unread: object, context: grpc.ServicerContext) -> bytes:
    _fail(
        context,
        errors.unauthenticated(
            "the caller does not know the secret of this server; set HEADRACE_SECRET_FILE to the file that the server "
            "has"
        ),
    )
    return b""


class GrpcServer:
    """A listening gRPC server for a table of methods."""

    def __init__(
        self,
        services: Iterable[tuple[Any, Iterable[Method]]],
        pool: GrowingPool,
        max_message_bytes: int,
        trusting: Security,
        calls: Calls,
    ) -> None:
        """services: (service object, its methods).  calls: of all the server's transports."""
        self._trusting = trusting
        services = list(services)
        give_up = next(service.give_up for service, methods in services if GIVE_UP in methods)
        numbered = _Numbered(calls, give_up)
        handlers = {
            method.path: grpc.unary_stream_rpc_method_handler(_lasting(service, method, pool))
            if method.lasting
            else grpc.unary_unary_rpc_method_handler(_handler(service, method, numbered))
            for service, methods in services
            for method in methods
        }
        self._server = grpc.server(
            pool,
            handlers=[_Services(handlers, trusting)],
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", min(max_message_bytes, GRPC_MOST_BYTES)),
                ("grpc.max_send_message_length", -1),
                ("grpc.http2.min_ping_interval_without_data_ms", 5000),
                ("grpc.http2.max_ping_strikes", 0),
                *server_options(),
            ],
        )

    def bind(self, address: str) -> int:
        """Bind every address that HOST:PORT stands for; returns the port.

        Raises RuntimeError if any is taken: gRPC alone is content with one of them, and would share
        ``localhost`` with a stranger who has the port on the other.  InvalidArgument: certificates that are none.
        """
        host, _, text = address.rpartition(":")
        port = int(text)
        for ip in addresses_of(host):
            port = self._bind(ip, port)
        return port

    def _bind(self, ip: str, port: int) -> int:
        trusting = self._trusting
        try:
            if trusting.certificate is None:
                bound: int = self._server.add_insecure_port(f"{ip}:{port}")
            else:
                credentials = grpc.ssl_server_credentials(
                    [(trusting.key, trusting.certificate)],
                    trusting.authorities,
                    trusting.clients_too,
                )
                bound = self._server.add_secure_port(f"{ip}:{port}", credentials)
        except RuntimeError:
            bound = 0
        if bound:
            return bound
        if trusting.certificate is not None and _is_free(ip, port):
            raise errors.invalid_argument(
                "gRPC cannot use the certificate, its private key or the authorities (HEADRACE_TLS_CERT, _KEY, _CA): "
                "they must be PEM, and the key that of the certificate"
            )
        raise RuntimeError(f"cannot listen on {ip}:{port}")

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self, grace_s: float | None) -> None:
        """Stop listening, give calls under way `grace_s`, wait until all have ended."""
        self._server.stop(grace_s).wait()


def _is_free(ip: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.create_server((ip.strip("[]"), port), family=family):
            return True
    except OSError:
        return False


class _Numbered:
    """Calls that run steps, by the numbers that callers of ours give them: see serve.rpc.cancelled_calls."""

    def __init__(self, calls: Calls, give_up: Callable[[pb.GiveUpRequest, Scope], Any]) -> None:
        self._calls = calls
        self._give_up = give_up

    def begin(self, context: grpc.ServicerContext, scope: Scope) -> int:
        """End what the caller has given up before; the number of this call, 0 for none.  Raises InvalidArgument."""
        number = 0
        for name, value in context.invocation_metadata():
            if name == GIVEN_UP_KEY:
                self._give_up(parse(pb.GiveUpRequest, value), scope)
            elif name == CALL_KEY and value.isdecimal():
                number = int(value)

        def end() -> bool:
            scope.cancel(errors.cancelled("the caller has given up the call"))
            return True

        if number and not self._calls.add(number, end):
            end()
        return number

    def end(self, number: int) -> None:
        """It is over."""
        if number:
            self._calls.forget(number)


def when_gone(context: grpc.ServicerContext, then: Callable[[], None]) -> None:
    """Call `then` once the caller has hung up or the call is over: at once, if that is so already."""
    if not context.add_callback(then):
        then()


def _handler(
    service: Any, method: Method, numbered: _Numbered
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    handle = getattr(service, method.handler)
    ordered = method.runs_steps
    more = (LENDS,) if getattr(handle, "takes_caller", False) else ()

    def serve(data: bytes, context: grpc.ServicerContext) -> bytes:
        stored = False
        number = 0
        with Scope(_time_limit_s(context)) as scope:

            def gone() -> None:
                scope.cancel(errors.cancelled("the caller is gone"))

            when_gone(context, gone)
            try:
                request = method.decode_request(data, INLINE)
                stored = getattr(request, "store_errors_in_response_body", False)
                if ordered:
                    number = numbered.begin(context, scope)
                scope.check()  # this process may have been stopped, and the caller gone long ago
                reply = handle(request, scope, *more)
                if isinstance(reply, Pending):
                    reply = reply.wait(scope)
                try:
                    return method.encode_reply(reply, INLINE)
                finally:
                    m.release(reply)
            except Exception as error:  # the caller gets every failure
                failure = as_op_error(error, method.name)
                try:
                    if stored and method.error_in_reply is not None:
                        return method.error_in_reply(failure)
                    _fail(context, failure)
                finally:
                    del failure  # whose traceback holds this frame
            finally:
                numbered.end(number)
        return b""

    return serve


def _lasting(service: Any, method: Method, pool: GrowingPool) -> Callable[..., None]:
    """The handler of a method whose calls may last for days: a thread for the request, and one for the reply.

    Its reply is a stream of one message, which to the caller is the same: that is where grpcio lets a handler return
    before the reply is there.
    """
    handle = getattr(service, method.handler)

    def serve(data: bytes, context: grpc.ServicerContext, send: Callable[[Any], None]) -> None:
        def tell(done: Pending[Any]) -> None:
            try:
                send(method.encode_reply(done.result(), INLINE))
            except Exception as error:  # the caller gets every failure
                _fail(context, as_op_error(error, method.name))
            send(None)

        def tell_soon(done: Pending[Any]) -> None:  # on a thread that must not wait
            if context.is_active():
                with contextlib.suppress(RuntimeError):  # the server ends, and the call with it
                    pool.submit(tell, done)

        try:
            reply: Pending[Any] = handle(method.decode_request(data, INLINE), Scope())
        except Exception as error:
            reply = Pending.failed_with(as_op_error(error, method.name))
        if reply.done:
            tell(reply)
            return
        gone = errors.cancelled("the caller is gone")
        reply.on_done(tell_soon)
        if not context.add_callback(lambda: reply.abandon(gone)):
            reply.abandon(gone)

    serve.experimental_non_blocking = True  # type: ignore[attr-defined]
    return serve


def _time_limit_s(context: grpc.ServicerContext) -> float | None:
    """The caller's deadline, less what it takes to end the work and to say so before the caller gives up.

    A caller of ours waits that much longer by itself; with others the time is taken from theirs: whoever is told that
    its dequeue was too late must not lose the next element to it.
    """
    remaining: float | None = context.time_remaining()
    if remaining is None or remaining > MOST_S:  # grpcio's way to say that there is none
        return None
    for name, value in context.invocation_metadata():
        if name == PATIENCE_KEY and (patience_s := _seconds(value)) is not None:
            return max(remaining - patience_s, 0.0)
    return max(remaining - min(remaining * _HEAD_START, _MOST_HEAD_START_S), 0.0)


def _seconds(text: str) -> float | None:
    """A number of seconds that a caller named; None for what is none."""
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if 0 <= seconds < MOST_S:
            return seconds
    return None


def _fail(context: grpc.ServicerContext, error: errors.OpError) -> None:
    """End the call with the error's code and text, and its fields for our own clients."""
    detail = to_detail(error)
    if len(detail.message) > _MOST_TEXT:
        detail.message = detail.message[:_MOST_TEXT] + "…"
    with contextlib.suppress(Exception):  # the call may be over
        context.set_trailing_metadata(((DETAIL_KEY, detail.SerializeToString()),))
    context.set_code(_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN))
    context.set_details(text_of(error)[:_MOST_TEXT])
