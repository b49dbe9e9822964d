"""Making connections of the lane: where to try, and whether what listens there is who it should be.

Called by: serve.lane.client.  Threads: any.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.frames import Frame, Kind
from headrace.run.scope import Scope
from headrace.serve.lane.socket import LaneSocket
from headrace.serve.lane.unix_socket import address_of
from headrace.serve.lane.wire import PROOF, UNTRUSTED_BYTES, checked_handshake, host_id
from headrace.serve.rpc import names
from headrace.serve.rpc.security import Security, new_nonce
from headrace.serve.rpc.status import from_bytes
from headrace.serve.rpc.traffic import Traffic
from headrace.serve.rpc.transport import Outstanding, Unreachable

_CONNECT_WITHIN_S = 5.0
EARLY_FOR_S = 1.0  # later the server may have ended it
_CONNECT_PATIENCE_S = 0.01  # past the deadline, so that it has passed


def has_socket(lane: pb.LaneAddress) -> bool:
    """Whether there is a socket that a process of this machine can try; not so beside TLS from elsewhere."""
    return bool(lane.tcp_port) or _has_unix(lane)


def _has_unix(lane: pb.LaneAddress) -> bool:
    return bool(lane.unix_path and lane.host) and lane.host == host_id()


class Connector:
    """Makes connections to one lane."""

    def __init__(
        self,
        lane: pb.LaneAddress,
        host: str,
        name: str,
        max_message_bytes: int,
        rpcs: Outstanding,
        trusting: Security,
        traffic: Traffic | None = None,
    ) -> None:
        """See `LanePeer`."""
        self._traffic = traffic
        self._lane = lane
        self._host = host
        self._name = name
        self._max_message_bytes = max_message_bytes
        self._rpcs = rpcs
        self._security = trusting
        self._early: list[
            tuple[socket.socket, float]
        ] = []  # made by `begin`, and when; one at most

    def begin(self, begun: socket.socket | None = None) -> None:
        """Connect already, where that takes no time: many servers send their handshakes at once, then, before a
        connection to the first is wanted.  begun: it is connected.
        """
        if begun is not None:
            self._early.append((begun, time.monotonic()))
            return
        if not _has_unix(self._lane):
            return
        with contextlib.suppress(OSError), ExitStack() as undo:  # which is said when one is wanted
            sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            sock.setblocking(False)
            with address_of(self._lane.unix_path) as where:
                sock.connect(where)
            undo.pop_all()
            self._early.append((sock, time.monotonic()))

    def close(self) -> None:
        """No connection is wanted any more."""
        with contextlib.suppress(IndexError):
            self._early.pop()[0].close()

    def _ways(self) -> Iterator[tuple[int, Any, socket.socket | None]]:
        """Where to try, best first; with the connection, if there is one."""
        with contextlib.suppress(IndexError):
            sock, since = self._early.pop()
            if time.monotonic() - since < EARLY_FOR_S:
                yield sock.family, None, sock
            else:  # the server may have ended it
                sock.close()
        for family, address in self._addresses():
            yield family, address, None

    def connect(self, scope: Scope) -> LaneSocket:
        """A new one.  Raises Unreachable, and what the scope ends with."""
        attempt = _Attempt()
        self._rpcs.add(attempt, attempt.stop)
        unregister = scope.on_cancel(lambda: attempt.stop(scope.error))
        found = ""
        try:
            for family, address, begun in self._ways():
                try:
                    sock = begun or socket.socket(family, socket.SOCK_STREAM)
                except OSError as error:  # no descriptor is left, say
                    found = str(error)
                    continue
                attempt.sock = sock
                try:
                    if begun is None:
                        self._connect(sock, address, scope)
                    return self._shaken(sock, scope)
                except (OSError, EOFError, errors.OpError) as error:
                    sock.close()
                    if attempt.error is not None:
                        raise errors.copied(attempt.error) from error
                    scope.check()
                    found = str(error)
                except BaseException:  # Ctrl-C
                    sock.close()
                    raise
        finally:
            unregister()
            self._rpcs.settle(attempt)
        raise Unreachable(f"the lane of {self._name} cannot be reached: {found}")

    def _connect(self, sock: socket.socket, address: Any, scope: Scope) -> None:
        """To an address."""
        sock.settimeout(_within(scope, _CONNECT_WITHIN_S))
        if sock.family == socket.AF_UNIX:
            with address_of(address) as where:
                sock.connect(where)
        else:
            sock.connect(address)

    def _shaken(self, sock: socket.socket, scope: Scope) -> LaneSocket:
        """What is connected, seen to be the server's."""
        lane = LaneSocket(sock, UNTRUSTED_BYTES, self._traffic)
        self._introduce(lane, scope)
        lane.trust(self._max_message_bytes)
        return lane

    def _introduce(self, lane: LaneSocket, scope: Scope) -> None:
        """Hear who it is; if either side has a secret, both prove that they know it.

        Raises ConnectionRefusedError, and Unauthenticated from the other side.
        """
        handshake = checked_handshake(_due(lane, scope), self._lane.server)
        nonce, lane.number = handshake.nonce, handshake.call
        if bool(nonce) != bool(self._security.secret):
            who = "the server asks for a secret" if nonce else "this process has a secret"
            raise ConnectionRefusedError(f"{who}, and the other side has none")
        if nonce:
            mine = new_nonce()
            lane.send_frame(
                Kind.REQUEST, PROOF, mine + self._security.proof(b"client", nonce, mine)
            )
            answer = _due(lane, scope)
            if answer.kind is Kind.ERROR:
                raise from_bytes(answer.header)
            if not self._security.proves(b"server", nonce, mine, answer.header):
                raise ConnectionRefusedError("what listens there does not know our secret")

    def _addresses(self) -> list[tuple[int, Any]]:
        """Where to try, best first."""
        lane = self._lane
        found: list[tuple[int, Any]] = []
        if _has_unix(lane):
            found.append((int(socket.AF_UNIX), lane.unix_path))
        if lane.tcp_port:
            with contextlib.suppress(OSError):
                found += names.resolved(self._host, lane.tcp_port)
        return found


class _Attempt:
    """To connect; `stop` ends it with an error, from any thread."""

    def __init__(self) -> None:
        self.sock: socket.socket | None = None
        self.error: errors.OpError | None = None

    def stop(self, error: errors.OpError | None) -> None:
        """Have whoever connects find out at once."""
        self.error = error
        if self.sock is not None:
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _within(scope: Scope, most_s: float) -> float:
    """Seconds until the scope's deadline, and a little longer; no more than `most_s`."""
    remaining = scope.remaining()
    return most_s if remaining is None else min(most_s, remaining + _CONNECT_PATIENCE_S)


def _due(lane: LaneSocket, scope: Scope) -> Frame:
    """The next frame, which is due.  Raises ConnectionRefusedError if it does not come."""
    frame = lane.read(_within(scope, _CONNECT_WITHIN_S))
    if frame is None:
        raise ConnectionRefusedError("what listens there does not answer")
    return frame
