"""One step of a session on its tasks: stage by stage, the parts of one all at once, and the first failure ends all.

Called by: serve.master.master_session.  Threads: the calling thread runs the master's own part.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.master.plans import Ask
from headrace.serve.master.requests import Requests
from headrace.serve.rpc import messages as m
from headrace.serve.rpc.gather import Gather, says_most
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.rpc.step_channel import ChannelCall, StepChannels
from headrace.serve.rpc.waiting import passed_deadline


def run_stages(cluster: ClusterView, own_task: str, requests: Requests, scope: Scope) -> list[Any]:
    """The replies of all parts of a plan, in order; what they give each other has been taken out.

    Raises the first error of any of them; of several that ran into the deadline the one that says most.
    Most steps are of one part, or of two that run one after the other, and every instruction of those counts: without
    a deadline, which the task would keep and may be late to say so, they are asked for right here.
    """
    replies: list[Any] = [None] * len(requests.plan.parts)
    passed: list[Any] = []
    limited = scope.deadline is not None
    try:
        for alone, stage in requests.plan.asks:
            if alone is not None and not limited:
                request = requests.request(alone, passed)
                if alone.task == own_task:  # which can tell itself what it waits for
                    reply = requests.run_here(cluster, alone, request, scope, None)
                else:
                    outstanding = cluster.outstanding
                    outstanding[requests.step_id] = alone.parts, time.monotonic()
                    try:
                        peer = cluster.worker(alone.task)
                        reply = peer.call_now(requests.method, request, scope)
                    finally:
                        del outstanding[requests.step_id]
                replies[alone.number] = reply
            else:
                found = _run_together(cluster, own_task, stage, requests, passed, scope)
                for ask, reply in zip(stage, found, strict=True):
                    replies[ask.number] = reply
            passed = []
            for ask in stage:
                if ask.given:
                    passed += requests.given(ask, replies[ask.number])
    except BaseException:
        for reply in replies:
            m.release(reply)
        raise
    return replies


def _run_together(
    cluster: ClusterView,
    own_task: str,
    stage: Sequence[Ask],
    requests: Requests,
    passed: Sequence[Any],
    scope: Scope,
) -> list[Any]:
    """The replies of the parts of a stage.  passed: what the stage before has given."""
    asked = []
    first = 0
    for ask in stage:
        last = first + ask.taken
        asked.append((ask, requests.request(ask, passed[first:last])))
        first = last
    own = next((place for place, ask in enumerate(stage) if ask.task == own_task), None)
    cluster.outstanding[requests.step_id] = [ask.parts[0] for ask in stage], time.monotonic()
    try:
        if own is None:
            return _gathered(cluster, asked, None, requests, scope)
        with Scope(parent=scope) as step:
            return _gathered(cluster, asked, own, requests, step)
    finally:
        del cluster.outstanding[requests.step_id]


def _gathered(
    cluster: ClusterView,
    asked: list[tuple[Ask, Any]],
    own: int | None,
    requests: Requests,
    scope: Scope,
) -> list[Any]:
    """The replies to what is asked.  own: the place of the master's own part, whose `scope` ends with any failure."""
    with Gather(scope, LIMITS.step_patience_s, ends_scope=own is not None) as gather:
        try:
            if own is not None:
                return _beside_own(gather, cluster, asked, own, requests, scope)
            for ask, request in asked:
                gather.add(cluster.worker(ask.task).begin(requests.method, request, scope))
            return gather.replies()
        except errors.OpError as error:
            if not passed_deadline(scope):
                raise
            failure = errors.detached(says_most(scope, error, gather.failed))
        raise errors.copied(failure) from failure.__cause__


def _beside_own(
    gather: Gather,
    cluster: ClusterView,
    asked: list[tuple[Ask, Any]],
    own: int,
    requests: Requests,
    scope: Scope,
) -> list[Any]:
    """As `_gathered`, where this thread runs a part itself before it reads the others' replies."""
    ask, own_request = asked.pop(own)
    calls: dict[str, Pending[Any]] = {}
    for other, request in asked:
        peer = cluster.worker(other.task)
        calls[other.task] = peer.call(requests.method, request, scope, watched=False)
        gather.add(calls[other.task])
    scope.on_long_wait = gather.watch
    channels = _channels(calls) if requests.linked else None
    try:
        gather.add_done(requests.run_here(cluster, ask, own_request, scope, channels))
    except errors.OpError as error:
        gather.fail(errors.detached(error))
    finally:
        scope.on_long_wait = None  # which would hold all that was asked
        if channels is not None:
            channels.flush()
            for call in calls.values():
                if isinstance(call, ChannelCall):
                    call.leave()
    if len(calls) > 1:
        gather.watch()
    replies = gather.replies()
    replies.insert(own, replies.pop())
    return replies


def _channels(calls: dict[str, Pending[Any]]) -> StepChannels | None:
    """To the tasks that can be reached by one; their replies are read while the own part waits."""
    channels = {
        task: call.channel() for task, call in calls.items() if isinstance(call, ChannelCall)
    }
    return StepChannels(channels) if channels else None
