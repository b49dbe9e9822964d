"""Convolutions, pooling and another size, of images of quantized numbers.

Called by: imported graphs, programs.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/quantized_conv_ops.cc, quantized_pooling_ops.cc,
quantized_resize_bilinear_op.cc)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import float32, qint8, qint32, quint8
from headrace.base.shapes import Shape
from headrace.base.traits import ALIASES, SHARES
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels import resampling
from headrace.ops._kernels.convolving import convolved
from headrace.ops._kernels.resampling import Linear
from headrace.ops._kernels.windows import static_out
from headrace.ops.image.resizing import check_centers, checked_size, resized_shape
from headrace.ops.nn.pooling import avg_pool_op, checked_ksize, max_pool_op
from headrace.ops.quantization.levels import (
    TYPES,
    Array,
    F,
    checked_scalars,
    checked_type,
    ends,
    integers,
    quantized,
    range_of_sums,
    rounded,
    scalar_ends,
    value_of_level,
    with_range,
    zero,
)

__all__ = ["quantized_avg_pool", "quantized_conv2d", "quantized_max_pool"]

Result = tuple[Array, Array, Array]
_PADDING: Final = "padding: {'SAME', 'VALID'}"
_SHARE_BITS: Final = 7  # of weights between pixels of 8 bits


# -- convolution ------------------------------------------------------------------------------


def _conv_shapes(c: ShapeContext) -> list[Shape]:
    x, filters = c.with_rank("input", 4), c.with_rank("filter", 4)
    scalar_ends(c, "min_input", "max_input", "min_filter", "max_filter")
    assert x is not None
    assert filters is not None
    if None not in (x[3], filters[2]) and x[3] != filters[2]:
        raise ValueError(
            f"Dimensions must be equal, but are {x[3]} and {filters[2]}: channels of input and filter"
        )
    strides, dilations = c.attr("strides"), c.attr("dilations")
    out = static_out(x[1:3], filters[:2], strides, c.attr("padding"), b"NHWC", dilations)
    return with_range((x[0], *out, filters[3]))


@op(
    "QuantizedConv2D",
    inputs="input: Tinput; filter: Tfilter; min_input: float; max_input: float; min_filter: float; max_filter: float",
    outputs="output: out_type; min_output: float; max_output: float",
    attrs=f"Tinput: {TYPES}; Tfilter: {TYPES}; out_type: {TYPES} = DT_QINT32; strides: list(int); {_PADDING}; "
    "dilations: list(int) = [1, 1, 1, 1]",
    shape=_conv_shapes,
    traits={SHARES},
)
def quantized_conv2d_op(
    xp: Any,
    x: Array,
    filters: Array,
    min_input: Array,
    max_input: Array,
    min_filter: Array,
    max_filter: Array,
    *,
    Tinput: dtypes.DType,
    Tfilter: dtypes.DType,
    out_type: dtypes.DType,
    strides: list[int],
    padding: bytes,
    dilations: list[int],
) -> Result:
    """Images x [n, h, w, c] with filters [fh, fw, c, m], as integers of 32 bits [n, h', w', m]; and their range.

    x quint8, filters quint8 or qint8; ends [].  What pads stands for 0.  With filters of qint8 the integer 0 stands for
    0 in both, and the filters' range has one level less.
    Raises InvalidArgument (shapes, types, attrs).
    """
    checked_type("QuantizedConv2D", Tinput, quint8)
    checked_type("QuantizedConv2D", Tfilter, quint8, qint8)
    checked_type("QuantizedConv2D", out_type, qint32)
    checked_scalars(
        min_input=min_input, max_input=max_input, min_filter=min_filter, max_filter=max_filter
    )
    if list(dilations) != [1, 1, 1, 1]:
        raise errors.invalid_argument(
            f"For now, dilations are 1 only: they are {list(dilations)}; dilate the filter with zeros"
        )
    if x.ndim == 4 == filters.ndim and x.shape[3] != filters.shape[2]:
        raise errors.invalid_argument(
            f"input and filter must have the same depth: {x.shape[3]} vs {filters.shape[2]}"
        )
    signed = Tfilter is qint8
    given, weights = (
        (integers(each, kind) - (0 if signed else zero(low, high, kind))).astype(np.float64)
        for each, low, high, kind in (
            (x, min_input, max_input, Tinput),
            (filters, min_filter, max_filter, Tfilter),
        )
    )
    made = convolved(given, weights, strides, padding, b"NHWC", dilations)
    level = value_of_level(min_input, max_input, Tinput)
    of_filter = value_of_level(min_filter, max_filter, Tfilter, symmetric=signed)
    whole = np.rint(made).astype(np.int64)
    return quantized(whole, qint32), *range_of_sums(level * of_filter)


# -- pooling ----------------------------------------------------------------------------------


def _pool_shapes(c: ShapeContext) -> list[Shape]:
    x, ksize = c.with_rank("input", 4), checked_ksize(c, 4)
    scalar_ends(c, "min_input", "max_input")
    assert x is not None
    out = static_out(x[1:3], ksize[1:3], c.attr("strides"), c.attr("padding"), b"NHWC", [1] * 4)
    return with_range((x[0], *out, x[3]))


def _pooled(
    name: str, x: Array, low: Array, high: Array, kind: dtypes.DType, **attrs: Any
) -> Result:
    checked_type(name, kind, quint8, qint8)
    checked_scalars(min_input=low, max_input=high)
    largest = name == "QuantizedMaxPool"
    kernel = (max_pool_op if largest else avg_pool_op).kernel
    assert kernel is not None
    numbers = integers(x, kind).astype(np.int32 if largest else np.float64)
    made = kernel(np, numbers, data_format=b"NHWC", **attrs)
    return quantized(made if largest else np.rint(made), kind), low, high


def _pool(name: str, doc: str) -> OpSpec:
    def kernel(
        xp: Any,
        x: Array,
        min_input: Array,
        max_input: Array,
        *,
        T: dtypes.DType,
        ksize: list[int],
        strides: list[int],
        padding: bytes,
    ) -> Result:
        attrs = {"ksize": ksize, "strides": strides, "padding": padding}
        return _pooled(name, x, min_input, max_input, T, **attrs)

    kernel.__doc__ = f"""{doc} under each window of x [n, h, w, c]: [n, h', w', c]; and the range, which stays.

    x quint8 or qint8; ends [].
    Raises InvalidArgument (shapes, types), Unimplemented (windows over batch or channels).
    """
    return op(
        name,
        inputs="input: T; min_input: float; max_input: float",
        outputs="output: T; min_output: float; max_output: float",
        attrs=f"T: {TYPES}; ksize: list(int); strides: list(int); {_PADDING}",
        shape=_pool_shapes,
        traits={ALIASES, SHARES},
    )(kernel)


quantized_avg_pool_op = _pool("QuantizedAvgPool", "The mean, halves to even,")
quantized_max_pool_op = _pool("QuantizedMaxPool", "The largest value")


# -- another size -----------------------------------------------------------------------------


def _resize_shapes(c: ShapeContext) -> list[Shape]:
    shape = resized_shape(c)
    scalar_ends(c, "min", "max")
    return with_range(shape)


@op(
    "QuantizedResizeBilinear",
    inputs="images: T; size: int32; min: float; max: float",
    outputs="resized_images: T; out_min: float; out_max: float",
    attrs="T: {quint8, qint32, float}; align_corners: bool = false; half_pixel_centers: bool = false",
    shape=_resize_shapes,
    traits={ALIASES},
)
def quantized_resize_bilinear_op(
    xp: Any,
    images: Array,
    size: Array,
    min: Array,
    max: Array,
    *,
    T: dtypes.DType,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Result:
    """images [n, h, w, c]; size [2] (height, width): [n, height, width, c]; and the range, which stays.

    Between pixels of 8 bits shares are multiples of 1/128; of 32 bits, the first 24 count.  Raises InvalidArgument.
    """
    check_centers(align_corners, half_pixel_centers)
    height, width = checked_size(images, size)
    checked_scalars(min=min, max=max)
    places = [
        (size, out, align_corners, half_pixel_centers)
        for size, out in zip(images.shape[1:3], (height, width), strict=True)
    ]
    if (height, width) == images.shape[1:3]:
        return images, min, max
    if T is float32:
        return resampling.bilinear(images, *places), min, max
    rows, columns = (resampling.linear(*each) for each in places)
    if T is quint8:
        return quantized(_between_bytes(integers(images, T), rows, columns), T), min, max
    numbers = integers(images, T).astype(F).astype(np.float64)
    wide = _between(_between(numbers, columns, 2), rows, 1)
    return quantized(np.clip(rounded(wide), *ends(T)).astype(np.int64), T), min, max


def _neighbours(x: Array, line: Linear, axis: int, share: Array) -> tuple[Array, Array, Array]:
    wide = share.reshape([-1 if at == axis else 1 for at in range(x.ndim)])
    return np.take(x, line.lower, axis=axis), np.take(x, line.upper, axis=axis), wide


def _between(x: Array, line: Linear, axis: int) -> Array:
    first, second, share = _neighbours(x, line, axis, line.share.astype(np.float64))
    found: Array = first + (second - first) * share
    return found


def _between_bytes(x: Array, rows: Linear, columns: Linear) -> Array:
    """int64: in fixed point; of the difference between two rows the whole part counts."""
    one = 1 << _SHARE_BITS
    across, down = ((line.share * F(one)).astype(np.int64) for line in (columns, rows))
    first, second, share = _neighbours(x, columns, 2, across)
    wide = first * one + (second - first) * share
    upper, lower, share = _neighbours(wide, rows, 1, down)
    difference = np.trunc((lower - upper) / one).astype(np.int64)
    found: Array = (upper + difference * share + one // 2) >> _SHARE_BITS
    return found


# -- as programs call them --------------------------------------------------------------------

Quantized = tuple[Tensor, Tensor, Tensor]


def quantized_conv2d(
    input: Any,
    filter: Any,
    min_input: Any,
    max_input: Any,
    min_filter: Any,
    max_filter: Any,
    strides: Sequence[int],
    padding: str,
    out_type: Any = qint32,
    dilations: Sequence[int] = (1, 1, 1, 1),
    name: str | None = None,
) -> Quantized:
    """A convolution of quantized images, and the range of what it gives; see the op.

    input [n, h, w, c] quint8; filter [fh, fw, c, m] quint8 or qint8.  Raises ValueError.
    """
    made: Quantized = quantized_conv2d_op(
        input,
        filter,
        min_input,
        max_input,
        min_filter,
        max_filter,
        strides=strides,
        padding=padding,
        out_type=out_type,
        dilations=list(dilations),
        name=name,
    )
    return made


def quantized_avg_pool(
    input: Any,
    min_input: Any,
    max_input: Any,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Quantized:
    """Means of windows of quantized images [n, h, w, c], and their range, which stays; see the op."""
    attrs = {"ksize": ksize, "strides": strides, "padding": padding}
    made: Quantized = quantized_avg_pool_op(input, min_input, max_input, **attrs, name=name)
    return made


def quantized_max_pool(
    input: Any,
    min_input: Any,
    max_input: Any,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Quantized:
    """Largest values of windows of quantized images [n, h, w, c], and their range, which stays; see the op."""
    attrs = {"ksize": ksize, "strides": strides, "padding": padding}
    made: Quantized = quantized_max_pool_op(input, min_input, max_input, **attrs, name=name)
    return made
