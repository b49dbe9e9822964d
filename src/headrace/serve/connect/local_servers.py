"""Servers of this process, by address: their clients need no socket.

Called by: serve.server (adds, removes), serve.connect.peers (finds).  Threads: any.
"""

from __future__ import annotations

import threading
from typing import Any

from headrace.serve.connect.transports import calls_local_servers

_LOCAL = frozenset(("localhost", "127.0.0.1", "[::1]", "::1", "0.0.0.0", "[::]"))
_lock = threading.Lock()
_servers: dict[str, Any] = {}


def normal(address: str) -> str:
    """The address with all names of the loopback interface made one."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in _LOCAL else address


def add(address: str, server: Any) -> None:
    """A server has started."""
    with _lock:
        _servers[normal(address)] = server


def remove(address: str, server: Any) -> None:
    """A server has stopped."""
    with _lock:
        if _servers.get(normal(address)) is server:
            del _servers[normal(address)]


def find(address: str) -> Any:
    """The server at `address` if it is in this process and called without a transport, else None."""
    if not calls_local_servers():
        return None
    with _lock:
        return _servers.get(normal(address))
