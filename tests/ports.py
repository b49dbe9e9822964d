"""Ports of the loopback that stay a test's own while its servers stop and start.

A port that was merely seen to be free may be given to anybody's outgoing connection before a server binds it, or
binds it again.  A socket that is bound but does not listen keeps it from them, and lets a server have it.
Source: socket(7), SO_REUSEADDR.
"""

from __future__ import annotations

import socket
from collections import deque
from contextlib import ExitStack, suppress

MOST_HELD = 64  # more than the servers of any test

_held: deque[socket.socket] = deque()


def own_ports(count: int) -> list[int]:
    """As many ports that no other program will get, until many more have been asked for."""
    made = [_placeholder(0) for _ in range(count)]
    _hold(made)
    return [each.getsockname()[1] for each in made]


def own_ports_in_a_row(count: int) -> int:
    """The first of so many that follow each other, as `own_ports`."""
    while True:
        with ExitStack() as stack, suppress(OSError, OverflowError):
            made = [stack.enter_context(_placeholder(0))]
            first: int = made[0].getsockname()[1]
            made += [stack.enter_context(_placeholder(first + n)) for n in range(1, count)]
            stack.pop_all()
            _hold(made)
            return first


def _placeholder(port: int) -> socket.socket:
    """Raises OSError, OverflowError."""
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


def _hold(made: list[socket.socket]) -> None:
    _held.extend(made)
    while len(_held) > MOST_HELD:
        _held.popleft().close()
