"""Plain TCP connections to ``host:port``, to see whether somebody is there.

Called by: serve.grpc.client, serve.connect.routed, serve.connect.unreachable.  Threads: any; each attempt is bounded,
but a resolver may take its time.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from headrace.run.scope import Scope

_CONNECT_WITHIN_S = 1.0


def resolved(address: str) -> list[tuple[int, Any]]:
    """The families and addresses of ``host:port``.  Raises OSError, ValueError (no port)."""
    host, _, port = address.rpartition(":")
    found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    return [(family, where) for family, _, _, _, where in found]


def connected(family: int, where: Any, scope: Scope) -> socket.socket:
    """A connection, which is the caller's to close.  Raises OSError."""
    remaining = scope.remaining()
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(_CONNECT_WITHIN_S if remaining is None else min(_CONNECT_WITHIN_S, remaining))
    try:
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


def listens(address: str, scope: Scope) -> bool:
    """Whether a connection to ``host:port`` is taken.  Raises the scope's error."""
    try:
        found = resolved(address)
    except (OSError, ValueError):
        return False
    for at in found:
        scope.check()
        with contextlib.suppress(OSError):
            connected(*at, scope).close()
            return True
    return False
