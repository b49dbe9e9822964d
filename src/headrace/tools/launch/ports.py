"""Ports of the loopback that stay a launch's own while its tasks stop and start.

A socket that is bound and does not listen keeps a port from everybody who asks for any, and from outgoing connections;
a server, which asks for that port with SO_REUSEADDR, gets it all the same.  So nothing can take the port between
choosing and using it, nor while a task is restarted.  That is Linux's meaning of SO_REUSEADDR: elsewhere the sockets
are closed again, and a port may be lost, which the task that wanted it says.

Called by: command.  Source: socket(7), SO_REUSEADDR
"""

from __future__ import annotations

import socket
import sys
from contextlib import ExitStack


class OwnPorts:
    """`ports`: as many as were asked for, held until the block is left."""

    def __init__(self, count: int) -> None:
        self._held = ExitStack()
        self.ports: list[int] = []
        for _ in range(count):
            placeholder = self._held.enter_context(socket.socket())
            placeholder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            placeholder.bind(("127.0.0.1", 0))
            self.ports.append(placeholder.getsockname()[1])
        if sys.platform != "linux":
            self._held.close()

    def __enter__(self) -> OwnPorts:
        return self

    def __exit__(self, *exc: object) -> None:
        self._held.close()
