"""Inspection: what a task (or this process) has, and which of its steps wait, as messages.

Called by: serve.worker.worker, client.local.  Threads: any.  Takes the locks of queues and their relatives
one at a time, for a moment; never waits for a step, never asks another task.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base.shapes import Shape
from headrace.base.traits import RECEIVE
from headrace.codec import protos as pb
from headrace.run import long_waits
from headrace.run.devices.device import HOST
from headrace.run.exec.kernel import NodeInfo, StepState
from headrace.run.exec.keys import source_device, task_of
from headrace.run.pending import WaitInfo
from headrace.run.queues.queue import Attempt, Queue
from headrace.run.queues.spec import UNBOUNDED
from headrace.run.readers.reader import Read, Reader
from headrace.run.state.resources import Resource, ResourceManager
from headrace.run.state.variable import State
from headrace.run.state.wait_queues import WaitingResource
from headrace.serve.observe.similar_queues import MOST, may_mean_another, similar_queues

Who = dict[WaitInfo, tuple[StepState, NodeInfo]]
"""The steps and nodes behind what waits."""

_MOST_BARRIERS: Final = 16  # whoever is missing is missing at all of them
_MOST_WAITERS: Final = (
    16  # of a queue, on each side, that each of its blocked steps tells of by themselves
)


def task_state(
    request: pb.InspectRequest,
    managers: Iterable[ResourceManager],
    mine: Callable[[StepState], bool],
) -> pb.TaskState:
    """What is in `managers`, and which of `mine` wait, as far as it was asked for."""
    kept = list(managers)
    handle = request.session_handle

    def resources() -> list[Resource]:
        return [resource for manager in kept for resource in manager.all()]

    return pb.TaskState(
        host=socket.gethostname(),
        pid=os.getpid(),
        resource=[] if request.blocked_only else resource_states(resources()),
        blocked=blocked_steps(lambda step: mine(step) and handle in ("", step.owner), resources),
        barrier=_barriers(resources()),
    )


def blocked_steps(
    mine: Callable[[StepState], bool], resources: Callable[[], Iterable[Resource]]
) -> list[pb.BlockedStepState]:
    """The nodes that wait in those steps of this process that are `mine`, the longest wait first.

    resources: where to look for queues that may have been meant instead.
    """
    who = _who()
    queues = _Queues(_behind(who), resources)
    found = [
        _blocked_step(info, step, node, queues)
        for info, (step, node) in who.items()
        if mine(step) and not _wants_feed(node)
    ]
    return sorted(found, key=lambda each: -each.waited_s)


def _wants_feed(node: NodeInfo) -> bool:
    """Whether it waits for its caller: a partial run that was not fed yet is not blocked."""
    return RECEIVE in node.traits and bool(node.attrs.get("client_terminated"))


def _who() -> Who:
    """Everything that steps of this process wait for now."""
    found: Who = {}
    for execution in list(long_waits.waiting):
        for node, pending in execution.waits():
            info = pending.wait_info
            if info is not None:
                found[info] = execution.step, node
    return found


def _behind(who: Who) -> Who:
    """`who`, and the dequeues that readers make for those who wait for them."""
    found = dict(who)
    for info, behind in who.items():
        if isinstance(info.subject, Read):
            waiting = info.subject.waiting
            work = None if waiting is None else waiting.wait_info
            if work is not None:
                found[work] = behind
    return found


class _Queue(NamedTuple):
    """A queue that steps wait for: its state, which tells of some of the waiters; those, and the others by kind.

    moved: when something moved last, as far as that is known.
    """

    state: pb.ResourceState
    told: set[WaitInfo]
    rest: dict[str, list[int]]
    moved: float

    def beside(self, info: WaitInfo, own: pb.WaiterState) -> pb.ResourceState:
        """Its state, as a step that waits by `info` tells of it: itself is among the waiters."""
        found = pb.ResourceState()
        found.CopyFrom(self.state)
        others = {kind: len(wanted) for kind, wanted in self.rest.items()}
        if info not in self.told and own.kind in others:
            found.waiter.append(own)
            others[own.kind] -= 1
        for kind, count in others.items():
            if count:
                found.waiter.add(kind=kind, wanted=max(self.rest[kind]), alike=count - 1)
        return found


class _Queues:
    """The queues that steps wait for, each looked at once for all of those, of which there may be many.

    who: see `Who`.  resources: where to look for queues that may have been meant instead.
    """

    def __init__(self, who: Who, resources: Callable[[], Iterable[Resource]]) -> None:
        self.who = who
        self._resources = resources
        self._found: dict[Queue, _Queue] = {}
        self._all: list[pb.ResourceState] | None = None

    def of(self, queue: Queue) -> _Queue:
        """A queue that steps wait for."""
        found = self._found.get(queue)
        if found is None:
            described = queue.describe()
            both = described["pending_enqueues"], described["pending_dequeues"]
            sides = [[info for info in side if info is not None] for side in both]
            told = [info for side in sides for info in side[:_MOST_WAITERS]]
            rest: dict[str, list[int]] = {}
            for side in sides:
                for info in side[_MOST_WAITERS:]:
                    if isinstance(info.subject, Attempt):
                        rest.setdefault(info.subject.kind, []).append(info.subject.count)
            # While anybody waits, whatever moves is seen; what was before that is not known.
            first = min((info.since for side in sides for info in side), default=time.monotonic())
            state = _queue_state(queue, described, told, self.who)
            moved = max(described["moved_at"], first)
            found = self._found[queue] = _Queue(state, set(told), rest, moved)
        return found

    def all(self) -> list[pb.ResourceState]:
        """Every queue there is."""
        if self._all is None:
            every = [each for each in self._resources() if isinstance(each, Queue)]
            self._all = [self.of(each).state for each in every]
        return self._all


def _blocked_step(
    info: WaitInfo, step: StepState, node: NodeInfo, queues: _Queues
) -> pb.BlockedStepState:
    now = time.monotonic()
    found = pb.BlockedStepState(
        session=step.owner,
        step=step.step_id,
        task=task_of(node.device),
        device=node.device,
        node=node.name,
        op=node.op,
        built_at=node.built_at or "",
        waited_s=now - info.since,
        kind=info.kind,
        on=info.on,
        detail=info.detail,
        unmoved_s=now - info.since,
    )
    subject = info.subject
    if isinstance(subject, Attempt):
        found.kind, found.wanted = subject.kind, subject.count
        _describe_queue(found, info, subject.queue, now, queues)
        me = step.owner, step.step_id, node.name
        mine = (w for w in found.resource.waiter if (w.session, w.step, w.node) == me)
        found.so_far = next((each.so_far for each in mine), 0)
    elif isinstance(subject, Read):
        found.kind, found.wanted = "read", subject.count or 1
        _describe_queue(found, info, subject.queue, now, queues)
    elif isinstance(subject, WaitingResource):
        found.resource.CopyFrom(resource_state(subject, queues.who))
    elif RECEIVE in node.traits:
        found.kind = "recv"
        found.on = _text(node.attrs.get("tensor_name")) or info.on
        found.source = task_of(_text(node.attrs.get("send_device")) or _source(info.on))
    return found


def _describe_queue(
    found: pb.BlockedStepState, info: WaitInfo, queue: Queue, now: float, queues: _Queues
) -> None:
    looked_at = queues.of(queue)
    own = _waiter(info, queues.who, now)
    found.resource.CopyFrom(looked_at.beside(info, own))
    found.unmoved_s = max(0.0, now - looked_at.moved)
    if may_mean_another(found):
        found.lookalike.extend(islice(similar_queues(found, queues.all()), MOST))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else ""


def _source(key: str) -> str:
    return source_device(key) if key.count(";") == 4 else ""


# -- resources ------------------------------------------------------------------------------------


def resource_states(resources: Iterable[Resource]) -> list[pb.ResourceState]:
    """All of them, by container, kind and name."""
    who = _behind(_who())
    found = [resource_state(resource, who) for resource in resources]
    return sorted(found, key=lambda each: (each.container, each.kind, each.name, each.session))


def _barriers(resources: Iterable[Resource]) -> list[pb.ResourceState]:
    """Of those that several sessions bring something to, the first, those first for which somebody waits."""
    found = [resource_state(each, {}) for each in resources if isinstance(each, WaitingResource)]
    shared = [each for each in found if each.contributor and not each.session]
    return sorted(shared, key=lambda each: not each.waiter)[:_MOST_BARRIERS]


def resource_state(resource: Resource, who: Who) -> pb.ResourceState:
    """What there is of it now."""
    if isinstance(resource, Queue):
        described = resource.describe()
        return _queue_state(resource, described, _waiters(described), who)
    found = _named(resource)
    if isinstance(resource, State):
        _describe_variable(found, resource)
    elif isinstance(resource, WaitingResource):
        described = resource.describe()
        found.state = described["state"]
        for session, ago_s, there in described["contributors"]:
            found.contributor.add(session=session, ago_s=ago_s, there=there)
        for session, ago_s in described["takers"]:
            found.taker.add(session=session, ago_s=ago_s)
        for label, held, most, size in described.get("stages", ()):
            found.stage.add(
                label=label, holds=held is not None, elements=held or 0, most=most or 0, bytes=size
            )
        _add_waiters(found, [info for info in described["waiting"] if info is not None], who)
    elif isinstance(resource, Reader):
        found.state = f"{resource.records_produced()} records read, {resource.work_units_completed()} items done"
    return found


def _named(resource: Resource) -> pb.ResourceState:
    owner, _, _ = (
        resource.name[1:].partition("/") if resource.name.startswith("_") else ("", "", "")
    )
    return pb.ResourceState(
        kind=resource.shown_as or type(resource).__name__,
        name=resource.label,
        container=resource.container,
        session=owner,
    )


def _describe_variable(found: pb.ResourceState, variable: State) -> None:
    found.dtype = variable.dtype.base_dtype.as_datatype_enum  # type: ignore[assignment]
    array = variable.held()
    found.initialized = array is not None
    found.updates = variable.updates
    found.device = "" if variable.device is HOST else variable.device.name
    shape: Shape = variable.shape if array is None else tuple(array.shape)
    if shape is None:
        found.shape.unknown_rank = True
    else:
        found.shape.SetInParent()
        for size in shape:
            found.shape.dim.add(size=-1 if size is None else size)
    if array is not None:
        is_here = isinstance(array, np.ndarray)
        found.bytes = _bytes(array) if is_here else array.size * variable.dtype.np.itemsize


def _bytes(array: np.ndarray[Any, Any]) -> int:
    if array.dtype.hasobject:  # strings
        return sum(len(value) for value in array.flat if isinstance(value, bytes))
    return int(array.nbytes)


def _queue_state(
    queue: Queue, described: dict[str, Any], waiters: Iterable[WaitInfo], who: Who
) -> pb.ResourceState:
    found = _named(queue)
    found.component.extend(t.as_datatype_enum for t in queue.spec.component_types)  # type: ignore[misc]
    found.size, found.set_aside = described["size"], described["gathered"]
    found.capacity = 0 if queue.capacity >= UNBOUNDED else queue.capacity
    found.min_after_dequeue = described["min_after_dequeue"]
    found.closed = described["closed"]
    found.entered = described["entered"]
    _add_waiters(found, waiters, who)
    return found


def _waiters(described: dict[str, Any]) -> list[WaitInfo]:
    """Who waits for a queue, enqueues first."""
    both = [*described["pending_enqueues"], *described["pending_dequeues"]]
    return [info for info in both if info is not None]


def _add_waiters(found: pb.ResourceState, infos: Iterable[WaitInfo], who: Who) -> None:
    now, set_aside = time.monotonic(), found.set_aside
    for info in infos:
        waiter = _waiter(info, who, now)
        if set_aside and waiter.kind.startswith("dequeue"):  # for the first of them
            waiter.so_far, set_aside = set_aside, 0
        found.waiter.append(waiter)


def _waiter(info: WaitInfo, who: Who, now: float) -> pb.WaiterState:
    waiter = pb.WaiterState(kind=info.kind, waited_s=now - info.since)
    if isinstance(info.subject, Attempt):
        waiter.kind, waiter.wanted = info.subject.kind, info.subject.count
        waiter.so_far = info.subject.position
    behind = who.get(info)
    if behind is not None:
        step, node = behind
        waiter.session, waiter.step, waiter.node = step.owner, step.step_id, node.name
    return waiter
