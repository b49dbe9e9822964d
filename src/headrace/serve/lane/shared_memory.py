"""Large tensors between two processes of one host, through memory that both have mapped.

A value is copied once, into a segment, and used where it is by the process that it was sent to; a socket copies twice,
the second time into new memory.  It pays because segments are used again: their pages are there, and mapped.
A segment is a memory file: a page whose first byte says whose turn it is, then the bytes of one tensor at a time.
A variable that was sent before lives in a shared buffer (`run.state.shared_buffers`): it is not copied at all.  Others
map a shared buffer read-only.

The `Lender` of a connection makes segments and fills them, and lends shared buffers; the descriptor of each goes to the
other process once, beside the frame that first refers to it.  The `Borrower` there makes arrays of them.  When the last
array on a segment is gone, its first byte is set back, and the lender may fill it again; when the last array of a
tensor in a shared buffer is gone, its number on the *board* grows by one.  The board is one more memory file, which
goes ahead of the first buffer: how often each buffer was given back, written by the borrower, then which shared buffers
are gone, written by the lender.  Nobody is told and nobody waits: without a free segment a tensor goes through the
socket.  None of these files can shrink, so touching them is safe whatever the other process does; what they hold is as
trustworthy as the process that lent it, which can still write to it.  Hence no bools, whose bytes NumPy trusts.

Called by: the lane's sockets.  Threads: a Lender and a Borrower belong to the thread that has the connection; any may
drop the last array.  Source: Linux, memfd_create(2)
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
import weakref
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.codec.frames import ExternalTensor
from headrace.run.state import shared_buffers
from headrace.run.state.shared_buffers import (
    AVAILABLE,
    GRAIN,
    READ_ONLY,
    SEALS,
    Borrow,
    SharedBuffer,
)
from headrace.run.state.variable import Lease

__all__ = ["AVAILABLE", "FREE", "GRAIN", "LENT", "PAGE", "SEALS", "Borrower", "Lender"]

Array = np.ndarray[Any, Any]

PAGE: Final = 4096
FREE: Final = 0
LENT: Final = 1

BUFFERS: Final = 1024
"""The most that can be lent over one connection, one after the other."""
SEGMENTS: Final = 32
"""The most of a connection: each takes a descriptor on either side, and who keeps what it is sent keeps them."""
BOARD: Final = 2 * 8 * BUFFERS
"""Bytes of a board."""
_FINAL: Final = getattr(fcntl, "F_SEAL_SEAL", 1)  # a board is known by it
_GET_SEALS: Final = getattr(fcntl, "F_GET_SEALS", 1034)
_REMEMBERED: Final = 64  # sizes that have come once


class Segment:
    """Memory that another process has mapped too; it stays as long as anything refers to it."""

    __slots__ = ("memory", "size", "state")

    def __init__(self, fd: int, size: int) -> None:
        """Map the first `size` bytes of a memory file.  Raises OSError."""
        self.memory = shared_buffers.mapped(fd, size)
        self.state = memoryview(self.memory)[:1]
        self.size = size - PAGE

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Its bytes, as that."""
        return np.ndarray(shape, dtype, self.memory, PAGE)


class BorrowedBuffer:
    """A shared buffer of another process."""

    __slots__ = ("given_back", "is_gone", "memory", "size")

    def __init__(self, fd: int, size: int, board: memoryview, index: int) -> None:
        """Map it.  Raises OSError."""
        self.memory = shared_buffers.mapped(fd, size, mmap.PROT_READ)
        self.size = size
        self.given_back: Array = np.frombuffer(board, np.uint64, 1, 8 * index)
        self.is_gone = board[BUFFERS + index : BUFFERS + index + 1]

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """Its bytes, as that; read-only."""
        return np.ndarray(shape, dtype, self.memory)


class Lender:
    """One end of a connection, sending."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: of all its segments and shared buffers.  unsent: see `descriptors`."""
        self._left = max_bytes
        self._count = 0  # of descriptors that the other side numbers
        self._segments: dict[int, Segment] = {}
        self._sizes: dict[int, None] = {}  # that have come once, oldest first
        self.unsent: list[int] = []
        self._board: memoryview | None = None
        self._borrows: weakref.WeakKeyDictionary[SharedBuffer, tuple[int, Borrow]] = (
            weakref.WeakKeyDictionary()
        )
        self._lent_buffers: list[
            tuple[weakref.ref[SharedBuffer], int, int]
        ] = []  # buffer, index, size
        self._closed = False

    def lend(self, value: Array) -> ExternalTensor | None:
        """Copy `value` into a segment; what to pack in its place.  None: send the array itself.

        None for what has no plain bytes, for the first tensor of a size, for which new memory would not pay, and when
        all segments are lent and no more may be made.
        """
        dtype, nbytes = value.dtype, value.nbytes
        if dtype.kind in "Ob" or not dtype.isnative or not nbytes:
            return None
        number = self._free(nbytes) or self._new(nbytes)
        if not number:
            return None
        segment = self._segments[number]
        np.copyto(segment.array(dtype, value.shape), value)
        segment.state[0] = LENT
        return ExternalTensor(number, dtype, value.shape)

    def segment(self, nbytes: int) -> int:
        """The number of the smallest segment of so much that the other side knows and has given back; 0: none."""
        return 0 if self.unsent else self._free(nbytes)

    def state_and_array(
        self, number: int, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> tuple[memoryview, Array]:
        """Of a segment: whose turn it is, which whoever fills it sets to `LENT`; and its bytes, as that."""
        segment = self._segments[number]
        return segment.state, segment.array(dtype, shape)

    def lend_variable(self, lease: Lease) -> ExternalTensor | None:
        """Lend a variable where it is; it stays as it is until it is given back, whatever becomes of the lease.

        None: send its array by other means.
        """
        buffer = lease.buffer
        if buffer is None:
            dtype = lease.dtype
            if dtype.kind in "Ob" or not dtype.isnative or not self._comes_again(lease.nbytes):
                return None
            buffer = lease.move()
            if buffer is None:
                return None
        return self.lend_buffer(buffer, lease.array)

    def lend_buffer(self, buffer: SharedBuffer, array: Array) -> ExternalTensor | None:
        """As `lend_variable`, of the array in `buffer`, which stays as it is until then."""
        found = self._borrows.get(buffer) or self._begin(buffer)
        if found is None:
            return None
        number, borrow = found
        borrow.times += 1
        return ExternalTensor(number, array.dtype, array.shape)

    def _begin(self, buffer: SharedBuffer) -> tuple[int, Borrow] | None:
        """Its number and borrow, new; None if no more may be lent."""
        self._forget_gone()
        index = len(self._lent_buffers)
        if self._closed or buffer.size > self._left or index == BUFFERS:
            return None
        try:
            board = self._board or self._new_board()
            self.unsent.append(os.dup(buffer.fd))
        except OSError:
            return None
        self._left -= buffer.size
        self._count += 1
        borrow = Borrow(board, index)
        self._borrows[buffer] = self._count, borrow
        self._lent_buffers.append((weakref.ref(buffer), index, buffer.size))
        buffer.lent(borrow)
        return self._count, borrow

    def _new_board(self) -> memoryview:
        fd = shared_buffers.memory_file(BOARD)
        try:
            shared_buffers.seal(fd, SEALS | _FINAL)
            self._board = memoryview(shared_buffers.mapped(fd, BOARD)).cast("Q")
        except OSError:
            os.close(fd)
            raise
        self.unsent.append(fd)
        return self._board

    def _forget_gone(self) -> None:
        """Tell the other side which shared buffers are no more: it lets go of their memory."""
        board = self._board
        for place, (buffer, index, size) in enumerate(self._lent_buffers):
            if size and buffer() is None and board is not None:
                board[BUFFERS + index] = 1
                self._left += size
                self._lent_buffers[place] = (buffer, index, 0)

    @property
    def has_any(self) -> bool:
        """Whether there is a segment, or a shared buffer was lent."""
        return bool(self._count)

    def descriptors(self) -> list[int]:
        """Of what the other side does not know yet, in order; they must go with the next frame.

        The caller closes them.
        """
        unsent, self.unsent = self.unsent, []
        return unsent

    def _free(self, nbytes: int) -> int:
        """The number of the smallest free segment that holds so much, from 1; 0 if there is none."""
        found, least = 0, 0
        for number, segment in self._segments.items():
            size = segment.size
            if size >= nbytes and segment.state[0] == FREE and (not found or size < least):
                found, least = number, size
        return found

    def _new(self, nbytes: int) -> int:
        """The number of a new segment; 0 if none can or should be made."""
        size = shared_buffers.rounded(nbytes) + PAGE
        if size > self._left or len(self._segments) == SEGMENTS or not self._comes_again(nbytes):
            return 0
        try:
            fd = shared_buffers.memory_file(size)
        except OSError:
            return 0
        try:
            shared_buffers.seal(fd, SEALS)
            made = Segment(fd, size)
        except OSError:
            os.close(fd)
            return 0
        self.unsent.append(fd)
        self._left -= size
        self._count += 1
        self._segments[self._count] = made
        return self._count

    def _comes_again(self, nbytes: int) -> bool:
        """Whether such a size has come before; from now on it has."""
        size = shared_buffers.rounded(nbytes)
        if size in self._sizes:
            return True
        self._sizes[size] = None
        if len(self._sizes) > _REMEMBERED:
            del self._sizes[next(iter(self._sizes))]
        return False

    def close(self) -> None:
        """Let go of all; the other side keeps what it uses."""
        self._closed = True
        self._segments.clear()
        self._left = 0
        for buffer, (_, borrow) in list(self._borrows.items()):
            buffer.left(borrow)
        self._borrows.clear()
        for fd in self.descriptors():
            os.close(fd)


class Borrower:
    """One end of a connection, receiving."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: of all segments and shared buffers together."""
        self._max_bytes = max_bytes
        self._left = max_bytes
        self._came: list[Segment | BorrowedBuffer | None] = []
        self._borrowed_buffers: list[
            tuple[int, BorrowedBuffer]
        ] = []  # with their places in `_came`
        self._board: memoryview | None = None
        self._buffers = 0
        self._lent: set[int] = set()

    @property
    def has_any(self) -> bool:
        """Whether there is a segment or a shared buffer."""
        return bool(self._came)

    def accept(self, fd: int) -> None:
        """Take a descriptor that came; closes it.

        Raises InvalidArgument for what is none of ours, ResourceExhausted beyond the limit, or if it cannot be mapped.
        """
        try:
            size = os.fstat(fd).st_size
            seals = _seals(fd)
            if seals & SEALS != SEALS or size <= PAGE:
                raise errors.invalid_argument(
                    "a file descriptor came that is not one of a sealed memory file"
                )
            if seals & _FINAL:
                self._accept_board(fd, size)
            elif seals & READ_ONLY:
                self._accept_home(fd, size)
            else:
                self._check_room(size)
                self._came.append(Segment(fd, size))
                self._left -= size
        except OSError as error:
            raise errors.resource_exhausted(f"shared memory cannot be mapped: {error}") from error
        finally:
            os.close(fd)

    def _check_room(self, size: int) -> None:
        if size > self._left:
            raise errors.resource_exhausted(
                f"shared memory of {size} bytes came; {self._left} are left of {self._max_bytes}"
            )

    def _accept_board(self, fd: int, size: int) -> None:
        if size != BOARD or self._board is not None:
            raise errors.invalid_argument("a board of shared memory came that is not the only one")
        self._board = memoryview(shared_buffers.mapped(fd, size)).cast("Q")

    def _accept_home(self, fd: int, size: int) -> None:
        if self._board is None or self._buffers == BUFFERS:
            raise errors.invalid_argument("a variable's memory came, and there is no board for it")
        self._let_go()
        self._check_room(size)
        buffer = BorrowedBuffer(fd, size, self._board, self._buffers)
        self._borrowed_buffers.append((len(self._came), buffer))
        self._came.append(buffer)
        self._buffers += 1
        self._left -= size

    def _let_go(self) -> None:
        """Of shared buffers that are no more; arrays on them keep their memory."""
        for place, buffer in self._borrowed_buffers:
            if buffer.is_gone[0]:
                self._came[place] = None
                self._left += buffer.size
        self._borrowed_buffers = [
            (place, buffer) for place, buffer in self._borrowed_buffers if self._came[place]
        ]

    def array(self, number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The tensor in segment or buffer `number`; it goes back when the array and all its views are gone.

        One in a shared buffer is read-only.
        Raises InvalidArgument for a number that there is not, memory that is too small, or a segment whose last tensor
        is still in use.
        """
        found = self._came[number - 1] if 0 < number <= len(self._came) else None
        if found is None:
            raise errors.invalid_argument(
                f"a tensor is said to be in shared memory {number}; {len(self._came)} came"
            )
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > found.size:
            raise errors.invalid_argument(
                f"a tensor of {nbytes} bytes is said to be in shared memory of {found.size}"
            )
        if type(found) is Segment:
            if number in self._lent:
                raise errors.invalid_argument(
                    f"shared memory {number} came again while it was in use"
                )
            self._lent.add(number)
        array = found.array(dtype, shape)
        borrowed = _Borrowed(array, _give_back)
        borrowed.whose, borrowed.number, borrowed.lent = found, number, self._lent
        borrowed.process = os.getpid()
        _out[id(borrowed)] = borrowed
        return array

    def close(self) -> None:
        """Let go of all but what is in use."""
        self._came.clear()
        self._borrowed_buffers.clear()


def _seals(fd: int) -> int:
    """0 for what has none."""
    with contextlib.suppress(OSError):
        return fcntl.fcntl(fd, _GET_SEALS)
    return 0


class _Borrowed(weakref.ref[Array]):
    """An array in shared memory; when it goes, so that no view of it is left, the memory is given back."""

    __slots__ = ("lent", "number", "process", "whose")

    lent: set[int]
    number: int
    process: int
    whose: Segment | BorrowedBuffer


_out: dict[int, _Borrowed] = {}


def _give_back(borrowed: Any) -> None:
    del _out[id(borrowed)]
    if os.getpid() != borrowed.process:  # a fork, whose parent still uses the array
        return
    whose = borrowed.whose
    if type(whose) is Segment:
        borrowed.lent.discard(borrowed.number)
        whose.state[0] = FREE
    else:
        given_back = whose.given_back
        np.add(given_back, 1, given_back)  # one call, which no other thread interrupts
