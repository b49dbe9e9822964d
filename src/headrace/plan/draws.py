"""Draws: nodes that take random numbers, and compute elsewhere than on the host or are to be compiled, in two.

What such a node takes of its stream is the host's to say, in every step, and is an instruction of its own; the numbers
are made of that, which is a few words, wherever the node is, alone or in a group.  So they are those that the host
would make, and the next ones follow them wherever those are made.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from headrace.plan.copies import asks_for_shapes
from headrace.plan.devices import array_kernel
from headrace.plan.ir import AHEAD, BRANCH, LOOP, NODE, Instr, Step, instrs
from headrace.plan.nesting import closed
from headrace.run.devices.device import HOST


def draw_ahead(step: Step) -> Step:
    """The pass."""
    told = {value for each in instrs(step.code) if asks_for_shapes(each) for value in each.outputs}
    return _divided(step, told)


def _divided(step: Step, told: AbstractSet[int]) -> Step:
    """told: what is known of shapes before a group begins."""
    if not any(_is_for_two(instr, step, told) for instr in instrs(step.code)):
        return step
    code: list[Instr] = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_divided(body, told) for body in instr.body])
            instr = closed(instr.changed(body=bodies))
        elif _is_for_two(instr, step, told):
            taken = step.values.new(None)
            code.append(
                Instr(
                    instr.op,
                    (),
                    instr.inputs,
                    (taken,),
                    device=instr.device,
                    after=instr.after,
                    what=AHEAD,
                )
            )
            instr = instr.changed(inputs=(*instr.inputs, taken), effects=0)
        code.append(instr)
    return step.with_code(code)


def _is_for_two(instr: Instr, step: Step, told: AbstractSet[int]) -> bool:
    """On the host it is one, unless it may be part of a group: there its kernel may have quicker numbers."""
    spec = instr.op.spec
    if instr.what != NODE or instr.body or instr.kernel is not None:
        return False
    if spec is None or spec.ahead_fn is None or array_kernel(instr.op) is None:
        return False
    if instr.op in step.request.placed:
        return True
    known = all(value in step.values.constants or value in told for value in instr.inputs)
    return step.request.fuses and known and HOST.compiles
