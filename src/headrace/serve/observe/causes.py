"""Why a step is probably blocked, from what the tasks say; what only its client knows is in client.blocked.

Called by: serve.observe.blocked, client.blocked.  Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.codec import protos as pb
from headrace.serve.observe.barriers import who_is_missing


def likely_cause(
    step: pb.BlockedStepState, every: Sequence[pb.BlockedStepState], silent: Mapping[str, str]
) -> str:
    """A sentence without its stop, or "".

    every: all that is known to be blocked.  silent: tasks that say nothing, and why.
    """
    if step.source:
        return _of_recv(step, every, silent)
    if not step.resource.component:
        return who_is_missing(step.resource, silent)
    if step.kind == "close":
        return "the enqueues before it still wait for room"
    if step.kind.startswith("enqueue"):
        return _of_enqueue(step)
    return _of_dequeue(step)


def _of_recv(
    step: pb.BlockedStepState, every: Sequence[pb.BlockedStepState], silent: Mapping[str, str]
) -> str:
    if step.source in silent:
        return f"{step.source} {silent[step.source]}"
    for other in every:
        if other.node != step.node and (other.session, other.step, other.task) == (
            step.session,
            step.step,
            step.source,
        ):
            return f"the step waits there itself, in {other.op} {other.node!r}: {other.kind} on {other.on}"
    return f"{step.source} has not made the value yet, and waits for nothing: it is computing"


def certain_cause(step: pb.BlockedStepState) -> str:
    """Why an operation on a queue waits, if that follows from the state of the queue alone; else ""."""
    queue = step.resource
    full = any(waiter.kind.startswith("enqueue") for waiter in queue.waiter)
    if full:
        never = _never_serves(queue)
        if never:
            return never
    takes = not step.kind.startswith(("enqueue", "close"))
    enough = queue.size >= step.wanted - step.so_far
    if takes and enough and not queue.closed and queue.min_after_dequeue:
        return (
            f"min_after_dequeue: {queue.min_after_dequeue} elements must stay until the queue is closed, which "
            f"leaves {max(0, queue.size - queue.min_after_dequeue)} of the {queue.size}; enqueue more, or close "
            "the queue when there is no more"
        )
    return ""


def _of_enqueue(step: pb.BlockedStepState) -> str:
    queue = step.resource
    certain = certain_cause(step)
    if certain:
        return certain
    if any(waiter.kind.startswith("dequeue") for waiter in queue.waiter):
        return ""
    text = "the queue is full and nobody takes anything out"
    if step.wanted > queue.capacity:
        text += (
            f"; {step.wanted} elements do not fit into a capacity of {queue.capacity}: dequeue in another "
            "thread or process meanwhile, or make the capacity larger"
        )
    return text + meant(step)


def _of_dequeue(step: pb.BlockedStepState) -> str:
    queue = step.resource
    certain = certain_cause(step)
    if certain or any(waiter.kind.startswith("enqueue") for waiter in queue.waiter):
        return certain
    what = f"the file-name queue {queue.name!r} is empty" if step.kind == "read" else ""
    nobody = "nobody enqueues" if queue.entered else "nobody has ever enqueued anything"
    return (f"{what} and {nobody}" if what else nobody) + meant(step)


def _never_serves(queue: pb.ResourceState) -> str:
    """Why a full queue lets nobody take anything, however long one waits."""
    if not queue.capacity:
        return ""
    if queue.min_after_dequeue >= queue.capacity:
        return (
            f"min_after_dequeue ({queue.min_after_dequeue}) elements must stay and no more than capacity "
            f"({queue.capacity}) fit: nothing can ever be taken out; make the capacity larger"
        )
    wanted = max((w.wanted for w in queue.waiter if w.kind.startswith("dequeue")), default=0)
    if queue.kind == "PriorityQueue" and wanted > queue.capacity:
        return (
            f"a PriorityQueue gives a batch when all of it is there, and {wanted} elements do not fit into a "
            f"capacity of {queue.capacity}; make the capacity larger"
        )
    return ""


def meant(step: pb.BlockedStepState) -> str:
    """A question after other queues, to be added to a cause; or ""."""
    if not step.lookalike:
        return ""
    return f"; was another queue meant? There is {', and '.join(step.lookalike)}: see shared_name and container"
