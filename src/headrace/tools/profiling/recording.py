"""Recording: the steps that a running cluster takes next, as its tasks log them, on one clock.

Tasks are told to log (serve.observe.step_log), asked for what they have every moment, and told to stop in any case.
Called by: command, tools.dashboard.  Threads: the caller's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.exec.trace import shift
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.master.clocks import ahead_of_here
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.tools.inspection.snapshot import Observer, is_queue
from headrace.tools.profiling.steps import Kind, Step, kinds

_EVERY_S = 0.1

QueueName = tuple[str, str]
"""Task and name."""


@dataclass
class Fill:
    """How full a queue was, whenever it was looked at: elements, and who waited to put in and to take out."""

    capacity: int
    elements: list[int] = field(default_factory=list)
    puts: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)


@dataclass
class Recording:
    """What was seen.  silent: tasks that said nothing, and why.  took_s: how long it was looked for."""

    steps: list[Step]
    fills: dict[QueueName, Fill]
    silent: dict[str, str]
    took_s: float

    @property
    def kinds(self) -> list[Kind]:
        """Its steps by what they ran, those with the most time first."""
        return kinds(self.steps)


def record(
    target: str, steps: int, within_s: float, stop: threading.Event | None = None
) -> Recording:
    """The next steps, until there are so many of the kind that takes the most time, or `within_s` has passed.

    stop: ends it sooner.  Raises CommandError if the server does not answer.
    """
    stop = stop or threading.Event()
    stats: dict[int, pb.StepStats] = {}
    found: dict[int, Step] = {}
    fills: dict[QueueName, Fill] = {}
    began_s = time.monotonic()
    with Observer(target) as observer:
        snapshot = observer.look()
        silent = {task.task: task.silent for task in snapshot.tasks if task.silent}
        heard = [(task.task, task.address) for task in snapshot.tasks if not task.silent]
        with _logging(heard, silent) as tasks:
            while not stop.wait(_EVERY_S):
                for number in _take(tasks, stats):
                    found[number] = Step.of((number, stats[number]))
                _look(observer, fills)
                done = kinds(found.values())
                if done and len(done[0].steps) >= steps:
                    break
                if time.monotonic() - began_s > within_s:
                    break
            stop.wait(_EVERY_S)
            for number in _take(tasks, stats):
                found[number] = Step.of((number, stats[number]))
    seen = [step for step in found.values() if step.spans]
    return Recording(seen, fills, silent, time.monotonic() - began_s)


@dataclass
class _Task:
    peer: Peer
    ahead_ns: int


@contextlib.contextmanager
def _logging(heard: Sequence[tuple[str, str]], silent: dict[str, str]) -> Iterator[list[_Task]]:
    """Inside, these tasks log their steps; `silent` gets those that do not, and why."""
    pool = GrowingPool("headrace profile")
    peers = {task: connect(address, "worker", pool, task) for task, address in heard}
    tasks: list[_Task] = []
    try:
        for task, peer in peers.items():
            try:
                with Scope(LIMITS.task_answers_within_s) as scope:
                    ahead_ns = ahead_of_here(peer, scope) or 0
                    _log(peer, pb.LoggingRequest(clear=True, enable_rpc_logging=True), scope)
            except errors.OpError as error:
                silent[task] = error.message
            else:
                tasks.append(_Task(peer, ahead_ns))
        yield tasks
    finally:
        for each in tasks:
            with contextlib.suppress(errors.OpError), Scope(LIMITS.task_answers_within_s) as scope:
                _log(each.peer, pb.LoggingRequest(clear=True, disable_rpc_logging=True), scope)
        for peer in peers.values():
            peer.close()
        pool.shutdown(wait=False)


def _log(peer: Peer, request: pb.LoggingRequest, scope: Scope) -> pb.LoggingResponse:
    reply: pb.LoggingResponse = peer.call(methods.LOGGING, request, scope).wait(scope)
    return reply


def _take(tasks: Sequence[_Task], stats: dict[int, pb.StepStats]) -> set[int]:
    """Add what the tasks have logged since; the steps of which there is more."""
    more: set[int] = set()
    for task in tasks:
        with contextlib.suppress(errors.OpError), Scope(LIMITS.task_answers_within_s) as scope:
            for step in _log(task.peer, pb.LoggingRequest(), scope).step:
                shift(step.step_stats, -task.ahead_ns)
                known = stats.setdefault(step.step_id, pb.StepStats())
                known.dev_stats.extend(step.step_stats.dev_stats)
                more.add(step.step_id)
    return more


def _look(observer: Observer, fills: dict[QueueName, Fill]) -> None:
    for task, queue in observer.look().resources:
        if not is_queue(queue):
            continue
        fill = fills.setdefault((task.task, queue.name), Fill(queue.capacity))
        puts = sum(waiter.kind.startswith("enqueue") for waiter in queue.waiter)
        fill.elements.append(queue.size + queue.set_aside)
        fill.puts.append(puts)
        fill.takes.append(len(queue.waiter) - puts)
