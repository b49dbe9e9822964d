"""Sparse tensors reduced, normalised, and combined element by element with dense and with sparse ones.

Called by: users, operators of SparseTensor.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/sparse_reduce_op.cc, sparse_softmax_op.cc,
sparse_dense_binary_op_shared.cc, sparse_sparse_binary_op_shared.cc); GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.shapes import Shape, text
from headrace.base.traits import SIZED_BY_VALUES
from headrace.graph.graph import Operation
from headrace.graph.registry import OpSpec, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.sparse_keys import common_keys, row_keys, runs
from headrace.ops.array.constants import ones, zeros_like
from headrace.ops.array.gathering import gather_nd
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.array.slicing import slice as slice_
from headrace.ops.math.casting import cast
from headrace.ops.math.reduction_gradients import kept_shape
from headrace.ops.math.segments import reduced
from headrace.ops.sparse.cutting import INPUTS, checked_indices
from headrace.ops.sparse.maps import checked_sparse
from headrace.ops.tables import ALL_NUMBERS, make

__all__: list[str] = []

Array = np.ndarray[Any, Any]

_REAL = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"
_ANY = f"{{{ALL_NUMBERS}}}"


# -- reductions -------------------------------------------------------------------------------


def _reduced_shape(c: ShapeContext) -> Shape:
    whole, axes = c.value("input_shape"), c.value("reduction_axes")
    if whole is None or axes is None:
        return None
    sizes = whole.tolist()
    found = set()
    for axis in axes.reshape(-1).tolist():
        if not -len(sizes) <= axis < len(sizes):
            return None  # an error of the step
        found.add(axis % len(sizes))
    if c.attr("keep_dims"):
        return tuple(1 if at in found else size for at, size in enumerate(sizes))
    return tuple(size for at, size in enumerate(sizes) if at not in found)


def _groups(
    indices: Array, values: Array, shape: Array, axes: Array, ufunc: Any
) -> tuple[Array, Array, list[int]]:
    """The indices of groups in the dimensions that stay, their reductions, and which dimensions stay."""
    checked_sparse(indices, values, shape)
    rank, listed = len(shape), axes.reshape(-1).tolist()
    if axes.ndim > 1:
        raise errors.invalid_argument(
            f"Expected reduction_axes to be a scalar or a vector, but it has shape {text(axes.shape)}"
        )
    wrong = [axis for axis in listed if not -rank <= axis < rank]
    if wrong:
        raise errors.invalid_argument(
            f"Invalid reduction dimension {wrong[0]}: it must be in [{-rank}, {rank})"
        )
    checked_indices(indices, shape)
    gone = {axis % rank for axis in listed}
    kept = [at for at in range(rank) if at not in gone]
    rows = indices[:, kept]
    keys = row_keys(rows)
    order = np.argsort(keys, kind="stable")
    starts = runs(keys[order])
    ids = np.zeros(len(keys), np.int64)
    ids[starts[1:]] = 1
    sums = reduced(ufunc, values[order], np.cumsum(ids), len(starts), 0)
    return rows[order][starts], sums, kept


def _sizes(shape: Array, kept: list[int], keep_dims: bool) -> list[int]:
    sizes: list[int] = shape.tolist()
    if keep_dims:
        return [size if at in kept else 1 for at, size in enumerate(sizes)]
    return [sizes[at] for at in kept]


def _reduction(name: str, ufunc: Any, types: str, what: str) -> tuple[OpSpec, OpSpec]:
    def dense(
        xp: Any,
        input_indices: Array,
        input_values: Array,
        input_shape: Array,
        reduction_axes: Array,
        *,
        keep_dims: bool,
    ) -> Any:
        rows, found, kept = _groups(
            input_indices, input_values, input_shape, np.asarray(reduction_axes), ufunc
        )
        sizes = _sizes(input_shape, kept, False)
        if min(sizes, default=0) < 0:
            raise errors.invalid_argument(f"the shape {input_shape.tolist()} has negative sizes")
        out = np.zeros(sizes, found.dtype)
        out[tuple(rows.T)] = found if kept else (found[0] if len(found) else 0)
        return out.reshape(_sizes(input_shape, kept, keep_dims))

    def sparse(
        xp: Any,
        input_indices: Array,
        input_values: Array,
        input_shape: Array,
        reduction_axes: Array,
        *,
        keep_dims: bool,
    ) -> Any:
        rows, found, kept = _groups(
            input_indices, input_values, input_shape, np.asarray(reduction_axes), ufunc
        )
        sizes = _sizes(input_shape, kept, keep_dims)
        out = np.zeros((len(rows), len(sizes)), np.int64)
        out[:, kept if keep_dims else slice(None)] = rows
        return out, found, np.array(sizes, np.int64)

    dense.__doc__ = f"""{what} along dimensions, as a dense tensor: 0 where there is no element.

    reduction_axes [] or [k], from either end.  Raises InvalidArgument.
    """
    sparse.__doc__ = f"{what} along dimensions, as a sparse tensor.  Raises InvalidArgument."
    attrs = f"keep_dims: bool = false; T: {types}"
    inputs = f"{INPUTS}; reduction_axes: int32"
    made = op(name, inputs=inputs, outputs="output: T", attrs=attrs, shape=_reduced_shape)(dense)
    kept_sparse = op(
        f"{name}Sparse",
        inputs=inputs,
        outputs="output_indices: int64; output_values: T; output_shape: int64",
        attrs=attrs,
        shape=lambda c: [None, None, None],
        traits={SIZED_BY_VALUES},
    )(sparse)
    return made, kept_sparse


sparse_reduce_sum_op, sparse_reduce_sum_sparse_op = _reduction(
    "SparseReduceSum", np.add, _ANY, "Sums"
)
sparse_reduce_max_op, sparse_reduce_max_sparse_op = _reduction(
    "SparseReduceMax", np.maximum, _REAL, "Maxima"
)


@sparse_reduce_sum_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    indices, _, shape, axes = op.inputs
    kept = kept_shape(shape, axes)
    spread = reshape(dout, kept)
    scale = shape // cast(kept, dtypes.int64)
    return None, gather_nd(spread, indices // scale), None, None


# -- softmax ----------------------------------------------------------------------------------


def _softmax_shape(c: ShapeContext) -> Shape:
    c.with_rank("sp_indices", 2)
    c.with_rank("sp_shape", 1)
    return c.with_rank("sp_values", 1)


@op(
    "SparseSoftmax",
    inputs="sp_indices: int64; sp_values: T; sp_shape: int64",
    outputs="output: T",
    attrs="T: {half, float, double}",
    shape=_softmax_shape,
)
def sparse_softmax_op(xp: Any, sp_indices: Array, sp_values: Any, sp_shape: Array) -> Any:
    """softmax over the elements of each row of the last dimension; elements must stand in row-major order.

    Raises InvalidArgument below rank 2.
    """
    checked_sparse(sp_indices, sp_values, sp_shape)
    if len(sp_shape) < 2:
        raise errors.invalid_argument(
            f"Input should have rank >= 2, got: {len(sp_shape)}: the softmax is over the last dimension"
        )
    checked_indices(sp_indices, sp_shape)
    if not len(sp_values):
        return sp_values.copy()
    starts = runs(row_keys(sp_indices[:, :-1]))
    lengths = np.diff(np.append(starts, len(sp_values)))
    values = sp_values.astype(np.float32) if sp_values.dtype == np.float16 else sp_values
    powers = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), lengths))
    sums = np.repeat(np.add.reduceat(powers, starts), lengths)
    return (powers / sums).astype(sp_values.dtype)


@sparse_softmax_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    indices, shape, out = op.inputs[0], op.inputs[2], op.outputs[0]
    sums = -sparse_reduce_sum_op(indices, out * dout, shape, [-1], keep_dims=True)
    return None, sparse_dense_add_op(indices, dout, shape, sums) * out, None


# -- with a dense tensor ----------------------------------------------------------------------


def _beside_dense(name: str, function: Any, what: str) -> OpSpec:
    def kernel(xp: Any, sp_indices: Array, sp_values: Any, sp_shape: Array, dense: Any) -> Any:
        checked_sparse(sp_indices, sp_values, sp_shape)
        rank, sizes = len(sp_shape), np.shape(dense)
        fits = len(sizes) <= rank and all(
            size in (1, wanted)
            for size, wanted in zip(sizes[::-1], sp_shape.tolist()[::-1], strict=False)
        )
        if not fits:
            raise errors.invalid_argument(
                "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
                f"{text(tuple(sp_shape))} vs. {text(sizes)}"
            )
        checked_indices(sp_indices, sp_shape)
        chosen = [
            0 if size == 1 else sp_indices[:, rank - len(sizes) + at]
            for at, size in enumerate(sizes)
        ]
        other = np.broadcast_to(np.asarray(dense)[tuple(chosen)], np.shape(sp_values))
        return function(sp_values, other)

    kernel.__doc__ = f"""The elements of a sparse tensor {what} a dense one that broadcasts to its shape.

    sp_values [n]; out [n].  Raises InvalidArgument.
    """
    return op(
        name,
        inputs="sp_indices: int64; sp_values: T; sp_shape: int64; dense: T",
        outputs="output: T",
        attrs=f"T: {_ANY}",
        shape=lambda c: (c.with_rank("sp_indices", 2) or (None,))[:1],
    )(kernel)


def _quotient(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return np.divide(x, y).astype(x.dtype)
    if (y == 0).any():
        raise errors.invalid_argument("Integer division by zero: an element of dense is 0")
    found = x // y
    if x.dtype.kind == "i":
        found += ((x % y != 0) & ((x < 0) != (y < 0))).astype(x.dtype)
    return found


sparse_dense_add_op = _beside_dense("SparseDenseCwiseAdd", np.add, "plus")
sparse_dense_mul_op = _beside_dense("SparseDenseCwiseMul", np.multiply, "times")
sparse_dense_div_op = _beside_dense("SparseDenseCwiseDiv", _quotient, "over")


def _scaled(op: Operation) -> tuple[Tensor, Tensor]:
    """The indices of each element in the dense operand, whose shape comes second, both int64."""
    indices, _, shape, dense = op.inputs
    own = cast(shape_of(dense), dtypes.int64)
    more = expand_dims(size_of(shape) - size_of(own), 0)
    padded = concat([ones(more, dtypes.int64), own], 0)
    scaled = indices // (shape // padded)
    return slice_(scaled, concat([[0], more], 0), [-1, -1]), own


def _of_dense(op: Operation, places: Tensor, own: Tensor, parts: Tensor) -> Any:
    return make.SparseTensorDenseAdd(places, parts, own, zeros_like(op.inputs[3]))


@sparse_dense_add_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    places, own = _scaled(op)
    return None, dout, None, _of_dense(op, places, own, dout)


@sparse_dense_mul_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    places, own = _scaled(op)
    chosen = gather_nd(op.inputs[3], places)
    return None, dout * chosen, None, _of_dense(op, places, own, dout * op.inputs[1])


@sparse_dense_div_op.gradient
def _(op: Operation, dout: Tensor) -> Any:
    places, own = _scaled(op)
    chosen = gather_nd(op.inputs[3], places)
    of_values = dout / chosen
    slope = dout * (-op.inputs[1] / make.Square(chosen))
    return None, of_values, None, _of_dense(op, places, own, slope)


# -- with a sparse tensor ---------------------------------------------------------------------


def _union_shapes(c: ShapeContext) -> list[Shape]:
    for side in "ab":
        c.with_rank(f"{side}_indices", 2)
        c.with_rank(f"{side}_values", 1)
        c.with_rank(f"{side}_shape", 1)
    return [(None, None), (None,)]


def _beside_sparse(name: str, ufunc: Any, types: str, what: str) -> OpSpec:
    def kernel(
        xp: Any,
        a_indices: Array,
        a_values: Any,
        a_shape: Array,
        b_indices: Array,
        b_values: Any,
        b_shape: Array,
    ) -> Any:
        checked_sparse(a_indices, a_values, a_shape)
        checked_sparse(b_indices, b_values, b_shape)
        if a_shape.tolist() != b_shape.tolist():
            raise errors.invalid_argument(
                f"Operands' shapes do not match: got {a_shape.tolist()} and {b_shape.tolist()}"
            )
        of_a, of_b = common_keys(a_indices, b_indices)
        keys, first = np.unique(np.concatenate([of_a, of_b]), return_index=True)
        sides = np.zeros((2, len(keys)), a_values.dtype)
        sides[0, np.searchsorted(keys, of_a)] = a_values
        sides[1, np.searchsorted(keys, of_b)] = b_values
        return np.concatenate([a_indices, b_indices])[first], ufunc(sides[0], sides[1])

    kernel.__doc__ = f"""The {what} of two sparse tensors of one shape, with 0 for what is not there.

    The elements that one of them has, in row-major order.  Raises InvalidArgument.
    """
    return op(
        name,
        inputs="a_indices: int64; a_values: T; a_shape: int64; b_indices: int64; b_values: T; b_shape: int64",
        outputs="output_indices: int64; output_values: T",
        attrs=f"T: {types}",
        shape=_union_shapes,
        traits={SIZED_BY_VALUES},
        differentiable=False,
    )(kernel)


sparse_maximum_op = _beside_sparse("SparseSparseMaximum", np.maximum, _REAL, "larger")
sparse_minimum_op = _beside_sparse("SparseSparseMinimum", np.minimum, _ANY, "smaller")
