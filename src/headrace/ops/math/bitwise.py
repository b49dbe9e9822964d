"""Bitwise operations on integers.

Called by: operators (& | ^ ~ of integer tensors), users (tf.bitwise).  Threads: any.
Source: TF 1.15 core/kernels/cwise_op_bitwise_and.cc and its neighbours, population_count_op.cc
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base.traits import COMMUTATIVE, OF_RAGGED, OF_TWO_RAGGED, PER_RECORD
from headrace.graph.registry import op
from headrace.graph.shape_fns import broadcast, unchanged
from headrace.ops.tables import INTEGERS, binary, type_attr, unary

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "population_count",
    "right_shift",
]

bitwise_and = binary(
    "BitwiseAnd", "bitwise_and", INTEGERS, differentiable=False, traits={COMMUTATIVE, OF_TWO_RAGGED}
)
bitwise_or = binary(
    "BitwiseOr", "bitwise_or", INTEGERS, differentiable=False, traits={COMMUTATIVE, OF_TWO_RAGGED}
)
bitwise_xor = binary(
    "BitwiseXor", "bitwise_xor", INTEGERS, differentiable=False, traits={COMMUTATIVE, OF_TWO_RAGGED}
)
invert = unary(
    "Invert", "bitwise_invert", INTEGERS, traits={PER_RECORD, OF_RAGGED}, differentiable=False
)


def _shift(y: Any) -> Any:
    """Shifts are taken between 0 and the width of the type less 1, as TensorFlow clamps them."""
    return np.clip(y, 0, 8 * y.dtype.itemsize - 1)


@op(
    "LeftShift",
    inputs="x: T; y: T",
    outputs="z: T",
    attrs=type_attr(INTEGERS),
    shape=broadcast,
    differentiable=False,
    traits={OF_TWO_RAGGED},
)
def left_shift(xp: Any, x: Any, y: Any) -> Any:
    """x · 2^y; y is clamped to the width of the type less 1.  Raises InvalidArgument if shapes do not broadcast.

    Source: TF 1.15 core/kernels/cwise_op_left_shift.cc
    """
    return xp.bitwise_left_shift(x, _shift(y))


@op(
    "RightShift",
    inputs="x: T; y: T",
    outputs="z: T",
    attrs=type_attr(INTEGERS),
    shape=broadcast,
    differentiable=False,
    traits={OF_TWO_RAGGED},
)
def right_shift(xp: Any, x: Any, y: Any) -> Any:
    """x / 2^y towards -∞; y is clamped to the width of the type less 1.  Raises as LeftShift.

    Source: TF 1.15 core/kernels/cwise_op_right_shift.cc
    """
    return xp.bitwise_right_shift(x, _shift(y))


@op(
    "PopulationCount",
    inputs="x: T",
    outputs="y: uint8",
    attrs=type_attr(INTEGERS),
    shape=unchanged,
    differentiable=False,
)
def population_count(xp: Any, x: Any) -> Any:
    """The number of bits of x that are 1, in two's complement.

    Source: TF 1.15 core/kernels/population_count_op.cc
    """
    unsigned = x.view(f"u{x.dtype.itemsize}")
    return np.bitwise_count(unsigned).astype(np.uint8, copy=False)
