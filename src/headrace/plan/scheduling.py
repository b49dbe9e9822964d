"""Scheduling: what is read when, in which order instructions run while nothing has to wait, and where a step polls.

References stay references until a plain consumer runs: what reads a variable is an instruction of its own just before
that (DESIGN: state).  Instructions that come after the same waiters are a segment, which never waits; so nothing in it
hears that the caller has gone or that the time limit has passed.  Where much may have been done since the last poll,
one stands before the next node (`run.instructions.poll`); steps of small nodes have none.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.base.traits import KEEPS_INPUTS, KEEPS_REFS, SNAPSHOTS, TAKES_REFS
from headrace.plan.binding import wants_reference
from headrace.plan.cost_model import PollSchedule
from headrace.plan.ir import AHEAD, BRANCH, LOAD, LOOP, NODE, NOTHING, POLL, WAITS, Instr, Step
from headrace.run.exec import instructions as does
from headrace.run.exec.instructions import Kernel

# -- loads ------------------------------------------------------------------------------------------------------------


def load(step: Step) -> Step:
    """References that a node does not ask for are read before it; what leaves the step there is copied."""
    values = step.values
    if not values.references and not values.aliases:
        return step
    code: list[Instr] = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            instr = instr.changed(body=tuple(load(inner) for inner in instr.body))
        elif (instr.body or instr.what in (NODE, AHEAD)) and not values.changing.isdisjoint(
            instr.inputs
        ):
            instr = _loading(instr, step, code)
        code.append(instr)
    return step.with_code(code)


def _loading(instr: Instr, step: Step, code: list[Instr]) -> Instr:
    """The instruction with what it reads loaded by others, which are appended to `code`."""
    values, inputs = step.values, list(instr.inputs)
    for place, value in enumerate(inputs):
        if value not in values.changing:
            continue
        kernel = _load_of(instr, place, value in values.references, value in values.aliases)
        if kernel is not None:
            inputs[place] = loaded = values.new(None)
            code.append(
                Instr(
                    instr.op,
                    (),
                    (value,),
                    (loaded,),
                    device=instr.device,
                    after=instr.after,
                    what=LOAD,
                    kernel=kernel,
                )
            )
    if KEEPS_REFS in instr.op.traits and not instr.body and instr.inputs[0] in values.references:
        return instr.changed(kernel=does.pass_reference)
    return instr.changed(inputs=tuple(inputs))


def _load_of(instr: Instr, place: int, refers: bool, looks: bool) -> Kernel | None:
    """How an input is read that is a reference, or may alias a variable; None: it goes in as it is."""
    if instr.body:
        return does.dereference if refers and place not in instr.refers else None
    spec = instr.op.spec
    assert spec is not None
    wanted = refers and wants_reference(instr.op, spec)[place]
    if instr.effects & WAITS:
        if looks:
            return does.copied
        if refers and not wanted:
            return does.lent if KEEPS_INPUTS in spec.traits else does.snapshot
        return None
    if looks and SNAPSHOTS in spec.traits:
        return does.copied
    if refers and not (wanted or KEEPS_REFS in spec.traits or TAKES_REFS in spec.traits):
        return does.snapshot if SNAPSHOTS in spec.traits else does.dereference
    return None


# -- order ------------------------------------------------------------------------------------------------------------


def schedule(step: Step) -> Step:
    """Segments and waiters in the order in which they run: fewer waiters before, segments before waiters."""
    if not any(instr.waiter >= 0 or instr.after for instr in step.code):
        return step
    waits_for: dict[int, frozenset[int]] = {}  # of each value
    code = []
    for instr in step.code:
        after = instr.after.union(*[waits_for.get(value, NOTHING) for value in instr.inputs])
        if after != instr.after:
            instr = instr.changed(after=after)
        if instr.waiter >= 0:
            after |= {instr.waiter}
        waits_for.update(dict.fromkeys(instr.outputs, after))
        code.append(instr)
    first: dict[frozenset[int], int] = {}
    for instr in code:
        first.setdefault(instr.after, len(first))

    def key(instr: Instr) -> tuple[int, bool, int]:
        waits = instr.waiter >= 0
        return len(instr.after), waits, instr.waiter if waits else first[instr.after]

    return step.with_code(sorted(code, key=key))


# -- polls ------------------------------------------------------------------------------------------------------------


def poll(step: Step) -> Step:
    """Polls where much may have been done since the last one."""
    polled, found = _polled(step.code, PollSchedule(), False)
    return step.with_code(polled) if found else step


def _polled(code: Iterable[Instr], schedule: PollSchedule, again: bool) -> tuple[list[Instr], bool]:
    """again: it may have run before, and will again.  Also whether there are any."""
    made: list[Instr] = []
    found = False
    loads = 0  # at the end of `made`, of the next node
    for instr in code:
        if instr.what == LOAD:
            loads += 1
        elif instr.what in (BRANCH, LOOP):
            inner = again or instr.what == LOOP
            bodies = []
            for body in instr.body:
                polled, any_inside = _polled(body.code, schedule, inner)
                bodies.append(body.with_code(polled))
                found = found or any_inside
            instr = instr.changed(body=tuple(bodies))
            loads = 0
        else:
            if instr.kernel is None and instr.waiter < 0:
                ops = [each.op for each in instr.body[0].code] if instr.body else (instr.op,)
                if instr.what != "shapes" and schedule.poll_before(ops, instr.after, again):
                    found = True
                    at = len(made) - loads
                    made.insert(
                        at,
                        Instr(
                            instr.op, (), (), (), device=instr.device, after=instr.after, what=POLL
                        ),
                    )
            loads = 0
        made.append(instr)
    return made, found
