"""Gathering and scattering by index; masks.

Called by: Tensor.__getitem__ (masks), gradients, embeddings, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/gather_op.cc, gather_nd_op.cc, scatter_nd_op.cc,
where_op.cc, python/ops/array_ops.py, array_grad.py), GraphDefs as 2.21.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, TensorShape, text
from headrace.base.traits import LIGHT, PER_RECORD, SIZED_BY_VALUES
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.indexed_slices import IndexedSlices, to_dense
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext, check_scattered
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, gathered_axis
from headrace.ops._kernels.places import all_below
from headrace.ops._kernels.scattering import add_to_zeros, rows_at
from headrace.ops.array.constants import checked_sizes, ones, zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, rank, reshape, shape, size, squeeze, transpose
from headrace.ops.state.references import is_resource_variable

__all__ = [
    "batch_gather",
    "boolean_mask",
    "gather",
    "gather_nd",
    "scatter_nd",
    "where",
]

# -- Gather -----------------------------------------------------------------------------------


def check_indices(indices: Any, limit: int) -> None:
    """Raises InvalidArgument if one is not in [0, limit)."""
    if all_below(indices, limit):
        return
    at = np.argwhere((indices < 0) | (indices >= limit))[0].tolist()
    raise errors.invalid_argument(
        f"indices{text(at) if at else ''} = {int(indices[tuple(at)])} is not in [0, {limit})"
    )


def _taken(params: Any, indices: Any, axis: int) -> Any:
    before, after = params.shape[:axis], params.shape[axis + 1 :]
    if 0 in before or 0 in after:  # nothing is looked up
        return np.empty(before + indices.shape + after, params.dtype)
    check_indices(indices, params.shape[axis])
    if indices.ndim:
        return params.take(indices, axis=axis)
    # An index of rank 0 would give a bare element of an array of strings.
    return params.take(indices.reshape(1), axis=axis).reshape(before + after)


@op(
    "Gather",
    inputs="params: Tparams; indices: Tindices",
    outputs="output: Tparams",
    attrs="validate_indices: bool = true; Tparams: type; Tindices: {int32, int64}",
    shape=lambda c: _gathered(c.with_rank_at_least("params", 1), c.shape("indices"), 0, 0),
    traits={PER_RECORD, LIGHT},
)
def gather_v1_op(xp: Any, params: Any, indices: Any) -> Any:
    """The rows of params at indices; graphs of old producers have it.

    Raises InvalidArgument on an index out of range.
    """
    if np.ndim(params) < 1:
        raise errors.invalid_argument("params must be at least 1 dimensional")
    return _taken(np.asarray(params), np.asarray(indices), 0)


@gather_v1_op.gradient
def _(op: Operation, dout: Any) -> tuple[IndexedSlices, None]:
    return _rows_gradient(op, dout), None


def _gathered(params: Shape, indices: Shape, axis: int, batch_dims: int) -> Shape:
    if params is None or indices is None:
        return None
    what = f"the first {batch_dims} sizes of {text(params)} and {text(indices)} must be equal"
    for a, b in zip(params[:batch_dims], indices[:batch_dims], strict=False):
        shape_rules.merge_sizes(a, b, what)
    found: Shape = params[:axis] + indices[batch_dims:] + params[axis + 1 :]
    return found


def _gather_v2_shape(c: ShapeContext) -> Shape:
    params, indices = c.with_rank_at_least("params", 1), c.shape("indices")
    axis = c.value("axis")
    c.with_rank("axis", 0)
    batch_dims: int = c.attr("batch_dims")
    if indices is not None and not -len(indices) <= batch_dims <= len(indices):
        raise ValueError(
            f"batch_dims {batch_dims} must be in [-{len(indices)}, {len(indices)}], the indices' rank"
        )
    if params is None or indices is None:
        return None
    batch_dims %= len(indices) + 1 if batch_dims >= 0 else len(indices)
    if axis is None:
        return (None,) * (len(params) + len(indices) - 1 - batch_dims)
    at = gathered_axis(int(axis), len(params))
    if batch_dims > at:
        raise ValueError(f"batch_dims {batch_dims} must be <= axis {at}")
    return _gathered(params, indices, at, batch_dims)


@op(
    "GatherV2",
    inputs="params: Tparams; indices: Tindices; axis: Taxis",
    outputs="output: Tparams",
    attrs="batch_dims: int = 0; Tparams: type; Tindices: {int16, int32, int64}; Taxis: {int32, int64}",
    shape=_gather_v2_shape,
    traits={PER_RECORD, LIGHT},
)
def gather_v2_op(xp: Any, params: Any, indices: Any, axis: Any, *, batch_dims: int) -> Any:
    """The slices of params at indices along axis; the first batch_dims dimensions go in step.

    out: params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis+1:].
    Raises InvalidArgument on an index or axis out of range.
    """
    params, indices = np.asarray(params), np.asarray(indices)
    if params.ndim < 1:
        raise errors.invalid_argument("params must be at least 1 dimensional")
    if axis.__class__ is np.ndarray and axis.ndim:
        raise errors.invalid_argument(f"axis must be scalar, and has shape {text(np.shape(axis))}")
    says = "Shape must be at least rank {least} but is rank {rank}"
    at = checked_axis(axis, params.ndim, says=says)
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not batch:
        return _taken(params, indices, at)
    if batch > min(at, indices.ndim) or params.shape[:batch] != indices.shape[:batch]:
        raise errors.invalid_argument(
            f"batch_dims {batch} must be <= axis {at}, and the first {batch} sizes of params {list(params.shape)} "
            f"and indices {list(indices.shape)} must be equal"
        )
    made = params.shape[:at] + indices.shape[batch:] + params.shape[at + 1 :]
    if 0 in made:
        return np.empty(made, params.dtype)
    check_indices(indices, params.shape[at])
    count, rows = (
        _product(params.shape[:batch]),
        indices.reshape(_product(indices.shape[:batch]), -1),
    )
    flat = params.reshape(count, _product(params.shape[batch:at]), params.shape[at], -1)
    taken = np.moveaxis(flat[np.arange(count)[:, None], :, rows], 1, 2)
    return taken.reshape(made)


def _of_rows(op: Operation, known: Sequence[Any]) -> Callable[[Any, Any, Any], Any] | None:
    """Along an axis that is known to be the first: one look at the indices says whether all are of rows."""
    kernel = None if op.spec is None else op.spec.kernel
    if kernel is None or op["batch_dims"] or known[2] is None or known[2].shape or known[2]:
        return None
    plain = partial(kernel, np, batch_dims=0)

    def rows(params: Any, indices: Any, axis: Any) -> Any:
        if not (
            params.__class__ is indices.__class__ is np.ndarray and params.ndim and indices.ndim
        ):
            return plain(params, indices, axis)
        if not indices.size or not all_below(indices, len(params)):
            return plain(params, indices, axis)
        return params.take(indices, 0)

    return rows


gather_v2_op.knowing(_of_rows)


def _product(sizes: tuple[int, ...]) -> int:
    return math.prod(sizes)


def _rows_gradient(op: Operation, dout: Any) -> IndexedSlices:
    """Gather along axis 0: the gradient's rows belong to the rows that were taken."""
    params, indices = op.inputs[:2]
    with params.graph.colocate_with(params):
        whole = shape(params)
    return _rows_of(whole, indices, expand_dims(size(indices), 0), dout)


def _rows_of(whole: Tensor, indices: Tensor, count: Tensor, dout: Any) -> IndexedSlices:
    rows = concat([count, whole[1:]], 0)
    return IndexedSlices(reshape(to_dense(dout), rows), reshape(indices, count), whole)


@gather_v2_op.gradient
def _(op: Operation, dout: Any) -> tuple[Any, None, None]:
    params, indices, axis = op.inputs
    with params.graph.colocate_with(params):
        whole = shape(params)
    count = expand_dims(size(indices), 0)
    batch_dims: int = op["batch_dims"]
    if batch_dims < 0:
        raw = indices.raw_shape
        if raw is None:
            raise ValueError(
                "the gradient of a gather with negative batch_dims needs indices of known rank"
            )
        batch_dims += len(raw)
    known = constant_value(axis)
    if known is not None and int(known) == 0:
        return _rows_of(whole, indices, count, dout), None, None
    return _columns_gradient(whole, params, indices, axis, batch_dims, dout), None, None


def _counted(start: Any, limit: Any) -> Tensor:
    made: Tensor = get("Range")(start, limit, 1, name="range")
    return made


def _columns_gradient(
    whole: Tensor, params: Tensor, indices: Tensor, axis: Tensor, batch_dims: int, dout: Any
) -> Tensor:
    """Gather along another axis: that axis moves to the front (behind the batch), where rows add up."""
    outer, inner = whole[:axis], whole[axis:][1:]
    sizes = concat([outer, [-1], inner], 0)
    dims, before = size(sizes), size(outer)
    batch = _counted(0, batch_dims)
    moved = _counted(batch_dims, before)
    behind = _counted(before + 1, dims)
    values = reshape(to_dense(dout), sizes)
    forth = concat([batch, [before], moved, behind], 0)
    values = transpose(values, forth)
    front = gather(whole, forth)
    summed = _summed_rows(front, values, indices, batch_dims, whole[axis])
    back = concat([batch, moved + 1, [batch_dims], behind], 0)
    return reshape(transpose(summed, back), shape(params))


def _summed_rows(
    front: Tensor, values: Tensor, indices: Tensor, batch_dims: int, rows: Tensor
) -> Tensor:
    count = expand_dims(size(indices), 0)
    outer: Any = None
    flat_sizes: Any = None
    if batch_dims:
        sizes = shape(values)
        outer, inner = sizes[:batch_dims], sizes[batch_dims:][1:]
        batch = get("Prod")(outer, [0])
        flat_sizes = concat([[-1], inner], 0)
        rows = rows * batch
        indices = _offset_by_batch(front, indices, batch_dims)
        values = reshape(values, flat_sizes)
    summed: Tensor = get("UnsortedSegmentSum")(values, reshape(indices, count), rows)
    if batch_dims:
        summed = reshape(summed, concat([outer, flat_sizes], 0))
    return summed


def _offset_by_batch(front: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """Indices into the table that the batch's tables make when laid one after the other."""
    kind = indices.dtype.base_dtype
    sizes = get("Cast")(front, DstT=kind) if front.dtype.base_dtype is not kind else front
    stride: Any = ones((), kind)
    found = indices
    for dim in range(batch_dims, 0, -1):
        length = sizes[dim - 1]
        stride = stride * sizes[dim]
        start, step = zeros((), kind), ones((), kind)
        offsets = get("Range")(start, length, step, name="range") * stride
        before = get("Tile")([1], [dim - 1])
        column = concat([before, [length], get("Tile")([1], [rank(indices) - dim])], axis=0)
        found = found + reshape(offsets, column)
    return found


@of_ragged_by("headrace.ops.array.ragged_taking")
def gather(
    params: Any,
    indices: Any,
    validate_indices: bool | None = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """The slices of `params` at `indices` along `axis` (batch_dims if not given).

    validate_indices is accepted for compatibility: indices are always checked.
    """
    at = batch_dims if axis is None else axis
    made: Tensor
    if isinstance(at, int) and at == batch_dims == 0 and is_resource_variable(params):
        made = params.sparse_read(indices, name=name)
    else:
        made = gather_v2_op(params, indices, at, batch_dims=batch_dims, name=name)
    return made


@of_ragged_by("headrace.ops.array.ragged_taking")
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """out[i, ..., j] = params[i, ..., indices[i, ..., j]]: a gather in step with the leading dimensions."""
    with name_scope(name, "BatchGather", [params, indices]) as scope:
        indices = convert(indices, name="indices")
        raw = indices.raw_shape
        if raw is None:
            raise ValueError("batch_gather needs indices of known rank")
        return gather(params, indices, batch_dims=len(raw) - 1, name=scope)


# -- GatherNd, ScatterNd ----------------------------------------------------------------------


def _gather_nd_shape(c: ShapeContext) -> Shape:
    params, indices = c.shape("params"), c.with_rank_at_least("indices", 1)
    if params is None or indices is None or indices[-1] is None:
        return None
    if indices[-1] > len(params):
        raise ValueError(
            f"indices.shape[-1] must be <= params.rank, but saw indices shape: {text(indices)} "
            f"and params shape: {text(params)}"
        )
    return indices[:-1] + params[indices[-1] :]


def _unscattered(indices: Any, updates: Any, sizes: tuple[int, ...]) -> errors.OpError:
    """The error for updates that do not fit the indices, or indices that are too deep for `sizes`."""
    depth, given = indices.shape[-1], np.shape(updates)
    outer = indices.ndim - 1
    if given[:outer] != indices.shape[:-1]:
        what = (
            f"Dimensions [0,{outer}) of indices[shape={text(indices.shape)}] must match dimensions [0,{outer}) of "
            f"updates[shape={text(given)}]"
        )
    else:
        what = (
            f"Dimensions [{depth},{len(sizes)}) of input[shape={text(sizes)}] must match dimensions "
            f"[{outer},{len(given)}) of updates[shape={text(given)}]"
        )
    return errors.invalid_argument(f"{what}: indices have depth {depth}")


def coordinates(indices: Any, sizes: tuple[int, ...], policy: bytes, what: str) -> tuple[Any, Any]:
    """Coordinates as a tuple of arrays, one a dimension, and which of them are bad (None: none is)."""
    depth = indices.shape[-1]
    if indices.dtype == np.int64:  # a number below 0 is a large one without a sign
        outside = indices.view(np.uint64) >= np.array(sizes[:depth], np.uint64)
    else:
        outside = (indices < 0) | (indices >= np.array(sizes[:depth], np.int64))
    if not outside.any():
        return _by_dimension(indices), None
    bad = outside.any(axis=-1)
    if policy == b"IGNORE":
        return _by_dimension(np.where(bad[..., None], 0, indices)), bad
    at = np.argwhere(bad)[0].tolist()
    raise errors.invalid_argument(
        f"indices{text(at)} = {indices[tuple(at)].tolist()} does not index into {what} {text(sizes)}"
    )


def _by_dimension(indices: Any) -> tuple[Any, ...]:
    return tuple([indices[..., at] for at in range(indices.shape[-1])])


@op(
    "GatherNd",
    inputs="params: Tparams; indices: Tindices",
    outputs="output: Tparams",
    attrs="Tparams: type; Tindices: {int16, int32, int64}; bad_indices_policy: string = ''",
    shape=_gather_nd_shape,
)
def gather_nd_op(xp: Any, params: Any, indices: Any, *, bad_indices_policy: bytes) -> Any:
    """The slices of params at the coordinates in the last dimension of indices.

    indices [..., k], k <= rank of params; out: indices.shape[:-1] + params.shape[k:].
    Raises InvalidArgument on a coordinate out of range (bad_indices_policy IGNORE: zeros instead).
    """
    for what, array in (("params", params), ("indices", indices)):
        if np.ndim(array) < 1:
            raise errors.invalid_argument(f"{what} must be at least a vector in a gather_nd")
    depth = indices.shape[-1]
    if depth > params.ndim:
        raise errors.invalid_argument(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. {params.ndim}, and params has "
            f"shape {text(params.shape)}"
        )
    if depth == 0:
        return np.broadcast_to(params, indices.shape[:-1] + params.shape).copy()
    index, bad = coordinates(indices, params.shape, bad_indices_policy, "param shape")
    if params.flags.c_contiguous and indices.ndim > 1:
        rows, numbers = rows_at(params, index)
        taken = rows.take(numbers, axis=0)
    else:  # with an Ellipsis what is taken is an array also where it is one element
        taken = params[(*index, Ellipsis)]
    if bad is not None:
        taken[bad] = b"" if taken.dtype == object else 0
    return taken


@gather_nd_op.gradient
def _(op: Operation, dout: Any) -> tuple[Any, None]:
    params, indices = op.inputs
    whole = shape(params, out_type=indices.dtype.base_dtype)
    raw = indices.raw_shape
    if raw is not None and len(raw) == 2 and raw[-1] == 1:
        return IndexedSlices(dout, squeeze(indices, axis=-1), whole), None
    return scatter_nd(indices, dout, whole), None


@of_ragged_by("headrace.ops.array.ragged_taking")
def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Tensor:
    """The slices of `params` at the coordinates in the last dimension of `indices`.

    batch_dims: how many leading dimensions of both go in step.
    """
    made: Tensor
    if batch_dims == 0:
        one = params.gather_nd if is_resource_variable(params) else None
        made = one(indices, name=name) if one else gather_nd_op(params, indices, name=name)
        return made
    with name_scope(name, "BatchGatherND", [params, indices]) as scope:
        indices = convert(indices, name="indices")
        raw = indices.raw_shape
        if raw is None or not 0 <= batch_dims < len(raw):
            raise ValueError(
                f"batch_dims {batch_dims} must be below the rank of indices, whose shape is {text(raw)}"
            )
        sizes = shape(indices, out_type=indices.dtype.base_dtype)
        parts = []
        for dim in range(batch_dims):
            steps = get("Range")(
                zeros((), indices.dtype), sizes[dim], ones((), indices.dtype), name="range"
            )
            column = reshape(steps, [-1 if axis == dim else 1 for axis in range(len(raw))])
            parts.append(get("BroadcastTo")(column, concat([sizes[:-1], [1]], 0)))
        made = gather_nd_op(params, concat([*parts, indices], -1), name=scope)
        return made


def _holds(shape: Shape) -> bool | None:
    """Whether what has that shape has elements; None if it is not known."""
    return None if shape is None or None in shape else 0 not in shape


def _scatter_nd_shape(c: ShapeContext) -> Shape:
    wanted, indices, updates = (
        c.shape_value("shape"),
        c.with_rank_at_least("indices", 1),
        c.shape("updates"),
    )
    if _holds(wanted) is False and (_holds(indices) or _holds(updates)):
        raise ValueError(
            f"Indices and updates specified for empty input: the shape is {shape_rules.text(wanted)}"
        )
    check_scattered(wanted, indices, updates)
    return wanted


@op(
    "ScatterNd",
    inputs="indices: Tindices; updates: T; shape: Tindices",
    outputs="output: T",
    attrs="T: type; Tindices: {int16, int32, int64}; bad_indices_policy: string = ''",
    shape=_scatter_nd_shape,
)
def scatter_nd(
    xp: Any, indices: Any, updates: Any, shape: Any, *, bad_indices_policy: bytes
) -> Any:
    """Zeros of `shape` with the updates added at the coordinates in the last dimension of indices.

    indices [..., k]; updates: indices.shape[:-1] + shape[k:].  Updates of one place add up.
    Raises InvalidArgument on a coordinate out of range or shapes that do not fit.
    """
    sizes = checked_sizes(shape, "shape")
    if np.ndim(indices) < 1:
        raise errors.invalid_argument("indices of a scatter_nd must have rank 1 or more")
    depth = indices.shape[-1]
    if depth > len(sizes):
        raise _unscattered(indices, updates, sizes)
    wanted = indices.shape[:-1] + sizes[depth:]
    if np.shape(updates) != wanted:
        raise _unscattered(indices, updates, sizes)
    whole = np.zeros(sizes, updates.dtype)
    if updates.dtype == object:
        whole[...] = b""
    if not indices.size and depth:
        return whole
    index, bad = coordinates(indices, sizes, bad_indices_policy, "shape")
    if bad is not None:
        index, updates = tuple(part[~bad] for part in index), updates[~bad]
    if not depth:
        return whole + updates.sum(axis=tuple(range(indices.ndim - 1)), dtype=whole.dtype)
    add_to_zeros(whole, index, updates)
    return whole


@scatter_nd.gradient
def _(op: Operation, dout: Tensor) -> tuple[None, Tensor, None]:
    return None, gather_nd(dout, op.inputs[0]), None


# -- Where ------------------------------------------------------------------------------------


def _where_shape(c: ShapeContext) -> Shape:
    condition = c.shape("input")
    return (None, None if condition is None else len(condition))


@op(
    "Where",
    inputs="input: T",
    outputs="index: int64",
    attrs="T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, "
    "qint16, quint16, uint16, complex128, half, uint32, uint64, bool} = bool",
    shape=_where_shape,
    traits={PER_RECORD, SIZED_BY_VALUES},
    differentiable=False,
)
def where_op(xp: Any, input: Any) -> Any:
    """Coordinates of the elements that are true (not zero), in row-major order, [n, rank].

    Raises InvalidArgument on a scalar.
    """
    if np.ndim(input) == 0:
        raise errors.invalid_argument(
            "the input of where must have rank 1 or more, but is a scalar"
        )
    if input.dtype.names:
        input = input[input.dtype.names[0]]
    return np.array(input.nonzero(), np.int64).T


@of_ragged_by("headrace.ops.array.ragged_taking")
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Without x and y: where `condition` is true, [n, rank] int64.  With both: x there, y elsewhere.

    x, y: one shape, that of condition, or condition is a vector that chooses rows.
    Raises ValueError if only one of x and y is given.
    """
    made: Tensor
    if x is None and y is None:
        with name_scope(name, "Where", [condition]) as scope:
            condition = convert(condition, preferred_dtype=dtypes.bool, name="condition")
            made = where_op(condition, name=scope)
            return made
    if x is None or y is None:
        raise ValueError(
            "x and y must both be non-None or both be None: where takes both, or neither"
        )
    made = get("Select")(condition, x, y, name=name)
    return made


@of_ragged_by("headrace.ops.array.ragged_taking")
def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: Any = None) -> Tensor:
    """The elements (slices) of `tensor` where `mask` is true.

    mask: its shape is that of tensor's dimensions axis, axis+1, …  Raises ValueError if its rank is
    0 or unknown, or its shape does not fit.
    """
    with name_scope(name, values=[tensor, mask]):
        tensor = convert(tensor, name="tensor")
        mask = convert(mask, name="mask")
        masked = mask.raw_shape
        if masked is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if no size is; mask.set_shape([None]) does it"
            )
        if not masked:
            raise ValueError("mask cannot be scalar: it says which elements to take")
        at = 0 if axis is None else int(constant_value(axis) if isinstance(axis, Tensor) else axis)
        last = at + len(masked)
        whole = tensor.raw_shape
        if whole is not None:
            TensorShape(whole[at:last]).assert_is_compatible_with(TensorShape(masked))
        leading = get("Prod")(shape(tensor)[at:last], [0])
        tensor = reshape(tensor, concat([shape(tensor)[:at], [leading], shape(tensor)[last:]], 0))
        if whole is not None:
            tensor.set_shape([*whole[:at], shape_rules.num_elements(whole[at:last]), *whole[last:]])
        chosen = squeeze(where(reshape(mask, [-1])), axis=[1])
        return gather(tensor, chosen, axis=axis)
