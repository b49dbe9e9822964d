"""Relay: two partitions, one of which only makes what the other begins with, need not talk to each other.

Their master asks for the values of the first and feeds them to the second, which is its own.  That loses nothing
where no node of the second has anything to do before they are there, and spares both a rendezvous.
Called by: serve.planner.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.codec import protos as pb
from headrace.graph import registry
from headrace.plan.partition import Partition
from headrace.run.keys import key

_AT_ONCE = frozenset(
    ("Const", "Identity", "NoOp", "ReadVariableOp", "VarHandleOp", "Variable", "VariableV2")
)
"""What takes no time and waits for nothing, so that it may as well be done later."""


def relay(parts: Sequence[Partition], own_task: str) -> tuple[int, int] | None:
    """(index of the first, index of the second, `own_task`'s) if the values of one can be relayed to the other.

    Then what they send and receive has become fetches and feeds; `relayed` of both has the keys, in one order.
    """
    if len(parts) != 2 or own_task not in (parts[0].task, parts[1].task):
        return None
    second = int(parts[1].task == own_task)
    maker, user = parts[1 - second], parts[second]
    if not maker.sends or maker.receives or user.sends or maker.sends != user.receives:
        return None
    if not _begins_with_receives(user.graph_def) or _may_wait(maker.graph_def):
        return None
    keys = sorted(maker.sends)
    for part in parts:
        part.relayed = keys
        for node in part.graph_def.node:
            if node.op in ("_Send", "_Recv") and _key(node) in maker.sends:
                node.attr["client_terminated"].b = True
    return 1 - second, second


def _may_wait(graph: pb.GraphDef) -> bool:
    """Whether a node may wait for others: then what does not need it must not wait for its part's reply."""
    return any(
        (spec := registry.OPS.get(node.op)) is None or spec.blocking
        for node in graph.node
        if node.op != "_Recv"  # of a feed
    )


def _begins_with_receives(graph: pb.GraphDef) -> bool:
    """Whether everything that takes time depends on a receive."""
    after: dict[str, bool] = {}
    for node in graph.node:
        found = node.op == "_Recv" and not node.attr["client_terminated"].b
        for name in node.input:
            source = name.lstrip("^").partition(":")[0]
            if source not in after:
                return False
            found = found or after[source]
        after[node.name] = found
        fed_or_fetched = node.op in ("_Recv", "_Send")
        if not found and not fed_or_fetched and node.op not in _AT_ONCE:
            return False
    return True


def _key(node: pb.NodeDef) -> str:
    attr = node.attr
    return key(
        attr["send_device"].s.decode(), attr["send_device_incarnation"].i, attr["recv_device"].s.decode(),
        attr["tensor_name"].s.decode(),
    )  # fmt: skip
