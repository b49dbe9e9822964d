"""Reading: a read of a variable that may not be initialized is one instruction, and no branch.

A step that has no other branches has none then, and all passes are for it.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.base.traits import CONTROL_FLOW, MERGE
from headrace.graph.graph import Operation
from headrace.plan.initialized_reads import ASKS, reads_in
from headrace.plan.ir import Instr, Step

READ: Final = "initialized read"


def read_initialized(step: Step) -> Step:
    """The step with such reads as one instruction each, where their Merge stood, if it has no other branches."""
    if not step.nests or ASKS not in step.by_type:
        return step
    instrs = {instr.op: instr for instr in step.code}
    results = step.facts.results
    wanted = [
        instr.op
        for instr in step.code
        if not results.isdisjoint(instr.outputs) and MERGE not in instr.op.traits
    ]
    made: dict[Operation, Instr] = {}
    gone: set[Operation] = set()
    for members in reads_in(instrs.keys(), wanted):
        found = [instrs[op] for op in members]
        if _is_as_built(found, instrs) and not _is_counted(found[-1], step):
            made[members[-1]] = _instruction(found)
            gone.update(members)
    code = [made.get(each.op, each) for each in step.code if each.op in made or each.op not in gone]
    if any(each.what != READ and CONTROL_FLOW in each.op.traits for each in code):
        return step  # other branches, which `plan.nesting` finds in the graph
    after = step.with_code(code)
    after.nests = False
    return after


def _is_as_built(members: list[Instr], instrs: Mapping[Operation, Instr]) -> bool:
    """Whether nothing is fed in the place of what passes between them."""
    inside = {member.op for member in members}
    return all(
        value in instrs[tensor.op].outputs
        for member in members
        for tensor, value in zip(member.op.inputs, member.inputs, strict=True)
        if tensor.op in inside
    )


def _is_counted(merge: Instr, step: Step) -> bool:
    """Whether somebody asks which of the two it gave."""
    index = merge.outputs[1]
    return index in step.facts.results or bool(step.facts.uses(index))


def _instruction(members: list[Instr]) -> Instr:
    default, variable, _, merge = members[-4:]
    return Instr(
        merge.op,
        [op for member in members for op in member.nodes],
        (default.inputs[0], variable.inputs[0]),
        merge.outputs[:1],
        max(member.effects for member in members),
        merge.device,
        (),
        merge.after,
        what=READ,
        kernel=_initialized_or,
        refers=frozenset((1,)),
    )


def _initialized_or(default: Any, variable: Any) -> Any:
    """What the Merge gives: the variable itself, or the default."""
    return default if variable.held() is None else variable
