"""Quantized numbers of 32 bits in 8: the range that they need, and their levels in it.

Called by: imported graphs, programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/quantize_down_and_shrink_range.cc, requantize.cc, requantization_range_op.cc)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import qint8, qint32, quint8
from headrace.base.shapes import Shape
from headrace.base.traits import ALIASES
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.quantization.levels import (
    TYPES,
    Array,
    F,
    checked_scalars,
    checked_type,
    ends,
    floats,
    integers,
    nearest,
    quantized,
    scalar_ends,
    shifted,
    with_range,
)

__all__: list[str] = []


def _needed(numbers: Array, low: Array, high: Array) -> tuple[np.float32, np.float32]:
    """The ends of the range that values of 32 bits take, 0 included below."""
    first, last = ends(qint32)
    least = floats(numbers.min(initial=last), F(low), F(high), qint32)
    most = floats(numbers.max(initial=first), F(low), F(high), qint32)
    return min(F(least), F(0)), F(most)


def _shrinking_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "input_min", "input_max")
    return with_range(c.shape("input"))


@op(
    "QuantizeDownAndShrinkRange",
    inputs="input: Tinput; input_min: float; input_max: float",
    outputs="output: out_type; output_min: float; output_max: float",
    attrs=f"Tinput: {TYPES}; out_type: {TYPES}",
    shape=_shrinking_shapes,
)
def quantize_down_and_shrink_range_op(
    xp: Any,
    x: Array,
    input_min: Array,
    input_max: Array,
    *,
    Tinput: dtypes.DType,
    out_type: dtypes.DType,
) -> Any:
    """Integers of 32 bits as quint8 of the range that they take; and that range.

    x qint32 [...]; ends [].  Raises InvalidArgument (shapes, types).
    """
    checked_type("QuantizeDownAndShrinkRange", Tinput, qint32)
    checked_type("QuantizeDownAndShrinkRange", out_type, quint8)
    checked_scalars(input_min=input_min, input_max=input_max)
    numbers = integers(x, qint32)
    low, high = _needed(numbers, input_min, input_max)
    made = shifted(numbers, F(input_min), F(input_max), low, high)
    return quantized(made, quint8), np.asarray(low), np.asarray(high)


def _end_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "input_min", "input_max")
    return [(), ()]


@op(
    "RequantizationRange",
    inputs="input: Tinput; input_min: float; input_max: float",
    outputs="output_min: float; output_max: float",
    attrs=f"Tinput: {TYPES}",
    shape=_end_shapes,
)
def requantization_range_op(
    xp: Any, x: Array, input_min: Array, input_max: Array, *, Tinput: dtypes.DType
) -> Any:
    """The range that integers of 32 bits take: its ends [], the lower not above 0.

    x qint32 [...]; ends [].  Raises InvalidArgument (shapes, types).
    """
    checked_type("RequantizationRange", Tinput, qint32)
    checked_scalars(input_min=input_min, input_max=input_max)
    low, high = _needed(integers(x, qint32), input_min, input_max)
    return np.asarray(low), np.asarray(high)


def _requantize_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "input_min", "input_max", "requested_output_min", "requested_output_max")
    return with_range(c.shape("input"))


@op(
    "Requantize",
    inputs="input: Tinput; input_min: float; input_max: float; requested_output_min: float; "
    "requested_output_max: float",
    outputs="output: out_type; output_min: float; output_max: float",
    attrs=f"Tinput: {TYPES}; out_type: {TYPES}",
    shape=_requantize_shapes,
    traits={ALIASES},
)
def requantize_op(
    xp: Any,
    x: Array,
    input_min: Array,
    input_max: Array,
    requested_output_min: Array,
    requested_output_max: Array,
    *,
    Tinput: dtypes.DType,
    out_type: dtypes.DType,
) -> Any:
    """Integers of 32 bits as integers of 8 of the requested range; and that range.

    x qint32 [...]; out_type quint8 or qint8; ends [].  Raises InvalidArgument (shapes, types, a range above 0 or one
    that ends before it begins).
    """
    checked_type("Requantize", Tinput, qint32)
    checked_type("Requantize", out_type, quint8, qint8)
    low, high = requested_output_min, requested_output_max
    checked_scalars(
        input_min=input_min,
        input_max=input_max,
        requested_output_min=low,
        requested_output_max=high,
    )
    if low > 0:
        raise errors.invalid_argument(
            f"requested_output_min must be <= 0, but got {float(low):g}: 0 is a level of every range"
        )
    if high < low:
        raise errors.invalid_argument(
            f"requested_output_max must be >= requested_output_min, but got {float(high):g} and {float(low):g}"
        )
    numbers = integers(x, qint32)
    if out_type is quint8:
        made = shifted(numbers, F(input_min), F(input_max), F(low), F(high))
    else:
        value = floats(numbers, F(input_min), F(input_max), qint32)
        made = nearest(value, F(low), F(high), qint8)
    return quantized(made, out_type), low, high
