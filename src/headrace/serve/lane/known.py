"""The lane of a server whose address is all that is known, on the server's own host.

Beside its other sockets a server listens at a unix socket that is named after its address, in the abstract namespace:
such a name belongs to a network, as ports do, and is gone with the process.  Whoever wants to connect to that address
tries there first.  Only processes of one user find each other so, and not beside TLS: others ask over gRPC.
Called by: serve.lane.server, serve.lane.transport.  Threads: any.  Source: Linux, unix(7)
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from contextlib import ExitStack

from google.protobuf.message import DecodeError

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.codec.frame_parser import Parser
from headrace.serve.lane.wire import UNTRUSTED_BYTES, checked_handshake, host_id
from headrace.serve.rpc.security import Security

_MOST_BYTES = 107  # of a name
_GOOD_FOR_S = 1.0  # a connection that nobody has used yet; later the server may have ended it
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def _name(address: str) -> str:
    """Of the socket; "" if there can be none."""
    name = f"\0headrace/{os.geteuid()}/{address}"
    return name if len(os.fsencode(name)) <= _MOST_BYTES else ""


def bound(address: str) -> socket.socket | None:
    """A socket for the server at ``host:port``; None if another has it, or there can be none."""
    name = _name(address)
    with contextlib.suppress(OSError), ExitStack() as undo:
        listener = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        if name:
            listener.bind(name)
            undo.pop_all()
            return listener
    return None


def is_ours(sock: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    with contextlib.suppress(OSError):
        shown = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        user: int = _CREDENTIALS.unpack(shown)[1]
        return user == os.geteuid()
    return False


class Nearby:
    """A connection to what listens for an address.  sock: None if nothing does."""

    def __init__(self, address: str, security: Security) -> None:
        """Connects, which takes no time."""
        self._address = address
        self._security = security
        self.sock: socket.socket | None = None
        self._connect()

    def _connect(self) -> None:
        name = _name(self._address)
        self._since = time.monotonic()
        with contextlib.suppress(OSError), ExitStack() as undo:
            sock = undo.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            sock.setblocking(False)
            if not name:
                return
            sock.connect(name)
            if is_ours(sock):
                undo.pop_all()
                self.sock = sock

    def offer(self, within_s: float) -> pb.LaneAddress | None:
        """See `rpc.transport.Nearby`.  The handshake stays to be read."""
        if time.monotonic() - self._since > _GOOD_FOR_S:
            self.close()
            self._connect()
        if self.sock is None:
            return None
        parser = Parser(UNTRUSTED_BYTES)
        try:
            self.sock.settimeout(within_s)
            parser.put(self.sock.recv(UNTRUSTED_BYTES, socket.MSG_PEEK))
            frame = parser.next()
            if frame is not None:
                shaken = pb.LaneAddress.FromString(frame.header)
                if bool(shaken.nonce) == bool(self._security.secret):
                    checked_handshake(frame, shaken.server)
                    return pb.LaneAddress(
                        version=shaken.version,
                        server=shaken.server,
                        unix_path=_name(self._address),
                        host=host_id(),
                    )
        except (OSError, EOFError, DecodeError, errors.OpError):
            pass  # it is asked over gRPC, which says what is wrong
        except BaseException:  # Ctrl-C
            self.close()
            raise
        finally:
            parser.close()
        self.close()
        return None

    def close(self) -> None:
        """See `rpc.transport.Nearby`."""
        sock, self.sock = self.sock, None
        if sock is not None:
            sock.close()
