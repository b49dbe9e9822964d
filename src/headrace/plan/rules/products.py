"""Products: what follows one is done with a part of it, as soon as that part is made.

A product of two matrices and what is done with each element of it (a bias, an activation, the gradient of one) run as
one instruction: a part is made and changed where it lies, while it is in the cache, and parts are shared by the task's
threads.  Node by node the product goes out to memory and comes back, and one thread does the rest.  Parts are those of
the product and the kernels those of the nodes, so every element has the bits that it has node by node.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.ops._kernels.blocks import BLOCK, LARGE
from headrace.ops._kernels.product_parts import in_parts, is_large_product
from headrace.ops.linalg.products import multiplied
from headrace.plan.ir import SHAPES, Facts, Instr
from headrace.plan.rules.convolutions import Change, continues, match_of, may_join, may_wait
from headrace.plan.rules.elementwise import works_by_elements, writes_into
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel
from headrace.run.exec.worker_pool import parallel_for

Array = np.ndarray[Any, Any]
_FEWEST = 1 << 14  # elements of a product; what is smaller stays in the cache anyway


def _match(product: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The product and what follows it as long as nobody else wants more of that than its shape."""
    if not may_join(product, taken) or not _may_be_worth_it(product):
        return None
    members, shaped = [product], list[int]()
    while True:
        value = members[-1].outputs[0]
        users = facts.users(value)
        wanting = [user for user in users if user.what != SHAPES]
        if len(wanting) != 1 or value in facts.results:
            break
        if not continues(wanting[0], value, facts, taken, (0, 1, 2), works_by_elements):
            break
        if len(users) > 1:
            shaped.append(value)
        members.append(wanting[0])
    if len(members) == 1 or not all(may_wait(value, members[-1], facts) for value in shaped):
        return None
    return match_of(members, shaped, facts, _build)


def _may_be_worth_it(product: Instr) -> bool:
    raw = product.op.outputs[0]._raw
    return raw is None or None in raw or math.prod(raw) >= _FEWEST  # type: ignore[arg-type]


RULE: Final = Rule("products", ("MatMul",), _match)


def _build(group: Group) -> Kernel:
    return group.kernel(_Together(group).results, refuses=True)


# -- running ----------------------------------------------------------------------------------------------------------


class _Together:
    """A group run a part of the product at a time."""

    def __init__(self, group: Group) -> None:
        inputs = {value: place for place, value in enumerate(group.inputs)}
        product, *others = group.members
        self._a, self._b = group.inputs_of(product)
        attrs = product.op.attrs
        self._flips = attrs["transpose_a"], attrs["transpose_b"]
        self._steps: list[Change] = []
        for member in others:
            function = writes_into(member.op)
            assert function is not None
            self._steps.append((function, [inputs.get(value) for value in member.inputs]))
        self._beside = [at for _, places in self._steps for at in places if at is not None]
        # All outputs but the first are wanted for their shape, which is its own.
        self._count = len(group.outputs)

    def results(self, values: Sequence[Any]) -> list[Any] | None:
        """The group's outputs, or None where it has to run node by node."""
        a, b = values[self._a], values[self._b]
        if a.ndim != 2 or b.ndim != 2:
            return None
        x, y = a.T if self._flips[0] else a, b.T if self._flips[1] else b
        shape = x.shape[0], y.shape[1]
        for at in self._beside:
            if values[at].shape not in ((), shape[1:], shape):
                return None
        if is_large_product(x, y):
            change = lambda part, where: self._change(part, where, values)  # noqa: E731
            made = in_parts(x, y, x.shape[0] * y.size, None, then=change)
        else:
            made = multiplied(np, a, b, *self._flips)
            self._change_all(made, values)
        return [made] * self._count

    def _change_all(self, made: Array, values: Sequence[Any]) -> None:
        """What follows a product that was made at once."""
        every = slice(None)
        if made.size < LARGE:
            self._change(made, (every, every), values)
            return
        height = max(BLOCK // made.shape[1], 1)

        def some(first: int) -> None:
            rows = slice(first, first + height)
            self._change(made[rows], (rows, every), values)

        parallel_for(some, range(0, len(made), height))

    def _change(self, part: Array, where: tuple[slice, slice], values: Sequence[Any]) -> None:
        """Do what the nodes do, in place.  part: this much of the product."""
        for function, places in self._steps:
            given = [part if at is None else _cut(values[at], where) for at in places]
            function(*given, out=part)


def _cut(value: Any, where: tuple[slice, slice]) -> Any:
    """What belongs to a part of the product: of a matrix the same part, of a vector an element for each column."""
    rank = value.ndim
    return value[where] if rank == 2 else value[where[1]] if rank else value
