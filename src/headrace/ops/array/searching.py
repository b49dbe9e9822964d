"""Searching in sorted rows, flat indices as coordinates, counts of numbers.

Called by: library.sorting, programs.  Threads: kernels any.
Source: TF 1.15 core/ops/array_ops.cc, math_ops.cc (schemas, errors)
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.blocks import BLOCK

__all__ = ["unravel_index"]

Array = np.ndarray[Any, Any]

# -- bounds -----------------------------------------------------------------------------------


def _bounds_shape(c: ShapeContext) -> Shape:
    c.with_rank("sorted_inputs", 2)
    return c.with_rank("values", 2)


def _bound(name: str, side: Literal["left", "right"], where: str) -> OpSpec:
    def kernel(xp: Any, sorted_inputs: Array, values: Array, *, out_type: DType) -> Array:
        if sorted_inputs.ndim != 2 or values.ndim != 2:
            raise errors.invalid_argument(
                "sorted_inputs and values must be matrices, not of shapes "
                f"{text(sorted_inputs.shape)} and {text(values.shape)}"
            )
        if len(sorted_inputs) != len(values):
            raise errors.invalid_argument(
                f"Leading dim_size of both tensors must match: there are {len(sorted_inputs)} and {len(values)} rows"
            )
        found = np.empty(values.shape, out_type.np)
        for row, wanted, at in zip(sorted_inputs, values, found, strict=True):
            at[:] = np.searchsorted(row, wanted, side)
        if side == "left" and values.dtype.kind not in "biuO":
            found[values != values] = 0  # as nothing is less than NaN
        return found

    kernel.__doc__ = (
        f"Where each of values [b, m] would stand {where} equal ones in the sorted rows [b, n].  "
        "Raises InvalidArgument if they are no matrices of as many rows."
    )
    return op(
        name,
        inputs="sorted_inputs: T; values: T",
        outputs="output: out_type",
        attrs="T: type; out_type: {int32, int64} = int32",
        shape=_bounds_shape,
    )(kernel)


lower_bound = _bound("LowerBound", "left", "before")
upper_bound = _bound("UpperBound", "right", "behind")


# -- coordinates ------------------------------------------------------------------------------


def _unraveled(c: ShapeContext) -> Shape:
    indices, dims = c.with_rank_at_most("indices", 1), c.with_rank("dims", 1)
    if indices is None or dims is None:
        return None
    return (dims[0], *indices)


@op(
    "UnravelIndex",
    inputs="indices: Tidx; dims: Tidx",
    outputs="output: Tidx",
    attrs="Tidx: {int32, int64} = int32",
    shape=_unraveled,
)
def unravel_index(xp: Any, indices: Array, dims: Array) -> Array:
    """Coordinates [len(dims), …] in an array of sizes `dims` of flat indices [] or [n].

    Raises InvalidArgument if one is not in the array.
    """
    if indices.ndim > 1:
        raise errors.invalid_argument(
            f"The indices can only be scalar or vector, got {text(indices.shape)}"
        )
    if dims.ndim != 1:
        raise errors.invalid_argument(f"The dims must be a vector, got {text(dims.shape)}")
    if (dims == 0).any():
        at = int(np.argmax(dims == 0))
        raise errors.invalid_argument(
            f"Input dims cannot contain a dim of zero, but dims contains zero at index {at}"
        )
    if (dims < 0).any():
        raise errors.invalid_argument(f"dims are sizes of an array, not {dims.tolist()}")
    total = shape_rules.num_elements(tuple(dims.tolist())) or 0
    if total > np.iinfo(dims.dtype).max:
        raise errors.invalid_argument(
            f"Input dims product is causing integer overflow: {dims.tolist()}"
        )
    outside = (indices < 0) | (indices >= total)
    if np.any(outside):
        raise errors.invalid_argument(
            f"index is out of bound as with dims: {dims.tolist()} are sizes of {total} elements, which have no number "
            f"{int(indices.reshape(-1)[outside.reshape(-1)][0])}"
        )
    strides = np.cumprod(np.concatenate(([1], dims[:0:-1])), dtype=np.int64)[::-1]
    found = indices[None] // strides.reshape(-1, *(1,) * indices.ndim)
    return (found % dims.reshape(-1, *(1,) * indices.ndim)).astype(indices.dtype)


# -- counts -----------------------------------------------------------------------------------


def _bins(c: ShapeContext) -> Shape:
    c.with_rank("value_range", 1)
    c.with_size("value_range", 2)
    c.with_rank("nbins", 0)
    return (c.size_value("nbins"),)


@op(
    "HistogramFixedWidth",
    inputs="values: T; value_range: T; nbins: int32",
    outputs="out: dtype",
    attrs="T: {int32, int64, float, double}; dtype: {int32, int64} = int32",
    shape=_bins,
    differentiable=False,
)
def histogram_fixed_width_op(
    xp: Any, values: Array, value_range: Array, nbins: Any, *, dtype: DType
) -> Array:
    """[nbins]: how many values are in each of as many equal parts of value_range [2]; the rest is in the outer ones.

    Raises InvalidArgument on a range that is none, without bins, or on NaN.
    """
    if value_range.shape != (2,):
        raise errors.invalid_argument(
            f"value_range should have 2 elements, got shape {text(value_range.shape)}"
        )
    if np.ndim(nbins):
        raise errors.invalid_argument(
            f"nbins should be a scalar, got shape {text(np.shape(nbins))}"
        )
    if not value_range[0] < value_range[1]:
        raise errors.invalid_argument(
            f"value_range should satisfy value_range[0] < value_range[1], but got {value_range.tolist()}"
        )
    if nbins <= 0:
        raise errors.invalid_argument(f"nbins should be a positive number, but got {int(nbins)}")
    low, high = value_range
    step = (float(high) - float(low)) / int(nbins)
    flat = values.reshape(-1)
    made = np.zeros(int(nbins), np.int64)
    for first in range(0, len(flat), BLOCK):
        with np.errstate(all="ignore"):
            above = np.maximum(flat[first : first + BLOCK], low)
            above -= low
            above = above.astype(np.float64)
            above /= step
        if np.isnan(above).any():
            raise errors.invalid_argument("Histogram values must not contain NaN")
        np.minimum(above, float(nbins) - 1, out=above)
        made += np.bincount(above.astype(np.int64), minlength=len(made))
    return made.astype(dtype.np)


def _bincount_shape(c: ShapeContext) -> Shape:
    c.with_rank("size", 0)
    return (c.size_value("size"),)


def _counts(arr: Array, size: int, weights: Array, binary: bool) -> Array:
    """[size] counts, or sums of weights, of a vector."""
    kept: Any = slice(None)
    if arr.size and arr.max() >= size:
        kept = arr < size
    where = arr[kept]
    if binary:
        found = np.zeros(size, weights.dtype)
        found[where] = 1
        return found
    if not weights.size:
        return np.bincount(where, minlength=size)[:size].astype(weights.dtype)
    found = np.zeros(size, weights.dtype)
    np.add.at(found, where, weights.reshape(-1)[kept])
    return found


def _checked_count(arr: Array, size: Any) -> int:
    if np.ndim(size):
        raise errors.invalid_argument(f"Shape must be rank 0 but is rank {np.ndim(size)}: size")
    if size < 0:
        raise errors.invalid_argument(f"size ({int(size)}) must be non-negative")
    if arr.size and arr.min() < 0:
        raise errors.invalid_argument(f"Input arr must be non-negative! It has {int(arr.min())}")
    return int(size)


@op(
    "Bincount",
    inputs="arr: int32; size: int32; weights: T",
    outputs="bins: T",
    attrs="T: {int32, int64, float, double}",
    shape=_bincount_shape,
)
def bincount_op(xp: Any, arr: Array, size: Any, weights: Array) -> Array:
    """[size]: how often each number is in arr, or the sum of its weights if there are any; larger ones count nowhere.

    Raises InvalidArgument on negative numbers, or weights of another shape.
    """
    count = _checked_count(arr, size)
    if weights.size and weights.size != arr.size:
        raise errors.invalid_argument(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights "
            f"equal to 1. Received {text(weights.shape)}, and arr is {text(arr.shape)}"
        )
    return _counts(arr.reshape(-1), count, weights, False)


def _dense_shape(c: ShapeContext) -> Shape:
    c.with_rank("size", 0)
    found = c.with_rank_at_most("input", 2)
    if found is None:
        return None
    size = c.size_value("size")
    return (found[0], size) if len(found) == 2 else (size,)


@op(
    "DenseBincount",
    inputs="input: Tidx; size: Tidx; weights: T",
    outputs="output: T",
    attrs="Tidx: {int32, int64}; T: {int32, int64, float, double}; binary_output: bool = false",
    shape=_dense_shape,
)
def dense_bincount_op(
    xp: Any, input: Array, size: Any, weights: Array, *, binary_output: bool
) -> Array:
    """As Bincount, of a vector, or of each row of a matrix; with binary_output whether a number is there.

    Raises InvalidArgument on negative numbers, or weights of another shape.
    """
    if input.ndim > 2:
        raise errors.invalid_argument(
            f"Shape must be at most rank 2 but is rank {input.ndim}: the input has shape {text(input.shape)}"
        )
    if np.ndim(size):
        raise errors.invalid_argument(f"Shape must be rank 0 but is rank {np.ndim(size)}: size")
    if weights.size and weights.shape != input.shape:
        raise errors.invalid_argument(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights "
            f"equal to 1. Received {text(weights.shape)}, and the input is {text(input.shape)}"
        )
    count = _checked_count(input, size)
    if input.ndim < 2:
        return _counts(input.reshape(-1), count, weights, binary_output)
    found = np.zeros((len(input), count), weights.dtype)
    for at, row in enumerate(input):
        found[at] = _counts(row, count, weights[at] if weights.size else weights, binary_output)
    return found
