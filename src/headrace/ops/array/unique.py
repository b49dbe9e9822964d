"""Distinct elements, set difference, and the largest elements.

Called by: users, gradients.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/unique_op.cc, listdiff_op.cc, topk_op.cc),
GraphDefs as 2.21.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import Shape, text
from headrace.base.traits import LIGHT, SIZED_BY_VALUES
from headrace.graph.graph import Operation
from headrace.graph.registry import get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.axes import checked_axis, static_axis
from headrace.ops.array.constants import zeros
from headrace.ops.array.gathering import gather, scatter_nd
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import all_axes
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape, shape, size

__all__ = ["setdiff1d", "top_k", "unique", "unique_with_counts"]

# -- Unique -----------------------------------------------------------------------------------


class Unique(NamedTuple):
    """`y` are the distinct elements of x in order of occurrence; x[i] is y[idx[i]]."""

    y: Any
    idx: Any


class UniqueWithCounts(NamedTuple):
    """`Unique`, and how often each element of `y` occurs."""

    y: Any
    idx: Any
    count: Any


_FEW = 32
_SPREAD, _CLOSE = 8, 4096
"""How far apart whole numbers may be, on average or in all, so that an array finds them, and no sort."""


def _distinct(x: Any) -> tuple[Any, Any]:
    """Positions of first occurrences, and for each element which of them it equals."""
    if x.ndim == 1 and x.dtype.isbuiltin == 1 and x.dtype != object:
        if x.dtype.kind == "i" and len(x) > _FEW:
            low, high = int(np.minimum.reduce(x)), int(np.maximum.reduce(x))
            if are_close(low, high, len(x)):
                near = x.astype(np.intp, copy=False)
                return distinct_close(near - low if low else near, high - low + 1)
        if x.dtype.kind not in "iub" or len(x) > _FEW:
            _, first, inverse = np.unique(
                x, return_index=True, return_inverse=True, equal_nan=False
            )
            order = np.argsort(first, kind="stable")
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            return first[order], place[inverse.reshape(-1)]
    seen: dict[Any, int] = {}
    rows = x.tolist() if x.ndim == 1 else [tuple(row.reshape(-1).tolist()) for row in x]
    index = np.array([seen.setdefault(row, len(seen)) for row in rows], np.int64)
    first = np.full(len(seen), len(rows), np.int64)
    np.minimum.at(first, index, np.arange(len(rows)))
    return first, index


def are_close(low: int, high: int, count: int) -> bool:
    """Whether an array finds so many whole numbers from low to high sooner than a sort."""
    return high - low < max(_SPREAD * count, _CLOSE)


def distinct_close(x: Any, limit: int) -> tuple[Any, Any]:
    """`_distinct` of a vector of intp in [0, limit)."""
    places = np.arange(len(x))
    of_number = np.empty(limit, np.intp)
    of_number[x[::-1]] = places[::-1]  # of equal numbers the last one stays, which is the first
    (first,) = (of_number.take(x) == places).nonzero()
    of_number[x.take(first)] = places[: len(first)]
    return first, of_number.take(x)


def _counts(first: Any, index: Any) -> Any:
    """How often each of the elements occurs."""
    return np.bincount(index, minlength=len(first))


def _check_vector(x: Any, what: str) -> None:
    if np.ndim(x) != 1:
        raise errors.invalid_argument(f"{what} a 1D vector, and not of shape {text(np.shape(x))}")


def _vector_shape(c: ShapeContext) -> list[Shape]:
    c.with_rank("x", 1)
    return [(None,), c.shape("x"), (None,)][: c.num_outputs]


@op(
    "Unique",
    inputs="x: T",
    outputs="y: T; idx: out_idx",
    attrs="T: type; out_idx: {int32, int64} = int32",
    shape=_vector_shape,
    traits={LIGHT, SIZED_BY_VALUES},
)
def unique_op(xp: Any, x: Any, *, out_idx: DType) -> tuple[Any, ...]:
    """The distinct elements of x [n] in order of occurrence [k], and where each x[i] is among them [n].

    Raises InvalidArgument if x is not a vector.
    """
    _check_vector(x, "unique expects")
    first, index = _distinct(x)
    return x[first], index.astype(out_idx.np)


@op(
    "UniqueWithCounts",
    inputs="x: T",
    outputs="y: T; idx: out_idx; count: out_idx",
    attrs="T: type; out_idx: {int32, int64} = int32",
    shape=_vector_shape,
    traits={SIZED_BY_VALUES},
)
def unique_with_counts_op(xp: Any, x: Any, *, out_idx: DType) -> tuple[Any, ...]:
    """Unique, and how often each element occurs [k].  Raises as Unique."""
    _check_vector(x, "unique expects")
    first, index = _distinct(x)
    return x[first], index.astype(out_idx.np), _counts(first, index).astype(out_idx.np)


def _axis_shape(c: ShapeContext) -> list[Shape]:
    whole, axis = c.shape("x"), c.value("axis")
    c.with_rank("axis", 1)
    y: Shape = None if whole is None else (None,) * len(whole)
    rows: Shape = (None,)
    if whole is not None and axis is not None:
        if axis.size > 1 or (not axis.size and len(whole) != 1):
            raise ValueError(
                f"axis must have one element for x of rank {len(whole)}, not {axis.size}"
            )
        at = static_axis(int(axis[0]), len(whole)) if axis.size else 0
        rows = (whole[at],)
    return [y, rows, (None,)][: c.num_outputs]


def _along(x: Any, axis: Any) -> tuple[Any, Any, Any]:
    """The distinct slices, which of them each slice is, and where they occur first."""
    if np.ndim(axis) != 1 or len(axis) > 1 or (not len(axis) and np.ndim(x) != 1):
        raise errors.invalid_argument(
            f"axis must be a vector with one element (none if x is a vector), but is {np.asarray(axis).tolist()}"
        )
    at = checked_axis(axis[0], np.ndim(x)) if len(axis) else 0
    first, index = _distinct(np.moveaxis(x, at, 0))
    return np.take(x, first, axis=at), index, first


@op(
    "UniqueV2",
    inputs="x: T; axis: Taxis",
    outputs="y: T; idx: out_idx",
    attrs="T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32",
    shape=_axis_shape,
    traits={SIZED_BY_VALUES},
)
def unique_v2_op(xp: Any, x: Any, axis: Any, *, out_idx: DType) -> tuple[Any, ...]:
    """The distinct slices of x along axis [1], in order of occurrence, and where each slice is among them.

    Raises InvalidArgument on a bad axis.
    """
    y, index, _ = _along(x, axis)
    return y, index.astype(out_idx.np)


@op(
    "UniqueWithCountsV2",
    inputs="x: T; axis: Taxis",
    outputs="y: T; idx: out_idx; count: out_idx",
    attrs="T: type; Taxis: {int32, int64} = int64; out_idx: {int32, int64} = int32",
    shape=_axis_shape,
    traits={SIZED_BY_VALUES},
)
def unique_with_counts_v2_op(xp: Any, x: Any, axis: Any, *, out_idx: DType) -> tuple[Any, ...]:
    """UniqueV2, and how often each slice occurs.  Raises as UniqueV2."""
    y, index, first = _along(x, axis)
    return y, index.astype(out_idx.np), _counts(first, index).astype(out_idx.np)


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Unique:
    """The distinct elements of the vector `x`: (y, idx)."""
    return Unique(*unique_op(x, out_idx=out_idx, name=name))


def unique_with_counts(
    x: Any, out_idx: Any = dtypes.int32, name: str | None = None
) -> UniqueWithCounts:
    """The distinct elements of the vector `x`: (y, idx, count)."""
    return UniqueWithCounts(*unique_with_counts_op(x, out_idx=out_idx, name=name))


class ListDiff(NamedTuple):
    """`out` are the elements of x that are not in y, `idx` their places in x."""

    out: Any
    idx: Any


def _list_diff_shapes(c: ShapeContext) -> list[Shape]:
    c.with_rank("x", 1)
    c.with_rank("y", 1)
    return [(None,), (None,)]


@op(
    "ListDiff",
    inputs="x: T; y: T",
    outputs="out: T; idx: out_idx",
    attrs="T: type; out_idx: {int32, int64} = int32",
    shape=_list_diff_shapes,
    traits={SIZED_BY_VALUES},
)
def list_diff_op(xp: Any, x: Any, y: Any, *, out_idx: DType) -> tuple[Any, Any]:
    """The elements of x [n] that are not in y [m], in order and with repetitions, and their places in x.

    Raises InvalidArgument if one is not a vector.
    """
    _check_vector(x, "x should be")
    _check_vector(y, "y should be")
    others = set(y.tolist())
    kept = np.array([i for i, value in enumerate(x.tolist()) if value not in others], np.int64)
    return x[kept], kept.astype(out_idx.np)


def setdiff1d(x: Any, y: Any, index_dtype: Any = dtypes.int32, name: str | None = None) -> ListDiff:
    """The elements of the vector `x` that are not in `y`: (out, idx)."""
    return ListDiff(*list_diff_op(x, y, out_idx=index_dtype, name=name))


# -- TopK -------------------------------------------------------------------------------------


class TopKV2(NamedTuple):
    """The largest elements of each row, and where they are in it."""

    values: Any
    indices: Any


def _top_shape(c: ShapeContext) -> list[Shape]:
    whole = c.with_rank_at_least("input", 1)
    if len(c.op.inputs) == 2:
        k = c.size_value("k")
    else:
        k = c.attr("k")
    if k is not None and k < 0:
        raise ValueError(
            f"Dimension size, given by scalar input 1, must be non-negative but is {k}: it is k"
        )
    if whole is None:
        return [None, None]
    if whole[-1] is not None and k is not None and whole[-1] < k:
        raise ValueError(
            f"input must have last dimension >= k = {k} but is {whole[-1]}: its shape is {text(whole)}"
        )
    return [(*whole[:-1], k)] * 2


_MANY_TIMES = 8  # as many columns as are wanted, from which on it takes less time to find those than to sort all


def _top(input: Any, k: int, index_type: DType) -> tuple[Any, Any]:
    if np.ndim(input) < 1:
        raise errors.invalid_argument(
            "input must be >= 1-D, got shape []: top_k sorts the last dimension"
        )
    if k < 0:
        raise errors.invalid_argument(f"Need k >= 0, got {k}")
    columns = input.shape[-1]
    if columns < k:
        raise errors.invalid_argument(
            f"input must have at least k columns. Had {columns}, needed {k}"
        )
    indices = _few_places(input, k) if 0 < k * _MANY_TIMES <= columns else None
    if indices is None:
        indices = _places(input, k)
    return np.take_along_axis(input, indices, axis=-1), indices.astype(index_type.np)


def _places(input: Any, k: int) -> Any:
    """Of the k largest, descending, and of equal ones the first: a stable ascending sort of mirrored rows, mirrored."""
    order = np.argsort(input[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    return input.shape[-1] - 1 - order


def _few_places(input: Any, k: int) -> Any:
    """As `_places`, of few: rows are not sorted.  None where elements that are as large as the last one of them are
    many, or NaN is, or for types that NumPy does not know.
    """
    if input.dtype.kind not in "iuf":
        return None
    if k == 1:
        return np.argmax(input, axis=-1, keepdims=True)
    rows = input.reshape(-1, input.shape[-1])
    least = np.partition(rows, rows.shape[1] - k, axis=1)[:, -k, None]
    chosen = rows >= least
    if (np.count_nonzero(chosen, 1) != k).any() or (rows != rows).any():
        return None
    places = chosen.nonzero()[1].reshape(-1, k)
    first = _places(np.take_along_axis(rows, places, axis=1), k)
    return np.take_along_axis(places, first, axis=1).reshape(*input.shape[:-1], k)


@op(
    "TopKV2",
    inputs="input: T; k: Tk",
    outputs="values: T; indices: index_type",
    attrs="sorted: bool = true; T: realnumbertype; Tk: {int16, int32, int64} = int32; "
    "index_type: {int16, int32, int64} = int32",
    shape=_top_shape,
)
def top_k_v2_op(xp: Any, input: Any, k: Any, *, index_type: DType) -> tuple[Any, Any]:
    """The k largest elements of each row, largest first, and their places.

    input [..., n]; k [] <= n.  values, indices [..., k].  Raises InvalidArgument otherwise.
    """
    if np.ndim(k):
        raise errors.invalid_argument(f"k must be scalar, got shape {text(np.shape(k))}")
    return _top(input, int(k), index_type)


@op(
    "TopK",
    inputs="input: T",
    outputs="values: T; indices: int32",
    attrs="k: int >= 0; sorted: bool = true; T: realnumbertype",
    shape=_top_shape,
)
def top_k_v1_op(xp: Any, input: Any, *, k: int) -> tuple[Any, Any]:
    """TopKV2 with k as an attr; graphs of old producers have it.  Raises as TopKV2."""
    return _top(input, k, dtypes.int32)


def _top_gradient(op: Operation, dout: Tensor, _: Any) -> Tensor:
    """Scattered back into rows laid one after the other."""
    source, places = op.inputs[0], op.outputs[1]
    whole, chosen = shape(source), shape(places)
    count = gather(get("Cast")(chosen, DstT=dtypes.int64), size(chosen) - 1)
    table = reshape(places, stack([-1, count]))
    columns = gather(get("Cast")(whole, DstT=dtypes.int64), size(whole) - 1)
    rows = get("Cast")(shape(table)[0], DstT=dtypes.int64)
    starts = expand_dims(_steps(rows * columns, columns), -1)
    flat = reshape(table + get("Cast")(starts, DstT=dtypes.int32), [-1])
    column, values = expand_dims(flat, -1), reshape(dout, [-1])
    total = get("Prod")(whole, all_axes(whole))
    return reshape(scatter_nd(column, values, [total]), whole)


def _steps(limit: Tensor, delta: Tensor) -> Any:
    return range_of(0, limit, delta)


@top_k_v2_op.gradient
def _(op: Operation, dout: Tensor, dindices: Any) -> tuple[Tensor, Tensor]:
    return _top_gradient(op, dout, dindices), zeros((), dtypes.int32)


@top_k_v1_op.gradient
def _(op: Operation, dout: Tensor, dindices: Any) -> Tensor:
    return _top_gradient(op, dout, dindices)


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> TopKV2:
    """The k largest elements of each row of `input` [..., n], largest first: (values, indices)."""
    return TopKV2(*top_k_v2_op(input, k, sorted=sorted, name=name))
