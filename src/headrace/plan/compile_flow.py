"""Compile branches and loops: a Program whose instructions may be conditional blocks and whole loops.

Switch, Enter, Exit and NextIteration move no values: what comes out has the register of what goes in.  A node with a
guard (plan.structure) runs in a block that looks at the guard's predicates first; a loop is one instruction around
three blocks.  What does not fit is left to the general executor: nodes that wait inside a branch or loop, and graphs
that plan.structure does not understand.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.base.traits import (
    CONTROL_TRIGGER,
    EXIT,
    IDENTITY,
    LOOP_COND,
    MERGE,
    NEXT_ITERATION,
    SWITCH,
)
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec
from headrace.graph.tensor import Tensor
from headrace.plan.compile import Compiler
from headrace.plan.live import references_in
from headrace.plan.prune import Pruned
from headrace.plan.structure import ALWAYS, Frame, Guard, Structure, Unit, Unstructured
from headrace.run.exec import branches
from headrace.run.exec import instructions as make
from headrace.run.exec.branches import Block, Conditions
from headrace.run.exec.kernel import Memos, NodeInfo
from headrace.run.exec.program import Instruction, Program, Return, Segment
from headrace.run.exec.straight import Recipe

_HAND_ON = frozenset((SWITCH, EXIT, NEXT_ITERATION, LOOP_COND))


def compile_flow(
    pruned: Pruned,
    args: Sequence[Tensor],
    returns: Sequence[Tensor],
    devices: Mapping[Operation, str],
    memos: Memos,
    xp: Any,
) -> Program | None:
    """As plan.compile.compile_program; None for what the general executor has to run."""
    try:
        structure = Structure(pruned, args)
        return FlowCompiler(structure, pruned, args, returns, devices, memos, xp).program()
    except Unstructured:
        return None


class _Loop:
    """A loop under construction: where its instructions go, and the waiters that it comes after."""

    def __init__(self, frame: Frame, after: frozenset[int]) -> None:
        self.frame = frame
        self.after = after
        self.head, self.body, self.tail = Block(), Block(), Block()

    def block(self, guard: Guard) -> Block:
        """Where an instruction under `guard` goes."""
        if (self.frame.pred, True) in guard:
            return self.body
        return self.tail if (self.frame.pred, False) in guard else self.head


class FlowCompiler(Compiler):
    """Compiles what `Structure` understands.  Raises Unstructured for the rest."""

    _fuses = False  # what runs in a branch or a loop is not to leave it

    def __init__(
        self,
        structure: Structure,
        pruned: Pruned,
        args: Sequence[Tensor],
        returns: Sequence[Tensor],
        devices: Mapping[Operation, str],
        memos: Memos,
        xp: Any,
    ) -> None:
        super().__init__(pruned, args, returns, devices, memos, xp, fold=True, merge=False)
        self._structure = structure
        self._truths: dict[Tensor, int] = {}
        self._guard: Guard = ALWAYS
        self._loop: _Loop | None = None
        self._open: dict[
            int, tuple[Conditions, Block]
        ] = {}  # the block at the end, by id of what it ends
        self._preds = self._decisions()
        self._refer = references_in(pruned.ops)

    def _decisions(self) -> dict[Tensor, Frame]:
        """Predicates of conds, each with the frame that it is made in."""
        structure = self._structure
        found = {}
        for op in structure.ops:
            if SWITCH in op.traits:
                pred = structure.root_of(op.inputs[1])
                if LOOP_COND not in pred.op.traits:
                    found[pred] = (
                        structure.root if pred in self._fed else structure.made_in(pred.op)
                    )
        return found

    def _find_last_uses(self) -> None:
        structure = self._structure
        self._ops = list(_flat(structure.root))
        super()._find_last_uses()
        for op in structure.ops:
            if structure.frame_of[op] is not structure.root:  # used in every iteration
                self._used_elsewhere.update(op.inputs)

    # -- units ------------------------------------------------------------------------------------

    def _add_all(self) -> None:
        for pred in self._preds:
            if pred in self._fed:
                self._decide(pred)
        self._add_units(self._structure.root)
        for tensor in self._returned:
            self._require(tensor)

    def _add_units(self, frame: Frame) -> None:
        for unit in frame.units:
            self._add_unit(unit)
            outputs = (
                [t for op in unit.exits for t in op.outputs]
                if isinstance(unit, Frame)
                else unit.outputs
            )
            for tensor in outputs:
                if tensor not in self._references and self._preds.get(tensor) is frame:
                    self._decide(tensor)

    def _add_unit(self, unit: Unit) -> None:
        if isinstance(unit, Frame):
            self._add_loop(unit)
            return
        self._guard = self._structure.guards[unit]
        if EXIT in unit.traits and self._loop is not None:
            self._guard = ALWAYS
        if not _HAND_ON.isdisjoint(unit.traits):
            self._alias(unit)
        elif MERGE in unit.traits:
            if self._loop is None or unit not in self._loop.frame.merges:
                self._merge(unit)
        elif CONTROL_TRIGGER in unit.traits:
            self._after[unit] = self._dependencies(unit)
        elif IDENTITY in unit.traits and unit.inputs[0] not in self._references:
            self._alias(unit)
        else:
            self._add(unit)

    def _alias(self, op: Operation) -> None:
        """The outputs are the first input."""
        source = op.inputs[0]
        if SWITCH in op.traits:
            pred = self._structure.root_of(op.inputs[1])
            if pred in self._preds and pred not in self._truths:
                self._decide(pred)
        self._after[op] = self._dependencies(op)
        self._used_elsewhere.update((source, *op.outputs))
        for tensor in op.outputs:
            if tensor not in self._fed:
                self._register[tensor] = self._register[source]
                if source in self._references:
                    self._references.add(tensor)

    def _merge(self, op: Operation) -> None:
        """The output is that of the branch that ran."""
        guards = [self._structure.tensor_guard(tensor) for tensor in op.inputs]
        ((pred, way),) = guards[0] - guards[1]
        condition = (self._truths[pred], way)
        self._after[op] = self._dependencies(op)
        self._used_elsewhere.update((*op.inputs, *op.outputs))
        segment = self._segments.setdefault(self._after[op], Segment())
        node = self._info(op)
        first, second = (self._register[tensor] for tensor in op.inputs)
        value, index = (self._output(tensor) for tensor in op.outputs)
        if any(tensor in self._references for tensor in op.inputs):
            self._references.add(op.outputs[0])
        chosen = branches.select(condition, first, second, value)
        self._append(segment, chosen, node, (first, second), (value,))
        if op.outputs[1]._consumers or op.outputs[1] in self._returned:
            self._append(segment, branches.which(condition, index), node, (), (index,))

    # -- decisions --------------------------------------------------------------------------------

    def _decide(self, pred: Tensor) -> None:
        """From here on it is known whether `pred` holds."""
        known = self._constants.get(pred)
        if known is not None:
            self._truths[pred] = self._new_register(bool(known))
            return
        guard, self._guard = self._guard, self._structure.tensor_guard(pred)
        self._truths[pred] = target = self._new_register()
        after = frozenset() if pred in self._fed else self._after[pred.op]
        source = self._register[pred]
        segment = self._segments.setdefault(after, Segment())
        self._append(segment, branches.truth(source, target), self._info(pred.op), (source,))
        self._guard = guard

    def _conditions(self, guard: Guard) -> Conditions:
        """What to look at before an instruction under `guard` runs, but for the loop around."""
        found = [
            (self._truths[pred], way) for pred, way in guard if LOOP_COND not in pred.op.traits
        ]
        return tuple(sorted(found))

    def _append(
        self,
        segment: Segment,
        instruction: Instruction,
        node: NodeInfo,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...] = (),
        recipe: Recipe | None = None,
    ) -> None:
        """Append to the loop that is being compiled, or to `segment`: into a block that looks at the guard."""
        place = segment if self._loop is None else self._loop.block(self._guard)
        conditions = self._conditions(self._guard)
        if conditions:
            last = self._open.get(id(place))
            if last is None or last[0] != conditions:
                last = conditions, Block()
                self._put(place, branches.guarded(*last), node, (), ())
                self._open[id(place)] = last
            place = last[1]
        else:
            self._open.pop(id(place), None)
        self._put(place, instruction, node, inputs, outputs)

    def _put(
        self,
        place: Segment | Block,
        instruction: Instruction,
        node: NodeInfo,
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> None:
        place.instructions.append(instruction)
        place.nodes.append(node)
        place.inputs.append(inputs)
        if isinstance(place, Segment):
            place.outputs.append(outputs)
            place.computes = True

    @property
    def _repeats(self) -> bool:  # type: ignore[override]
        return self._loop is not None

    def _dependencies(self, op: Operation) -> frozenset[int]:
        return super()._dependencies(op) if self._loop is None else self._loop.after

    def _outputs(self, op: Operation, after: frozenset[int]) -> tuple[int, ...]:
        if self._loop is None and not self._guard:
            return super()._outputs(op, after)
        return tuple(self._output(tensor) for tensor in op.outputs)

    def _release(
        self, op: Operation, inputs: Sequence[Tensor], segment: Segment, node: NodeInfo
    ) -> None:
        if self._loop is None:
            super()._release(op, inputs, segment, node)

    def _add_waiter(
        self, op: Operation, spec: OpSpec, node: NodeInfo, after: frozenset[int], outputs: tuple[int, ...]
    ) -> None:  # fmt: skip
        if self._loop is not None or self._guard:
            raise Unstructured(f"{op.name!r} may wait inside a branch or loop")
        super()._add_waiter(op, spec, node, after, outputs)

    # -- results ----------------------------------------------------------------------------------

    def _require(self, tensor: Tensor) -> None:
        """A result that is on a branch is an error if that is not taken."""
        if tensor in self._fed:
            return
        if self._structure.made_in(tensor.op) is not self._structure.root:
            raise Unstructured(f"{tensor.name} is inside a loop")
        conditions = self._conditions(self._structure.tensor_guard(tensor))
        if conditions:
            self._guard = ALWAYS
            node = self._info(tensor.op)
            segment = self._segments.setdefault(self._after[tensor.op], Segment())
            self._append(segment, branches.required(conditions, tensor.name), node, ())

    def _return(self, tensor: Tensor) -> Return:
        self._used_elsewhere.add(tensor)
        return super()._return(tensor)

    # -- loops ------------------------------------------------------------------------------------

    def _add_loop(self, frame: Frame) -> None:
        outer = self._loop
        home = self._structure.root if outer is None else outer.frame
        for pred, made in self._preds.items():
            if made is home and pred not in self._truths and pred in self._register:
                self._decide(pred)
        after = self._entered_after(frame) if outer is None else outer.after
        self._loop = loop = _Loop(frame, after)
        starts = self._enter(frame)
        first = self._variables(frame)
        self._add_units(frame)
        assert frame.pred is not None
        self._guard = ALWAYS
        going = self._value_of(frame.pred, loop)
        node = self._info(frame.pred.op)
        nexts = [self._register[frame.next_of(merge)] for merge in frame.merges]
        work = branches.Loop(node, going, first, starts, nexts, loop.head, loop.body, loop.tail)
        self._loop = outer
        self._guard = frame.guard
        segment = self._segments.setdefault(after, Segment())
        self._append(segment, work.instruction(), node, ())

    def _entered_after(self, frame: Frame) -> frozenset[int]:
        found: set[int] = set()
        for op in frame.enters:
            found |= super()._dependencies(op)
        return frozenset(found)

    def _enter(self, frame: Frame) -> list[int]:
        """Name what comes in; returns where the loop variables start from."""
        for op in frame.enters:
            self._alias(op)
        return [self._register[frame.start_of(merge)] for merge in frame.merges]

    def _variables(self, frame: Frame) -> int:
        """Registers in a row for the loop variables; returns the first."""
        assert self._loop is not None
        first = len(self._template)
        for merge in frame.merges:
            value, index = merge.outputs
            if index._consumers or index in self._returned or value in self._fed:
                raise Unstructured(f"the loop variable {merge.name!r} is used in another way")
            self._after[merge] = self._loop.after
            self._register[value] = self._new_register()
            self._used_elsewhere.add(value)
            if value in self._refer:
                self._references.add(value)
        for merge in frame.merges:
            if self._preds.get(merge.outputs[0]) is frame:
                self._decide(merge.outputs[0])
        return first

    def _value_of(self, tensor: Tensor, loop: _Loop) -> int:
        """The register of `tensor`, or of its value if it is a reference."""
        register = self._register[tensor]
        if tensor not in self._references:
            return register
        loaded = self._new_register()
        node = self._info(tensor.op)
        self._put(loop.head, make.dereference(register, loaded), node, (register,), ())
        return loaded


def _flat(frame: Frame) -> Iterator[Operation]:
    """The nodes of `frame` and of the loops inside, in the order of its units."""
    for unit in frame.units:
        if isinstance(unit, Frame):
            yield from unit.enters
            yield from _flat(unit)
        else:
            yield unit
