"""What the names of a step stand for in the graph of its session, and which of its nodes need not run.

Called by: serve.master.planner.  Threads: any; the graph must not grow meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.base import errors
from headrace.base.traits import NEVER_FAILS
from headrace.graph.graph import Graph, Operation
from headrace.graph.tensor import Tensor
from headrace.plan.prune import Pruned
from headrace.plan.wanted import Wanted, wanted
from headrace.run.exec.keys import task_of
from headrace.serve.master.plans import Signature


def wanted_of(graph: Graph, signature: Signature) -> Wanted:
    """What a signature runs.  Raises NotFound, InvalidArgument, Unimplemented."""
    feed_names, fetch_names, target_names, exact = signature
    feeds = [tensor_of(graph, name) for name in feed_names]
    fetches = [tensor_of(graph, name) for name in fetch_names]
    targets = [operation_of(graph, name) for name in target_names]
    return wanted(feeds, fetches, targets, exact=exact)


def tensor_of(graph: Graph, name: str) -> Tensor:
    """The tensor of that name.  Raises NotFound, InvalidArgument (it has no such output)."""
    node, _, index = name.partition(":")
    op = operation_of(graph, node)
    position = int(index or 0) if (index or "0").isdigit() else -1
    if not 0 <= position < len(op.outputs):
        raise errors.invalid_argument(
            f"tensor {name!r} does not exist: node {node!r} ({op.type}) has {len(op.outputs)} outputs",
            node=node,
            op_type=op.type,
        )
    return op.outputs[position]


def operation_of(graph: Graph, name: str) -> Operation:
    """The node of that name.  Raises NotFound."""
    op = graph._ops.get(name)
    if op is None:
        raise errors.not_found(
            f"the session's graph has no node {name!r}; was it extended?", node=name
        )
    return op


def without_meeting_points(pruned: Pruned, devices: Mapping[Operation, str]) -> Pruned:
    """Without nodes that only wait for nodes on several tasks, and that nothing waits for: a step ends when all have.

    An initializer of variables is one; else every task would have to tell its task that it has done its part.
    """
    awaited = {before for controls in pruned.controls.values() for before in controls}
    meeting = {
        op
        for op in pruned.ops
        if not (op.inputs or op.outputs)
        and NEVER_FAILS in op.traits
        and op not in awaited
        and len({task_of(devices[each]) for each in (op, *pruned.controls[op])}) > 1
    }
    if not meeting:
        return pruned
    left = [op for op in pruned.ops if op not in meeting]
    return Pruned(left, {op: pruned.controls[op] for op in left})
