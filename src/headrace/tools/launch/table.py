"""The live table of a launch: tasks with state, memory and restarts, the training's steps a second, queues.

Processes are looked at by /proc; the cluster by what `headrace top` asks, and by reading the variable `global_step`.
Called by: command.  Threads: `Watch` has one, which asks; the table is drawn by whoever wants it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace.codec import protos as pb
from headrace.run.state.variable import ResourceVariable
from headrace.tools import terminal
from headrace.tools.commands import CommandError
from headrace.tools.inspection.layout import Cell, Part, grid, line
from headrace.tools.inspection.snapshot import Observer, Snapshot, is_queue, is_variable
from headrace.tools.inspection.tables import queues
from headrace.tools.launch.supervisor import Running, Supervisor

_EVERY_S = 1.0
_MOST_QUEUES = 5


def memory_bytes(group: int, procs: str = "/proc") -> int | None:
    """Resident memory of a process group; None where there is no /proc."""
    import os

    total = None
    try:
        names = os.listdir(procs)
    except OSError:
        return None
    for name in filter(str.isdecimal, names):
        try:
            with open(f"{procs}/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[2]) == group:
            total = (total or 0) + int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


class StepRate:
    """Global steps a second, of a cluster whose variable `global_step` has been found in a snapshot."""

    def __init__(self) -> None:
        self._latest: tuple[float, int] | None = None
        self.step: int | None = None
        self.per_s: float | None = None

    def look(self, snapshot: Snapshot, target: str) -> None:
        """Read the variable, if there is one.  An error means that there is none at the moment."""
        found = next(
            (
                (task, each)
                for task, each in snapshot.resources
                if is_variable(each) and each.initialized and each.name == "global_step"
            ),
            None,
        )
        step = None if found is None else _value(*found, target)
        now = time.monotonic()
        self.per_s = None
        if step is None:
            self._latest, self.step = None, None
            return
        if self._latest is not None and step >= self._latest[1] and now > self._latest[0]:
            self.per_s = (step - self._latest[1]) / (now - self._latest[0])
        self._latest, self.step = (now, step), step


def _value(task: pb.TaskState, variable: pb.ResourceState, target: str) -> int | None:
    import headrace as tf
    from headrace.base import dtypes

    dtype = dtypes.as_dtype(variable.dtype)
    raw_ops: Any = tf.raw_ops
    config = tf.ConfigProto(operation_timeout_in_ms=2000)
    with tf.Graph().as_default(), tf.device(task.task), tf.container(variable.container):
        if variable.kind != ResourceVariable.__name__:
            read = raw_ops.VariableV2(
                shape=[], dtype=dtype, shared_name=variable.name, container=variable.container
            )
        else:
            handle = raw_ops.VarHandleOp(
                shape=[], dtype=dtype, shared_name=variable.name, container=variable.container
            )
            read = raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        try:
            with tf.Session(target, config=config) as session:
                return int(session.run(read))
        except (tf.errors.OpError, TypeError, ValueError):
            return None


class Watch:
    """Looks at a launch and its cluster every second, and has the supervisor draw what it saw; a context manager."""

    def __init__(self, supervisor: Supervisor, addresses: Sequence[str]) -> None:
        self._supervisor, self._addresses = supervisor, addresses
        self._steps = StepRate()
        self._stop = threading.Event()
        self._snapshot: Snapshot | None = None
        self._memory: dict[Running, int | None] = {}
        self._thread = threading.Thread(target=self._watch, name="headrace launch watch")

    def _watch(self) -> None:
        observers = {address: Observer(f"grpc://{address}") for address in self._addresses}
        try:
            while not self._stop.wait(_EVERY_S):
                self._look(observers)
                self._supervisor.redraw()
        finally:
            for observer in observers.values():
                observer.__exit__()

    def _look(self, observers: dict[str, Observer]) -> None:
        for running in self._supervisor.running:
            process = running.process
            self._memory[running] = None if process is None else memory_bytes(process.pid)
        self._snapshot = None
        for address, observer in observers.items():
            try:
                self._snapshot = observer.look()
            except CommandError:
                continue
            self._steps.look(self._snapshot, f"grpc://{address}")
            return

    def text(self) -> str:
        """The table as lines for the terminal, with colours where rich is installed."""
        parts = shown(self._supervisor.running, self._memory, self._snapshot, self._steps)
        width, _ = terminal.size()
        return drawn(parts, width)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()


def drawn(parts: Sequence[Part], width: int) -> str:
    """By rich where it is installed, else plain."""
    import sys

    console = terminal.rich_console(sys.stdout)
    if console is None:
        from headrace.tools.inspection import plain_layout

        return plain_layout.drawn(parts, width)
    from headrace.tools.inspection import rich_layout

    with console.capture() as captured:
        console.print(rich_layout.drawn(parts))
    return str(captured.get())


def shown(
    tasks: Sequence[Running],
    memory: dict[Running, int | None],
    snapshot: Snapshot | None,
    steps: StepRate,
) -> list[Part]:
    """The table's parts."""
    rows: list[Sequence[Cell]] = []
    for each in tasks:
        size = memory.get(each)
        style = "" if each.process is not None else "dim" if each.status == 0 else "yellow"
        rows.append(
            [
                each.task.name,
                line((each.state, style)),
                "" if each.process is None else str(each.process.pid),
                "" if size is None else f"{size / 1e6:.0f} MB",
                str(each.restarts),
            ]
        )
    columns = ["task", "~state", ">pid", ">memory", ">restarts"]
    parts: list[Part] = [line(), grid("", columns, rows, "")]
    if steps.step is not None:
        rate = "" if steps.per_s is None else f", {steps.per_s:.1f} steps/s"
        parts.append(line((f"global step {steps.step}{rate}", "bold")))
    if snapshot is not None and any(is_queue(each) for _, each in snapshot.resources):
        parts += queues(snapshot, terminal.size()[0], _MOST_QUEUES, most_moving=True)
    return parts
