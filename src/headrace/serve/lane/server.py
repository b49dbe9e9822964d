"""The lane, server side: both services on framed sockets.

What becomes of a connection is said by serve.lane.served.
Called by: serve.server.  Threads: any; a connection is accepted on the event loop's.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterable
from typing import Any

from headrace.codec import protos as pb
from headrace.serve.lane import known
from headrace.serve.lane.accepting import BACKLOG, accepts
from headrace.serve.lane.event_loop import event_loop
from headrace.serve.lane.handler import Handler
from headrace.serve.lane.multiplexer import Multiplexer
from headrace.serve.lane.peer_log import PeerLog, peer_of
from headrace.serve.lane.served import ServedConnection
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.unix_socket import address_of
from headrace.serve.lane.wire import (
    CODECS,
    CONTEXT,
    UNTRUSTED_BYTES,
    VERSION,
    host_id,
)
from headrace.serve.rpc.cancelled_calls import Calls
from headrace.serve.rpc.methods import Method
from headrace.serve.rpc.pool import GrowingPool
from headrace.serve.rpc.security import Security

_MOST_LINGERING = 32  # threads that wait longer than that

_log = logging.getLogger("headrace")


class LaneServer:
    """Listening sockets for a table of methods."""

    def __init__(
        self,
        services: Iterable[tuple[Any, Iterable[Method]]],
        pool: GrowingPool,
        server: int,
        max_message_bytes: int,
        trusting: Security,
        calls: Calls,
    ) -> None:
        """services: (service object, its methods).  server: a number of this start of the server.

        calls: of all the server's transports.
        """
        self.trusting = trusting
        self.calls = calls
        self.server = server
        self.pool = pool
        self.max_message_bytes = max_message_bytes
        self.handlers = {
            CODECS[method].number: Handler.of(method, service)
            for service, methods in services
            for method in methods
        }
        self.that_last = {number for number, each in self.handlers.items() if each.lasting}
        self.that_last.add(CONTEXT)  # which is no call either
        self._listeners: list[socket.socket] = []
        self._folder = ""
        self.lingering = threading.Semaphore(_MOST_LINGERING)
        self.multiplexer = Multiplexer()
        self.log = PeerLog(event_loop().later)
        self._lock = threading.Condition()
        self._connections: set[ServedConnection] = set()
        self._stopped = False

    def listen(self, host: str, port: int | None, unix: bool) -> pb.LaneAddress:
        """Begin; returns what peers need to know.

        port: of TCP, 0 for one that the system chooses, None for none.  Raises OSError for it; where there can be no
        unix socket, that is logged.
        """
        address = pb.LaneAddress(version=VERSION, server=self.server)
        if unix:
            try:
                address.unix_path, address.host = self._bind_unix(), host_id()
            except OSError as error:
                _log.warning(
                    "there is no unix socket for peers on this host, who use what is slower: %s; TMPDIR can name a "
                    "folder for it",
                    error,
                )
        if port is not None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
            self._listeners.append(listener)
            address.tcp_port = listener.getsockname()[1]
        for listener in self._listeners:
            accepts(listener, self.accept)
        return address

    def listen_for(self, address: str) -> None:
        """Let peers of this host and user find this by the server's address, if it is not taken: `lane.known`."""
        listener = known.bound(address)
        if listener is not None:
            self._listeners.append(listener)
            accepts(
                listener, lambda sock: self.accept(sock) if known.is_ours(sock) else sock.close()
            )

    def _bind_unix(self) -> str:
        """The path of a socket in a folder that only this user can enter.  Raises OSError."""
        self._folder = tempfile.mkdtemp(prefix="headrace-")
        path = os.path.join(self._folder, "lane")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with address_of(path) as where:
                listener.bind(where)
        except BaseException:
            listener.close()
            raise
        self._listeners.append(listener)
        return path

    def accept(self, sock: socket.socket) -> None:
        """Take a connection: send the handshake and wait for its first request."""
        with contextlib.suppress(OSError):
            connection = ServedConnection(self, LaneSocket(sock, UNTRUSTED_BYTES), peer_of(sock))
            with self._lock:
                if self._stopped:
                    sock.close()
                    return
                self._connections.add(connection)
            connection.begin()

    def forget(self, connection: ServedConnection) -> None:
        """A connection has ended."""
        with self._lock:
            self._connections.discard(connection)
            if not self._connections:
                self._lock.notify_all()

    def stop(self, last_words_s: float = 0.0) -> None:
        """Stop listening and end every connection.

        Calls under way are cancelled, and get as long to tell their callers; what is not done then is cut off.
        """
        with self._lock:
            self._stopped = True
            connections = list(self._connections)
        for listener in self._listeners:
            event_loop().remove(listener)
            listener.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        for connection in connections:
            connection.finish()
        with self._lock:
            self._lock.wait_for(lambda: not self._connections, last_words_s)
            connections = list(self._connections)
        for connection in connections:
            connection.cut()
        self.log.close()
