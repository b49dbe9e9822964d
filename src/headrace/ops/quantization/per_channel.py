"""Quantized numbers of 32 bits in 8, where each channel has a range of its own: what convolutions per channel give.

Called by: imported graphs, programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/mkl_requantization_range_per_channel_op.cc,
mkl_requantize_per_channel_op.cc)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import qint8, qint32, quint8
from headrace.base.shapes import Shape, text
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.quantization.levels import (
    TYPES,
    Array,
    F,
    checked_scalars,
    checked_type,
    ends,
    integers,
    quantized,
    scalar_ends,
    with_range,
)

__all__: list[str] = []

_HALF: Final = F(1 << 31)
"""Levels of 32 bits on either side of 0."""


def _widths(x: Array, input_min: Array, input_max: Array) -> Array:
    """How far each channel's range reaches from 0, [channels].  Raises InvalidArgument."""
    if x.ndim != 4:
        raise errors.invalid_argument(
            f"Current per-channel requantization supports 4D tensors only, and the input has shape {text(x.shape)}"
        )
    channels = x.shape[3]
    for name, each in (("input_min", input_min), ("input_max", input_max)):
        if each.shape != (channels,):
            raise errors.invalid_argument(
                f"{name} has incorrect size, expected {channels} was {each.size}: it has shape {text(each.shape)}, and "
                "the input so many channels"
            )
    return np.maximum(np.abs(input_min), np.abs(input_max))


def _range_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("input_min", 1)
    c.with_rank("input_max", 1)
    return [(), ()]


@op(
    "RequantizationRangePerChannel",
    inputs="input: T; input_min: float; input_max: float",
    outputs="output_min: float; output_max: float",
    attrs=f"T: {TYPES} = DT_QINT32; clip_value_max: float",
    shape=_range_shapes,
)
def requantization_range_per_channel_op(
    xp: Any,
    x: Array,
    input_min: Array,
    input_max: Array,
    *,
    T: dtypes.DType,
    clip_value_max: float,
) -> Any:
    """The range that integers of 32 bits take over all channels: its ends [], the upper at most clip_value_max.

    x qint32 [batch, rows, columns, channels]; ends [channels].  Raises InvalidArgument (shapes, types).
    """
    checked_type("RequantizationRangePerChannel", T, qint32)
    widths = _widths(x, input_min, input_max)
    numbers = integers(x, qint32).reshape(-1, x.shape[3])
    reach = np.abs(numbers).max(axis=0, initial=0).astype(F)
    high = F(min((widths * reach / _HALF).max(initial=F(0)), F(clip_value_max)))
    low = -high if (numbers < 0).any() else F(0)
    return np.asarray(F(low)), np.asarray(high)


def _requantize_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("input_min", 1)
    c.with_rank("input_max", 1)
    scalar_ends(c, "requested_output_min", "requested_output_max")
    return with_range(c.shape("input"))


@op(
    "RequantizePerChannel",
    inputs="input: T; input_min: float; input_max: float; requested_output_min: float; requested_output_max: float",
    outputs="output: out_type; output_min: float; output_max: float",
    attrs=f"T: {TYPES} = DT_QINT32; out_type: {TYPES} = DT_QUINT8",
    shape=_requantize_shapes,
)
def requantize_per_channel_op(
    xp: Any,
    x: Array,
    input_min: Array,
    input_max: Array,
    requested_output_min: Array,
    requested_output_max: Array,
    *,
    T: dtypes.DType,
    out_type: dtypes.DType,
) -> Any:
    """Integers of 32 bits, of a range for each channel, as integers of 8 of the requested one; and that range.

    x qint32 [batch, rows, columns, channels]; out_type quint8 or qint8; ends [channels], requested ones [].
    Raises InvalidArgument (shapes, types).
    """
    checked_type("RequantizePerChannel", T, qint32)
    checked_type("RequantizePerChannel", out_type, quint8, qint8)
    low, high = requested_output_min, requested_output_max
    checked_scalars(requested_output_min=low, requested_output_max=high)
    widths = _widths(x, input_min, input_max)
    first, last = ends(out_type)
    with np.errstate(divide="ignore", invalid="ignore"):
        scales = F(last) * (widths / max(abs(F(low)), abs(F(high))) / _HALF)
        scaled = np.nan_to_num(integers(x, qint32).astype(F) * scales, nan=0.0)
    made = np.clip(np.rint(scaled), first, last)
    return quantized(made, out_type), low, high
