"""Why this session's steps are blocked: what the tasks say, joined with what only the client knows.

That is where the program built each node, which QueueRunners its graph has, whether they were started
in this session, and how they ended.
Called by: client.session.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.base import errors
from headrace.base.traits import (
    DEQUEUES,
    ENQUEUES,
    HANDLE,
    MAKES_QUEUE,
    SUMS_GRADIENTS,
    TAKES_GRADIENTS,
    Trait,
)
from headrace.client.producers import Producer
from headrace.codec import protos as pb
from headrace.graph.graph import Graph, Operation
from headrace.serve.observe.barriers import missing, missing_takers, who_is_missing, who_took
from headrace.serve.observe.blocked import BlockedStep, value
from headrace.serve.observe.causes import certain_cause, likely_cause, meant


def explained(
    reply: pb.InspectResponse, graph: Graph, producers: Iterable[Producer], session: Any
) -> list[BlockedStep]:
    """The blocked steps that the tasks tell of, with places and causes; the longest wait first."""
    every = [state for task in reply.task for state in task.blocked]
    barriers = [state for task in reply.task for state in task.barrier]
    clients = {known.handle: known.client for task in reply.task for known in task.session}
    why = _Why(
        every,
        {task.task: task.silent for task in reply.task if task.silent},
        graph,
        list(producers),
        session,
        barriers,
    )
    found = []
    for state in every:
        if state.source and _follows(state, every):
            continue
        op = graph._ops.get(state.node)
        if op is not None and op.built_at:
            state.built_at = op.built_at
        client = clients.get(state.session, "")
        found.append(value(state, client, why.cause(state), why.missing(state)))
    return sorted(found, key=lambda step: -step.waited_s)


def has_barriers(graph: Graph) -> bool:
    """Whether steps of the graph may wait for the gradients of others."""
    return any(SUMS_GRADIENTS in op.traits for op in graph._ops.values())


def late_at_barrier(reply: pb.InspectResponse, graph: Graph, op: Operation) -> str:
    """Whose gradients `op` waits for, a take of them or of what is made from them; "" if it is for something else."""
    silent = {task.task: task.silent for task in reply.task if task.silent}
    barriers = [state for task in reply.task for state in task.barrier]
    return _Why([], silent, graph, [], None, barriers).late(op)


def producers_of(graph: Graph, started: Iterable[Any]) -> list[Producer]:
    """Those in any collection of the graph, and those that were `started` without being in one."""
    found: dict[int, Producer] = {}
    collected = [
        item for name in graph.get_all_collection_keys() for item in graph.get_collection(name)
    ]
    for item in [*collected, *started]:
        if isinstance(item, Producer):
            found.setdefault(id(item), item)
    return list(found.values())


def _follows(receive: pb.BlockedStepState, every: Sequence[pb.BlockedStepState]) -> bool:
    """Whether what the step waits for in earnest is among the others."""
    return any(
        (other.session, other.step) == (receive.session, receive.step) and not other.source
        for other in every
    )


class _Why:
    def __init__(
        self,
        every: list[pb.BlockedStepState],
        silent: dict[str, str],
        graph: Graph,
        producers: list[Producer],
        session: Any,
        barriers: list[pb.ResourceState],
    ) -> None:
        self._barriers = {state.name: state for state in barriers}
        self._every = every
        self._silent = silent
        self._graph = graph
        self._producers = producers
        self._session = session

    def cause(self, state: pb.BlockedStepState, seen: frozenset[str] = frozenset()) -> str:
        """See `causes.likely_cause`.  seen: nodes whose waits are being explained by this one."""
        theirs = likely_cause(state, self._every, self._silent)
        op = self._graph._ops.get(state.node)
        queue = None if op is None else _queue_of(op)
        if not state.resource.component or queue is None or certain_cause(state):
            return theirs
        if state.kind.startswith("enqueue"):
            return theirs + self._itself(theirs, queue, DEQUEUES)
        if state.kind == "close":
            return theirs
        ours = self._of_producers(state, queue, seen | {state.node})
        if not ours:
            barrier = self._barrier(queue)
            late = "" if barrier is None else self._late(barrier)
            if late and barrier is not None:
                return f"what fills it waits for {barrier.kind} {barrier.name!r}: {late}"
            return theirs + self._itself(theirs, queue, ENQUEUES)
        if state.kind == "read":
            return f"the file-name queue {state.resource.name!r} is empty: {ours}"
        return ours

    def missing(self, state: pb.BlockedStepState) -> tuple[str, ...]:
        """See `BlockedStep.missing`."""
        op = self._graph._ops.get(state.node)
        takes = state.kind.startswith("dequeue")
        queue = _queue_of(op) if op is not None and takes else None
        barrier = state.resource if queue is None else self._barrier(queue)
        if barrier is None:
            return ()
        took = () if queue is None else missing_takers(barrier, self._silent)
        return took or missing(barrier, self._silent)

    def late(self, op: Operation) -> str:
        """Whom `op` waits for at a barrier, a take of gradients or of what is made from them; "" if it is for something
        else.
        """
        barrier = self.barrier_of(op)
        if barrier is None:
            return ""
        return (
            self._late(barrier) if DEQUEUES in op.traits else who_is_missing(barrier, self._silent)
        )

    def _late(self, barrier: pb.ResourceState) -> str:
        """Who keeps what is made from gradients from being made."""
        return who_took(barrier, self._silent) or who_is_missing(barrier, self._silent)

    def barrier_of(self, op: Operation) -> pb.ResourceState | None:
        """The accumulator that a node takes from, or that fills the queue which it takes from."""
        if DEQUEUES in op.traits:
            queue = _queue_of(op)
            return None if queue is None else self._barrier(queue)
        if TAKES_GRADIENTS not in op.traits:
            return None
        return self._barriers.get(op.inputs[0].op["shared_name"].decode())

    def _barrier(self, queue: Operation) -> pb.ResourceState | None:
        """An accumulator that what goes into the queue is made from."""
        if not self._barriers:
            return None
        for name in self._users(queue, ENQUEUES):
            for above in _above(self._graph._ops[name]):
                node = self._graph._ops[above]
                if HANDLE in node.traits and "shared_name" in node.attrs:
                    found = self._barriers.get(node["shared_name"].decode())
                    if found is not None:
                        return found
        return None

    def _users(self, queue: Operation, does: Trait) -> list[str]:
        """The nodes of the graph that do that with it."""
        return [
            op.name
            for op in self._graph.get_operations()
            if does in op.traits and _same(_queue_of(op), queue)
        ]

    def _of_producers(
        self, state: pb.BlockedStepState, queue: Operation, seen: frozenset[str]
    ) -> str:
        """What the runners of that queue are doing; "" if it has none."""
        mine = [p for p in self._producers if _same(_node_of(p.queue), queue)]
        if not mine:
            return ""
        far = [producer.producing(self._session) for producer in mine]
        if not any(each.started for each in far):
            others = len(self._producers)
            has = f"has {len(mine)} for it" + (f", {others} in all" if others > len(mine) else "")
            return (
                f"no QueueRunner was started for this queue in this session, though the graph {has}: call "
                f"tf.train.start_queue_runners(sess, coord)" + meant(state)
            )
        if not any(each.running for each in far):
            error = next((each.error for each in far if each.error is not None), None)
            how = f" with {errors.named(error)}" if error is not None else " without closing it"
            return f"every producer of this queue has ended,{how}"
        return self._of_running(state, mine, seen)

    def _of_running(
        self, state: pb.BlockedStepState, producers: list[Producer], seen: frozenset[str]
    ) -> str:
        nodes = {above for p in producers for op in p.enqueue_ops for above in _above(op)}
        waits = [s for s in self._every if s.node in nodes and s.node not in seen and not s.source]
        if not waits:
            return "its producers are running, and do not wait: they are slower than this step is patient"
        first = waits[0]
        why = self.cause(first, seen)
        text = f"its producers wait themselves, in {first.op} {first.node!r}"
        return f"{text}: {why}" if why else f"{text} ({first.kind} on {first.on})"

    def _itself(self, theirs: str, queue: Operation, does: Trait) -> str:
        """More on nodes of the graph that would help, if nobody runs them."""
        if not theirs:
            return ""
        nodes = self._users(queue, does)
        if not nodes:
            return ""
        what = "fills it" if does is ENQUEUES else "empties it"
        names = ", ".join(map(repr, nodes[:3])) + (", …" if len(nodes) > 3 else "")
        return (
            f"; {names} {what}, but no QueueRunner runs that: "
            "if the thread that waits here was to, it waits for itself"
        )


def _node_of(queue: Any) -> Operation | None:
    """The node of a queue object, of its handle, or itself."""
    handle = getattr(queue, "queue_ref", queue)
    found = getattr(handle, "op", handle)
    return found if isinstance(found, Operation) else None


def _queue_of(op: Operation) -> Operation | None:
    """The node that makes the queue which `op` uses."""
    for tensor in op.inputs:
        source = tensor.op
        while source.inputs and MAKES_QUEUE not in source.traits:
            source = source.inputs[0].op
        if MAKES_QUEUE in source.traits:
            return source
    return None


def _same(one: Operation | None, other: Operation | None) -> bool:
    """Whether two nodes make the same queue."""
    if one is None or other is None:
        return False
    if one is other:
        return True
    return bool(one["shared_name"]) and all(
        one[attr] == other[attr] for attr in ("shared_name", "container")
    )


def _above(op: Operation) -> Iterator[str]:
    """The names of `op` and of all that it needs."""
    found, left = {op}, [op]
    while left:
        at = left.pop()
        yield at.name
        for source in [*(tensor.op for tensor in at.inputs), *at.control_inputs]:
            if source not in found:
                found.add(source)
                left.append(source)
