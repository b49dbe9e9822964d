"""Clusters of one ps and one or more workers on loopback, each task a process of either kind, and clients.

Kinds are "headrace" and "tensorflow".  A task ends when its stdin closes; a client answers requests until then.
"""

from __future__ import annotations

import os
import pickle
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headrace.tools.commands import ExitCode
from headrace.tools.serve import READY, format_cluster
from tests.ports import own_ports
from tests.support.limits import PROGRAM_WITHIN_S

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
STARTS_WITHIN_S = PROGRAM_WITHIN_S
ANSWERS_WITHIN_S = PROGRAM_WITHIN_S  # the first time it imports TensorFlow
ATTEMPTS = 3

HEADRACE, TENSORFLOW = "headrace", "tensorflow"


class PortTakenError(Exception):
    """Another program took the port between choosing and using it."""


def _environment() -> dict[str, str]:
    """What a user's shell has, without the noise: nothing else of TensorFlow's defaults is changed."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


class Process:
    """A child with pipes whose output is waited for no longer than it should take."""

    def __init__(self, what: str, command: list[str]) -> None:
        self.what = what
        # Its stdin is its lifeline; what it says on stderr shows in the test's report.
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), cwd=ROOT
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Write to its stdin."""
        self._stdin.write(data)
        self._stdin.flush()

    def read(self, size: int, within_s: float) -> bytes:
        """`size` bytes of its output.  Raises EOFError if it ends, TimeoutError."""
        deadline = time.monotonic() + within_s
        while len(self._buffer) < size:
            if not self._selector.select(max(deadline - time.monotonic(), 0)):
                raise TimeoutError(f"{self.what} said nothing for {within_s:.0f} s")
            piece = os.read(self._stdout.fileno(), 1 << 20)
            if not piece:
                raise EOFError(f"{self.what} ended with code {self._child.wait()}")
            self._buffer += piece
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def read_line(self, within_s: float) -> str:
        """A line of its output, as `read`."""
        line = b""
        while not line.endswith(b"\n"):
            line += self.read(1, within_s)
        return line.decode()

    @property
    def exit_code(self) -> int | None:
        return self._child.poll()

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self._child.kill()
        self._child.wait()

    def close(self) -> None:
        """Cut the lifeline and wait for the end."""
        self._stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._selector.close()
        self._stdout.close()


class Cluster:
    """Tasks by ``job:index``, each of its kind; all end with `close`."""

    def __init__(self, kinds: Mapping[str, str], python: str) -> None:
        """kinds: by ``job:index``.  python: one that has TensorFlow."""
        self.kinds = dict(kinds)
        self._python = python
        for attempt in range(ATTEMPTS):
            try:
                self._start()
                return
            except PortTakenError:
                self.close()
                if attempt == ATTEMPTS - 1:
                    raise
            except BaseException:
                self.close()
                raise

    def _start(self) -> None:
        ports = iter(own_ports(len(self.kinds)))
        self.spec: dict[str, list[str]] = {}
        for task in self.kinds:
            self.spec.setdefault(task.partition(":")[0], []).append(f"127.0.0.1:{next(ports)}")
        self.tasks: dict[str, Process] = {}
        for task in self.kinds:
            self.begin(task)
        for task in self.kinds:
            self.wait(task)

    def begin(self, task: str) -> None:
        """Start the process of a task, for the first time or again."""
        job, _, index = task.partition(":")
        spec = format_cluster(self.spec)
        kind = self.kinds[task]
        if kind == HEADRACE:
            command = [sys.executable, "-m", "headrace.tools.main", "serve", "--watch-fd", "0", "--grace", "0.1",
                       "--cluster", spec, "--job", job, "--task", index]  # fmt: skip
        else:
            command = [self._python, str(HERE / "task.py"), spec, job, index]
        self.tasks[task] = Process(f"{kind} {task}", command)

    def wait(self, task: str) -> None:
        """Block until a task serves.  Raises PortTakenError."""
        process = self.tasks[task]
        try:
            line = process.read_line(STARTS_WITHIN_S)
        except EOFError:
            if process.exit_code == ExitCode.ADDRESS_IN_USE:
                raise PortTakenError(task) from None
            raise
        assert line.startswith(READY), line

    def target(self, task: str) -> str:
        """grpc://host:port of a task."""
        job, _, index = task.partition(":")
        return f"grpc://{self.spec[job][int(index)]}"

    def close(self) -> None:
        """End every task."""
        with ExitStack() as stack:
            for process in self.tasks.values():
                stack.callback(process.close)
        self.tasks = {}


class CaseError(Exception):
    """What a case raised in its client: `kind` is the class, `node` the name of the error's `op`."""

    def __init__(self, kind: str, message: str, node: str | None, trace: str) -> None:
        super().__init__(f"{kind} (op: {node}): {message}\n{trace}")
        self.kind = kind
        self.message = message
        self.node = node


class Client:
    """A process that runs cases under one of both imports; a new one after a case that hung."""

    def __init__(self, kind: str, python: str) -> None:
        self.kind = kind
        self._command = [
            sys.executable if kind == HEADRACE else python,
            str(HERE / "client.py"),
            kind,
        ]
        self._process: Process | None = None
        self.start()

    def start(self) -> None:
        """Start the process if there is none."""
        if self._process is None:
            self._process = Process(f"{self.kind} client", self._command)

    def run(self, area: str, case: str, **here: Any) -> Any:
        """What the case of that area returns.  Raises CaseError, TimeoutError."""
        self.start()
        process = self._process
        assert process is not None
        request = pickle.dumps((area, case, here))
        process.send(struct.pack("<Q", len(request)) + request)
        try:
            size = struct.unpack("<Q", process.read(8, ANSWERS_WITHIN_S))[0]
            ok, value = pickle.loads(process.read(size, ANSWERS_WITHIN_S))
        except (TimeoutError, EOFError):
            process.kill()
            self.close()  # the next case gets a process of its own
            raise
        if not ok:
            raise CaseError(*value)
        return value

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
