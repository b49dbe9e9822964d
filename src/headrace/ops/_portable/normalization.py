"""Array kernels of normalization: by the statistics of a batch, and by the neighbouring channels.

Called by: ops._portable.table.  Threads: any.
Source: Ioffe and Szegedy, ICML 2015; Krizhevsky, Sutskever and Hinton, NIPS 2012
"""

from __future__ import annotations

import math
from typing import Any

from headrace.ops._portable.table import arrays, check
from headrace.ops._portable.windows import from_last, padded, to_last

_ATTRS = ("epsilon", "exponential_avg_factor", "data_format", "is_training")


def _nothing(like: Any) -> Any:
    return like[:0]


@arrays("FusedBatchNormV3", reals=True, attrs=_ATTRS)
def _batch_norm(
    xp: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any, **attrs: Any
) -> tuple[Any, ...]:
    given = to_last(xp, x, attrs["data_format"])
    channels = given.shape[-1:]
    check(scale.shape == offset.shape == channels and math.prod(x.shape) > 0)
    given = xp.astype(given, scale.dtype)
    if attrs["is_training"]:
        axes = tuple(range(given.ndim - 1))
        count = math.prod(given.shape[:-1])
        of_batch = xp.mean(given, axis=axes)
        spread = xp.mean(xp.square(given - of_batch), axis=axes)
        unbiased = spread * (count / max(count - 1, 1))
        kept = (of_batch, unbiased)
        average = attrs["exponential_avg_factor"]
        if average != 1:
            check(mean.shape == variance.shape == channels)
            kept = (
                (1 - average) * mean + average * of_batch,
                (1 - average) * variance + average * unbiased,
            )
    else:
        check(mean.shape == variance.shape == channels)
        of_batch, spread = kept = mean, variance
    factor = scale / xp.sqrt(spread + attrs["epsilon"])
    made = xp.astype((given - of_batch) * factor + offset, x.dtype)
    y = from_last(xp, made, attrs["data_format"])
    return y, *kept, of_batch, spread, _nothing(scale)


@arrays("FusedBatchNorm", "FusedBatchNormV2", reals=True, attrs=_ATTRS)
def _older_batch_norm(xp: Any, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    return _batch_norm(xp, *inputs, **attrs)[:5]


@arrays(
    "FusedBatchNormGrad",
    "FusedBatchNormGradV2",
    "FusedBatchNormGradV3",
    reals=True,
    attrs=("epsilon", "data_format", "is_training"),
)
def _batch_norm_grad(
    xp: Any, dy: Any, x: Any, scale: Any, mean: Any, variance: Any, *reserved: Any, **attrs: Any
) -> tuple[Any, ...]:
    check(dy.shape == x.shape and math.prod(x.shape) > 0)
    given, slope = (
        xp.astype(to_last(xp, each, attrs["data_format"]), scale.dtype) for each in (x, dy)
    )
    check(scale.shape == mean.shape == variance.shape == given.shape[-1:])
    axes = tuple(range(given.ndim - 1))
    inverse = 1 / xp.sqrt(variance + attrs["epsilon"])
    standard = (given - mean) * inverse
    to_scale, to_offset = xp.sum(slope * standard, axis=axes), xp.sum(slope, axis=axes)
    if attrs["is_training"]:  # the statistics depend on x, too
        slope = slope - (to_offset + standard * to_scale) / math.prod(given.shape[:-1])
    to_x = xp.astype(slope * (scale * inverse), x.dtype)
    nothing = _nothing(scale)
    return from_last(xp, to_x, attrs["data_format"]), to_scale, to_offset, nothing, nothing


@arrays("BatchNormWithGlobalNormalization", reals=True)
def _global_norm(
    xp: Any,
    t: Any,
    m: Any,
    v: Any,
    beta: Any,
    gamma: Any,
    *,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Any:
    check(t.ndim == 4 and all(each.shape == t.shape[-1:] for each in (m, v, beta, gamma)))
    factor = 1 / xp.sqrt(v + variance_epsilon)
    return (t - m) * (factor * gamma if scale_after_normalization else factor) + beta


# -- by channels ------------------------------------------------------------------------------------------------------


def _over_neighbours(xp: Any, x: Any, radius: int) -> Any:
    """Sums over the channels that are at most `radius` away."""
    channels = x.shape[-1]
    reach = min(radius, channels - 1)
    rows = xp.reshape(x, (-1, channels, 1))
    around = padded(xp, rows, [(reach, reach)])
    total = None
    for at in range(2 * reach + 1):
        share = around[:, at : at + channels, :]
        total = share if total is None else total + share
    return xp.reshape(total, x.shape)


@arrays("LRN", reals=True)
def _lrn(xp: Any, x: Any, *, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    check(x.ndim == 4 and math.prod(x.shape) > 0 and depth_radius >= 0)
    return x * (bias + alpha * _over_neighbours(xp, x * x, depth_radius)) ** -beta


@arrays("LRNGrad", reals=True, alike=True)
def _lrn_grad(
    xp: Any, dy: Any, x: Any, y: Any, *, depth_radius: int, bias: float, alpha: float, beta: float
) -> Any:
    check(x.ndim == 4 and math.prod(x.shape) > 0 and depth_radius >= 0)
    scale = bias + alpha * _over_neighbours(xp, x * x, depth_radius)
    through = _over_neighbours(xp, dy * y / scale, depth_radius)
    return dy * scale**-beta - 2 * alpha * beta * x * through
