"""Sparse tensors put together, cut, reshaped, and rows without elements given one.

Called by: users, embeddings.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/sparse_concat_op.cc, sparse_split_op.cc, sparse_slice_op.cc,
reshape_util.cc, sparse_fill_empty_rows_op.cc); GraphDefs as 2.21
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import OF_COUNTS, SIZED_BY_VALUES
from headrace.graph.graph import Operation
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.ops._kernels.axes import checked_scalar
from headrace.ops._kernels.sparse_keys import common_keys, is_counting, row_major
from headrace.ops.sparse.maps import checked_sparse
from headrace.ops.tables import ALL_NUMBERS

__all__: list[str] = []

Array = np.ndarray[Any, Any]

INPUTS = "input_indices: int64; input_values: T; input_shape: int64"


def checked_indices(indices: Array, shape: Array) -> None:
    """Raises InvalidArgument unless every row of indices is within shape."""
    if shape.size and min(shape.tolist()) >= 0:  # numbers below 0 are large ones without a sign
        far = indices.view(np.uint64) >= shape.view(np.uint64)
        if b"\1" not in far.tobytes():
            return
    outside = (indices < 0) | (indices >= shape)
    if outside.any():
        at = int(np.flatnonzero(outside.any(axis=1))[0])
        raise errors.invalid_argument(
            f"indices[{at}] = {text(tuple(indices[at]))} is out of bounds: need 0 <= index < {text(tuple(shape))}"
        )


# -- SparseConcat -----------------------------------------------------------------------------


def _concat_shapes(c: ShapeContext) -> list[Shape]:
    count = c.attr("N")
    rows: int | None = 0
    rank: Shape = (None,)
    for at in range(count):
        indices, values = c.with_rank(at, 2), c.with_rank(count + at, 1)
        shape = c.with_rank(2 * count + at, 1)
        assert indices is not None
        assert values is not None
        assert shape is not None
        here = shape_rules.merge(indices[:1], values[:1])
        assert here is not None
        rows = None if rows is None or here[0] is None else rows + here[0]
        rank = shape_rules.merge(shape_rules.merge(rank, indices[1:]), shape)
    assert rank is not None
    return [(rows, *rank), (rows,), rank]


@op(
    "SparseConcat",
    inputs="indices: N * int64; values: N * T; shapes: N * int64",
    outputs="output_indices: int64; output_values: T; output_shape: int64",
    attrs="concat_dim: int; N: int >= 2; T: type",
    shape=_concat_shapes,
    traits={OF_COUNTS},
    differentiable=False,
)
def sparse_concat_op(xp: Any, *parts: Any, concat_dim: int, N: int) -> Any:
    """Sparse tensors one after the other along a dimension; the elements in row-major order.

    Raises InvalidArgument for parts that do not belong together, and other dimensions that differ.
    """
    tensors = [parts[at::N] for at in range(N)]
    first = tensors[0][2]
    for indices, values, shape in tensors:
        checked_sparse(indices, values, shape)
    rank = len(first)
    axis = concat_dim + rank if concat_dim < 0 else concat_dim
    if not 0 <= axis < rank:
        raise errors.invalid_argument(
            f"Concat dimension must be in range [{-rank}, {rank}), got {concat_dim}"
        )
    for at, (_, _, shape) in enumerate(tensors):
        if len(shape) != rank:
            raise errors.invalid_argument(
                f"Ranks of all input tensors must match: expected {rank} but got {len(shape)} at position {at}"
            )
        unlike = np.flatnonzero((shape != first) & (np.arange(rank) != axis))
        if len(unlike):
            raise errors.invalid_argument(
                f"Input shapes must match: expected {first[unlike[0]]} for dimension {unlike[0]} but got "
                f"{shape[unlike[0]]} at position {at}; expand_nonconcat_dims takes the largest of each"
            )
    sizes = [int(shape[axis]) for _, _, shape in tensors]
    if sum(sizes) >= 1 << 63:
        raise errors.invalid_argument(
            f"the sizes {sizes} along dimension {axis} are together more than an int64 holds"
        )
    offsets = np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)])
    indices = np.concatenate([each[0] for each in tensors])
    indices[:, axis] += np.repeat(offsets, [len(each[1]) for each in tensors])
    values = np.concatenate([each[1] for each in tensors])
    out = first.copy()
    out[axis] = sum(sizes)
    order = row_major(indices)
    return (indices, values, out) if order is None else (indices[order], values[order], out)


# -- SparseSplit ------------------------------------------------------------------------------


def _split_shapes(c: ShapeContext) -> list[Shape]:
    shape = c.with_rank("shape", 1)
    indices = c.with_rank("indices", 2)
    assert indices is not None
    c.with_rank("values", 1)
    count = c.attr("num_split")
    whole = shape_rules.merge(shape, indices[1:])
    assert whole is not None
    return [*[(None, *whole)] * count, *[(None,)] * count, *[whole] * count]


@op(
    "SparseSplit",
    inputs="split_dim: int64; indices: int64; values: T; shape: int64",
    outputs="output_indices: num_split * int64; output_values: num_split * T; output_shape: num_split * int64",
    attrs="num_split: int >= 1; T: type",
    shape=_split_shapes,
    traits={SIZED_BY_VALUES},
)
def sparse_split_op(
    xp: Any, split_dim: Any, indices: Array, values: Array, shape: Array, *, num_split: int
) -> Any:
    """num_split parts of a sparse tensor along a dimension; the first ones have one more where it does not divide.

    Raises InvalidArgument on a dimension that is not there or is shorter than num_split.
    """
    axis = checked_scalar(split_dim, "axis")
    checked_sparse(indices, values, shape)
    rank = len(shape)
    if not -rank <= axis < rank:
        raise errors.invalid_argument(
            f"Input split_dim should be between [{-rank}, {rank}), but got {axis}"
        )
    axis %= rank
    size = int(shape[axis])
    if not 1 <= num_split <= size:
        raise errors.invalid_argument(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got {num_split}"
        )
    checked_indices(indices, shape)
    whole, more = divmod(size, num_split)
    cuts = np.cumsum([0] + [whole + (at < more) for at in range(num_split)])
    part = np.searchsorted(cuts, indices[:, axis], side="right") - 1
    found: list[list[Array]] = [[], [], []]
    for at in range(num_split):
        chosen = np.flatnonzero(part == at)
        own, sizes = indices[chosen], shape.copy()
        own[:, axis] -= cuts[at]
        sizes[axis] = cuts[at + 1] - cuts[at]
        for listed, value in zip(found, (own, values[chosen], sizes), strict=True):
            listed.append(value)
    return tuple(value for listed in found for value in listed)


# -- SparseSlice ------------------------------------------------------------------------------


def _slice_shapes(c: ShapeContext) -> list[Shape]:
    indices, shape = c.with_rank("indices", 2), c.with_rank("shape", 1)
    c.with_rank("values", 1)
    assert indices is not None
    rank = shape_rules.merge(indices[1:], shape)
    assert rank is not None
    return [(None, *rank), (None,), rank]


@op(
    "SparseSlice",
    inputs="indices: int64; values: T; shape: int64; start: int64; size: int64",
    outputs="output_indices: int64; output_values: T; output_shape: int64",
    attrs="T: type",
    shape=_slice_shapes,
    traits={SIZED_BY_VALUES},
)
def sparse_slice_op(
    xp: Any, indices: Array, values: Array, shape: Array, start: Array, size: Array
) -> Any:
    """The part of a sparse tensor that begins at `start` and has the shape `size`, as far as there is so much.

    Raises InvalidArgument for parts that do not belong together.
    """
    checked_sparse(indices, values, shape)
    for what, given in (("start", start), ("size", size)):
        if given.shape != shape.shape:
            raise errors.invalid_argument(
                f"Input {what} should be a vector of length {len(shape)}, as the tensor's rank, but has shape "
                f"{text(given.shape)}"
            )
    if (shape < 0).any():
        raise errors.invalid_argument(f"the shape {shape.tolist()} has negative sizes")
    bad = (start < 0) | (size < 0)
    if bad.any():
        raise errors.invalid_argument(
            f"start {start.tolist()} and size {size.tolist()} must not be negative"
        )
    sizes = np.clip(shape - start, 0, size)
    inside = ((indices >= start) & (indices - start < sizes)).all(axis=1)
    return indices[inside] - start, values[inside], sizes


@op(
    "SparseSliceGrad",
    inputs="backprop_val_grad: T; input_indices: int64; input_start: int64; output_indices: int64",
    outputs="val_grad: T",
    attrs=f"T: {{{ALL_NUMBERS}}}",
    shape=lambda c: (c.with_rank("input_indices", 2) or (None,))[:1],
    traits={OF_COUNTS},
)
def sparse_slice_grad_op(
    xp: Any, backprop_val_grad: Any, input_indices: Array, input_start: Array, output_indices: Array
) -> Any:
    """For each element that was sliced the gradient of where it went, 0 if it went nowhere.

    Raises InvalidArgument if the parts do not fit.
    """
    fits = (
        input_indices.ndim == output_indices.ndim == 2
        and input_indices.shape[1:] == output_indices.shape[1:] == input_start.shape
        and np.shape(backprop_val_grad) == output_indices.shape[:1]
    )
    if not fits:
        raise errors.invalid_argument(
            "Input indices and output indices must be matrices of as many columns as start has elements, and there is "
            f"one gradient a row of the latter: {text(input_indices.shape)}, {text(output_indices.shape)}, "
            f"{text(np.shape(input_start))} and {text(np.shape(backprop_val_grad))}"
        )
    here, there = common_keys(input_indices, output_indices + input_start)
    out = np.zeros(len(here), backprop_val_grad.dtype)
    if len(there):
        order = np.argsort(there, kind="stable")
        at = np.minimum(np.searchsorted(there[order], here), len(there) - 1)
        kept = there[order][at] == here
        out[kept] = backprop_val_grad[order][at[kept]]
    return out


@sparse_slice_op.gradient
def _(op: Operation, d_indices: Any, d_values: Any, d_shape: Any) -> Any:
    indices, _, _, start, _ = op.inputs
    found = sparse_slice_grad_op(d_values, indices, start, op.outputs[0])
    return None, found, None, None, None


# -- SparseReshape ----------------------------------------------------------------------------


def _reshape_shapes(c: ShapeContext) -> list[Shape]:
    indices, new = c.with_rank("input_indices", 2), c.with_rank("new_shape", 1)
    c.with_rank("input_shape", 1)
    assert indices is not None
    assert new is not None
    return [(indices[0], new[0]), new]


@op(
    "SparseReshape",
    inputs="input_indices: int64; input_shape: int64; new_shape: int64",
    outputs="output_indices: int64; output_shape: int64",
    shape=_reshape_shapes,
    traits={OF_COUNTS},
    differentiable=False,
)
def sparse_reshape_op(
    xp: Any, input_indices: Array, input_shape: Array, new_shape: Array
) -> tuple[Array, Array]:
    """The indices of the same elements in another shape of as many; one size of it may be -1.

    Raises InvalidArgument if the sizes do not fit.
    """
    if input_indices.ndim != 2:
        raise errors.invalid_argument(
            f"Input must be a matrix: the indices have shape {text(input_indices.shape)}"
        )
    if input_shape.shape != input_indices.shape[1:]:
        checked_sparse(input_indices, np.empty(len(input_indices)), input_shape)
    if new_shape.ndim != 1:
        raise errors.invalid_argument(
            f"Target shape should be a vector but received shape {text(new_shape.shape)}"
        )
    sizes, wanted = input_shape.tolist(), new_shape.tolist()
    if any(size < 0 for size in sizes):
        raise errors.invalid_argument(f"the shape {sizes} has negative sizes")
    open_ = [at for at, size in enumerate(wanted) if size == -1]
    if len(open_) > 1:
        raise errors.invalid_argument(
            f"only one output dimension may be -1, not both {open_[0]} and {open_[1]}"
        )
    low = [at for at, size in enumerate(wanted) if size < -1]
    if low:
        raise errors.invalid_argument(f"size {low[0]} must be non-negative, not {wanted[low[0]]}")
    total, known = prod(sizes), prod(size for size in wanted if size != -1)
    if max(total, known) >= 1 << 63:
        raise errors.invalid_argument(
            f"the shapes {sizes} and {wanted} have more elements than an int64 counts"
        )
    if open_:
        if not known:
            raise errors.invalid_argument(
                f"reshape cannot infer the missing input size for an empty tensor unless all specified input sizes "
                f"are non-zero: from {sizes} to {wanted}"
            )
        if total % known:
            raise errors.invalid_argument(
                f"Input to reshape is a SparseTensor with {total} dense values, but the requested shape requires a "
                f"multiple of {known}. input_shape={sizes} output_shape={wanted}"
            )
        wanted[open_[0]] = total // known
    elif total != known:
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {total} dense values, but the requested shape has {known}. "
            f"input_shape={sizes} output_shape={wanted}"
        )
    if wanted == sizes:
        return input_indices.copy(), input_shape.copy()
    checked_indices(input_indices, input_shape)
    rest = input_indices @ _strides(sizes)
    out = np.empty((len(input_indices), len(wanted)), np.int64)
    for at, stride in enumerate(_strides(wanted).tolist()):
        out[:, at], rest = np.divmod(rest, stride)
    return out, np.array(wanted, np.int64)


def _strides(sizes: list[int]) -> Array:
    found = [1] * len(sizes)
    for at in range(len(sizes) - 2, -1, -1):
        found[at] = found[at + 1] * max(sizes[at + 1], 1)
    return np.array(found, np.int64)


# -- SparseFillEmptyRows ----------------------------------------------------------------------


def _filled_shapes(c: ShapeContext) -> list[Shape]:
    indices, values = c.with_rank("indices", 2), c.with_rank("values", 1)
    shape, known = c.with_rank("dense_shape", 1), c.shape_value("dense_shape")
    c.with_rank("default_value", 0)
    assert indices is not None
    assert values is not None
    count = shape_rules.merge(indices[:1], values[:1])
    rank = shape_rules.merge(indices[1:], shape)
    assert rank is not None
    return [(None, *rank), (None,), (known[0] if known else None,), count]


@op(
    "SparseFillEmptyRows",
    inputs="indices: int64; values: T; dense_shape: int64; default_value: T",
    outputs="output_indices: int64; output_values: T; empty_row_indicator: bool; reverse_index_map: int64",
    attrs="T: type",
    shape=_filled_shapes,
    traits={SIZED_BY_VALUES},
)
def sparse_fill_empty_rows_op(
    xp: Any, indices: Array, values: Array, dense_shape: Array, default_value: Any
) -> Any:
    """Each row without an element gets default_value in its first column; elements stand by rows.

    Beside them: which rows had none [rows], and where each element went [n].  Raises InvalidArgument.
    """
    if dense_shape.ndim != 1:
        raise errors.invalid_argument(
            f"dense_shape must be a vector, saw: {text(dense_shape.shape)}"
        )
    if indices.ndim != 2:
        raise errors.invalid_argument(f"indices must be a matrix, saw: {text(indices.shape)}")
    if values.ndim != 1:
        raise errors.invalid_argument(f"values must be a vector, saw: {text(values.shape)}")
    if len(indices) != len(values):
        raise errors.invalid_argument(
            f"The length of `values` ({len(values)}) must match the first dimension of `indices` ({len(indices)})"
        )
    if indices.shape[1] != len(dense_shape):
        raise errors.invalid_argument(
            f"The length of `dense_shape` must match the second dimension of `indices`: {len(dense_shape)} and "
            f"{indices.shape[1]}"
        )
    if np.ndim(default_value):
        raise errors.invalid_argument(
            f"default_value must be a scalar, saw: {text(np.shape(default_value))}"
        )
    if not len(dense_shape):
        raise errors.invalid_argument("Dense shape cannot be empty: a scalar has no rows")
    count = int(dense_shape[0])
    rows = indices[:, 0]
    if not count:
        if len(rows):
            raise errors.invalid_argument(
                f"Received SparseTensor with dense_shape[0] = 0 but indices.shape[0] = {len(rows)}"
            )
        return indices.copy(), values.copy(), np.zeros(0, bool), np.zeros(0, np.int64)
    if is_counting(rows, count):  # nothing is missing
        return indices.copy(), values.copy(), np.zeros(count, bool), rows.copy()
    outside = (rows < 0) | (rows >= count)
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise errors.invalid_argument(
            f"indices({at}, 0) is invalid: {rows[at]} >= {count}: there are {count} rows"
        )
    if count < 0:
        raise errors.invalid_argument(f"dense_shape[0] is {count}, and must not be negative")
    numbers = np.bincount(rows, minlength=count)
    empty = numbers == 0
    before = np.cumsum(empty)  # rows without an element up to each
    places = np.arange(len(rows))
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        places[order] = np.arange(len(rows))
    places += before[rows]
    total = len(rows) + int(before[-1])
    out = np.zeros((total, indices.shape[1]), np.int64)
    found = np.full(total, default_value, values.dtype)
    alone = np.flatnonzero(empty)
    out[(np.cumsum(np.maximum(numbers, 1)) - 1)[alone], 0] = alone
    out[places], found[places] = indices, values
    return out, found, empty, places


@op(
    "SparseFillEmptyRowsGrad",
    inputs="reverse_index_map: int64; grad_values: T",
    outputs="d_values: T; d_default_value: T",
    attrs="T: type",
    shape=lambda c: [_with_vector(c), ()],
)
def sparse_fill_empty_rows_grad_op(xp: Any, reverse_index_map: Array, grad_values: Any) -> Any:
    """The gradients of the elements, and of the default, which has the sum of the others.

    Raises InvalidArgument, Unimplemented for strings.
    """
    for what, given in (("reverse_index_map", reverse_index_map), ("grad_values", grad_values)):
        if given.ndim != 1:
            raise errors.invalid_argument(f"{what} must be a vector, saw: {text(given.shape)}")
    bad = (reverse_index_map < 0) | (reverse_index_map >= len(grad_values))
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise errors.invalid_argument(
            f"Elements in reverse index must be in [0, {len(grad_values)}) but got {reverse_index_map[at]}"
        )
    if grad_values.dtype.kind == "O":
        raise errors.unimplemented(
            "strings have no gradients: SparseFillEmptyRowsGrad adds them up"
        )
    rest = np.ones(len(grad_values), bool)
    rest[reverse_index_map] = False
    total = grad_values[rest].sum(dtype=grad_values.dtype)
    return grad_values[reverse_index_map], np.asarray(total)


def _with_vector(c: ShapeContext) -> Shape:
    c.with_rank("grad_values", 1)
    return c.with_rank("reverse_index_map", 1)


@sparse_fill_empty_rows_op.gradient
def _(op: Operation, d_indices: Any, d_values: Any, d_empty: Any, d_map: Any) -> Any:
    of_values, of_default = sparse_fill_empty_rows_grad_op(op.outputs[3], d_values)
    return None, of_values, None, of_default
