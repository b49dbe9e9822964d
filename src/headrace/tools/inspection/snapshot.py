"""Snapshots of a cluster: what its tasks said at a moment, and how fast queues and variables have changed since.

Called by: run (the commands), tables.  Threads: one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.base import dtypes, errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve.connect.peers import connect
from headrace.serve.observe.blocked import BlockedStep, of_tasks
from headrace.serve.observe.overview import answer
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer
from headrace.serve.rpc.pool import GrowingPool
from headrace.tools.commands import CommandError, UsageError

QueueKey = tuple[str, str, str, str]
"""Task, container, session and name."""


@dataclass(frozen=True)
class Rates:
    """Elements per second that went into a queue and came out of it."""

    entered: float
    left: float


@dataclass(frozen=True)
class Snapshot:
    """What every task said.  at_s: time.monotonic.

    rates: of queues that an earlier one had too.  updates: of such variables, how many a second.
    """

    target: str
    at_s: float
    tasks: list[pb.TaskState]
    rates: dict[QueueKey, Rates] = field(default_factory=dict)
    updates: dict[QueueKey, float] = field(default_factory=dict)

    @property
    def sessions(self) -> Iterator[tuple[pb.TaskState, pb.SessionState]]:
        """All of them, with the task whose master has them."""
        return ((task, session) for task in self.tasks for session in task.session)

    @property
    def resources(self) -> Iterator[tuple[pb.TaskState, pb.ResourceState]]:
        """All of them, with their task."""
        return ((task, resource) for task in self.tasks for resource in task.resource)

    def blocked(self) -> list[BlockedStep]:
        """The nodes that wait, the longest first."""
        return of_tasks(self.tasks)


def is_queue(resource: pb.ResourceState) -> bool:
    """Whether a resource is one."""
    return bool(resource.component)


def is_variable(resource: pb.ResourceState) -> bool:
    """Whether a resource is one."""
    return resource.dtype != pb.DT_INVALID


def is_iterator(resource: pb.ResourceState) -> bool:
    """Whether a resource is one that has begun."""
    return bool(resource.stage)


def queue_key(task: pb.TaskState, queue: pb.ResourceState) -> QueueKey:
    """What a queue or a variable is known by."""
    return task.task, queue.container, queue.session, queue.name


def address_of(target: str) -> str:
    """HOST:PORT of grpc://HOST:PORT, whose scheme may be left out.  Raises UsageError."""
    address = target.removeprefix("grpc://").rstrip("/")
    host, colon, port = address.rpartition(":")
    if not host or not colon or not port.isdecimal():
        raise UsageError(f"{target!r} is not grpc://HOST:PORT")
    return address


class Observer:
    """Asks the master at a target; a context manager."""

    def __init__(self, target: str) -> None:
        """Raises UsageError if `target` is not grpc://HOST:PORT (the scheme may be left out)."""
        address = address_of(target)
        self.target = f"grpc://{address}"
        self._pool = GrowingPool("headrace inspect")
        self._master: Peer = connect(address, "master", self._pool, "the server")
        self._latest: Snapshot | None = None

    def look(self, count_for_s: float = 0.0) -> Snapshot:
        """What there is now.  Raises CommandError if the server does not answer or cannot say.

        count_for_s: how long tasks are to count their steps from now on.
        """
        try:
            with Scope(LIMITS.server_answers_within_s) as scope:
                method, request = (
                    methods.INSPECT_CLUSTER,
                    pb.InspectRequest(count_for_s=count_for_s),
                )
                reply = self._master.call(method, request, scope)
                tasks = list(answer(self._master, method, request, reply, scope).task)
        except errors.UnimplementedError:
            raise CommandError(
                f"{self.target} is not a headrace server, such as TensorFlow's: it cannot say what it has"
            ) from None
        except errors.OpError as error:
            raise CommandError(f"{self.target} does not answer: {error.message}") from error
        now, earlier = time.monotonic(), self._latest
        rates = {} if earlier is None else _rates(earlier, tasks, now)
        updates = {} if earlier is None else _updates(earlier, tasks, now)
        self._latest = Snapshot(self.target, now, tasks, rates, updates)
        return self._latest

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc: object) -> None:
        self._master.close()
        self._pool.shutdown(wait=False)


def _rates(earlier: Snapshot, tasks: list[pb.TaskState], now_s: float) -> dict[QueueKey, Rates]:
    passed_s = max(now_s - earlier.at_s, 1e-6)
    before = {queue_key(t, q): q for t, q in earlier.resources if is_queue(q)}
    starts = {task.task: task.incarnation for task in earlier.tasks}
    found = {}
    for task in tasks:
        for queue in task.resource:
            known = before.get(queue_key(task, queue))
            if known is None or starts.get(task.task) != task.incarnation:
                continue
            entered, left = queue.entered - known.entered, _left(queue) - _left(known)
            if entered >= 0 and left >= 0:  # else it was made anew
                found[queue_key(task, queue)] = Rates(entered / passed_s, left / passed_s)
    return found


def _updates(earlier: Snapshot, tasks: list[pb.TaskState], now_s: float) -> dict[QueueKey, float]:
    passed_s = max(now_s - earlier.at_s, 1e-6)
    before = {queue_key(t, v): v.updates for t, v in earlier.resources if is_variable(v)}
    starts = {task.task: task.incarnation for task in earlier.tasks}
    found = {}
    for task in tasks:
        if starts.get(task.task) != task.incarnation:
            continue
        for variable in filter(is_variable, task.resource):
            key = queue_key(task, variable)
            known = before.get(key)
            if known is not None and variable.updates >= known:  # else it was made anew
                found[key] = (variable.updates - known) / passed_s
    return found


def _left(queue: pb.ResourceState) -> int:
    """Elements that ever came out."""
    return queue.entered - queue.size - queue.set_aside


# -- as data --------------------------------------------------------------------------------------


def as_data(snapshot: Snapshot) -> dict[str, Any]:
    """Everything, in the shape that JSON has."""
    return {
        "target": snapshot.target,
        "tasks": [
            {
                "task": task.task,
                "address": task.address,
                "answers": not task.silent,
                "why_silent": task.silent or None,
                "host": task.host,
                "pid": task.pid,
                "up_s": round(task.up_s, 3),
                "steps_under_way": task.steps,
                "sessions": [_session(session) for session in task.session],
                "containers": sorted({resource.container for resource in task.resource}),
                "variables": [
                    _variable(snapshot, task, r) for r in task.resource if is_variable(r)
                ],
                "queues": [_queue(snapshot, task, r) for r in task.resource if is_queue(r)],
                "others": [
                    _other(r) for r in task.resource if not is_queue(r) and not is_variable(r)
                ],
                "checkpoints": [_checkpoint(each) for each in task.checkpoint],
                "devices": [_device(each) for each in task.device],
            }
            for task in snapshot.tasks
        ],
        "blocked_steps": [_blocked(step) for step in snapshot.blocked()],
    }


def _named(resource: pb.ResourceState) -> dict[str, Any]:
    return {
        "kind": resource.kind,
        "name": resource.name,
        "container": resource.container,
        "session": resource.session or None,
    }


def _session(session: pb.SessionState) -> dict[str, Any]:
    return {
        "handle": session.handle,
        "client": session.client or None,
        "age_s": round(session.age_s, 3),
        "nodes": session.nodes,
        "steps_under_way": session.steps,
    }


def shape_of(variable: pb.ResourceState) -> list[int | None] | None:
    """None for an unknown rank; a None in it for an unknown size."""
    if variable.shape.unknown_rank:
        return None
    return [None if dim.size < 0 else dim.size for dim in variable.shape.dim]


def _variable(snapshot: Snapshot, task: pb.TaskState, variable: pb.ResourceState) -> dict[str, Any]:
    per_s = snapshot.updates.get(queue_key(task, variable))
    return _named(variable) | {
        "dtype": dtypes.as_dtype(variable.dtype).name,
        "shape": shape_of(variable),
        "initialized": variable.initialized,
        "bytes": variable.bytes,
        "device": variable.device or None,
        "updates": variable.updates,
        "updates_per_s": None if per_s is None else round(per_s, 3),
    }


def _device(device: pb.DeviceState) -> dict[str, Any]:
    return {
        "name": device.name,
        "held_bytes": device.held,
        "variable_bytes": device.variables,
        "limit_bytes": device.limit,
    }


def _checkpoint(record: pb.CheckpointRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "kind": record.kind,
        "prefix": record.prefix,
        "tensors": record.tensors,
        "bytes": record.bytes,
        "took_s": round(record.took_s, 6),
        "ago_s": round(record.ago_s, 3),
        "error": record.error or None,
    }


def _queue(snapshot: Snapshot, task: pb.TaskState, queue: pb.ResourceState) -> dict[str, Any]:
    rates = snapshot.rates.get(queue_key(task, queue))
    return _named(queue) | {
        "component_types": [dtypes.as_dtype(each).name for each in queue.component],
        "size": queue.size,
        "set_aside": queue.set_aside,
        "capacity": queue.capacity or None,
        "min_after_dequeue": queue.min_after_dequeue,
        "closed": queue.closed,
        "entered": queue.entered,
        "entered_per_s": None if rates is None else round(rates.entered, 3),
        "left_per_s": None if rates is None else round(rates.left, 3),
        "waiting": _waiters(queue),
    }


def _waiters(resource: pb.ResourceState) -> list[dict[str, Any]]:
    return [
        {
            "kind": waiter.kind,
            "wanted": waiter.wanted,
            "so_far": waiter.so_far,
            "waited_s": round(waiter.waited_s, 3),
            "session": waiter.session or None,
            "node": waiter.node or None,
        }
        for waiter in resource.waiter
    ]


def _other(resource: pb.ResourceState) -> dict[str, Any]:
    found = _named(resource) | {"state": resource.state, "waiting": _waiters(resource)}
    if is_iterator(resource):
        found["stages"] = [
            {
                "stage": stage.label,
                "elements": stage.elements if stage.holds else None,
                "most": stage.most or None,
                "bytes": stage.bytes if stage.holds else None,
            }
            for stage in resource.stage
        ]
    return found


def _blocked(step: BlockedStep) -> dict[str, Any]:
    return {
        "session": step.session or None,
        "client": step.client or None,
        "task": step.task,
        "node": step.node,
        "op": step.op,
        "built_at": step.built_at or None,
        "waited_s": round(step.waited_s, 3),
        "kind": step.kind,
        "on": step.on,
        "container": None if step.queue is None else step.queue.container,
        "wanted": step.wanted,
        "so_far": step.so_far,
        "unmoved_s": round(step.unmoved_s, 3),
        "cause": step.cause or None,
        "text": str(step),
    }
