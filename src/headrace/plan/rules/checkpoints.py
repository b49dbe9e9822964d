"""Checkpoints: what is restored is read where it shall be, and what is saved is of one moment.

A value that goes from a file to one variable and nowhere else is checked first, as all of its node are, and then read
into the variable's own memory: no second copy of the variables is ever there.  Who saves resource variables takes
their handles instead of what was read of each, and looks at all of them, reference variables included, at once.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from headrace.base import dtypes
from headrace.base.traits import (
    CHECKPOINT,
    IDENTITY,
    READS_VARIABLE,
    TAKES_REFS,
    UPDATES,
    VAR_HANDLE,
)
from headrace.plan.ir import Facts, Instr, Step

# -- restoring ------------------------------------------------------------------------------------


def leave_unread(step: Step) -> Step:
    """Values that only an assignment wants stay in their file until it takes them."""
    found: dict[Instr, Instr] = {}
    for instr in step.code:
        if CHECKPOINT in instr.op.traits and _can_leave(instr):
            takers = [_taker(value, step.facts) for value in instr.outputs]
            if any(takers):
                left = tuple(taker is not None for taker in takers)
                found[instr] = instr.changed(detail={"unread": left})
                found.update({taker: taker.changed(detail={}) for taker in takers if taker})
    return step.with_code([found.get(instr, instr) for instr in step.code]) if found else step


def _can_leave(instr: Instr) -> bool:
    spec = instr.op.spec
    return spec is not None and spec.unread_fn is not None and not instr.body


def _taker(value: int, facts: Facts) -> Instr | None:
    """The assignment that is the only one that wants a value of numbers, if it can read it."""
    users = facts.uses(value)
    if len(users) != 1 or value in facts.results:
        return None
    (taker,) = users
    if UPDATES not in taker.op.traits or not _can_leave(taker):
        return None
    return None if facts.values.tensor(value)._dtype._base is dtypes.string else taker


# -- saving ---------------------------------------------------------------------------------------


def save_at_once(step: Step) -> Step:
    """Savers take variables behind handles themselves, if nothing before them in the step changes any."""
    found: dict[Instr, Instr] = {}
    for instr in step.code:
        if CHECKPOINT in instr.op.traits and TAKES_REFS in instr.op.traits and not instr.body:
            reads = [_read(value, step.facts) for value in instr.inputs]
            if any(reads) and _is_later_the_same(reads, instr, step):
                inputs = [
                    value if read is None else read.inputs[0]
                    for value, read in zip(instr.inputs, reads, strict=True)
                ]
                found[instr] = instr.changed(inputs=tuple(inputs))
    if not found:
        return step
    return _without_unused(step.with_code([found.get(instr, instr) for instr in step.code]))


def _read(value: int, facts: Facts) -> Instr | None:
    """The instruction that gives it, of those that read a variable behind a handle."""
    maker = facts.maker(value)
    while maker is not None and IDENTITY in maker.op.traits and not maker.controls:
        maker = facts.maker(maker.inputs[0])
    if maker is None or READS_VARIABLE not in maker.op.traits or maker.body:
        return None
    handle = facts.maker(maker.inputs[0])
    return maker if handle is not None and VAR_HANDLE in handle.op.traits else None


def _is_later_the_same(reads: list[Instr | None], saver: Instr, step: Step) -> bool:
    """Whether nothing of this step between the first of the reads and the saver may change a variable that is read."""
    facts = step.facts
    found = [read for read in reads if read is not None]
    variables = {_variable(read.inputs[0], facts) for read in found}
    first = min(facts.place[read] for read in found)
    between = step.code[first : facts.place[saver]]
    return not any(_changes(instr, variables, facts) for instr in between)


def _variable(handle: int, facts: Facts) -> str | None:
    """What the variable behind a handle is called; None if the step does not say."""
    maker = facts.maker(handle)
    if maker is None or VAR_HANDLE not in maker.op.traits:
        return None
    shared = maker.op.attrs["shared_name"]
    return shared.decode(errors="surrogateescape") or maker.op.name


def _changes(instr: Instr, variables: AbstractSet[str | None], facts: Facts) -> bool:
    traits = instr.op.traits
    if READS_VARIABLE in traits or CHECKPOINT in traits:
        return False
    if instr.body:
        return True
    handles = [
        value
        for value in instr.inputs
        if facts.values.tensor(value)._dtype._base is dtypes.resource
    ]
    return any(_variable(handle, facts) in {None, *variables} for handle in handles)


def _without_unused(step: Step) -> Step:
    """Without reads that nobody wants any more; traced steps list every node."""
    if not step.request.optimize:
        return step
    facts = step.facts
    gone = {
        instr
        for instr in step.code
        if READS_VARIABLE in instr.op.traits
        and not facts.uses(instr.outputs[0])
        and instr.outputs[0] not in facts.results
    }
    return step.with_code([instr for instr in step.code if instr not in gone])
