"""Prune: the nodes that a run needs, in an order in which inputs come first.

Called by: plan.compile, plan.partition.  Threads: any; the graph must not change meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.base import errors
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor

LOOP_BACK = frozenset(("NextIteration", "RefNextIteration"))
_MERGES = frozenset(("Merge", "RefMerge"))


def needed(
    feeds: Iterable[Tensor], fetches: Iterable[Tensor], targets: Iterable[Operation]
) -> list[Operation]:
    """Nodes needed for `fetches` and `targets` when `feeds` are given, inputs before users.

    A fed tensor needs nothing; its node runs only if another output or the node itself is needed.
    Equal requests give equal orders: the order is that of a depth-first walk from the roots.
    """
    fed = set(feeds)
    roots = [tensor.op for tensor in fetches if tensor not in fed]
    roots.extend(targets)
    ordered: list[Operation] = []
    state: dict[Operation, bool] = {}  # False: being walked, True: done
    for root in roots:  # grows: what closes a loop is walked after the loop
        if root in state:
            continue
        stack: list[tuple[Operation, list[Operation]]] = [(root, _sources(root, fed))]
        state[root] = False
        while stack:
            op, sources = stack[-1]
            while sources:
                source = sources.pop()
                if source.type in LOOP_BACK and op.type in _MERGES:
                    roots.append(source)
                    continue
                seen = state.get(source)
                if seen is None:
                    state[source] = False
                    stack.append((source, _sources(source, fed)))
                    break
                if not seen:
                    raise errors.invalid_argument(
                        f"the graph has a cycle through {source.name!r} and {op.name!r}",
                        node=op.name,
                    )
            else:
                stack.pop()
                state[op] = True
                ordered.append(op)
    return ordered


def _sources(op: Operation, fed: set[Tensor]) -> list[Operation]:
    """Nodes that `op` waits for, last first (they are popped from the end)."""
    sources = [tensor.op for tensor in op.inputs if tensor not in fed]
    sources.extend(op.control_inputs)
    sources.reverse()
    return sources
