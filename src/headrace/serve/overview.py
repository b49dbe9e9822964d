"""Overview: what the tasks of a cluster say they have, asked all at once.

Called by: serve.master.  Threads: any.  A task that does not answer soon, or cannot, is listed with
the reason instead of keeping the others.
"""

from __future__ import annotations

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope
from headrace.serve import wire
from headrace.serve.cluster_view import ClusterView

_ANSWER_WITHIN_S = 2.0


def overview(cluster: ClusterView, request: pb.InspectRequest, scope: Scope) -> pb.InspectResponse:
    """The state of every task, in name order."""
    found = pb.InspectResponse()
    with Scope(_ANSWER_WITHIN_S, scope) as asking:
        asked = {
            task: cluster.worker(task).call(wire.INSPECT_TASK, request, asking)
            for task in cluster.tasks
        }
        for task, reply in asked.items():
            state = found.task.add()
            try:
                state.CopyFrom(reply.wait(asking).task[0])
            except errors.OpError as error:
                scope.check()
                state.silent = _why_silent(error)
            state.task = task
            state.address = cluster.address(task)
    return found


def _why_silent(error: errors.OpError) -> str:
    if isinstance(error, errors.UnimplementedError):
        return "cannot say: it is not a headrace server"
    if isinstance(error, errors.DeadlineExceededError):
        return f"has not answered for {_ANSWER_WITHIN_S:g} s"
    return f"does not answer: {error.message}"
