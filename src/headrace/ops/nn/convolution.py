"""Convolutions over images and volumes as ops, and their gradients, of which each is made of the others.

Called by: ops.nn.convolution_calls, library.layers.dense, programs.  Threads: any; gradients as graph.
Source: TF 1.15 core/ops/nn_ops.cc, core/kernels/conv_ops.cc, conv_grad_ops.cc; gradient nodes as 2.21
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.base import shapes
from headrace.base.shapes import Shape
from headrace.base.traits import NEVER_FAILS, SHARES
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.convolving import backprop_filter, backprop_input, convolved
from headrace.ops._kernels.windows import Array, channels_last, static_out
from headrace.ops.array.constants import checked_sizes
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import shape_n

__all__: list[str] = []

PADDING = "padding: {'SAME', 'VALID', 'EXPLICIT'}; explicit_paddings: list(int) = []"
_2D = f"strides: list(int); use_cudnn_on_gpu: bool = true; {PADDING}; data_format: {{'NHWC', 'NCHW'}} = 'NHWC'"
DILATIONS = "dilations: list(int) = [1, 1, 1, 1]"
_3D = (
    "strides: list(int) >= 5; padding: {'SAME', 'VALID'}; data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'; "
    "dilations: list(int) = [1, 1, 1, 1, 1]"
)


def attrs_of(op: Operation, names: Iterable[str]) -> dict[str, Any]:
    """Those that its gradients have as well."""
    return {name: op[name] for name in names}


def conv_shape(c: ShapeContext) -> Shape:
    """Static shape of a convolution, as far as the input's and the filter's are known."""
    data_format: bytes = c.attr("data_format")
    rank = len(data_format)
    x, filters = c.with_rank(0, rank), c.with_rank(1, rank)
    assert x is not None
    assert filters is not None
    last = channels_last(data_format)
    size, given = (x[1:-1], x[-1]) if last else (x[2:], x[1])
    _check_channels(c, given, filters[-2])
    out = static_out(
        size,
        filters[:-2],
        c.attr("strides"),
        c.attr("padding"),
        data_format,
        c.attr("dilations"),
        c.op.attrs.get("explicit_paddings", ()),
    )
    channels = filters[-1]
    if "Depthwise" in c.op.type:
        channels = None if None in filters[-2:] else filters[-2] * filters[-1]  # type: ignore[operator]
    return (x[0], *out, channels) if last else (x[0], channels, *out)


def _check_channels(c: ShapeContext, given: int | None, taken: int | None) -> None:
    if given is None or taken is None or given == taken:
        return
    if "Depthwise" in c.op.type or not taken or given % taken:
        says = f"the input has {given} channels, the filter takes {taken}"
        if "Depthwise" in c.op.type:
            shapes.merge_sizes(given, taken, says)
        raise ValueError(
            f"Depth of input ({given}) is not a multiple of input depth of filter ({taken}): {says}"
        )


@op(
    "Conv2D",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double, int32}}; {_2D}; {DILATIONS}",
    shape=conv_shape,
    traits={NEVER_FAILS, SHARES},
)
def conv2d_op(
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
    """Images x [n, h, w, c] with filters [fh, fw, c, m]: [n, h', w', m]; NCHW: channels second.

    Raises InvalidArgument if ranks or channels do not fit.
    """
    return convolved(x, filters, strides, padding, data_format, dilations, explicit_paddings)


def sizes_shape(c: ShapeContext) -> Shape:
    """Of a gradient: what the input that names sizes says, and for an input's the batch of dout."""
    rank = len(c.attr("data_format"))
    if "Input" not in c.op.type:
        sizes = c.shape_value("filter_sizes")
        if sizes is not None and len(sizes) != rank:
            raise ValueError(
                f"Shape must be rank {rank} but is rank {len(sizes)}: filter_sizes are {shapes.text(sizes)}"
            )
        return (None,) * rank if sizes is None else sizes
    dout = c.with_rank("out_backprop", rank)
    assert dout is not None
    sizes = c.shape_value("input_sizes")
    if sizes is not None and len(sizes) != rank:
        raise ValueError(
            f"{c.op.type} requires input_sizes to contain {rank} values, and not {len(sizes)}: {shapes.text(sizes)}"
        )
    if "Depthwise" not in c.op.type:
        made = dout[-1] if channels_last(c.attr("data_format")) else dout[1]
        filters = c.with_rank("filter", rank)
        assert filters is not None
        shapes.merge_sizes(
            made, filters[-1], "the gradient's channels and those that the filter makes"
        )
    return shapes.merge(sizes, (dout[0], *(None,) * (rank - 1)))


@op(
    "Conv2DBackpropInput",
    inputs="input_sizes: int32; filter: T; out_backprop: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double, int32}}; {_2D}; {DILATIONS}",
    shape=sizes_shape,
    traits={NEVER_FAILS, SHARES},
)
def conv2d_backprop_input_op(
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
    """The gradient of Conv2D with respect to its input, of shape input_sizes [4].

    Raises InvalidArgument if dout is not what Conv2D gives for that shape.
    """
    sizes = checked_sizes(input_sizes, "input_sizes")
    return backprop_input(
        sizes, filters, dout, strides, padding, data_format, dilations, explicit_paddings
    )


@op(
    "Conv2DBackpropFilter",
    inputs="input: T; filter_sizes: int32; out_backprop: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double}}; {_2D}; {DILATIONS}",
    shape=sizes_shape,
    traits={NEVER_FAILS, SHARES},
)
def conv2d_backprop_filter_op(
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
    """The gradient of Conv2D with respect to its filter, of shape filter_sizes [4].  Raises as Conv2DBackpropInput."""
    sizes = checked_sizes(filter_sizes, "filter_sizes")
    return backprop_filter(
        x, sizes, dout, strides, padding, data_format, dilations, explicit_paddings
    )


def gradients_of_gradients(
    conv: OpSpec, to_input: OpSpec, to_filter: OpSpec, attrs: Iterable[str]
) -> None:
    """Those of a convolution's gradients, which are each made of the other and the convolution."""

    @to_input.gradient
    def _(op: Operation, dout: Any) -> Any:
        _, filters, dy = op.inputs
        more = attrs_of(op, attrs)
        return (
            None,
            to_filter(dout, shape_of(filters), dy, **more),
            conv(dout, filters, **more),
        )

    @to_filter.gradient
    def _(op: Operation, dout: Any) -> Any:
        x, _, dy = op.inputs
        more = attrs_of(op, attrs)
        return (
            to_input(shape_of(x), dout, dy, **more),
            None,
            conv(x, dout, **more),
        )


def _gradients(conv: OpSpec, to_input: OpSpec, to_filter: OpSpec, *attrs: str) -> None:
    """Each of the three is made of the two others."""

    @conv.gradient
    def _(op: Operation, dout: Any) -> Any:
        x, filters = op.inputs
        sizes, more = shape_n([x, filters]), attrs_of(op, attrs)
        return (
            to_input(sizes[0], filters, dout, **more),
            to_filter(x, sizes[1], dout, **more),
        )

    gradients_of_gradients(conv, to_input, to_filter, attrs)


_gradients(
    conv2d_op,
    conv2d_backprop_input_op,
    conv2d_backprop_filter_op,
    "strides",
    "padding",
    "use_cudnn_on_gpu",
    "data_format",
    "dilations",
    "explicit_paddings",
)


# -- volumes ----------------------------------------------------------------------------------


@op(
    "Conv3D",
    inputs="input: T; filter: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double}}; {_3D}",
    shape=conv_shape,
    traits={NEVER_FAILS, SHARES},
)
def conv3d_op(
    xp: Any,
    x: Array,
    filters: Array,
    *,
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
) -> Any:
    """Volumes x [n, d, h, w, c] with filters [fd, fh, fw, c, m].  Raises as Conv2D."""
    return convolved(x, filters, strides, padding, data_format, dilations)


@op(
    "Conv3DBackpropInputV2",
    inputs="input_sizes: Tshape; filter: T; out_backprop: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double}}; {_3D}; Tshape: {{int32, int64}} = int32",
    shape=sizes_shape,
    traits={NEVER_FAILS, SHARES},
)
def conv3d_backprop_input_op(
    xp: Any,
    input_sizes: Array,
    filters: Array,
    dout: Array,
    *,
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
) -> Any:
    """The gradient of Conv3D with respect to its input, of shape input_sizes [5].  Raises as Conv2DBackpropInput."""
    sizes = checked_sizes(input_sizes, "input_sizes")
    return backprop_input(sizes, filters, dout, strides, padding, data_format, dilations)


@op(
    "Conv3DBackpropFilterV2",
    inputs="input: T; filter_sizes: int32; out_backprop: T",
    outputs="output: T",
    attrs=f"T: {{half, bfloat16, float, double}}; {_3D}",
    shape=sizes_shape,
    traits={NEVER_FAILS, SHARES},
)
def conv3d_backprop_filter_op(
    xp: Any,
    x: Array,
    filter_sizes: Array,
    dout: Array,
    *,
    strides: list[int],
    padding: bytes,
    data_format: bytes,
    dilations: list[int],
) -> Any:
    """The gradient of Conv3D with respect to its filter, of shape filter_sizes [5].  Raises as Conv2DBackpropInput."""
    sizes = checked_sizes(filter_sizes, "filter_sizes")
    return backprop_filter(x, sizes, dout, strides, padding, data_format, dilations)


_gradients(
    conv3d_op,
    conv3d_backprop_input_op,
    conv3d_backprop_filter_op,
    "strides",
    "padding",
    "data_format",
    "dilations",
)
