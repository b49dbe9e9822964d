"""tf.layers of images, sequences and volumes: convolutions with variables of their own.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour: variables ``conv2d/kernel`` and ``conv2d/bias``, nodes ``conv2d/Conv2D``, ``conv2d/BiasAdd``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.layers.base import layer_scope
from headrace.library.layers.parameters import (
    OfVariable,
    Parameters,
    check_rank,
    for_each,
    format_named,
    padding_named,
)
from headrace.library.nn.transposed import conv2d_transpose as transposed_of_images
from headrace.library.nn.transposed import conv3d_transpose as transposed_of_volumes
from headrace.library.variables.initializers import zeros_initializer
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.nn.convolution_calls import convolved_over_space
from headrace.ops.nn.convolution_calls import separable_conv2d as separated

__all__ = [
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "separable_conv1d",
    "separable_conv2d",
]


def _channels(values: Tensor, format_: str, layer: str) -> int:
    raw = values.raw_shape
    check_rank(values, len(format_), layer, least=raw is not None and len(raw) < len(format_))
    found = None if raw is None else raw[-1] if format_.endswith("C") else raw[1]
    if found is None:
        raise ValueError(
            f"The channel dimension of the inputs should be defined ({format_}), and {values.name} has shape "
            f"{values.shape}"
        )
    return found


class Convolving(NamedTuple):
    """How a convolution goes over space: an entry for each spatial dimension."""

    format: str
    window: list[int]
    strides: list[int]
    rate: list[int]
    padding: str

    @classmethod
    def over(cls, format: str, window: Any, strides: Any, rate: Any, padding: str) -> Convolving:
        """From what layers take: a number for all dimensions of space, or one for each.  Raises ValueError."""
        space = len(format) - 2
        return cls(
            format,
            for_each(window, space, "kernel_size"),
            for_each(strides, space, "strides"),
            for_each(rate, space, "dilation_rate"),
            padding_named(padding),
        )


def conv_in_scope(
    values: Tensor,
    filters: int,
    how: Convolving,
    parameters: Parameters,
    of_kernel: OfVariable,
    name: str,
    op_name: str | None = None,
) -> Tensor:
    """What a convolution makes within its scope; `name` is for errors, `op_name` that of its node."""
    kernel = parameters.variable(
        "kernel",
        [*how.window, _channels(values, how.format, name), filters],
        values.dtype.base_dtype,
        of_kernel,
    )
    outputs = convolved_over_space(
        values,
        convert(kernel),
        how.padding,
        how.strides,
        how.rate,
        how.format,
        op_name or f"Conv{len(how.window)}D",
    )
    return parameters.finished(outputs, filters, how.format)


def _layer(spatial: int) -> Callable[..., Tensor]:
    scope_name = f"conv{spatial}d"

    def layer(
        inputs: Any,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = zeros_initializer(),  # noqa: B008 (it has no state)
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        reuse: Any = None,
    ) -> Tensor:
        parameters = Parameters(
            activation,
            use_bias,
            (bias_initializer, bias_regularizer, bias_constraint),
            activity_regularizer,
            trainable,
        )
        how = Convolving.over(
            format_named(data_format, spatial), kernel_size, strides, dilation_rate, padding
        )
        values, of_kernel = (
            convert(inputs),
            (kernel_initializer, kernel_regularizer, kernel_constraint),
        )
        with layer_scope(name, scope_name, [values], reuse=reuse):
            return conv_in_scope(values, filters, how, parameters, of_kernel, name or scope_name)

    layer.__name__ = layer.__qualname__ = scope_name
    return layer


conv1d = _layer(1)
conv1d.__doc__ = """activation(convolution + bias) of sequences [n, w, c]: [n, w', filters]."""
conv2d = _layer(2)
conv2d.__doc__ = """activation(convolution + bias) of images [n, h, w, c]: [n, h', w', filters].

    kernel_size, strides, dilation_rate: a number or two.  Variables kernel [kh, kw, c, filters] and bias [filters].
    Raises ValueError if the number of channels is not known.
    """
conv3d = _layer(3)
conv3d.__doc__ = (
    """activation(convolution + bias) of volumes [n, d, h, w, c]: [n, d', h', w', filters]."""
)


def transposed_in_scope(
    values: Tensor,
    filters: int,
    how: Convolving,
    parameters: Parameters,
    of_kernel: OfVariable,
    name: str,
) -> Tensor:
    """What a transposed convolution makes within its scope; `name` is for errors."""
    kernel = parameters.variable(
        "kernel",
        [*how.window, filters, _channels(values, how.format, name)],
        values.dtype.base_dtype,
        of_kernel,
    )
    beyond = [
        max(w - s, 0) if how.padding == "VALID" else 0
        for w, s in zip(how.window, how.strides, strict=True)
    ]
    static, sizes = _stretched(values, how.strides, beyond, filters, how.format)
    make = transposed_of_images if len(how.window) == 2 else transposed_of_volumes
    outputs = make(values, kernel, stack(sizes), how.strides, how.padding, how.format)
    outputs.set_shape(static)
    return parameters.finished(outputs, filters, how.format)


def _transposed(spatial: int) -> Callable[..., Tensor]:
    scope_name = f"conv{spatial}d_transpose"

    def layer(
        inputs: Any,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = zeros_initializer(),  # noqa: B008 (it has no state)
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        reuse: Any = None,
    ) -> Tensor:
        parameters = Parameters(
            activation,
            use_bias,
            (bias_initializer, bias_regularizer, bias_constraint),
            activity_regularizer,
            trainable,
        )
        how = Convolving.over(format_named(data_format, spatial), kernel_size, strides, 1, padding)
        values, of_kernel = (
            convert(inputs),
            (kernel_initializer, kernel_regularizer, kernel_constraint),
        )
        with layer_scope(name, scope_name, [values], reuse=reuse):
            return transposed_in_scope(
                values, filters, how, parameters, of_kernel, name or scope_name
            )

    layer.__name__ = layer.__qualname__ = scope_name
    return layer


def _stretched(
    values: Tensor, steps: Sequence[int], beyond: Sequence[int], filters: int, format_: str
) -> tuple[list[int | None], list[Any]]:
    """The shape of a transposed convolution: as far as it is known, and with tensors where it is not."""
    raw, dynamic = values.raw_shape, shape_of(values)
    assert raw is not None
    first = 1 if format_.endswith("C") else 2
    static: list[int | None] = [raw[0]]
    sizes: list[Any] = [dynamic[0] if raw[0] is None else raw[0]]
    for axis, (step, more) in enumerate(zip(steps, beyond, strict=True), first):
        size = raw[axis]
        static.append(None if size is None else size * step + more)
        sizes.append(dynamic[axis] * step + more if size is None else static[-1])
    at = len(sizes) if first == 1 else 1
    static.insert(at, filters)
    sizes.insert(at, filters)
    return static, sizes


conv2d_transpose = _transposed(2)
conv2d_transpose.__doc__ = """What the convolution with a kernel [kh, kw, filters, c] turns into `inputs` [n, h, w, c]:
    [n, h', w', filters].

    h' = h · stride (same), or that and what the window reaches beyond the stride (valid).
    """
conv3d_transpose = _transposed(3)
conv3d_transpose.__doc__ = """As `conv2d_transpose`, for volumes [n, d, h, w, c]."""


def separable_in_scope(
    values: Tensor,
    filters: int,
    depth_multiplier: int,
    how: Convolving,
    parameters: Parameters,
    of_kernels: tuple[OfVariable, OfVariable],
    name: str,
) -> Tensor:
    """What a separable convolution makes within its scope; `name` is for errors."""
    channels, kind = _channels(values, how.format, name), values.dtype.base_dtype
    apart = parameters.variable(
        "depthwise_kernel", [*how.window, channels, depth_multiplier], kind, of_kernels[0]
    )
    points = parameters.variable(
        "pointwise_kernel",
        [*[1] * len(how.window), channels * depth_multiplier, filters],
        kind,
        of_kernels[1],
    )
    outputs = _separated(
        values, convert(apart), convert(points), how.strides, how.padding, how.rate, how.format
    )
    return parameters.finished(outputs, filters, how.format)


def _separable(spatial: int) -> Callable[..., Tensor]:
    scope_name = f"separable_conv{spatial}d"

    def layer(
        inputs: Any,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = zeros_initializer(),  # noqa: B008 (it has no state)
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        reuse: Any = None,
    ) -> Tensor:
        parameters = Parameters(
            activation,
            use_bias,
            (bias_initializer, bias_regularizer, bias_constraint),
            activity_regularizer,
            trainable,
        )
        how = Convolving.over(
            format_named(data_format, spatial), kernel_size, strides, dilation_rate, padding
        )
        values = convert(inputs)
        of_kernels = (
            (depthwise_initializer, depthwise_regularizer, depthwise_constraint),
            (pointwise_initializer, pointwise_regularizer, pointwise_constraint),
        )
        with layer_scope(name, scope_name, [values], reuse=reuse):
            return separable_in_scope(
                values, filters, depth_multiplier, how, parameters, of_kernels, name or scope_name
            )

    layer.__name__ = layer.__qualname__ = scope_name
    return layer


def _separated(
    values: Tensor,
    apart: Tensor,
    points: Tensor,
    strides: list[int],
    padding: str,
    rate: list[int],
    format_: str,
) -> Tensor:
    """The separable convolution; of sequences as of images of one line."""
    if len(rate) == 2:
        whole = [1, *strides, 1] if format_ == "NHWC" else [1, 1, *strides]
        return separated(values, apart, points, whole, padding, rate, data_format=format_)
    at, of_lines = (1, "NHWC") if format_ == "NWC" else (2, "NCHW")
    twice = (
        strides * 2
    )  # a depthwise convolution wants equal ones; along one line there is nothing to step over
    made = separated(
        expand_dims(values, at),
        expand_dims(apart, 0),
        expand_dims(points, 0),
        [1, *twice, 1] if at == 1 else [1, 1, *twice],
        padding,
        [1, *rate],
        data_format=of_lines,
    )
    return squeeze(made, [at])


separable_conv1d = _separable(1)
separable_conv1d.__doc__ = """As `separable_conv2d`, for sequences [n, w, c]: [n, w', filters]."""
separable_conv2d = _separable(2)
separable_conv2d.__doc__ = """activation(separable convolution + bias) of images [n, h, w, c]: [n, h', w', filters].

    Each channel by itself with depth_multiplier filters, then all channels of a place with each other.
    Variables depthwise_kernel [kh, kw, c, depth_multiplier], pointwise_kernel [1, 1, c · depth_multiplier, filters],
    bias [filters].
    """
