"""Overview: what the tasks of a cluster say they have, asked all at once.

Called by: serve.master, serve.master_session, tools.inspection.  Threads: any.  A task that does not
answer soon, or cannot, is listed with the reason instead of keeping the others.
"""

from __future__ import annotations

from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve import wire
from headrace.serve.cluster_view import ClusterView
from headrace.serve.peers import Peer

_ANSWER_WITHIN_S = 3.0


def overview(cluster: ClusterView, request: pb.InspectRequest, scope: Scope) -> pb.InspectResponse:
    """The state of every task, in name order."""
    found = pb.InspectResponse()
    with Scope(_ANSWER_WITHIN_S, scope) as asking:
        workers = {task: cluster.worker(task) for task in cluster.tasks}
        asked = {
            task: worker.call(wire.INSPECT_TASK, request, asking)
            for task, worker in workers.items()
        }
        for task, reply in asked.items():
            state = found.task.add()
            try:
                state.CopyFrom(
                    answer(workers[task], wire.INSPECT_TASK, request, reply, asking).task[0]
                )
            except errors.OpError as error:
                scope.check()
                state.silent = _why_silent(error)
            state.task = task
            state.address = cluster.address(task)
    return found


def answer(
    peer: Peer, method: wire.Method, request: pb.InspectRequest, reply: Pending[Any], scope: Scope
) -> pb.InspectResponse:
    """The `reply` of `peer` to that request.  One attempt to connect proves nothing on a busy machine: a
    peer that can be reached after all is asked once more.  Raises its error, or Unavailable with
    what is wrong.
    """
    try:
        found: pb.InspectResponse = reply.wait(scope)
    except errors.UnavailableError as error:
        reason = peer.why_silent(scope)
        if reason:
            raise errors.unavailable(reason) from error
        found = peer.call(method, request, scope, wait_for_ready=True).wait(scope)
    return found


def _why_silent(error: errors.OpError) -> str:
    if isinstance(error, errors.UnimplementedError):
        return "cannot say: it is not a headrace server"
    if isinstance(error, errors.DeadlineExceededError):
        return f"has not answered for {_ANSWER_WITHIN_S:g} s"
    return f"does not answer: {error.message}"
