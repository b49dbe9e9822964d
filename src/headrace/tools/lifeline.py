"""Lifeline: a pipe that tells a child process that its parent is gone, however it went.

The parent holds the write end and never writes.  Children inherit the read end and wait for the
end of file, which the kernel delivers when the last write end closes: on a clean exit, on a crash
and on `kill -9` alike.

Called by: serve, demo.
Threads: `watch` starts one daemon thread, which blocks in read and ends with the process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType


class Lifeline:
    """The parent's side.  Give `read_fd` to children (`pass_fds`); closing cuts the line."""

    def __init__(self) -> None:
        self.read_fd, self._write_fd = os.pipe()  # not inheritable by default
        self._open = True

    def close(self) -> None:
        """Cut the line: everyone who watches notices.  A second call does nothing."""
        if self._open:
            self._open = False
            os.close(self._write_fd)
            os.close(self.read_fd)

    def __enter__(self) -> Lifeline:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def watch(fd: int, on_lost: Callable[[], None]) -> threading.Thread:
    """Call `on_lost` once, on a thread of its own, when the other end of `fd` is closed.

    Raises OSError at once if `fd` is no open descriptor.
    """
    os.fstat(fd)

    def wait() -> None:
        while os.read(fd, 1024):
            pass
        on_lost()

    thread = threading.Thread(target=wait, name=f"lifeline-{fd}", daemon=True)
    thread.start()
    return thread


def end_process_when_lost(fd: int, code: int = 1) -> None:
    """End this process at once when the other end of `fd` closes; for programs with no state."""
    watch(fd, lambda: os._exit(code))
