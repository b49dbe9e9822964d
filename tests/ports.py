"""Ports of the loopback that stay a test's own while its servers stop and start.

A port that was merely seen to be free may be given to anybody's outgoing connection before a server binds it, or
binds it again.  A socket that is bound but does not listen keeps it from them, and lets a server have it.
Source: socket(7), SO_REUSEADDR.
"""

from __future__ import annotations

import socket
from collections import deque

MOST_HELD = 64  # more than the servers of any test

_held: deque[socket.socket] = deque()


def own_ports(count: int) -> list[int]:
    """As many ports that no other program will get, until many more have been asked for."""
    found = []
    for _ in range(count):
        placeholder = socket.socket()
        placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        placeholder.bind(("127.0.0.1", 0))
        _held.append(placeholder)
        found.append(placeholder.getsockname()[1])
    while len(_held) > MOST_HELD:
        _held.popleft().close()
    return found
