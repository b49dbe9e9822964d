"""Registers: where values stand while a step runs, and when they are let go of.

A register is used again once nobody wants its value any more, by the same segment only: others may run in another
order.  What is large is forgotten at once.  What was fed is let go of as well: other tasks may wait for its memory.
A ufunc is given the array of its input for its result, if that was made by another ufunc, has this shape and type, and
only ufuncs look at it, this one last: of two arrays of ten floats one takes 220 ns, and 190 where it need not ask for
memory and that which it writes to is in the cache.  That goes for compiled source (`run.exec.straight`).
What branches and loops make inside has registers of its own.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from headrace.base.traits import ALIASES, KEEPS_REFS
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import quick_scalar
from headrace.plan.cost_model import is_large
from headrace.plan.ir import (
    AHEAD,
    BRANCH,
    COPY,
    DECIDE,
    FUSED,
    LOAD,
    LOOP,
    NOTHING,
    RELEASE,
    SHAPES,
    SIZES,
    STEP,
    Facts,
    Instr,
    Step,
)
from headrace.plan.nesting import Loop

UNSTRETCHED: Final = "unstretched-pairs"
"""Groups that hand on what they get."""
ROW_VIEWS: Final = "row-views"
"""Groups that give a part of what they get."""
_NOT_FRESH = frozenset(
    (LOAD, AHEAD, DECIDE, BRANCH, LOOP, SHAPES, SIZES, FUSED, UNSTRETCHED, ROW_VIEWS)
)  # values of shapes are remembered
_OUT_BY_NAME = (np.maximum, np.minimum)  # NumPy takes no third array of these otherwise


def allot(step: Step) -> Step:
    """Each value has its register: `step.registers`."""
    return _Allotting(step).done()


def is_fresh(value: int, facts: Facts) -> bool:
    """Whether it was made in this step, and nobody else can have it."""
    maker = facts.maker(value)
    if maker is None or maker.what in _NOT_FRESH:
        return False
    if maker.waiter >= 0 or maker.what == COPY:
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
        self._last = self._last_uses()
        self._overwrites = step.request.optimize and not step.nests and not step.request.placed

    def done(self) -> Step:
        step, last, register = self._step, self._last, self._register
        code: list[Instr] = []
        for instr in step.code:
            gone = []
            for value in instr.inputs:
                if value not in register:
                    self._find(value)
                if last.get(value) is instr:
                    gone.append(value)
            if instr.what in (BRANCH, LOOP):
                self._nesting(instr)
            else:
                self._make(instr)
            code.append(instr)
            if gone:
                self._let_go(instr, gone, code)
        for value in step.results:
            self._find(value)
        loaded = step.loaded
        if step.request.optimize:
            loaded = [each for each in loaded if not register.keys().isdisjoint(each[1])]
        for _, values in loaded:
            for value in values:
                self._find(value)
        step = step.with_code(code)
        step.loaded, step.registers, step.template = loaded, register, self._template
        return step

    # -- lifetimes ------------------------------------------------------------------------------------------------

    def _last_uses(self) -> dict[int, Instr]:
        """The last instruction that takes each value, of those that may be let go of: none but one segment has them."""
        values = self._values
        last: dict[int, Instr] = {}
        made_in = defaultdict[frozenset[int], set[int]](set)  # values, by what they come after
        made_in[NOTHING].update(range(1, values.num_args + 1))
        elsewhere = {STEP, *self._facts.results, *values.references}
        for instr in self._step.code:
            after, waits = instr.after, instr.waiter >= 0
            inputs = {*instr.inputs}
            elsewhere |= inputs if waits else inputs - made_in[after]
            last.update(dict.fromkeys(inputs, instr))
            if waits:
                after |= {instr.waiter}
            if instr.what not in (BRANCH, LOOP):
                made_in[after].update(instr.outputs)
        for value in elsewhere:
            last.pop(value, None)
        return last

    def _let_go(self, instr: Instr, values: Sequence[int], code: list[Instr]) -> None:
        """After their last user the registers of values are free; what is large is forgotten at once."""
        tensors = self._values.tensors
        gone = dict.fromkeys(values)
        if self._overwrites and isinstance(instr.kernel, np.ufunc):
            instr.over = self._overwritten(instr, gone)
        free = self._free.setdefault(instr.after, [])
        large = []
        for value in gone:
            free.append(self._register[value])
            tensor = tensors[value]
            if tensor is not None and is_large(tensor):
                large.append(value)
        if large:
            code.append(
                Instr(
                    instr.op,
                    (),
                    (),
                    tuple(large),
                    device=instr.device,
                    after=instr.after,
                    what=RELEASE,
                )
            )

    def _overwritten(self, instr: Instr, gone: Iterable[int]) -> int:
        """The input whose memory the result takes; -1: none."""
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
                return value
        return -1

    def _is_ufuncs_own(self, value: int) -> bool:
        """Whether a ufunc makes it, and only ufuncs look at it."""
        maker = self._facts.maker(value)
        makers = [] if maker is None else [maker, *self._facts.uses(value)]
        return bool(makers) and all(not each.body and _is_ufunc(each.op) for each in makers)

    # -- numbers --------------------------------------------------------------------------------------------------

    def _new(self, value: int, content: Any = None) -> None:
        self._register[value] = len(self._template)
        self._template.append(content)

    def _find(self, value: int) -> None:
        """A value that no instruction makes: a constant's register is made when somebody wants it."""
        if value not in self._register:
            content = self._values.constants[value]
            self._new(value, quick_scalar(content) if isinstance(content, np.ndarray) else content)

    def _make(self, instr: Instr) -> None:
        """The registers of the outputs: one whose value nobody wants any more, for a single output."""
        outputs = instr.outputs
        if len(outputs) == 1 and instr.waiter < 0 and (free := self._free.get(instr.after)):
            self._register[outputs[0]] = free.pop()
            return
        for value in outputs:
            self._new(value)

    def _nesting(self, instr: Instr) -> None:
        """A branch or a loop: all that it makes has registers of its own, loop variables in a row."""
        if isinstance(instr.detail, Loop):
            for value in instr.detail.variables:
                self._new(value)
        for body in instr.body:
            for each in body.code:
                for value in each.inputs:
                    self._find(value)
                if each.what in (BRANCH, LOOP):
                    self._nesting(each)
                    continue
                for value in each.outputs:
                    self._new(value)


def _is_ufunc(op: Operation) -> bool:
    spec = op.spec
    if spec is None or spec.bare is None:
        return False
    return isinstance(getattr(np, spec.bare), np.ufunc)


def _fits(tensor: Tensor) -> bool:
    """Whether it is an array of numbers, of known shape."""
    raw = tensor._raw
    return bool(raw) and None not in raw and tensor._dtype._base.np.kind in "fiubc"  # type: ignore[operator]
