"""The lane, server side: listening sockets, whose connections the event loop takes.

Called by: serve.lane.server.  Threads: the event loop's.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable

from headrace.serve.lane.event_loop import event_loop

BACKLOG = 1024
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_FULL_FOR_S = 1.0

_log = logging.getLogger("headrace")


def accepts(listener: socket.socket, take: Callable[[socket.socket], object]) -> None:
    """Listen, and take every connection that comes, until the event loop is to forget the listener."""
    listener.listen(BACKLOG)
    listener.setblocking(False)
    event_loop().add(listener, _Accepting(listener, take), wants_input=True)


class _Accepting:
    """A listener's callback."""

    def __init__(self, listener: socket.socket, take: Callable[[socket.socket], object]) -> None:
        self._listener = listener
        self._take = take
        self._full = False

    def __call__(self, hung_up: bool) -> None:
        try:
            while True:
                sock, _ = self._listener.accept()
                self._full = False
                self._take(sock)
        except OSError as error:
            if error.errno in _FULL:
                self._wait_for_room(error)
                return
            # Nobody there any more, or stopped.
        self._arm()

    def _wait_for_room(self, error: OSError) -> None:
        """Those who want to connect have to wait; asking at once again would only keep a processor busy."""
        if not self._full:
            self._full = True
            _log.warning(
                "the lane cannot take more connections for now: %s; see ulimit -n", error.strerror
            )
        event_loop().later(_FULL_FOR_S, self._arm)

    def _arm(self) -> None:
        event_loop().arm(self._listener, wants_input=True)
