"""A small HTTP server: a thread a request, TLS where the cluster has it, WSGI applications within.

For a few who watch, not for the world: it answers what asks one request a connection, takes a bounded number of them at
a time, and gives up who dawdles.
Called by: serve.observe.metrics, tools.dashboard.  Threads: one accepts, one a connection; `stop` ends all.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import threading
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from headrace.base import errors
from headrace.serve.http.guard import Application, Guard
from headrace.serve.rpc.security import Security, is_loopback
from headrace.serve.rpc.tcp import addresses_of

_MOST_CONNECTIONS = 64
_DAWDLES_S = 20.0
_log = logging.getLogger("headrace.http")


def parse_place(text: str, what: str) -> tuple[str, int]:
    """(host, port) of `[ADDRESS:]PORT`; loopback where there is no address.  Raises InvalidArgument."""
    host, _, port = text.strip().rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise errors.invalid_argument(f"{what} {text!r} is not [ADDRESS:]PORT (port 0 to 65535)")
    return host or "127.0.0.1", int(port)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 32

    def __init__(self, family: int, address: Any, tls: ssl.SSLContext | None) -> None:
        self.address_family = family
        self.tls = tls
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """See socketserver.  Without asking DNS what the address is called."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """See socketserver."""
        if len(self._open) >= _MOST_CONNECTIONS:
            self.shutdown_request(request)
            return
        request.settimeout(_DAWDLES_S)
        if self.tls is not None:  # shakes hands when it is first read, on its own thread
            request = self.tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self._open.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        """See socketserver."""
        self._open.discard(request)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """See socketserver.  A browser that leaves is no news."""
        _log.debug("a request of %s ended early", client_address, exc_info=True)

    def hang_up(self) -> None:
        """End what is open."""
        for request in list(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    server: _Server
    server_version = "headrace"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:
        """See http.server."""
        _log.debug(format, *args)

    def get_environ(self) -> dict[str, Any]:
        """See wsgiref."""
        environ: dict[str, Any] = super().get_environ()
        if self.server.tls is not None:
            environ["HTTPS"] = "on"
        return environ

    def handle(self) -> None:
        """See http.server.  As wsgiref does it, with errors told to the log alone."""
        self.raw_requestline = self.rfile.readline(65537)
        if len(self.raw_requestline) > 65536 or not self.parse_request():
            return
        handler = _Run(
            self.rfile,
            self.wfile,  # type: ignore[arg-type]
            self.get_stderr(),
            self.get_environ(),
            multithread=True,
        )
        handler.request_handler = self  # type: ignore[attr-defined]
        handler.run(self.server.get_app())  # type: ignore[arg-type]


class _Run(ServerHandler):
    server_software = "headrace"

    def log_exception(self, exc_info: Any) -> None:
        """See wsgiref."""
        _log.warning("an answer failed", exc_info=exc_info)


class HttpServer:
    """See the module header.  url: where it is, with a / at the end."""

    def __init__(
        self, application: Application, place: tuple[str, int], security: Security, what: str
    ) -> None:
        """Listen; what: the thing that is served, for errors.

        Raises FailedPrecondition: others reach the address, and nothing keeps strangers out; Unknown: it is taken.
        """
        host, port = place
        try:
            ips = addresses_of(host)
        except RuntimeError as error:
            raise errors.unknown(f"{what} cannot listen on {host}:{port}: {error}") from error
        outside = [ip for ip in ips if not is_loopback(ip)]
        if outside and not security.keeps_strangers_out:
            raise errors.failed_precondition(
                f"{what} does not listen on {outside[0]}, which other machines can reach: whoever asks would see what "
                "the cluster does. Set HEADRACE_SECRET_FILE (`headrace token` then prints the token to show), or use "
                "TLS with client certificates (HEADRACE_TLS_CERT, _KEY, _CA, HEADRACE_TLS_CLIENTS=1); "
                "HEADRACE_INSECURE=1 lets everybody look"
            )
        family = socket.AF_INET6 if ":" in ips[0] else socket.AF_INET
        tls = None if security.certificate is None else _tls(security)
        try:
            self._server = _Server(family, (ips[0].strip("[]"), port), tls)
        except OSError as error:
            raise errors.unknown(
                f"{what} cannot listen on {host}:{port}: {error.strerror}; another port helps (0: any)"
            ) from error
        self._server.set_app(Guard(application, security, host))
        shown = f"[{host.strip('[]')}]" if ":" in host else host
        self.port = self._server.server_port
        self.url = f"{'http' if tls is None else 'https'}://{shown}:{self.port}/"
        self._thread = threading.Thread(target=self._accept, name=f"headrace {what}", daemon=True)
        self._stopping = False
        self._thread.start()

    def _accept(self) -> None:
        while not self._stopping:
            self._server.handle_request()

    def stop(self) -> None:
        """Free the port; what is being answered is cut off."""
        self._stopping = True
        with contextlib.suppress(OSError):  # which wakes the thread that accepts
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()


def _tls(security: Security) -> ssl.SSLContext:
    """Of the server's certificate, which is held in memory."""
    assert security.certificate is not None
    assert security.key is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with _as_file(security.certificate) as certificate, _as_file(security.key) as key:
        context.load_cert_chain(certificate, key)
    if security.clients_too:
        assert security.authorities is not None
        context.load_verify_locations(cadata=security.authorities.decode("ascii", "replace"))
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Any:
    """A path that leads to it, for no longer than needed, and for nobody else."""
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="headrace-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        yield path
    finally:
        os.unlink(path)
