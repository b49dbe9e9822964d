"""Similar queues: queues that a step may have meant which waits for one that nobody has ever used as it would have to.

A shared_name was misspelt, a container left out, or a node put on another task.
Called by: serve.observe.inspection (queues of one task), serve.observe.overview (those of the others).  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.codec import protos as pb

MOST = 3


def may_mean_another(step: pb.BlockedStepState) -> bool:
    """Whether nobody has put anything into its queue, or for those that put in, taken anything out."""
    queue = step.resource
    if not queue.component:
        return False
    return queue.entered == (0 if _takes(step) else queue.size + queue.set_aside)


def similar_queues(
    step: pb.BlockedStepState, there: Iterable[pb.ResourceState], task: str = ""
) -> Iterator[str]:
    """Those of the queues `there` that hold elements of its types, or are waited on if it would put some in.

    task: where they are, if that is another task than the step's queue is on.
    """
    mine = step.resource
    for queue in there:
        if list(queue.component) != list(mine.component) or queue.closed:
            continue
        if not task and _identity(queue) == _identity(mine):
            continue
        if _takes(step) and queue.size:
            what = f"holds {queue.size} element{'' if queue.size == 1 else 's'} of the same types"
        elif not _takes(step) and any(w.kind.startswith("dequeue") for w in queue.waiter):
            what = "is waited on"
        else:
            continue
        where = f" of {task}, another task" if task else ""
        whose = "; it is another session's alone" if queue.session else ""
        yield f"{queue.kind} {queue.name!r} in container {queue.container!r}{where}, which {what}{whose}"


def _takes(step: pb.BlockedStepState) -> bool:
    return not step.kind.startswith(("enqueue", "close"))


def _identity(queue: pb.ResourceState) -> tuple[str, str, str]:
    return queue.name, queue.container, queue.session
