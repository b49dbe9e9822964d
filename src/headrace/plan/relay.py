"""Relay: two partitions, one of which only makes what the other begins with, need not talk to each other.

Their master asks for the values of the first and feeds them to the second, which is its own.  That loses nothing
where no node of the second has anything to do before they are there, and spares both a rendezvous.
So they do where a step begins and ends with other tasks (`plan.round_trip`), and where it waits for a token then
(`plan.in_step`).
Called by: serve.master.planner.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.base.traits import AT_ONCE, MAY_WAIT, RECEIVE, SEND
from headrace.codec import protos as pb
from headrace.graph import registry
from headrace.graph.registry import traits_of
from headrace.plan.in_step import in_step
from headrace.plan.partition import Partition
from headrace.plan.round_trip import end_at_master, round_trip

Stages = Sequence[Sequence[int]]
"""Indices of the partitions that run together, one such group after the other."""


def relay(parts: Sequence[Partition], own_task: str) -> tuple[Sequence[Partition], Stages] | None:
    """The partitions to run, and in which order, if the master can pass on what they would send each other.

    Then what they send and receive has become fetches and feeds, whose keys are in `given` and `taken`: those of all of
    a stage's partitions are those of the next one's, in order.
    """
    stages = _one_after_the_other(parts, own_task)
    if stages is not None:
        return parts, stages
    return round_trip(parts, own_task) or in_step(parts, own_task)


def _one_after_the_other(parts: Sequence[Partition], own_task: str) -> Stages | None:
    """The two, if the values of one are all that the other, `own_task`'s, begins with."""
    if len(parts) != 2 or own_task not in (parts[0].task, parts[1].task):
        return None
    second = int(parts[1].task == own_task)
    maker, user = parts[1 - second], parts[second]
    if not maker.sends or maker.receives or user.sends or maker.sends != user.receives:
        return None
    if not _begins_with_receives(user.graph_def) or _may_wait(maker.graph_def):
        return None
    maker.given = user.taken = sorted(maker.sends)
    for part in parts:
        end_at_master(part.graph_def, maker.sends)
    return [[1 - second], [second]]


def _may_wait(graph: pb.GraphDef) -> bool:
    """Whether a node may wait for others: then what does not need it must not wait for its part's reply."""
    return any(
        MAY_WAIT in traits_of(node.op) or node.op not in registry.OPS
        for node in graph.node
        if RECEIVE not in traits_of(node.op)  # of a feed
    )


def _begins_with_receives(graph: pb.GraphDef) -> bool:
    """Whether everything that takes time depends on a receive."""
    after: dict[str, bool] = {}
    for node in graph.node:
        traits = traits_of(node.op)
        found = RECEIVE in traits and not node.attr["client_terminated"].b
        for name in node.input:
            source = name.lstrip("^").partition(":")[0]
            if source not in after:
                return False
            found = found or after[source]
        after[node.name] = found
        if not found and traits.isdisjoint((SEND, RECEIVE, AT_ONCE)):
            return False
    return True
