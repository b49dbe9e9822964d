"""Shared-memory buffers: memory of variables that other processes of this host use where it is.

A variable that is sent again and again moves into a shared buffer: a memory file, which the receivers map, read-only.
From then on nothing is copied when it is sent.  An update while somebody may still read works in another shared buffer
of the variable (`BufferPool`), which is used again, pages and mappings included, when the last reader has let go.
Who reads is in `Borrow`s, one for each connection over which the buffer was lent: a number of times lent, kept here,
and a number of times given back, which the receiver writes into memory that both share.  A connection that ends before
everything was given back leaves the buffer to those who have it: it is never written again.

A result that is made only to be sent can be made in a shared buffer from the beginning (`OutputPool`), which is free
again when the receivers have let go.

Called by: run.state.variable (moves, updates), plan.rules.send_buffers (results), serve.lane.shared_memory (lends).
Threads: any; a Borrow is written by one thread at a time.  Source: Linux, memfd_create(2), fcntl(2)
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

GRAIN: Final = 1 << 16
"""Sizes are multiples of this, so that tensors of nearly one size share memory."""
SEALS: Final = getattr(fcntl, "F_SEAL_SHRINK", 2) | getattr(fcntl, "F_SEAL_GROW", 4)
"""Of all memory files that are shared: whoever maps one may touch all of it, whatever others do."""
READ_ONLY: Final = getattr(fcntl, "F_SEAL_FUTURE_WRITE", 16)
"""The seal of a shared buffer: nobody else can write to it.  Linux 5.1."""
_ADD_SEALS: Final = getattr(fcntl, "F_ADD_SEALS", 1033)
_SPARE: Final = 2  # shared buffers that are kept beyond those in use
_MOST_RESULTS: Final = 8  # shared buffers of one result
_PAUSE: Final = 64  # steps

AVAILABLE: Final = hasattr(os, "memfd_create")
"""Whether this system has memory files."""


def memory_file(size: int) -> int:
    """A descriptor of a memory file whose pages are there.  Raises OSError."""
    fd = os.memfd_create("headrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.posix_fallocate(fd, 0, size)  # or a lack of memory would kill the process later
    except OSError:
        os.close(fd)
        raise
    return fd


def seal(fd: int, seals: int) -> None:
    """Add seals to a memory file.  Raises OSError."""
    fcntl.fcntl(fd, _ADD_SEALS, seals)


_FLAGS: Final = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)


def mapped(fd: int, size: int, access: int = mmap.PROT_READ | mmap.PROT_WRITE) -> mmap.mmap:
    """The first `size` bytes of a memory file, all pages at once.  Raises OSError."""
    return mmap.mmap(fd, size, _FLAGS, access)


class _Map(mmap.mmap):
    """The memory of a shared buffer, which is known by it."""

    buffer: Callable[[], SharedBuffer | None]


class Borrow:
    """A shared buffer, lent over one connection.  `times`: how often so far."""

    __slots__ = ("_given_back", "_index", "times")

    def __init__(self, given_back: memoryview, index: int) -> None:
        """given_back: counters that the receiver writes; index: of this one."""
        self._given_back = given_back
        self._index = index
        self.times = 0

    @property
    def is_out(self) -> bool:
        """Whether the receiver has not given all of it back."""
        found: int = self._given_back[self._index]
        return found != self.times


class SharedBuffer:
    """One memory file, with at most one array at a time."""

    __slots__ = (
        "__weakref__",
        "_left",
        "_borrows",
        "_lock",
        "_map",
        "_root",
        "_spoiled",
        "fd",
        "size",
    )

    def __init__(self, nbytes: int, left: Callable[[SharedBuffer], object] | None = None) -> None:
        """left: called, from any thread, when the last connection has ended over which it was lent.

        Raises OSError if there is no memory, or the system has no such files.
        """
        self.size = rounded(nbytes)
        self.fd = -1
        self.fd = memory_file(self.size)
        self._map = _Map(self.fd, self.size, _FLAGS, mmap.PROT_READ | mmap.PROT_WRITE)
        self._map.buffer = weakref.ref(self)
        self._left = left
        seal(self.fd, SEALS | READ_ONLY)
        self._lock = threading.Lock()
        self._borrows: tuple[Borrow, ...] = ()  # never changed, only replaced: others read it
        self._root: weakref.ref[Array] | None = None
        self._spoiled = False

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """An array in this buffer, which is free."""
        root: Array = np.ndarray(shape, dtype, self._map)
        self._root = weakref.ref(root)
        return root

    def lent(self, borrow: Borrow) -> None:
        """It is lent over another connection, from now on by `borrow`."""
        with self._lock:
            self._borrows = (*self._borrows, borrow)

    def left(self, borrow: Borrow) -> None:
        """That connection has ended."""
        with self._lock:
            self._spoiled = self._spoiled or borrow.is_out
            self._borrows = tuple(other for other in self._borrows if other is not borrow)
        if self._left is not None and not self._borrows:
            self._left(self)

    @property
    def was_lent(self) -> bool:
        """Whether there is a connection over which it was lent."""
        return bool(self._borrows)

    @property
    def is_lent(self) -> bool:
        """Whether another process may read it."""
        if self._spoiled:
            return True
        for borrow in self._borrows:  # noqa: SIM110 - a generator costs more than the loop
            if borrow.is_out:
                return True
        return False

    @property
    def is_used(self) -> bool:
        """Whether an array here still lies in it."""
        return self._root is not None and self._root() is not None

    @property
    def is_lost(self) -> bool:
        """Whether it can never be written again."""
        return self._spoiled

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class BufferPool:
    """The shared buffers of one variable.  Called with the variable's lock held."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: list[SharedBuffer] = []

    def free(self, nbytes: int) -> SharedBuffer | None:
        """A shared buffer of that size that nobody uses, a new one if need be; None if there is no memory."""
        size = rounded(nbytes)
        used: list[SharedBuffer] = []
        free: list[SharedBuffer] = []
        for buffer in self._all:
            if buffer.is_used or buffer.is_lent:
                if not buffer.is_lost:
                    used.append(buffer)
            elif buffer.size == size:
                free.append(buffer)
        del free[1 + _SPARE :]
        self._all = [*used, *free]
        if free:
            return free[0]
        try:
            made = SharedBuffer(nbytes)
        except OSError:
            return None
        self._all.append(made)
        return made


class OutputPool:
    """Shared buffers for one result of a program, step after step.  Threads: any."""

    __slots__ = ("__weakref__", "_buffers", "_lock", "_pause")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: list[SharedBuffer] = []
        self._pause = 0  # steps that use other memory

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array | None:
        """Where to make the result; None: in other memory.

        That is so for a while after one was made in a shared buffer and not lent; if there is no memory; and if the
        receivers keep many.
        """
        size = rounded(math.prod(shape) * dtype.itemsize)
        with self._lock:
            if self._pause:
                self._pause -= 1
                return None
            for buffer in self._buffers:
                if not buffer.is_used:
                    if not buffer.was_lent:
                        self._buffers.clear()
                        self._pause = _PAUSE
                        return None
                    if buffer.size == size and not buffer.is_lent:
                        return buffer.array(dtype, shape)
            if len(self._buffers) >= _MOST_RESULTS:
                self._buffers = [buffer for buffer in self._buffers if buffer.is_used]
                return None
            try:
                buffer = SharedBuffer(size, _forgotten_by(weakref.ref(self)))
            except OSError:
                self._pause = _PAUSE
                return None
            self._buffers.append(buffer)
            return buffer.array(dtype, shape)

    def forget(self, buffer: SharedBuffer) -> None:
        """Nobody has it any more: it may go."""
        with self._lock:
            self._buffers = [other for other in self._buffers if other is not buffer]


def _forgotten_by(pool: weakref.ref[OutputPool]) -> Callable[[SharedBuffer], object]:
    def left(buffer: SharedBuffer) -> None:
        whose = pool()
        if whose is not None:
            whose.forget(buffer)

    return left


def buffer_of(array: Array) -> SharedBuffer | None:
    """The shared buffer that an array lies in; None: it lies in none, or is only a view of one that does."""
    base: Any = array.base
    return base.buffer() if base.__class__ is _Map else None


def rounded(nbytes: int) -> int:
    """A multiple of GRAIN, not 0."""
    return max(1, -(-nbytes // GRAIN)) * GRAIN
