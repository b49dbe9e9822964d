"""The processes of a benchmark: started with an ear on them, ended whatever happens.

Each has a pipe as stdin that nobody writes to; should this process be killed itself, they see its end and end too.

Called by: compare (measuring processes, servers), floors (echo servers).
Threads: none; blocking calls with deadlines.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks import kernels
from benchmarks.libraries import Library

ROOT = Path(__file__).resolve().parent.parent
START_WITHIN_S = 60.0
GRACE_S = 5.0
PORT_ATTEMPTS = 5
ADDRESS_IN_USE = 75  # the exit code of a server whose port was taken
LAST_LINES = 8


class Servers(NamedTuple):
    """Of a cluster, by job."""

    addresses: dict[str, list[str]]
    pids: dict[str, list[int]]


class ProcessFailed(Exception):
    """A process did not do what it was started for; the text quotes the end of its stderr."""


class AddressTaken(ProcessFailed):
    """A server's port was taken by another program between choosing and using it."""


class Process:
    """One process, running from the project's root."""

    def __init__(
        self, command: Sequence[str], stderr: tempfile._TemporaryFileWrapper[bytes]
    ) -> None:
        self._stderr = stderr
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=ROOT,
            env=environment(),
        )

    def first_line(self, within_s: float) -> str:
        """What it wrote to stdout up to the first end of line.

        Raises ProcessFailed (it ended without, or is late), AddressTaken.
        """
        assert self.popen.stdout is not None
        deadline = time.monotonic() + within_s
        line = b""
        while not line.endswith(b"\n"):
            left = max(deadline - time.monotonic(), 0.0)
            if not select.select([self.popen.stdout], [], [], left)[0]:
                raise ProcessFailed(f"no word from it within {within_s:.0f} s{self._complaints()}")
            byte = os.read(self.popen.stdout.fileno(), 1)
            if not byte:
                code = self.popen.wait(START_WITHIN_S)
                kind = AddressTaken if code == ADDRESS_IN_USE else ProcessFailed
                raise kind(f"it ended with exit code {code}{self._complaints()}")
            line += byte
        return line.decode().rstrip("\n")

    def _complaints(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n    {line}" for line in lines)

    def end(self) -> None:
        """SIGTERM if it is still there, SIGKILL after a grace; returns when it is gone."""
        self.popen.terminate()
        try:
            self.popen.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                stream.close()


def environment() -> dict[str, str]:
    """Ours, with .pyc files written, TensorFlow quiet and on the CPU, and no kernels forced (`benchmarks.kernels`)."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kernels.adjusted(kept), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


@contextmanager
def process(command: Sequence[str]) -> Iterator[Process]:
    """A process for as long as the block lasts."""
    with tempfile.NamedTemporaryFile() as stderr:
        started = Process(command, stderr)
        try:
            yield started
        finally:
            started.end()


@contextmanager
def cluster(library: Library, sizes: Mapping[str, int]) -> Iterator[Servers]:
    """A server process of the library for each task of {job: tasks}, listening on the loopback.

    The system chooses the ports.  Raises ProcessFailed.
    """
    for attempt in range(PORT_ATTEMPTS):
        with ExitStack() as stack:
            try:
                servers = _start(stack, library, sizes)
            except AddressTaken:
                if attempt == PORT_ATTEMPTS - 1:
                    raise
                continue
            yield servers
            return


def _start(stack: ExitStack, library: Library, sizes: Mapping[str, int]) -> Servers:
    ports = iter(free_ports(sum(sizes.values())))
    addresses = {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in sizes.items()}
    spec = ";".join(f"{job}={','.join(tasks)}" for job, tasks in addresses.items())
    command = [library.python(), *library.server, "--cluster", spec]
    started = {
        job: [
            stack.enter_context(process([*command, "--job", job, "--task", str(task)]))
            for task in range(len(tasks))
        ]
        for job, tasks in addresses.items()
    }
    for of_job in started.values():
        for server in of_job:
            server.first_line(START_WITHIN_S)
    pids = {job: [server.popen.pid for server in of_job] for job, of_job in started.items()}
    return Servers(addresses, pids)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that the system says are free; another program may take them yet."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
