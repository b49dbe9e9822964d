"""Clusters on loopback for the tests: servers of this process, or a process each; all end with their block.

Addresses are ports that the system says are free, and that other programs do not get meanwhile.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from headrace.base import errors
from headrace.serve.server import Server
from headrace.tools.commands import ExitCode
from headrace.tools.lifeline import Lifeline
from headrace.tools.serve import READY, format_cluster
from tests.ports import own_ports

ATTEMPTS = 5
WITHIN_S = 60.0

Jobs = Mapping[str, int]
"""Number of tasks by job name."""


def addresses(jobs: Jobs) -> dict[str, list[str]]:
    """{job: addresses} with ports of the loopback that are free and stay so."""
    ports = iter(own_ports(sum(jobs.values())))
    return {job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in jobs.items()}


class Cluster:
    """Servers of this process, by ``job:task``."""

    def __init__(self, spec: dict[str, list[str]]) -> None:
        self.spec = spec
        self.servers: dict[str, Server] = {}
        try:
            for job, tasks in spec.items():
                for index in range(len(tasks)):
                    self.start(f"{job}:{index}")
        except BaseException:
            self.stop()
            raise

    def start(self, task: str) -> Server:
        """Start a task, again or for the first time."""
        job, _, index = task.partition(":")
        server = self.servers[task] = Server(self.spec, job_name=job, task_index=int(index))
        return server

    def address(self, task: str) -> str:
        """host:port of a task."""
        job, _, index = task.partition(":")
        return self.spec[job][int(index)]

    def target(self, task: str) -> str:
        """grpc://host:port of a task."""
        return f"grpc://{self.address(task)}"

    def stop(self) -> None:
        """Stop every server."""
        for server in self.servers.values():
            server.stop()


@contextmanager
def in_process(jobs: Jobs) -> Iterator[Cluster]:
    """A cluster of servers in this process."""
    cluster = None
    for attempt in range(ATTEMPTS):
        try:
            cluster = Cluster(addresses(jobs))
            break
        except errors.UnknownError:
            if attempt == ATTEMPTS - 1:
                raise
    assert cluster is not None
    try:
        yield cluster
    finally:
        cluster.stop()


Program = Callable[[str], Sequence[str]]
"""What Python is told to run for a task, before `serve`."""


def headrace_command(task: str) -> Sequence[str]:
    """headrace's."""
    return "-m", "headrace.tools.main"


class ProcessCluster:
    """Server processes, by ``job:task``."""

    def __init__(
        self, stack: ExitStack, spec: dict[str, list[str]], program: Program = headrace_command
    ) -> None:
        self.spec = spec
        self._program = program
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self._stack = stack
        self._lifeline = stack.enter_context(Lifeline())

    def begin(self, task: str, *more: str) -> None:
        """Start a task's process; `wait` says when it serves."""
        job, _, index = task.partition(":")
        fd = self._lifeline.read_fd
        process = subprocess.Popen(
            [sys.executable, *self._program(task), "serve", "--watch-fd", str(fd), "--grace", "0.2",
             "--cluster", format_cluster(self.spec), "--job", job, "--task", index, *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[fd],
        )  # fmt: skip
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        self.processes[task] = process

    def wait(self, task: str) -> bool:
        """Block until the task serves; False if its port was taken."""
        process = self.processes[task]
        assert process.stdout is not None
        if process.stdout.readline().startswith(READY):
            return True
        _, err = process.communicate(timeout=WITHIN_S)
        assert process.returncode == ExitCode.ADDRESS_IN_USE, err
        return False

    def start(self, task: str) -> None:
        """Start a task and wait until it serves; its port must be free."""
        self.begin(task)
        assert self.wait(task), f"the port of {task} is taken"

    def address(self, task: str) -> str:
        """host:port of a task."""
        job, _, index = task.partition(":")
        return self.spec[job][int(index)]

    def target(self, task: str) -> str:
        """grpc://host:port of a task."""
        return f"grpc://{self.address(task)}"

    @staticmethod
    def full_name(task: str) -> str:
        """The name of a task in device strings."""
        job, _, index = task.partition(":")
        return f"/job:{job}/replica:0/task:{index}"

    def freeze(self, task: str) -> None:
        """SIGSTOP, and wait until the process has stopped."""
        self.processes[task].send_signal(signal.SIGSTOP)
        os.waitpid(self.processes[task].pid, os.WUNTRACED)

    def thaw(self, task: str) -> None:
        """Let a process go on."""
        self.processes[task].send_signal(signal.SIGCONT)

    def kill(self, task: str) -> None:
        """kill -9, and wait for the end."""
        self.processes[task].kill()
        self.processes[task].wait(WITHIN_S)


@contextmanager
def processes(jobs: Jobs, program: Program = headrace_command) -> Iterator[ProcessCluster]:
    """A cluster of one process a task."""
    with ExitStack() as stack:
        for _ in range(ATTEMPTS):
            cluster = ProcessCluster(stack, addresses(jobs), program)
            tasks = [f"{job}:{index}" for job, count in jobs.items() for index in range(count)]
            for task in tasks:
                cluster.begin(task)
            if all(cluster.wait(task) for task in tasks):
                yield cluster
                return
        raise RuntimeError(f"{ATTEMPTS} times a port was taken between choosing and using it")


def aborted(run: Callable[[], object]) -> errors.AbortedError:
    """What the first step with a task that came back raises; the task is there, however busy the machine is."""
    try:
        got = run()
    except errors.AbortedError as error:
        return error
    raise AssertionError(f"it gave {got!r}, as if nothing had happened")
