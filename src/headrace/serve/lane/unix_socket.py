"""Unix sockets at paths of any length.

The system takes no address of more than some 100 bytes, and folders for temporary files may have much longer names. A
longer path is named by way of a descriptor of its folder, which whoever binds or connects opens for as long as that
takes; who may enter the folder decides who may connect, as ever.
Called by: serve.lane.server, serve.lane.connect.  Source: Linux, unix(7), proc_pid_fd(5)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_BYTES = 103  # of macOS with the zero at the end; 107 elsewhere


@contextmanager
def address_of(path: str) -> Iterator[str]:
    """What to bind or connect a unix socket to, inside the block, so that it is at `path`.

    Raises OSError (no such folder, or none that may be entered).
    """
    if len(os.fsencode(path)) <= _MOST_BYTES:
        yield path
        return
    folder, name = os.path.split(path)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)
