"""Joined loops: loops that are programs, and what is computed between them, become one program of XLA's.

So are the two loops of a recurrent network's training: what the first one keeps for the second never leaves the
program.  Of a step's own code that goes for what stands between the first such loop and the last one, if all of it
computes; stacks and TensorArrays are made before.  What others want of it are the program's results, and it gives back
only those stores that somebody looks at later.  It stays in the step as it is, the loops with programs of their own,
for when this program is not ready or does not hold (`run.exec.joined_loops`); whether it pays is measured, as it is of
other forms (`run.exec.tuning`).

Not joined is what is on devices other than the host, hands on lists of tensors, or asks what was put on a stack of
shapes; nor are gradients of TensorArrays that others look at, too.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import dtypes
from headrace.ops._kernels.size_rules import STORES as MAKERS
from headrace.ops._portable.loop_state import GRADIENT, STORES
from headrace.plan.devices import array_kernel
from headrace.plan.ir import AHEAD, LOOP, NODE, Instr, Step, instrs
from headrace.plan.loop_tracing import Slot, joined_program
from headrace.plan.nesting import Loop, closed
from headrace.plan.variables import Variables
from headrace.plan.whole_loops import Deciding, Refused
from headrace.run.exec.joined_loops import JoinedProgram, Learner
from headrace.run.exec.whole_loops import LoopProgram

FEWEST: Final = 2
"""Loops; one is a program by itself."""


class Joined(NamedTuple):
    """What a group of loops has that is one program (`nesting.Loop.whole`), as a loop of one iteration.

    given: what it takes.  wanted: the values that it gives.  there: as of `whole_loops.Whole`, of no variables.
    """

    program: JoinedProgram
    given: Sequence[int]
    wanted: Sequence[int]
    rest: bool = False
    there: Sequence[bool] = ()


def join_loops(step: Step) -> Step:
    """The pass: the loops of a step's own code that are programs become one, if they can."""
    if step.request.placed or not step.nests:
        return step
    places = [at for at, instr in enumerate(step.code) if _is_program(instr)]
    if len(places) < FEWEST:
        return step
    last = places[-1]
    between = step.code[places[0] : last + 1]
    makers = [instr for instr in between if instr.what == NODE and instr.op.type in MAKERS]
    members = [instr for instr in between if instr not in makers]
    others = [instr for instr in members if instr.what != LOOP]
    made = {value for instr in members for value in instr.outputs}
    if not others or any(not made.isdisjoint(instr.inputs) for instr in makers):
        return step
    op = others[0].op
    before = _before(step, places[0], members)
    if op in step.request.without or any(
        instr.waiter >= 0 or instr.after != members[0].after for instr in members
    ):
        return step
    try:
        group = _Joining([*before, *members], step, last).joined(op)
    except Refused:
        return step
    left = [instr for instr in step.code[: places[0]] if instr not in before]
    return step.with_code([*left, *makers, group, *step.code[last + 1 :]])


def _is_program(instr: Instr) -> bool:
    return instr.what == LOOP and instr.detail.whole is not None


def _before(step: Step, first: int, members: Iterable[Instr]) -> list[Instr]:
    """What stands before the first loop and is computed for nothing but the members, such as the sequences in order."""
    facts, values = step.facts, step.values
    inside = {*members}
    found: list[Instr] = []
    for place in range(first - 1, -1, -1):
        instr = step.code[place]
        if not _joins(instr) or instr.op in facts.awaited or instr.op in step.request.without:
            continue
        wanted = not facts.results.isdisjoint(instr.outputs)
        if wanted or not values.changing.isdisjoint((*instr.inputs, *instr.outputs)):
            continue
        users = [user for value in instr.outputs for user in facts.uses(value)]
        if instr.op.type in STORES:  # what happens to the store later
            users += [each for each in facts.uses(instr.inputs[0]) if facts.place[each] > place]
        if users and inside.issuperset(users):
            inside.add(instr)
            found.insert(0, instr)
    return found


def _joins(instr: Instr) -> bool:
    """Whether it only computes or fills a store, and XLA is as good at it as others."""
    if instr.what != NODE or instr.body or instr.kernel is not None or instr.detail is not None:
        return False
    if instr.waiter >= 0 or instr.after or not instr.outputs:
        return False
    if instr.op.type in STORES or instr.op.type == GRADIENT:
        return True
    kernel = array_kernel(instr.op)
    return kernel is not None and not kernel.alone and not instr.effects


def _grouped(members: list[Instr], step: Step) -> Instr:
    """The members as the body of a loop without variables."""
    going = step.values.new(None)
    step.values.constants[going] = np.bool_(True)
    parts = [step.nested(code, ()) for code in ([], members, [])]
    loop = next(instr for instr in members if instr.what == LOOP)
    return closed(
        Instr(
            loop.op,
            (),
            (),
            (),
            device=loop.device,
            after=loop.after,
            what=LOOP,
            body=tuple(parts),
            detail=Loop(going, (), (), ()),
        )
    )


class _Joining(Deciding):
    """members: as they stand in the step's code; last: the place of the last one."""

    def __init__(self, members: list[Instr], step: Step, last: int) -> None:
        super().__init__(_grouped(members, step), step, Variables(step))
        self._inside, self._last = frozenset(members), last

    def joined(self, op: Any) -> Instr:
        """The group with its program; op: the node that it goes by.  Raises Refused."""
        self._check_lists()
        outside = self._looked_at()
        if self._alike or self._told:
            raise Refused("what was kept is to be known")
        traced, wanted = self._traced(outside), self._wanted()
        self._check_stores(traced.slots)
        left = [at for at, (root, _) in enumerate(traced.slots) if self._is_read_later(root)]
        taken = self._taken(outside, ())
        make = partial(joined_program, traced, wanted, left)
        program = JoinedProgram(make, taken, left, self._learners(traced.slots))
        body = self._loop.body[1].with_code(self._loop.body[1].code, wanted)
        return closed(
            self._loop.changed(
                op=op,
                body=(self._loop.body[0], body, self._loop.body[2]),
                detail=self._detail._replace(whole=Joined(program, outside, wanted)),
            )
        )

    def _check_given(self, values: Sequence[int]) -> None:
        """As of loops, but for the words of random numbers that were drawn ahead."""
        maker = self._step.facts.maker
        drawn = {each for each in values if (m := maker(each)) is not None and m.what == AHEAD}
        super()._check_given([value for value in values if value not in drawn])

    def _check_lists(self) -> None:
        for value in (*self._loop.inputs, *self._loop.outputs):
            if self._is_list(value):
                raise Refused("lists of tensors are handed on")

    def _wanted(self) -> list[int]:
        """Values that others want.  Raises Refused for what is no array."""
        results = self._step.facts.results
        found = [v for v in self._loop.outputs if v in results or self._is_read_later(v)]
        self._refuse_references(self._loop, found)
        for value in found:
            tensor = self._values.tensors[value]
            if tensor is None or tensor._dtype in (dtypes.resource, dtypes.variant):
                raise Refused("others want what is no array")
        self._check_given(found)
        return found

    def _check_stores(self, slots: Sequence[Slot]) -> None:
        """Raises Refused where others look at a gradient, too, or at what it is of: it is made in the program."""
        facts = self._step.facts
        for root, sources in slots:
            if not sources:
                continue
            maker = facts.maker(root)
            others = [each for each in facts.uses(root) if each not in self._inside]
            is_for_others = self._is_read_later(root) or any(
                each.op.type == GRADIENT or each.what != NODE for each in others
            )
            if maker is None or maker.op.type not in MAKERS or is_for_others:
                raise Refused("a gradient is kept for others")

    def _is_read_later(self, value: int) -> bool:
        facts = self._step.facts
        if value in facts.results:
            return True
        return any(facts.place[each] > self._last for each in facts.uses(value))

    def _learners(self, slots: Sequence[Slot]) -> list[Learner]:
        """The loops' own programs, which see how much is kept when they run node by node."""
        found = []
        for instr in instrs(self._loop.body[1].code):
            if not _is_program(instr):
                continue
            program: LoopProgram = instr.detail.whole.program
            own = self._slots_of(instr, program)
            places = {at: slots.index(slot) for at, slot in enumerate(own) if slot in slots}
            found.append(Learner(program, places))
        return found

    def _slots_of(self, loop: Instr, program: LoopProgram) -> list[Slot]:
        """Its stores, as this group has them."""
        values = [*loop.detail.starts, *loop.detail.whole.given]
        return [(self._outer(values[place]), sources) for place, sources in program.slots]
