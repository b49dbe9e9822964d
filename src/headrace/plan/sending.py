"""Results made where they are sent from: a product that leaves for another process is made in memory that both have.

The gradient of a layer's weights, say, on its way to the variables.  Made in memory of its own it would be copied, to
be sent, into pages that the receiver's processor has just read.
Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.ops.linalg.products import multiplied_into
from headrace.plan import check
from headrace.plan.binding import bound_kernel
from headrace.run.exec.program import Instruction, Registers
from headrace.run.state.shared_buffers import AVAILABLE, OutputPool

_FEWEST = 1 << 15  # bytes; what is smaller goes through the socket


def is_sent(op: Operation, returned: Iterable[Tensor], same: Mapping[Tensor, Tensor]) -> bool:
    """Whether it is a product that leaves the step, and may be worth it."""
    if op.type != "MatMul" or not AVAILABLE:
        return False
    (product,) = op.outputs
    raw, kind = product._raw, product._dtype._base.np
    if kind.kind != "f" or kind.itemsize < 4:
        return False
    if raw is not None and None not in raw and math.prod(raw) * kind.itemsize < _FEWEST:  # type: ignore[arg-type]
        return False
    return any(product is same.get(tensor, tensor) for tensor in returned)


def instruction(op: Operation, inputs: tuple[int, ...], out: int) -> Instruction:
    """registers[out] = the product of registers[inputs]."""
    assert op.spec is not None
    pool = OutputPool()
    flip_a, flip_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows_at, columns_at = int(flip_a), int(not flip_b)
    multiply = bound_kernel(op, op.spec, np)
    first, second = inputs

    def run(r: Registers) -> None:
        a, b = r[first], r[second]
        into = None
        if r[0].lends and a.ndim == b.ndim == 2:
            shape = a.shape[rows_at], b.shape[columns_at]
            if shape[0] * shape[1] * a.itemsize >= _FEWEST:
                into = pool.array(a.dtype, shape)
        found = multiply(a, b) if into is None else multiplied_into(into, a, b, flip_a, flip_b)
        if check.enabled:
            check.check_result(found, op, True)
        r[out] = found

    return run
