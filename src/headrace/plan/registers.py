"""Registers: where values stand while a step runs, and when they are let go of.

A register is used again once nobody wants its value any more, by the same segment only: others may run in another
order.  What is large is forgotten at once.  What was fed is let go of as well: other tasks may wait for its memory.
A ufunc is given the array of its input for its result, if that was made by another ufunc, has this shape and type, and
only ufuncs look at it, this one last: of two arrays of ten floats one takes 220 ns, and 190 where it need not ask for
memory and that which it writes to is in the cache.  That goes for compiled source (`run.straight`).
What branches and loops make inside has registers of its own.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from headrace.base.traits import ALIASES, KEEPS_REFS
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import quick_scalar
from headrace.plan.cost_model import is_large
from headrace.plan.ir import BRANCH, DECIDE, LOAD, LOOP, NOTHING, RELEASE, STEP, Facts, Instr, Step
from headrace.plan.memoization import SHAPES
from headrace.plan.nesting import Loop, Required

_NOT_FRESH = frozenset((LOAD, DECIDE, BRANCH, LOOP, SHAPES))  # values of shapes are remembered
_OUT_BY_NAME = (np.maximum, np.minimum)  # NumPy takes no third array of these otherwise


def allot(step: Step) -> Step:
    """Numbers of values become those of registers."""
    return _Allotting(step).done()


def is_fresh(value: int, facts: Facts) -> bool:
    """Whether it was made in this step, and nobody else can have it."""
    maker = facts.maker(value)
    if maker is None or maker.what in _NOT_FRESH:
        return False
    if maker.waiter >= 0:
        return True
    if value in facts.values.references or facts.values.tensor(value)._dtype._is_ref_dtype:
        return False
    traits = maker.op.traits
    return bool(maker.body) or (ALIASES not in traits and KEEPS_REFS not in traits)


class _Allotting:
    def __init__(self, step: Step) -> None:
        self._step, self._facts, self._values = step, step.facts, step.values
        self._template: list[Any] = [None] * (step.values.num_args + 1)
        self._register: dict[int, int] = {n: n for n in range(step.values.num_args + 1)}
        self._free: dict[frozenset[int], list[int]] = {}
        self._last, self._home = self._last_uses()
        self._overwrites = step.request.optimize and not step.nests and step.request.xp is np

    def done(self) -> Step:
        step = self._step
        code: list[Instr] = []
        for instr in step.code:
            if instr.what in (BRANCH, LOOP):
                made = self._nesting(instr)
            else:
                inputs = tuple([self._of(value) for value in instr.inputs])
                made = instr.changed(
                    inputs=inputs, outputs=self._outputs(instr), values=instr.outputs
                )
                if isinstance(instr.detail, Required):
                    made.detail = self._required(instr.detail)
            code.append(made)
            self._let_go(instr, made, code)
        loaded = step.loaded
        if step.request.optimize:
            loaded = [each for each in loaded if not self._register.keys().isdisjoint(each[1])]
        step = step.with_code(code, [self._of(value) for value in step.results])
        step.loaded = [(op, tuple([self._of(v) for v in values])) for op, values in loaded]
        step.template = self._template
        return step

    # -- lifetimes ------------------------------------------------------------------------------------------------

    def _last_uses(self) -> tuple[dict[int, Instr], dict[int, frozenset[int]]]:
        """Of values that may be let go of: the last instruction that takes each, and the segment that it is made in."""
        values, results = self._values, self._facts.results
        last: dict[int, Instr] = {}
        home: dict[int, frozenset[int]] = dict.fromkeys(range(1, values.num_args + 1), NOTHING)
        elsewhere = set(results) | values.references
        elsewhere.add(STEP)
        for instr in self._step.code:
            after = instr.after
            for value in instr.inputs:
                if instr.waiter >= 0 or home.get(value) != after:
                    elsewhere.add(value)
                last[value] = instr
            if instr.waiter >= 0:
                after |= {instr.waiter}
            if instr.what not in (BRANCH, LOOP):
                for value in instr.outputs:
                    home[value] = after
        for value in elsewhere:
            last.pop(value, None)
        return last, home

    def _let_go(self, instr: Instr, made: Instr, code: list[Instr]) -> None:
        """After its last user a value's register is free; what is large is forgotten at once."""
        last = self._last
        gone = [value for value in dict.fromkeys(instr.inputs) if last.get(value) is instr]
        if not gone:
            return
        if self._overwrites and isinstance(instr.kernel, np.ufunc):
            made.over = self._overwritten(instr, gone)
        tensors = self._values.tensors
        large = [v for v in gone if (tensor := tensors[v]) is not None and is_large(tensor)]
        registers = [self._register[value] for value in gone]
        if large:
            outputs = tuple([self._register[value] for value in large])
            code.append(
                Instr(
                    instr.op, (), (), outputs, device=instr.device, after=instr.after, what=RELEASE
                )
            )
        self._free.setdefault(instr.after, []).extend(registers)

    def _overwritten(self, instr: Instr, gone: Iterable[int]) -> int:
        """The register of an input whose memory the result takes; -1: none."""
        kernel, tensors = instr.kernel, self._values.tensors
        assert isinstance(kernel, np.ufunc)
        if kernel.nout != 1 or len(instr.inputs) != kernel.nin or kernel in _OUT_BY_NAME:
            return -1
        out = self._values.tensor(instr.outputs[0])
        for value in gone:
            given = tensors[value]
            if given is None or given._raw != out._raw or given._dtype is not out._dtype:
                continue
            if _fits(given) and self._is_ufuncs_own(value):
                return self._register[value]
        return -1

    def _is_ufuncs_own(self, value: int) -> bool:
        """Whether a ufunc makes it, and only ufuncs look at it."""
        maker = self._facts.maker(value)
        makers = [] if maker is None else [maker, *self._facts.uses(value)]
        return bool(makers) and all(not each.body and _is_ufunc(each.op) for each in makers)

    # -- numbers --------------------------------------------------------------------------------------------------

    def _new(self, content: Any = None) -> int:
        self._template.append(content)
        return len(self._template) - 1

    def _of(self, value: int) -> int:
        """The register of a value; a constant's is made when somebody wants it."""
        register = self._register.get(value)
        if register is None:
            content = self._values.constants[value]
            if isinstance(content, np.ndarray):
                content = quick_scalar(content)
            register = self._register[value] = self._new(content)
        return register

    def _outputs(self, instr: Instr) -> tuple[int, ...]:
        """The registers of the outputs: one whose value nobody wants any more, for a single output."""
        outputs = instr.outputs
        if len(outputs) == 1 and instr.waiter < 0 and (free := self._free.get(instr.after)):
            registers = [free.pop()]
        else:
            registers = [self._new() for _ in outputs]
        self._register.update(zip(outputs, registers, strict=True))
        return tuple(registers)

    def _nesting(self, instr: Instr) -> Instr:
        """A branch or a loop: all that it makes has registers of its own."""
        detail = instr.detail
        if isinstance(detail, Loop):
            for value in detail.variables:  # in a row
                self._register[value] = self._new()
        bodies = []
        for body in instr.body:
            code = []
            for each in body.code:
                if each.what in (BRANCH, LOOP):
                    code.append(self._nesting(each))
                    continue
                inputs = tuple([self._of(value) for value in each.inputs])
                for value in each.outputs:
                    self._register[value] = self._new()
                outputs = tuple([self._register[value] for value in each.outputs])
                code.append(each.changed(inputs=inputs, outputs=outputs, values=each.outputs))
            bodies.append(body.with_code(code))
        if isinstance(detail, Loop):
            detail = Loop(
                self._of(detail.pred),
                [self._of(value) for value in detail.variables],
                [self._of(value) for value in detail.starts],
                [self._of(value) for value in detail.nexts],
            )
        else:
            detail = [(self._of(value), way) for value, way in detail]
        inputs = tuple([self._of(value) for value in instr.inputs])
        outputs = tuple([self._of(value) for value in instr.outputs])
        return instr.changed(
            inputs=inputs, outputs=outputs, body=tuple(bodies), detail=detail, values=instr.outputs
        )

    def _required(self, detail: Required) -> Required:
        conditions = [(self._of(value), way) for value, way in detail.conditions]
        return Required(conditions, detail.name)


def _is_ufunc(op: Operation) -> bool:
    spec = op.spec
    if spec is None or spec.bare is None:
        return False
    return isinstance(getattr(np, spec.bare), np.ufunc)


def _fits(tensor: Tensor) -> bool:
    """Whether it is an array of numbers, of known shape."""
    raw = tensor._raw
    return bool(raw) and None not in raw and tensor._dtype._base.np.kind in "fiubc"  # type: ignore[operator]
