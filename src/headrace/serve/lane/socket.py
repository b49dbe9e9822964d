"""One connection of the lane: frames in, frames out, on a socket that blocks.

On one host large tensors go through shared memory (serve.lane.shared_memory) instead.
Called by: serve.lane.served, serve.lane.client.  Threads: one reads and one writes at a time;
`shut` from any, and whoever reads or writes finds out at once.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.codec.frame_parser import Parser
from headrace.codec.frames import ExternalTensor, Frame, Kind, pack, whole
from headrace.run.state.shared_buffers import buffer_of
from headrace.run.state.variable import Lease
from headrace.serve.lane.multiplexer import STEADY, Multiplexer
from headrace.serve.lane.shared_memory import AVAILABLE, LENT, Borrower, Lender
from headrace.serve.lane.wire import KnownAnswers
from headrace.serve.rpc.brief import STEP_BYTES
from headrace.serve.rpc.traffic import Traffic
from headrace.serve.rpc.vanished import set_keepalive

_MOST_BUFFERS = 512  # a sendmsg takes 1,024 (IOV_MAX)
_BUFFER_BYTES = (
    1 << 20
)  # of a unix socket; 100 MB took 33 ms with that, 36 ms with 4 MB, 52 ms by default
_SHARED_FROM = (
    1 << 15
)  # bytes of a tensor; from 16 kB on it is as fast as the socket, from 64 kB on faster
_SHARED_BYTES = 1 << 30  # that one connection may have, in each direction
_MOST_SHARED = 32  # tensors of a frame: their descriptors are received with it
_SHORT = 448  # bytes of a request that is known: Python has room for that beside other small things
_ANCILLARY = socket.CMSG_SPACE(4 * (_MOST_SHARED + 1))  # and a board, see serve.lane.shared_memory


class NothingSent(OSError):
    """The connection had ended before anything of a frame was sent."""


class LaneSocket:
    """See the module header.  Reading and writing raise OSError when the connection is gone.

    has_shared: whether any tensor may have passed through shared memory.  number: of its call, see
    `serve.rpc.cancelled_calls`.
    """

    def __init__(self, sock: socket.socket, max_bytes: int, traffic: Traffic | None = None) -> None:
        """max_bytes: the most that one frame may announce until `trust` says otherwise.  traffic: of its server."""
        self._sock = sock
        self._traffic = Traffic() if traffic is None else traffic
        self.number = 0
        self._lender: Lender | None = None
        self._borrower: Borrower | None = None
        self._ancillary = 0  # bytes of descriptors that may come; the system closes those that there is no room for
        self._parser = Parser(max_bytes)
        self._held: list[bytes] = []
        self._behind = (
            False  # whether something may have to be sent before the next frame, or with it
        )
        self.has_shared = False
        self._send_limit_s: float | None = None
        self._read_limit_s: float | None = None
        sock.setblocking(True)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            set_keepalive(sock)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)

    def trust(self, max_bytes: int) -> None:
        """From now on frames may be that large, and use shared memory.  Between two frames."""
        if self._sock.family == socket.AF_UNIX and AVAILABLE:
            self._lender = Lender(_SHARED_BYTES)
            self._borrower = Borrower(min(max_bytes, _SHARED_BYTES))
            self._ancillary = _ANCILLARY
            self._parser.trust(max_bytes, _counted(self._borrower.array, self._traffic))
        else:
            self._parser.trust(max_bytes)

    @property
    def shares(self) -> bool:
        """Whether it has memory that the other side has too."""
        lender, borrower = self._lender, self._borrower
        return bool(lender and lender.has_any) or bool(borrower and borrower.has_any)

    def fileno(self) -> int:
        """For the event loop; -1 once closed."""
        return self._sock.fileno()

    def send_frame(
        self,
        kind: Kind,
        method: int,
        header: bytes,
        values: Sequence[Any] = (),
        timeout_us: int = 0,
        limit_s: float | None = None,
        check: Callable[[], None] | None = None,
        in_place: bool = False,
    ) -> bool:
        """Send a frame; see `codec.frames.pack` and `send`.  Of leases among `values` the arrays are sent.

        False if there are none.
        in_place: the receiver takes arrays that are read-only, so that variables need not be copied.
        """
        data = None if timeout_us else whole(kind, method, header, values)
        if data is not None:
            self.send_whole(data, limit_s, check)
            return False
        lender = self._lender
        for value in values:
            if value.__class__ is Lease or value.nbytes >= _SHARED_FROM:
                break
        else:
            buffers = pack(kind, method, 0, header, values, timeout_us)
            self.send(buffers, limit_s, check)
            return False
        if lender is None:
            found = [value.array if type(value) is Lease else value for value in values]
        else:
            self.has_shared = self._behind = True
            found = _lent(values, lender, in_place)
            self._count_lent(values, found)
        data = None if timeout_us else whole(kind, method, header, found)
        buffers = pack(kind, method, 0, header, found, timeout_us) if data is None else [data]
        self.send(buffers, limit_s, check)
        return True

    def send_whole(
        self, data: bytes, limit_s: float | None = None, check: Callable[[], None] | None = None
    ) -> None:
        """Send a frame of `codec.frames.whole`; see `send`."""
        if self._behind or limit_s != self._send_limit_s:
            self.send([data], limit_s, check)
            return
        try:
            sent = self._sock.send(data)
        except OSError:  # comes again
            sent = 0
        self._traffic.sent += sent
        if sent != len(data):
            self._send([data[sent:]], limit_s, check, (), begun=sent > 0)

    def _count_lent(self, values: Sequence[Any], instead: Sequence[Any]) -> None:
        pairs = zip(values, instead, strict=True)
        size = sum(value.nbytes for value, other in pairs if type(other) is ExternalTensor)
        self._traffic.sent += size

    def lend(self, value: Any) -> ExternalTensor | None:
        """What to pack in the place of an array or a lease, to keep its bytes out of the stream, as with `in_place`.

        None: that is not possible.
        """
        lender = self._lender
        if lender is None:
            return None
        self.has_shared = self._behind = True
        lent = _in_place(value, lender)
        lent = lent or lender.lend(value.array if type(value) is Lease else value)
        if lent is not None:
            size = value.nbytes
            self._traffic.sent += size
        return lent

    @property
    def lends(self) -> bool:
        """Whether large values may pass through shared memory."""
        return self._lender is not None

    def copying(
        self,
        kind: Kind,
        method: int,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        copy_to: Callable[[np.ndarray[Any, Any]], bool],
    ) -> Callable[[], bytes | None]:
        """What gives the frame with one value, of that dtype and shape, which `copy_to` puts into shared memory.

        None: there is no segment that the other side knows and has given back, or `copy_to` gives False.
        """
        lender, traffic = self._lender, self._traffic
        nbytes = math.prod(shape) * dtype.itemsize
        known: dict[int, tuple[memoryview, np.ndarray[Any, Any], bytes]] = {}  # by segments

        def copied() -> bytes | None:
            if lender is None or self._behind:
                return None
            number = lender.segment(nbytes)
            if not number:
                return None
            if number not in known:
                frame = pack(kind, method, 0, b"", [ExternalTensor(number, dtype, shape)])
                known[number] = (
                    *lender.state_and_array(number, dtype, shape),
                    b"".join(frame),
                )
            state, target, reply = known[number]
            if not copy_to(target):
                return None
            state[0] = LENT
            traffic.sent += nbytes
            return reply

        return copied

    def send(
        self,
        buffers: Sequence[Any],
        limit_s: float | None = None,
        check: Callable[[], None] | None = None,
    ) -> None:
        """Write all of `buffers`.  Calls `check`, which may raise, whenever it has waited for `limit_s`.

        Descriptors of what was lent for the first time go with the first bytes.
        """
        lender = self._lender
        descriptors = () if lender is None else lender.descriptors()
        try:
            self._send(buffers, limit_s, check, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._behind = False

    def _send(
        self,
        buffers: Sequence[Any],
        limit_s: float | None,
        check: Callable[[], None] | None,
        descriptors: Sequence[int],
        begun: bool = False,
    ) -> None:
        if limit_s != self._send_limit_s:
            self._limit(socket.SO_SNDTIMEO, limit_s)
            self._send_limit_s = limit_s
        if self._held:
            buffers, self._held = [b"".join(self._held), *buffers], []
        left = buffers
        while left:
            try:
                if len(left) == 1 and not descriptors:
                    sent = self._sock.send(left[0])
                    if sent == len(left[0]):
                        self._traffic.sent += sent
                        return
                else:
                    sent = self._sock.sendmsg(left[:_MOST_BUFFERS], _rights(descriptors))
                    descriptors = ()
            except BlockingIOError:
                if check is not None:
                    check()
                continue
            except (BrokenPipeError, ConnectionResetError) as error:
                if begun:
                    raise
                raise NothingSent(*error.args) from error
            begun = True
            self._traffic.sent += sent
            left = _after(left, sent)

    def hold(self, frames: bytes) -> None:
        """Send whole frames before the next one, or with `flush`."""
        self._behind = True
        self._held.append(frames)

    def flush(self) -> None:
        """Send what is held."""
        if self._held:
            self.send([], self._send_limit_s)

    def read(self, limit_s: float | None = None) -> Frame | None:
        """The next frame; None if nothing more has come for `limit_s` (then call it again).

        Raises EOFError when the other side has closed, OpError (see codec.frames) for what is no frame.
        """
        parser = self._parser
        room = parser.room
        if room is None or limit_s != self._read_limit_s:
            return self._read_on(limit_s)
        try:
            count, extra, flags, _ = self._sock.recvmsg_into(room, self._ancillary)
        except BlockingIOError:
            return None
        if extra or flags:
            self._take_descriptors(extra, flags)
        if not count:
            raise EOFError("the other side has closed the connection")
        self._traffic.received += count
        frame = parser.take(count)
        return self._read_on(limit_s) if frame is None else frame

    def _read_on(self, limit_s: float | None) -> Frame | None:
        """As `read`."""
        parser = self._parser
        frame = parser.next()
        if frame is None and limit_s != self._read_limit_s:
            self._limit(socket.SO_RCVTIMEO, limit_s)
            self._read_limit_s = limit_s
        while frame is None:
            try:
                count = self._receive(parser.buffer(), 0)
            except BlockingIOError:
                return None
            if not count:
                raise EOFError("the other side has closed the connection")
            frame = parser.take(count)
        return frame

    def read_available(self) -> Frame | None:
        """The next frame, if all of it is here already.  Raises as `read`."""
        parser = self._parser
        frame = parser.next()
        while frame is None:
            try:
                count = self._receive(parser.buffer(), socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            if not count:
                raise EOFError("the other side has closed the connection")
            frame = parser.take(count)
        return frame

    def read_ahead(self) -> Frame | None:
        """The next frame, if all of it came with an earlier one.  Raises as `read`."""
        return self._parser.next()

    def answer_known(
        self, known: KnownAnswers, at_once: KnownAnswers, together: Multiplexer
    ) -> bool | None:
        """Answer what is known, as long as nothing else comes.

        Whether something has, which `read` has next; False if nothing has within the time limit of the last `read`.
        together: takes a connection that is steadily asked for what is answered `at_once`, when there are several.
        None: it is to take it now.  Raises as `read`.
        """
        sock = self._sock
        receive, send, ancillary = sock.recvmsg, sock.send, self._ancillary
        steady = 0
        try:
            while True:
                try:
                    data, extra, flags, _ = receive(_SHORT, ancillary)
                except BlockingIOError:
                    return False
                same = data[:-STEP_BYTES]
                answer = at_once.get(same) or at_once.get(data)
                if answer is not None:
                    steady += 1
                    if steady == STEADY:
                        together.steadies(1)
                else:
                    if steady >= STEADY:
                        together.steadies(-1)
                    steady = 0
                    answer = known.get(same)
                reply = None if answer is None or extra or flags else answer(data)
                if reply is None:
                    self._put(data, extra, flags)
                    return True
                sent = send(reply) if reply else 0
                if sent != len(reply):
                    self._send([reply[sent:]], self._send_limit_s, None, (), begun=True)
                if steady >= STEADY and together.several:
                    steady = 0
                    return None
        finally:
            if steady >= STEADY:
                together.steadies(-1)

    def answer_available(self, at_once: KnownAnswers) -> bool:
        """Answer one request that has come, if it is one of those.

        False: something else has, which `read` has next, or the other side does not read its replies, so that `flush`
        is to be called.  Waits for nothing.  Raises as `read`.
        """
        try:
            data, extra, flags, _ = self._sock.recvmsg(_SHORT, self._ancillary, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        answer = at_once.get(data[:-STEP_BYTES]) or at_once.get(data)
        reply = None if answer is None or extra or flags else answer(data)
        if reply is None:
            self._put(data, extra, flags)
            return False
        return not reply or self.send_available(reply)

    def send_available(self, reply: bytes) -> bool:
        """Send a frame, as far as that needs no waiting.  False: the rest is held; `flush` is to be called."""
        try:
            sent = self._sock.send(reply, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        if sent != len(reply):
            self.hold(reply[sent:])
            return False
        return True

    def put_back(self, data: bytes) -> None:
        """Leave a request to `read` that was to be answered in another way."""
        self._parser.put(data)

    def _put(self, data: bytes, extra: Sequence[tuple[int, int, bytes]], flags: int) -> None:
        """Leave to `read` what was read between two frames."""
        if extra or flags:
            self._take_descriptors(extra, flags)
        if not data:
            raise EOFError("the other side has closed the connection")
        self._parser.put(data)

    @property
    def at_rest(self) -> bool:
        """Whether nothing has been read ahead, and nothing has to be sent first."""
        return self._parser.at_boundary and not self._behind

    def _receive(self, buffer: memoryview, flags: int) -> int:
        count, extra, said, _ = self._sock.recvmsg_into([buffer], self._ancillary, flags)
        if extra or said:
            self._take_descriptors(extra, said)
        self._traffic.received += count
        return count

    def _take_descriptors(self, extra: Sequence[tuple[int, int, bytes]], flags: int) -> None:
        """Take what came.  Raises ResourceExhausted if this process has no room for all of it."""
        self.has_shared = self.has_shared or bool(extra)
        for level, kind, data in extra:
            borrower = self._borrower
            if borrower is not None and level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                _accept(borrower, data)
        if flags & socket.MSG_CTRUNC and self._ancillary:
            raise errors.resource_exhausted(
                "shared memory came for which this process has no file descriptor left, or more of it at once than any "
                "frame has; see ulimit -n"
            )

    def _limit(self, which: int, limit_s: float | None) -> None:
        """Let a blocking call give up after `limit_s`: one system call less than poll before each."""
        seconds = 0.0 if limit_s is None else max(limit_s, 1e-6)
        whole = int(seconds)
        timeval = struct.pack("@ll", whole, round((seconds - whole) * 1e6))
        self._sock.setsockopt(socket.SOL_SOCKET, which, timeval)

    def hung_up(self) -> bool:
        """Whether the other side has gone away."""
        descriptor = self._sock.fileno()  # asked once: another thread may close it at any moment
        if descriptor < 0:
            return True
        poll = select.poll()
        poll.register(descriptor, getattr(select, "POLLRDHUP", select.POLLHUP))
        return bool(poll.poll(0))

    def rest(self) -> None:
        """Nothing will be read for a while: keep no memory for it.  For the thread that reads."""
        self._parser.rest()

    def half_close(self) -> None:
        """Say that nothing more is sent; the other side's last word can still be read."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def stop_reading(self) -> None:
        """Have the thread that reads find the end, after what has come already; it may still write."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RD)

    def shut(self) -> None:
        """End the connection; who reads or writes on either side finds out."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the socket back to the system; nobody may be reading or writing."""
        self._sock.close()
        self._parser.close()
        if self._lender is not None:
            self._lender.close()
        if self._borrower is not None:
            self._borrower.close()


def _lent(values: Sequence[Any], lender: Lender, in_place: bool) -> list[Any]:
    """`values`, the large ones in shared memory where that is possible."""
    found: list[Any] = []
    shared = 0
    for value in values:
        nbytes = value.nbytes
        instead: Any = None
        if nbytes >= _SHARED_FROM and shared < _MOST_SHARED:
            if in_place:
                instead = _in_place(value, lender)
            if instead is None:
                instead = lender.lend(value.array if type(value) is Lease else value)
        if instead is not None:
            shared += 1
        else:
            instead = value.array if type(value) is Lease else value
        found.append(instead)
    return found


def _in_place(value: Any, lender: Lender) -> ExternalTensor | None:
    """A variable, or an array that was made in a shared buffer, lent where it is."""
    if type(value) is Lease:
        return lender.lend_variable(value)
    buffer = buffer_of(value)
    return None if buffer is None else lender.lend_buffer(buffer, value)


def _counted(borrowed: Callable[..., Any], traffic: Traffic) -> Callable[..., Any]:
    """The same, with the bytes of its arrays counted; it holds nothing of the connection, whose parser has it."""

    def array(number: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        found = borrowed(number, dtype, shape)
        traffic.received += found.nbytes
        return found

    return array


def _rights(descriptors: Sequence[int]) -> list[tuple[int, int, Any]]:
    """The ancillary data that carries file descriptors."""
    if not descriptors:
        return []
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors))]


def _accept(borrower: Borrower, data: bytes) -> None:
    """Take the descriptors that came; if one is refused, all that follow it are closed."""
    descriptors = array("i")
    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    left = list(descriptors)
    try:
        while left:
            borrower.accept(left.pop(0))
    finally:
        for descriptor in left:
            os.close(descriptor)


def _after(buffers: Sequence[Any], sent: int) -> list[Any]:
    """What is left of `buffers` behind `sent` bytes."""
    for index, buffer in enumerate(buffers):
        view = memoryview(buffer)
        if sent < view.nbytes:
            return [view.cast("B")[sent:] if sent else view, *buffers[index + 1 :]]
        sent -= view.nbytes
    return []
