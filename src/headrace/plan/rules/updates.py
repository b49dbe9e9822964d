"""Updates: the product of two matrices that only an optimizer's update wants is made there, part by part.

The gradient of a layer's weights is as large as they are: made at once it goes out to memory and comes back.  A part of
it that is used as soon as it is made stays in the cache, and needs no room of its own.  Parts are those of the
product and blocks those of the update, so every element has the bits that it has op by op.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from headrace.base.traits import TAKES_PRODUCTS
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.product_parts import is_large_product
from headrace.ops.training.update_rules import Product, gradient_at
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.group import Group, Having, Match, Rule
from headrace.run.exec.instructions import Kernel

FEWEST = 1 << 15  # elements; a smaller gradient stays in the cache anyway


def _match(update: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """The update, and the product that is its gradient and nothing else."""
    product = product_for(update, facts, taken)
    return None if product is None else Match((product, update), _build)


def product_for(update: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Instr | None:
    """The product that is the gradient of an update and nothing else, if it is worth being made with it."""
    value = update.inputs[gradient_at(update.op)]
    product = facts.maker(value)
    if product is None or product.op.type != "MatMul" or product.controls or product in taken:
        return None
    if not facts.values.changing.isdisjoint(product.inputs) or not facts.is_for_one(value):
        return None
    return product if _is_worth_it(product.op.outputs[0]) else None


def _is_worth_it(product: Tensor) -> bool:
    raw, kind = product._raw, product._dtype._base.np
    if raw is None or None in raw or kind.kind != "f" or kind.itemsize < 4:
        return False
    return math.prod(raw) >= FEWEST  # type: ignore[arg-type]


RULE: Final = Rule("update", Having(TAKES_PRODUCTS), _match)


def _build(group: Group) -> Kernel:
    product, update = group.members
    assert update.op.spec is not None
    change = bound_kernel(update.op, update.op.spec)
    if check.enabled:
        change = check.checked_kernel(change, update.op, update.op.spec.single_output)
    flip_a, flip_b = product.op.attrs["transpose_a"], product.op.attrs["transpose_b"]
    a_at, b_at = group.inputs_of(product)
    given_at = group.inputs_of(update)
    grad_at = gradient_at(update.op)
    del given_at[grad_at]
    gives = bool(group.outputs)

    def at_once(values: Sequence[Any]) -> Sequence[Any] | None:
        a, b = values[a_at], values[b_at]
        x, y = a.T if flip_a else a, b.T if flip_b else b
        if not is_large_product(x, y):
            return None
        given = [values[at] for at in given_at]
        given.insert(grad_at, Product(x, y))
        found = change(*given)
        return (found,) if gives else ()

    return group.kernel(at_once)
