"""Emitting: the last version of a step becomes the program that runs.

Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.base.traits import HANDLE, POLLS, SHARES
from headrace.plan import check
from headrace.plan.binding import SCALAR_KINDS
from headrace.plan.ir import BRANCH, LOOP, NODE, POLL, RELEASE, Instr, Step, instrs
from headrace.plan.memoization import SHAPES
from headrace.plan.nesting import Loop, Required, Select
from headrace.plan.registers import is_fresh
from headrace.run.exec import branches
from headrace.run.exec import instructions as does
from headrace.run.exec.instructions import CALL, MANY, NESTED, WHOLE, Instruction
from headrace.run.exec.program import Item, Program, Return, Segment, Waiter
from headrace.run.exec.straight import FEWEST_INSIDE, Code

_ALONE = frozenset((BRANCH, LOOP, SHAPES))
"""What has other instructions inside, and does not spread work over threads by itself."""


def emit(step: Step, before: Step) -> Program:
    """The program.  before: the step as it was before `registers`."""
    request, infos = step.request, step.request.infos
    facts, aliases = before.facts, before.values.aliases
    returns = [
        Return(
            register,
            not is_fresh(value, facts) or before.results.count(value) > 1,
            value in aliases,
            infos(tensor.op),
        )
        for register, value, tensor in zip(
            step.results, before.results, request.returns, strict=True
        )
    ]
    scalars = [
        place for place, tensor in enumerate(request.args, 1)
        if tensor._raw == () and tensor._dtype._base.np.kind in SCALAR_KINDS
    ]  # fmt: skip
    assert step.template is not None
    everything = list(instrs(step.code))
    kinds = [instr.op.traits for instr in everything if instr.what == NODE]
    shares = any(SHARES in traits for traits in kinds)
    shares = shares or any(each.body and each.what not in _ALONE for each in everything)
    return Program(
        step.template, len(request.args), _items(step), returns,
        [(infos(op), registers) for op, registers in step.loaded], scalars,
        shares, any(POLLS in traits for traits in kinds),
    )  # fmt: skip


def _items(step: Step) -> list[Item]:
    """Segments and waiters, in the order of the code, which is that of `plan.scheduling`."""
    items: list[Item] = []
    afters: list[frozenset[int]] = []
    position: dict[int, int] = {}  # of waiters
    segment: list[Instr] = []
    for instr in step.code:
        if segment and (instr.waiter >= 0 or instr.after != segment[0].after):
            items.append(Item(_segment(segment, step), len(segment[0].after)))
            afters.append(segment[0].after)
            segment = []
        if instr.waiter >= 0:
            position[instr.waiter] = len(items)
            items.append(Item(_waiter(instr, step), len(instr.after)))
            afters.append(instr.after)
        else:
            segment.append(instr)
    if segment:
        items.append(Item(_segment(segment, step), len(segment[0].after)))
        afters.append(segment[0].after)
    for index, after in enumerate(afters):
        for number in after:
            items[position[number]].wakes.append(index)
    return items


def _segment(code: list[Instr], step: Step) -> Segment:
    return Segment([_instruction(instr, step) for instr in code], any(map(_computes, code)))


def _computes(instr: Instr) -> bool:
    """Whether it does more than find or load a variable."""
    if instr.what == NODE:
        return HANDLE not in instr.op.traits and instr.kernel is not does.pass_reference
    return instr.body != () or instr.kernel is branches.truth or instr.detail is not None


def _code(code: Iterable[Instr], step: Step) -> Code:
    return Code([_instruction(instr, step) for instr in code], FEWEST_INSIDE)


def _instruction(instr: Instr, step: Step) -> Instruction:
    inputs, outputs = instr.inputs, instr.outputs
    node, kernel = step.request.infos(instr.op), instr.kernel
    kind = CALL
    if instr.what == BRANCH:
        kernel, kind = (
            branches.guarded(tuple(instr.detail), _code(instr.body[0].code, step)),
            NESTED,
        )
    elif instr.what == LOOP:
        kernel, kind = _loop(instr, step), NESTED
    elif instr.what == RELEASE:
        kernel, kind = does.release(outputs), does.RELEASE
    elif isinstance(instr.detail, Select):
        condition = inputs[0], instr.detail.way
        kernel, kind = branches.select(condition, inputs[1], inputs[2], outputs[0]), WHOLE
    elif isinstance(instr.detail, Required):
        kernel = branches.required(tuple(instr.detail.conditions), instr.detail.name)
        kind = WHOLE
    elif instr.what == POLL:
        kind = WHOLE
    elif instr.body:
        kind = CALL if len(outputs) == 1 else MANY
    elif instr.what == NODE and instr.op.spec is not None and not instr.op.spec.single_output:
        kind = MANY
    assert kernel is not None
    return Instruction(kernel, inputs, outputs, node, kind, instr.over)


def _loop(instr: Instr, step: Step) -> does.Kernel:
    detail: Loop = instr.detail
    head, body, tail = (_code(part.code, step) for part in instr.body)
    node, first = step.request.infos(instr.op), min(detail.variables, default=0)
    return branches.Loop(
        node, detail.pred, first, detail.starts, detail.nexts, head, body, tail
    ).kernel()


def _waiter(instr: Instr, step: Step) -> Waiter:
    spec = instr.op.spec
    assert spec is not None
    assert instr.kernel is not None
    single = spec.single_output
    store = does.storing(instr.outputs, single)
    if check.enabled:
        store = check.checked_store(store, instr.op, single)
    if spec.finish_fn is not None:
        store = does.finishing(spec.finish_fn, store)
    node = step.request.infos(instr.op)
    return Waiter(
        node, instr.kernel, instr.inputs, store, instr.outputs, computes=spec.prompt_fn is None
    )
