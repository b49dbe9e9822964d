"""Normalizing layers that keep nothing of other batches: `layer_norm`, `instance_norm`, `group_norm`, `unit_norm`.

Called by: programs.  Threads: as graph.
Source: Ba et al., Layer normalization, 2016; Ulyanov et al., Instance normalization, 2016; Wu, He, Group
normalization, ECCV 2018; behaviour of TensorFlow 1.15's contrib; tests compare nodes with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.arguments import check_number, check_word, several, whole_number
from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.layer_parts import Collections, finished
from headrace.library.contrib.layer_utils import get_variable_collections
from headrace.library.contrib.variables import model_variable
from headrace.library.variables.initializers import ones_initializer, zeros_initializer
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import ones
from headrace.ops.array.joining import concat
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import strided_slice
from headrace.ops.math.reductions import reduce_mean, reduce_sum
from headrace.ops.nn.basics import batch_normalization, moments
from headrace.ops.tables import make

__all__ = ["group_norm", "instance_norm", "layer_norm", "unit_norm"]

_LEAST_VARIANCE = 1e-12
_LEAST_VARIANCE_OF_HALF = 1e-3


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Callable[..., Any] | None = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Any:
    """activation_fn(normalized · gamma + beta): mean 0 and variance 1 over the axes from begin_norm_axis on.

    beta, gamma: of the sizes of the axes from begin_params_axis on.  Raises ValueError: rank or sizes are not known.
    """
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as inner:
        values = convert(inputs)
        raw = values.raw_shape
        if raw is None:
            raise ValueError(f"Inputs {values.name} has undefined rank.")
        rank = len(raw)
        begin_norm_axis = whole_number("layer_norm", "begin_norm_axis", begin_norm_axis)
        begin_params_axis = whole_number("layer_norm", "begin_params_axis", begin_params_axis)
        first = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or first >= rank:
            raise ValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({first}) must be < rank(inputs) "
                f"({rank})"
            )
        shape = raw[begin_params_axis:]
        if None in shape:
            raise ValueError(
                f"Inputs {values.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {values.shape}"
            )
        make_variable = _Variables(values, shape, trainable, variables_collections, {})
        beta = make_variable("beta", zeros_initializer()) if center else None
        gamma = make_variable("gamma", ones_initializer()) if scale else None
        mean, variance = moments(values, list(range(first, rank)), keep_dims=True)
        half = values.dtype.base_dtype in (dtypes.float16,)
        least = _LEAST_VARIANCE_OF_HALF if half else _LEAST_VARIANCE
        outputs = batch_normalization(values, mean, variance, beta, gamma, least)
        outputs.set_shape(values.shape)
        return finished(outputs, activation_fn, outputs_collections, inner)


class _Variables:
    """beta and gamma of a layer."""

    def __init__(
        self,
        values: Tensor,
        shape: Sequence[Any],
        trainable: bool,
        collections: Collections,
        initializers: Mapping[str, Any],
    ) -> None:
        self._values, self._shape, self._trainable = values, list(shape), trainable
        self._collections, self._initializers = collections, initializers

    def __call__(self, name: str, initializer: Any) -> Any:
        keys = get_variable_collections(self._collections, name)
        return model_variable(
            name,
            shape=self._shape,
            dtype=self._values.dtype.base_dtype,
            initializer=self._initializers.get(name, initializer),
            collections=[keys] if isinstance(keys, str) else keys,
            trainable=self._trainable,
        )


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Callable[..., Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Any:
    """activation_fn(normalized · gamma + beta): mean 0 and variance 1 over space, for each image and channel.

    Raises ValueError: rank or the number of channels is not known.
    """
    check_word("instance_norm", "data_format", data_format, ("NHWC", "NCHW"))
    check_number("instance_norm", "epsilon", epsilon)
    values = convert(inputs)
    raw = values.raw_shape
    if raw is None:
        raise ValueError(f"Inputs {values.name} has undefined rank.")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError("data_format has to be either NCHW or NHWC.")
    rank = len(raw)
    if rank < 2:
        raise ValueError(f"Inputs {values.name} has no channels: its shape is {values.shape}.")
    with variable_scope(scope, "InstanceNorm", [values], reuse=reuse) as inner:
        at = 1 if data_format == "NCHW" else rank - 1
        size = raw[at]
        if size is None:
            raise ValueError(
                f"Inputs {values.name} has undefined channels dimension {values.shape}."
            )
        make_variable = _Variables(
            values, [size], trainable, variables_collections, dict(param_initializers or {})
        )
        along = [size if axis == at else 1 for axis in range(rank)]

        def spread(value: Any) -> Any:
            return reshape(value, along) if data_format == "NCHW" else value

        beta = spread(make_variable("beta", zeros_initializer())) if center else None
        gamma = spread(make_variable("gamma", ones_initializer())) if scale else None
        mean, variance = moments(
            values, [axis for axis in range(1, rank) if axis != at], keep_dims=True
        )
        outputs = batch_normalization(
            values, mean, variance, beta, gamma, epsilon, name="instancenorm"
        )
        outputs.set_shape(values.shape)
        return finished(outputs, activation_fn, outputs_collections, inner)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Callable[..., Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Collections = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> Any:
    """activation_fn(normalized · gamma + beta): mean 0 and variance 1 over reduction_axes and a group of channels.

    mean_close_to_zero: the variance is the mean of squares less the square of the mean.
    Raises ValueError: groups that do not divide the channels, axes that cannot be, what is not known.
    """
    values = convert(inputs)
    raw = values.raw_shape
    if raw is None:
        raise ValueError(f"Inputs {values.name} has undefined rank.")
    rank = len(raw)
    if rank < 1:
        raise ValueError(f"Inputs {values.name} has no channels: it is a scalar.")
    groups = whole_number("group_norm", "groups", groups)
    channels_axis = whole_number("group_norm", "channels_axis", channels_axis)
    check_number("group_norm", "epsilon", epsilon)
    if channels_axis > rank - 1:
        raise ValueError("Axis is out of bounds.")
    at = channels_axis % rank
    over = sorted(axis % rank for axis in _checked_axes(reduction_axes, rank))
    if at in over:
        raise ValueError("reduction_axes must be mutually exclusive with channels_axis")
    size = raw[at]
    if size is None:
        raise ValueError(f"Inputs {values.name} has undefined channel dimension: {values.shape}.")
    if groups > size or groups < 1:
        raise ValueError(f"Invalid groups {groups} for {size} channels.")
    if size % groups:
        raise ValueError(f"{size} channels is not commensurate with {groups} groups.")
    whole = shape_of(values)
    sizes = [whole[axis] if n is None else n for axis, n in enumerate(raw)]
    grouped = reshape(values, [*sizes[:at], groups, size // groups, *sizes[at + 1 :]])
    along = [
        groups if axis == at else size // groups if axis == at + 1 else 1
        for axis in range(rank + 1)
    ]
    with variable_scope(scope, "GroupNorm", [values], reuse=reuse) as inner:
        make_variable = _Variables(
            values, [size], trainable, variables_collections, dict(param_initializers or {})
        )
        beta = reshape(make_variable("beta", zeros_initializer()), along) if center else None
        gamma = reshape(make_variable("gamma", ones_initializer()), along) if scale else None
        mean, variance = _group_moments(
            grouped,
            [axis if axis < at else axis + 1 for axis in over] + [at + 1],
            mean_close_to_zero,
        )
        gain = make.Rsqrt(variance + epsilon)
        offset = -mean * gain
        if gamma is not None:
            gain, offset = gain * gamma, offset * gamma
        if beta is not None:
            offset = offset + beta
        outputs = reshape(grouped * gain + offset, sizes)
        outputs.set_shape(values.shape)
        return finished(outputs, activation_fn, outputs_collections, inner)


def _checked_axes(axes: Sequence[int], rank: int) -> Sequence[int]:
    found = several("group_norm", "reduction_axes", axes, "integers")
    found = [whole_number("group_norm", "each of reduction_axes", axis) for axis in found]
    if any(axis >= rank for axis in found):
        raise ValueError("Axis is out of bounds.")
    return found


def _group_moments(values: Any, axes: Sequence[int], mean_close_to_zero: bool) -> tuple[Any, Any]:
    axes = sorted(axes)
    if not mean_close_to_zero:
        return moments(values, axes, keep_dims=True)
    mean = reduce_mean(values, axes, keepdims=True, name="mean")
    squares = reduce_mean(make.Square(values), axes, keepdims=True, name="power")
    return mean, squares - make.Square(mean)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Any:
    """inputs / their length along `dim`.  Raises ValueError: no such dimension, the rank is not known."""
    with variable_scope(scope, "UnitNorm", [inputs]):
        values = convert(inputs)
        rank = values.shape.ndims
        if rank is None:
            raise ValueError("The input rank must be known.")
        dim = whole_number("unit_norm", "dim", dim)
        if dim < 0 or dim >= rank:
            raise ValueError("dim must be positive but smaller than the input rank.")
        lengths = make.Sqrt(epsilon + reduce_sum(make.Square(values), dim, keepdims=True))
        parts: list[Any] = []
        if dim > 0:
            parts.append(ones([dim], dtypes.int32))
        whole = shape_of(values)
        parts.append(strided_slice(whole, [dim], [dim + 1]))
        if dim < rank - 1:
            parts.append(ones([rank - 1 - dim], dtypes.int32))
        return make.RealDiv(values, tile(lengths, concat(parts, 0)), name="div")
