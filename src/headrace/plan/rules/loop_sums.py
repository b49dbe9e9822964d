"""Sums of loops: what an iteration adds to a sum that nothing else in the loop looks at is made beside it.

The gradient of a recurrent network's weights is such a sum: in each iteration of the gradient loop a product is made
and added, and the next iteration needs neither.  So the product and the sum are one instruction, which another thread
of the task's worker pool does while the loop goes on (`run.exec.beside`); the sum is waited for when the loop is over.
Each product and each sum is the one that the nodes make, in the same order: the bits are theirs.  Where there is no
other thread, the product is small, or so large that threads share it, it is made at once.
Called by: plan.passes.  Threads: any; a sum belongs to a run of its loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.product_parts import LARGE
from headrace.ops._kernels.scratch import scratch
from headrace.plan.ir import BRANCH, LOOP, NODE, Facts, Instr, Step
from headrace.plan.nesting import Loop, closed
from headrace.plan.rules.group import Group, Match, joined, replaced
from headrace.run.exec.beside import Beside, Later, settled
from headrace.run.exec.instructions import Kernel
from headrace.run.exec.worker_pool import hold_blas

SUM: Final = "sum beside"

_WORTH_IT = 1 << 20  # multiplications from which handing a product over costs less than it gives
_OF_EACH = 8  # multiplications for each element of the factors: below, memory is what takes time
_PRODUCT = 0  # slot of scratch memory


def sum_beside(step: Step) -> Step:
    """The step whose loops make such sums beside themselves."""
    return _within(step) if step.nests else step


def _within(step: Step) -> Step:
    code = []
    for instr in step.code:
        new = instr
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_within(body) for body in instr.body])
            if any(one is not other for one, other in zip(bodies, instr.body, strict=True)):
                new = instr.changed(body=bodies)
            if instr.what == LOOP:
                new = _summing(new)
        code.append(instr if new is instr else closed(new))
    changed = any(new is not old for new, old in zip(code, step.code, strict=True))
    return step.with_code(code) if changed else step


def _summing(loop: Instr) -> Instr:
    """The loop with the groups of its sums."""
    head, body, tail = loop.body
    detail: Loop = loop.detail
    read_first = {value for each in head.code for value in each.inputs} | {detail.pred}
    groups: list[Instr] = []
    gone: set[Instr] = set()
    sums: list[int] = []
    for variable, following in zip(detail.variables, detail.nexts, strict=True):
        if variable in read_first or variable in detail.nexts:
            continue
        members = _members(variable, following, body.facts)
        if members is not None and detail.nexts.count(following) == 1:
            groups.append(joined(SUM, Match(members, _building(variable)), body))
            gone.update(members)
            sums.append(variable)
    if not groups:
        return loop
    parts = (head, replaced(body, groups, gone), tail)
    return loop.changed(body=parts, detail=detail._replace(sums=sums))


def _members(variable: int, following: int, facts: Facts) -> tuple[Instr, Instr] | None:
    """The product, and the sum that makes `following` of it and `variable`, if nothing else in the body wants them."""
    total = facts.maker(following)
    if total is None or total.op.type not in ("Add", "AddV2") or not _is_plain(total, facts):
        return None
    if facts.uses(variable) != [total] or not facts.is_for_one(following):
        return None
    (value,) = [each for each in total.inputs if each != variable]
    product = facts.maker(value)
    if product is None or product.op.type != "MatMul" or not _is_plain(product, facts):
        return None
    kind = product.op.outputs[0]._dtype._base.np
    if kind.kind != "f" or kind.itemsize < 4 or not facts.is_for_one(value):
        return None
    return product, total


def _is_plain(instr: Instr, facts: Facts) -> bool:
    """Whether it is a node of values that nobody changes, so that it does not matter when it is computed."""
    if instr.what != NODE or instr.body or instr.controls:
        return False
    return facts.values.changing.isdisjoint(instr.inputs)


# -- running ----------------------------------------------------------------------------------------------------------


class ProductSum(Later):
    """A sum to which products of matrices are added, each as its two nodes do it."""

    __slots__ = ("_beside", "_own", "_total", "shape")

    def __init__(self, start: Any) -> None:
        """start: what the first product is added to; it is not changed."""
        self._total, self._own = start, False
        self._beside = Beside()
        self.shape = start.shape

    def add(self, x: Any, y: Any) -> None:
        """Add x times y, matrices of the sum's dtype, now or later.  May raise what an earlier one did."""
        hold_blas()
        self._beside.add(lambda: self._add(x, y))

    def _add(self, x: Any, y: Any) -> None:
        total = self._total
        product = np.matmul(x, y, out=scratch(_PRODUCT, self.shape, total.dtype))
        if self._own:
            np.add(total, product, out=total)
        else:
            self._total, self._own = np.add(total, product), True

    def value(self) -> Any:
        """See `Later`: the sum of all that was added."""
        self._beside.finish()
        return self._total


def _building(variable: int) -> Callable[[Group], Kernel]:
    """variable: the loop variable that is the sum."""

    def build(group: Group) -> Kernel:
        product, _ = group.members
        plain = group.plain()
        a_at, b_at = group.inputs_of(product)
        sum_at = group.places[variable]
        flip_a, flip_b = product.op.attrs["transpose_a"], product.op.attrs["transpose_b"]

        def run(step: Any, *values: Any) -> Any:
            total, a, b = values[sum_at], values[a_at], values[b_at]
            x, y = a.T if flip_a else a, b.T if flip_b else b
            if _fits(total, x, y):
                if total.__class__ is not ProductSum:
                    total = ProductSum(total)
                total.add(x, y)
                return total
            given = list(values)
            given[sum_at] = settled(total)
            return plain(step, given)[0]

        return run

    return build


def _fits(total: Any, x: Any, y: Any) -> bool:
    """Whether x times y is worth handing over, and goes into the sum as it is."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        return False
    rows, columns = x.shape[0], y.shape[1]
    work = rows * y.size
    if not _WORTH_IT <= work < LARGE or work < _OF_EACH * (x.size + y.size):
        return False
    return bool(total.shape == (rows, columns))
