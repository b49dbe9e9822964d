"""Reductions: sums, means, products, extremes and norms along axes, and what tf calls reduce_*.

Their gradients are in `reduction_gradients`; indices of extremes and running sums in `scans`.
Called by: every family, users.  Threads: kernels any; wrappers as graph.
Source: TF 1.15 core/kernels/reduction_ops*.cc, python/ops/math_ops.py; GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import NEVER_FAILS, NONE, PER_RECORD, SHARES, Traits
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import OpSpec, get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import static_axis
from headrace.ops._kernels.blocks import LARGE, summed_in_blocks, total
from headrace.ops._kernels.channels import is_over_places, reduced_over_places
from headrace.ops.array.constants import constant, zeros
from headrace.ops.array.ranges import range as arange
from headrace.ops.array.shapes import rank as rank_of
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.math.arithmetic import add_v2, mul, sub
from headrace.ops.math.casting import cast, conj, real
from headrace.ops.math.comparisons import not_equal, where_v2
from headrace.ops.math.elementwise import exp, is_finite, log, sqrt
from headrace.ops.math.magnitudes import abs as absolute
from headrace.ops.tables import ALL_NUMBERS, make

__all__ = [
    "count_nonzero",
    "norm",
    "reduce_all",
    "reduce_any",
    "reduce_euclidean_norm",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_std",
    "reduce_sum",
    "reduce_variance",
]

Axes = Any  # an int or a tuple of them (and `keep` a bool: NumPy's stubs ask for Literal)
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

# -- kernels ----------------------------------------------------------------------------------


def _reduced(c: ShapeContext) -> Shape:
    shape = c.shape("input")
    keep = c.attr("keep_dims")
    c.with_rank_at_most("reduction_indices", 1)
    value = c.value("reduction_indices")
    if value is None or shape is None:
        return (None,) * len(shape) if keep and shape is not None else None
    says = "Invalid reduction dimension {axis} for input with {rank} dimensions"
    axes = {static_axis(int(a), len(shape), "reduction_indices", says) for a in value.reshape(-1)}
    if keep:
        return tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _unreduced(axes: Any, rank: int) -> str:
    """How the message begins for axes that an input of `rank` does not have, or that come twice."""
    given = axes if isinstance(axes, tuple) else (axes,)
    for axis in given:
        if not -rank <= axis < rank:
            return f"Invalid reduction dimension ({axis} for input with {rank} dimension(s)"
    counted = [axis % rank for axis in given]
    twice = next((axis for axis in counted if counted.count(axis) > 1), counted[0])
    return f"Invalid reduction arguments: Axes contains duplicate dimension: {twice}"


def _reduction(
    name: str,
    types: str | None,
    compute: Callable[[Any, Axes, bool], Any],
    differentiable: bool = True,
    traits: Traits = NONE,
) -> OpSpec:
    """Op `name`: compute(input, axes, keep_dims), of attr T's `types` or of bools."""

    def kernel(xp: Any, input: Any, reduction_indices: Any, *, keep_dims: bool) -> Any:
        axes = reduction_indices.tolist()
        if type(axes) is list:
            axes = (
                tuple(axes)
                if reduction_indices.ndim == 1
                else tuple(reduction_indices.ravel().tolist())
            )
        if axes != () and not input.ndim:
            raise errors.invalid_argument(
                f"{_unreduced(axes, 0)}: reduction_indices {axes} of a scalar, which has no axis"
            )
        try:
            return compute(input, axes, keep_dims)
        except ValueError as error:
            raise errors.invalid_argument(
                f"{_unreduced(axes, input.ndim)}: reduction_indices {axes} must be distinct and in "
                f"[-{input.ndim}, {input.ndim}) for an input of shape {text(input.shape)}: {error}"
            ) from None

    what = (compute.__doc__ or "").rstrip()
    kernel.__doc__ = (
        f"{what}\n\n    Raises InvalidArgument on axes that are out of range or come twice.\n    "
    )
    kind = "bool" if types is None else "T"
    typed = "" if types is None else f"T: {{{types}}}; "
    return op(
        name,
        inputs=f"input: {kind}; reduction_indices: Tidx",
        outputs=f"output: {kind}",
        attrs=f"keep_dims: bool = false; {typed}Tidx: {{int32, int64}} = int32",
        shape=_reduced,
        traits=traits,
        differentiable=differentiable,
    )(kernel)


def _sum(x: Any, axes: Axes, keep: Any) -> Any:
    """The sum along axes; 0 of nothing.  In the input's type; bfloat16 is summed as float32.

    Source: TF 1.15 core/kernels/reduction_ops_sum.cc
    """
    if axes == ():  # as gradients ask for again and again, of what was not stretched
        return x.copy() if x.ndim else x[()]
    if x.dtype == _BFLOAT16:
        return np.add.reduce(x.astype(np.float32), axis=axes, keepdims=keep).astype(_BFLOAT16)
    if x.size >= LARGE and _in_blocks(x, axes):
        return _of_all(x, total(x), keep)
    if type(axes) is tuple and is_over_places(x, axes):
        return _kept(x, axes, reduced_over_places(np.add, x, axes), keep)
    if type(axes) is tuple and len(axes) == 1 and not keep and x.ndim > 1:
        (axis,) = axes
        if -x.ndim <= axis < x.ndim and x.shape[axis] == 1:
            return np.add(x.squeeze(axis), 0)  # as 0 is what a sum begins with
    return np.add.reduce(x, axis=axes, dtype=x.dtype, keepdims=keep)


def _kept(x: Any, axes: tuple[int, ...], found: Any, keep: bool) -> Any:
    """What `reduced_over_places` found, with the dimensions that were summed if they are kept."""
    if not keep:
        return found
    return found.reshape(*x.shape[: x.ndim - 1 - len(axes)], *(1,) * len(axes), x.shape[-1])


def _in_blocks(x: Any, axes: Axes) -> bool:
    """Whether all axes are reduced, of an array whose elements are summed in blocks."""
    listed = axes if isinstance(axes, tuple) else (axes,)
    return (
        summed_in_blocks(x)
        and len(listed) == x.ndim
        and {axis % x.ndim for axis in listed} == set(range(x.ndim))
        and all(-x.ndim <= axis < x.ndim for axis in listed)
    )


def _of_all(x: Any, value: Any, keep: bool) -> Any:
    return value.reshape((1,) * x.ndim) if keep else value


def _count(x: Any, axes: Axes) -> int:
    if isinstance(axes, int):
        count: int = x.shape[axes]
        return count
    product = 1
    for axis in axes:
        product *= x.shape[axis]
    return product


def _mean(x: Any, axes: Axes, keep: Any) -> Any:
    """The sum along axes over the number of summands; NaN of nothing.  Of integers, towards zero.

    Source: TF 1.15 core/kernels/reduction_ops_mean.cc
    """
    kind = x.dtype
    if kind.kind in "iu":
        return _integer_mean(x, axes, keep)
    if kind.itemsize == 2:
        x = x.astype(np.float32)
    if x.size >= LARGE and _in_blocks(x, axes):
        summed = _of_all(x, total(x), keep)
    elif type(axes) is tuple and is_over_places(x, axes):
        return mean_of_sums(reduced_over_places(np.add, x, axes), x, axes, keep).astype(
            kind, copy=False
        )
    else:
        summed = np.add.reduce(x, axis=axes, keepdims=keep)
    mean = np.divide(summed, _count(x, axes))
    return mean if mean.dtype == kind else mean.astype(kind)


def mean_of_sums(sums: Any, x: Any, axes: tuple[int, ...], keep: bool) -> Any:
    """The mean of x over places, from what `reduced_over_places` found."""
    return np.divide(_kept(x, axes, sums, keep), _count(x, axes))


def _integer_mean(x: Any, axes: Axes, keep: Any) -> Any:
    wide = np.uint64 if x.dtype.kind == "u" else np.int64
    total = np.add.reduce(x, axis=axes, dtype=wide, keepdims=keep)
    count = _count(x, axes)
    if count == 0:
        return np.zeros_like(total).astype(x.dtype)
    quotient = np.floor_divide(total, wide(count))
    quotient = quotient + ((total < 0) & (quotient * wide(count) != total)).astype(wide)
    return quotient.astype(x.dtype)


def _prod(x: Any, axes: Axes, keep: Any) -> Any:
    """The product along axes; 1 of nothing.

    Source: TF 1.15 core/kernels/reduction_ops_prod.cc
    """
    if x.dtype == _BFLOAT16:
        return np.multiply.reduce(x.astype(np.float32), axis=axes, keepdims=keep).astype(_BFLOAT16)
    return np.multiply.reduce(x, axis=axes, dtype=x.dtype, keepdims=keep)


def _lowest(kind: Any, sign: int) -> Any:
    """The neutral element of max (sign -1) or min (sign 1)."""
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return limits.min if sign < 0 else limits.max
    return np.array(sign * np.inf, kind)


def _extreme(ufunc: Any, x: Any, axes: Axes, keep: Any, sign: int) -> Any:
    """sign: see `_lowest`."""
    if x.size == 0:
        return ufunc.reduce(x, axis=axes, keepdims=keep, initial=_lowest(x.dtype, sign))
    if type(axes) is tuple and is_over_places(x, axes, "fiu"):
        return _kept(x, axes, reduced_over_places(ufunc, x, axes), keep)
    return ufunc.reduce(x, axis=axes, keepdims=keep)


def _max(x: Any, axes: Axes, keep: Any) -> Any:
    """The largest along axes, NaN if there is one; of nothing -∞ or the lowest integer.

    Source: TF 1.15 core/kernels/reduction_ops_max.cc
    """
    return _extreme(np.maximum, x, axes, keep, -1)


def _min(x: Any, axes: Axes, keep: Any) -> Any:
    """The smallest along axes, NaN if there is one; of nothing ∞ or the highest integer.

    Source: TF 1.15 core/kernels/reduction_ops_min.cc
    """
    return _extreme(np.minimum, x, axes, keep, 1)


def _all(x: Any, axes: Axes, keep: Any) -> Any:
    """Whether all along axes are true; true of nothing.

    Source: TF 1.15 core/kernels/reduction_ops_all.cc
    """
    return np.logical_and.reduce(x, axis=axes, keepdims=keep)


def _any(x: Any, axes: Axes, keep: Any) -> Any:
    """Whether one along axes is true; false of nothing.

    Source: TF 1.15 core/kernels/reduction_ops_any.cc
    """
    return np.logical_or.reduce(x, axis=axes, keepdims=keep)


def _euclidean_norm(x: Any, axes: Axes, keep: Any) -> Any:
    """The square root of the sum of |x|² along axes; of integers, towards zero.

    Source: TF 1.15 core/kernels/reduction_ops_euclidean.cc
    """
    kind = x.dtype
    if kind.kind == "c":
        x = np.abs(x)
    elif kind.kind in "iu":
        x = x.astype(np.float64)
    elif kind.itemsize == 2:
        x = x.astype(np.float32)
    return np.sqrt(np.add.reduce(x * x, axis=axes, keepdims=keep)).astype(kind)


_ORDERED = (
    "float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, "
    "quint8, qint32, qint16, quint16"
)
sum_op = _reduction("Sum", ALL_NUMBERS, _sum, traits={NEVER_FAILS, PER_RECORD, SHARES})
mean_op = _reduction("Mean", ALL_NUMBERS, _mean, traits={NEVER_FAILS, PER_RECORD, SHARES})
prod_op = _reduction("Prod", ALL_NUMBERS, _prod, traits={PER_RECORD})
max_op = _reduction("Max", _ORDERED, _max, traits={NEVER_FAILS, PER_RECORD, SHARES})
min_op = _reduction("Min", _ORDERED, _min, traits={NEVER_FAILS, PER_RECORD, SHARES})
all_op = _reduction("All", None, _all, traits={PER_RECORD}, differentiable=False)
any_op = _reduction("Any", None, _any, traits={PER_RECORD}, differentiable=False)
euclidean_norm_op = _reduction("EuclideanNorm", ALL_NUMBERS, _euclidean_norm)

# -- reduce_* ---------------------------------------------------------------------------------


def either(new_name: str, new: Any, old_name: str, old: Any) -> Any:
    """The one of two spellings of an argument that was given, or None.  Raises ValueError for both."""
    if new is not None and old is not None:
        raise ValueError(
            f"Cannot specify both {old_name!r} and {new_name!r}: the first is the old name of the second"
        )
    return old if new is None else new


def axes_of(x: Any, axis: Any) -> Any:
    """`axis`, or all axes of x."""
    if axis is not None:
        return axis
    shape = getattr(x, "shape", None)  # a tensor's or a variable's
    if isinstance(shape, TensorShape) and shape.ndims:
        return constant(np.arange(shape.ndims, dtype=np.int32))
    return arange(0, rank_of(x))


def _reducer(spec: OpSpec, public: str, doc: str) -> Callable[..., Any]:
    def reduce(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        axis = either("axis", axis, "reduction_indices", reduction_indices)
        keep = either("keepdims", keepdims, "keep_dims", keep_dims)
        reduced: Tensor = spec(
            input_tensor, axes_of(input_tensor, axis), keep_dims=bool(keep), name=name
        )
        if axis is None and not keep and reduced.raw_shape is None:
            reduced.set_shape(())
        return reduced

    reduce.__name__ = reduce.__qualname__ = public
    reduce.__doc__ = (
        f"{doc} along `axis` (one, several, or None for all).\n\n"
        "    keepdims: leave the axes as ones of size 1.  reduction_indices, keep_dims: their old names.\n    "
    )
    return reduce


_of_ragged = of_ragged_by("headrace.ops.array.ragged_reductions")

reduce_sum = _of_ragged(_reducer(sum_op, "reduce_sum", "The sum"))
reduce_mean = _of_ragged(_reducer(mean_op, "reduce_mean", "The mean; of integers, towards zero;"))
reduce_prod = _of_ragged(_reducer(prod_op, "reduce_prod", "The product"))
reduce_max = _of_ragged(_reducer(max_op, "reduce_max", "The largest element"))
reduce_min = _of_ragged(_reducer(min_op, "reduce_min", "The smallest element"))
reduce_all = _of_ragged(_reducer(all_op, "reduce_all", "Whether all elements are true"))
reduce_any = _of_ragged(_reducer(any_op, "reduce_any", "Whether an element is true"))
reduce_euclidean_norm = _reducer(euclidean_norm_op, "reduce_euclidean_norm", "The Euclidean norm")


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(Σ exp(x)) along `axis`, without overflow; arguments as of `reduce_sum`."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    with name_scope(name, "ReduceLogSumExp", [input_tensor]) as scope:
        largest = reduce_max(input_tensor, axis, True)
        shift = stop_gradient(where_v2(is_finite(largest), largest, 0))
        logarithm = log(reduce_sum(exp(sub(input_tensor, shift)), axis, keep))
        if not keep:
            shift = make.Reshape(shift, make.Shape(logarithm))
        total: Tensor = add_v2(logarithm, shift, name=scope)
        return total


def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean of |x - mean|² along `axis`; real for complex x.  Raises TypeError for integers."""
    with name_scope(name or "reduce_variance"):
        x = convert(input_tensor)
        mean = reduce_mean(x, axis, True)
        if mean.dtype.is_integer:
            raise TypeError(
                f"a variance needs floats or complex numbers, and {x.name} is {x.dtype.name}"
            )
        difference = sub(x, mean, name="sub")
        if x.dtype.is_complex:
            squares = real(mul(difference, conj(difference), name="mul"))
        else:
            squares = make.Square(difference)
        variance: Tensor = reduce_mean(squares, axis, keepdims)
        return variance


def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of `reduce_variance`."""
    with name_scope(name or "reduce_std"):
        deviation: Tensor = sqrt(reduce_variance(input_tensor, axis, keepdims))
        return deviation


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Tensor:
    """How many elements along `axis` are not 0 (or empty), as `dtype`; arguments as of `reduce_sum`."""
    keep = either("keepdims", keepdims, "keep_dims", keep_dims)
    input_tensor = either("input", input, "input_tensor", input_tensor)
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    with name_scope(name, "count_nonzero", [input_tensor]):
        x = convert(input_tensor, name="input")
        if x.dtype.base_dtype is dtypes.bool:
            nonzero = x
        else:
            nonzero = not_equal(x, zeros([], x.dtype.base_dtype))
        counted: Tensor = cast(reduce_sum(cast(nonzero, dtypes.int64), axis, keep), dtype)
        return counted


# -- norm -------------------------------------------------------------------------------------

_EUCLIDEAN = ("fro", "euclidean", 2, 2.0)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """A vector norm (`axis` None, one axis) or matrix norm (two axes).

    ord: euclidean, 1, inf or a positive number; of matrices euclidean, fro, 1, 2 (their largest singular value) or inf.
    Raises ValueError for another ord, and for the 2-norm of matrices of unknown rank.
    """
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    axes, is_matrix = _norm_axes(axis)
    _check_order(ord, is_matrix)
    with name_scope(name, "norm", [tensor]):
        tensor = convert(tensor)
        if is_matrix and ord == 2:
            result = _largest_singular_value(tensor, axes or [])
        elif ord in _EUCLIDEAN:
            squares = mul(tensor, conj(tensor), name="mul")
            result = sqrt(reduce_sum(squares, axes, True))
        else:
            result = _norm_of_sizes(absolute(tensor), ord, axes, is_matrix)
        if not keep:
            result = make.Squeeze(result, squeeze_dims=list(axes or ()))
        found: Tensor = result
        return found


def _norm_axes(axis: Any) -> tuple[list[int] | None, bool]:
    if axis is None:
        return None, False
    if not isinstance(axis, (tuple, list)):
        return [axis], False
    axes = [int(a) for a in axis]
    if len(set(axes)) != 2 or len(axes) != 2:
        raise ValueError(
            f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}"
        )
    return axes, True


def _check_order(ord: Any, is_matrix: bool) -> None:
    if is_matrix:
        if ord not in ("euclidean", "fro", 1, 2, np.inf):
            raise ValueError(
                f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}"
            )
    elif not (ord == "euclidean" or (not isinstance(ord, str) and ord > 0)):
        raise ValueError(
            f"'ord' must be a supported vector norm, got {ord}: it is 'euclidean' or a positive number"
        )


def _largest_singular_value(tensor: Tensor, axes: list[int]) -> Any:
    """That of each matrix in two axes, which are kept."""
    count = tensor.shape.ndims
    if count is None:
        raise ValueError(
            "the 2-norm of matrices needs a tensor whose rank is known: set_shape says what is known of it"
        )
    both = [axis % count for axis in axes]
    order = [axis for axis in range(count) if axis not in both] + both
    moved = make.Transpose(tensor, order)
    values = get("Svd")(moved, compute_uv=False, full_matrices=False)[0]
    largest = make.ExpandDims(reduce_max(absolute(values), -1, True), -1)
    return make.Transpose(largest, [order.index(axis) for axis in range(count)])


def _norm_of_sizes(sizes: Any, ord: Any, axes: list[int] | None, is_matrix: bool) -> Any:
    """The norm of absolute values, axes kept."""
    if ord == 1:
        summed = reduce_sum(sizes, None if axes is None else axes[0], True)
        return reduce_max(summed, axes[1], True) if is_matrix and axes is not None else summed
    if ord == np.inf:
        if is_matrix and axes is not None:
            sizes = reduce_sum(sizes, axes[1], True)
        return reduce_max(sizes, None if axes is None else axes[0], True)
    return make.Pow(reduce_sum(make.Pow(sizes, ord), axes, True), 1.0 / ord)
