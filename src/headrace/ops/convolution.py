"""Convolutions: over images and volumes, per channel, and the gradients of the first.

A convolution is a sum over the positions of its filter: each contributes a product of a shifted, strided view of the
padded input with that position's matrix, so that nothing larger than the output is made.
Called by: ops.fused, programs.  Threads: any.
Source: TF 1.15 core/kernels/conv_ops.cc, conv_grad_ops.cc, depthwise_conv_op.cc; padding as
core/framework/common_shape_fns.cc
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, text
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext

__all__: list[str] = []

Array = np.ndarray[Any, Any]
Pads = list[tuple[int, int]]
_PADDING = "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []"
_2D = f"strides: list(int); use_cudnn_on_gpu: bool = true; {_PADDING}; data_format: {{'NHWC', 'NCHW'}} = 'NHWC'"
_DILATIONS = "dilations: list(int) = [1, 1, 1, 1]"
_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def channels_last(data_format: bytes) -> bool:
    """Whether channels are the last axis (NHWC, NDHWC) and not the second (NCHW, NCDHW)."""
    return data_format.endswith(b"C")


def to_last(x: Array, data_format: bytes) -> Array:
    """A view of `x` with the channels last."""
    return x if channels_last(data_format) else np.moveaxis(x, 1, -1)


def from_last(x: Array, data_format: bytes) -> Array:
    """The inverse of `to_last`."""
    return x if channels_last(data_format) else np.ascontiguousarray(np.moveaxis(x, -1, 1))


class Geometry:
    """Where the filter's positions lie.  All lists are of spatial dimensions.

    size: of the input.  window: of the filter.  Raises InvalidArgument where no output is left.
    """

    def __init__(
        self,
        size: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Pads,
    ) -> None:
        self.size, self.window, self.pads = tuple(size), tuple(window), pads
        self.strides, self.dilations = strides, dilations
        self.out = tuple(
            (n + sum(pad) - (w - 1) * d - 1) // s + 1
            for n, w, s, d, pad in zip(size, window, strides, dilations, pads, strict=True)
        )
        if any(n < 0 for n in self.out):
            raise errors.invalid_argument(
                f"a filter of {list(window)} (dilated by {list(dilations)}) is larger than the padded input, "
                f"{[n + sum(pad) for n, pad in zip(size, pads, strict=True)]}"
            )

    def padded(self, x: Array) -> Array:
        """`x` [n, *size, c] with zeros around it."""
        if not any(map(sum, self.pads)):
            return x
        return np.pad(x, [(0, 0), *self.pads, (0, 0)])

    def positions(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each position in the filter, with the slices of a padded [n, *size, c] that it meets."""
        for at in itertools.product(*map(range, self.window)):
            first = [a * d for a, d in zip(at, self.dilations, strict=True)]
            slices = [
                slice(f, f + (o - 1) * s + 1, s) if o else slice(0, 0)
                for f, o, s in zip(first, self.out, self.strides, strict=True)
            ]
            yield at, (slice(None), *slices, slice(None))

    def inside(self, padded: Array) -> Array:
        """What of a padded array is not padding."""
        slices = [slice(pad[0], pad[0] + n) for pad, n in zip(self.pads, self.size, strict=True)]
        return padded[(slice(None), *slices, slice(None))]


def geometry(
    size: Sequence[int], window: Sequence[int], strides: Sequence[int], padding: bytes, data_format: bytes,
    dilations: Sequence[int], explicit: Sequence[int] = (),
) -> Geometry:  # fmt: skip
    """The Geometry of a node's attrs, which have an entry per axis.

    Raises InvalidArgument for strides or dilations of the batch or the channels.
    """
    spatial = slice(1, -1) if channels_last(data_format) else slice(2, None)
    for name, attr in (("strides", strides), ("dilations", dilations)):
        if len(attr) != len(size) + 2 or np.prod(attr) != np.prod(attr[spatial]):
            raise errors.invalid_argument(
                f"{name} {list(attr)} must have {len(size) + 2} entries, 1 for the batch and the channels"
            )
    steps, spread = list(strides[spatial]), list(dilations[spatial])
    if padding == b"EXPLICIT":
        pairs = [(explicit[2 * i], explicit[2 * i + 1]) for i in range(len(explicit) // 2)]
        pads = pairs[spatial]
    elif padding == b"SAME":
        pads = [_same(*each) for each in zip(size, window, steps, spread, strict=True)]
    else:
        pads = [(0, 0)] * len(size)
    return Geometry(size, window, steps, spread, pads)


def _same(size: int, window: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after that gives ceil(size / stride) outputs; the odd one goes after."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def convolved(
    x: Array, filters: Array, strides: Sequence[int], padding: bytes, data_format: bytes,
    dilations: Sequence[int], explicit: Sequence[int] = (),
) -> Array:  # fmt: skip
    """x [n, *size, c] (or channels second) with filters [*window, c, m]: [n, *out, m] likewise."""
    _check_ranks(x, filters, data_format)
    given = to_last(_single(x), data_format)
    filters = _single(filters)
    if given.shape[-1] != filters.shape[-2]:
        raise errors.invalid_argument(
            f"the input has {given.shape[-1]} channels ({data_format.decode()} {text(x.shape)}), the filter "
            f"{text(filters.shape)} takes {filters.shape[-2]}"
        )
    where = geometry(
        given.shape[1:-1], filters.shape[:-2], strides, padding, data_format, dilations, explicit
    )
    padded = where.padded(given)
    out = np.zeros((len(x), *where.out, filters.shape[-1]), filters.dtype)
    for at, view in where.positions():
        out += padded[view] @ filters[at]
    return from_last(out.astype(x.dtype, copy=False), data_format)


def _single(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype in _NARROW else x


def _check_ranks(x: Array, filters: Array, data_format: bytes) -> None:
    rank = len(data_format)
    if x.ndim != rank or filters.ndim != rank:
        raise errors.invalid_argument(
            f"the input and the filter must have {rank} dimensions, not {text(x.shape)} and {text(filters.shape)}"
        )


def conv_shape(c: ShapeContext) -> Shape:
    """Static shape of a convolution, as far as the input's and the filter's are known."""
    data_format: bytes = c.attr("data_format")
    rank = len(data_format)
    x, filters = c.with_rank(0, rank), c.with_rank(1, rank)
    assert x is not None
    assert filters is not None
    last = channels_last(data_format)
    size = x[1:-1] if last else x[2:]
    known = None not in (*size, *filters[:-2])
    out: tuple[int | None, ...] = (None,) * (rank - 2)
    if known:
        explicit = c.op.attrs.get("explicit_paddings", ())
        where = geometry(
            size, filters[:-2], c.attr("strides"), c.attr("padding"), data_format, c.attr("dilations"), explicit  # type: ignore[arg-type]
        )  # fmt: skip
        out = where.out
    channels = filters[-1]
    if "Depthwise" in c.op.type:
        channels = None if None in filters[-2:] else filters[-2] * filters[-1]  # type: ignore[operator]
    return (x[0], *out, channels) if last else (x[0], channels, *out)


@op(
    "Conv2D",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double, int32}}; {_2D}; {_DILATIONS}",
    shape=conv_shape,
)
def conv2d_op(
    xp: Any, x: Array, filters: Array, *, strides: list[int], padding: bytes, explicit_paddings: list[int],
    data_format: bytes, dilations: list[int],
) -> Any:  # fmt: skip
    """Images x [n, h, w, c] with filters [fh, fw, c, m]: [n, h', w', m]; NCHW: channels second.

    Raises InvalidArgument if ranks or channels do not fit.
    """
    return convolved(x, filters, strides, padding, data_format, dilations, explicit_paddings)


@op(
    "Conv3D",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs="T: {half, bfloat16, float, double}; strides: list(int) >= 5; padding: {'SAME', 'VALID'}; "
    "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; dilations: list(int) = [1, 1, 1, 1, 1]",
    shape=conv_shape,
)
def conv3d_op(
    xp: Any, x: Array, filters: Array, *, strides: list[int], padding: bytes, data_format: bytes,
    dilations: list[int],
) -> Any:  # fmt: skip
    """Volumes x [n, d, h, w, c] with filters [fd, fh, fw, c, m].  Raises as Conv2D."""
    return convolved(x, filters, strides, padding, data_format, dilations)


def depthwise(
    x: Array, filters: Array, strides: list[int], padding: bytes, data_format: bytes, dilations: list[int],
    explicit: list[int],
) -> Array:  # fmt: skip
    """Each channel of x [n, h, w, c] with its filters [fh, fw, c, m]: [n, h', w', c * m]."""
    _check_ranks(x, filters, data_format)
    given = to_last(_single(x), data_format)
    filters = _single(filters)
    if given.shape[-1] != filters.shape[-2]:
        raise errors.invalid_argument(
            f"the input has {given.shape[-1]} channels, the filter {text(filters.shape)} is for {filters.shape[-2]}"
        )
    where = geometry(
        given.shape[1:-1], filters.shape[:-2], strides, padding, data_format, dilations, explicit
    )
    padded = where.padded(given)
    out = np.zeros((len(x), *where.out, *filters.shape[-2:]), filters.dtype)
    for at, view in where.positions():
        out += padded[view][..., None] * filters[at]
    flat = out.reshape(*out.shape[:-2], -1).astype(x.dtype, copy=False)
    return from_last(flat, data_format)


@op(
    "DepthwiseConv2dNative",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double}}; strides: list(int); {_PADDING}; "
    f"data_format: {{'NHWC', 'NCHW'}} = 'NHWC'; {_DILATIONS}",
    shape=conv_shape,
)
def depthwise_conv2d_op(
    xp: Any, x: Array, filters: Array, *, strides: list[int], padding: bytes, explicit_paddings: list[int],
    data_format: bytes, dilations: list[int],
) -> Any:  # fmt: skip
    """Each channel of images x [n, h, w, c] with its own filters [fh, fw, c, m]: [n, h', w', c * m].

    Raises as Conv2D.
    """
    return depthwise(x, filters, strides, padding, data_format, dilations, explicit_paddings)


# -- gradients --------------------------------------------------------------------------------


def _sizes_shape(c: ShapeContext) -> Shape:
    return c.shape_value("input_sizes" if c.op.type.endswith("Input") else "filter_sizes")


@op(
    "Conv2DBackpropInput",
    inputs="input_sizes: int32; filter: T; out_backprop: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double, int32}}; {_2D}; {_DILATIONS}",
    shape=_sizes_shape,
)
def conv2d_backprop_input_op(
    xp: Any, input_sizes: Array, filters: Array, dout: Array, *, strides: list[int], padding: bytes,
    explicit_paddings: list[int], data_format: bytes, dilations: list[int],
) -> Any:  # fmt: skip
    """The gradient of Conv2D with respect to its input, of shape input_sizes [4].

    Raises InvalidArgument if dout is not what Conv2D gives for that shape.
    """
    kind, sizes = dout.dtype, [int(n) for n in input_sizes]
    filters, dy = _single(filters), to_last(_single(dout), data_format)
    size = sizes[1:-1] if channels_last(data_format) else sizes[2:]
    where = geometry(
        size, filters.shape[:-2], strides, padding, data_format, dilations, explicit_paddings
    )
    _check_gradient(dy, where, filters.shape)
    padded_size = [n + sum(pad) for n, pad in zip(size, where.pads, strict=True)]
    padded = np.zeros((sizes[0], *padded_size, filters.shape[-2]), filters.dtype)
    for at, view in where.positions():
        padded[view] += dy @ filters[at].T
    return from_last(where.inside(padded).astype(kind), data_format)


@op(
    "Conv2DBackpropFilter",
    inputs="input: T; filter_sizes: int32; out_backprop: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double}}; {_2D}; {_DILATIONS}",
    shape=_sizes_shape,
)
def conv2d_backprop_filter_op(
    xp: Any, x: Array, filter_sizes: Array, dout: Array, *, strides: list[int], padding: bytes,
    explicit_paddings: list[int], data_format: bytes, dilations: list[int],
) -> Any:  # fmt: skip
    """The gradient of Conv2D with respect to its filter, of shape filter_sizes [4].  Raises as above."""
    kind, sizes = dout.dtype, [int(n) for n in filter_sizes]
    given, dy = to_last(_single(x), data_format), to_last(_single(dout), data_format)
    where = geometry(
        given.shape[1:-1], sizes[:-2], strides, padding, data_format, dilations, explicit_paddings
    )
    _check_gradient(dy, where, sizes)
    padded = where.padded(given)
    rows = dy.reshape(-1, dy.shape[-1])
    out = np.empty(sizes, dy.dtype)
    for at, view in where.positions():
        out[at] = padded[view].reshape(-1, sizes[-2]).T @ rows
    return out.astype(kind, copy=False)


def _check_gradient(dy: Array, where: Geometry, filters: Sequence[int]) -> None:
    if dy.shape[1:] != (*where.out, filters[-1]):
        raise errors.invalid_argument(
            f"the gradient {text(dy.shape)} (channels last) must be {text((len(dy), *where.out, filters[-1]))}, as "
            f"a filter {text(tuple(filters))} makes it of an input of {list(where.size)}"
        )
