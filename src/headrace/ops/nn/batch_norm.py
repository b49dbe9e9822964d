"""Batch normalization of images in one op, and its gradient.

Called by: ops.nn.fused, programs.  Threads: any.
Source: TF 1.15 core/kernels/fused_batch_norm_op.cc, of 2.21 the third version; Ioffe and Szegedy, ICML 2015
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.shapes import Shape, merge_sizes, text
from headrace.base.traits import NEVER_FAILS
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.windows import channels_last, from_last, to_last
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
    result: Array = x * factor + (offset - mean * factor)
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
    given = to_last(single(x), data_format)
    if not training:
        y = normalized(given, scale, offset, mean, variance, epsilon)
        kept = mean.copy(), variance.copy(), mean.copy(), variance.copy()
    else:
        rows = given.reshape(math.prod(given.shape[:-1]), given.shape[-1])
        if len(rows):
            new_mean, biased = rows.mean(0), rows.var(0)
        else:
            new_mean = biased = np.zeros(rows.shape[1:], rows.dtype)
        y = normalized(given, scale, offset, new_mean, biased, epsilon)
        unbiased = biased * np.asarray(len(rows) / max(len(rows) - 1, 1), biased.dtype)
        weight = np.asarray(average, biased.dtype)
        kept = (
            new_mean if average == 1 else (1 - weight) * mean + weight * new_mean,
            unbiased if average == 1 else (1 - weight) * variance + weight * unbiased,
            new_mean.copy(),
            biased,
        )
    return (from_last(y.astype(x.dtype, copy=False), data_format), *kept, np.empty(0, scale.dtype))


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
    data_format = c.attr("data_format")
    x = c.with_rank("x", len(data_format))
    assert x is not None
    channels = x[-1] if channels_last(data_format) else x[1]
    parameters = (
        ("scale", "offset", "mean", "variance")
        if not c.attr("is_training")
        else ("scale", "offset")
    )
    for name in parameters:
        (size,) = c.with_rank(name, 1) or (None,)
        channels = merge_sizes(channels, size, f"the channels of x and the elements of {name}")
    return [x, *[(channels,)] * 4, None]


@op(
    "FusedBatchNormV3",
    inputs="x: T; scale: U; offset: U; mean: U; variance: U",
    outputs="y: T; batch_mean: U; batch_variance: U; reserve_space_1: U; reserve_space_2: U; reserve_space_3: U",
    attrs="T: {half, bfloat16, float}; U: {bfloat16, float}; epsilon: float = 9.999999747378752e-05; "
    f"exponential_avg_factor: float = 1.0; {FORMATS}; is_training: bool = true",
    shape=batch_norm_shape,
    traits={NEVER_FAILS},
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
    shape=lambda c: [c.shape("x"), c.shape("scale"), c.shape("scale"), (0,), (0,)],
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
    given, grad = (to_last(a.astype(np.float32, copy=False), data_format) for a in (x, dy))
    rows, grads = (a.reshape(-1, a.shape[-1]) for a in (given, grad))
    inverse = 1 / np.sqrt(variance + np.float32(epsilon))
    standard = (rows - mean) * inverse
    to_scale, to_offset = (grads * standard).sum(0), grads.sum(0)
    if is_training:  # the statistics depend on x too
        grads = grads - (to_offset + standard * to_scale) / np.float32(len(rows))
    to_x = (grads * (scale * inverse)).reshape(given.shape)
    nothing = np.empty(0, np.float32)
    return (
        from_last(to_x.astype(x.dtype, copy=False), data_format),
        to_scale,
        to_offset,
        nothing,
        nothing.copy(),
    )


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
        epsilon=max(epsilon, _LEAST_EPSILON),
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return made[0], made[1], made[2]
