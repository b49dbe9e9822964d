"""Segments: reductions of the rows of one tensor that belong together.

Called by: gradients of gathers, IndexedSlices, embeddings, users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/segment_reduction_ops.cc, python/ops/math_grad.py),
GraphDefs as 2.21.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import LIGHT, NONE, Traits
from headrace.graph.convert import convert
from headrace.graph.graph import Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import of_ragged_by
from headrace.graph.registry import OpSpec, get, op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.row_sums import reductions_of_rows
from headrace.ops._kernels.sparse_keys import is_counting
from headrace.ops.array.constants import ones, ones_like, shape_tensor, zeros_like
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import expand_dims, rank, reshape, shape

__all__ = [
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_prod",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]

_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
    "quint16, uint16, complex128, half, uint32, uint64}"
)

_FEW_SEGMENTS = 1 << 16
_LARGE = 1 << 13  # elements from which rows are reduced many at a time
_COUNTED = (np.float32, np.float64)  # that are summed up in double precision while they are counted
_NARROW = 4  # elements of a row; of narrower ones NumPy reduces one place after the other as fast


def reduced(ufunc: Any, data: Any, ids: Any, count: int, empty: Any, indices: Any = None) -> Any:
    """out[i] = the `ufunc` reduction of the rows of data whose id is i; `empty` where there is none.

    data [n, ...], or [m, ...] of which the rows at indices [n] are meant; ids [n] in [0, count).
    out [count, ...], dtype of data.
    """
    width = math.prod(data.shape[1:])
    if len(ids) * width >= _LARGE and width >= _NARROW and data.dtype.isbuiltin == 1:
        flat = data.reshape(len(data), width)
        return _wide(ufunc, flat, ids, count, empty, indices).reshape(count, *data.shape[1:])
    if indices is not None:
        data = data.take(indices, axis=0)
    steps = ids[1:] > ids[:-1]
    once = bool(steps.all())
    if once and len(ids) == count:
        return data.copy()
    out = np.empty((count, *data.shape[1:]), data.dtype)
    out[...] = empty
    if once:  # in order
        out[ids] = data
        return out
    if (ids[1:] < ids[:-1]).any():
        if ufunc is np.add and data.ndim == 1 and data.dtype in _COUNTED and not empty:
            return np.bincount(ids, data, count).astype(data.dtype)
        # Keys of 16 bits are sorted without comparing them.
        keys = ids.astype(np.uint16) if count <= _FEW_SEGMENTS else ids
        order = np.argsort(keys, kind="stable")
        ids, data = ids[order], data[order]
        steps = ids[1:] > ids[:-1]
    begins = np.ones(len(ids), bool)
    begins[1:] = steps
    starts = np.flatnonzero(begins)
    if data.dtype.isbuiltin == 1:
        out[ids[starts]] = ufunc.reduceat(data, starts, axis=0, dtype=data.dtype)
    else:  # the types of ml_dtypes: summed as float32, rounded once
        out[ids[starts]] = ufunc.reduceat(data.astype(np.float32), starts, axis=0).astype(
            data.dtype
        )
    return out


def _wide(ufunc: Any, data: Any, ids: Any, count: int, empty: Any, indices: Any) -> Any:
    """As `reduced`, of data [m, width]."""
    if bool((ids[1:] > ids[:-1]).all()) and len(ids) == count:
        return data.copy() if indices is None else data.take(indices, axis=0)
    out = np.empty((count, data.shape[1]), data.dtype)
    out[...] = empty

    def rows(at: Any, into: Any) -> None:
        data.take(at if indices is None else indices[at], axis=0, out=into, mode="clip")

    return reductions_of_rows(ufunc, ids, out, rows)


def means(data: Any, ids: Any, count: int, power: float = 1.0, indices: Any = None) -> Any:
    """Sums of rows by id, each divided by the number of its rows (to `power`).  data, indices: as of `reduced`."""
    sums = reduced(np.add, data, ids, count, 0, indices)
    if is_counting(ids, count):
        return sums
    numbers = np.maximum(np.bincount(ids, minlength=count), 1).reshape(-1, *[1] * (data.ndim - 1))
    if sums.dtype.kind in "iu":
        counts = numbers.astype(sums.dtype)
        quotients = sums // counts
        return quotients + ((quotients < 0) & (quotients * counts != sums))  # towards zero
    return (sums / (numbers**power).astype(sums.dtype)).astype(sums.dtype)


def _lowest(dtype: Any) -> Any:
    return dtypes.from_numpy(dtype).min


def _highest(dtype: Any) -> Any:
    return dtypes.from_numpy(dtype).max


# -- sorted ids -------------------------------------------------------------------------------


def _sorted_shape(c: ShapeContext) -> Shape:
    c.with_rank("segment_ids", 1)
    data = c.with_rank_at_least("data", 1)
    return None if data is None else (None, *data[1:])


def checked_ids(
    data: Any, ids: Any, size: str = "should be the same size as dimension 0 of input"
) -> int:
    """The number of segments.  Raises InvalidArgument if ids do not fit data, fall, or are negative.

    size: what the message says that they must be if they are of another size.
    """
    if np.ndim(ids) != 1:
        raise errors.invalid_argument(
            f"segment_ids should be a vector. It has shape {text(np.shape(ids))}"
        )
    if np.ndim(data) < 1:
        raise errors.invalid_argument("input must be at least rank 1, but is a scalar")
    if len(ids) != len(data):
        raise errors.invalid_argument(
            f"segment_ids {size}: it must have as many elements as data has rows, but their shapes "
            f"are {text(ids.shape)} and {text(np.shape(data))}"
        )
    if not len(ids):
        return 0
    if (ids[1:] < ids[:-1]).any():
        raise errors.invalid_argument(
            "segment ids are not increasing; unsorted_segment_sum and its kin take any order"
        )
    if ids[0] < 0:
        raise errors.invalid_argument(f"Segment id {int(ids[0])} out of range: ids must be >= 0")
    return int(ids[-1]) + 1


def _sorted(name: str, types: str, reduce: Callable[[Any, Any, int], Any], what: str) -> OpSpec:
    def kernel(xp: Any, data: Any, segment_ids: Any) -> Any:
        return reduce(data, segment_ids, checked_ids(data, segment_ids))

    kernel.__doc__ = f"""The {what} of the rows of data whose segment id is i, as row i.

    data [n, ...]; segment_ids [n], not falling.  out [last id + 1, ...].
    Raises InvalidArgument if the ids fall, are negative, or are not n.
    """
    return op(
        name,
        inputs="data: T; segment_ids: Tindices",
        outputs="output: T",
        attrs=f"T: {types}; Tindices: {{int32, int64}}",
        shape=_sorted_shape,
    )(kernel)


segment_sum = _sorted("SegmentSum", _NUMBERS, lambda d, i, n: reduced(np.add, d, i, n, 0), "sum")
segment_mean = _sorted("SegmentMean", _NUMBERS, means, "mean")
segment_prod = _sorted(
    "SegmentProd", _NUMBERS, lambda d, i, n: reduced(np.multiply, d, i, n, 1), "product"
)
segment_max = _sorted(
    "SegmentMax", "realnumbertype", lambda d, i, n: reduced(np.maximum, d, i, n, 0), "maximum"
)
segment_min = _sorted(
    "SegmentMin", "realnumbertype", lambda d, i, n: reduced(np.minimum, d, i, n, 0), "minimum"
)


@segment_sum.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    return gather(dout, op.inputs[1]), None


@segment_mean.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    data, ids = op.inputs
    count = rank(data)
    sizes = concat([shape(ids), ones(expand_dims(count - 1, 0), dtypes.int32)], 0)
    numbers = segment_sum(ones(sizes, dout.dtype), ids)
    return gather(dout / numbers, ids), None


def _extreme_gradient(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    """Shared evenly among the rows that are extreme."""
    data, ids = op.inputs
    nothing = zeros_like(data)
    chosen = get("Equal")(data, gather(op.outputs[0], ids))
    numbers = segment_sum(get("Cast")(chosen, DstT=dout.dtype), ids)
    share = gather(get("RealDiv")(dout, numbers, name="truediv"), ids)
    return get("SelectV2")(chosen, share, nothing), None


segment_max.gradient(_extreme_gradient)
segment_min.gradient(_extreme_gradient)


@segment_prod.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None]:
    """The product over the others: divide, except where a factor is zero."""
    data, ids = op.inputs
    zero = get("Equal")(data, 0)
    zeros_each = segment_sum(get("Cast")(zero, DstT=dtypes.int32), ids)
    dout = get("SelectV2")(get("Greater")(zeros_each, 1), zeros_like(dout), dout)
    factors = get("SelectV2")(zero, ones_like(data), data)
    without = segment_prod(factors, ids)
    whole, others = gather(op.outputs[0], ids), gather(without, ids)
    partial = get("SelectV2")(zero, others, get("RealDiv")(whole, factors, name="truediv"))
    return gather(dout, ids) * partial, None


# -- ids in any order -------------------------------------------------------------------------


def _unsorted_shape(c: ShapeContext) -> Shape:
    data, ids = c.shape("data"), c.shape("segment_ids")
    c.with_rank("num_segments", 0)
    count = c.size_value("num_segments")
    if data is None or ids is None:
        return None
    shape_rules.merge_prefix(data, ids, "data must start with the shape of segment_ids")
    return (count, *data[len(ids) :])


def _unsorted(
    name: str,
    types: str,
    indices: str,
    ufunc: Any,
    empty: Callable[[Any], Any],
    what: str,
    traits: Traits = NONE,
) -> OpSpec:
    def kernel(xp: Any, data: Any, segment_ids: Any, num_segments: Any) -> Any:
        data, ids = np.asarray(data), np.asarray(segment_ids)
        if np.ndim(num_segments):
            raise errors.invalid_argument(
                f"num_segments should be a scalar, not shape {text(np.shape(num_segments))}"
            )
        count = int(num_segments)
        if count < 0:
            raise errors.invalid_argument(f"Input num_segments == {count} must not be negative")
        if data.shape[: ids.ndim] != ids.shape:
            raise errors.invalid_argument(
                f"data.shape = {text(data.shape)} does not start with segment_ids.shape = {text(ids.shape)}"
            )
        rows, flat = data.reshape(ids.size, *data.shape[ids.ndim :]), ids.reshape(-1)
        if rows.size and flat.max() >= count:
            at = np.argwhere(ids >= count)[0].tolist()
            raise errors.invalid_argument(
                f"segment_ids{text(at)} = {int(ids[tuple(at)])} is out of range [0, {count})"
            )
        if not rows.size:
            flat, rows = flat[:0], rows[:0]
        elif flat.min() < 0:
            rows, flat = rows[flat >= 0], flat[flat >= 0]
        return reduced(ufunc, rows, flat, count, empty(data.dtype))

    kernel.__doc__ = f"""The {what} of the rows of data whose segment id is i, as row i.

    data: segment_ids.shape + [...]; negative ids drop their rows.  out [num_segments, ...].
    Raises InvalidArgument if an id is num_segments or more.
    """
    return op(
        name,
        inputs="data: T; segment_ids: Tindices; num_segments: Tnumsegments",
        outputs="output: T",
        attrs=f"T: {types}; Tindices: {indices}; Tnumsegments: {{int32, int64}} = int32",
        shape=_unsorted_shape,
        traits=traits,
    )(kernel)


unsorted_segment_sum = _unsorted(
    "UnsortedSegmentSum",
    _NUMBERS,
    "{int16, int32, int64}",
    np.add,
    lambda _: 0,
    "sum",
    traits={LIGHT},
)
unsorted_segment_prod = _unsorted(
    "UnsortedSegmentProd", _NUMBERS, "{int32, int64}", np.multiply, lambda _: 1, "product"
)
unsorted_segment_max = _unsorted(
    "UnsortedSegmentMax", "realnumbertype", "{int32, int64}", np.maximum, _lowest, "maximum"
)
unsorted_segment_min = _unsorted(
    "UnsortedSegmentMin", "realnumbertype", "{int32, int64}", np.minimum, _highest, "minimum"
)


for _name, _spec in {
    "unsorted_segment_sum": unsorted_segment_sum,
    "unsorted_segment_prod": unsorted_segment_prod,
    "unsorted_segment_max": unsorted_segment_max,
    "unsorted_segment_min": unsorted_segment_min,
}.items():
    _spec.ragged_by("headrace.ops.array.ragged_segments", _name)


def _gather_known(
    values: Tensor, ids: Tensor, clipped: Any = None, known: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows by id, zeros where the id is negative; also the clipped ids and the mask of known ones."""
    if clipped is None:
        clipped = get("Maximum")(ids, zeros_like(ids))
    rows = gather(values, clipped)
    if known is None:
        positive = get("GreaterEqual")(ids, 0)
        sizes = shape(positive)
        extra = rank(rows) - rank(positive)
        column = concat([sizes, ones([extra], sizes.dtype)], axis=0)
        known = get("LogicalAnd")(
            reshape(positive, column), ones_like(rows, dtypes.bool), name="and"
        )
    return get("SelectV2")(known, rows, zeros_like(rows)), clipped, known


@unsorted_segment_sum.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    return _gather_known(dout, op.inputs[1])[0], None, None


def _unsorted_extreme_gradient(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    data, ids, count = op.inputs
    rows, clipped, known = _gather_known(op.outputs[0], ids)
    chosen = get("LogicalAnd")(get("Equal")(data, rows), known)
    numbers = unsorted_segment_sum(get("Cast")(chosen, DstT=dout.dtype), ids, count)
    share, _, _ = _gather_known(get("RealDiv")(dout, numbers, name="truediv"), ids, clipped, known)
    return get("SelectV2")(chosen, share, zeros_like(share)), None, None


unsorted_segment_max.gradient(_unsorted_extreme_gradient)
unsorted_segment_min.gradient(_unsorted_extreme_gradient)


@unsorted_segment_prod.gradient
def _(op: Operation, dout: Tensor) -> tuple[Tensor, None, None]:
    """The product over the others: divide, except where a factor is zero."""
    data, ids, count = op.inputs
    zero = get("Equal")(data, 0)
    zeros_each = unsorted_segment_sum(get("Cast")(zero, DstT=dtypes.int32), ids, count)
    dout = get("SelectV2")(get("Greater")(zeros_each, 1), zeros_like(dout), dout)
    without = unsorted_segment_prod(get("SelectV2")(zero, ones_like(data), data), ids, count)
    clipped = get("Maximum")(ids, zeros_like(ids))
    whole = gather(op.outputs[0], clipped)
    others = gather(without, clipped)
    partial = get("SelectV2")(zero, others, get("RealDiv")(whole, data, name="truediv"))
    rows, _, _ = _gather_known(dout, ids, clipped)
    return rows * partial, None, None


def _row_numbers(data: Tensor, ids: Any, count: Any) -> tuple[Tensor, Tensor]:
    """How many rows each segment has (at least 1), in data's dtype, shaped to divide its sums."""
    ids = convert(ids)
    numbers_of = convert(count)
    row = ones(shape_tensor(ids), data.dtype.base_dtype)
    numbers = unsorted_segment_sum(row, ids, numbers_of)
    kind = numbers_of.dtype.base_dtype
    column = concat([numbers_of[None], ones([rank(data) - rank(ids)], kind)], axis=0)
    return get("Maximum")(reshape(numbers, column), 1), ids


@of_ragged_by("headrace.ops.array.ragged_segments")
def unsorted_segment_mean(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The mean of the rows of data whose segment id is i, as row i; zeros where there is none."""
    with name_scope(name, "UnsortedSegmentMean"):
        data = convert(data)
        numbers, ids = _row_numbers(data, segment_ids, num_segments)
        made: Tensor = unsorted_segment_sum(data, ids, num_segments) / numbers
        return made


@of_ragged_by("headrace.ops.array.ragged_segments")
def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """The sum of the rows whose segment id is i over the square root of their number, as row i."""
    with name_scope(name, "UnsortedSegmentSqrtN"):
        data = convert(data)
        numbers, ids = _row_numbers(data, segment_ids, num_segments)
        made: Tensor = unsorted_segment_sum(data, ids, num_segments) / get("Sqrt")(numbers)
        return made
