"""Folding: what follows from constants is computed when the plan is made.

Called by: plan.compile.  Threads: any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.base.traits import KEEPS_REFS
from headrace.graph.const_value import KERNEL_FAILURES
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan.binding import bound_kernel

_LARGEST = 1 << 20  # elements; more would hold memory for a value that is soon made


def from_constants(op: Operation, constants: Mapping[Tensor, Any], xp: Any) -> list[Any] | None:
    """The outputs of `op` if they follow from constants, else None.

    A kernel that fails is left to the step, which reports it.
    """
    spec = op.spec
    if spec is None or not spec.foldable or not op.inputs or op.inputs[0] not in constants:
        return None
    if spec.kernel is None or spec.takes_ctx or KEEPS_REFS in spec.traits:
        return None
    values = [constants.get(tensor) for tensor in op.inputs]
    if any(value is None or value.size > _LARGEST for value in values):
        return None
    try:
        with np.errstate(all="ignore"):
            result = bound_kernel(op, spec, xp)(*values)
    except KERNEL_FAILURES:
        return None
    found = [result] if spec.single_output else list(result)
    if any(np.size(value) > _LARGEST for value in found):
        return None
    return found
