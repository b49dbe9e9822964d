"""Functions that take rows and elements of ragged tensors: by number, by place, by a mask.

Each takes the function that is for tensors, and the arguments of the call by their names.
Called by: graph.ragged, tf.ragged.  Threads: as graph.
Source: behaviour of TF 1.15 and 2.21 (python/ops/ragged/ragged_gather_ops.py, ragged_array_ops.py, ragged_where_op.py)
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes, errors
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import Ragged
from headrace.graph.tensor import Tensor
from headrace.ops.array import gathering
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_calls import map_flat_values, ragged_gather
from headrace.ops.array.ragged_dispatch import as_ragged
from headrace.ops.array.ragged_joining import Arguments, Function, static_axis
from headrace.ops.array.ragged_operators import aligned
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.math.casting import cast
from headrace.ops.math.scans import cumsum

__all__ = ["ragged_boolean_mask"]


def _ragged_or_tensor(value: Any) -> Any:
    return as_ragged(value) if isinstance(value, Ragged) else convert(value)


def gather(function: Function, arguments: Arguments) -> Any:
    """`tf.gather`: rows; columns of each row, the same or each its own; or along a dimension of innermost values."""
    batch = arguments.get("batch_dims") or 0
    axis = arguments.get("axis")
    params, indices = (_ragged_or_tensor(arguments[key]) for key in ("params", "indices"))
    if not isinstance(params, RaggedTensor):
        if axis not in (None, 0) or batch:
            raise errors.unimplemented(
                "gather of ragged indices takes rows of tensors: leave axis and batch_dims out"
            )
        return indices.with_flat_values(function(params, indices.flat_values))
    at = static_axis(batch if axis is None else axis, params.shape.ndims, "gather")
    if batch:
        if (batch, at) != (1, 1):
            raise errors.unimplemented(
                f"gather of ragged tensors has batch_dims=1 and axis=1, not {batch} and {at}; take values apart"
            )
        return _in_step(params, indices)
    if at == 0:
        if not isinstance(indices, RaggedTensor):
            return ragged_gather(params, indices)
        return indices.with_values(gather(function, {"params": params, "indices": indices.values}))
    if isinstance(indices, RaggedTensor) or indices.shape.ndims not in (0, 1):
        raise errors.unimplemented(
            "gather along other dimensions than the first takes a vector of indices or one; use batch_dims=1 for others"
        )
    return _along(function, params, indices, at)


def _along(function: Function, params: Any, indices: Tensor, axis: int) -> Any:
    if isinstance(params, Tensor):
        return function(params, indices, axis=axis)
    if axis > 1:
        return params.with_values(_along(function, params.values, indices, axis - 1))
    starts = params.row_starts()
    if indices.shape.ndims:
        starts = expand_dims(starts, 1)
    places = starts + cast(indices, starts.dtype)
    if isinstance(params.values, Tensor):
        return function(params.values, places)
    return ragged_gather(params.values, places)


def batch_gather(function: Function, arguments: Arguments) -> Any:
    """`tf.batch_gather`: of each row the elements at its own indices."""
    params, indices = (_ragged_or_tensor(arguments[key]) for key in ("params", "indices"))
    return _in_step(params, indices)


def _in_step(params: Any, indices: Any) -> Any:
    if not isinstance(params, RaggedTensor):
        params = RaggedTensor.from_tensor(params)
    if not isinstance(indices, RaggedTensor):
        if indices.shape.ndims != 2:
            raise errors.unimplemented(
                f"batch_gather of ragged tensors takes a row of indices for each row, not {indices.shape}"
            )
        indices = RaggedTensor.from_tensor(indices)
    if indices.ragged_rank > 1:
        raise errors.unimplemented(
            "batch_gather of ragged tensors takes indices of one ragged dimension; take values apart"
        )
    starts = gathering.gather(params.row_starts(), indices.value_rowids())
    places = starts + cast(indices.values, starts.dtype)
    if isinstance(params.values, RaggedTensor):
        return indices.with_values(ragged_gather(params.values, places))
    return indices.with_values(gathering.gather(params.values, places))


def gather_nd(function: Function, arguments: Arguments) -> Any:
    """`tf.gather_nd` of ragged tensors: coordinates of rows, of rows within, of values."""
    if arguments.get("batch_dims"):
        raise errors.unimplemented("gather_nd of ragged tensors has no batch_dims: take rows apart")
    params, indices = (_ragged_or_tensor(arguments[key]) for key in ("params", "indices"))
    if isinstance(indices, RaggedTensor):
        raise errors.unimplemented(
            "the indices of gather_nd are dense: make them so by to_tensor()"
        )
    depth = indices.shape[-1].value if indices.shape.ndims else None
    if not depth:
        raise ValueError(
            f"gather_nd: the last dimension of indices must be known and above 0: {indices.shape}"
        )
    if depth == 1:  # a vector of one coordinate is of one row
        return ragged_gather(params, indices[..., 0] if indices.shape.ndims != 1 else indices)
    return _at(function, params, indices, depth)


def _at(function: Function, params: Any, indices: Tensor, depth: int) -> Any:
    if isinstance(params, Tensor):
        return function(params, indices)
    first = indices[..., 0]
    if depth == 1:
        return ragged_gather(params, first)
    starts = params.row_starts()
    column = cast(indices[..., 1:2], starts.dtype)
    places = expand_dims(gathering.gather(starts, first), -1) + column
    rest = concat([places, cast(indices[..., 2:], starts.dtype)], -1)
    return _at(function, params.values, rest, depth - 1)


def where(function: Function, arguments: Arguments) -> Any:
    """`tf.where`: places of a ragged condition, or a choice between ragged tensors, by elements or by rows."""
    condition, x, y = (arguments.get(key) for key in ("condition", "x", "y"))
    if x is None and y is None:
        return _places(function, as_ragged(condition))
    if x is None or y is None:
        raise ValueError(
            "x and y must both be non-None or both be None: where takes both, or neither"
        )
    if all(isinstance(each, Ragged) for each in (condition, x, y)):
        return map_flat_values(function, *map(as_ragged, (condition, x, y)))
    if isinstance(condition, Ragged) or not all(isinstance(each, Ragged) for each in (x, y)):
        raise errors.unimplemented(
            "where takes three ragged tensors with the same rows, or a vector and two, or one; make the others dense "
            "by to_tensor()"
        )
    return _chosen(convert(condition), as_ragged(x), as_ragged(y))


def where_v2(function: Function, arguments: Arguments) -> Any:
    """`tf.where_v2`: places of a ragged condition, or a choice by elements, all three broadcast."""
    condition, x, y = (arguments.get(key) for key in ("condition", "x", "y"))
    if x is None and y is None:
        return _places(function, as_ragged(condition))
    if x is None or y is None:
        raise ValueError("x and y must both be given, or neither")
    like: Any = next((each for each in (x, y) if isinstance(each, (Ragged, Tensor))), None)
    kinds = (dtypes.bool, *[None if like is None else like.dtype] * 2)
    condition, x, y = (
        as_ragged(each) if isinstance(each, Ragged) else convert(each, kind)
        for each, kind in zip((condition, x, y), kinds, strict=True)
    )
    condition, x = _broadcast(condition, x)
    condition, y = _broadcast(condition, y)
    x, y = _broadcast(x, y)
    parts = (condition, x, y)
    rows: Any = next(each for each in parts if isinstance(each, Ragged))
    flat = [each.flat_values if isinstance(each, Ragged) else each for each in parts]
    return rows.with_flat_values(function(*flat))


def _broadcast(x: Any, y: Any) -> tuple[Any, Any]:
    """Both as they broadcast to each other, if one is ragged; what broadcasts by itself is left as it is."""
    if not (isinstance(x, Ragged) or isinstance(y, Ragged)):
        return x, y
    first, second, partitions = aligned(x, y)
    if partitions is None:
        return x, y
    flat: list[Any] = [first, second]
    for splits, length in reversed(partitions):
        flat = [RaggedTensor(each, splits, length) for each in flat]
    return flat[0], flat[1]


def _chosen(condition: Tensor, x: Any, y: Any) -> Any:
    """Rows of x where it is true, of y elsewhere."""
    if condition.shape.ndims != 1:
        raise errors.unimplemented(
            f"where chooses rows of ragged tensors by a vector, not by {condition.shape}"
        )
    both: Any = concat([x, y], 0)
    numbers = range_of(x.nrows())
    return ragged_gather(both, gathering.where(condition, numbers, numbers + x.nrows()))


def _places(function: Function, condition: Any) -> Tensor:
    if isinstance(condition, Tensor):
        places: Tensor = cast(function(condition), dtypes.int64)
        return places
    within = _places(function, condition.values)
    rows = gathering.gather(condition.value_rowids(), within[:, 0])
    columns = within[:, 0] - cast(gathering.gather(condition.row_starts(), rows), dtypes.int64)
    first = stack([cast(rows, dtypes.int64), columns], 1)
    found: Tensor = concat([first, within[:, 1:]], 1)
    return found


def embedding_lookup(function: Function, arguments: Arguments) -> Any:
    """`tf.nn.embedding_lookup` of ragged ids."""
    ids = as_ragged(arguments["ids"])
    rest = {key: each for key, each in arguments.items() if key != "ids"}
    return ids.with_flat_values(function(ids=ids.flat_values, **rest))


def boolean_mask(function: Function, arguments: Arguments) -> Any:
    """`tf.boolean_mask` of ragged tensors, or by a ragged mask."""
    if arguments.get("axis") not in (None, 0):
        raise errors.unimplemented("boolean_mask of ragged tensors begins with the first dimension")
    return ragged_boolean_mask(arguments["tensor"], arguments["mask"], arguments.get("name"))


def ragged_boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """What of data is where mask is true, in rows as they were.

    data, mask: ragged tensors or tensors; the dimensions of mask are the first of data.
    Raises ValueError for a mask of unknown rank, or a scalar.
    """
    with name_scope(name, "RaggedMask", [data, mask]):
        data, mask = (_ragged_or_tensor(each) for each in (data, mask))
        rank = mask.shape.ndims
        if not rank:
            raise ValueError(
                f"mask cannot be scalar, and its rank must be known statically: it has shape {mask.shape}"
            )
        return _masked(data, mask, rank)


def _masked(data: Any, mask: Any, rank: int) -> Any:
    if rank == 1:
        if isinstance(data, RaggedTensor):
            return ragged_gather(data, reshape(gathering.where(mask), [-1]))
        return gathering.boolean_mask(data, mask)
    if not isinstance(mask, RaggedTensor):
        mask = RaggedTensor.from_tensor(mask, ragged_rank=rank - 1)
    if not isinstance(data, RaggedTensor):
        data = RaggedTensor.from_tensor(data, ragged_rank=rank - 1)
    if rank > 2:
        return data.with_values(_masked(data.values, mask.values, rank - 1))
    kept = cumsum(cast(mask.values, mask.row_splits.dtype))
    splits = gathering.gather(concat([zeros([1], kept.dtype), kept], 0), mask.row_splits)
    return RaggedTensor.from_row_splits(
        _masked(data.values, mask.values, 1), splits, validate=False
    )
