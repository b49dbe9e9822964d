"""Batch normalization of images in one op, and its gradient.

Called by: ops.nn.fused, programs.  Threads: any.
Source: TF 1.15 core/kernels/fused_batch_norm_op.cc, of 2.21 the third version; Ioffe and Szegedy, ICML 2015
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge_sizes, text
from headrace.base.traits import LIKE_FIRST, NEVER_FAILS
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.channels import Units
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.normalizing import Back, Moments, Normalizing, is_near
from headrace.ops._kernels.windows import channels_last
from headrace.ops.array.constants import constant

__all__ = ["fused_batch_norm"]

Array = np.ndarray[Any, Any]
FORMATS = "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'"
_LEAST_EPSILON = 1.001e-5  # below, TensorFlow takes this one


def normalized(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, in the precision of the statistics.

    x [..., c] or what broadcasts; the others [c].
    """
    factor = scale / np.sqrt(variance + np.asarray(epsilon, variance.dtype))
    result: Array = x - mean  # first: what is far from 0 would lose the digits that it differs by
    result *= factor
    result += offset
    return result


def batch_norm(
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    epsilon: float,
    average: float,
    data_format: bytes,
    training: bool,
) -> tuple[Array, ...]:
    """(y, mean, variance, saved mean, saved variance, nothing), as FusedBatchNormV3 gives them."""
    _check(x, scale, offset, data_format)
    if not x.size:
        none, lost = np.zeros_like(scale), np.full_like(scale, np.nan)
        return x.copy(), lost, lost.copy(), none, none.copy(), np.empty(0, scale.dtype)
    if training and channels_last(data_format):
        return _of_batch(x, scale, offset, mean, variance, epsilon, average)
    given, axes, wide = _channels_apart(single(x), data_format)
    kept: tuple[Array, ...]
    if not training:
        y = normalized(given, wide(scale), wide(offset), wide(mean), wide(variance), epsilon)
        kept = mean.copy(), variance.copy(), mean.copy(), variance.copy()
    else:
        count = math.prod(given.shape[at] for at in axes)
        new_mean, biased = given.mean(axes), given.var(axes)
        y = normalized(given, wide(scale), wide(offset), wide(new_mean), wide(biased), epsilon)
        kept = statistics(mean, variance, new_mean, biased, count, average)
    return (y.reshape(x.shape).astype(x.dtype, copy=False), *kept, np.empty(0, scale.dtype))


def _of_batch(
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    epsilon: float,
    average: float,
) -> tuple[Array, ...]:
    """`batch_norm` in training, channels last: some units at a time."""
    given = np.ascontiguousarray(single(x))
    units = units_of(given)
    moments, lines = Moments(units, given.dtype), units.lines(given)
    units.each(lambda at: moments.look(at, lines[at]))
    new_mean, biased = moments.found()
    factor = factor_of(scale, biased, epsilon)
    y = np.empty(given.shape, np.result_type(given, factor))
    into, normalize = (
        units.lines(y),
        Normalizing(units, new_mean, factor, offset, is_near(new_mean, biased, epsilon)),
    )
    units.each(lambda at: normalize(lines[at], into[at]))
    count = math.prod(x.shape[:-1])
    kept = statistics(mean, variance, new_mean, biased, count, average)
    return (y.astype(x.dtype, copy=False), *kept, np.empty(0, scale.dtype))


def units_of(x: Array) -> Units:
    """Of pictures x [n, .., c], of which none is empty."""
    return Units(len(x), math.prod(x.shape[1:-1]), x.shape[-1])


def factor_of(scale: Array, variance: Array, epsilon: float) -> Array:
    """What pictures without their mean are multiplied with."""
    found: Array = scale / np.sqrt(variance + np.asarray(epsilon, variance.dtype))
    return found


def statistics(
    mean: Array, variance: Array, new_mean: Array, biased: Array, count: int, average: float
) -> tuple[Array, ...]:
    """The four outputs after y: moving mean and unbiased variance, and those of the batch for the gradient."""
    unbiased = biased * np.asarray(count / max(count - 1, 1), biased.dtype)
    weight = np.asarray(average, biased.dtype)
    return (
        new_mean if average == 1 else (1 - weight) * mean + weight * new_mean,
        unbiased if average == 1 else (1 - weight) * variance + weight * unbiased,
        new_mean.copy(),
        biased,
    )


def _channels_apart(
    x: Array, data_format: bytes
) -> tuple[Array, tuple[int, ...], Callable[[Array], Array]]:
    """x as [rows, channels] or, where channels are second, [n, channels, places], as it lies; the other axes of that;
    and what makes a vector of the channels broadcast with it.
    """
    if channels_last(data_format):
        return x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), (0,), lambda vector: vector
    places = math.prod(x.shape[2:])
    return x.reshape(*x.shape[:2], places), (0, 2), lambda vector: vector[:, None]


def _check(x: Array, scale: Array, offset: Array, data_format: bytes) -> None:
    rank = len(data_format)
    if x.ndim != rank:
        raise errors.invalid_argument(
            f"x must have the {rank} dimensions {data_format.decode()}, not shape {text(x.shape)}"
        )
    channels = x.shape[-1] if channels_last(data_format) else x.shape[1]
    if scale.shape != (channels,) or offset.shape != (channels,):
        raise errors.invalid_argument(
            f"scale must have the same number of elements as the channels of x, got {scale.size} and {channels} "
            f"({data_format.decode()}), and so must offset: they have shapes {text(scale.shape)} and "
            f"{text(offset.shape)}"
        )


def batch_norm_shape(c: ShapeContext) -> list[Shape]:
    """Of y and the five others."""
    parameters = ["scale", "offset"]
    if not c.attr("is_training") or c.attr("exponential_avg_factor") != 1:
        parameters += ["mean", "variance"]
    y, channels = _with_channels(c, "x", parameters)
    return [y, *[(channels,)] * 4, None]


def batch_norm_grad_shape(c: ShapeContext) -> list[Shape]:
    """Of the gradient of x, which is dy's, those of scale and offset, and two that hold nothing."""
    parameters = ["scale", "reserve_space_1", "reserve_space_2"]
    _, channels = _with_channels(c, "x", parameters)
    dx, channels = _with_channels(c, "y_backprop", parameters, channels)
    return [dx, (channels,), (channels,), (0,), (0,)]


def _with_channels(
    c: ShapeContext, images: str, parameters: list[str], channels: int | None = None
) -> tuple[Shape, int | None]:
    """The shape of the images, and its channels, of which each of the parameters has one."""
    data_format = c.attr("data_format")
    shape = c.with_rank(images, len(data_format))
    assert shape is not None
    at = len(shape) - 1 if channels_last(data_format) else 1
    channels = merge_sizes(channels, shape[at], f"the channels of {images} and those of its like")
    for name in parameters:
        (size,) = c.with_rank(name, 1) or (None,)
        channels = merge_sizes(
            channels, size, f"the channels of {images} and the elements of {name}"
        )
    return (*shape[:at], channels, *shape[at + 1 :]), channels


@op(
    "FusedBatchNormV3",
    inputs="x: T; scale: U; offset: U; mean: U; variance: U",
    outputs="y: T; batch_mean: U; batch_variance: U; reserve_space_1: U; reserve_space_2: U; reserve_space_3: U",
    attrs="T: {half, bfloat16, float}; U: {bfloat16, float}; epsilon: float = 9.999999747378752e-05; "
    f"exponential_avg_factor: float = 1.0; {FORMATS}; is_training: bool = true",
    shape=batch_norm_shape,
    traits={LIKE_FIRST, NEVER_FAILS},
)
def fused_batch_norm_v3_op(
    xp: Any,
    x: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float,
    exponential_avg_factor: float,
    data_format: bytes,
    is_training: bool,
) -> Any:
    """x [n, h, w, c] (or as data_format says) with the statistics of the batch, or with those given, taken out.

    scale, offset, mean, variance [c].  The variance given back is the unbiased one; what the gradient wants is in
    the reserved outputs.  Raises InvalidArgument if shapes do not fit.
    """
    return batch_norm(
        x, scale, offset, mean, variance, epsilon, exponential_avg_factor, data_format, is_training
    )


@op(
    "FusedBatchNormGradV3",
    inputs="y_backprop: T; x: T; scale: float; reserve_space_1: U; reserve_space_2: U; reserve_space_3: U",
    outputs="x_backprop: T; scale_backprop: U; offset_backprop: U; reserve_space_4: U; reserve_space_5: U",
    attrs="T: {half, bfloat16, float}; U: {float}; epsilon: float = 9.999999747378752e-05; "
    f"{FORMATS}; is_training: bool = true",
    shape=batch_norm_grad_shape,
    traits={NEVER_FAILS},
)
def fused_batch_norm_grad_v3_op(
    xp: Any,
    dy: Array,
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    reserved: Array,
    *,
    epsilon: float,
    data_format: bytes,
    is_training: bool,
) -> Any:
    """Gradients of FusedBatchNormV3 with respect to x, scale and offset; mean and variance are what it reserved.

    Raises InvalidArgument if dy and x differ in shape.
    """
    if dy.shape != x.shape:
        raise errors.invalid_argument(
            f"the gradient has shape {text(dy.shape)}, x has {text(x.shape)}"
        )
    _check(x, scale, scale, data_format)
    if is_training and channels_last(data_format):
        to_x, to_scale, to_offset = _gradients(dy, x, scale, mean, variance, epsilon)
        nothing = np.empty(0, np.float32)
        return to_x, to_scale, to_offset, nothing, nothing.copy()
    rows, axes, wide = _channels_apart(x.astype(np.float32, copy=False), data_format)
    grads, _, _ = _channels_apart(dy.astype(np.float32, copy=False), data_format)
    inverse = 1 / np.sqrt(variance + np.float32(epsilon))
    standard = (rows - wide(mean)) * wide(inverse)
    to_scale, to_offset = (grads * standard).sum(axes), grads.sum(axes)
    if is_training:  # the statistics depend on x too
        count = np.float32(math.prod(rows.shape[at] for at in axes))
        grads = grads - (wide(to_offset) + standard * wide(to_scale)) / count
    to_x = (grads * wide(scale * inverse)).reshape(x.shape)
    nothing = np.empty(0, np.float32)
    return (
        to_x.astype(x.dtype, copy=False),
        to_scale,
        to_offset,
        nothing,
        nothing.copy(),
    )


def _gradients(
    dy: Array, x: Array, scale: Array, mean: Array, variance: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """To x, scale and offset, with the batch's own statistics, channels last: some units at a time."""
    if not x.size:
        nothing = np.zeros(x.shape[-1], np.float32)
        return x.copy(), nothing, nothing.copy()
    given, given_back = (np.ascontiguousarray(single(each)) for each in (x, dy))
    units = units_of(given)
    back = Back(units, scale, mean, variance, epsilon)
    lines, lines_back = units.lines(given), units.lines(given_back)
    units.each(lambda at: back.look(at, lines_back[at], lines[at]))
    to_scale, to_offset = back.found()
    to_x = np.empty_like(given)
    into = units.lines(to_x)
    units.each(lambda at: back.through(lines_back[at], lines[at], into[at]))
    return to_x.astype(x.dtype, copy=False), to_scale, to_offset


@fused_batch_norm_v3_op.gradient
def _(op: Operation, *douts: Any) -> Any:
    training = op["is_training"]
    mean, variance = (op.outputs[3], op.outputs[4]) if training else (op.inputs[3], op.inputs[4])
    made = fused_batch_norm_grad_v3_op(
        douts[0],
        op.inputs[0],
        op.inputs[1],
        mean,
        variance,
        op.outputs[5],
        epsilon=op["epsilon"],
        data_format=op["data_format"],
        is_training=training,
    )
    return (*made[:3], None, None)


@fused_batch_norm_grad_v3_op.gradient
def second_derivative(op: Operation, *douts: Any) -> Any:
    """Of a FusedBatchNormGrad of any version: for dy, x and scale; nothing for the rest."""
    from headrace.ops.nn.norm_gradients import differentiated

    return differentiated(op, *douts)


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """(y, mean, variance) of images [n, h, w, c]: the batch's statistics taken out, or those that are given.

    scale, offset, mean, variance [c].  Raises ValueError if statistics are wanted and not given.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError(
            "Both `mean` and `variance` must be a 1D tensor when `is_training` is False or "
            f"`exponential_avg_factor` != 1.0, and they are {mean} and {variance}"
        )
    values = convert(x, name="input")
    scale, offset = convert(scale, name="scale"), convert(offset, name="offset")
    mean = constant([]) if mean is None else mean
    variance = constant([]) if variance is None else variance
    made = fused_batch_norm_v3_op(
        values,
        scale,
        offset,
        mean,
        variance,
        epsilon=None if epsilon is None else max(epsilon, _LEAST_EPSILON),
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return made[0], made[1], made[2]
