"""Convolutions that keep the channels of images apart, and their gradients.

Called by: ops.nn.convolution_calls, ops.nn.fused, programs.  Threads: any; gradients as graph.
Source: TF 1.15 core/kernels/depthwise_conv_op.cc, depthwise_conv_grad_op.cc; gradient nodes as 2.21
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import text
from headrace.base.traits import NEVER_FAILS, SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.ops._kernels.convolving import check_ranks
from headrace.ops._kernels.depthwise_lines import (
    SHARED,
    has_short_weights,
    sums_by_lines,
    sums_of_products,
)
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.scratch import scratch
from headrace.ops._kernels.windows import (
    Array,
    Geometry,
    check_gradient,
    from_last,
    geometry,
    laid_last,
    to_last,
)
from headrace.ops.array.constants import checked_sizes
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.nn.convolution import (
    DILATIONS,
    PADDING,
    attrs_of,
    conv_shape,
    gradients_of_gradients,
    sizes_shape,
)
from headrace.run.exec.worker_pool import parallel_for

__all__: list[str] = []

_ATTRS = (
    f"T: {{half, bfloat16, float, double}}; strides: list(int); {PADDING}; "
    f"data_format: {{'NHWC', 'NCHW'}} = 'NHWC'; {DILATIONS}"
)
_FEW = 32  # channels, of which lines are summed up sooner than pixels
_SUMS = 8  # partial sums of a filter's gradient
_PADDED, _PRODUCT = 0, 1  # slots of scratch memory


def _prepared(
    x_shape: Sequence[int],
    filters: Sequence[int],
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
    explicit: list[int],
) -> Geometry:
    """x_shape: with the channels last.  Raises InvalidArgument if channels or attrs do not fit."""
    if x_shape[-1] != filters[-2]:
        raise errors.invalid_argument(
            f"input depth must be evenly divisible by filter depth: {x_shape[-1]} vs {filters[-2]}, and equal for the "
            f"filter {text(tuple(filters))}"
        )
    return geometry(x_shape[1:-1], filters[:-2], strides, padding, data_format, dilations, explicit)


def _images(count: int) -> list[slice]:
    return [slice(at, at + 1) for at in range(count)]


def depthwise(
    x: Array,
    filters: Array,
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
    explicit: list[int],
) -> Array:
    """Each channel of x [n, h, w, c] with its filters [fh, fw, c, m]: [n, h', w', c * m]."""
    check_ranks(x, filters, data_format)
    given, weights = laid_last(single(x), data_format), single(filters)
    where = _prepared(
        given.shape, filters.shape, strides, padding, data_format, dilations, explicit
    )
    if has_short_weights(where, weights):
        out = sums_of_products(given, weights, where)
    else:
        out = _place_by_place(given, weights, where)
    flat = out.reshape(*out.shape[:-2], math.prod(out.shape[-2:])).astype(x.dtype, copy=False)
    return from_last(flat, data_format)


def _place_by_place(given: Array, weights: Array, where: Geometry) -> Array:
    out = np.zeros((len(given), *where.out, *weights.shape[-2:]), weights.dtype)

    def part(images: slice) -> None:
        padded, total = where.padded(given[images]), out[images]
        product = scratch(_PRODUCT, total.shape, out.dtype)
        for at, view in where.positions():
            np.multiply(padded[view][..., None], weights[at], out=product)
            total += product

    parallel_for(part, _images(len(given)))
    return out


@op(
    "DepthwiseConv2dNative",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=conv_shape,
    traits={NEVER_FAILS, SHARES},
)
def depthwise_conv2d_op(
    xp: Any,
    x: Array,
    filters: Array,
    *,
    strides: list[int],
    padding: bytes,
    explicit_paddings: list[int],
    data_format: bytes,
    dilations: list[int],
) -> Any:
    """Each channel of images x [n, h, w, c] with its own filters [fh, fw, c, m]: [n, h', w', c * m].

    Raises InvalidArgument if ranks or channels do not fit.
    """
    return depthwise(x, filters, strides, padding, data_format, dilations, explicit_paddings)


def _split(dout: Array, filters: Sequence[int], where: Geometry, data_format: bytes) -> Array:
    """dout as [n, h', w', c, m].  Raises InvalidArgument if it is not what the convolution gives."""
    dy = laid_last(single(dout), data_format)
    check_gradient(dy, where, len(dy), filters[-2] * filters[-1])
    return dy.reshape(*dy.shape[:-1], *filters[-2:])


@op(
    "DepthwiseConv2dNativeBackpropInput",
    inputs="input_sizes: int32; filter: T; out_backprop: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=sizes_shape,
    traits={NEVER_FAILS, SHARES},
)
def depthwise_backprop_input_op(
    xp: Any,
    input_sizes: Array,
    filters: Array,
    dout: Array,
    *,
    strides: list[int],
    padding: bytes,
    explicit_paddings: list[int],
    data_format: bytes,
    dilations: list[int],
) -> Any:
    """The gradient of DepthwiseConv2dNative with respect to its input, of shape input_sizes [4].

    Raises InvalidArgument if dout is not what the convolution gives for that shape.
    """
    check_ranks(dout, filters, data_format)
    if np.shape(input_sizes) != (4,):
        raise errors.invalid_argument(
            f"input_sizes must have 4 elements, not {np.asarray(input_sizes).tolist()}"
        )
    weights = single(filters)
    like = to_last(
        np.broadcast_to(np.zeros((), weights.dtype), checked_sizes(input_sizes, "input_sizes")),
        data_format,
    )
    where = _prepared(
        like.shape, filters.shape, strides, padding, data_format, dilations, explicit_paddings
    )
    dy = _split(dout, filters.shape, where, data_format)
    back = where.reversed() if filters.shape[-1] == 1 else None
    if back is not None and has_short_weights(back, weights):
        turned = weights[::-1, ::-1]
        dx = sums_of_products(dy[..., 0], turned, back, backwards=True)[..., 0]
        return from_last(dx.astype(dout.dtype, copy=False), data_format)
    dx = np.empty(like.shape, weights.dtype)

    def part(images: slice) -> None:
        padded = scratch(_PADDED, (1, *where.padded_size, dx.shape[-1]), dx.dtype)
        padded[...] = 0
        for at, view in where.positions():
            padded[view] += np.einsum("nhwcm,cm->nhwc", dy[images], weights[at])
        dx[images] = where.inside(padded)

    parallel_for(part, _images(len(dx)))
    return from_last(dx.astype(dout.dtype, copy=False), data_format)


@op(
    "DepthwiseConv2dNativeBackpropFilter",
    inputs="input: T; filter_sizes: int32; out_backprop: T",
    outputs="output: T",
    attrs=_ATTRS,
    shape=sizes_shape,
    traits={NEVER_FAILS, SHARES},
)
def depthwise_backprop_filter_op(
    xp: Any,
    x: Array,
    filter_sizes: Array,
    dout: Array,
    *,
    strides: list[int],
    padding: bytes,
    explicit_paddings: list[int],
    data_format: bytes,
    dilations: list[int],
) -> Any:
    """The gradient of DepthwiseConv2dNative with respect to its filter, of shape filter_sizes [4].

    Raises as DepthwiseConv2dNativeBackpropInput.
    """
    check_ranks(x, dout, data_format)
    given, sizes = laid_last(single(x), data_format), checked_sizes(filter_sizes, "filter_sizes")
    if len(sizes) != 4:
        raise errors.invalid_argument(f"filter_sizes must have 4 elements, not {list(sizes)}")
    where = _prepared(
        given.shape, sizes, strides, padding, data_format, dilations, explicit_paddings
    )
    dy = _split(dout, sizes, where, data_format)
    shares = [slice(first, None, _SUMS) for first in range(min(_SUMS, len(given)))]
    sums = np.zeros((max(len(shares), 1), *sizes), dy.dtype)

    by_lines = sizes[3] == 1 and sizes[2] <= _FEW and where.strides[1] == 1 and dy.size > 0

    def share(number: int) -> None:
        if by_lines:
            sums[number] = sums_by_lines(given[shares[number]], dy[shares[number]], where)
            return
        padded, part = where.padded(given[shares[number]]), dy[shares[number]]
        for at, view in where.positions():
            sums[number][at] = np.einsum("nhwc,nhwcm->cm", padded[view], part)

    if math.prod(dy.shape[1:]) >= SHARED:
        parallel_for(share, range(len(shares)))
    else:
        for number in range(len(shares)):
            share(number)
    return sums.sum(axis=0).astype(dout.dtype, copy=False)


_GRADIENT_ATTRS = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


@depthwise_conv2d_op.gradient
def _(op: Operation, dout: Any) -> Any:
    x, filters = op.inputs
    attrs = attrs_of(op, _GRADIENT_ATTRS)
    return (
        depthwise_backprop_input_op(shape_of(x), filters, dout, **attrs),
        depthwise_backprop_filter_op(x, shape_of(filters), dout, **attrs),
    )


gradients_of_gradients(
    depthwise_conv2d_op, depthwise_backprop_input_op, depthwise_backprop_filter_op, _GRADIENT_ATTRS
)
