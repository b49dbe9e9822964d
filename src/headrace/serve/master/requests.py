"""What the parts of a step are asked, and what they pass on to those that run after them.

Most steps ask by RunPart, which names a partition and lists values in its order; those that are traced, partial, or
involve tasks that forget no step by themselves ask by RunGraph, with names.
Called by: serve.master.step (runs them), serve.master.master_session, serve.master.partials (make them).
Threads: the step's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.run.scope import Scope
from headrace.run.state.variable import Lease
from headrace.serve.connect.cluster_view import ClusterView
from headrace.serve.master.plans import Ask, BoundPlan, Plan
from headrace.serve.rpc import messages as m
from headrace.serve.rpc import methods
from headrace.serve.rpc.brief import part_of
from headrace.serve.rpc.step_channel import LENDS, PLAIN, PlainCaller, StepChannels


class Requests(Protocol):
    """The requests of one step, to all parts of its plan, by one `method`.

    linked: values may pass over the connections on which parts are asked for.
    """

    method: methods.Method
    linked: bool
    plan: Plan
    step_id: int

    def request(self, ask: Ask, passed: Sequence[Any]) -> Any:
        """To one part.  passed: what the stage before it gives to it."""

    def run_here(
        self,
        cluster: ClusterView,
        ask: Ask,
        request: Any,
        scope: Scope,
        channels: StepChannels | None,
    ) -> Any:
        """The reply of the master's own part.  channels: to the parts that run meanwhile."""

    def given(self, ask: Ask, reply: Any) -> list[Any]:
        """What a part gives to the next stage, taken out of its reply; no leases."""


class PartRequests:
    """By RunPart; a reply is the list of the values.  See `Requests`."""

    __slots__ = ("_bound", "_feeds", "_lends", "linked", "plan", "step_id")

    method = methods.RUN_PART

    def __init__(self, bound: BoundPlan, step_id: int, feeds: Sequence[Any], lends: bool) -> None:
        """feeds: of the step, in its order.  lends: values of the own part may be leases."""
        self._bound = bound
        self._feeds = feeds
        self._lends = lends
        self.plan = bound.plan
        self.linked = bound.plan.linked
        self.step_id = step_id

    def request(self, ask: Ask, passed: Sequence[Any]) -> m.RunPartRequest:
        """See `Requests`."""
        fed: list[Any] = []
        if feeds := self._feeds:
            fed += [feeds[place] for place in self._bound.feeds[ask.number]]
        if passed:
            fed += passed
        return part_of((ask.graph_handle, self.step_id, fed, 0))

    def run_here(
        self,
        cluster: ClusterView,
        ask: Ask,
        request: Any,
        scope: Scope,
        channels: StepChannels | None,
    ) -> m.ValuesReply:
        """See `Requests`."""
        caller = LENDS if self._lends else PLAIN
        if channels is not None:
            caller = PlainCaller(self._lends, channels)
        reply: m.ValuesReply = cluster.own_worker.run_part(request, scope, caller)
        return reply

    def given(self, ask: Ask, reply: m.ValuesReply) -> list[Any]:
        """See `Requests`."""
        found = [_own(value) for value in reply[-ask.given :]]
        del reply[-ask.given :]
        return found


class GraphRequests:
    """By RunGraph; a reply has the values by key.  See `Requests`."""

    method = methods.RUN_GRAPH
    linked = False  # nothing passes beside RunGraph

    def __init__(self, plan: Plan, requests: Sequence[m.RunGraphRequest]) -> None:
        """requests: of each part, without what other parts give to it."""
        self.plan = plan
        self.step_id = requests[0].step_id if requests else 0
        self._requests = requests

    def request(self, ask: Ask, passed: Sequence[Any]) -> m.RunGraphRequest:
        """See `Requests`."""
        request = self._requests[ask.number]
        request.send += zip(self.plan.parts[ask.number].taken, passed, strict=True)
        return request

    def run_here(
        self,
        cluster: ClusterView,
        ask: Ask,
        request: Any,
        scope: Scope,
        channels: StepChannels | None,
    ) -> m.RunGraphReply:
        """See `Requests`."""
        reply: m.RunGraphReply = cluster.worker(ask.task).call_now(self.method, request, scope)
        return reply

    def given(self, ask: Ask, reply: m.RunGraphReply) -> list[Any]:
        """See `Requests`."""
        m.forget_values(self._requests[ask.number])
        values = dict(reply.recv)
        found = [_own(values.pop(key)) for key in self.plan.parts[ask.number].given]
        reply.recv = [*values.items()]
        return found


def _own(value: Any) -> Any:
    return value.detach() if value.__class__ is Lease else value
