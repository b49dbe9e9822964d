"""Tensors in shared memory: one copy, segments that are used again, nothing that the other side can break."""

from __future__ import annotations

import array
import fcntl
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.base import errors
from headrace.codec.frame_parser import Parser
from headrace.codec.frames import Kind, pack
from headrace.run.thread_group import ThreadGroup
from headrace.serve.lane import shared_memory
from headrace.serve.lane.shared_memory import (
    FREE,
    GRAIN,
    LENT,
    PAGE,
    SEALS,
    SEGMENTS,
    Borrower,
    Lender,
)
from headrace.serve.lane.socket import LaneSocket
from tests.codec.arrays import NUMBERS, identical

pytestmark = pytest.mark.skipif(
    not shared_memory.AVAILABLE, reason="no memory files on this system"
)
VALUE = np.arange(300_000, dtype=np.float32).reshape(300, 1000)
SEGMENT = -(-VALUE.nbytes // GRAIN) * GRAIN + PAGE


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before


class Connection:
    """Both ends, and what would be a socket between them."""

    def __init__(self, max_bytes: int = 1 << 30) -> None:
        self.lender = Lender(max_bytes)
        self.borrower = Borrower(max_bytes)

    def send(self, value: Any) -> Any:
        """The array at the other end, None if it is to go through the socket."""
        lent = self.lender.lend(value)
        for fd in self.lender.descriptors():
            self.borrower.accept(fd)
        return lent and self.borrower.array(lent.number, lent.dtype, lent.shape)

    def warm(self, value: Any) -> Any:
        """The same for a size that has come before."""
        assert self.send(value) is None
        return self.send(value)


@pytest.mark.parametrize("dtype", [d for d in NUMBERS if d.name != "bool"], ids=lambda d: d.name)
def test_every_plain_dtype_arrives_writable(dtype: Any) -> None:
    value = np.random.default_rng(1).bytes(64 * 30 * dtype.np.itemsize)
    sent = np.frombuffer(value, dtype.np).reshape(30, 64)
    got = Connection().warm(sent)
    assert identical(got, sent)
    assert got.flags.writeable
    assert got.flags.c_contiguous


def test_other_layouts_arrive_in_order() -> None:
    for value in (VALUE.T, VALUE[::-1, ::2], np.broadcast_to(VALUE[0], (7, 1000)), np.array(3.5)):
        assert identical(Connection().warm(value), np.ascontiguousarray(value).reshape(value.shape))


@pytest.mark.parametrize(
    "value",
    [np.ones(9999, bool), np.full(9, b"x", object), VALUE.astype(">f4"), np.zeros((3, 0))],
    ids=["bools", "strings", "another byte order", "no element"],
)
def test_what_is_not_lent(value: Any) -> None:
    connection = Connection()
    assert [connection.send(value) for _ in range(3)] == [None] * 3


def test_memory_is_set_up_for_sizes_that_come_again() -> None:
    connection = Connection()
    assert connection.send(VALUE) is None
    assert connection.send(VALUE[:100]) is None
    assert identical(connection.send(VALUE), VALUE)
    assert connection.send(VALUE[:90]) is not None, "smaller ones use what there is"


def test_a_segment_is_used_again_when_the_last_view_of_its_array_is_gone() -> None:
    connection = Connection(max_bytes=SEGMENT)
    got = connection.warm(VALUE)
    place = got.ctypes.data
    view = got[3:5].T
    del got
    assert connection.send(VALUE) is None, "it is in use, and there is no room for another"
    assert identical(view, VALUE[3:5].T)
    del view
    again = connection.send(VALUE + 1)
    assert again.ctypes.data == place
    assert identical(again, VALUE + 1)


def test_two_that_are_in_use_are_two() -> None:
    connection = Connection()
    first = connection.warm(VALUE)
    second = connection.send(VALUE + 1)
    first += 5
    assert identical(second, VALUE + 1)
    assert identical(first, VALUE + 5)


def test_who_keeps_all_that_comes_gets_the_rest_through_the_socket() -> None:
    connection, value = Connection(), np.arange(9_000, dtype=np.float32)
    connection.send(value)
    kept = [connection.send(value + number) for number in range(2 * SEGMENTS)]
    assert [each is None for each in kept] == [False] * SEGMENTS + [True] * SEGMENTS
    assert all(each[0] == number for number, each in enumerate(kept[:SEGMENTS]))
    kept.clear()
    assert connection.send(value) is not None


def test_the_smallest_segment_that_will_do_is_taken() -> None:
    connection = Connection()
    large, small = (
        connection.warm(np.zeros(GRAIN * 4, np.uint8)),
        connection.warm(np.zeros(GRAIN, np.uint8)),
    )
    places = large.ctypes.data, small.ctypes.data
    del large, small
    got = connection.send(np.ones(100, np.uint8)), connection.send(np.ones(200, np.uint8))
    assert [each.ctypes.data for each in got] == [*reversed(places)]


def test_arrays_outlive_both_ends() -> None:
    connection = Connection()
    got = connection.warm(VALUE)
    connection.lender.close()
    del connection
    gc.collect()
    assert identical(got, VALUE)


def test_a_closed_lender_lends_nothing_and_leaves_no_descriptor() -> None:
    lender = Lender(1 << 30)
    assert lender.lend(VALUE) is None
    assert lender.lend(VALUE) is not None
    lender.close()
    assert [lender.lend(VALUE) for _ in range(3)] == [None] * 3
    assert lender.descriptors() == []


def test_a_fork_does_not_give_back_what_its_parent_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection()
    got = connection.warm(VALUE)
    state = connection.lender._segments[1].state
    assert state[0] == LENT
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: 1)
        del got
    assert state[0] == LENT
    del state


def test_a_system_without_memory_left_sends_through_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(fd: int, offset: int, size: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "posix_fallocate", none_left)
    connection = Connection()
    assert [connection.send(VALUE) for _ in range(3)] == [None] * 3


# -- what is refused ------------------------------------------------------------------------------


def memory_file(size: int, seals: int) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def test_a_descriptor_that_is_no_segment_is_refused_and_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 16))
    reading, writing = os.pipe()
    for fd in (
        reading,
        writing,
        os.open(tmp_path / "file", os.O_RDWR),
        os.open("/dev/zero", os.O_RDWR),
        os.open(tmp_path, os.O_RDONLY),
        socket.socket().detach(),
        memory_file(1 << 16, 0),  # could shrink under our feet
        memory_file(1 << 16, 4),
        memory_file(PAGE, SEALS),
        memory_file(0, SEALS),
    ):
        with pytest.raises(errors.InvalidArgumentError, match="not one of a sealed memory file"):
            Borrower(1 << 30).accept(fd)


def test_one_that_cannot_be_written_is_refused_and_closed() -> None:
    fd = memory_file(1 << 16, SEALS | 8)
    with pytest.raises(errors.ResourceExhaustedError, match="cannot be mapped"):
        Borrower(1 << 30).accept(fd)


def test_segments_beyond_the_limit_are_refused_and_closed() -> None:
    borrower = Borrower(100_000)
    borrower.accept(memory_file(60_000, SEALS))
    with pytest.raises(
        errors.ResourceExhaustedError, match="60000 bytes came; 40000 are left of 100000"
    ):
        borrower.accept(memory_file(60_000, SEALS))


def test_a_segment_cannot_shrink() -> None:
    connection = Connection()
    lent = [connection.lender.lend(VALUE) for _ in range(2)][1]
    (fd,) = connection.lender.descriptors()
    assert lent is not None
    for size in (0, PAGE, SEGMENT + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    connection.borrower.accept(fd)


@pytest.mark.parametrize(
    ("number", "shape", "said"),
    [
        (0, (1,), "in shared memory 0; 1 came"),
        (2, (1,), "in shared memory 2; 1 came"),
        (1, (VALUE.nbytes,), "shared memory of"),
        (1, (1 << 62, 1 << 62), "shared memory of"),
    ],
)
def test_a_tensor_that_is_not_there_is_refused(
    number: int, shape: tuple[int, ...], said: str
) -> None:
    connection = Connection()
    connection.warm(VALUE)
    with pytest.raises(errors.InvalidArgumentError, match=said):
        connection.borrower.array(number, np.dtype(np.float64), shape)


def test_a_segment_whose_tensor_is_in_use_is_not_given_out_again() -> None:
    connection = Connection()
    got = connection.warm(VALUE)
    with pytest.raises(errors.InvalidArgumentError, match="while it was in use"):
        connection.borrower.array(1, got.dtype, got.shape)
    del got
    assert connection.borrower.array(1, VALUE.dtype, VALUE.shape).shape == VALUE.shape


# -- two processes --------------------------------------------------------------------------------

ECHO = """
import array, socket, sys
from headrace.codec.frame_parser import Parser
from headrace.codec.frames import Kind, pack
from headrace.serve.lane.shared_memory import Borrower

sock = socket.socket(fileno=int(sys.argv[1]))
borrower = Borrower(1 << 30)
parser = Parser(1 << 30, borrower.array)
while True:
    while (frame := parser.next()) is None:
        count, extra, _, _ = sock.recvmsg_into([parser.buffer()], socket.CMSG_SPACE(64))
        for _, _, data in extra:
            for fd in array.array("i", data):
                borrower.accept(fd)
        if not count:
            sys.exit(0)
        parser.received(count)
    call, sums = frame.call, [value.sum() for value in frame.values]
    del frame  # what was lent is free before the reply says so
    sock.sendall(pack(Kind.REPLY, 0, call, b"", sums)[0])
"""


def test_another_process_sees_what_was_lent() -> None:
    ours, theirs = socket.socketpair()
    lender, parser = Lender(2 * SEGMENT), Parser(1 << 20)
    with (
        ours,
        subprocess.Popen(
            [sys.executable, "-c", ECHO, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        ) as echo,
    ):
        theirs.close()
        lent = []
        for call in range(10):
            value = VALUE + call
            instead = lender.lend(value)
            lent.append(instead and instead.number)
            parts = pack(
                Kind.REQUEST, 0, call, b"", [np.int32(call), value if instead is None else instead]
            )
            fds = array.array("i", lender.descriptors())
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)] if fds else []
            first = ours.sendmsg(parts[:1], rights)
            for fd in fds:
                os.close(fd)
            ours.sendall(parts[0][first:])
            for part in parts[1:]:
                ours.sendall(part)
            while (reply := parser.next()) is None:
                parser.received(ours.recv_into(parser.buffer()))
            assert [v.item() for v in reply.values] == [call, value.sum()]
        ours.shutdown(socket.SHUT_RDWR)
    assert echo.returncode == 0
    assert lent == [None, *[1] * 9]
    assert lender._segments[1].state[0] == FREE


def test_all_large_values_of_a_frame_are_shared_when_they_come_again() -> None:
    ours, theirs = (LaneSocket(sock, 1 << 20) for sock in socket.socketpair())
    for end in (ours, theirs):
        end.trust(1 << 24)

    def shared() -> int:
        """Of the values of a frame, how many came in shared memory."""
        values = [np.full(1 << 14, number) for number in range(SEGMENTS)]
        with ThreadGroup("the other end") as group:
            group.start(ours.send_frame, Kind.REQUEST, 0, b"", values)
            frame = theirs.read()
        assert frame is not None
        assert all(map(np.array_equal, frame.values, values))
        assert theirs._borrower is not None
        return len(theirs._borrower._lent)

    try:
        assert [shared(), shared()] == [SEGMENTS - 1, SEGMENTS]
    finally:
        ours.close()
        theirs.close()
