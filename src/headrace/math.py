"""`tf.math`: arithmetic."""

from __future__ import annotations

from headrace.ops.activations import softplus, softsign
from headrace.ops.arithmetic import (
    floordiv,
    multiply_no_nan,
    pow,
    squared_difference,
    subtract,
    truediv,
)
from headrace.ops.comparisons import (
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from headrace.ops.elementwise import (
    atan2,
    is_finite,
    is_inf,
    is_nan,
    nextafter,
    xdivy,
    xlog1py,
    xlogy,
)
from headrace.ops.nn_basic import l2_normalize, zero_fraction
from headrace.ops.reductions import (
    count_nonzero,
    reduce_all,
    reduce_any,
    reduce_euclidean_norm,
    reduce_logsumexp,
    reduce_std,
    reduce_variance,
)
from headrace.ops.scans import argmax, argmin, cumprod, cumsum, cumulative_logsumexp
from headrace.ops.segments import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
    unsorted_segment_sum,
)
from headrace.ops.shape_ops import invert_permutation
from headrace.ops.softmax_ops import log_softmax, softmax
from headrace.ops.special import erfcinv, erfinv, ndtri, polygamma, zeta
from headrace.ops.sums import accumulate_n, add_n
from headrace.ops.unique import top_k

__all__ = [
    "accumulate_n", "add_n", "argmax", "argmin", "atan2", "count_nonzero", "cumprod", "cumsum",
    "cumulative_logsumexp", "equal", "erfcinv", "erfinv", "floordiv", "greater",
    "greater_equal", "invert_permutation", "is_finite", "is_inf", "is_nan", "l2_normalize",
    "less", "less_equal", "log_softmax", "logical_and", "logical_not", "logical_or",
    "logical_xor", "multiply_no_nan", "ndtri", "nextafter", "not_equal", "polygamma", "pow",
    "reduce_all", "reduce_any", "reduce_euclidean_norm", "reduce_logsumexp", "reduce_std",
    "reduce_variance", "segment_max", "segment_mean", "segment_min", "segment_prod",
    "segment_sum", "softmax", "softplus", "softsign", "squared_difference", "subtract", "top_k",
    "truediv", "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min",
    "unsorted_segment_prod", "unsorted_segment_sqrt_n", "unsorted_segment_sum", "xdivy",
    "xlog1py", "xlogy", "zero_fraction", "zeta",
]  # fmt: skip
