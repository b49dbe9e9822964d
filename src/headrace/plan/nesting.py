"""Nesting: branches and loops become nested steps.

Switch, Enter, Exit and NextIteration move no values: what comes out is what goes in.  A node with a guard
(`plan.structure`) is in a branch, which looks at the guard's predicates first; a loop is one instruction around three
steps.  A node that may wait in a branch is a branch of its own, and waits as any other.  A loop in which something may
wait waits as a whole, and keeps the thread: everything else of the step that may wait has to come before or after.
What does not fit raises Unstructured and is left to the general executor.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, NamedTuple

from headrace.base.traits import (
    CONTROL_TRIGGER,
    EXIT,
    IDENTITY,
    LOOP_COND,
    MAY_WAIT,
    MERGE,
    NEXT_ITERATION,
    RECEIVE,
    SWITCH,
)
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.ir import BRANCH, DECIDE, LOAD, LOOP, NOTHING, Instr, Step
from headrace.plan.structure import ALWAYS, Frame, Guard, Structure, Unit, Unstructured
from headrace.plan.waiting_order import in_turn, ordered
from headrace.run.exec import branches
from headrace.run.exec.instructions import dereference

Conditions = Sequence[tuple[int, bool]]
"""(a truth, what it must be), each decided before the next is looked at: the `detail` of a branch."""

_HAND_ON = frozenset((SWITCH, EXIT, NEXT_ITERATION, LOOP_COND))


class Loop(NamedTuple):
    """The `detail` of a loop, whose body is (head, body, tail): see `run.branches.Loop`.

    sums: variables that may be there only when the loop is over (`plan.rules.loop_sums`).  whole: see
    `plan.whole_loops`; None: it is no program by itself, and why is in `apart`, for who asks.  Without variables it is
    no loop, but a group of them (`plan.joined_loops`).
    """

    pred: int
    variables: Sequence[int]
    starts: Sequence[int]
    nexts: Sequence[int]
    sums: Sequence[int] = ()
    whole: Any = None
    apart: str = ""


class Select(NamedTuple):
    """The `detail` of a Merge: its inputs are a truth, the value if that is `way`, and the other one."""

    way: bool


class Required(NamedTuple):
    """The `detail` of the check that a result has a value: the conditions under which it has, and its name."""

    conditions: Conditions
    name: str


def nest(step: Step) -> Step:
    """The step with branches and loops.  Raises Unstructured."""
    return _Nesting(step, Structure(step.request.pruned, step.request.args)).done()


class _OpenLoop:
    """A loop under construction: where its instructions go, and the waiters that what is inside comes after.

    waiter: its own number, if it is one.
    """

    def __init__(self, frame: Frame, after: frozenset[int], waiter: int) -> None:
        self.frame = frame
        self.after = after if waiter < 0 else after | {waiter}
        self.waiter = waiter
        self.head: list[Instr] = []
        self.body: list[Instr] = []
        self.tail: list[Instr] = []

    def part(self, guard: Guard) -> list[Instr]:
        """Where an instruction under `guard` goes."""
        if (self.frame.pred, True) in guard:
            return self.body
        return self.tail if (self.frame.pred, False) in guard else self.head


class _Nesting:
    def __init__(self, step: Step, structure: Structure) -> None:
        self._step, self._values = step, step.values
        self._structure = structure
        self._fed = set(step.request.args)
        self._instr = {instr.op: instr for instr in step.code}
        self._same: dict[int, int] = {}
        self._after: dict[Operation, frozenset[int]] = {}
        self._truths: dict[Tensor, int] = {}
        self._guard: Guard = ALWAYS
        self._loop: _OpenLoop | None = None
        self._loops: list[_OpenLoop] = []
        self._code: list[Instr] = []
        self._open: dict[tuple[int, frozenset[int]], Instr] = {}
        """the branch at the end of a part, by id of that and what comes before"""
        self._preds = self._decisions()

    def done(self) -> Step:
        for pred in self._preds:
            if pred in self._fed:
                self._decide(pred)
        self._add_units(self._structure.root)
        for tensor in self._step.request.returns:
            self._require(tensor)
        code = [closed(instr) for instr in self._code]
        results = [self._resolved(value) for value in self._step.results]
        return self._step.with_code(_with_results(code, frozenset(results)), results)

    def _decisions(self) -> dict[Tensor, Frame]:
        """Predicates of conds, each with the frame that it is made in."""
        structure = self._structure
        found = {}
        for op in structure.ops:
            if SWITCH in op.traits:
                pred = structure.root_of(op.inputs[1])
                if LOOP_COND not in pred.op.traits:
                    is_fed = pred in self._fed
                    found[pred] = structure.root if is_fed else structure.made_in(pred.op)
        return found

    # -- values ---------------------------------------------------------------------------------------------------

    def _value(self, tensor: Tensor) -> int:
        return self._resolved(self._values.number[tensor])

    def _resolved(self, value: int) -> int:
        while value in self._same:
            value = self._same[value]
        return value

    def _refers(self, tensor: Tensor) -> bool:
        return self._value(tensor) in self._values.references

    def _dependencies(self, op: Operation) -> frozenset[int]:
        return self._sources_of(op) if self._loop is None else self._loop.after

    def _sources_of(self, op: Operation) -> frozenset[int]:
        found: set[int] = set()
        for tensor in op.inputs:
            if tensor not in self._fed:
                found |= self._after[tensor.op]
        for control in self._step.request.pruned.controls[op]:
            found |= self._after.get(control, NOTHING)
        return frozenset(found)

    # -- units ----------------------------------------------------------------------------------------------------

    def _add_units(self, frame: Frame) -> None:
        for unit in frame.units:
            self._add_unit(unit)
            if isinstance(unit, Frame):
                outputs: Iterable[Tensor] = [t for op in unit.exits for t in op.outputs]
            else:
                outputs = unit.outputs
            for tensor in outputs:
                if self._preds.get(tensor) is frame and not self._refers(tensor):
                    self._decide(tensor)

    def _add_unit(self, unit: Unit) -> None:
        if isinstance(unit, Frame):
            self._add_loop(unit)
            return
        self._guard = self._structure.guards[unit]
        if EXIT in unit.traits and self._loop is not None:
            self._guard = ALWAYS
        if not _HAND_ON.isdisjoint(unit.traits):
            self._hand_on(unit)
        elif MERGE in unit.traits:
            if self._loop is None or unit not in self._loop.frame.merges:
                self._merge(unit)
        elif CONTROL_TRIGGER in unit.traits:
            self._after[unit] = self._dependencies(unit)
        elif IDENTITY in unit.traits and not self._refers(unit.inputs[0]):
            self._hand_on(unit)
        else:
            self._add(unit)

    def _add(self, op: Operation) -> None:
        """A node that does something."""
        after = self._after[op] = self._dependencies(op)
        instr = self._instr.get(op)
        if instr is None:  # it is a known value
            return
        inputs = tuple([self._resolved(value) for value in instr.inputs])
        made = instr.changed(inputs=inputs, after=after)
        if instr.waiter >= 0 and self._loop is None:
            self._after[op] = after | {instr.waiter}
            if self._guard:
                self._put_alone(made)
                return
        self._put(made)

    def _put_alone(self, instr: Instr) -> None:
        """What may wait, as a branch of its own, which waits with it."""
        if RECEIVE in instr.op.traits:
            raise Unstructured(f"{instr.op.name!r} receives inside a branch")
        conditions = self._conditions(self._guard)
        if not conditions:
            self._put(instr)
            return
        branch = Instr(
            instr.op,
            (),
            (),
            (),
            after=instr.after,
            waiter=instr.waiter,
            what=BRANCH,
            detail=conditions,
        )
        branch.body = (self._step.nested([instr], ()),)
        self._code.append(branch)

    def _hand_on(self, op: Operation) -> None:
        """The outputs are the first input."""
        source = op.inputs[0]
        if SWITCH in op.traits:
            pred = self._structure.root_of(op.inputs[1])
            if pred in self._preds and pred not in self._truths:
                self._decide(pred)
        self._after[op] = self._dependencies(op)
        for tensor in op.outputs:
            if tensor not in self._fed:
                self._same[self._values.number[tensor]] = self._value(source)

    def _merge(self, op: Operation) -> None:
        """The output is that of the branch that ran."""
        guards = [self._structure.tensor_guard(tensor) for tensor in op.inputs]
        if guards[0] <= guards[1]:  # it is alive in any case
            ((pred, other),) = guards[1] - guards[0]
            way = not other
        else:
            ((pred, way),) = guards[0] - guards[1]
        truth = self._truths[pred]
        self._after[op] = after = self._dependencies(op)
        value, index = self._instr[op].outputs
        inputs = (truth, *[self._value(tensor) for tensor in op.inputs])
        self._put(Instr(op, (op,), inputs, (value,), after=after, what=DECIDE, detail=Select(way)))
        if op.outputs[1]._consumers or op.outputs[1] in self._step.request.returns:
            tell = branches.which(way)
            self._put(Instr(op, (), (truth,), (index,), after=after, what=DECIDE, kernel=tell))

    # -- decisions ------------------------------------------------------------------------------------------------

    def _decide(self, pred: Tensor) -> None:
        """From here on it is known whether `pred` holds."""
        source = self._value(pred)
        self._truths[pred] = target = self._values.new(None)
        known = self._values.constants.get(source)
        if known is not None:
            self._values.constants[target] = bool(known)
            return
        guard, self._guard = self._guard, self._structure.tensor_guard(pred)
        after = NOTHING if pred in self._fed else self._after[pred.op]
        self._put(
            Instr(
                pred.op, (), (source,), (target,), after=after, what=DECIDE, kernel=branches.truth
            )
        )
        self._guard = guard

    def _conditions(self, guard: Guard) -> Conditions:
        """What to look at before an instruction under `guard` runs, but for the loop around."""
        found = [
            (self._truths[pred], way) for pred, way in guard if LOOP_COND not in pred.op.traits
        ]
        return sorted(found)

    def _put(self, instr: Instr) -> None:
        """Append to the loop that is being built, or to the step: to a branch that looks at the guard."""
        part = self._code if self._loop is None else self._loop.part(self._guard)
        conditions = self._conditions(self._guard)
        key = id(part), instr.after
        if not conditions:
            self._open.pop(key, None)
            part.append(instr)
            return
        last = self._open.get(key)
        if last is None or last.detail != conditions:
            last = Instr(instr.op, (), (), (), after=instr.after, what=BRANCH, detail=conditions)
            last.body = (self._step.nested([], ()),)
            part.append(last)
            self._open[key] = last
        last.body[0].code.append(instr)

    def _require(self, tensor: Tensor) -> None:
        """A result that is on a branch is an error if that is not taken."""
        if tensor in self._fed:
            return
        if self._structure.made_in(tensor.op) is not self._structure.root:
            raise Unstructured(f"{tensor.name} is inside a loop")
        conditions = self._conditions(self._structure.tensor_guard(tensor))
        if conditions:
            self._guard = ALWAYS
            detail = Required(conditions, tensor.name)
            truths, after = tuple([truth for truth, _ in conditions]), self._after[tensor.op]
            self._put(Instr(tensor.op, (), truths, (), after=after, what=DECIDE, detail=detail))

    # -- loops ----------------------------------------------------------------------------------------------------

    def _add_loop(self, frame: Frame) -> None:
        outer = self._loop
        home = self._structure.root if outer is None else outer.frame
        for pred, made in self._preds.items():
            if made is home and pred not in self._truths and self._is_made(pred):
                self._decide(pred)
        after = (
            NOTHING.union(*map(self._sources_of, frame.enters)) if outer is None else outer.after
        )
        waiter = self._waiter_of(frame) if outer is None else -1
        self._loop = loop = _OpenLoop(frame, after, waiter)
        self._loops.append(loop)
        for op in frame.enters:
            self._hand_on(op)
        starts = [self._value(frame.start_of(merge)) for merge in frame.merges]
        variables = self._variables(frame, loop)
        self._add_units(frame)
        assert frame.pred is not None
        self._guard = ALWAYS
        going = self._going(frame.pred, loop)
        nexts = [self._value(frame.next_of(merge)) for merge in frame.merges]
        self._loop = outer
        self._guard = frame.guard
        parts = (loop.head, loop.body, loop.tail)
        body = tuple([self._step.nested([closed(i) for i in part], ()) for part in parts])
        detail = Loop(going, variables, starts, nexts)
        whole = Instr(frame.pred.op, (), (), (), after=after, what=LOOP, body=body, detail=detail)
        if waiter < 0:
            self._put(whole)
        else:
            self._put_alone(whole.changed(waiter=waiter))

    def _waiter_of(self, frame: Frame) -> int:
        """The number of a loop as a waiter: that of one of those inside; -1 if there are none."""
        waiting = [
            instr
            for op in _nodes_of(frame)
            if (instr := self._instr.get(op)) is not None and instr.waiter >= 0
        ]
        if not waiting:
            return -1
        for instr in waiting:
            if RECEIVE in instr.op.traits:
                raise Unstructured(f"{instr.op.name!r} receives inside a loop")
        self._check_turns(frame, self._alone)
        return min(instr.waiter for instr in waiting)

    def _check_turns(self, unit: Unit, alone: AbstractSet[Unit]) -> None:
        """What may wait in there does so one by one.

        alone: what may wait beside it while nothing else there does.
        """
        if unit not in alone:
            name = unit.name
            raise Unstructured(f"{name!r} waits in a loop or is one, and others may wait beside it")
        if isinstance(unit, Frame):
            structure, controls = self._structure, self._step.request.pruned.controls
            units, fed = unit.units, self._fed
            alone = ordered(units, _nodes_of, controls, fed, structure.never_both)
            waiting = [each for each in units if _may_wait(each)]
            if any(op["parallel_iterations"] > 1 for op in unit.enters):
                turns = in_turn(units, _nodes_of, controls, fed)
                for each in waiting:
                    if each not in turns:
                        raise Unstructured(f"several iterations of {each.name!r} may wait")
            for each in waiting:
                self._check_turns(each, alone)

    @cached_property
    def _alone(self) -> set[Unit]:
        """What may wait while nothing else does, with loops as wholes."""
        structure, controls = self._structure, self._step.request.pruned.controls
        units = structure.root.units
        return ordered(units, _nodes_of, controls, self._fed, structure.never_both)

    def _is_made(self, pred: Tensor) -> bool:
        return pred in self._fed or pred.op in self._after

    def _variables(self, frame: Frame, loop: _OpenLoop) -> list[int]:
        """The loop variables."""
        found = []
        for merge in frame.merges:
            value, index = merge.outputs
            used = index._consumers or index in self._step.request.returns
            if used or value in self._fed:
                raise Unstructured(f"the loop variable {merge.name!r} is used in another way")
            self._after[merge] = loop.after
            found.append(self._values.number[value])
        for merge in frame.merges:
            if self._preds.get(merge.outputs[0]) is frame:
                self._decide(merge.outputs[0])
        return found

    def _going(self, pred: Tensor, loop: _OpenLoop) -> int:
        """Whether the loop goes on: `pred`, or what it refers to."""
        value = self._value(pred)
        if value not in self._values.references:
            return value
        loaded = self._values.new(None)
        loop.head.append(
            Instr(pred.op, (), (value,), (loaded,), after=loop.after, what=LOAD, kernel=dereference)
        )
        return loaded


def _nodes_of(unit: Unit) -> list[Operation]:
    """A node; those in a loop and in the loops inside."""
    if isinstance(unit, Frame):
        return [*unit.enters, *[op for each in unit.units for op in _nodes_of(each)]]
    return [unit]


def _may_wait(unit: Unit) -> bool:
    return any(MAY_WAIT in op.traits for op in _nodes_of(unit))


def closed(instr: Instr) -> Instr:
    """A branch or loop with what it reads, writes and does; others as they are."""
    if instr.what not in (BRANCH, LOOP):
        return instr
    bodies = [
        step.with_code([closed(each) for each in step.code])
        if any(each.what in (BRANCH, LOOP) for each in step.code)
        else step
        for step in instr.body
    ]
    read: dict[int, None] = {}
    written: dict[int, None] = {}
    for step in bodies:
        for each in step.code:
            read.update(dict.fromkeys(each.inputs))
            written.update(dict.fromkeys(each.outputs))
    detail: Any = instr.detail
    if isinstance(detail, Loop):
        read.update(dict.fromkeys((*detail.starts, *detail.nexts, detail.pred)))
        written.update(dict.fromkeys(detail.variables))
        if detail.whole is not None:
            read.update(dict.fromkeys(detail.whole.given))
    else:
        read.update(dict.fromkeys(truth for truth, _ in detail))
    inputs = tuple([value for value in read if value not in written])
    effects = max((each.effects for step in bodies for each in step.code), default=0)
    return instr.changed(inputs=inputs, outputs=tuple(written), body=tuple(bodies), effects=effects)


def _with_results(code: Iterable[Instr], wanted: frozenset[int]) -> list[Instr]:
    """`code`, in which the steps inside branches and loops say what others want of them.

    wanted: by whom `code` is not.
    """
    code = list(code)
    read = wanted.union(*[instr.inputs for instr in code])
    made = []
    for instr in code:
        if instr.what in (BRANCH, LOOP):
            detail: Any = instr.detail
            here = read
            if isinstance(detail, Loop):
                here = read.union((detail.pred,), detail.starts, detail.nexts)
            reads = [
                frozenset(value for each in step.code for value in each.inputs)
                for step in instr.body
            ]
            bodies = []
            for at, step in enumerate(instr.body):
                outside = here.union(*reads[:at], *reads[at + 1 :])
                results = [v for each in step.code for v in each.outputs if v in outside]
                bodies.append(step.with_code(_with_results(step.code, outside), results))
            instr = instr.changed(body=tuple(bodies))
        made.append(instr)
    return made
