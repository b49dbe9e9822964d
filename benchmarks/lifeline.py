"""A process of ours ends when its stdin does: who started it is gone, however it went.

Called by: child, echo, tensorflow_server (headrace's own server has `--watch-fd`).
Threads: one daemon, blocked in read.
"""

from __future__ import annotations

import os
import sys
import threading


def end_with_stdin() -> None:
    """End this process as soon as its stdin is closed at the other end."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
