"""Restores of several tasks: nothing is restored anywhere before every task has checked all that it reads.

A step may restore from several files, on several tasks.  What is read of one is assigned only when all of them were
read and found sound: to wait for the others costs an empty message from each task to each other one.
Called by: client.local, serve.master.planner.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.base.traits import CHECKPOINT, CONTROL_FLOW, UPDATES
from headrace.graph.graph import Operation
from headrace.graph.operation import traits_among
from headrace.plan.prune import Pruned


def check_before_assigning(pruned: Pruned) -> Pruned:
    """With edges from all nodes that restore to all updates that come of one of them.

    Without branches and loops only, and where no node that restores comes after such an update: who says so wants it.
    """
    if CHECKPOINT not in traits_among(pruned.ops):
        return pruned
    readers = [op for op in pruned.ops if CHECKPOINT in op.traits and _reads(op)]
    if len(readers) < 2 or any(CONTROL_FLOW in op.traits for op in pruned.ops):
        return pruned
    after = _after(pruned, readers)
    updates = [op for op in pruned.ops if UPDATES in op.traits and after[op]]
    changed = {*updates}
    ahead: set[Operation] = set()  # what the readers wait for, and they themselves
    waiting = list(readers)
    while waiting:
        op = waiting.pop()
        if op in changed:
            return pruned
        if op not in ahead:
            ahead.add(op)
            waiting.extend(_sources(op, pruned))
    controls = dict(pruned.controls)
    for op in updates:
        controls[op] = [*controls[op], *[each for each in readers if each not in after[op]]]
    ops = [op for op in pruned.ops if op in ahead]
    ops += [op for op in pruned.ops if op not in ahead]
    return Pruned(ops, controls)


def _reads(op: Operation) -> bool:
    return op.spec is not None and op.spec.unread_fn is not None


def _after(pruned: Pruned, readers: Sequence[Operation]) -> dict[Operation, frozenset[Operation]]:
    """The nodes that restore that each node comes after."""
    found: dict[Operation, frozenset[Operation]] = {}
    every = {*readers}
    nothing: frozenset[Operation] = frozenset()
    for op in pruned.ops:
        before = nothing.union(*[found.get(each, nothing) for each in _sources(op, pruned)])
        found[op] = before | {op} if op in every else before
    return found


def _sources(op: Operation, pruned: Pruned) -> list[Operation]:
    inputs = [tensor.op for tensor in op.inputs if tensor.op in pruned.controls]
    return [*inputs, *pruned.controls[op]]
