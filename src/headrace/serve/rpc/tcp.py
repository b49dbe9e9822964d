"""TCP addresses, and plain connections to ``host:port``, to see whether somebody is there.

Called by: serve.grpc, serve.connect.routed, serve.grpc.unreachable, serve.server.  Threads: any; each attempt is
bounded, but a resolver may take its time.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from headrace.run.scope import Scope
from headrace.serve.rpc import names

_CONNECT_WITHIN_S = 1.0


def resolved(address: str) -> list[tuple[int, Any]]:
    """The families and addresses of ``host:port``.  Raises OSError, ValueError (no port)."""
    host, _, port = address.rpartition(":")
    return names.resolved(host, int(port))


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


def addresses_of(host: str) -> list[str]:
    """The IP addresses of a host name that are this machine's, an IPv6 one in brackets.

    Raises RuntimeError if there are none.
    """
    try:
        found = names.resolved(host, 0)
    except socket.gaierror as error:
        raise RuntimeError(f"the host name {host!r} is not known here: {error.strerror}") from None
    ips = []
    for family, address in found:
        ip = f"[{address[0]}]" if family == socket.AF_INET6 else str(address[0])
        # A hosts file may name ::1 where there is no IPv6.
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind(address)
            ips.append(ip)
    if not ips:
        raise RuntimeError(f"{host!r} is no address of this machine")
    return list(dict.fromkeys(ips))
