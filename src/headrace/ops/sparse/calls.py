"""Functions of sparse tensors: tf.sparse as programs call it.

Called by: users, embeddings.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/sparse_ops.py); GraphDefs as 2.21
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, TensorShape
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.indexed_slices import IndexedSlices
from headrace.graph.names import name_scope
from headrace.graph.registry import get
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant, fill, ones, ones_like, zeros, zeros_like
from headrace.ops.array.gathering import gather, gather_nd, where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, rank, reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as slice_
from headrace.ops.array.unique import setdiff1d
from headrace.ops.flow.checks import assert_equal, assert_less_equal
from headrace.ops.flow.identities import identity, with_dependencies
from headrace.ops.math.arithmetic import add, maximum, minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import not_equal, where_v2
from headrace.ops.math.reductions import reduce_max
from headrace.ops.sparse.cutting import (
    sparse_concat_op,
    sparse_fill_empty_rows_op,
    sparse_reshape_op,
    sparse_slice_op,
    sparse_split_op,
)
from headrace.ops.sparse.dense import sparse_tensor_to_dense
from headrace.ops.sparse.order import as_sparse, sparse_merge, sparse_reorder
from headrace.ops.sparse.reductions import (
    sparse_maximum_op,
    sparse_minimum_op,
    sparse_reduce_max_op,
    sparse_reduce_max_sparse_op,
    sparse_reduce_sum_op,
    sparse_reduce_sum_sparse_op,
    sparse_softmax_op,
)

__all__ = [
    "from_dense",
    "sparse_concat",
    "sparse_expand_dims",
    "sparse_eye",
    "sparse_fill_empty_rows",
    "sparse_mask",
    "sparse_matmul",
    "sparse_maximum",
    "sparse_minimum",
    "sparse_reduce_max",
    "sparse_reduce_max_sparse",
    "sparse_reduce_sum",
    "sparse_reduce_sum_sparse",
    "sparse_reset_shape",
    "sparse_reshape",
    "sparse_retain",
    "sparse_slice",
    "sparse_softmax",
    "sparse_split",
    "sparse_to_indicator",
    "sparse_transpose",
]


def _one_of(new: str, value: Any, old: str, older: Any) -> Any:
    """What is given under one of two names.  Raises ValueError if both are."""
    if older is None:
        return value
    if value is not None:
        raise ValueError(f"Cannot specify both '{old}' and '{new}'; {old} is the older name of it")
    return older


# -- cutting and joining ----------------------------------------------------------------------


def sparse_concat(
    axis: Any,
    sp_inputs: Any,
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: Any = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Sparse tensors one after the other along `axis`; concat_dim is its old name.

    expand_nonconcat_dims: other dimensions are as long as the longest.  Raises TypeError, ValueError.
    """
    wider = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    at = _one_of("axis", axis, "concat_dim", concat_dim)
    if not isinstance(sp_inputs, (list, tuple)) or hasattr(sp_inputs, "dense_shape"):
        raise TypeError(
            f"sparse_concat takes a list of SparseTensors, and not {sp_inputs!r:.80}: Inputs must be a list"
        )
    given = [as_sparse(each) for each in sp_inputs]
    if len(given) == 1:
        return given[0]
    if wider:
        rows = [reshape(each.dense_shape, [1, -1]) for each in given]
        largest = reduce_max(concat(rows, 0), 0)
        sizes = [_with_own(largest, each.dense_shape, at) for each in given]
    else:
        sizes = [each.dense_shape for each in given]
    found = sparse_concat_op(
        [each.indices for each in given],
        [each.values for each in given],
        sizes,
        concat_dim=at,
        name=name,
    )
    static = _joined([each.get_shape()._raw for each in given], at, wider)
    if shape_rules.is_fully_defined(static):
        return SparseTensor(found[0], found[1], constant(np.array(static, np.int64)))
    made = SparseTensor(*found)
    if static is not None:
        made._known = TensorShape(static)
    return made


def _with_own(largest: Tensor, own: Tensor, axis: int) -> Tensor:
    """The largest sizes, but its own along `axis`."""
    before = largest[:axis]
    chosen = own[axis:] if axis == -1 else own[axis : axis + 1]
    after = np.zeros(0, np.int64) if axis == -1 else largest[axis + 1 :]
    return concat([before, chosen, after], 0)


def _joined(shapes: list[Shape], axis: int, wider: bool) -> Shape:
    """What is known of the whole shape."""
    known = [list(each) for each in shapes if each is not None]
    ranks = {len(each) for each in known}
    if len(known) < len(shapes) or len(ranks) > 1 or not -len(known[0]) <= axis < len(known[0]):
        return None
    sizes = [each[axis] for each in known]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    for each in known:
        each[axis] = total
    if not wider:
        return tuple(known[0])
    return tuple(
        None if None in column else max(size for size in column if size is not None)
        for column in zip(*known, strict=True)
    )


class _KeywordsOnly:
    """Stands where nothing may be given by position."""

    def __repr__(self) -> str:
        return "KeywordRequired()"


_KEYWORDS_ONLY = _KeywordsOnly()


def sparse_split(
    keyword_required: Any = _KEYWORDS_ONLY,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """`num_split` parts of a sparse tensor along `axis`, the first ones longer where it does not divide.

    All arguments by name; split_dim is an old name of axis.  Raises ValueError.
    """
    if keyword_required is not _KEYWORDS_ONLY:
        raise ValueError(
            "Keyword arguments are required for this function: sparse_split(sp_input=…)"
        )
    for what, value in (("sp_input", sp_input), ("num_split", num_split)):
        if value is None:
            raise ValueError(f"{what} is required")
    at = _one_of("axis", axis, "split_dim", split_dim)
    if at is None:
        raise ValueError("axis is required")
    given = as_sparse(sp_input)
    indices, values, sizes = sparse_split_op(
        at, given.indices, given.values, given.dense_shape, num_split=num_split, name=name
    )
    parts = zip(indices, values, sizes, strict=True)
    return [SparseTensor(*each) for each in parts]


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """The part of a sparse tensor that begins at `start` and has at most the shape `size`."""
    given = as_sparse(sp_input)
    first, most = convert(start, dtypes.int64), convert(size, dtypes.int64)
    with name_scope(name, "SparseSlice", [given.values]) as scope:
        parts = [given.indices, given.values, given.dense_shape]
        return SparseTensor(*sparse_slice_op(*parts, first, most, name=scope))


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """The same elements in another shape, one size of which may be -1.  Raises ValueError."""
    given = as_sparse(sp_input)
    wanted = cast(shape, dtypes.int64)
    with name_scope(name, "SparseReshape", [given.values]) as scope:
        indices, sizes = sparse_reshape_op(given.indices, given.dense_shape, wanted, name=scope)
        static = _static_reshape(given.get_shape(), wanted)
        if static is not None:
            sizes = constant(np.array(static, np.int64))
        return SparseTensor(indices, identity(given.values), sizes)


def _static_reshape(before: TensorShape, wanted: Tensor) -> list[int] | None:
    """The new shape, if that before is known, too; one size may be -1, or not be known.

    Raises ValueError if it cannot be.
    """
    if not before.is_fully_defined() or wanted.shape.ndims != 1:
        return None
    given = wanted.op.inputs[0] if wanted.op.type == "Cast" else wanted
    found = constant_value(given, partial=True)
    if found is None:
        return None
    sizes = [-1 if size is None else int(size) for size in found.tolist()]
    if sizes.count(-1) > 1:
        if constant_value(wanted) is None:
            return None
        raise ValueError(f"At most one dimension can be inferred (-1). Found: {sizes}")
    total = prod(before._raw or ())  # type: ignore[arg-type]
    known = prod(size for size in sizes if size != -1)
    if -1 in sizes and known and total % known == 0:
        return [total // known if size == -1 else size for size in sizes]
    if -1 in sizes or total != known:
        raise ValueError(
            f"Cannot reshape a tensor with {total} elements to shape {sizes} ({known} elements)"
        )
    return sizes


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """The elements where to_retain [n] is True.  Raises ValueError if it is not as long."""
    given = as_sparse(sp_input)
    kept = convert(to_retain)
    kept.shape[0].merge_with(given.values.shape.with_rank(1)[0])
    at = reshape(where(kept), [-1])
    return SparseTensor(
        gather(given.indices, at), gather(given.values, at), identity(given.dense_shape)
    )


def sparse_fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """The tensor with `default_value` in the first column of rows that have no element, and which those are."""
    given = as_sparse(sp_input)
    with name_scope(name, "SparseFillEmptyRows", [given.values]):
        default = convert(default_value, given.values.dtype)
        indices, values, empty, _ = sparse_fill_empty_rows_op(
            given.indices, given.values, given.dense_shape, default
        )
        return SparseTensor(indices, values, given.dense_shape), empty


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """The same elements in a larger shape, or in the smallest that holds them.

    Raises ValueError if new_shape has another rank or is smaller; the step checks what is not known.
    """
    given = as_sparse(sp_input)
    indices, values = identity(given.indices), identity(given.values)
    before = identity(given.dense_shape)
    if new_shape is None:
        largest = reduce_max(indices, axis=0)
        low = constant(0, dtypes.int64)
        return SparseTensor(
            indices, values, maximum(low, add(largest, ones_like(before), name="Add"))
        )
    wanted: Tensor = cast(convert(new_shape), dtypes.int64)
    wanted.shape.assert_has_rank(1)
    static = constant_value(wanted)
    known = given.get_shape()._raw if given.get_shape().ndims is not None else None
    if static is not None:
        sizes: list[int] = static.tolist()
        if known is not None and len(known) != len(sizes):
            raise ValueError(
                f"Cannot reset the shape {list(known)} to {sizes}: new_shape must have as many sizes"
            )
        if known is not None and None not in known:
            if any(size < old for size, old in zip(sizes, known, strict=True) if old is not None):
                raise ValueError(
                    f"Requested dimension sizes {sizes} are below those of the tensor, {list(known)}"
                )
            return SparseTensor(indices, values, np.array(sizes, np.int64))
    wanted.shape.merge_with(before.shape)
    wanted = with_dependencies([assert_equal(shape_of(before), shape_of(wanted))], wanted)
    return SparseTensor(
        indices, values, with_dependencies([assert_less_equal(before, wanted)], wanted)
    )


# -- where elements are -----------------------------------------------------------------------


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """The tensor with its dimensions in the order `perm`, reversed if that is not given."""
    given = as_sparse(sp_input)
    with name_scope(name, "SparseTranspose", [given.values]):
        if perm is None:
            count = given.get_shape().ndims
            if count is not None:
                perm = np.arange(count - 1, -1, -1)
            else:
                of = rank(given)
                perm = (of - 1) - range_of(0, of, 1)
        indices = transpose(gather(transpose(given.indices), perm))
        before = given.get_shape()
        order = constant_value(convert(perm))
        if order is not None and before.ndims is not None and len(order) != before.ndims:
            raise ValueError(
                f"perm has {len(order)} elements, and the sparse tensor {before.ndims} dimensions: {order.tolist()}"
            )
        if order is not None and before.is_fully_defined():
            sizes = before.as_list()
            shape: Any = [sizes[at] for at in order.tolist()]
        else:
            shape = gather(given.dense_shape, perm)
        return sparse_reorder(SparseTensor(indices, given.values, shape))


def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """The tensor with a dimension of size 1 before `axis`; the last one if that is not given."""
    given = as_sparse(sp_input)
    of: Any = given.get_shape().ndims
    if of is None:
        of = shape_of(given.dense_shape)[0]
    axis = -1 if axis is None else axis
    with name_scope(name, "expand_dims", [given.values]):
        if isinstance(axis, SparseTensor):
            raise TypeError("axis must be an integer value or a dense tensor, and is sparse")
        at = convert(axis, dtypes.int32, "axis")
        at = where_v2(at >= 0, at, at + of + 1)
        added = zeros([shape_of(given.indices)[0], 1], dtypes.int64)
        before = slice_(given.indices, [0, 0], [-1, at])
        after = slice_(given.indices, [0, at], [-1, -1])
        indices = concat([before, added, after], 1)
        low = slice_(given.dense_shape, [0], [at])
        high = slice_(given.dense_shape, [at], [-1])
        one = constant([1], dtypes.int64, name="new_shape")
        shape = concat([low, one, high], 0)
        return SparseTensor(indices, given.values, shape)


def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """A dense bool tensor whose last dimension, of vocab_size, is True at the ids of each row."""
    given = as_sparse(sp_input)
    with name_scope(name, "SparseToIndicator", [given.values]) as scope:
        count = expand_dims(shape_of(given.indices)[0], 0)
        marks = SparseTensor(given.indices, fill(count, True), given.dense_shape)
        merged = sparse_merge(given, marks, vocab_size, scope)
        return sparse_tensor_to_dense(
            merged, default_value=False, validate_indices=False, name=scope
        )


def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """The slices whose indices are not among mask_indices."""
    with name_scope(name, "sparse_mask", [a, mask_indices]) as scope:
        kept, at = setdiff1d(a.indices, mask_indices)
        return IndexedSlices(gather(a.values, at, name=scope), kept, a.dense_shape)


# -- made -------------------------------------------------------------------------------------


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements of a dense tensor that are not 0 (not empty, of strings)."""
    with name_scope(name, "dense_to_sparse"):
        dense = convert(tensor)
        indices = where(not_equal(dense, zeros_like(dense)))
        return SparseTensor(
            indices, gather_nd(dense, indices), shape_of(dense, out_type=dtypes.int64)
        )


def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """A sparse matrix with ones on its diagonal; square if num_columns is not given."""
    with name_scope(name, "eye", [num_rows, num_columns]):
        rows = _whole(num_rows, "num_rows")
        columns = rows if num_columns is None else _whole(num_columns, "num_columns")
        count = minimum(rows, columns)
        diagonal = range_of(count, dtype=dtypes.int64)
        return SparseTensor(
            stack([diagonal, diagonal], axis=1), ones(count, dtype=dtype), [rows, columns]
        )


def _whole(value: Any, name: str) -> Tensor:
    whole: Tensor = (
        cast(value, dtypes.int64)
        if isinstance(value, Tensor)
        else convert(value, dtypes.int64, name)
    )
    return whole


# -- reductions -------------------------------------------------------------------------------


def _reduction_axes(given: SparseTensor, axis: Any, older: Any) -> Any:
    axis = _one_of("axis", axis, "reduction_axes", older)
    if axis is not None:
        return axis
    count = given.dense_shape.shape.with_rank(1)[0].value
    if count is not None:
        return constant(np.arange(count, dtype=np.int32))
    return range_of(0, rank(given))


def _reduce(spec: str, sp_input: Any, axis: Any, keepdims: Any, older: Any, keep_dims: Any) -> Any:
    given = as_sparse(sp_input)
    keep = _one_of("keepdims", keepdims, "keep_dims", keep_dims)
    keep = False if keep is None else keep
    axes = _reduction_axes(given, axis, older)
    return get(spec)(given.indices, given.values, given.dense_shape, axes, keep_dims=keep)


def sparse_reduce_sum(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Sums along `axis`, all dimensions if it is not given, as a dense tensor."""
    name = sparse_reduce_sum_op.name
    made: Tensor = _reduce(name, sp_input, axis, keepdims, reduction_axes, keep_dims)
    return made


def sparse_reduce_max(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The largest elements along `axis`, as a dense tensor; 0 where there is none."""
    name = sparse_reduce_max_op.name
    made: Tensor = _reduce(name, sp_input, axis, keepdims, reduction_axes, keep_dims)
    return made


def sparse_reduce_sum_sparse(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Sums along `axis`, as a sparse tensor."""
    name = sparse_reduce_sum_sparse_op.name
    return SparseTensor(*_reduce(name, sp_input, axis, keepdims, reduction_axes, keep_dims))


def sparse_reduce_max_sparse(
    sp_input: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """The largest elements along `axis`, as a sparse tensor."""
    name = sparse_reduce_max_sparse_op.name
    return SparseTensor(*_reduce(name, sp_input, axis, keepdims, reduction_axes, keep_dims))


# -- element by element -----------------------------------------------------------------------


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """softmax over the elements of each row of the last dimension; what is not there counts for nothing."""
    with name_scope(name, "SparseSoftmax", [sp_input.indices, sp_input.values]):
        found = sparse_softmax_op(sp_input.indices, sp_input.values, sp_input.dense_shape)
        return SparseTensor(sp_input.indices, found, sp_input.dense_shape)


def _larger(spec: Any, default: str, a: Any, b: Any, name: str | None) -> SparseTensor:
    with name_scope(name, default, [a.indices, a.values, b.indices, b.values]) as scope:
        indices, values = spec(
            a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, name=scope
        )
    return SparseTensor(indices, values, a.dense_shape)


def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The larger of each element of two sparse tensors of one shape, with 0 for what is not there."""
    return _larger(sparse_maximum_op, "SparseSparseMaximum", sp_a, sp_b, name)


def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """The smaller of each element of two sparse tensors of one shape, with 0 for what is not there."""
    return _larger(sparse_minimum_op, "SparseSparseMinimum", sp_a, sp_b, name)


# -- products ---------------------------------------------------------------------------------


def sparse_matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of two dense matrices of float32 or bfloat16, of mostly zeros where *_is_sparse says so: float32."""
    made: Tensor = get("SparseMatMul")(
        a,
        b,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        a_is_sparse=a_is_sparse,
        b_is_sparse=b_is_sparse,
        name=name,
    )
    return made
