"""Emitting: the last version of a step becomes the program that runs.

Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.base.traits import HANDLE, POLLS, UPDATES
from headrace.plan import check
from headrace.plan.binding import SCALAR_KINDS
from headrace.plan.cost_model import may_share
from headrace.plan.ir import BRANCH, LOOP, NODE, POLL, RELEASE, SHAPES, Instr, Step
from headrace.plan.nesting import Conditions, Loop, Required, Select
from headrace.plan.registers import is_fresh
from headrace.plan.staged import taking
from headrace.run.exec import branches
from headrace.run.exec import instructions as does
from headrace.run.exec.instructions import CALL, MANY, NESTED, WHOLE, Instruction
from headrace.run.exec.parked import guarded, in_place, looping
from headrace.run.exec.program import Item, Program, Return, Segment, Waiter
from headrace.run.exec.straight import FEWEST_INSIDE, Code

if TYPE_CHECKING:
    from headrace.plan.joined_loops import Joined

_ALONE = frozenset((BRANCH, LOOP, SHAPES))
"""What has other instructions inside, and does not spread work over threads by itself."""


def emit(step: Step, before: Step) -> Program:
    """The program.  before: the step as it was before `registers`."""
    request, infos, registers = step.request, step.request.infos, step.registers
    facts, aliases = before.facts, before.values.aliases
    returns = [
        Return(
            registers[value],
            not is_fresh(value, facts) or step.results.count(value) > 1,
            value in aliases,
            infos(tensor.op),
        )
        for value, tensor in zip(step.results, request.returns, strict=True)
    ]
    scalars = [
        place
        for place, tensor in enumerate(request.args, 1)
        if tensor._raw == () and tensor._dtype._base.np.kind in SCALAR_KINDS
    ]
    everything = step.everything
    kinds = {instr.op.traits for instr in everything if instr.what == NODE}
    shares = any(instr.what == NODE and may_share(instr.op) for instr in everything)
    shares = shares or any(each.body and each.what not in _ALONE for each in everything)
    preloaded = [
        (infos(op), tuple([registers[value] for value in values])) for op, values in step.loaded
    ]
    return Program(
        [*step.template],
        len(request.args),
        _items(step),
        returns,
        preloaded,
        scalars,
        shares,
        any(POLLS in traits for traits in kinds),
        _into(everything) if any(UPDATES in traits for traits in kinds) else None,
    )


def _into(everything: Iterable[Instr]) -> Callable[..., Any] | None:
    """The ufunc by which the only update changes its variable; None if it does not, or is not the only one."""
    specs = [each.op.spec for each in everything if UPDATES in each.op.traits]
    return specs[0].into_fn if len(specs) == 1 and specs[0] is not None else None


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
    return Segment(_instructions(code, step), any(map(_computes, code)))


def _computes(instr: Instr) -> bool:
    """Whether it does more than find or load a variable."""
    if instr.what == NODE:
        return HANDLE not in instr.op.traits and instr.kernel is not does.pass_reference
    return instr.body != () or instr.kernel is branches.truth or instr.detail is not None


def _code(code: Iterable[Instr], step: Step) -> Code:
    return Code(_instructions(code, step), FEWEST_INSIDE)


def _instructions(code: Iterable[Instr], step: Step) -> list[Instruction]:
    infos, register = step.request.infos, step.registers
    made = []
    for instr in code:
        kernel, kind, over = instr.kernel, CALL, instr.over
        if instr.what != NODE:
            kernel, kind = _of_runtime(instr, step)
        elif instr.waiter >= 0:
            kernel, kind = in_place(_waiter(instr, step)), WHOLE
        elif not instr.op.spec.single_output:  # type: ignore[union-attr]
            kind = MANY
        assert kernel is not None
        made.append(
            Instruction(
                kernel,
                tuple(map(register.__getitem__, instr.inputs)),
                tuple(map(register.__getitem__, instr.outputs)),
                infos(instr.op),
                kind,
                over if over < 0 else register[over],
            )
        )
    return made


def _of_runtime(instr: Instr, step: Step) -> tuple[does.Kernel | None, int]:
    """What is no node of its own: (kernel, kind)."""
    detail, register = instr.detail, step.registers
    if instr.what == BRANCH:
        conditions = _conditions(detail, register)
        return branches.guarded(conditions, _code(instr.body[0].code, step)), NESTED
    if instr.what == LOOP:
        return _loop(instr, step), NESTED
    if instr.what == RELEASE:
        return does.release(tuple([register[value] for value in instr.outputs])), does.RELEASE
    if isinstance(detail, Select):
        condition, yes, no = [register[value] for value in instr.inputs]
        target = register[instr.outputs[0]]
        return branches.select((condition, detail.way), yes, no, target), WHOLE
    if isinstance(detail, Required):
        return branches.required(_conditions(detail.conditions, register), detail.name), WHOLE
    if instr.what == POLL:
        return instr.kernel, WHOLE
    return instr.kernel, CALL if len(instr.outputs) == 1 or not instr.body else MANY


def _conditions(of: Conditions, register: Mapping[int, int]) -> branches.Conditions:
    return tuple([(register[value], way) for value, way in of])


def _loop(instr: Instr, step: Step) -> does.Kernel:
    detail: Loop = instr.detail
    register = step.registers
    whole = detail.whole
    if whole is not None:
        from headrace.plan.joined_loops import Joined  # where loops are compiled

        if isinstance(whole, Joined):
            return _joined(instr, whole, step)
    variables, starts, nexts, sums = (
        [register[value] for value in values]
        for values in (detail.variables, detail.starts, detail.nexts, detail.sums)
    )
    head, body, tail = (_code(part.code, step) for part in instr.body)
    node, first = step.request.infos(instr.op), min(variables, default=0)
    loop = branches.Loop(node, register[detail.pred], first, starts, nexts, head, body, tail, sums)
    if whole is None:
        return loop.kernel()
    from headrace.run.exec import whole_loops

    given = [register[value] for value in whole.given]
    return whole_loops.kernel(loop, whole.program, given, whole.there, whole.rest)


def _joined(instr: Instr, joined: Joined, step: Step) -> does.Kernel:
    from headrace.run.exec import joined_loops

    code = _code(instr.body[1].code, step)
    given, wanted = (
        [step.registers[value] for value in values] for values in (joined.given, joined.wanted)
    )
    node = step.request.infos(instr.op)
    return joined_loops.kernel(node, code, joined.program, given, wanted)


def _waiter(instr: Instr, step: Step) -> Waiter:
    if instr.what == LOOP:
        return looping(step.request.infos(instr.op), _loop(instr, step))
    if instr.what == BRANCH:
        code = instr.body[0].code
        (at,) = [place for place, each in enumerate(code) if each.waiter >= 0]
        before, after = _code(code[:at], step), _code(code[at + 1 :], step)
        return guarded(
            _conditions(instr.detail, step.registers), before, _waiter(code[at], step), after
        )
    spec = instr.op.spec
    assert spec is not None
    assert instr.kernel is not None
    single, register = spec.single_output, step.registers
    inputs = tuple([register[value] for value in instr.inputs])
    outputs = tuple([register[value] for value in instr.outputs])
    store, device = does.storing(outputs, single), step.request.placed.get(instr.op)
    if check.enabled and device is None:
        store = check.checked_store(store, instr.op, single)
    if device is not None and instr.outputs:
        store = does.finishing(taking(instr.op, device), store)
    elif spec.finish_fn is not None:
        store = does.finishing(spec.finish_fn, store)
    node = step.request.infos(instr.op)
    return Waiter(node, instr.kernel, inputs, store, outputs, computes=spec.prompt_fn is None)
