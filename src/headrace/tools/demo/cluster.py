"""Child processes of the demo: started, listened to, and stopped whatever happens.

`Processes` turns what its children do into events on one queue: each line they print and, after
the last line, their end.  Leaving its block ends every child: SIGTERM, a grace, SIGKILL.  Should
this process be killed itself, the children notice through the lifeline.

Called by: run.
Threads: two a child (its stdout, its stderr), of the thread group that `Processes` owns.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from types import TracebackType

from headrace.run.thread_group import ThreadGroup
from headrace.tools.commands import CommandError, ExitCode
from headrace.tools.lifeline import Lifeline
from headrace.tools.serve import READY, format_cluster

GRACE_S = 1.0
START_WITHIN_S = 60.0
PORT_ATTEMPTS = 5
TAIL_LINES = 15
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Line:
    """A line, without its end, that a child wrote to its stdout."""

    process: Process
    text: str


@dataclass(frozen=True)
class Exited:
    """A child has ended; no line of it comes after this."""

    process: Process
    code: int


@dataclass(frozen=True)
class Trouble:
    """Something that the parent itself did with the cluster went wrong."""

    text: str


Event = Line | Exited | Trouble


@dataclass(eq=False)
class Process:
    """One child.  `tail` holds the last lines of its stderr."""

    name: str
    popen: subprocess.Popen[str]
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int:
        """The process id; taken again by the system once the process has ended."""
        return self.popen.pid

    def is_over(self) -> bool:
        """Whether it has ended, though that may be no event yet."""
        try:
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, how) is not None
        except ChildProcessError:  # somebody has waited for it
            return True


class ChildFailed(CommandError):
    """A child ended that should not have, or not so; the text names it and quotes its stderr."""

    def __init__(self, process: Process, code: int) -> None:
        lines = "".join(f"\n    {line}" for line in process.tail)
        quoted = f"; its last lines were:{lines}" if lines else "; it wrote no error"
        super().__init__(f"{process.name} (pid {process.pid}) {describe_exit(code)}{quoted}")
        self.process = process


class Interrupted(Exception):
    """A child ended because of an interrupt from the terminal, which this process gets as well."""


def describe_exit(code: int) -> str:
    """`code` as subprocess gives it, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def failure(exited: Exited) -> Exception:
    """What to raise for a child that ended too early or with an error."""
    if exited.code in (-signal.SIGINT, ExitCode.INTERRUPTED):
        return Interrupted()
    return ChildFailed(exited.process, exited.code)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that the system says are free; another program may take them yet."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


class Processes:
    """The children of one run; a context manager."""

    def __init__(self) -> None:
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.running: list[Process] = []
        self._lifeline = Lifeline()
        self._group = ThreadGroup("demo processes")

    def start(self, name: str, module: str, *arguments: str) -> Process:
        """Run `python -m module arguments --watch-fd N`."""
        fd = self._lifeline.read_fd
        popen = subprocess.Popen(
            # -P: a file of the working directory must not pass for a module of ours
            [sys.executable, "-P", "-m", module, *arguments, "--watch-fd", str(fd)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=[fd],
            # Seven processes share the cores; none of them gains from BLAS threads.
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        process = Process(name, popen)
        self.running.append(process)
        complaints = self._group.start(self._keep_tail, process, name=f"{name} stderr")
        self._group.start(self._listen, process, complaints, name=f"{name} stdout")
        return process

    def _listen(self, process: Process, complaints: threading.Thread) -> None:
        assert process.popen.stdout is not None
        with process.popen.stdout as lines:
            for line in lines:
                self.events.put(Line(process, line.rstrip("\n")))
        code = process.popen.wait()
        complaints.join()
        self.events.put(Exited(process, code))
        process.ended.set()

    @staticmethod
    def _keep_tail(process: Process) -> None:
        assert process.popen.stderr is not None
        with process.popen.stderr as lines:
            for line in lines:
                process.tail.append(line.rstrip("\n"))

    def next_event(self, timeout_s: float) -> Event | None:
        """The next event, or None if there was none in time."""
        try:
            event = self.events.get(timeout=max(timeout_s, 0.0))
        except Empty:
            return None
        if isinstance(event, Exited):
            self.running.remove(event.process)
        return event

    def forget(self) -> None:
        """Drop all events so far; everything has been stopped."""
        assert not self.running
        self.events = SimpleQueue()

    def stop(self, processes: Iterable[Process], grace_s: float) -> None:
        """SIGTERM to all at once; SIGKILL to those that are there after the grace."""
        targets = list(processes)
        for process in targets:
            process.popen.terminate()
        deadline = time.monotonic() + grace_s
        for process in targets:
            if not process.ended.wait(max(deadline - time.monotonic(), 0.0)):
                process.popen.kill()
        for process in targets:
            process.ended.wait()
        self.running = [process for process in self.running if process not in targets]

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends everything; a second Ctrl-C, or make passing one on, does not keep it from that."""
        previous = {number: signal.signal(number, signal.SIG_IGN) for number in STOPPING}
        try:
            self.stop(self.running, GRACE_S + 1.0)
            self._lifeline.close()
            with self._group:
                pass
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Cluster:
    """The servers: addresses by job, and their processes by task name (`worker 1`)."""

    jobs: dict[str, list[str]]
    servers: dict[str, Process]

    @property
    def spec(self) -> str:
        """As `headrace serve --cluster` takes it."""
        return format_cluster(self.jobs)


def start_cluster(processes: Processes, sizes: dict[str, int]) -> Cluster:
    """Start a server for each task of {job: tasks} on this machine; all listen when it returns.

    A port that another program took in the meantime means another attempt with new ports.
    Raises ChildFailed, Interrupted, CommandError (none of the attempts got its ports).
    """
    for _ in range(PORT_ATTEMPTS):
        ports = iter(free_ports(sum(sizes.values())))
        jobs = {job: [f"127.0.0.1:{next(ports)}" for _ in range(n)] for job, n in sizes.items()}
        servers = {}
        for job, tasks in sizes.items():
            for task in range(tasks):
                servers[f"{job} {task}"] = processes.start(
                    f"{job} {task}",
                    "headrace.tools.main",
                    *("serve", "--cluster", format_cluster(jobs), "--job", job),
                    *("--task", str(task), "--grace", str(GRACE_S)),
                )
        if _all_listen(processes, list(servers.values())):
            return Cluster(jobs, servers)
        processes.stop(processes.running, GRACE_S)
        processes.forget()
    raise CommandError(f"{PORT_ATTEMPTS} times a port was taken between choosing and using it")


def _all_listen(processes: Processes, servers: Sequence[Process]) -> bool:
    """Wait for all to say that they listen; False if one's address is in use."""
    waiting = set(servers)
    deadline = time.monotonic() + START_WITHIN_S
    while waiting:
        event = processes.next_event(deadline - time.monotonic())
        if event is None:
            names = ", ".join(sorted(process.name for process in waiting))
            raise CommandError(f"after {START_WITHIN_S:.0f} s there is no word of {names}")
        if isinstance(event, Exited):
            if event.code == ExitCode.ADDRESS_IN_USE:
                return False
            raise failure(event)
        if isinstance(event, Line) and event.text.startswith(READY):
            waiting.discard(event.process)
    return True
