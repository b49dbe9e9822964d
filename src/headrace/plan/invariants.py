"""Invariants: what has to hold of a step after each pass.  AssertionError says which pass has done what.

Called by: plan.passes, under HEADRACE_CHECK=1.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from headrace.base.traits import CONTROL_FLOW
from headrace.plan.copies import asks_for_shapes
from headrace.plan.devices import gives_here
from headrace.plan.ir import (
    BRANCH,
    COPY,
    FUSED,
    LOAD,
    LOOP,
    NODE,
    POLL,
    RELEASE,
    STEP,
    Instr,
    Step,
    instrs,
)
from headrace.plan.nesting import Loop, Select
from headrace.run.devices.device import Device
from headrace.run.exec.instructions import pass_reference


def check_values(before: Step, after: Step) -> None:
    """Each value is made once, and whatever is wanted is made, fed or known."""
    made = _made(after)
    for instr in instrs(after.code):
        for value in instr.inputs:
            assert value in made, f"{instr.op.name!r} takes value {value}, which nobody makes"
    for value in after.results:
        assert value in made, f"value {value} leaves the step, and nobody makes it"
    assert len(after.results) == len(before.results), "a result is lost"


def check_nested(before: Step, after: Step) -> None:
    """No Switch and no frame is left, and a branch or a loop waits if anything in it does."""
    check_values(before, after)
    for instr in instrs(after.code):
        flows = instr.what == NODE and CONTROL_FLOW in instr.op.traits
        assert not flows, f"{instr.op.name!r} is left of a branch or loop"
    for instr in after.code:
        if instr.what in (BRANCH, LOOP) and instr.waiter < 0:
            for inner in instrs([instr]):
                assert inner.waiter < 0, f"{inner.op.name!r} may wait in what does not"


def check_groups(before: Step, after: Step) -> None:
    """Nodes in groups run there and nowhere else, and nobody else wants what stays in them."""
    check_values(before, after)
    alone = {instr.op for instr in instrs(after.code) if instr.what == NODE and not instr.body}
    for instr in instrs(after.code):
        if instr.body and instr.what not in (BRANCH, LOOP, "shapes"):
            (body,) = instr.body
            inside = {member.op for member in body.code if member.nodes}
            assert inside.isdisjoint(alone), f"a node of {instr.op.name!r} runs twice"
            assert len(body.args) == len(instr.inputs), f"{instr.op.name!r} has other inputs inside"


def check_loaded(before: Step, after: Step) -> None:
    """No node gets a reference that it does not take."""
    check_values(before, after)
    references = after.values.references
    for instr in instrs(after.code):
        if instr.body and instr.what not in (BRANCH, LOOP):
            for place, value in enumerate(instr.inputs):
                taken = value not in references or place in instr.refers
                assert taken, f"{instr.op.name!r} gets a reference unasked"


def check_copies(before: Step, after: Step) -> None:
    """No instruction but copies takes what is on another device than its own."""
    check_values(before, after)
    where: dict[int, object] = {}
    known = after.values.constants
    loops: list[Loop] = []
    for instr in instrs(after.code):
        detail = instr.detail
        if instr.what == LOOP:
            loops.append(detail)
            where.update(
                (variable, where.get(start))
                for variable, start in zip(detail.variables, detail.starts, strict=True)
            )
        elif isinstance(detail, Select):
            ways = {where.get(value) for value in instr.inputs[1:] if value not in known}
            assert len(ways) < 2, f"the ways of {instr.op.name!r} are on two devices"
            where[instr.outputs[0]] = next(iter(ways), None)
        elif instr.what == COPY:
            where[instr.outputs[0]] = detail
        elif instr.what != BRANCH:
            _check_taken(instr, after, where)
    for loop in loops:
        for variable, following in zip(loop.variables, loop.nexts, strict=True):
            places = {where.get(variable), where.get(following)}
            places.discard(None)  # of constants nobody knows
            assert len(places) < 2, f"value {following} is not where value {variable} was"


def _check_taken(instr: Instr, step: Step, where: dict[int, object]) -> None:
    if asks_for_shapes(instr):
        return
    computes = instr.what in (NODE, FUSED) and instr.kernel is not pass_reference
    here = step.request.placed.get(instr.op) if computes else None
    if instr.what == LOAD:  # of what is read on a device
        here = instr.detail
    for place, value in enumerate(instr.outputs):
        is_here = isinstance(here, Device) and gives_here(instr, place, here)
        where[value] = None if is_here else here
    for value in instr.inputs:
        there = where.get(value)
        assert there is None or there is here, f"{instr.op.name!r} takes what is elsewhere"


def check_order(before: Step, after: Step) -> None:
    """Inputs are made before they are used, and by what the user comes after."""
    check_values(before, after)
    comes_after: dict[int, frozenset[int]] = {}
    made = {STEP, *range(1, after.values.num_args + 1), *after.values.constants}
    for instr in after.code:
        for value in instr.inputs:
            assert value in made, f"{instr.op.name!r} stands before what it takes"
            missing = comes_after.get(value, frozenset()) - instr.after
            assert not missing, f"{instr.op.name!r} does not wait for {missing}"
        here = instr.after | ({instr.waiter} if instr.waiter >= 0 else set())
        comes_after.update(dict.fromkeys(instr.outputs, here))
        made.update(instr.outputs)
    others = [instr for instr in after.code if instr.what != POLL]
    assert len(others) == len([instr for instr in before.code if instr.what != POLL])


def check_kernels(before: Step, after: Step) -> None:
    """Every node has a kernel."""
    for instr in instrs(after.code):
        if instr.what in (NODE, LOAD, POLL):
            assert instr.kernel is not None, f"{instr.op.name!r} has no kernel"


def check_registers(before: Step, after: Step) -> None:
    """Whoever reads a register finds the value that it wants there; nothing is read that has been let go of."""
    assert [i for i in after.code if i.what != RELEASE] == before.code, "an instruction is lost"
    holds: dict[int, int] = {n: n for n in range(before.values.num_args + 1)}
    for register, content in enumerate(after.template):
        assert content is None or register > before.values.num_args
    _follow(after.code, holds, after)
    for value in after.results:
        _expect(holds, value, after, "the end of the step")


def _follow(code: Iterable[Instr], holds: dict[int, int], step: Step) -> None:
    """holds: the value in each register, of those that have one."""
    registers = step.registers
    for instr in code:
        if instr.what == RELEASE:
            for value in instr.outputs:
                del holds[registers[value]]
            continue
        if instr.what in (BRANCH, LOOP):
            detail = instr.detail
            if isinstance(detail, Loop):
                holds.update((registers[value], value) for value in detail.variables)
            for body in instr.body:
                _follow(body.code, holds, step)
            continue
        for value in instr.inputs:
            _expect(holds, value, step, repr(instr.op.name))
        holds.update((registers[value], value) for value in instr.outputs)


def _expect(holds: dict[int, int], value: int, step: Step, who: str) -> None:
    register, known = step.registers[value], step.values.constants.get(value)
    if register in holds or known is None:
        found = holds.get(register)
        assert found == value, f"{who} wants value {value}, and register {register} has {found}"
        return
    there = step.template[register]
    assert there is known or np.shape(there) == np.shape(known), f"{who} finds no constant {value}"


def _made(step: Step) -> set[int]:
    made = {STEP, *range(1, step.values.num_args + 1), *step.values.constants}
    for instr in instrs(step.code):
        if instr.what in (BRANCH, LOOP):
            if isinstance(instr.detail, Loop):
                made.update(instr.detail.variables)
            continue
        for value in instr.outputs:
            twice = value in made and value not in step.values.constants
            assert not twice, f"{instr.op.name!r} makes value {value}, which was there before"
            made.add(value)
    return made
