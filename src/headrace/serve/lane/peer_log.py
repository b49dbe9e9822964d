"""What a server logs of its peers: the first line of a peer at once, then one for all that follow within some seconds.

Whoever connects again and again with what is no frame would fill the log otherwise.
Called by: serve.lane.server, serve.lane.served.  Threads: any; what was left out is told on the event loop's.
"""

from __future__ import annotations

import functools
import logging
import socket
import threading
from collections.abc import Callable
from typing import Final

from headrace.serve.rpc.limits import LIMITS

_MOST_PEERS: Final = 64
_OTHERS: Final = "other peers"

_log = logging.getLogger("headrace")


def peer_of(sock: socket.socket) -> str:
    """The host at the other end of a connection."""
    if sock.family == socket.AF_UNIX:
        return "this host"
    try:
        return str(sock.getpeername()[0])
    except OSError:
        return "a peer that has left"


class PeerLog:
    """See the module header."""

    def __init__(self, later: Callable[[float, Callable[[], object]], object]) -> None:
        """later(delay_s, callback): see `EventLoop.later`."""
        self._later = later
        self._lock = threading.Lock()
        self._left_out: dict[str, tuple[int, str]] = {}
        """Of peers that have a line of late: how many lines they have not, and the last of those."""

    def warning(self, peer: str, line: str) -> None:
        """Log a line, or count it."""
        with self._lock:
            if peer not in self._left_out and len(self._left_out) >= _MOST_PEERS:
                peer = _OTHERS
            known = self._left_out.get(peer)
            self._left_out[peer] = (0, "") if known is None else (known[0] + 1, line)
        if known is None:
            _log.warning("%s", line)
            self._later(LIMITS.log_again_s, functools.partial(self._tell, peer))

    def _tell(self, peer: str) -> None:
        """Some seconds have passed: log how many lines were left out, and go on leaving out while there are any."""
        with self._lock:
            count, line = self._left_out.pop(peer, (0, ""))
            if count:
                self._left_out[peer] = (0, "")
        if count:
            _log_count(peer, count, line)
            self._later(LIMITS.log_again_s, functools.partial(self._tell, peer))

    def close(self) -> None:
        """Log what was left out; nobody will call back any more."""
        with self._lock:
            left_out, self._left_out = self._left_out, {}
        for peer, (count, line) in left_out.items():
            if count:
                _log_count(peer, count, line)


def _log_count(peer: str, count: int, line: str) -> None:
    _log.warning("%s (the last of %d such lines about %s that were left out)", line, count, peer)
