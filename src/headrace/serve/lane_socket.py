"""One connection of the lane: frames in, frames out, on a socket that blocks.

Called by: serve.lane_server, serve.lane_client.  Threads: one reads and one writes at a time;
`shut` from any, and whoever reads or writes finds out at once.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

from headrace.codec.frames import Frame, Parser

_MOST_BUFFERS = 512  # a sendmsg takes 1,024 (IOV_MAX)
_BUFFER_BYTES = 4 << 20  # of the socket; larger ones took no less time for 100 MB


class LaneSocket:
    """See the module header.  Reading and writing raise OSError when the connection is gone."""

    def __init__(self, sock: socket.socket, max_bytes: int) -> None:
        """max_bytes: the most that one frame may announce."""
        self._sock = sock
        self._parser = Parser(max_bytes)
        self._send_limit_s: float | None = None
        self._read_limit_s: float | None = None
        sock.setblocking(True)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def fileno(self) -> int:
        """For the watcher; -1 once closed."""
        return self._sock.fileno()

    def send(
        self,
        buffers: Sequence[Any],
        limit_s: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Write all of `buffers`.  Calls `check`, which may raise, whenever it has waited for `limit_s`."""
        if limit_s != self._send_limit_s:
            self._limit(socket.SO_SNDTIMEO, limit_s)
            self._send_limit_s = limit_s
        sock, left = self._sock, buffers
        while left:
            try:
                if len(left) == 1:
                    sent = sock.send(left[0])
                    if sent == len(left[0]):
                        return
                else:
                    sent = sock.sendmsg(left[:_MOST_BUFFERS])
            except BlockingIOError:
                if check is not None:
                    check()
                continue
            left = _after(left, sent)

    def read(self, limit_s: float | None = None) -> Frame | None:
        """The next frame; None if nothing more has come for `limit_s` (then call it again).

        Raises EOFError when the other side has closed, OpError (see codec.frames) for what is no frame.
        """
        parser = self._parser
        frame = parser.next()
        if frame is None and limit_s != self._read_limit_s:
            self._limit(socket.SO_RCVTIMEO, limit_s)
            self._read_limit_s = limit_s
        while frame is None:
            try:
                count = self._sock.recv_into(parser.buffer())
            except BlockingIOError:
                return None
            if not count:
                raise EOFError("the other side has closed the connection")
            parser.received(count)
            frame = parser.next()
        return frame

    def read_available(self) -> Frame | None:
        """The next frame, if all of it is here already.  Raises as `read`."""
        parser = self._parser
        frame = parser.next()
        while frame is None:
            try:
                count = self._sock.recv_into(parser.buffer(), 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            if not count:
                raise EOFError("the other side has closed the connection")
            parser.received(count)
            frame = parser.next()
        return frame

    def _limit(self, which: int, limit_s: float | None) -> None:
        """Let a blocking call give up after `limit_s`: one system call less than poll before each."""
        seconds = 0.0 if limit_s is None else max(limit_s, 1e-6)
        whole = int(seconds)
        timeval = struct.pack("@ll", whole, round((seconds - whole) * 1e6))
        self._sock.setsockopt(socket.SOL_SOCKET, which, timeval)

    def hung_up(self) -> bool:
        """Whether the other side has gone away."""
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, getattr(select, "POLLRDHUP", select.POLLHUP))
        return bool(poll.poll(0))

    def half_close(self) -> None:
        """Say that nothing more is sent; the other side's last word can still be read."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def shut(self) -> None:
        """End the connection; who reads or writes on either side finds out."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the socket back to the system; nobody may be reading or writing."""
        self._sock.close()


def _after(buffers: Sequence[Any], sent: int) -> list[Any]:
    """What is left of `buffers` behind `sent` bytes."""
    for index, buffer in enumerate(buffers):
        view = memoryview(buffer)
        if sent < view.nbytes:
            return [view.cast("B")[sent:] if sent else view, *buffers[index + 1 :]]
        sent -= view.nbytes
    return []
