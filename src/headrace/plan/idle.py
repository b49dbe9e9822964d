"""Idle instructions: what does nothing, or only computes what nobody wants, is left out.

A NoOp stands for the nodes that it waits for; once instructions have an order it has nothing to do.  Gradients wait for
each other by such nodes (`tuple`), so some are computed that nobody reads.  Pruning has left them out already of steps
without branches and loops (`plan.prune`); in others that can be told only once these are instructions.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from headrace.base.traits import NEVER_FAILS
from headrace.plan.ir import BRANCH, LOOP, NODE, Instr, Step
from headrace.plan.nesting import closed


def leave_idle(step: Step) -> Step:
    """The step without them."""
    idle = [instr for instr in step.everything if not instr.outputs and _does_nothing(instr)]
    if not idle and not step.nests:
        return step
    if idle:
        awaited = {control for instr in step.everything for control in instr.controls}
        idle = [instr for instr in idle if instr.op not in awaited]
    return _without(step, {*idle}, step.nests)


def _does_nothing(instr: Instr) -> bool:
    return not (instr.outputs or instr.inputs or instr.effects or instr.what != NODE or instr.body)


def _without(step: Step, idle: AbstractSet[Instr], unread: bool) -> Step:
    """unread: also without what nobody reads."""
    read = set(step.results)
    code: list[Instr] = []
    changed = False
    for instr in reversed(step.code):
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_without(body, idle, True) for body in instr.body])
            if any(new is not old for new, old in zip(bodies, instr.body, strict=True)):
                instr, changed = closed(instr.changed(body=bodies)), True
        elif instr in idle or (unread and _is_unread(instr, read)):
            changed = True
            continue
        if unread:
            read.update(instr.inputs)
        code.append(instr)
    return step.with_code(code[::-1]) if changed else step


def _is_unread(instr: Instr, read: AbstractSet[int]) -> bool:
    """Whether it only computes.  read: what is wanted of all that comes later."""
    op = instr.op
    if instr.what != NODE or instr.effects or instr.body or NEVER_FAILS not in op.traits:
        return False
    if not instr.outputs or any(tensor._dtype._is_ref_dtype for tensor in op.inputs):
        return False
    return read.isdisjoint(instr.outputs)
