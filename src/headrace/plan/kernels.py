"""Kernels: what each instruction calls.

A node's kernel is bound to its attrs; where it wants a KernelContext, or is its task's resource, it takes the step
first.  That of a group is made by its rule.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from headrace.base import errors
from headrace.base.traits import HANDLE, KEEPS_INPUTS, STAGES, STORES
from headrace.plan import check
from headrace.plan.binding import bound_kernel, bound_unread
from headrace.plan.devices import kernel_on
from headrace.plan.infos import Infos
from headrace.plan.ir import AHEAD, BRANCH, LOAD, LOOP, NODE, POLL, STEP, Facts, Instr, Step
from headrace.plan.registers import is_fresh
from headrace.plan.rules.group import Group
from headrace.plan.rules.table import OF_BLOCKS
from headrace.plan.staged import putting, storing
from headrace.run.devices.memory import naming
from headrace.run.exec import instructions as does


def bind(step: Step) -> Step:
    """Every instruction has its kernel, but for branches, loops and what looks at registers itself."""
    infos, facts = step.request.infos, step.facts
    _bind_all(step, facts, infos)
    return step


def _bind_all(step: Step, facts: Facts, infos: Infos) -> None:
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            for body in instr.body:
                _bind_all(body, body.facts, infos)
        elif instr.body:
            instr.kernel = instr.detail(Group(instr, step, infos))
            instr.inputs = (STEP, *instr.inputs)
        elif instr.what == POLL:
            instr.kernel = does.poll(infos(instr.op))
        elif instr.what == AHEAD:
            _bind_ahead(instr, infos)
        elif instr.kernel is None and instr.what == NODE:
            _bind(instr, facts, infos)


def _bind(instr: Instr, facts: Facts, infos: Infos) -> None:
    op, spec = instr.op, instr.op.spec
    if spec is None or spec.kernel is None:
        raise errors.unimplemented(
            f"node {op.name!r}: headrace has no kernel for op {op.type}",
            node=op.name,
            op_type=op.type,
            built_at=op.built_at,
        )
    device = facts.step.request.placed.get(op)
    if device is not None and STORES in spec.traits:
        kernel = naming(f"{op.type} {op.name!r}", device, storing(op, device))
        if spec.takes_ctx:
            kernel = does.in_context(kernel, infos(op), len(instr.inputs))
            instr.inputs = (STEP, *instr.inputs)
        instr.kernel = kernel
        return
    if device is not None and STAGES not in spec.traits:
        instr.kernel = kernel_on(op, device)
        return
    kernel = bound_kernel(op, spec)
    if device is not None:
        kernel = putting(op, device, kernel)
    if instr.waiter >= 0:
        if spec.prompt_fn is not None:
            kernel = spec.prompt_fn(op.attrs, _kept_by(instr, facts))
    elif HANDLE in spec.traits and not op.inputs:
        instr.kernel, instr.inputs = does.handle(kernel, infos(op)), (STEP,)
        return
    else:
        if spec.knowing_fn is not None:
            constants = facts.values.constants
            known = [constants.get(value) for value in instr.inputs]
            kernel = spec.knowing_fn(op, known) or kernel
        if spec.alike_fn is not None and _is_for_blocks(instr, facts):
            kernel = spec.alike_fn
        if spec.unread_fn is not None and instr.detail is not None:
            kernel = bound_unread(op, spec, instr.detail)
        if check.enabled:
            kernel = check.checked_kernel(kernel, op, spec.single_output)
    if spec.takes_ctx:
        kernel = does.in_context(kernel, infos(op), len(instr.inputs))
        instr.inputs = (STEP, *instr.inputs)
    instr.kernel = kernel


def _bind_ahead(instr: Instr, infos: Infos) -> None:
    op, spec = instr.op, instr.op.spec
    assert spec is not None
    assert spec.ahead_fn is not None
    attrs = {name: op.attrs[name] for name in spec.ahead_attrs}
    kernel = partial(spec.ahead_fn, **attrs)
    instr.kernel = does.in_context(kernel, infos(op), len(instr.inputs))
    instr.inputs = (STEP, *instr.inputs)


def _is_for_blocks(instr: Instr, facts: Facts) -> bool:
    """Whether only groups look at the result that go through it by blocks: one element in memory will do for those."""
    (value,) = instr.outputs
    users: Any = facts.uses(value)
    return value not in facts.results and all(user.what in OF_BLOCKS for user in users)


def _kept_by(instr: Instr, facts: Facts) -> tuple[bool, ...]:
    """For each input of a node that may wait, whether nobody will ever change it."""
    spec = instr.op.spec
    assert spec is not None
    keeps = KEEPS_INPUTS in spec.traits
    found = []
    for value in instr.inputs:
        maker = facts.maker(value)
        loaded = maker is not None and maker.what == LOAD
        own = keeps and facts.is_for_one(value) and is_fresh(value, facts)
        found.append(loaded or own)
    return tuple(found)
