"""Layers without weights, or hardly any: `flatten`, `dropout`, `one_hot_encoding`, `maxout`, `softmax`, …

Called by: programs.  Threads: as graph.
Source: Goodfellow et al., Maxout networks, ICML 2013; Levine et al., End-to-end training of deep visuomotor
policies, JMLR 2016 (spatial softmax); behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.layer_parts import Collections, as_layer, layer_scope
from headrace.library.contrib.layer_utils import (
    collect_named_outputs,
    get_variable_collections,
    last_dimension,
)
from headrace.library.contrib.variables import model_variable
from headrace.library.layers import dense
from headrace.library.layers.parameters import chosen
from headrace.library.variables.initializers import constant_initializer, ones_initializer
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import constant
from headrace.ops.array.gathering import gather_nd, where
from headrace.ops.array.joining import concat, meshgrid
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.ranges import linspace
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import to_int64
from headrace.ops.math.comparisons import not_equal
from headrace.ops.math.reductions import reduce_max, reduce_sum
from headrace.ops.nn.basics import dropout as drop
from headrace.ops.nn.softmax import softmax as softmax_of_rows

__all__ = [
    "dense_to_sparse",
    "dropout",
    "flatten",
    "images_to_sequence",
    "maxout",
    "one_hot_encoding",
    "sequence_to_images",
    "softmax",
    "spatial_softmax",
]


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: Any = None) -> Any:
    """[batch, the rest]: all dimensions but the first as one."""
    with name_scope(scope, "Flatten", [inputs]) as inner:
        outputs = dense.flatten(convert(inputs))
        return collect_named_outputs(outputs_collections, inner, outputs)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Any:
    """While `is_training` (a bool, or a tensor of one) `tf.nn.dropout`, otherwise the inputs.

    Raises ValueError: keep_prob is not from 0 to 1.
    """
    with layer_scope(scope, "Dropout", [inputs], None) as inner:
        values = convert(inputs)
        if not isinstance(keep_prob, (int, float)) and not hasattr(keep_prob, "dtype"):
            raise ValueError(f"keep_prob must be a number or a tensor, and is {keep_prob!r}")
        rate = 1 - keep_prob
        if isinstance(rate, (int, float)) and not 0 <= rate <= 1:
            raise ValueError(
                f"Invalid value {rate} received for `rate`, expected a value between 0 and 1: keep_prob is {keep_prob}"
            )
        with as_layer(inner):
            outputs = chosen(
                is_training,
                lambda: drop(values, rate=rate, noise_shape=noise_shape, seed=seed),
                lambda: identity(values),
            )
        return collect_named_outputs(outputs_collections, inner.name, outputs)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """Numbers [n] as rows [n, num_classes] with on_value in one place."""
    with name_scope(scope, "OneHotEncoding", [labels, num_classes]) as inner:
        values = convert(labels)
        if values.dtype == dtypes.int32:
            values = to_int64(values)
        outputs = one_hot(values, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, inner, outputs)


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Any:
    """The largest of each num_units' share of the features along `axis`, of which num_units are left.

    Raises ValueError: num_units does not divide their number.
    """
    with variable_scope(scope, "MaxOut", [inputs]):
        values = convert(inputs)
        sizes: list[Any] = values.shape.as_list()
        if not isinstance(axis, int) or not -len(sizes) <= axis < len(sizes):
            raise ValueError(
                f"axis {axis} of maxout is none of the {len(sizes)} dimensions of its inputs"
            )
        features = sizes[axis]
        if features is None or not isinstance(num_units, int) or num_units < 1:
            raise ValueError(
                f"maxout takes a known number of features and num_units above 0, not {features} and {num_units}"
            )
        if features % num_units:
            raise ValueError(
                f"number of features({features}) is not a multiple of num_units({num_units})"
            )
        if any(size is None for size in sizes):
            dynamic = shape_of(values)
            sizes = [dynamic[n] if size is None else size for n, size in enumerate(sizes)]
        sizes[axis] = num_units
        return reduce_max(reshape(values, [*sizes, features // num_units]), -1)


def softmax(logits: Any, scope: Any = None) -> Any:
    """Softmax along the last dimension, of tensors of two dimensions and more."""
    with variable_scope(scope, "softmax", [logits]):
        values = convert(logits)
        classes = last_dimension(values.shape, min_rank=2)
        found = softmax_of_rows(reshape(values, [-1, classes]))
        outputs = reshape(found, shape_of(values))
        outputs.set_shape(values.shape)
        return outputs


@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: Any = None,
    name: str | None = None,
    variables_collections: Collections = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Any:
    """Where each channel is strongest: the mean place in [-1, 1], weighted by a softmax over space; [n, 2 · c].

    temperature: what the features are divided by first, the initial value of a variable; 1 if None.
    Raises ValueError: the number of channels is not known.
    """
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with variable_scope(name, "spatial_softmax"):
        features = convert(features)
        raw, dynamic = features.raw_shape, shape_of(features)
        if raw is None or len(raw) != 4:
            raise ValueError(f"`spatial_softmax` takes four dimensions, not {features.shape}")
        height_at, channels_at = (1, 3) if data_format == "NHWC" else (2, 1)
        height, width = dynamic[height_at], dynamic[height_at + 1]
        channels = raw[channels_at]
        if channels is None:
            raise ValueError(
                "The num_channels dimension of the inputs to `spatial_softmax` should be defined."
            )
        start = ones_initializer() if temperature is None else constant_initializer(temperature)
        divisor = model_variable(
            "temperature",
            shape=(),
            dtype=dtypes.float32,
            initializer=start,
            collections=get_variable_collections(variables_collections, "temperature"),
            trainable=trainable,
        )
        with name_scope("spatial_softmax_op", "spatial_softmax_op", [features]):
            xs, ys = meshgrid(
                linspace(-1.0, 1.0, num=height), linspace(-1.0, 1.0, num=width), indexing="ij"
            )
            xs, ys = reshape(xs, [height * width]), reshape(ys, [height * width])
            if data_format == "NHWC":
                features = transpose(features, [0, 3, 1, 2])
            features = reshape(features, [-1, height * width])
            attention = softmax_of_rows(features / divisor)
            first = reduce_sum(xs * attention, [1], keepdims=True)
            second = reduce_sum(ys * attention, [1], keepdims=True)
            places = concat([first, second], 1)
            found = reshape(places, [-1, channels * 2])
            found.set_shape([None, channels * 2])
            return found


def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: Any = None
) -> Any:
    """Images [n, h, w, c] as a sequence of columns [w, n · h, c].  Raises ValueError: the rank is not 4."""
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    with name_scope(scope, "ImagesToSequence", [inputs]) as inner:
        values = convert(inputs)
        if values.shape.ndims != 4:
            raise ValueError("Input has invalid rank. Supported rank is 4.")
        if data_format == "NCHW":
            values = transpose(values, [0, 2, 3, 1])
        width: Any
        _, _, width, depth = values.raw_shape or (None,) * 4
        dynamic = shape_of(values)
        batch, height = dynamic[0], dynamic[1]
        columns = transpose(values, [2, 0, 1, 3])
        if width is None:
            width = dynamic[2]
        outputs = reshape(columns, [width, batch * height, depth])
        return collect_named_outputs(outputs_collections, inner, outputs)


@add_arg_scope
def sequence_to_images(
    inputs: Any,
    height: int,
    output_data_format: str = "channels_last",
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """A sequence of columns [w, n · height, c] as images [n, height, w, c].  Raises ValueError: the rank is not 3."""
    with name_scope(scope, "SequenceToImages", [inputs]) as inner:
        values = convert(inputs)
        if values.shape.ndims != 3:
            raise ValueError("Input has invalid rank. Supported rank is 3.")
        width: Any
        width, rows, depth = values.raw_shape or (None,) * 3
        if not isinstance(height, int) or height < 1:
            raise ValueError(f"height of the images must be a number above 0, and is {height!r}")
        batch = -1 if rows is None else rows // height
        if width is None:
            width = shape_of(values)[0]
        images = reshape(values, [width, batch, height, depth])
        order = [1, 3, 2, 0] if output_data_format == "channels_first" else [1, 2, 0, 3]
        return collect_named_outputs(outputs_collections, inner, transpose(images, order))


@add_arg_scope
def dense_to_sparse(
    tensor: Any, eos_token: Any = 0, outputs_collections: Any = None, scope: Any = None
) -> Any:
    """The elements that are not eos_token, as a SparseTensor."""
    with variable_scope(scope, "dense_to_sparse", [tensor]) as inner:
        values = convert(tensor)
        places = where(not_equal(values, constant(eos_token, values.dtype)))
        found = SparseTensor(
            places, gather_nd(values, places), shape_of(values, out_type=dtypes.int64)
        )
        return collect_named_outputs(outputs_collections, inner.name, found)
