"""Blocked steps as values: who waits, on what, in which state it is, and why, as far as that can be told.

A `BlockedStep` is one node of a step that waits.  Its text is the line that the log has.
Called by: client.blocked, serve.server, serve.observe.reporter.  Pure: from messages to values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.codec import protos as pb
from headrace.run.state.resources import DEFAULT_CONTAINER
from headrace.serve.observe.barriers import missing
from headrace.serve.observe.causes import likely_cause


@dataclass(frozen=True, slots=True)
class Waiter:
    """An operation that waits at a queue.  wanted: elements; so_far: of them, set aside or gone in.

    session, step and node are empty and 0 if no step of the queue's own process is behind it.
    alike: so many more of the kind wait behind it; wanted: the most of them.
    """

    kind: str
    wanted: int
    so_far: int
    waited_s: float
    session: str
    step: int
    node: str
    alike: int = 0


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue as it was when it was asked for.

    size: elements that anybody may take; set_aside: gathered for the first dequeue_many that waits.
    capacity: None for no limit.  entered: elements that ever went in.  waiters: enqueues, then
    dequeues, each in the order of arrival.
    """

    kind: str
    name: str
    container: str
    size: int
    set_aside: int
    capacity: int | None
    min_after_dequeue: int
    closed: bool
    entered: int
    waiters: tuple[Waiter, ...]


@dataclass(frozen=True, slots=True)
class BlockedStep:
    """A node that waits.

    session: its handle, "" for a local one; client: who has the session, as far as that is known.
    task, device: where it waits.  node, op: "" if the master waits for all that a task has to do.
    built_at: "file.py:41" where the program made the node, if known.
    kind: of operation: dequeue, dequeue_many, enqueue, read, recv, reply, take, …  on: what it waits for.
    wanted: elements; so_far: of them, set aside or gone in.  queue: None if it is not a queue;
    detail then says what there is.  unmoved_s: how long that has been as it is, at least.
    source: the task that is to send what a recv or a reply waits for.
    cause: the likely one, in a sentence; "" if there is nothing to be said.
    missing: tasks that do not answer, without which this cannot go on: all others have brought what it waits for.
    """

    session: str
    client: str
    step: int
    task: str
    device: str
    node: str
    op: str
    built_at: str
    waited_s: float
    kind: str
    on: str
    wanted: int
    so_far: int
    queue: QueueState | None
    detail: str
    unmoved_s: float
    source: str
    cause: str
    missing: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[Waiter, ...]:
        """Who else waits for the same queue."""
        if self.queue is None:
            return ()
        return tuple(
            w
            for w in self.queue.waiters
            if (w.session, w.step, w.node) != (self.session, self.step, self.node)
        )

    def __str__(self) -> str:
        return describe(self)


def values(
    states: Iterable[pb.BlockedStepState],
    clients: Mapping[str, str] | None = None,
    silent: Mapping[str, str] | None = None,
) -> list[BlockedStep]:
    """The steps that messages tell of, with what can be said of the causes without their clients.

    clients: by session.  silent: tasks that say nothing, and why.
    """
    every = list(states)
    return [
        value(
            state,
            (clients or {}).get(state.session, ""),
            likely_cause(state, every, silent or {}),
            missing(state.resource, silent or {}),
        )
        for state in every
    ]


def of_tasks(tasks: Iterable[pb.TaskState]) -> list[BlockedStep]:
    """What tasks tell, the longest wait first.  Receives of steps that wait in earnest elsewhere are left out."""
    told = list(tasks)
    every = [state for task in told for state in task.blocked]
    clients = {session.handle: session.client for task in told for session in task.session}
    found = values(every, clients, {task.task: task.silent for task in told if task.silent})
    in_earnest = {(step.session, step.step) for step in found if not step.source}
    return sorted(
        (step for step in found if not step.source or (step.session, step.step) not in in_earnest),
        key=lambda step: -step.waited_s,
    )


def value(
    state: pb.BlockedStepState, client: str, cause: str, lacks: tuple[str, ...] = ()
) -> BlockedStep:
    """One of them."""
    queue = _queue(state.resource) if state.resource.component else None
    return BlockedStep(
        session=state.session,
        client=client,
        step=state.step,
        task=state.task,
        device=state.device,
        node=state.node,
        op=state.op,
        built_at=state.built_at,
        waited_s=state.waited_s,
        kind=state.kind,
        on=state.on,
        wanted=state.wanted,
        so_far=state.so_far,
        queue=queue,
        detail=_detail(state),
        unmoved_s=state.unmoved_s,
        source=state.source,
        cause=cause,
        missing=lacks,
    )


def _detail(state: pb.BlockedStepState) -> str:
    """What there is of something that is no queue, and how many others wait for it."""
    more = len(state.resource.waiter) - 1
    text = state.resource.state or state.detail
    if more < 1 or not state.resource.state:
        return text
    return f"{text}; {more} more {'waits' if more == 1 else 'wait'} for it"


def _queue(state: pb.ResourceState) -> QueueState:
    waiters = tuple(
        Waiter(w.kind, w.wanted, w.so_far, w.waited_s, w.session, w.step, w.node, w.alike)
        for w in state.waiter
    )
    return QueueState(
        state.kind,
        state.name,
        state.container,
        state.size,
        state.set_aside,
        state.capacity or None,
        state.min_after_dequeue,
        state.closed,
        state.entered,
        waiters,
    )


# -- words ----------------------------------------------------------------------------------------


def describe(step: BlockedStep) -> str:
    """All of it in one line."""
    built = f" (built at {step.built_at})" if step.built_at else ""
    where = f" in {step.op} {step.node!r}{built}" if step.node else ""
    text = f"{_who(step)} has waited {seconds(step.waited_s)}{where}: {_what(step)}; {_state(step)}"
    others = _others(step)
    if others:
        text += f"; {others}"
    return f"{text}. Likely cause: {step.cause}" if step.cause else text


def _who(step: BlockedStep) -> str:
    if not step.session:
        return f"step {step.step}"
    client = f" ({step.client})" if step.client else ""
    return f"a step of session {step.session}{client}"


def _what(step: BlockedStep) -> str:
    count = f"({step.wanted})" if step.kind.endswith(("_many", "_up_to")) else ""
    if step.kind == "reply":
        return f"reply of {step.source}" + (f", which makes {step.on}" if step.on else "")
    if step.source:
        return f"recv of {step.on!r} from {step.source}"
    text = f"{step.kind}{count} on {step.on}"
    queue = step.queue
    if queue is not None:
        if step.kind == "read":
            text += f", from {queue.kind} {queue.name!r}"
        if step.session or queue.container != DEFAULT_CONTAINER:
            text += f" in container {queue.container!r}"
    return f"{text} of {step.task}" if step.session else text


def _state(step: BlockedStep) -> str:
    queue = step.queue
    if queue is None:
        return step.detail or "nothing is known of it"
    limit = "" if queue.capacity is None else f" of at most {queue.capacity}"
    parts = [f"it holds {queue.size}{limit}"]
    if step.so_far:
        verb = "gone in" if step.kind.startswith("enqueue") else "set aside for this"
        parts.append(f"{step.so_far} of the {step.wanted} {verb}")
    if queue.min_after_dequeue:
        parts.append(f"min_after_dequeue is {queue.min_after_dequeue}")
    if queue.closed:
        parts.append("is closed")
    if queue.entered:
        parts.append(f"has not changed for {seconds(step.unmoved_s)}")
    return ", ".join(parts) + ("" if queue.entered else "; nothing ever went in")


def _others(step: BlockedStep) -> str:
    """Who else waits, and how many of each kind."""
    if step.queue is None:
        return ""
    counts: Counter[str] = Counter()
    nodes: dict[str, list[str]] = {}
    for waiter in step.others:
        counts[waiter.kind] += 1 + waiter.alike
        nodes.setdefault(waiter.kind, []).append(waiter.node)
    if not counts:
        return "nobody else waits for it"
    return "also waiting: " + ", ".join(
        f"{count} {kind}" + _named(nodes[kind]) for kind, count in counts.items()
    )


def _named(nodes: list[str]) -> str:
    known = list(dict.fromkeys(repr(node) for node in nodes if node))
    if not known:
        return ""
    return f" ({', '.join(known[:3])}{', …' if len(known) > 3 else ''})"


def seconds(duration_s: float) -> str:
    """As people say it."""
    if duration_s < 10:
        return f"{duration_s:.1f} s"
    if duration_s < 120:
        return f"{duration_s:.0f} s"
    return f"{duration_s / 60:.0f} min"
