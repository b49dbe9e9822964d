"""Runs the tasks of a launch in one loop: their output, their ends, restarts, signals, and the end of all.

Each task is the leader of a process group.  A leader that has ended is reaped only after its group was ended, so that
the group's number cannot be anybody else's.
Called by: command.  Threads: the main thread, which has to be the one that starts tasks: Linux ends them with it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from headrace.tools.launch import keeper
from headrace.tools.launch.console import Console, Lines
from headrace.tools.launch.logs import RotatingLog
from headrace.tools.launch.roles import Task

if TYPE_CHECKING:
    from headrace.tools.launch.elsewhere import Elsewhere

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FOLDER = Path(__file__).resolve().parent
_CHUNK = 65_536
_MOST_DELAY_S = 30.0
_TELL_FIRST_S = 2.0  # to others that all is over, before what they may be using here ends
_SIGNALS, _END = "signals", "end"  # what else than (task, stream) a descriptor stands for


@dataclass(frozen=True)
class Rules:
    """restarts: of each task, at most.  grace_s: between SIGTERM and SIGKILL.

    stay_s: after SIGKILL, until processes that stay are named.  leave_s: until they are left.
    """

    restarts: int = 0
    grace_s: float = 10.0
    stay_s: float = 5.0
    leave_s: float = 60.0


def restart_delay_s(restart: int) -> float:
    """How long to wait before the first, second, … restart of a task."""
    return 0.0 if restart <= 1 else float(min(2.0 ** (restart - 2), _MOST_DELAY_S))


def exit_code(status: int) -> int:
    """A shell's number for what `Popen.returncode` says."""
    return status if status >= 0 else 128 - status


def told(status: int) -> str:
    """The same in words."""
    if status >= 0:
        return f"ended with exit code {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


@dataclass(eq=False)
class Running:
    """A task and its process, if it has one.  status: of the last end, as `Popen.returncode`."""

    task: Task
    log: RotatingLog | None = None
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    status: int | None = None
    due_s: float | None = None
    lines: dict[str, Lines] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """In words."""
        if self.process is not None:
            return "running"
        if self.due_s is not None:
            return "restarts"
        return "" if self.status is None else told(self.status)


class Supervisor:
    """Starts tasks and ends them; `run` gives the exit code."""

    def __init__(
        self,
        tasks: Sequence[Task],
        rules: Rules,
        console: Console,
        logs: Sequence[RotatingLog],
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """logs: one for each task, or none.  elsewhere: the other launches of the cluster, if there are any."""
        self.number = uuid.uuid4().hex
        self._rules, self._console = rules, console
        self._elsewhere = elsewhere
        self._some_elsewhere = elsewhere is not None and bool(elsewhere.waiting_for)
        self._said_done: set[str] = set()
        self._told_of_end = False
        self.running = [Running(task, logs[at] if logs else None) for at, task in enumerate(tasks)]
        self._selector = selectors.DefaultSelector()
        self._code: int | None = None
        self._reason = ""
        self._keeper: subprocess.Popen[bytes]
        self._kill = False
        self._table: Callable[[], str | None] = lambda: None
        self._woken_fd, self._wake_fd = os.pipe()
        for fd in (self._woken_fd, self._wake_fd):
            os.set_blocking(fd, False)
        if elsewhere is not None:
            elsewhere.wake = self.redraw

    def run(self, table: Callable[[], str | None] = lambda: None) -> int:
        """Until all has ended.  table: gives what to show below the output, each time that `redraw` was called."""
        self._table = table
        with ExitStack() as stack:
            stack.callback(self._selector.close)
            self._listen_to_signals(stack)
            self._start_keeper(stack)
            try:
                for each in self.running:
                    self._start(each)
                while self._code is None:
                    self._turn(self._until_next_start())
                    self._start_those_due()
                    self._decide()
            finally:
                self._end_all()
        self._console.table("")
        if self._reason:
            self._console.say(self._reason)
        return 0 if self._code is None else self._code

    def redraw(self) -> None:
        """Have the loop show the table anew.  Any thread, until `close`; after the run it does nothing."""
        with suppress(OSError):
            os.write(self._wake_fd, b"\0")

    def close(self) -> None:
        """Nobody may call `redraw` any more."""
        os.close(self._woken_fd)
        os.close(self._wake_fd)

    # -- the loop -----------------------------------------------------------------------------------

    def _listen_to_signals(self, stack: ExitStack) -> None:
        """Signals become bytes in a pipe: nothing is interrupted between starting a task and noting it."""
        self._selector.register(self._woken_fd, selectors.EVENT_READ, _SIGNALS)

        def handled(number: int, frame: FrameType | None) -> None:
            """Its number goes into the pipe."""

        previous = signal.set_wakeup_fd(self._wake_fd, warn_on_full_buffer=False)
        stack.callback(signal.set_wakeup_fd, previous)
        for each in (*ENDING, signal.SIGCHLD):
            before = signal.getsignal(each)
            if before == signal.SIG_IGN and each == signal.SIGHUP:
                continue  # nohup
            stack.callback(signal.signal, each, before)
            signal.signal(each, handled)

    def _start_keeper(self, stack: ExitStack) -> None:
        environment = {k: v for k, v in os.environ.items() if k != keeper.VARIABLE}
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_FOLDER / "keeper.py"), self.number],
            stdin=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._keeper = process
        stack.callback(process.wait)
        assert process.stdin is not None
        stack.callback(process.stdin.close)

    def _until_next_start(self) -> float | None:
        due = [each.due_s for each in self.running if each.due_s is not None]
        return max(min(due) - time.monotonic(), 0.0) if due else None

    def _turn(self, timeout_s: float | None) -> None:
        """Wait for output, signals and ends, and deal with them."""
        signals = None
        for key, _ in self._selector.select(timeout_s):
            if key.data is _SIGNALS:
                signals = key.fd  # last: what comes of them closes other descriptors
            elif key.data is not _END:
                running, stream = key.data
                self._read(running, stream, key.fd)
        if signals is not None:
            self._signalled(os.read(signals, _CHUNK))

    def _signalled(self, numbers: bytes) -> None:
        if b"\0" in numbers:
            self._hear()
            text = self._table()
            if text is not None and self._code is None:
                self._console.table(text)
        ending = [each for each in numbers if each in ENDING]
        if ending:
            self._kill = self._code is not None or len(ending) > 1
            if self._code is None:
                name = signal.Signals(ending[0]).name
                self._finish(128 + ending[0], f"ended by {name}")
        self._reap()

    def _read(self, running: Running, stream: str, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._close_stream(running, stream, fd)
            return
        if running.log is not None:
            try:
                running.log.write(data)
            except OSError as error:
                self._console.say(
                    f"the log of {running.task.name} ends here: {error.strerror or error}"
                )
                running.log = None
        self._print(running, stream, running.lines[stream].feed(data))

    def _close_stream(self, running: Running, stream: str, fd: int) -> None:
        self._print(running, stream, running.lines[stream].end())
        self._selector.unregister(fd)
        os.close(fd)
        del running.lines[stream]

    def _print(self, running: Running, stream: str, lines: list[str]) -> None:
        for line in lines:
            self._console.line(running.task.name, line, stream == "stderr")

    # -- tasks come and go --------------------------------------------------------------------------

    def _start(self, running: Running) -> None:
        running.due_s = None
        task = running.task
        begin = [sys.executable, "-I", "-S", str(_FOLDER / "begin.py"), str(os.getpid())]
        pipes = {stream: os.pipe() for stream in ("stdout", "stderr")}
        environment = {"PYTHONUNBUFFERED": "1", **os.environ, **task.environment}
        try:
            running.process = subprocess.Popen(
                [*begin, *task.command],
                stdin=subprocess.DEVNULL,
                stdout=pipes["stdout"][1],
                stderr=pipes["stderr"][1],
                env=environment | {keeper.VARIABLE: self.number},
                start_new_session=True,
            )
        except OSError:
            for read, _ in pipes.values():
                os.close(read)
            raise
        finally:
            for _, write in pipes.values():
                os.close(write)
        for stream, (read, _) in pipes.items():
            os.set_blocking(read, False)
            running.lines[stream] = Lines()
            self._selector.register(read, selectors.EVENT_READ, (running, stream))

    def _start_those_due(self) -> None:
        for each in self.running:
            if each.due_s is not None and each.due_s <= time.monotonic() and self._code is None:
                self._start(each)

    def _reap(self) -> None:
        """Note which leaders have ended."""
        for each in self.running:
            if each.process is not None and _has_ended(each.process.pid):
                if self._code is None or self._kill:
                    self._end_group(each.process.pid)
                elif keeper.find("", frozenset({each.process.pid})):
                    continue  # others of its group have their grace still
                self._ended(each)

    def _end_group(self, leader: int) -> None:
        with suppress(ProcessLookupError, PermissionError):  # macOS: nothing but the zombie is left
            os.killpg(leader, signal.SIGKILL)

    def _ended(self, running: Running) -> None:
        assert running.process is not None
        running.status = running.process.wait()
        running.process = None
        self._drain(running)
        name = running.task.name
        if self._code is not None:
            return
        if running.status == 0:
            self._console.say(f"{name} ended with exit code 0")
        elif running.restarts < self._rules.restarts:
            running.restarts += 1
            delay_s = restart_delay_s(running.restarts)
            running.due_s = time.monotonic() + delay_s
            self._console.say(
                f"{name} {told(running.status)}; restart {running.restarts} of {self._rules.restarts}"
                + (f" in {delay_s:g} s" if delay_s else "")
            )
        else:
            after = f" after {running.restarts} restarts" if running.restarts else ""
            self._finish(
                exit_code(running.status), f"{name} {told(running.status)}{after}: all are ended"
            )

    def _drain(self, running: Running) -> None:
        """What it wrote is all there; whoever else may hold the pipe is not waited for."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, tuple) and key.data[0] is running:
                stream, fd = key.data[1], key.fd
                with suppress(BlockingIOError):
                    while data := os.read(fd, _CHUNK):
                        if running.log is not None:
                            with suppress(OSError):
                                running.log.write(data)
                        self._print(running, stream, running.lines[stream].feed(data))
                self._close_stream(running, stream, fd)

    # -- the end ------------------------------------------------------------------------------------

    def _finish(self, code: int, reason: str = "") -> None:
        if self._code is None:
            self._code, self._reason = code, reason

    def _decide(self) -> None:
        """Whether those that decide have all ended well, here and elsewhere, or nobody is left here."""
        if self._code is not None:
            return
        going = [
            each for each in self.running if each.process is not None or each.due_s is not None
        ]
        deciding = [each for each in self.running if each.task.decides]
        waited_for = {each.task.name for each in deciding if each in going}
        some = bool(deciding)
        if self._elsewhere is not None:
            done = [each.task for each in deciding if each not in going]
            self._say_done([task for task in done if task.name not in self._said_done])
            some = some or self._some_elsewhere
            waited_for |= self._elsewhere.waiting_for
        if not going or (some and not waited_for):
            self._finish(0)

    # -- other launches -----------------------------------------------------------------------------

    def _say_done(self, tasks: Sequence[Task]) -> None:
        if tasks and self._elsewhere is not None:
            self._said_done.update(task.name for task in tasks)
            self._elsewhere.say_done(tasks)

    def _hear(self) -> None:
        if self._elsewhere is None:
            return
        for told in self._elsewhere.heard():
            if told.code and self._code is None:
                self._told_of_end = True
                self._finish(told.code, f"told by another launch: {told.why}")
        for problem in self._elsewhere.problems():
            self._console.say(problem)

    def _tell(self, within_s: float | None) -> None:
        """Wait until others have been told; None: as long as that is tried.  A second signal leaves no more time."""
        if self._elsewhere is None:
            return
        until_s = None if within_s is None else time.monotonic() + within_s
        while self._elsewhere.telling and not self._kill:
            left_s = None if until_s is None else until_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            self._turn(left_s)

    # -- the end of all -----------------------------------------------------------------------------

    def _end_all(self) -> None:
        """Others are told, all is ended."""
        if self._code is None:
            self._finish(1, "something was raised")
        if self._elsewhere is not None and self._code and not self._told_of_end:
            self._elsewhere.say_end(self._code, self._reason)
        self._tell(_TELL_FIRST_S)
        self._kill_all()
        self._tell(None)

    def _kill_all(self) -> None:
        """SIGTERM to all, the grace, SIGKILL; processes that left their groups included."""
        deadline = time.monotonic() + self._rules.grace_s
        patience: keeper.Patience | None = None
        for each in self.running:
            each.due_s = None
        self._signal_all(signal.SIGTERM)
        self._reap()
        while True:
            left = keeper.find(self.number, self._groups())
            if not left and not self._groups():
                return
            self._kill |= time.monotonic() >= deadline
            if self._kill:
                patience = patience or keeper.Patience(self._rules.stay_s, self._rules.leave_s)
                self._signal_all(signal.SIGKILL)
                if text := patience.said(left):
                    self._console.say(text)
                if patience.over:
                    self._code = self._code or 1
                    self._keeper.kill()  # which would wait for them, too
                    return
            within_s = 1.0 if patience else max(deadline - time.monotonic(), 0.0)
            with self._watching(left):
                self._turn(within_s)
            self._reap()

    @contextmanager
    def _watching(self, pids: Iterable[int]) -> Iterator[None]:
        """Inside, the loop turns when one of them has ended, whoever's child it is."""
        handles = []
        try:
            for pid in pids:
                with suppress(OSError):
                    handles.append(os.pidfd_open(pid))
                    self._selector.register(handles[-1], selectors.EVENT_READ, _END)
            yield
        finally:
            for handle in handles:
                self._selector.unregister(handle)
                os.close(handle)

    def _groups(self) -> frozenset[int]:
        return frozenset(each.process.pid for each in self.running if each.process is not None)

    def _signal_all(self, signum: int) -> None:
        groups = self._groups()
        for pid in keeper.find(self.number, groups):
            keeper.send(pid, signum, self.number, groups)
        if sys.platform != "linux":
            for group in groups:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signum)


def _has_ended(pid: int) -> bool:
    """Without reaping it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
