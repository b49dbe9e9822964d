"""tf.Assert: a step fails unless a condition holds.

Called by: training's input producers, programs.  Threads: as graph; the kernel in any step's thread.
Source: TF 1.15 core/kernels/logging_ops.cc, python/ops/control_flow_ops.py; names as 2.21
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.traits import ASSERTS, KEEPS_NOTHING, STATEFUL
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.ops.flow.control_flow import cond
from headrace.ops.flow.identities import no_op
from headrace.ops.flow.printing import summary

__all__ = ["Assert"]


@op(
    "Assert",
    inputs="condition: bool; data: T",
    attrs="T: list(type) >= 1; summarize: int = 3",
    traits={STATEFUL, KEEPS_NOTHING, ASSERTS},
    differentiable=False,
)
def assert_op(xp: Any, condition: Any, *data: Any, summarize: int) -> None:
    """Nothing, if condition [] holds.

    Raises InvalidArgument with up to `summarize` elements of each of `data`.
    """
    if condition.ndim:
        raise errors.invalid_argument(
            f"The second input must be a scalar, but it has shape {list(condition.shape)}: that is the condition"
        )
    if not condition:
        shown = " ".join(f"[{summary(np.asarray(item), summarize)}]" for item in data)
        raise errors.invalid_argument(f"assertion failed: {shown}")


def Assert(
    condition: Any, data: Sequence[Any], summarize: int | None = None, name: str | None = None
) -> Operation:
    """An op that raises InvalidArgumentError with `data` in a step where `condition` is false.

    It has to be run: put it into tf.control_dependencies of what relies on it.
    """
    limit = 3 if summarize is None else summarize
    with name_scope(name, "Assert", data):
        kinds = {
            convert(item).dtype.base_dtype for item in data
        }  # constants of their own, as in TensorFlow's graphs
        if kinds <= {dtypes.string, dtypes.int32}:
            checked: Operation = assert_op(condition, list(data), summarize=limit, name="Assert")
            return checked
        holds = convert(condition, None, "Condition")

        def failing() -> Operation:
            made: Operation = assert_op(holds, list(data), summarize=limit, name="Assert")
            return made

        guarded: Operation = cond(holds, no_op, failing, name="AssertGuard").op
        return guarded
