"""Event files: who adds an event never waits for the disk; a thread of the file's own writes.

Events are kept in memory until there are WRITE_BYTES of them, until the oldest has been there for `flush_secs`, or
until somebody flushes or closes.  An interpreter that ends closes what is open, after Ctrl-C too; what is in memory is
lost where a process is killed.  Memory is bounded: who adds an event while ROOM_BYTES and `max_queue` events are there
waits until they are written.  An error of the disk is raised by whoever adds, flushes or closes next; nothing is
written after it.
Called by: training.summary_writer.  Threads: any; one thread a file, of a thread group of its own.  A file that is
dropped without being closed is closed by its thread, nobody waits for that.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
import weakref
from typing import BinaryIO, Final

from headrace.base import errors
from headrace.codec import events, records
from headrace.run.readers.files import ANYWHERE, Files, file_error
from headrace.run.scope import sleep_limit
from headrace.run.thread_group import ThreadGroup
from headrace.run.uninterrupted import changes

WRITE_BYTES: Final = 1 << 16
ROOM_BYTES: Final = 1 << 22

log = logging.getLogger("headrace")


class EventFile:
    """A new event file in a directory."""

    def __init__(
        self,
        directory: str,
        max_queue: int = 10,
        flush_secs: float = 120,
        suffix: str = "",
        files: Files = ANYWHERE,
    ) -> None:
        """Makes the file, with its first event, and its directory where that is missing.

        Raises errors of files: NotFoundError, FailedPreconditionError, PermissionDeniedError, ….
        """
        path, file = _new_file(directory, suffix, files)
        self.path = path
        self._writing = _Writing(path, file, max_queue, flush_secs)
        weakref.finalize(self, self._writing.let_go).atexit = False

    def add(self, event: bytes) -> None:
        """Append an Event.  Raises FailedPreconditionError after `close`, and what writing met with."""
        self._writing.add(event)

    def flush(self) -> None:
        """Wait until all that was added is in the file.  Raises what writing met with."""
        self._writing.flush()

    def close(self) -> None:
        """`flush`, and end the thread; closing again does nothing.  Raises what writing met with."""
        self._writing.close()


def _new_file(directory: str, suffix: str, files: Files) -> tuple[str, BinaryIO]:
    """A file whose name nothing has: one of the same second is not written over, its successor counts as later."""
    now = time.time()
    host = socket.gethostname()
    later = 0
    while True:
        path = os.path.join(directory, events.file_name(now + later, host, suffix))
        raw = os.fsencode(path)
        try:
            file = files.open(raw, "xb", buffering=0, make_directories=True)
        except FileExistsError as error:
            if not files.exists(raw):
                raise file_error(raw, error) from None
            later += 1
        except (OSError, ValueError) as error:
            raise file_error(raw, error) from None
        else:
            break
    try:
        _write(file, records.framed(events.first_event(now)))
    except OSError as error:
        file.close()
        raise file_error(raw, error) from None
    return path, file


def _write(file: BinaryIO, content: bytes) -> None:
    """All of it: a write of the system may take less."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


class _Writing:
    """What the thread of a file and those who add to it share."""

    def __init__(self, path: str, file: BinaryIO, max_queue: int, flush_secs: float) -> None:
        self._path = path
        self._file = file
        self._max_queue = max_queue
        self._flush_secs = flush_secs
        self._lock = threading.RLock()  # a garbage collection while it is held may let go
        self._work = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._added = 0
        self._written = 0
        self._wanted = 0  # as many are to be written at once
        self._closing = False
        self._failure: errors.OpError | None = None
        self._process = os.getpid()
        self._group = ThreadGroup(f"event file {os.path.basename(path)}")
        _open.add(self)
        self._group.start(self._run, name="writer")

    # -- those who add ----------------------------------------------------------------------

    def add(self, event: bytes) -> None:
        with self._lock:
            while (
                self._bytes >= ROOM_BYTES
                and len(self._waiting) >= self._max_queue
                and self._failure is None
            ):
                self._progress.wait(sleep_limit(None))
            self._check()
            if self._closing:
                raise errors.failed_precondition(
                    f"the event file {self._path} is closed; a writer that is to go on begins another: `reopen`"
                )
            self._put(event)

    @changes
    def _put(self, event: bytes) -> None:
        self._waiting.append(event)
        self._added += 1
        before = self._bytes
        self._bytes += len(event)
        if not before or before < WRITE_BYTES <= self._bytes:
            self._work.notify()

    def flush(self) -> None:
        with self._lock:
            wanted = self._wanted = self._added
            self._work.notify()
            while self._written < wanted and self._failure is None:
                self._progress.wait(sleep_limit(None))
            self._check()

    def close(self) -> None:
        if os.getpid() != self._process:  # a fork's child has the events, and not the thread
            return
        self.let_go()
        with self._group:
            pass
        with self._lock:
            self._check()

    def let_go(self) -> None:
        """Ask for the end, and do not wait for it."""
        with self._lock:
            self._closing = True
            self._work.notify()

    def _check(self) -> None:
        if self._failure is not None:
            raise errors.copied(self._failure)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._write_next():
                pass
        except OSError as error:
            self._fail(file_error(os.fsencode(self._path), error))
        finally:
            self._file.close()
            _open.discard(self)

    def _write_next(self) -> bool:
        """Wait for work and do it; False after the last.  Raises OSError."""
        with self._lock:
            self._wait_for_work()
            taken, self._waiting = self._waiting, []
            last = self._closing
        if taken:
            _write(self._file, b"".join(map(records.framed, taken)))
        if last:
            self._file.close()
        with self._lock:
            self._bytes = sum(map(len, self._waiting))
            self._written += len(taken)
            self._progress.notify_all()
        return not last

    def _wait_for_work(self) -> None:
        """Until there is enough to write, or it has been there for long enough, or somebody waits for it."""
        until = None
        while not (self._closing or self._bytes >= WRITE_BYTES or self._wanted > self._written):
            if self._waiting and until is None:
                until = time.monotonic() + self._flush_secs
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            self._work.wait(left)

    def _fail(self, error: errors.OpError) -> None:
        with self._lock:
            self._failure = errors.detached(error)
            self._waiting, self._bytes = [], 0
            self._progress.notify_all()


_open: Final[set[_Writing]] = set()


def _close_all() -> None:
    """What is open when the interpreter ends."""
    for each in list(_open):
        try:
            each.close()
        except errors.OpError as error:
            log.error("events were lost when the program ended: %s", error)


atexit.register(_close_all)
