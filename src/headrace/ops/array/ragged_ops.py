"""Ragged tensors into dense and sparse ones, their rows gathered, ranges as rows.

Called by: ops.array.ragged.  Threads: any.
Source: behaviour of TF 1.15 and 2.21 (core/kernels/ragged_{range,gather,tensor_to_sparse,tensor_to_tensor}*.cc)
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.base.dtypes import DType
from headrace.base.limits import Growth
from headrace.base.shapes import Shape, merge_sizes, text
from headrace.base.traits import SIZED_BY_VALUES
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext

__all__: list[str] = []

Array = np.ndarray[Any, Any]


def _checked(splits: Array, count: int, what: str = "values") -> None:
    """Raises InvalidArgument unless splits [n + 1] rise from 0 to `count`."""
    if splits.ndim != 1 or not len(splits):
        raise errors.invalid_argument(
            f"splits must be a vector with at least one element, and have shape {text(splits.shape)}"
        )
    if splits[0] != 0 or (splits[1:] < splits[:-1]).any():
        raise errors.invalid_argument(
            f"splits must begin with 0 and not fall: {text(tuple(splits[:10].tolist()))}"
        )
    if splits[-1] != count:
        raise errors.invalid_argument(
            f"the last of the splits, {splits[-1]}, must be the number of {what}, {count}"
        )


def _checked_all(nested: list[Array], values: Array) -> None:
    for splits in nested:
        if splits.ndim != 1:
            raise errors.invalid_argument(
                f"Ragged splits must be rank 1, and have shape {list(splits.shape)}"
            )
    if not values.ndim:
        raise errors.invalid_argument("the values of a ragged tensor must have rank 1 or more")
    for outer, inner in zip(nested, [*nested[1:], None], strict=True):
        _checked(outer, len(values) if inner is None else len(inner) - 1)


def _rows(splits: Array) -> Array:
    """The row of each element."""
    return np.repeat(np.arange(len(splits) - 1, dtype=np.int64), np.diff(splits))


# -- RaggedRange ------------------------------------------------------------------------------


@op(
    "RaggedRange",
    inputs="starts: T; limits: T; deltas: T",
    outputs="rt_nested_splits: Tsplits; rt_dense_values: T",
    attrs="T: {bfloat16, float, double, int32, int64} = int32; Tsplits: {int32, int64} = int64",
    shape=lambda c: [_range_rows(c), (None,)],
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def ragged_range_op(
    xp: Any, starts: Any, limits: Any, deltas: Any, *, Tsplits: DType
) -> tuple[Array, Array]:
    """A row of numbers from each start to each limit; scalars go with every row.

    Raises InvalidArgument for shapes that do not fit and a step of 0, ResourceExhausted (`base.limits`).
    """
    given = [np.asarray(each) for each in (starts, limits, deltas)]
    if any(each.ndim > 1 for each in given):
        raise errors.invalid_argument("starts, limits and deltas must be scalars or vectors")
    sizes = {len(each) for each in given if each.ndim}
    if len(sizes) > 1:
        raise errors.invalid_argument("starts, limits, and deltas must have the same shape")
    count = sizes.pop() if sizes else 1
    start, limit, delta = (np.broadcast_to(each, (count,)) for each in given)
    if (delta == 0).any():
        raise errors.invalid_argument("Requires delta != 0: a range has a step")
    dtype = start.dtype
    if dtype.kind == "i":
        spans = [(int(b) - int(a), int(d)) for a, b, d in zip(start, limit, delta, strict=True)]
        lengths = [max(0, -(-span // step)) for span, step in spans]
    else:
        wide = [each.astype(np.float64) for each in (start, limit, delta)]
        with np.errstate(all="ignore"):
            ratio = np.ceil((wide[1] - wide[0]) / wide[2])
        if not np.isfinite(ratio).all():
            raise errors.invalid_argument(
                "Requires ((limit - start) / delta) <= 2^63: a range is finite"
            )
        lengths = [max(0, int(each)) for each in ratio]
    Growth("the ranges that are made here").add(sum(lengths) * dtype.itemsize)
    splits = np.concatenate([[0], np.cumsum(np.array(lengths, np.int64))])
    rows = _rows(splits)
    steps = (np.arange(splits[-1]) - splits[rows]).astype(dtype)
    return splits.astype(Tsplits.np), (start[rows] + steps * delta[rows]).astype(dtype)


def _range_rows(c: ShapeContext) -> Shape:
    rows: int | None = None
    for arg in ("starts", "limits", "deltas"):
        found = c.with_rank_at_most(arg, 1)
        if found:
            rows = merge_sizes(rows, found[0], "starts, limits and deltas")
    for shape in c.shapes:
        if shape is not None and len(shape) == 1 and shape[0] is not None:
            return (shape[0] + 1,)
    return (2,) if all(shape == () for shape in c.shapes) else (None,)


# -- RaggedGather -----------------------------------------------------------------------------


def _gathered_shapes(c: ShapeContext) -> list[Shape]:
    for at in range(c.attr("PARAMS_RAGGED_RANK")):
        c.with_rank(at, 1)
    values = c.with_rank_at_least(c.attr("PARAMS_RAGGED_RANK"), 1)
    c.with_rank(
        c.attr("PARAMS_RAGGED_RANK") + 1,
        c.attr("OUTPUT_RAGGED_RANK") - c.attr("PARAMS_RAGGED_RANK") + 1,
    )
    rest = None if values is None else (None, *values[1:])
    return [*[(None,)] * c.attr("OUTPUT_RAGGED_RANK"), rest]


@op(
    "RaggedGather",
    inputs="params_nested_splits: PARAMS_RAGGED_RANK * Tsplits; params_dense_values: Tvalues; indices: Tindices",
    outputs="output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits; output_dense_values: Tvalues",
    attrs="Tvalues: type; Tindices: {int32, int64}; Tsplits: {int32, int64} = int64; "
    "PARAMS_RAGGED_RANK: int >= 1; OUTPUT_RAGGED_RANK: int >= 0",
    shape=_gathered_shapes,
    traits={SIZED_BY_VALUES},
)
def ragged_gather_op(
    xp: Any, *given: Any, PARAMS_RAGGED_RANK: int, OUTPUT_RAGGED_RANK: int
) -> tuple[Any, ...]:
    """The rows of a ragged tensor at indices, of any shape; the one at a scalar.

    Raises InvalidArgument for splits that do not fit, an index that is out of range, another ragged rank.
    """
    nested, values, indices = list(given[:PARAMS_RAGGED_RANK]), given[-2], np.asarray(given[-1])
    _checked_all(nested, values)
    if PARAMS_RAGGED_RANK + indices.ndim - 1 != OUTPUT_RAGGED_RANK:
        raise errors.invalid_argument(
            f"OUTPUT_RAGGED_RANK must be {PARAMS_RAGGED_RANK + indices.ndim - 1} for indices of rank {indices.ndim}, "
            f"and is {OUTPUT_RAGGED_RANK}"
        )
    count = len(nested[0]) - 1
    chosen = indices.reshape(-1).astype(np.int64)
    bad = (chosen < 0) | (chosen >= count)
    if bad.any():
        raise errors.invalid_argument(
            f"indices[{int(np.flatnonzero(bad)[0])}] = {chosen[bad][0]} is not in [0, {count})"
        )
    out: list[Array] = []
    for at in range(indices.ndim - 1):
        rows = prod(indices.shape[: at + 1])
        out.append(np.arange(rows + 1) * indices.shape[at + 1])
    for splits in nested:
        lengths = np.diff(splits)[chosen]
        ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        Growth("the rows that are gathered here").add(int(ends[-1]) * 8)
        starts = np.repeat(splits[:-1][chosen].astype(np.int64) - ends[:-1], lengths)
        chosen = np.arange(ends[-1]) + starts
        out.append(ends)
    if not indices.ndim:  # of one row nothing says where it ends
        del out[0]
    kind = nested[0].dtype
    return (*[each.astype(kind) for each in out], values[chosen])


@ragged_gather_op.gradient
def _(op: Any, *douts: Any) -> Any:
    from headrace.ops.array.ranges import range as range_of
    from headrace.ops.array.shapes import shape as shape_of
    from headrace.ops.math.segments import unsorted_segment_sum

    *nested, values, indices = op.inputs
    count = shape_of(values)[0]
    chosen = ragged_gather_op(
        nested, range_of(count), indices, OUTPUT_RAGGED_RANK=op["OUTPUT_RAGGED_RANK"]
    )
    return [*[None] * len(nested), unsorted_segment_sum(douts[-1], chosen[-1], count), None]


# -- RaggedTensorToSparse ---------------------------------------------------------------------


def _sparse_shapes(c: ShapeContext) -> list[Shape]:
    for at in range(c.attr("RAGGED_RANK")):
        c.with_rank(at, 1)
    values = c.with_rank_at_least(c.attr("RAGGED_RANK"), 1)
    rank = None if values is None else len(values) + c.attr("RAGGED_RANK")
    count = (
        None
        if values is None or None in values
        else prod(size for size in values if size is not None)
    )
    return [(count, rank), (count,), (rank,)]


@op(
    "RaggedTensorToSparse",
    inputs="rt_nested_splits: RAGGED_RANK * Tsplits; rt_dense_values: T",
    outputs="sparse_indices: int64; sparse_values: T; sparse_dense_shape: int64",
    attrs="RAGGED_RANK: int >= 1; T: type; Tsplits: {int32, int64} = int64",
    shape=_sparse_shapes,
    traits={SIZED_BY_VALUES},
)
def ragged_tensor_to_sparse_op(xp: Any, *given: Any) -> tuple[Array, Array, Array]:
    """A ragged tensor's elements as a sparse tensor's; dimensions are as long as the longest row.

    Raises InvalidArgument for splits that do not fit.
    """
    nested, values = list(given[:-1]), given[-1]
    _checked_all(nested, values)
    columns, sizes = _columns(nested, len(values))
    inner = values.shape[1:]
    if inner:
        each = np.indices(inner).reshape(len(inner), -1)
        columns = [np.repeat(column, prod(inner)) for column in columns]
        columns += [np.tile(column, len(values)) for column in each]
    indices = np.stack(columns, axis=1).astype(np.int64)
    return indices, values.reshape(-1).copy(), np.array([*sizes, *inner], np.int64)


def _columns(nested: list[Array], count: int) -> tuple[list[Array], list[int]]:
    """The coordinates of each value in the ragged dimensions and the one before them, and how long they are."""
    sizes = [len(nested[0]) - 1]
    columns = [np.arange(len(nested[0]) - 1)]
    for splits in nested:
        rows = _rows(splits)
        columns = [column[rows] for column in columns]
        columns.append(np.arange(len(rows)) - splits[:-1].astype(np.int64)[rows])
        sizes.append(int(np.diff(splits).max(initial=0)))
    assert len(columns[0]) == count
    return columns, sizes


@ragged_tensor_to_sparse_op.gradient
def _(op: Any, d_indices: Any, d_values: Any, d_shape: Any) -> Any:
    from headrace.ops.array.shapes import reshape
    from headrace.ops.array.shapes import shape as shape_of

    values = op.inputs[-1]
    return [*[None] * (len(op.inputs) - 1), reshape(d_values, shape_of(values))]


# -- RaggedTensorToTensor ---------------------------------------------------------------------


def _dense_shape(c: ShapeContext) -> Shape:
    known = None if c.shape("shape") == () else c.shape_value("shape")
    rank = len(c.attr("row_partition_types"))
    if c.attr("row_partition_types")[:1] == [b"FIRST_DIM_SIZE"]:
        rank -= 1
    values = c.shape("values")
    if values is None:
        return known or None
    found: list[int | None] = [*[None] * (rank + 1), *values[1:]]
    if known is not None and len(known) == len(found):
        found = [b if a is None else a for a, b in zip(known, found, strict=True)]
    return tuple(found)


@op(
    "RaggedTensorToTensor",
    inputs="shape: Tshape; values: T; default_value: T; row_partition_tensors: num_row_partition_tensors * Tindex",
    outputs="result: T",
    attrs="T: type; Tindex: {int64, int32}; Tshape: {int64, int32}; num_row_partition_tensors: int >= 1; "
    "row_partition_types: list(string)",
    shape=_dense_shape,
    traits={SIZED_BY_VALUES},
)
def ragged_tensor_to_tensor_op(
    xp: Any,
    shape: Array,
    values: Array,
    default_value: Any,
    *partitions: Array,
    row_partition_types: list[bytes],
) -> Array:
    """A ragged tensor as a dense one, with default_value where rows are short; what is beyond `shape` is left out.

    shape: of the output, -1 for as long as needed; a scalar -1 for all of it.  row_partition_types: ROW_SPLITS, or
    FIRST_DIM_SIZE and VALUE_ROWIDS.  Raises InvalidArgument, ResourceExhausted (`base.limits`).
    """
    nested = _as_splits(list(partitions), row_partition_types, len(values) if values.ndim else 0)
    _checked_all(nested, values)
    columns, sizes = _columns(nested, len(values))
    sizes += list(values.shape[1:])
    if shape.ndim == 1:
        if len(shape) != len(sizes):
            raise errors.invalid_argument(
                f"the shape {shape.tolist()} must have {len(sizes)} sizes, as many as the ragged tensor has dimensions"
            )
        sizes = [
            size if wanted < 0 else int(wanted) for size, wanted in zip(sizes, shape, strict=True)
        ]
    elif shape.ndim or int(shape) != -1:
        raise errors.invalid_argument(
            f"the shape must be a vector, or -1 for any, not {text(shape.shape)}"
        )
    default = np.asarray(default_value)
    ragged = len(columns)
    inner = tuple(sizes[ragged:])
    if inner != values.shape[1:]:
        raise errors.invalid_argument(
            f"the inner dimensions {list(inner)} that are asked for are not those of the values, "
            f"{list(values.shape[1:])}"
        )
    if len(default.shape) > len(inner) or default.shape != inner[len(inner) - default.ndim :]:
        raise errors.invalid_argument(
            f"default_value has the shape {text(default.shape)}, and must fit the values' {text(inner)}"
        )
    Growth("the dense tensor that is made here").add(prod(sizes) * 8)
    out = np.empty(sizes, values.dtype)
    out[...] = default
    kept = np.ones(len(values), bool)
    for column, size in zip(columns, sizes[:ragged], strict=True):
        kept &= column < size
    out[tuple(column[kept] for column in columns)] = values[kept]
    return out


@ragged_tensor_to_tensor_op.gradient
def _(op: Any, dout: Any) -> Any:
    from headrace.ops.array.ranges import range as range_of
    from headrace.ops.array.shapes import shape as shape_of
    from headrace.ops.math.segments import unsorted_segment_sum
    from headrace.ops.tables import make

    _, values, default, *partitions = op.inputs
    kinds = op["row_partition_types"]
    count = shape_of(values)[0]
    ragged = len(kinds) + (0 if kinds[0] == b"FIRST_DIM_SIZE" else 1)
    places = ragged_tensor_to_tensor_op(
        shape_of(dout)[:ragged], range_of(1, count + 1), 0, partitions, row_partition_types=kinds
    )
    by_value = unsorted_segment_sum(dout, places, count + 1)  # where no value is, the default's
    own = shape_of(default)
    _, spread = make.BroadcastGradientArgs(shape_of(by_value[0]), own)
    of_default = make.Reshape(make.Sum(by_value[0], spread), own)
    return [None, by_value[1:], of_default, *[None] * len(partitions)]


def _as_splits(partitions: list[Array], kinds: list[bytes], count: int) -> list[Array]:
    """row_splits of each ragged dimension.  Raises InvalidArgument."""
    if len(partitions) != len(kinds):
        raise errors.invalid_argument(
            f"there are {len(partitions)} row partitions, and {len(kinds)} types of them"
        )
    rows: int | None = None
    if kinds[0] == b"FIRST_DIM_SIZE":
        if np.ndim(partitions[0]):
            raise errors.invalid_argument("FIRST_DIM_SIZE must be a scalar")
        rows, partitions, kinds = int(partitions[0]), partitions[1:], kinds[1:]
    found: list[Array] = []
    for each, kind in zip(partitions, kinds, strict=True):
        if kind == b"ROW_SPLITS":
            found.append(np.asarray(each))
        elif kind == b"VALUE_ROWIDS" and rows is not None:
            ids = np.asarray(each)
            if (
                ids.ndim != 1
                or (len(ids) and (ids[0] < 0 or ids[-1] >= rows))
                or (ids[1:] < ids[:-1]).any()
            ):
                raise errors.invalid_argument(
                    f"VALUE_ROWIDS must be a vector that does not fall, in [0, {rows})"
                )
            found.append(np.searchsorted(ids, np.arange(rows + 1)))
        else:
            raise errors.invalid_argument(f"row partitions of the type {kind!r} do not stand here")
        rows = int(found[-1][-1]) if found[-1].ndim == 1 and len(found[-1]) else 0
    if not found:
        raise errors.invalid_argument("a ragged tensor has one ragged dimension or more")
    return found
