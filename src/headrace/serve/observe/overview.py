"""Overview: what the tasks of a cluster say they have, asked all at once.

Called by: serve.master.master, serve.master.master_session, tools.inspection.  Threads: any.  A task that does not
answer soon, or cannot, is listed with the reason instead of keeping the others.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.exec.keys import task_of
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView, OutstandingParts
from headrace.serve.observe.similar_queues import MOST, may_mean_another, similar_queues
from headrace.serve.rpc import methods
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.peer import Peer


def overview(cluster: ClusterView, request: pb.InspectRequest, scope: Scope) -> pb.InspectResponse:
    """The state of every task, in name order."""
    found = pb.InspectResponse()
    with Scope(LIMITS.task_answers_within_s, scope) as asking:
        workers = {task: cluster.worker(task) for task in cluster.tasks}
        asked = {
            task: worker.call(methods.INSPECT_TASK, request, asking)
            for task, worker in workers.items()
        }
        for task, reply in asked.items():
            state = found.task.add()
            try:
                state.CopyFrom(
                    answer(workers[task], methods.INSPECT_TASK, request, reply, asking).task[0]
                )
            except errors.OpError as error:
                scope.check()
                state.silent, state.silent_code = _why_silent(error), error.error_code
            state.task = task
            state.address = cluster.address(task)
    _add_direct_steps(found.task)
    add_outstanding(found, cluster.outstanding, request.session_handle)
    _add_similar_queues(found, cluster, request, scope)
    return found


def add_outstanding(found: pb.InspectResponse, outstanding: OutstandingParts, session: str) -> None:
    """Steps for which a task that says nothing owes the master or client a reply, if nobody else has told of them."""
    told = {step.step for state in found.task for step in state.blocked}
    silent = {state.task: state for state in found.task if state.silent}
    now = time.monotonic()
    for step_id, (parts, since) in outstanding.copy().items():
        for part in parts:
            if part.task in silent and step_id not in told:
                silent[part.task].blocked.add(
                    session=session,
                    step=step_id,
                    task=part.task,
                    source=part.task,
                    kind="reply",
                    on=", ".join(part.makes),
                    waited_s=now - since,
                    unmoved_s=now - since,
                )


def _add_similar_queues(
    found: pb.InspectResponse, cluster: ClusterView, request: pb.InspectRequest, scope: Scope
) -> None:
    """Say of steps that wait for a queue which nobody uses whether a queue of another task may have been meant."""
    lost = [
        step
        for state in found.task
        for step in state.blocked
        if not step.lookalike and may_mean_another(step)
    ]
    if not lost or len(found.task) < 2:
        return
    there = {state.task: list(state.resource) for state in found.task}
    if request.blocked_only:
        heard = [state.task for state in found.task if not state.silent]
        there = _resources(cluster, heard, request.session_handle, scope)
    for step in lost:
        mine = task_of(step.device)
        more = (
            each
            for task, resources in there.items()
            if task != mine
            for each in similar_queues(step, resources, task)
        )
        step.lookalike.extend(islice(more, MOST))


def _resources(
    cluster: ClusterView, tasks: Sequence[str], session: str, scope: Scope
) -> dict[str, list[pb.ResourceState]]:
    """What those tasks have, as far as they say.  session: others' steps are not asked for."""
    found = {}
    request = pb.InspectRequest(session_handle=session)
    with Scope(LIMITS.task_answers_within_s, scope) as asking:
        asked = {
            task: cluster.worker(task).call(methods.INSPECT_TASK, request, asking) for task in tasks
        }
        for task, reply in asked.items():
            with contextlib.suppress(errors.OpError):
                found[task] = list(reply.wait(asking).task[0].resource)
    scope.check()
    return found


def _add_direct_steps(tasks: Sequence[pb.TaskState]) -> None:
    """Count the steps that clients asked tasks for by themselves, of which masters do not know, as their sessions'."""
    direct: Counter[str] = Counter()
    for task in tasks:
        direct.update(task.direct_steps)
    for task in tasks:
        for session in task.session:
            session.steps += direct[session.handle]


def answer(
    peer: Peer,
    method: methods.Method,
    request: pb.InspectRequest,
    reply: Pending[Any],
    scope: Scope,
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
        return f"has not answered for {LIMITS.task_answers_within_s:g} s"
    return f"does not answer: {error.message}"
