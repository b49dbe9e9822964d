"""Sparse tensors and dense ones: made dense, multiplied by dense matrices, added.

Called by: users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/sparse_to_dense_op.cc, sparse_tensor_dense_matmul_op.cc, sparse_add_op.cc);
GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import OF_COUNTS, SIZED_BY_VALUES
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext, same_as
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.narrow import single
from headrace.ops._kernels.row_sums import sums_of_rows
from headrace.ops._kernels.sparse_keys import is_counting, row_keys
from headrace.ops.array.constants import zeros, zeros_like
from headrace.ops.array.gathering import gather, gather_nd
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, matrix_transpose, size, squeeze, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.linalg.products import matmul
from headrace.ops.math.broadcasting import broadcast_gradient_args
from headrace.ops.math.casting import conj
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.segments import reduced
from headrace.ops.sparse.order import as_sparse
from headrace.ops.tables import ALL_NUMBERS, make

__all__ = [
    "sparse_add",
    "sparse_tensor_dense_matmul",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
]

Array = np.ndarray[Any, Any]


def _checked_parts(indices: Any, values: Any, rank: int) -> None:
    """Raises InvalidArgument unless indices is [n, rank] and values [n]."""
    if indices.ndim != 2 or indices.shape[1] != rank or values.shape != indices.shape[:1]:
        raise errors.invalid_argument(
            f"a sparse tensor of rank {rank} has indices [n, {rank}] and values [n], but they have shapes "
            f"{list(indices.shape)} and {list(values.shape)}"
        )


def _differing(one: Any, other: Any) -> int:
    """The first dimension in which two shapes differ; 0 if they agree as far as both go."""
    pairs = enumerate(zip(np.ravel(one), np.ravel(other), strict=False))
    return next((at for at, (a, b) in pairs if a != b), 0)


def _checked_bounds(indices: Array, shape: Any) -> None:
    """Raises InvalidArgument if one of indices [n, rank] is outside of shape [rank]."""
    outside = (indices < 0) | (indices >= shape)
    if outside.any():
        at = int(np.flatnonzero(outside.any(axis=1))[0])
        raise errors.invalid_argument(
            f"indices[{at}] = {text(tuple(indices[at]))} is out of bounds: need 0 <= index < {text(tuple(shape))}"
        )


# -- SparseToDense ----------------------------------------------------------------------------


def _dense_shape(c: ShapeContext) -> Shape:
    rank = c.with_rank("output_shape", 1)
    assert rank is not None
    indices = c.shape("sparse_indices")
    if indices is not None and len(indices) > 2:
        raise ValueError(f"sparse_indices have shape {shape_rules.text(indices)}, of rank above 2")
    known = c.shape_value("output_shape")
    return known if known is not None or rank[0] is None else (None,) * rank[0]


@op(
    "SparseToDense",
    inputs="sparse_indices: Tindices; output_shape: Tindices; sparse_values: T; default_value: T",
    outputs="dense: T",
    attrs="validate_indices: bool = true; T: type; Tindices: {int32, int64}",
    shape=_dense_shape,
)
def sparse_to_dense_op(
    xp: Any,
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any,
    *,
    validate_indices: bool,
) -> Any:
    """default_value everywhere but at sparse_indices, where sparse_values are.

    sparse_indices [], [n] or [n, rank]; output_shape [rank]; sparse_values [] or [n]; default_value [].
    validate_indices: they must be in order and none there twice; else the last of equal ones counts.
    Raises InvalidArgument, in any case for an index that is out of bounds.
    """
    if np.ndim(output_shape) != 1 or np.ndim(sparse_indices) > 2 or np.ndim(default_value):
        raise errors.invalid_argument(
            _misshapen(np.ndim(output_shape), np.ndim(sparse_indices))
            + f": they have shapes {np.shape(output_shape)}, {np.shape(sparse_indices)} and {np.shape(default_value)}"
        )
    count = len(sparse_indices) if np.ndim(sparse_indices) else 1
    width = sparse_indices.shape[1] if np.ndim(sparse_indices) == 2 else 1
    if width != len(output_shape):
        raise errors.invalid_argument(
            f"output_shape has incorrect number of elements: {len(output_shape)} should be: {width}, the columns of "
            f"the indices; it is {output_shape.tolist()}"
        )
    if np.shape(sparse_values) not in ((), (count,)):
        raise errors.invalid_argument(
            f"sparse_values has incorrect shape {text(np.shape(sparse_values))}, should be [] or [{count}]"
        )
    if (output_shape < 0).any():
        raise errors.invalid_argument(
            f"Dimension {output_shape.min()} must be >= 0: the output's shape is {output_shape.tolist()}"
        )
    rows = np.reshape(sparse_indices, (count, width))
    if width == 2 and _one_each(rows, output_shape):
        kind = np.asarray(default_value).dtype
        dense = np.full(tuple(output_shape.tolist()), default_value, kind)
        dense[:, 0] = sparse_values
        return dense
    _checked_bounds(rows, output_shape)
    sizes = tuple(output_shape.tolist())
    places = _flat_places(rows, sizes)
    if validate_indices and (places[1:] <= places[:-1]).any():
        _check_order(rows)
    dense = np.full(sizes, default_value, np.asarray(default_value).dtype)
    dense.reshape(-1)[places] = sparse_values
    return dense


def _one_each(rows: Array, sizes: Any) -> bool:
    """Whether the first element of each row of a matrix is there, and nothing else."""
    if sizes[1] <= 0 or rows[:, 1].any():
        return False
    return is_counting(rows[:, 0], int(sizes[0]))


def _flat_places(rows: Array, sizes: tuple[int, ...]) -> Array:
    """Where indices [n, rank] are in an array of these sizes that is laid out as a vector."""
    found = np.zeros(len(rows), np.int64)
    for at, length in enumerate(sizes):
        if at:
            found *= length
        found += rows[:, at]
    return found


def _misshapen(rank_of_shape: int, rank_of_indices: int) -> str:
    if rank_of_shape != 1:
        return "output_shape must be rank 1, the indices a matrix and the default a scalar"
    if rank_of_indices > 2:
        return "sparse_indices should be a scalar, vector, or matrix"
    return "default_value should be a scalar"


def _check_order(rows: Array) -> None:
    """Raises InvalidArgument unless every row comes after the one before it."""
    steps = np.diff(rows, axis=0)
    first = np.argmax(steps != 0, axis=1)
    rises = steps[np.arange(len(steps)), first]
    if (rises <= 0).any():
        at = int(np.flatnonzero(rises <= 0)[0]) + 1
        what = "repeated" if rises[at - 1] == 0 else "out of order (tf.sparse_reorder sorts)"
        raise errors.invalid_argument(f"indices[{at}] = {text(tuple(rows[at]))} is {what}")


@sparse_to_dense_op.gradient
def _(op: Operation, dout: Any) -> Any:
    indices, shape, values, _ = op.inputs
    places = indices
    if indices.raw_shape is None or len(indices.raw_shape) < 2:  # a row of numbers an element
        places = make.Reshape(indices, concat([[-1], [size(shape)]], 0))
    d_values: Tensor = gather_nd(dout, places)
    d_default = reduce_sum(dout) - reduce_sum(d_values)
    zeros_like(indices)  # of which TensorFlow makes nodes
    zeros_like(shape)
    if values.raw_shape is None or values.raw_shape == ():  # one value for all elements
        wanted = shape_of(values)
        axes, _ = broadcast_gradient_args(wanted, shape_of(d_values))
        d_values = make.Reshape(make.Sum(d_values, axes), wanted)
    return None, None, d_values, d_default


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """A tensor of output_shape that is default_value but at sparse_indices, where it is sparse_values.

    sparse_indices: [], [n] or [n, rank], in order and none twice if validate_indices; sparse_values: [] or [n].
    """
    made: Tensor = sparse_to_dense_op(
        sparse_indices,
        output_shape,
        sparse_values,
        default_value,
        validate_indices=validate_indices,
        name=name,
    )
    return made


def sparse_tensor_to_dense(
    sp_input: Any,
    default_value: Any = None,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """The sparse tensor as a dense one, with default_value (None: zero, or no bytes) where it has no element."""
    given = as_sparse(sp_input)
    if default_value is None:
        default_value = zeros([], given.dtype)
    return sparse_to_dense(
        given.indices, given.dense_shape, given.values, default_value, validate_indices, name
    )


# -- SparseTensorDenseMatMul ------------------------------------------------------------------


def _product_shape(c: ShapeContext) -> Shape:
    c.with_rank("a_indices", 2)
    c.with_rank("a_values", 1)
    sizes = c.shape_value("a_shape")
    if sizes is not None and len(sizes) != 2:
        raise ValueError(f"a must be a matrix, and has the shape {shape_rules.text(sizes)}")
    rows, inner = sizes or (None, None)
    if c.attr("adjoint_a"):
        rows, inner = inner, rows
    b = c.with_rank("b", 2)
    assert b is not None
    inner_b, columns = b[::-1] if c.attr("adjoint_b") else b
    shape_rules.merge_sizes(inner, inner_b, f"a's {inner} columns and b's {inner_b} rows")
    return rows, columns


@op(
    "SparseTensorDenseMatMul",
    inputs="a_indices: Tindices; a_values: T; a_shape: int64; b: T",
    outputs="product: T",
    attrs="T: type; Tindices: {int32, int64} = int64; adjoint_a: bool = false; adjoint_b: bool = false",
    shape=_product_shape,
)
def sparse_tensor_dense_matmul_op(
    xp: Any,
    a_indices: Array,
    a_values: Any,
    a_shape: Any,
    b: Any,
    *,
    adjoint_a: bool,
    adjoint_b: bool,
) -> Any:
    """The product of a sparse matrix a [m, k] and a dense one b [k, n]; each conjugated and transposed if asked for.

    Indices need no order; elements of equal ones add up.
    Raises InvalidArgument for shapes that do not fit and an index out of bounds.
    """
    if a_shape.shape != (2,) or b.ndim != 2:
        raise errors.invalid_argument(
            f"Tensor '{'b' if b.ndim != 2 else 'a'}' is not a matrix: a's shape is {a_shape.tolist()} and b's "
            f"{list(b.shape)}"
        )
    _checked_parts(a_indices, a_values, 2)
    _checked_bounds(a_indices, a_shape)
    rows, inner = a_indices.T
    height, width = a_shape.tolist()
    if adjoint_a:
        rows, inner, height, width, a_values = inner, rows, width, height, np.conj(a_values)
    if adjoint_b:
        b = np.conj(b.T)
    if width != len(b):
        raise errors.invalid_argument(
            f"Cannot multiply A and B because inner dimension does not match: {width} vs. {len(b)}; a's shape is "
            f"{a_shape.tolist()}, and its columns must be as many as b's rows"
        )
    factors, weights = np.ascontiguousarray(single(b)), single(a_values)[:, np.newaxis]

    def products(at: Array, out: Array) -> None:
        factors.take(
            inner[at], axis=0, out=out, mode="clip"
        )  # what is checked need not be buffered
        out *= weights[at]

    found = sums_of_rows(rows, height, factors.shape[1], factors.dtype, products)
    return found.astype(b.dtype, copy=False)


@sparse_tensor_dense_matmul_op.gradient
def _(op: Operation, dout: Any) -> Any:
    indices, values, shape, b = op.inputs
    flip_a, flip_b = op["adjoint_a"], op["adjoint_b"]
    d_b = sparse_tensor_dense_matmul_op(indices, values, shape, dout, adjoint_a=not flip_a)
    if flip_b:
        d_b = matrix_transpose(conj(d_b))
    rows, columns = indices[:, 0], indices[:, 1]
    from_dout = gather(dout, columns if flip_a else rows)
    factors = transpose(b) if flip_b else b
    from_b = gather(factors, rows if flip_a else columns)
    # One product of rows for each element; which of them is conjugated depends on both.
    same = flip_a == flip_b
    left = expand_dims(from_dout, -1 if flip_a else -2)
    right = expand_dims(from_b, -2 if same else -1)
    d_values = squeeze(matmul(left, right, adjoint_a=flip_a, adjoint_b=same), [-2, -1])
    return None, d_values, None, d_b


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """The product of two matrices of which one is sparse, each conjugated and transposed if asked for.

    sp_a, b: a SparseTensor and a matrix, in either order.  Raises TypeError, ValueError.
    """
    if isinstance(b, (SparseTensor, SparseTensorValue)):
        if isinstance(sp_a, (SparseTensor, SparseTensorValue)):
            raise TypeError(
                "one of the factors must be dense; make one by tf.sparse_tensor_to_dense"
            )
        flipped = sparse_tensor_dense_matmul(
            b, sp_a, adjoint_a=not adjoint_b, adjoint_b=not adjoint_a, name=name
        )
        return transpose(flipped, conjugate=flipped.dtype.is_complex)
    a = as_sparse(sp_a)
    with name_scope(name, "SparseTensorDenseMatMul", [a.indices, a.values, b]):
        made: Tensor = sparse_tensor_dense_matmul_op(
            a.indices,
            a.values,
            a.dense_shape,
            convert(b, name="b"),
            adjoint_a=adjoint_a,
            adjoint_b=adjoint_b,
        )
        return made


# -- addition ---------------------------------------------------------------------------------


@op(
    "SparseTensorDenseAdd",
    inputs="a_indices: Tindices; a_values: T; a_shape: Tindices; b: T",
    outputs="output: T",
    attrs=f"T: {{{ALL_NUMBERS}}}; Tindices: {{int32, int64}}",
    shape=same_as("b"),
)
def sparse_tensor_dense_add_op(
    xp: Any, a_indices: Array, a_values: Any, a_shape: Any, b: Any
) -> Any:
    """b with the elements of a sparse tensor of its shape added.  Raises InvalidArgument."""
    if a_shape.ndim != 1 or tuple(a_shape.tolist()) != np.shape(b):
        raise errors.invalid_argument(
            f"Dimension {_differing(a_shape, np.shape(b))} does not equal (no broadcasting is supported): a's shape is "
            f"{a_shape.tolist()} and b's {list(np.shape(b))}"
        )
    _checked_parts(a_indices, a_values, np.ndim(b))
    _checked_bounds(a_indices, a_shape)
    out = np.array(b)
    np.add.at(out, tuple(a_indices.T), a_values)
    return out


@sparse_tensor_dense_add_op.gradient
def _(op: Operation, dout: Any) -> Any:
    return None, gather_nd(dout, op.inputs[0]), None, dout


def _sum_shapes(c: ShapeContext) -> list[Shape]:
    a, b = c.with_rank("a_indices", 2), c.with_rank("b_indices", 2)
    assert a is not None
    assert b is not None
    rank = shape_rules.merge(a[1:], b[1:])
    assert rank is not None
    shape_a = c.with_rank("a_shape", 1)
    return [(None, *rank), (None,), shape_rules.merge(shape_a, c.with_rank("b_shape", 1))]


@op(
    "SparseAdd",
    inputs="a_indices: int64; a_values: T; a_shape: int64; b_indices: int64; b_values: T; b_shape: int64; "
    "thresh: Treal",
    outputs="sum_indices: int64; sum_values: T; sum_shape: int64",
    attrs=f"T: {{{ALL_NUMBERS}}}; Treal: realnumbertype",
    shape=_sum_shapes,
    traits={SIZED_BY_VALUES},
)
def sparse_add_op(
    xp: Any,
    a_indices: Array,
    a_values: Any,
    a_shape: Any,
    b_indices: Array,
    b_values: Any,
    b_shape: Any,
    thresh: Any,
) -> Any:
    """The sum of two sparse tensors of one shape, in row-major order, without elements below thresh.

    Raises InvalidArgument if the parts or shapes do not fit.
    """
    if a_shape.ndim != 1 or a_shape.tolist() != b_shape.tolist():
        at = _differing(a_shape, b_shape)
        says = (
            "Operands do not have the same ranks; got shapes"
            if a_shape.shape != b_shape.shape or a_shape.ndim != 1
            else f"Operands' shapes do not match: got {a_shape[at]} and {b_shape[at]} for dimension {at}"
        )
        raise errors.invalid_argument(f"{says}: {a_shape.tolist()} and {b_shape.tolist()}")
    if np.ndim(thresh):
        raise errors.invalid_argument(
            f"thresh must be a scalar, but has shape {list(thresh.shape)}"
        )
    _checked_parts(a_indices, a_values, len(a_shape))
    _checked_parts(b_indices, b_values, len(b_shape))
    indices = np.concatenate([a_indices, b_indices])
    values = np.concatenate([a_values, b_values])
    keys = row_keys(indices)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    new = np.ones(len(keys), bool)
    new[1:] = keys[1:] != keys[:-1]
    first = order[new]
    sums = reduced(np.add, values, np.cumsum(new) - 1, len(first), 0)
    kept = np.abs(sums) >= thresh
    return indices[first[kept]], sums[kept], a_shape.copy()


def _same_rows(c: ShapeContext) -> list[Shape]:
    a, b = c.with_rank("a_indices", 2), c.with_rank("b_indices", 2)
    assert a is not None
    assert b is not None
    return [a[:1], b[:1]]


@op(
    "SparseAddGrad",
    inputs="backprop_val_grad: T; a_indices: int64; b_indices: int64; sum_indices: int64",
    outputs="a_val_grad: T; b_val_grad: T",
    attrs=f"T: {{{ALL_NUMBERS}}}",
    shape=_same_rows,
    traits={OF_COUNTS},
    differentiable=False,
)
def sparse_add_grad_op(
    xp: Any, backprop_val_grad: Any, a_indices: Array, b_indices: Array, sum_indices: Array
) -> Any:
    """For each element of a and of b the gradient of its sum: zero where that fell below the threshold.

    Raises InvalidArgument if the parts do not fit.
    """
    if not sum_indices.ndim == a_indices.ndim == b_indices.ndim == 2:
        raise errors.invalid_argument(
            f"indices must be matrices, but have shapes {list(a_indices.shape)}, {list(b_indices.shape)} and "
            f"{list(sum_indices.shape)}"
        )
    _checked_parts(sum_indices, backprop_val_grad, sum_indices.shape[-1])
    if not a_indices.shape[1:] == b_indices.shape[1:] == sum_indices.shape[1:]:
        raise errors.invalid_argument(
            f"the indices of a, b and their sum must have as many columns, but have shapes {list(a_indices.shape)}, "
            f"{list(b_indices.shape)} and {list(sum_indices.shape)}"
        )
    every = np.concatenate([sum_indices, a_indices, b_indices])
    distinct, which = np.unique(every, axis=0, return_inverse=True)
    which = which.reshape(-1)
    n, m = len(sum_indices), len(sum_indices) + len(a_indices)
    found = np.zeros(len(distinct), backprop_val_grad.dtype)
    found[which[:n]] = backprop_val_grad
    return found[which[n:m]], found[which[m:]]


@sparse_add_op.gradient
def _(op: Operation, d_indices: Any, d_values: Any, d_shape: Any) -> Any:
    d_a, d_b = sparse_add_grad_op(d_values, op.inputs[0], op.inputs[3], op.outputs[0])
    return None, d_a, None, None, d_b, None, None


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """The sum of two tensors of one shape of which one is sparse, or both; then the sum is a SparseTensor.

    threshold (or thresh, its older name): of two sparse tensors, sums whose size is below it are left out.
    Raises TypeError if none is sparse, ValueError.
    """
    if threshold is not None and thresh is not None:
        raise ValueError("threshold and thresh are the same thing: give one of them")
    limit = threshold if threshold is not None else 0 if thresh is None else thresh
    kinds = (SparseTensor, SparseTensorValue)
    if not isinstance(a, kinds) and not isinstance(b, kinds):
        raise TypeError(
            "At least one input should be SparseTensor; do you mean to use tf.add()? It adds dense ones"
        )
    if isinstance(a, kinds) and isinstance(b, kinds):
        return _sparse_sum(as_sparse(a), as_sparse(b), limit)
    given, dense = (a, b) if isinstance(a, kinds) else (b, a)
    sparse = as_sparse(given)
    return make.SparseTensorDenseAdd(sparse.indices, sparse.values, sparse.dense_shape, dense)


def _sparse_sum(a: SparseTensor, b: SparseTensor, limit: Any) -> SparseTensor:
    kind = a.dtype.base_dtype.real_dtype
    limit = convert(limit, kind, "threshold")
    merged = shape_rules.merge(a.get_shape()._raw, b.get_shape()._raw)
    indices, values, sizes = sparse_add_op(
        a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, limit
    )
    if shape_rules.is_fully_defined(merged):
        assert merged is not None
        return SparseTensor(indices, values, np.array(merged, dtypes.int64.np))
    return SparseTensor(indices, values, sizes)
