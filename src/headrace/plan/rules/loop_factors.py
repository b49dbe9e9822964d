"""Factors that a loop multiplies by again and again, transposed: they are laid out that way once.

The gradient of a recurrent layer's input is a product with its weights, transposed, in each iteration.  OpenBLAS packs
both factors anyway, but where the second one lies across it takes half as long again with its kernels for AVX-512.  So
a matrix that the loop does not change is copied the other way around, once it has been multiplied by a few times.
What is multiplied are the same numbers by the same kernel, once packed: products that OpenBLAS does not pack, and those
that are made in parts, are made as they were.
Called by: plan.passes.  Threads: any; what is copied belongs to a run of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.product_parts import LARGE
from headrace.ops.linalg.products import multiplied
from headrace.plan.ir import BRANCH, LOOP, NODE, WRITES, Instr, Step, instrs
from headrace.plan.nesting import closed
from headrace.plan.rules.group import Group, Match, joined, replaced
from headrace.run.exec.instructions import Kernel

FACTOR: Final = "turned factor"
TURNS: Final = "turns"

_AFTER = 4  # products; for fewer a copy does not pay
_PACKED = 1 << 20  # multiplications from which OpenBLAS packs both factors, with all of its kernels
_FEWEST = 8  # rows, and columns: with one it does not
_TILE = 16  # rows that are copied at once; of more, what is written to does not stay in the nearest cache


class Turned:
    """The transpose of a matrix, in one piece."""

    __slots__ = ("_before", "_made", "_of", "_times")

    def __init__(self) -> None:
        self._before: Any = None
        self._of: Any = None
        self._made: Any = None
        self._times = 0

    def of(self, matrix: Any) -> Any:
        """The transpose of the matrix, which nobody changes as long as it is asked for; a view of it at first."""
        if matrix is self._of:
            return self._made
        self._times += 1
        if self._times < _AFTER:
            return matrix.T
        self._of, self._made = matrix, _turned(matrix)
        return self._made


def _turned(matrix: Any) -> Any:
    """A copy of the transpose, a few rows at a time: NumPy goes along one of both arrays in steps of a row."""
    rows, columns = matrix.shape
    made = np.empty((columns, rows), matrix.dtype)
    for first in range(0, rows, _TILE):
        made[:, first : first + _TILE] = matrix[first : first + _TILE].T
    return made


def turn_factors(step: Step) -> Step:
    """The step whose loops have such factors laid out."""
    return _within(step) if step.nests else step


def _within(step: Step) -> Step:
    code: list[Instr] = []
    for instr in step.code:
        if instr.what in (BRANCH, LOOP):
            bodies = tuple([_within(body) for body in instr.body])
            if any(one is not other for one, other in zip(bodies, instr.body, strict=True)):
                instr = closed(instr.changed(body=bodies))
            if instr.what == LOOP:
                instr = _turning(instr, step, code)
        code.append(instr)
    changed = len(code) != len(step.code) or any(
        new is not old for new, old in zip(code, step.code, strict=True)
    )
    return step.with_code(code) if changed else step


def _turning(loop: Instr, step: Step, code: list[Instr]) -> Instr:
    """The loop with its products; who makes their factors is appended to `code`, before the loop."""
    body = loop.body[1]
    factors: dict[int, int] = {}
    groups: list[Instr] = []
    gone: set[Instr] = set()
    for instr in body.code:
        factor = _factor(instr, loop)
        if factor is None:
            continue
        if not factors and _writes(loop):
            return loop
        if factor not in factors:
            factors[factor] = step.values.new(None)
            code.append(_maker(instr, factors[factor], loop))
        groups.append(_group(instr, factors[factor], body))
        gone.add(instr)
    if not groups:
        return loop
    return closed(loop.changed(body=(loop.body[0], replaced(body, groups, gone), loop.body[2])))


def _factor(product: Instr, loop: Instr) -> int | None:
    """The second factor of a product that is transposed, if it comes from outside the loop."""
    if product.what != NODE or product.body or product.op.type != "MatMul":
        return None
    if not product.op.attrs["transpose_b"] or product.inputs[1] in loop.outputs:
        return None
    kind = product.op.outputs[0]._dtype._base.np
    return product.inputs[1] if kind.kind == "f" and kind.itemsize >= 4 else None


def _writes(loop: Instr) -> bool:
    """Whether something in the loop may change a variable that is a factor."""
    return any(
        each.effects & WRITES and not step.values.references.isdisjoint(each.inputs)
        for step in loop.body
        for each in instrs(step.code)
    )


def _maker(product: Instr, cell: int, loop: Instr) -> Instr:
    """The instruction that gives a new `Turned`."""
    return Instr(
        product.op, (), (), (cell,), device=loop.device, after=loop.after, what=TURNS, kernel=Turned
    )


def _group(product: Instr, cell: int, body: Step) -> Instr:
    """The product as a group, which takes the `Turned` as well."""
    group = joined(FACTOR, Match((product,), _building(cell)), body)
    (inner,) = group.body
    args = [*inner.args, cell]
    return group.changed(
        inputs=(*group.inputs, cell), body=(body.nested(inner.code, inner.results, args),)
    )


def _building(cell: int) -> Callable[[Group], Kernel]:
    def build(group: Group) -> Kernel:
        (product,) = group.members
        plain = group.plain()
        a_at, b_at = group.inputs_of(product)
        cell_at = group.places[cell]
        flip_a = product.op.attrs["transpose_a"]

        def run(step: Any, *values: Any) -> Any:
            a, b = values[a_at], values[b_at]
            if _is_packed(a.T if flip_a else a, b):
                return multiplied(np, a, values[cell_at].of(b), flip_a, False)
            return plain(step, values)[0]

        return run

    return build


def _is_packed(x: Any, y: Any) -> bool:
    """Whether x times the transpose of y is made by one call of BLAS, which packs both."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or not y.flags.c_contiguous:
        return False
    return bool(min(len(x), len(y)) >= _FEWEST and _PACKED <= len(x) * y.size < LARGE)
