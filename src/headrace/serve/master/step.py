"""One step of a session on its tasks: every partition at once, and the first failure ends all.

Called by: serve.master.master_session.  Threads: the calling thread runs the master's own partition.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headrace.base import errors
from headrace.base.traits import RECEIVE
from headrace.graph.registry import traits_of
from headrace.plan.relay import Stages
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.variable import Lease, release
from headrace.serve.connect.cluster_view import ClusterView, OutstandingPart
from headrace.serve.master.plans import Ask, BoundPlan
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.gather import Gather
from headrace.serve.rpc.step_channel import LENDS, PLAIN, ChannelCall, PlainCaller, StepChannels
from headrace.serve.rpc.waiting import passed_deadline, patient

_PATIENCE_S = 0.025  # past the deadline, for the tasks to say what they were waiting for
_NONE: list[Any] = []


def run_parts(
    cluster: ClusterView,
    own_task: str,
    parts: Sequence[OutstandingPart],
    method: methods.Method,
    requests: Sequence[Any],
    scope: Scope,
    linked: bool = False,
    lends: bool = False,
) -> list[Any]:
    """The replies of `parts` to their `requests`, of RunGraph or RunPart, in order.

    linked: values may pass over the connections on which parts are asked for.
    lends: values of the own one, if that is asked for by RunPart, may be leases.
    Raises the first error of any of them; of several that ran into the deadline the one that says
    most.
    """
    if not parts:  # everything was fed, or nothing asked for
        return []
    if len(parts) == 1 and scope.deadline is None:
        return [_run_one(cluster, own_task, parts, method, requests[0], scope, lends)]
    step_id = requests[0].step_id
    cluster.outstanding[step_id] = parts, time.monotonic()
    try:
        if linked or any(part.task == own_task for part in parts):
            with Scope(parent=scope) as step:
                return _Step(step, linked, lends).run(cluster, own_task, parts, method, requests)
        return _run_elsewhere(cluster, parts, method, requests, scope)
    finally:
        del cluster.outstanding[step_id]


def _run_elsewhere(
    cluster: ClusterView, parts: Sequence[OutstandingPart], method: methods.Method, requests: Sequence[Any],
    scope: Scope,
) -> list[Any]:  # fmt: skip
    """As `run_parts`, of other tasks' parts between which nothing passes over the connections of their calls."""
    worker = cluster.worker
    with Gather(scope, _PATIENCE_S) as gather:
        try:
            for part, request in zip(parts, requests, strict=True):
                gather.add(worker(part.task).begin(method, request, scope))
            return gather.replies()
        except errors.OpError as error:
            if not passed_deadline(scope):
                raise
            failure = errors.detached(_of_the_late(scope, error, gather.failed))
        raise errors.copied(failure) from failure.__cause__


def _run_one(
    cluster: ClusterView, own_task: str, parts: Sequence[OutstandingPart], method: methods.Method, request: Any,
    scope: Scope, lends: bool,
) -> Any:  # fmt: skip
    """As `run_parts`, the reply of the only part, without a deadline."""
    task = parts[0].task
    if task == own_task:  # which can tell itself what it waits for
        return _run_own(cluster, own_task, method, request, scope, lends, None)
    outstanding, step_id = cluster.outstanding, request.step_id
    outstanding[step_id] = parts, time.monotonic()
    try:
        return cluster.worker(task).call_now(method, request, scope)
    finally:
        del outstanding[step_id]


def _run_own(
    cluster: ClusterView, own_task: str, method: methods.Method, request: Any, scope: Scope,
    lends: bool, channels: StepChannels | None,
) -> Any:  # fmt: skip
    """The reply of the master's own part."""
    if method is not methods.RUN_PART:
        return cluster.worker(own_task).call_now(method, request, scope)
    return cluster.own_worker.run_part(request, scope, PlainCaller(lends, channels))


def relay_parts(
    cluster: ClusterView,
    own_task: str,
    parts: Sequence[OutstandingPart],
    stages: Stages,
    method: methods.Method,
    requests: Sequence[Any],
    pass_on: Callable[[Sequence[int], Sequence[Any], Sequence[int], Sequence[Any]], None],
    scope: Scope,
) -> list[Any]:
    """As `run_parts` by RunGraph, of parts that run in `stages`, by their indices.

    pass_on(before, replies, now, requests): takes the values out of the replies of a stage's parts that the next one's
    requests need.
    """
    replies: list[Any] = [None] * len(parts)
    before: Sequence[int] = ()
    try:
        for now in stages:
            if before:
                pass_on(before, replies, now, requests)
                for index in before:
                    m.forget_values(requests[index])
            if len(now) == 1 and scope.deadline is None:
                (index,) = now
                one = (parts[index],)
                request = requests[index]
                replies[index] = _run_one(cluster, own_task, one, method, request, scope, False)
            else:
                asked = [parts[i] for i in now], method, [requests[i] for i in now]
                found = run_parts(cluster, own_task, *asked, scope)
                for index, reply in zip(now, found, strict=True):
                    replies[index] = reply
            before = now
    except BaseException:
        for reply in replies:
            m.release(reply)
        raise
    return replies


def run_stages(
    cluster: ClusterView,
    own_task: str,
    bound: BoundPlan,
    step_id: int,
    feeds: Sequence[Any],
    lends: bool,
    scope: Scope,
) -> list[list[Any]]:
    """The values of all parts of a plan, by RunPart, one stage after the other.

    lends: values may be leases.
    Most steps are of one part or two that run one after the other, and every instruction of those counts: without a
    deadline they are asked for right here.
    """
    found: list[list[Any]] = [_NONE] * len(bound.plan.parts)
    passed: list[Any] = []
    limited = scope.deadline is not None
    try:
        for alone, stage in bound.stages:
            if alone is None or limited:
                passed = _run_together(
                    cluster, own_task, bound, stage, step_id, feeds, passed, found, lends, scope
                )
                continue
            number, task, handle, own_feeds, _, given, parts = alone
            fed = [feeds[place] for place in own_feeds] if own_feeds else []
            if passed:
                fed += passed
                passed = []
            request = m.RunPartRequest(handle, step_id, fed)
            if task == own_task:  # which can tell itself what it waits for
                caller = LENDS if lends else PLAIN
                values = cluster.own_worker.run_part(request, scope, caller)
            else:
                outstanding = cluster.outstanding
                outstanding[step_id] = parts, time.monotonic()
                try:
                    values = cluster.worker(task).call_now(methods.RUN_PART, request, scope)
                finally:
                    del outstanding[step_id]
            found[number] = values
            if given:
                passed = values[-given:]
                del values[-given:]
                for place, value in enumerate(passed):
                    if value.__class__ is Lease:
                        passed[place] = value.detach()
    except BaseException:
        for values in found:
            release(values)
        raise
    return found


def _run_together(
    cluster: ClusterView, own_task: str, bound: BoundPlan, stage: Sequence[Ask], step_id: int,
    feeds: Sequence[Any], passed: list[Any], found: list[list[Any]], lends: bool, scope: Scope,
) -> list[Any]:  # fmt: skip
    """Run the parts of a stage; what they give to the next one.  passed: what the stage before has given."""
    requests = []
    first = 0
    for ask in stage:
        fed = [feeds[place] for place in ask.feeds] if ask.feeds else []
        if ask.taken:
            last = first + ask.taken
            fed += passed[first:last]
            first = last
        requests.append(m.RunPartRequest(ask.graph_handle, step_id, fed))
    parts, linked = [ask.parts[0] for ask in stage], bound.plan.linked
    replies = run_parts(cluster, own_task, parts, methods.RUN_PART, requests, scope, linked, lends)
    given: list[Any] = []
    for ask, values in zip(stage, replies, strict=True):
        found[ask.number] = values
    for ask, values in zip(stage, replies, strict=True):
        if ask.given:
            count = len(values) - ask.given
            given += [v.detach() if v.__class__ is Lease else v for v in values[count:]]
            del values[count:]
    return given


def _of_the_late(
    scope: Scope, error: errors.OpError, failed: Sequence[errors.OpError]
) -> errors.OpError:
    """What to report of parts that ran into the deadline: the one that says most.  error: what was raised here."""
    late_ones = [  # a task that only knows that it was to stop says Cancelled
        e for e in (error, *failed) if not isinstance(e, errors.CancelledError)
    ]
    told = [e for e in late_ones if e.node and RECEIVE not in traits_of(e.op_type)]
    return (told or late_ones or [scope.deadline_error()])[0]


class _Step:
    def __init__(self, scope: Scope, linked: bool, lends: bool) -> None:
        self._scope = scope
        self._linked = linked
        self._lends = lends
        self._failed: list[errors.OpError] = []
        self._asked: dict[int, Pending[Any]] = {}

    def run(
        self,
        cluster: ClusterView,
        own_task: str,
        parts: Sequence[OutstandingPart],
        method: methods.Method,
        requests: Sequence[Any],
    ) -> list[Any]:
        replies: dict[int, Any] = {}
        own = next((i for i, part in enumerate(parts) if part.task == own_task), None)
        try:
            for index, part in enumerate(parts):
                if index != own:
                    worker = cluster.worker(part.task)
                    self._asked[index] = worker.call(
                        method, requests[index], self._scope, watched=False
                    )
            for pending in self._asked.values():
                pending.on_done(self._note)
            if own is not None:
                self._scope.on_long_wait = self._watch
                channels = self._channels(parts) if self._linked else None
                try:
                    replies[own] = _run_own(
                        cluster, own_task, method, requests[own], self._scope, self._lends, channels
                    )
                finally:
                    if channels is not None:
                        channels.flush()
                        self._leave()
            if len(self._asked) > 1:
                self._watch()
            with patient(self._scope, _PATIENCE_S) as late:
                for index, pending in self._asked.items():
                    replies[index] = pending.wait(late)
        except errors.OpError as error:
            failure = errors.detached(
                self._failure(error)
            )  # which may be `error`, that holds this frame
            raise errors.copied(failure) from failure.__cause__
        except BaseException:  # Ctrl-C in a client of this process
            self._end(errors.cancelled("the step was interrupted"))
            raise
        finally:
            self._scope.on_long_wait = None  # which would hold this, and all that was asked
            if len(replies) < len(parts):
                self._drop(replies.values())
        return [replies[index] for index in range(len(parts))]

    def _channels(self, parts: Sequence[OutstandingPart]) -> StepChannels | None:
        """To the parts that can be reached by one; their replies are read while the own part waits."""
        channels = {
            parts[index].task: call.channel()
            for index, call in self._asked.items()
            if isinstance(call, ChannelCall)
        }
        return StepChannels(channels) if channels else None

    def _leave(self) -> None:
        for call in self._asked.values():
            if isinstance(call, ChannelCall):
                call.leave()

    def _drop(self, replies: Iterable[m.RunGraphReply]) -> None:
        """Nobody will get what some partitions have replied, or will."""
        for reply in replies:
            m.release(reply)
        for pending in self._asked.values():
            pending.on_done(lambda done: m.release(done.result()) if done.error is None else None)

    def _watch(self) -> None:
        """Have replies noticed as they come: one may be the error that ends what the others wait for."""
        for pending in self._asked.values():
            pending.watch()

    def _note(self, reply: Pending[Any]) -> None:
        """A partition has ended; if it failed, so do the others."""
        if reply.error is not None:
            self._failed.append(reply.error)
            if not passed_deadline(self._scope):
                self._scope.cancel(reply.error)

    def _failure(self, error: errors.OpError) -> errors.OpError:
        """End what still runs; the error to report of `error` and what other partitions said."""
        if passed_deadline(self._scope):  # every task finds that out by itself, and says where
            with patient(self._scope, _PATIENCE_S) as late:
                for pending in self._asked.values():
                    with contextlib.suppress(errors.OpError):
                        pending.wait(late)
            for pending in self._asked.values():  # TensorFlow's tasks know of no deadline
                pending.abandon(error)
            return _of_the_late(self._scope, error, self._failed)
        first = self._failed[0] if self._failed else error  # what fails from now on was told to end
        self._end(error)
        return first

    def _end(self, reason: errors.OpError) -> None:
        self._scope.cancel(reason)
        for pending in self._asked.values():
            pending.abandon(reason)
