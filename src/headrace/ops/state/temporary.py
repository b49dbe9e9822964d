"""Temporary variables: references that live for a step, as graph optimizers and older programs make them.

Called by: GraphDefs that have the nodes.  Threads: the step's.
Source: TF 1.15 core/kernels/state_ops.cc; errors checked against the oracle.  Two of one name in a step are two
variables here; TensorFlow refuses the second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.base.traits import NEVER_FOLDED, STATEFUL
from headrace.graph.registry import op
from headrace.graph.shape_fns import from_attr, unchanged
from headrace.run.exec.kernel import KernelContext
from headrace.run.state.variable import Variable

__all__: list[str] = []


@op(
    "TemporaryVariable",
    outputs="ref: Ref(dtype)",
    attrs="shape: shape; dtype: type; var_name: string = ''",
    shape=from_attr("shape"),
    traits={STATEFUL},
    differentiable=False,
)
def temporary_variable(
    ctx: KernelContext, *, shape: TensorShape, dtype: DType, var_name: bytes
) -> Variable:
    """A new variable of the step, with zeros in it.  Raises InvalidArgument unless the shape is known."""
    sizes = shape._raw
    if sizes is None or not shapes.is_fully_defined(sizes):
        raise errors.invalid_argument(
            f"a temporary variable needs a fully defined shape, not {shapes.text(sizes)}"
        )
    variable = Variable(var_name.decode() or ctx.node.name, dtype, sizes)
    start: Any = b"" if dtype.np.hasobject else 0
    variable.assign(np.full(sizes, start, dtype.np))
    return variable


@op(
    "DestroyTemporaryVariable",
    inputs="ref: Ref(T)",
    outputs="value: T",
    attrs="T: type; var_name: string",
    shape=unchanged,
    traits={NEVER_FOLDED},
    differentiable=False,
)
def destroy_temporary_variable(xp: Any, ref: Variable, *, var_name: bytes) -> Any:
    """Its last value.  Raises NotFound if that is another variable's name."""
    if ref.name != var_name.decode():
        raise errors.not_found(
            f"the temporary variable at hand is named {ref.name!r}, not {var_name.decode()!r}"
        )
    return ref.snapshot()
