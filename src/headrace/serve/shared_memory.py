"""Large tensors between two processes of one host, through memory that both have mapped.

A value is copied once, into a segment, and used where it is by the process that it was sent to; a socket copies twice,
the second time into new memory.  It pays because segments are used again: their pages are there, and mapped.
A segment is a memory file: a page whose first byte says whose turn it is, then the bytes of one tensor at a time.

The `Lender` of a connection makes segments and fills them; the descriptor of a new one goes to the other process once,
beside the frame that first refers to it.  The `Borrower` there makes arrays of them; when the last array on a segment
is gone, its first byte is set back, and the lender may fill it again.  Nobody is told and nobody waits: without a free
segment a tensor goes through the socket.  A segment cannot shrink, so touching it is safe whatever the other
process does; what it holds is as trustworthy as the process that lent it, which can still write to it.  Hence no bools,
whose bytes NumPy trusts.

Called by: the lane's sockets.  Threads: a Lender and a Borrower belong to the thread that has the connection; any may
drop the last array.  Source: Linux, memfd_create(2)
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import mmap
import os
from typing import Any, Final

import numpy as np

from headrace.base import errors
from headrace.codec.frames import Elsewhere

Array = np.ndarray[Any, Any]

PAGE: Final = 4096
GRAIN: Final = 1 << 16
"""Segments are multiples of this, so that tensors of nearly one size share them."""
FREE: Final = 0
LENT: Final = 1

SEALS: Final = getattr(fcntl, "F_SEAL_SHRINK", 2) | getattr(fcntl, "F_SEAL_GROW", 4)
_ADD_SEALS: Final = getattr(fcntl, "F_ADD_SEALS", 1033)
_GET_SEALS: Final = getattr(fcntl, "F_GET_SEALS", 1034)
_REMEMBERED: Final = 64  # sizes that have come once

AVAILABLE: Final = hasattr(os, "memfd_create")
"""Whether this system has memory files."""


class Segment:
    """Memory that another process has mapped too; it stays as long as anything refers to it."""

    __slots__ = ("_map", "contents", "state")

    def __init__(self, fd: int, size: int) -> None:
        """Map the first `size` bytes of a memory file.  Raises OSError."""
        self._map = mmap.mmap(fd, size, mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))
        whole = memoryview(self._map)
        self.state = whole[:1]
        self.contents: Array = np.frombuffer(whole[PAGE:], np.uint8)


class Lender:
    """One end of a connection, sending."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: of all its segments."""
        self._left = max_bytes
        self._segments: list[Segment] = []
        self._sizes: dict[int, None] = {}  # that have come once, oldest first
        self._unsent: list[int] = []

    def lend(self, value: Array) -> Elsewhere | None:
        """Copy `value` into a segment; what to pack in its place.  None: send the array itself.

        None for what has no plain bytes, for the first tensor of a size, for which new memory would not pay, and when
        all segments are lent and no more may be made.
        """
        if value.dtype.kind in "Ob" or not value.dtype.isnative or not value.nbytes:
            return None
        number = self._free(value.nbytes) or self._new(value.nbytes)
        if not number:
            return None
        segment = self._segments[number - 1]
        target = segment.contents[: value.nbytes].view(value.dtype).reshape(value.shape)
        np.copyto(target, value)
        segment.state[0] = LENT
        return Elsewhere(number, value.dtype, value.shape)

    @property
    def has_any(self) -> bool:
        """Whether there is a segment."""
        return bool(self._segments)

    def descriptors(self) -> list[int]:
        """Of segments that the other side does not know yet, in order; they must go with the next frame.

        The caller closes them.
        """
        unsent, self._unsent = self._unsent, []
        return unsent

    def _free(self, nbytes: int) -> int:
        """The number of the smallest free segment that holds so much, from 1; 0 if there is none."""
        found, least = 0, 0
        for number, segment in enumerate(self._segments, 1):
            size = segment.contents.nbytes
            if size >= nbytes and segment.state[0] == FREE and (not found or size < least):
                found, least = number, size
        return found

    def _new(self, nbytes: int) -> int:
        """The number of a new segment; 0 if none can or should be made."""
        size = -(-nbytes // GRAIN) * GRAIN
        if size + PAGE > self._left or not self._has_come(size):
            return 0
        try:
            fd = os.memfd_create("headrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:
            return 0
        try:
            os.posix_fallocate(
                fd, 0, size + PAGE
            )  # or a lack of memory would kill the process later
            fcntl.fcntl(fd, _ADD_SEALS, SEALS)
            self._segments.append(Segment(fd, size + PAGE))
        except OSError:
            os.close(fd)
            return 0
        self._unsent.append(fd)
        self._left -= size + PAGE
        return len(self._segments)

    def _has_come(self, size: int) -> bool:
        """Whether it has come before; from now on it has."""
        if size in self._sizes:
            return True
        self._sizes[size] = None
        if len(self._sizes) > _REMEMBERED:
            del self._sizes[next(iter(self._sizes))]
        return False

    def close(self) -> None:
        """Let go of all segments; the other side keeps what it uses."""
        self._segments.clear()
        self._left = 0
        for fd in self.descriptors():
            os.close(fd)


class Borrower:
    """One end of a connection, receiving."""

    def __init__(self, max_bytes: int) -> None:
        """max_bytes: of all segments together."""
        self._max_bytes = max_bytes
        self._left = max_bytes
        self._segments: list[Segment] = []
        self._lent: set[int] = set()

    @property
    def has_any(self) -> bool:
        """Whether there is a segment."""
        return bool(self._segments)

    def accept(self, fd: int) -> None:
        """Take a descriptor that came; closes it.

        Raises InvalidArgument for what is no segment, ResourceExhausted beyond the limit, or if it cannot be mapped.
        """
        try:
            size = os.fstat(fd).st_size
            if size <= PAGE or _seals(fd) & SEALS != SEALS:
                raise errors.invalid_argument(
                    "a file descriptor came that is not one of a sealed memory file"
                )
            if size > self._left:
                raise errors.resource_exhausted(
                    f"shared memory of {size} bytes came; {self._left} are left of {self._max_bytes}"
                )
            self._segments.append(Segment(fd, size))
            self._left -= size
        except OSError as error:
            raise errors.resource_exhausted(f"shared memory cannot be mapped: {error}") from error
        finally:
            os.close(fd)

    def array(self, number: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """The tensor in segment `number`, writable; the segment goes back when it and all its views are gone.

        Raises InvalidArgument for a segment that there is not, is too small, or whose last tensor is still in use.
        """
        if not 0 < number <= len(self._segments):
            raise errors.invalid_argument(
                f"a tensor is said to be in shared memory {number}; {len(self._segments)} came"
            )
        segment = self._segments[number - 1]
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > segment.contents.nbytes:
            raise errors.invalid_argument(
                f"a tensor of {nbytes} bytes is said to be in shared memory of {segment.contents.nbytes}"
            )
        if number in self._lent:
            raise errors.invalid_argument(f"shared memory {number} came again while it was in use")
        self._lent.add(number)
        loan = _Loan(segment, nbytes, self._lent, number)
        return np.asarray(loan).view(dtype).reshape(shape)

    def close(self) -> None:
        """Let go of all segments but those whose tensors are in use."""
        self._segments.clear()


def _seals(fd: int) -> int:
    """0 for what has none."""
    with contextlib.suppress(OSError):
        return fcntl.fcntl(fd, _GET_SEALS)
    return 0


class _Loan:
    """The base of an array on a segment; it gives the segment back when it goes."""

    __slots__ = ("__array_interface__", "_lent", "_number", "_process", "_segment")

    def __init__(self, segment: Segment, nbytes: int, lent: set[int], number: int) -> None:
        self._segment = segment
        self._lent = lent
        self._number = number
        self._process = os.getpid()
        contents = segment.contents[:nbytes]
        self.__array_interface__ = contents.__array_interface__

    def __del__(self) -> None:
        if os.getpid() == self._process:  # not a fork, whose parent still uses the array
            self._lent.discard(self._number)
            self._segment.state[0] = FREE
