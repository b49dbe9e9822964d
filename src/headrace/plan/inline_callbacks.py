"""Which nodes may keep a step's thread: those during which nothing else of the step could begin or end.

A node that runs a user's function is called in the step's own thread if every node that may wait comes before it or
after it; otherwise in one of its own (`run.exec.callback_threads`), because two such nodes may wait for each other.
Called by: plan.compile, plan.compile_dataflow.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.base.traits import CALLS_USER, MAY_WAIT
from headrace.graph.graph import Operation


def inline_callbacks(
    ops: Sequence[Operation], controls: Mapping[Operation, Sequence[Operation]]
) -> set[Operation]:
    """Those of `ops` (a whole program, inputs before users) that run a user's function and may keep the thread."""
    waiting = [op for op in ops if MAY_WAIT in op.traits]
    users = [op for op in waiting if CALLS_USER in op.traits]
    if not users:
        return set()
    number = {op: at for at, op in enumerate(waiting)}
    before: dict[Operation, int] = {}  # of each node, the waiting ones that it needs, as bits
    for op in ops:
        needs = 0
        for source in (*(t.op for t in op.inputs), *controls.get(op, ())):
            needs |= before.get(source, 0)
            if source in number:
                needs |= 1 << number[source]
        before[op] = needs
    after = {
        op: sum(1 << number[other] for other in waiting if before[other] >> number[op] & 1)
        for op in users
    }
    everything = (1 << len(waiting)) - 1
    return {op for op in users if before[op] | after[op] | 1 << number[op] == everything}
