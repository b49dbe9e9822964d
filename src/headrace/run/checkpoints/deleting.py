"""Deleting large files: the name is gone at once, and a thread frees the blocks, which takes 0.2 s a GB.

Called by: training.saver.checkpoint_management.  Threads: any; each large file has a thread of its own until it is
freed, of which the process need not wait for the end.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from headrace.run.readers.files import Files

_LARGE_BYTES: Final = 1 << 25
_ROOM: Final = 4  # times what is being freed; with less than that on the disk a save waits

_lock: Final = threading.Lock()
_freeing: Final[dict[threading.Thread, int]] = {}  # bytes


def delete(path: bytes, files: Files) -> None:
    """Delete a file.  Raises OSError, ValueError, PermissionDenied."""
    number = files.unlink(path)
    try:
        size = os.fstat(number).st_size
        if size >= _LARGE_BYTES:
            number = _handed_over(number, size)
    finally:
        if number >= 0:
            os.close(number)


def _handed_over(number: int, size: int) -> int:
    """-1 if a thread closes the descriptor; the descriptor itself where there is none to be had."""

    def free() -> None:
        os.close(number)
        with _lock:
            del _freeing[thread]

    thread = threading.Thread(target=free, name="checkpoint-deleter", daemon=True)
    with _lock:
        try:
            thread.start()
        except RuntimeError:
            return number
        _freeing[thread] = size
    return -1


def make_room(directory: str) -> None:
    """Wait for what is being freed, if there is little room where `directory` is."""
    with _lock:
        freeing = dict(_freeing)
    if not freeing:
        return
    try:
        about = os.statvfs(directory or ".")
    except OSError:
        return
    if about.f_bavail * about.f_frsize < _ROOM * sum(freeing.values()):
        for thread in freeing:
            thread.join()
