"""Moments of tensors in parts: sums that are kept and turned into mean and variance later, and weighted ones.

Called by: programs.  Threads: as graph.
Source: TF 1.15 and 2.21 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, zeros_like
from headrace.ops.array.gathering import gather
from headrace.ops.array.shapes import rank, squeeze
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.arithmetic import div_no_nan
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_prod, reduce_sum
from headrace.ops.nn.basics import batch_normalization, keep_dimensions
from headrace.ops.nn.convolution_calls import either
from headrace.ops.tables import make

__all__ = [
    "batch_norm_with_global_normalization",
    "normalize_moments",
    "sufficient_statistics",
    "weighted_moments",
]


def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """(count, sum, sum of squares, shift) along `axes`, of x - shift; for `normalize_moments`."""
    axes, keep = list(dict.fromkeys(axes)), keep_dimensions(keepdims, keep_dims)
    with name_scope(name, "sufficient_statistics", [x, shift]):
        values = convert(x, name="x")
        counts = _count(values, axes)
        if shift is not None:
            shift = convert(shift, name="shift")
            once, twice = make.Sub(values, shift), make.SquaredDifference(values, shift)
        else:
            once, twice = values, make.Square(values)
        sums = reduce_sum(once, axes, keepdims=keep, name="mean_ss")
        return counts, sums, reduce_sum(twice, axes, keepdims=keep, name="var_ss"), shift


def _count(values: Tensor, axes: Sequence[int]) -> Tensor:
    raw = values.raw_shape
    sizes = [None if raw is None else raw[axis] for axis in axes]
    if None not in sizes:
        return constant(math.prod(sizes), values.dtype.base_dtype)
    dimensions = rank(values)
    positive = [axis + dimensions if axis < 0 else axis for axis in axes]
    found = gather(cast(shape_of(values), values.dtype.base_dtype), positive)
    count: Tensor = reduce_prod(found, name="count")
    return count


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """(mean, variance) of what `sufficient_statistics` gave, or of the sums of several such."""
    with name_scope(name, "normalize", [counts, mean_ss, variance_ss, shift]):
        divisor = make.Reciprocal(counts, name="divisor")
        if shift is None:
            mean = shifted = make.Mul(mean_ss, divisor, name="mean")
        else:
            shifted = make.Mul(mean_ss, divisor, name="shifted_mean")
            mean = make.AddV2(shifted, shift, name="mean")
        squares = make.Mul(variance_ss, divisor)
        return mean, make.Sub(squares, make.Square(shifted), name="variance")


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance along `axes`, each element counted frequency_weights times (broadcast); 0 where all are 0."""
    keep = keep_dimensions(keepdims, keep_dims)
    with name_scope(name, "weighted_moments", [x, frequency_weights, axes]):
        values = convert(x, name="x")
        weights = convert(frequency_weights, name="frequency_weights")
        kind = values.dtype.base_dtype
        if kind is dtypes.float16:
            values = cast(values, dtypes.float32)
        weights = cast(weights, values.dtype.base_dtype)
        total = reduce_sum(weights * values, axes, keepdims=True, name="weighted_input_sum")
        everywhere = weights + zeros_like(values)
        count = reduce_sum(everywhere, axes, keepdims=True, name="sum_of_weights")
        mean = div_no_nan(total, count)
        distances = weights * make.SquaredDifference(values, mean)
        spread = reduce_sum(distances, axes, keepdims=True, name="weighted_distsq")
        variance = div_no_nan(spread, count)
        if not keep:
            mean, variance = squeeze(mean, axes), squeeze(variance, axes)
        return cast(mean, kind), cast(variance, kind)


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: bool | None = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Tensor:
    """`tf.nn.batch_normalization` of t (input) with mean m and variance v, by gamma if scale_after_normalization."""
    return batch_normalization(
        either(input, "input", t, "t"),
        either(mean, "mean", m, "m"),
        either(variance, "variance", v, "v"),
        beta,
        gamma if scale_after_normalization else None,
        variance_epsilon,
        name,
    )
