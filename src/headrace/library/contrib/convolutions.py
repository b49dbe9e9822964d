"""`tf.contrib.layers.conv2d` and its kin: convolutions, transposed and separable ones, and a bias by itself.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib: variables ``Conv/weights`` and ``Conv/biases``; tests compare nodes
with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.initializers import xavier_initializer
from headrace.library.contrib.layer_parts import (
    Collections,
    LayerParameters,
    as_layer,
    finished,
    layer_scope,
    normalized,
)
from headrace.library.contrib.layer_utils import (
    channel_dimension,
    get_variable_collections,
    last_dimension,
    two_element_tuple,
)
from headrace.library.contrib.variables import model_variable
from headrace.library.layers.convolutions import (
    Convolving,
    conv_in_scope,
    separable_in_scope,
    transposed_in_scope,
)
from headrace.library.variables.initializers import zeros_initializer
from headrace.ops.array.padding import tile
from headrace.ops.nn.activations import relu
from headrace.ops.nn.bias import bias_add as add_bias
from headrace.ops.nn.convolution_calls import depthwise_conv2d

__all__ = [
    "bias_add",
    "conv1d",
    "conv2d",
    "conv2d_in_plane",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "convolution",
    "convolution1d",
    "convolution2d",
    "convolution2d_in_plane",
    "convolution2d_transpose",
    "convolution3d",
    "convolution3d_transpose",
    "separable_conv2d",
    "separable_convolution2d",
]

_NAMES = {"kernel": "weights", "bias": "biases"}
_SEPARABLE = {
    "bias": "biases",
    "depthwise_kernel": "depthwise_weights",
    "pointwise_kernel": "pointwise_weights",
}
_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Callable[..., Any] | None = relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008 (it has no state)
    weights_regularizer: Any = None,
    biases_initializer: Any = zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    conv_dims: int | None = None,
) -> Any:
    """activation_fn(normalizer_fn(convolution)), or with biases, over one to three dimensions of space.

    inputs [n, …space, c]: outputs [n, …space', num_outputs]; data_format NCW, NCHW, NCDHW: channels second.
    rate: how far apart the places under the window are, which goes with a stride of 1 only.
    Biases are added if there is no normalizer and biases_initializer is not None.  conv_dims: how many dimensions of
    space there have to be.  Raises ValueError.
    """
    if data_format not in (None, *(name for pair in _FORMATS.values() for name in pair)):
        raise ValueError(f"Invalid data_format: {data_format!r}")
    with layer_scope(scope, "Conv", [inputs], reuse, _NAMES) as inner:
        values = convert(inputs)
        rank = values.shape.ndims
        if conv_dims is not None and conv_dims + 2 != rank:
            raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
        if rank not in (3, 4, 5):
            raise ValueError(f"Convolution not supported for input with rank {rank}")
        space = rank - 2
        format_ = _FORMATS[space][bool(data_format and data_format.startswith("NC"))]
        how = Convolving.over(format_, kernel_size, stride, rate, padding)
        parameters = LayerParameters(
            normalizer_fn,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            _NAMES,
        )
        of_weights = (weights_initializer, weights_regularizer, None)
        of_lines = "conv1d" if space == 1 else None
        with as_layer(inner):
            outputs = conv_in_scope(
                values, num_outputs, how, parameters, of_weights, inner.name, of_lines
            )
        outputs = normalized(outputs, normalizer_fn, normalizer_params)
        return finished(outputs, activation_fn, outputs_collections, inner)


def _of_space(space: int, says: str) -> Callable[..., Any]:
    def layer(
        inputs: Any,
        num_outputs: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: str = "SAME",
        data_format: str | None = None,
        rate: Any = 1,
        activation_fn: Callable[..., Any] | None = relu,
        normalizer_fn: Callable[..., Any] | None = None,
        normalizer_params: Mapping[str, Any] | None = None,
        weights_initializer: Any = xavier_initializer(),  # noqa: B008 (it has no state)
        weights_regularizer: Any = None,
        biases_initializer: Any = zeros_initializer(),  # noqa: B008
        biases_regularizer: Any = None,
        reuse: Any = None,
        variables_collections: Collections = None,
        outputs_collections: Any = None,
        trainable: bool = True,
        scope: Any = None,
    ) -> Any:
        return convolution(
            inputs,
            num_outputs,
            kernel_size,
            stride,
            padding,
            data_format,
            rate,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            weights_initializer,
            weights_regularizer,
            biases_initializer,
            biases_regularizer,
            reuse,
            variables_collections,
            outputs_collections,
            trainable,
            scope,
            conv_dims=space,
        )

    layer.__name__ = layer.__qualname__ = f"convolution{space}d"
    layer.__doc__ = says
    return add_arg_scope(layer)


convolution1d = conv1d = _of_space(1, "`convolution` of sequences [n, w, c]: [n, w', num_outputs].")
convolution2d = conv2d = _of_space(
    2, "`convolution` of images [n, h, w, c]: [n, h', w', num_outputs]."
)
convolution3d = conv3d = _of_space(
    3, "`convolution` of volumes [n, d, h, w, c]: [n, d', h', w', num_outputs]."
)


def _transposed(space: int, usual: str) -> Callable[..., Any]:
    def layer(
        inputs: Any,
        num_outputs: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: str = "SAME",
        data_format: str = usual,
        activation_fn: Callable[..., Any] | None = relu,
        normalizer_fn: Callable[..., Any] | None = None,
        normalizer_params: Mapping[str, Any] | None = None,
        weights_initializer: Any = xavier_initializer(),  # noqa: B008 (it has no state)
        weights_regularizer: Any = None,
        biases_initializer: Any = zeros_initializer(),  # noqa: B008
        biases_regularizer: Any = None,
        reuse: Any = None,
        variables_collections: Collections = None,
        outputs_collections: Any = None,
        trainable: bool = True,
        scope: Any = None,
    ) -> Any:
        if data_format not in _FORMATS[space]:
            raise ValueError(f"data_format has to be either {' or '.join(_FORMATS[space][::-1])}.")
        with layer_scope(scope, f"Conv{space}d_transpose", [inputs], reuse, _NAMES) as inner:
            values = convert(inputs)
            how = Convolving.over(data_format, kernel_size, stride, 1, padding)
            parameters = LayerParameters(
                normalizer_fn,
                biases_initializer,
                biases_regularizer,
                trainable,
                variables_collections,
                _NAMES,
            )
            of_weights = (weights_initializer, weights_regularizer, None)
            with as_layer(inner):
                outputs = transposed_in_scope(
                    values, num_outputs, how, parameters, of_weights, inner.name
                )
            outputs = normalized(outputs, normalizer_fn, normalizer_params)
            return finished(outputs, activation_fn, outputs_collections, inner)

    layer.__name__ = layer.__qualname__ = f"convolution{space}d_transpose"
    layer.__doc__ = f"What the convolution over {space} dimensions turns into `inputs`, activated."
    return add_arg_scope(layer)


convolution2d_transpose = conv2d_transpose = _transposed(2, "NHWC")
convolution3d_transpose = conv3d_transpose = _transposed(3, "NDHWC")


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Callable[..., Any] | None = relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008 (it has no state)
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """Each channel by itself with depth_multiplier filters, then all channels of a place with each other.

    num_outputs: None leaves the second part out.  Raises ValueError.
    """
    if data_format not in _FORMATS[2]:
        raise ValueError("data_format has to be either NCHW or NHWC.")
    if pointwise_initializer is None:
        pointwise_initializer = weights_initializer
    with layer_scope(scope, "SeparableConv2d", [inputs], reuse, _SEPARABLE) as inner:
        values = convert(inputs)
        parameters = LayerParameters(
            normalizer_fn,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            _SEPARABLE if num_outputs is not None else {},
        )
        how = Convolving.over(data_format, kernel_size, stride, rate, padding)
        if num_outputs is None:
            of_weights = (weights_initializer, weights_regularizer, None)
            outputs = _depthwise(values, depth_multiplier, how, parameters, of_weights)
        else:
            of_each = (
                (weights_initializer, weights_regularizer, None),
                (pointwise_initializer, weights_regularizer, None),
            )
            with as_layer(inner):
                outputs = separable_in_scope(
                    values, num_outputs, depth_multiplier, how, parameters, of_each, inner.name
                )
        outputs = normalized(outputs, normalizer_fn, normalizer_params)
        return finished(outputs, activation_fn, outputs_collections, inner)


separable_conv2d = separable_convolution2d


def _depthwise(
    values: Tensor,
    depth_multiplier: int,
    how: Convolving,
    parameters: LayerParameters,
    of_weights: Any,
) -> Any:
    channels = channel_dimension(values.shape, how.format, 4)
    weights = parameters.named_variable(
        "depthwise_weights",
        [*how.window, channels, depth_multiplier],
        values.dtype.base_dtype,
        of_weights,
    )
    steps = [1, *how.strides, 1] if how.format == "NHWC" else [1, 1, *how.strides]
    outputs = depthwise_conv2d(
        values, weights, steps, how.padding, rate=how.rate, data_format=how.format
    )
    return parameters.with_biases(outputs, channels * depth_multiplier, how.format)


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    activation_fn: Callable[..., Any] | None = relu,
    normalizer_fn: Callable[..., Any] | None = None,
    normalizer_params: Mapping[str, Any] | None = None,
    weights_initializer: Any = xavier_initializer(),  # noqa: B008 (it has no state)
    weights_regularizer: Any = None,
    biases_initializer: Any = zeros_initializer(),  # noqa: B008
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Any:
    """One filter [h, w] over each channel of images [n, h, w, c] by itself.  Raises ValueError."""
    with layer_scope(scope, "ConvInPlane", [inputs], reuse) as inner:
        values = convert(inputs)
        channels = last_dimension(values.shape, min_rank=4)
        parameters = LayerParameters(
            normalizer_fn,
            biases_initializer,
            biases_regularizer,
            trainable,
            variables_collections,
            {},
        )
        weights = parameters.named_variable(
            "weights",
            [*two_element_tuple(kernel_size), 1, 1],
            values.dtype.base_dtype,
            (weights_initializer, weights_regularizer, None),
        )
        steps = [1, *two_element_tuple(stride), 1]
        outputs = depthwise_conv2d(values, tile(weights, [1, 1, channels, 1]), steps, padding)
        outputs = parameters.with_biases(outputs, channels, "NHWC")
        outputs = normalized(outputs, normalizer_fn, normalizer_params)
        return finished(outputs, activation_fn, outputs_collections, inner)


conv2d_in_plane = convolution2d_in_plane


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Callable[..., Any] | None = None,
    initializer: Any = zeros_initializer(),  # noqa: B008 (it has no state)
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """activation_fn(inputs + biases), one for each channel.  Raises ValueError: their number is not known."""
    if data_format not in _FORMATS[2]:
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with layer_scope(scope, "BiasAdd", [inputs], reuse) as inner:
        values = convert(inputs)
        rank = values.shape.ndims
        if rank is None:
            raise ValueError("Dims of shape must be known but is None")
        if rank != 4 and data_format == "NCHW":
            raise ValueError("Data format NCHW only supports 4D Tensor")
        count = channel_dimension(values.shape, data_format, 2)
        biases = model_variable(
            "biases",
            shape=[count],
            dtype=values.dtype.base_dtype,
            initializer=initializer,
            regularizer=regularizer,
            collections=get_variable_collections(variables_collections, "biases"),
            trainable=trainable,
        )
        outputs = add_bias(values, biases, data_format)
        return finished(outputs, activation_fn, outputs_collections, inner)
