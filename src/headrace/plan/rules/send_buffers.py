"""Send buffers: a product that leaves for another process is made in memory that both have.

The gradient of a layer's weights, say, on its way to the variables.  Made in memory of its own it would be copied, to
be sent, into pages that the receiver's processor has just read.
Called by: plan.passes.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet
from typing import Any, Final

from headrace.ops.linalg.products import multiplied_into
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.plan.ir import Facts, Instr
from headrace.plan.rules.group import Group, Match, Rule
from headrace.run.exec.instructions import Kernel
from headrace.run.state.shared_buffers import AVAILABLE, OutputPool

_FEWEST = 1 << 15  # bytes; what is smaller goes through the socket


def _match(product: Instr, facts: Facts, taken: AbstractSet[Instr]) -> Match | None:
    """A product that leaves the step, and may be worth it."""
    tensor = product.op.outputs[0]
    raw, kind = tensor._raw, tensor._dtype._base.np
    if product.outputs[0] not in facts.results or kind.kind != "f" or kind.itemsize < 4:
        return None
    if raw is not None and None not in raw and math.prod(raw) * kind.itemsize < _FEWEST:  # type: ignore[arg-type]
        return None
    return None if facts.step.request.placed else Match((product,), _build)


RULE: Final = Rule("send buffer", ("MatMul",) if AVAILABLE else (), _match, always=True)


def _build(group: Group) -> Kernel:
    op = group.root
    assert op.spec is not None
    pool = OutputPool()
    flip_a, flip_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows_at, columns_at = int(flip_a), int(not flip_b)
    multiply = bound_kernel(op, op.spec)
    a_at, b_at = group.inputs_of(group.members[0])

    def run(step: Any, *values: Any) -> Any:
        a, b = values[a_at], values[b_at]
        into = None
        if step.lends and a.ndim == b.ndim == 2:
            shape = a.shape[rows_at], b.shape[columns_at]
            if shape[0] * shape[1] * a.itemsize >= _FEWEST:
                into = pool.array(a.dtype, shape)
        found = multiply(a, b) if into is None else multiplied_into(into, a, b, flip_a, flip_b)
        if check.enabled:
            check.check_result(found, op, True)
        return found

    return run
