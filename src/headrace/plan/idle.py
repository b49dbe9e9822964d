"""Idle instructions: what does nothing, or only computes what nobody wants, is left out.

A NoOp stands for the nodes that it waits for; once instructions have an order it has nothing to do.  Gradients wait for
each other by such nodes (`tuple`), so some are computed that nobody reads.  Pruning has left them out already of steps
without branches and loops (`plan.prune`); in others that can be told only once these are instructions.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from headrace.base.traits import NEVER_FAILS
from headrace.graph.operation import Operation
from headrace.plan.ir import BRANCH, LOOP, NODE, Instr, Step, instrs
from headrace.plan.nesting import closed


def leave_idle(step: Step) -> Step:
    """The step without them."""
    everything = instrs(step.code) if step.nests else step.code
    awaited = {control for instr in everything for control in instr.controls}
    return _without(step, awaited, step.nests)


def _without(step: Step, awaited: AbstractSet[Operation], unread: bool) -> Step:
    """unread: also without what nobody reads."""
    read = set(step.results)
    code: list[Instr] = []
    for instr in reversed(step.code):
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_without(body, awaited, True) for body in instr.body])
            if any(new is not old for new, old in zip(bodies, instr.body, strict=True)):
                instr = closed(instr.changed(body=bodies))
        elif _does_nothing(instr, awaited) or (unread and _is_unread(instr, read)):
            continue
        read.update(instr.inputs)
        code.append(instr)
    code.reverse()
    same = len(code) == len(step.code) and all(
        new is old for new, old in zip(code, step.code, strict=True)
    )
    return step if same else step.with_code(code)


def _does_nothing(instr: Instr, awaited: AbstractSet[Operation]) -> bool:
    if instr.what != NODE or instr.effects or instr.inputs or instr.outputs:
        return False
    return not instr.body and instr.op not in awaited


def _is_unread(instr: Instr, read: AbstractSet[int]) -> bool:
    """Whether it only computes.  read: what is wanted of all that comes later."""
    op = instr.op
    if instr.what != NODE or instr.effects or instr.body or NEVER_FAILS not in op.traits:
        return False
    if not instr.outputs or any(tensor._dtype._is_ref_dtype for tensor in op.inputs):
        return False
    return read.isdisjoint(instr.outputs)
