"""A floor for headrace's own transport: `python -m benchmarks.neighbours.copied`.

Messages of 64 bytes come back over a unix socket, a thread a connection; before those that ask for the large array it
is copied into memory that the client has mapped, too.

Writes the path of its unix socket on a line, and ends with its stdin.
"""

from __future__ import annotations

import mmap
import os
import socket
import tempfile
import threading
from typing import Any

import numpy as np

from benchmarks.lifeline import end_with_stdin

MESSAGE_BYTES = 64
ECHO, STORE, LARGE = (bytes([kind]) * MESSAGE_BYTES for kind in (0, 1, 2))

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Served:
    """What all connections share.  content: the large array's bytes."""

    def __init__(self) -> None:
        self.content: Bytes = np.empty(0, np.uint8)

    def serve(self, connection: socket.socket) -> None:
        """Answer until the other side has gone."""
        into: Bytes = self.content
        with connection:
            while message := connection.recv(MESSAGE_BYTES):
                if message == LARGE:
                    np.copyto(into, self.content)
                elif message == STORE:
                    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
                    into = mapped(descriptors[0])
                    self.content = into.copy()
                connection.sendall(message)


def mapped(descriptor: int) -> Bytes:
    """All of a memory file; closes the descriptor."""
    try:
        memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    return np.frombuffer(memory, np.uint8)


class Client:
    """A connection to such a server.  Threads: one."""

    def __init__(self, path: str) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.connect(path)
        self._memory: Bytes = np.empty(0, np.uint8)

    def ask(self, message: bytes) -> None:
        """Send it, and wait until it comes back.  Raises EOFError."""
        self._sock.send(message)
        self._come_back()

    def _come_back(self) -> None:
        if len(self._sock.recv(MESSAGE_BYTES)) != MESSAGE_BYTES:
            raise EOFError("the echo is gone")

    def store(self, content: memoryview) -> None:
        """Have the server keep these bytes; it copies into this client's memory from now on."""
        descriptor = os.memfd_create("copied")
        os.truncate(descriptor, content.nbytes)
        given = os.dup(descriptor)
        self._memory = mapped(descriptor)
        self._memory[:] = np.frombuffer(content, np.uint8)
        self._sock.send(STORE)
        socket.send_fds(self._sock, [b"\0"], [given])
        os.close(given)
        self._come_back()

    def large(self) -> Bytes:
        """The bytes that the server has copied."""
        self.ask(LARGE)
        return self._memory


def main() -> None:
    """As the module says."""
    end_with_stdin()
    served = Served()
    with tempfile.TemporaryDirectory(prefix="copied-") as folder:
        path = os.path.join(folder, "socket")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            print(path, flush=True)
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=served.serve, args=(connection,), daemon=True).start()


if __name__ == "__main__":
    main()
