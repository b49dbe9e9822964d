"""The server of multiprocessing's managers: `python -m benchmarks.neighbours.managed`.

Writes the path of its unix socket on a line, and ends with its stdin.
"""

from __future__ import annotations

import os
import queue
import tempfile
import threading
from multiprocessing.managers import BaseManager

from benchmarks.lifeline import end_with_stdin

KEY = b"neighbours"


class Number:
    """A number that many add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0

    def read(self) -> int:
        """What it is now."""
        return self._number

    def add(self, more: int) -> int:
        """What it is then."""
        with self._lock:
            self._number += more
            return self._number


class Large:
    """Bytes that many read."""

    def __init__(self) -> None:
        self._content = b""

    def read(self) -> bytes:
        """What was stored last."""
        return self._content

    def store(self, content: bytes) -> None:
        """Have these."""
        self._content = content


class Manager(BaseManager):
    """Of one number, one queue and one large value."""


NUMBER, QUEUE, LARGE = Number(), queue.Queue[int](), Large()
Manager.register("number", lambda: NUMBER)
Manager.register("queue", lambda: QUEUE)
Manager.register("large", lambda: LARGE)


def main() -> None:
    """As the module says."""
    end_with_stdin()
    with tempfile.TemporaryDirectory(prefix="managed-") as folder:
        path = os.path.join(folder, "socket")
        server = Manager(path, KEY).get_server()
        print(path, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
