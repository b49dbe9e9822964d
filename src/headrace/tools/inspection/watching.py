"""Watching a cluster: look after look, with what only two of them tell, and what has happened in between.

`headrace top` and the page have all they show from here.  Tasks count their steps as long as somebody looks.
Called by: run (top), tools.dashboard.  Threads: one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.serve.observe.blocked import BlockedStep
from headrace.tools.inspection.snapshot import Observer, QueueKey, Snapshot, is_queue, queue_key
from headrace.tools.inspection.tables import bytes_of, duration_of, short_task

COUNT_FOR_S: Final = 15.0
"""How long tasks go on counting steps when nobody looks any more."""

MOST_POINTS: Final = 300
MOST_EVENTS: Final = 200
LONG_S: Final = 10.0
"""A step that has waited for so long is an event."""

UP, SLOW, GONE, OTHER = "up", "slow", "gone", "cannot say"
_QUANTILES: Final = (0.5, 0.95, 0.99)
_SHARE: Final = 1 / 200
"""Of a processor of a task, which looks at it may take by its own account; what passes the messages is not in that."""


@dataclass(frozen=True)
class Latency:
    """Of steps between two looks: how many a second, and seconds that half, 95 % and 99 % of them took at most."""

    per_s: float
    failed_per_s: float
    median_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True)
class TaskFigures:
    """Of a task.  cpu: processors that it kept busy.  parts, steps: what ran there; what its master had run.

    passed: bytes a second by the other task: sent, received.  restarts: that have been seen since watching began.
    Of what two looks tell, None at the first.
    """

    state: str
    memory_bytes: int
    cpu: float | None
    parts: Latency | None
    steps: Latency | None
    passed: dict[str, tuple[float, float]]
    restarts: int


@dataclass(frozen=True)
class Event:
    """Something that has happened.  at_s: Unix time.  task: to which, in short, if to one."""

    at_s: float
    kind: str
    text: str
    task: str = ""


@dataclass(frozen=True)
class Point:
    """A look, as far as it is remembered.  at_s: Unix time.  fills: elements in each queue."""

    at_s: float
    steps_per_s: float | None
    parts_per_s: float | None
    median_s: float | None
    p95_s: float | None
    p99_s: float | None
    fills: dict[QueueKey, int]


@dataclass(frozen=True)
class View:
    """A look with what goes with it."""

    snapshot: Snapshot
    at_s: float
    figures: dict[str, TaskFigures]
    steps: Latency | None
    point: Point
    events: Sequence[Event] = field(default_factory=tuple)


class Watcher:
    """See the module header; a context manager.  points, events: the latest, oldest first."""

    def __init__(self, target: str) -> None:
        """Raises UsageError if `target` is not grpc://HOST:PORT."""
        self._observer = Observer(target)
        self.target = self._observer.target
        self.points: deque[Point] = deque(maxlen=MOST_POINTS)
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self._latest: View | None = None
        self._restarts: dict[str, int] = {}
        self._starts: dict[str, int] = {}
        self._checkpoints: dict[tuple[str, int], int] = {}  # of each start, the last one told
        self._told: set[tuple[str, int, str]] = set()

    def look(self) -> View:
        """What there is now.  Raises CommandError as `Observer.look`."""
        return self.add(self._observer.look(COUNT_FOR_S + self.pause_s(0.0)), time.time())

    def add(self, snapshot: Snapshot, at_s: float) -> View:
        """A look that has been taken."""
        earlier = self._latest
        known = {} if earlier is None else {task.task: task for task in earlier.snapshot.tasks}
        passed_s = 0.0 if earlier is None else max(snapshot.at_s - earlier.snapshot.at_s, 1e-6)
        happened = [] if earlier is None else list(self._happened(snapshot, earlier, at_s))
        figures = {
            task.task: self._figures(task, known.get(task.task), passed_s)
            for task in snapshot.tasks
        }
        steps = latency(
            [(task.mastered, _before(known, task).mastered) for task in snapshot.tasks], passed_s
        )
        parts = [each.parts.per_s for each in figures.values() if each.parts is not None]
        point = Point(
            at_s,
            None if steps is None else steps.per_s,
            sum(parts) if parts else None,
            None if steps is None else steps.median_s,
            None if steps is None else steps.p95_s,
            None if steps is None else steps.p99_s,
            {queue_key(t, q): q.size + q.set_aside for t, q in snapshot.resources if is_queue(q)},
        )
        self.points.append(point)
        self.events.extend(happened)
        self._latest = View(snapshot, at_s, figures, steps, point, tuple(happened))
        return self._latest

    def pause_s(self, interval_s: float) -> float:
        """How long to wait for the next look: the interval, or longer where the cluster has so much to tell that
        watching it would cost it too much.
        """
        tasks = [] if self._latest is None else self._latest.snapshot.tasks
        return max(interval_s, max((task.told_in_s for task in tasks), default=0.0) / _SHARE)

    def _figures(
        self, task: pb.TaskState, before: pb.TaskState | None, passed_s: float
    ) -> TaskFigures:
        same = before is not None and before.incarnation == task.incarnation and not task.silent
        cpu, passed = None, {}
        parts = steps = None
        if same and before is not None and not before.silent:
            cpu = max(0.0, task.process.cpu_s - before.process.cpu_s) / passed_s
            earlier = {each.task: each for each in before.traffic}
            for each in task.traffic:
                was = earlier.get(each.task, pb.TrafficState())
                sent, received = each.sent - was.sent, each.received - was.received
                if sent >= 0 and received >= 0:
                    passed[each.task] = sent / passed_s, received / passed_s
            parts = latency([(task.parts, before.parts)], passed_s)
            steps = latency([(task.mastered, before.mastered)], passed_s)
        return TaskFigures(
            state_of(task),
            task.process.memory_bytes,
            cpu,
            parts,
            steps,
            passed,
            self._restarts.get(task.task, 0),
        )

    # -- events -------------------------------------------------------------------------------

    def _happened(self, snapshot: Snapshot, earlier: View, at_s: float) -> Iterator[Event]:
        before = {task.task: task for task in earlier.snapshot.tasks}
        for task in before.values():
            if task.incarnation:
                self._starts.setdefault(task.task, task.incarnation)
                start = task.task, task.incarnation
                last = max((each.number for each in task.checkpoint), default=0)
                self._checkpoints.setdefault(start, last)
        for task in snapshot.tasks:
            yield from self._of_task(task, before.get(task.task), at_s)
        yield from _of_sessions(snapshot, earlier.snapshot, at_s)
        yield from _of_queues(snapshot, earlier.snapshot, at_s)
        yield from self._of_steps(snapshot.blocked(), at_s)

    def _of_task(
        self, task: pb.TaskState, before: pb.TaskState | None, at_s: float
    ) -> Iterator[Event]:
        name = task.task
        if task.silent:
            if before is not None and not before.silent:
                yield Event(at_s, state_of(task), f"{name} {task.silent}")
            return
        start = self._starts.get(name)
        self._starts[name] = task.incarnation
        if start is not None and start != task.incarnation:
            self._restarts[name] = self._restarts.get(name, 0) + 1
            text = f"{name} was restarted: its variables and queues are new"
            yield Event(at_s, "restarted", text, short_task(name))
        elif before is not None and before.silent:
            yield Event(at_s, UP, f"{name} answers again")
        yield from self._of_checkpoints(task, at_s)

    def _of_checkpoints(self, task: pb.TaskState, at_s: float) -> Iterator[Event]:
        start = task.task, task.incarnation
        told = self._checkpoints.get(start, 0)
        for each in task.checkpoint:
            if each.number > told:
                self._checkpoints[start] = each.number
                text = f"{task.task} {_said_of(each)}"
                yield Event(at_s - each.ago_s, each.kind, text, short_task(task.task))

    def _of_steps(self, blocked: Sequence[BlockedStep], at_s: float) -> Iterator[Event]:
        long = {(s.session, s.step, s.node): s for s in blocked if s.waited_s >= LONG_S}
        for key, step in long.items():
            if key not in self._told:
                yield Event(at_s, "blocked", str(step))
        self._told = set(long)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *exc: object) -> None:
        self._observer.__exit__()


def _said_of(record: pb.CheckpointRecord) -> str:
    """What has become of a checkpoint, in words."""
    if record.error:
        return f"failed with {record.prefix}: it was to be {record.kind}; {record.error}"
    took = duration_of(record.took_s)
    tensors = f"{record.tensors} tensor{'' if record.tensors == 1 else 's'}"
    return f"{record.kind} {record.prefix}: {tensors}, {bytes_of(record.bytes)}, in {took}"


def state_of(task: pb.TaskState) -> str:
    """UP, SLOW, GONE or OTHER."""
    if not task.silent:
        return UP
    if task.silent_code == errors.DEADLINE_EXCEEDED:
        return SLOW
    return OTHER if task.silent_code == errors.UNIMPLEMENTED else GONE


def _before(known: dict[str, pb.TaskState], task: pb.TaskState) -> pb.TaskState:
    """The same start of a task at the look before, or nothing of it."""
    before = known.get(task.task)
    if before is None or before.incarnation != task.incarnation:
        return pb.TaskState()
    return before


def _of_sessions(snapshot: Snapshot, earlier: Snapshot, at_s: float) -> Iterator[Event]:
    silent = {task.task for task in (*snapshot.tasks, *earlier.tasks) if task.silent}
    now = {s.handle: s for task, s in snapshot.sessions if task.task not in silent}
    then = {s.handle: s for task, s in earlier.sessions if task.task not in silent}
    for handle, session in now.items():
        if handle not in then:
            yield Event(
                at_s, "session", f"session {handle[:8]} of {session.client or 'a client'} began"
            )
    for handle, session in then.items():
        if handle not in now:
            yield Event(
                at_s, "session", f"session {handle[:8]} of {session.client or 'a client'} ended"
            )


def _of_queues(snapshot: Snapshot, earlier: Snapshot, at_s: float) -> Iterator[Event]:
    open_then = {queue_key(t, q) for t, q in earlier.resources if is_queue(q) and not q.closed}
    for task, queue in snapshot.resources:
        if is_queue(queue) and queue.closed and queue_key(task, queue) in open_then:
            yield Event(at_s, "closed", f"queue {queue.name!r} of {task.task} was closed")


def latency(
    pairs: Sequence[tuple[pb.StepCounts, pb.StepCounts]], passed_s: float
) -> Latency | None:
    """Of the steps counted between two looks, (now, before) of each task together; None if nobody counts yet."""
    counted = [(now, then) for now, then in pairs if now.counted_s and passed_s]
    if not counted:
        return None
    buckets: list[int] = []
    failed = 0
    for now, then in counted:
        if then.counted_s > now.counted_s:  # it has begun anew
            then = pb.StepCounts()
        was = [*then.bucket, *[0] * len(now.bucket)]
        fresh = [count - was[n] for n, count in enumerate(now.bucket)]
        buckets += [0] * (len(fresh) - len(buckets))
        for n, count in enumerate(fresh):
            buckets[n] += max(0, count)
        failed += sum(now.failed.values()) - sum(then.failed.values())
    total = sum(buckets)
    found = [quantile(buckets, share) for share in _QUANTILES]
    return Latency(total / passed_s, max(0, failed) / passed_s, *found)


def quantile(buckets: Sequence[int], share: float) -> float | None:
    """Seconds that so many of the steps took at most, about; None of none.  Buckets: those of a StepCounts."""
    total = sum(buckets)
    wanted, seen = share * total, 0
    for number, count in enumerate(buckets):
        if count and seen + count >= wanted:
            low = 2.0 ** (number - 1) if number else 0.0
            return (low + (2.0**number - low) * (wanted - seen) / count) / 1e6
        seen += count
    return None
