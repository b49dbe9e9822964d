"""`tf.math`: arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.missing import explaining as _explaining
from headrace.ops.array.shapes import invert_permutation
from headrace.ops.array.unique import top_k
from headrace.ops.math.arithmetic import (
    abs,
    add,
    divide,
    floordiv,
    floormod,
    maximum,
    minimum,
    mod,
    multiply,
    multiply_no_nan,
    negative,
    pow,
    sign,
    square,
    squared_difference,
    subtract,
    truediv,
)
from headrace.ops.math.casting import angle, conj, imag, real
from headrace.ops.math.clipping import scalar_mul
from headrace.ops.math.comparisons import (
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
from headrace.ops.math.elementwise import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    cos,
    cosh,
    exp,
    expm1,
    floor,
    is_finite,
    is_inf,
    is_nan,
    log,
    log1p,
    log_sigmoid,
    nextafter,
    reciprocal,
    rint,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    xdivy,
    xlog1py,
    xlogy,
)
from headrace.ops.math.reductions import (
    count_nonzero,
    reduce_all,
    reduce_any,
    reduce_euclidean_norm,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_variance,
)
from headrace.ops.math.scans import argmax, argmin, cumprod, cumsum, cumulative_logsumexp
from headrace.ops.math.segments import (
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
from headrace.ops.math.special import (
    digamma,
    erf,
    erfc,
    erfcinv,
    erfinv,
    lgamma,
    ndtri,
    polygamma,
    zeta,
)
from headrace.ops.math.sums import accumulate_n, add_n
from headrace.ops.nn.activations import softplus, softsign
from headrace.ops.nn.basics import in_top_k, l2_normalize, zero_fraction
from headrace.ops.nn.softmax import log_softmax, softmax

if not TYPE_CHECKING:
    __getattr__ = _explaining(__name__)

__all__ = [
    "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "argmax", "argmin", "asin",
    "asinh", "atan", "atan2", "atanh", "ceil", "conj", "cos", "cosh", "count_nonzero",
    "cumprod", "cumsum", "cumulative_logsumexp", "digamma", "divide", "equal", "erf", "erfc",
    "erfcinv", "erfinv", "exp", "expm1", "floor", "floordiv", "floormod", "greater",
    "greater_equal", "imag", "in_top_k", "invert_permutation", "is_finite", "is_inf", "is_nan",
    "l2_normalize", "less", "less_equal", "lgamma", "log", "log1p", "log_sigmoid",
    "log_softmax", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum",
    "minimum", "mod", "multiply", "multiply_no_nan", "ndtri", "negative", "nextafter",
    "not_equal", "polygamma", "pow", "real", "reciprocal", "reduce_all", "reduce_any",
    "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "rint", "round", "rsqrt",
    "scalar_mul", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "sigmoid", "sign", "sin", "sinh", "softmax", "softplus", "softsign", "sqrt", "square",
    "squared_difference", "subtract", "tan", "tanh", "top_k", "truediv", "unsorted_segment_max",
    "unsorted_segment_mean", "unsorted_segment_min", "unsorted_segment_prod",
    "unsorted_segment_sqrt_n", "unsorted_segment_sum", "xdivy", "xlog1py", "xlogy",
    "zero_fraction", "zeta",
]  # fmt: skip
