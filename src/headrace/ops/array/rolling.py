"""Roll: elements that leave at one end come in at the other.

Called by: programs, library.signal.  Threads: kernel any; gradient as graph.
Source: TF 1.15 core/kernels/roll_op.cc; nodes as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import errors, shapes
from headrace.base.shapes import Shape, text
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops.tables import make

__all__ = ["roll"]


def _shape(c: ShapeContext) -> Shape:
    shift, axis = c.with_rank_at_most("shift", 1), c.with_rank_at_most("axis", 1)
    shapes.merge(shift, axis)
    return c.with_rank_at_least("input", 1)


@op(
    "Roll",
    inputs="input: T; shift: Tshift; axis: Taxis",
    outputs="output: T",
    attrs="T: type; Tshift: {int32, int64}; Taxis: {int32, int64}",
    shape=_shape,
)
def roll(xp: Any, input: Any, shift: Any, axis: Any) -> Any:
    """input, moved by `shift` along `axis`, both a scalar or vectors of one length; several along one axis add up.

    Raises InvalidArgument on a scalar input, or an axis that it has not.
    """
    if input.ndim < 1:
        raise errors.invalid_argument("input must be 1-D or higher: a scalar has no axis")
    for name, value in (("shift", shift), ("axis", axis)):
        if value.ndim > 1:
            raise errors.invalid_argument(
                f"{name} must be a scalar or a 1-D vector. Found: {text(value.shape)}"
            )
    if shift.shape != axis.shape:
        raise errors.invalid_argument(
            f"shift and axis must have the same size: shapes {text(shift.shape)} and {text(axis.shape)}"
        )
    moved = np.zeros(input.ndim, np.int64)
    for by, at in zip(shift.reshape(-1).tolist(), axis.reshape(-1).tolist(), strict=True):
        where = at + input.ndim if at < 0 else at
        if not 0 <= where < input.ndim:
            raise errors.invalid_argument(
                f"axis {at} is out of range: the input has {input.ndim} dimensions"
            )
        moved[where] += by % max(input.shape[where], 1)
    if not input.size:
        return input.copy()
    return np.roll(input, tuple(moved.tolist()), tuple(range(input.ndim)))


@roll.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    return make.Roll(dout, -op.inputs[1], op.inputs[2]), None, None
