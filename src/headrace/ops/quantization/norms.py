"""Normalization of quantized images: by what each image has, or by a mean and a variance that are given.

Called by: imported graphs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/quantized_instance_norm.cc, quantized_batch_norm_op.cc)
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import qint32, quint8
from headrace.base.shapes import Shape, merge_sizes, text
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops.quantization.levels import (
    TYPES,
    Array,
    F,
    checked_scalars,
    checked_type,
    floats,
    integers,
    nearest,
    quantized,
    scalar_ends,
    with_range,
)

__all__: list[str] = []

_WIDE: Final = (F(-(1 << 20)), F(1 << 20))  # the range of what a batch norm gives
_IN_ONE: Final = 1 << 11  # levels of it


def _instance_shapes(c: ShapeContext) -> list[Shape]:
    scalar_ends(c, "x_min", "x_max")
    c.with_rank("x", 4)
    return with_range(c.shape("x"))


@op(
    "QuantizedInstanceNorm",
    inputs="x: T; x_min: float; x_max: float",
    outputs="y: T; y_min: float; y_max: float",
    attrs=f"T: {TYPES}; output_range_given: bool = false; given_y_min: float = 0.0; given_y_max: float = 0.0; "
    "variance_epsilon: float = 9.999999747378752e-06; min_separation: float = 0.0010000000474974513",
    shape=_instance_shapes,
)
def quantized_instance_norm_op(
    xp: Any,
    x: Array,
    x_min: Array,
    x_max: Array,
    *,
    T: dtypes.DType,
    output_range_given: bool,
    given_y_min: float,
    given_y_max: float,
    variance_epsilon: float,
    min_separation: float,
) -> Any:
    """x with mean 0 and variance 1 in every channel of every image; and the range of that, the given one or its own.

    x [n, h, w, c] quint8; ends [].
    Raises InvalidArgument (shapes, types, ranges that end before they begin).
    """
    checked_type("QuantizedInstanceNorm", T, quint8)
    checked_scalars(x_min=x_min, x_max=x_max)
    if x.ndim != 4:
        raise errors.invalid_argument(f"input must be 4-D: it has shape {text(x.shape)}")
    if not x_min < x_max:
        raise errors.invalid_argument(
            f"x_max must be larger than x_min: {float(x_max):g} and {float(x_min):g}"
        )
    if output_range_given and not given_y_min < given_y_max:
        raise errors.invalid_argument(
            f"given_y_max must be larger than given_y_min: {given_y_max:g} and {given_y_min:g}"
        )
    if not x.size:
        return x.copy(), np.asarray(F(given_y_min)), np.asarray(F(given_y_max))
    known = floats(integers(x, T), F(x_min), F(x_max), T).astype(np.float64)
    apart = known - known.mean((1, 2), keepdims=True)
    variance = np.square(apart).mean((1, 2), keepdims=True)
    value = (apart / np.sqrt(variance + variance_epsilon)).astype(F)
    low, high = F(given_y_min), F(given_y_max)
    if not output_range_given:
        low, high = value.min(), value.max()
        high = max(high, F(low + F(min_separation)))
    return quantized(nearest(value, low, high, T), T), np.asarray(low), np.asarray(high)


_VECTORS: Final = ("m", "v", "beta", "gamma")
_BATCH_INPUTS: Final = "; ".join(
    f"{name}: Tinput; {name}_min: float; {name}_max: float" for name in ("t", *_VECTORS)
)


def _batch_shapes(c: ShapeContext) -> list[Shape]:
    shape = c.with_rank("t", 4)
    assert shape is not None
    channels = shape[3]
    for name in _VECTORS:
        vector = c.with_rank(name, 1)
        assert vector is not None
        channels = merge_sizes(channels, vector[0], f"the channels of t and the size of {name}")
    return with_range((*shape[:3], channels))


@op(
    "QuantizedBatchNormWithGlobalNormalization",
    inputs=_BATCH_INPUTS,
    outputs="result: out_type; result_min: float; result_max: float",
    attrs=f"Tinput: {TYPES}; out_type: {TYPES}; variance_epsilon: float; scale_after_normalization: bool",
    shape=_batch_shapes,
)
def quantized_batch_norm_op(
    xp: Any,
    *given: Array,
    Tinput: dtypes.DType,
    out_type: dtypes.DType,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    """(t - m) / sqrt(v + epsilon), times gamma if asked for, plus beta: integers of 32 bits, of the range ±2**20.

    t [n, h, w, c] and m, v, beta, gamma [c]: quint8; ends [].  Raises InvalidArgument (shapes, types).
    """
    checked_type("QuantizedBatchNormWithGlobalNormalization", Tinput, quint8)
    checked_type("QuantizedBatchNormWithGlobalNormalization", out_type, qint32)
    names = ("input", "mean", "var", "beta", "gamma")
    for at, name in enumerate(names):
        checked_scalars(**{f"{name}_min": given[3 * at + 1], f"{name}_max": given[3 * at + 2]})
    t, vectors = given[0], given[3::3]
    if t.ndim != 4:
        raise errors.invalid_argument(f"input must be 4-dimensional{text(t.shape)}")
    for name, each in zip(names[1:], vectors, strict=True):
        if each.ndim != 1:
            raise errors.invalid_argument(f"{name} must be 1-dimensional{text(each.shape)}")
        if len(each) < 2 or len(each) != t.shape[3]:
            raise errors.invalid_argument(
                f"Must provide as many {name}s as the last dimension of the input tensor, and two or more: "
                f"{text(each.shape)} vs. {text(t.shape)}"
            )
    x, mean, variance, beta, gamma = (
        floats(integers(each, Tinput), F(low), F(high), Tinput)
        for each, low, high in zip(given[::3], given[1::3], given[2::3], strict=True)
    )
    scale = F(1) / np.sqrt(variance + F(variance_epsilon))
    if scale_after_normalization:
        scale = scale * gamma
    steps = nearest(scale, *_WIDE, qint32)
    product = nearest(x, *_WIDE, qint32) * steps
    scaled = np.sign(product) * (np.abs(product) // _IN_ONE)
    total = scaled + nearest(beta - mean * scale, *_WIDE, qint32)
    return quantized(total, qint32), np.asarray(_WIDE[0]), np.asarray(_WIDE[1])
