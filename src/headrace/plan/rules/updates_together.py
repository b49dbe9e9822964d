"""Updates of several variables that nothing orders run as one instruction, each of them on one of the task's threads.

An optimizer changes every variable by itself, when all gradients are there.  To share one such update among threads
takes waking them and waiting for them, and short calls of NumPy, at each of which two threads wait for the interpreter
in turn; whole updates side by side hardly do.  An update that takes longer than what could be beside it is shared, as
it would be by itself.  A gradient that is a product of two matrices is made with its update (`plan.rules.updates`).
Each variable is changed by its own update alone, so it has the bits that it has one by one.
Called by: plan.passes.  Threads: any; each update holds the locks of its variables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from headrace.base import dtypes
from headrace.base.traits import TAKES_PRODUCTS
from headrace.graph.operation import Operation
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.product_parts import is_large_product
from headrace.ops.linalg.products import multiplied
from headrace.ops.training.update_rules import Product, gradient_at
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import NODE, Facts, Instr
from headrace.plan.rules import joint_updates
from headrace.plan.rules.group import Group, Having, Match, Rule
from headrace.plan.rules.updates import FEWEST, product_for
from headrace.plan.variables import Variables
from headrace.run.exec.instructions import Kernel
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.worker_pool import by_itself, parallel_for, size

_MULTIPLICATIONS: Final = 40
"""Of a product that take as long as what is done with an element of a variable or slot."""
_WORTH_SHARING: Final = 1 << 24
"""Multiplications, or what takes as long, for which it pays to wake a thread."""


def _match(root: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The update, and those before it that may as well run where it stands, if two or more of them are large."""
    found = _unordered(root, facts, taken)
    if sum(map(_is_large, found)) < 2:
        return None
    members = list(found)
    for update in found:
        product = product_for(update, facts, taken)
        if product is not None and product.what == NODE and not product.body:
            members.append(product)
    kept = [
        value
        for update in found
        for value in update.outputs
        if facts.uses(value) or value in facts.results
    ]
    return Match(members, _build, kept)


RULE: Final = Rule("updates", Having(TAKES_PRODUCTS), _match)


def _is_large(update: Instr) -> bool:
    raw = update.op.inputs[gradient_at(update.op)]._raw
    return raw is not None and None not in raw and math.prod(raw) >= FEWEST  # type: ignore[arg-type]


def _unordered(root: Instr, facts: Facts, taken: AbstractSet[Instr]) -> list[Instr]:
    """`root`, and the updates before it that have other variables, at which nothing between looks, and for which
    nothing there waits.  The joint update of small variables may stand between them.
    """
    variables = Variables(facts.step)
    found: list[Instr] = []
    seen: set[int | None] = set()
    own = {instr.op for instr in facts.step.code}
    awaited: set[Operation] = set()
    for instr in reversed(facts.step.code[: facts.place[root] + 1]):
        joins = instr not in taken and _may_join(instr, root, facts, variables)
        if joins and instr.op not in awaited and None not in seen:
            mine = [variables.of(value) for value in instr.inputs if variables.stands(value)]
            joins = seen.isdisjoint(mine) and len({*mine}) == len(mine)
            if joins:
                found.append(instr)
        other = not found or found[-1] is not instr
        if instr.effects and other and instr.what != joint_updates.RULE.name:
            break
        seen.update(variables.seen_by(instr))
        awaited |= _behind(instr.controls, own)
    return found


def _behind(controls: Sequence[Operation], own: AbstractSet[Operation]) -> set[Operation]:
    """These, and of those that are no instruction (a NoOp that stands for others) what they wait for."""
    found: set[Operation] = set()
    waiting = list(controls)
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            if op not in own:
                waiting += [*op.control_inputs, *[tensor.op for tensor in op.inputs]]
    return found


def _may_join(instr: Instr, root: Instr, facts: Facts, variables: Variables) -> bool:
    """Whether it is an update that may run where `root` stands: nobody wants it before, and it takes what will not
    have changed.
    """
    if TAKES_PRODUCTS not in instr.op.traits or instr.what != NODE or instr.body:
        return False
    if instr.kernel is not None or instr.detail is not None or instr.after != root.after:
        return False
    last = facts.place[root]
    if any(facts.place[user] <= last for value in instr.outputs for user in facts.users(value)):
        return False
    return all(
        variables.lives_on(value) is not None
        if variables.stands(value)
        else value not in facts.values.changing
        for value in instr.inputs
    )


# -- running ----------------------------------------------------------------------------------------------------------


class _Update:
    """One of them."""

    def __init__(self, group: Group, update: Instr, product: Instr | None) -> None:
        """product: its gradient, if that is made with it."""
        spec = update.op.spec
        assert spec is not None
        self._change = bound_kernel(update.op, spec)
        if check.enabled:
            self._change = check.checked_kernel(self._change, update.op, spec.single_output)
        self._node, self._grad = group.info(update), gradient_at(update.op)
        self._given = group.inputs_of(update)
        self._factors: Sequence[int] = ()
        self._flips = False, False
        self._maker = self._node
        if product is not None:
            self._maker = group.info(product)
            del self._given[self._grad]
            self._factors = group.inputs_of(product)
            attrs = product.op.attrs
            self._flips = attrs["transpose_a"], attrs["transpose_b"]
        self._of_each = _MULTIPLICATIONS * sum(map(_is_variable, update.op.inputs))

    def cost(self, values: Sequence[Any]) -> int:
        """In multiplications of a product; of what does not fit it may be anything."""
        if not self._factors:
            return int(values[self._given[self._grad]].size) * self._of_each
        x, y = self._matrices(values)
        return int(x.shape[0] * y.shape[-1]) * (int(x.shape[-1]) + self._of_each)

    def _matrices(self, values: Sequence[Any]) -> tuple[Any, Any]:
        a, b = (np.atleast_2d(values[at]) for at in self._factors)
        flip_a, flip_b = self._flips
        return a.T if flip_a else a, b.T if flip_b else b

    def run(self, step: Any, values: Sequence[Any]) -> None:
        """Raises what names its node, or that of the product."""
        given = [values[at] for at in self._given]
        if self._factors:
            x, y = self._matrices(values)
            fits = is_large_product(x, y)
            given.insert(self._grad, Product(x, y) if fits else self._gradient(step, values))
        try:
            self._change(*given)
        except Exception as error:
            shown = [each for each in given if each.__class__ is not Product]
            raise explain(error, self._node, shown, step) from cause(error)

    def _gradient(self, step: Any, values: Sequence[Any]) -> Any:
        """The product, as its node gives it."""
        a, b = (values[at] for at in self._factors)
        try:
            return multiplied(np, a, b, *self._flips)
        except Exception as error:
            raise explain(error, self._maker, (a, b), step) from cause(error)


def _is_variable(tensor: Tensor) -> bool:
    return tensor._dtype._is_ref_dtype or tensor._dtype is dtypes.resource


def _build(group: Group) -> Kernel:
    products = {each.outputs[0]: each for each in group.members if each.op.type == "MatMul"}
    members = [each for each in group.members if TAKES_PRODUCTS in each.op.traits]
    updates = [
        _Update(group, each, products.get(each.inputs[gradient_at(each.op)])) for each in members
    ]
    # An update gives the reference that it takes.
    refers = {each.outputs[0]: group.places[each.inputs[0]] for each in members if each.outputs}
    gives, single = [refers[value] for value in group.outputs], len(group.outputs) == 1
    held = [
        group.places[value]
        for each in members
        for value, tensor in zip(each.inputs, each.op.inputs, strict=True)
        if _is_variable(tensor)
    ]

    def run(step: Any, *values: Any) -> Any:
        costs = {each: each.cost(values) for each in updates}
        waiting, rest, threads = list(updates), sum(costs.values()), size()
        if len({id(values[at]) for at in held}) < len(held):
            rest = 0  # two names of one variable: in their order
        else:
            waiting.sort(key=costs.__getitem__, reverse=True)
        # One that the others would wait for is shared by itself.
        while waiting and (costs[waiting[0]] * threads > rest or rest < _WORTH_SHARING):
            rest -= costs[waiting[0]]
            waiting.pop(0).run(step, values)

        def alone(update: _Update) -> None:
            with by_itself():
                update.run(step, values)

        parallel_for(alone, waiting, products=True)
        found = [values[at] for at in gives]
        return found[0] if single else found

    return run
