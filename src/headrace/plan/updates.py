"""Updates: the product of two matrices that only an optimizer's update wants is made there, part by part.

The gradient of a layer's weights is as large as they are: made at once it goes out to memory and comes back.  A part of
it that is used as soon as it is made stays in the cache, and needs no room of its own.  Parts are those of the
product and blocks those of the update, so every element has the bits that it has op by op.
Not for traced steps, which list every node.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops.linalg.products import is_large_product
from headrace.ops.training.update_rules import DENSE, Product
from headrace.plan import check
from headrace.plan.binding import bound_kernel, wants_reference
from headrace.run.exec.kernel import NodeInfo
from headrace.run.exec.outcome import cause, explain
from headrace.run.exec.program import Instruction, Registers

_FEWEST = 1 << 15  # elements; a smaller gradient stays in the cache anyway


class UpdateGroup:
    """A product and the update that it is the gradient of.

    inputs: those of the update, then the two factors; refers: those that are to be references.
    """

    def __init__(
        self, product: Operation, update: Operation, same: Mapping[Tensor, Tensor]
    ) -> None:
        self.ops = [product, update]
        self.root = update
        self.grad_at = DENSE[update.type]
        others = [same.get(t, t) for at, t in enumerate(update.inputs) if at != self.grad_at]
        self.inputs = [*others, *(same.get(t, t) for t in product.inputs)]
        assert update.spec is not None
        wanted = wants_reference(update, update.spec)
        self.refers = {t for t, refers in zip(update.inputs, wanted, strict=True) if refers}


def update_groups(
    ops: Sequence[Operation], controls: Mapping[Operation, Sequence[Operation]], fed: set[Tensor],
    returned: Iterable[Tensor], same: Mapping[Tensor, Tensor], changing: AbstractSet[Tensor],
    apart: Collection[Operation],
) -> list[UpdateGroup]:  # fmt: skip
    """Products and updates among `ops` that are worth it.  Arguments as those of `fuse.groups`."""
    found = []
    wanted: dict[Tensor, int] = {}
    for op in ops:
        if op.type not in DENSE:
            continue
        product = same.get(op.inputs[DENSE[op.type]], op.inputs[DENSE[op.type]]).op
        if product.type != "MatMul" or product in apart or controls.get(product):
            continue
        result = product.outputs[0]
        factors = [same.get(tensor, tensor) for tensor in product.inputs]
        if result in fed or not changing.isdisjoint(factors) or not _is_worth_it(result):
            continue
        if not wanted:
            wanted = _wanted(ops, returned, same)
        if wanted[result] == 1:
            found.append(UpdateGroup(product, op, same))
    return found


def _wanted(
    ops: Sequence[Operation], returned: Iterable[Tensor], same: Mapping[Tensor, Tensor]
) -> dict[Tensor, int]:
    """How many inputs and results each tensor is."""
    found: dict[Tensor, int] = {}
    used = [t for op in ops if not (op.outputs and op.outputs[0] in same) for t in op.inputs]
    for tensor in (*used, *returned):
        first = same.get(tensor, tensor)
        found[first] = found.get(first, 0) + 1
    return found


def _is_worth_it(product: Tensor) -> bool:
    raw, kind = product._raw, product._dtype._base.np
    if raw is None or None in raw or kind.kind != "f" or kind.itemsize < 4:
        return False
    return math.prod(raw) >= _FEWEST  # type: ignore[arg-type]


def instruction(
    group: UpdateGroup, registers: Sequence[int], out: int | None, nodes: Sequence[NodeInfo]
) -> Instruction:
    """Update; registers[out] = the reference, where the op gives one.  registers: of the group's inputs."""
    product, update = group.ops
    assert product.spec is not None
    assert update.spec is not None
    multiply, change = (bound_kernel(op, op.spec, np) for op in group.ops if op.spec is not None)
    if check.enabled:
        multiply = check.checked_kernel(multiply, product, True)
        change = check.checked_kernel(change, update, update.spec.single_output)
    flip_a, flip_b = product.attrs["transpose_a"], product.attrs["transpose_b"]
    at = group.grad_at

    def run(r: Registers) -> None:
        *given, a, b = [r[register] for register in registers]
        x, y = a.T if flip_a else a, b.T if flip_b else b
        grad: Any
        if is_large_product(x, y):
            grad = Product(x, y)
        else:
            try:
                grad = multiply(a, b)
            except Exception as error:  # becomes an error that names its node, as in run.program
                raise explain(error, nodes[0], [a, b], r[0]) from cause(error)
        given.insert(at, grad)
        found = change(*given)
        if out is not None:
            r[out] = found

    return run
