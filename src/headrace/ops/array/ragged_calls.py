"""Functions of ragged tensors: constants, placeholders, ranges, rows gathered.

Called by: users.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.shapes import TensorShape
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.ragged import RaggedTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import constant
from headrace.ops.array.placeholders import placeholder as dense_placeholder
from headrace.ops.array.ragged import RaggedTensor
from headrace.ops.array.ragged_broadcasting import same_rows
from headrace.ops.array.ragged_ops import ragged_gather_op, ragged_range_op

__all__ = [
    "map_flat_values",
    "ragged_constant",
    "ragged_constant_value",
    "ragged_gather",
    "ragged_placeholder",
    "ragged_range",
]


def _split(pylist: Any, ragged_rank: int) -> tuple[list[Any], list[list[int]]]:
    """What is below the outermost `ragged_rank` lists, and the row_splits, from the outermost on."""
    splits: list[list[int]] = []
    values = list(pylist)
    for _ in range(ragged_rank):
        ends = [0]
        for row in values:
            ends.append(ends[-1] + len(row))
        splits.append(ends)
        values = [each for row in values for each in row]
    return values, splits


def _depths(value: Any) -> tuple[int, set[int]]:
    """How deep lists are nested, and in how many lists scalars are."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0, {0}
    found = [_depths(each) for each in value]
    return (
        1 + max((deepest for deepest, _ in found), default=0),
        {1 + depth for _, depths in found for depth in depths},
    )


def _checked_rank(pylist: Any, ragged_rank: int | None, inner: tuple[int, ...] | None) -> int:
    """The ragged rank of what is made of `pylist`.  Raises ValueError."""
    deepest, depths = _depths(pylist)
    if len(depths) > 1:
        raise ValueError(
            f"all scalar values must have the same nesting depth, and those of {pylist!r} are in "
            f"{' or '.join(map(str, sorted(depths)))} lists"
        )
    of_scalars = next(iter(depths), None)
    if of_scalars is not None and deepest > of_scalars:
        raise ValueError(
            f"Invalid pylist={pylist!r}: empty list nesting is greater than scalar value nesting"
        )
    if ragged_rank is None:
        return max(deepest - 1 - len(inner or ()), 0)
    if ragged_rank < 0:
        raise ValueError(f"Invalid ragged_rank={ragged_rank}: must be nonnegative")
    if deepest == 0 and ragged_rank:
        raise ValueError(
            f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}, which takes nested lists"
        )
    if inner is not None:
        wanted = ragged_rank + len(inner) + 1
        if wanted < deepest or (of_scalars is not None and wanted != of_scalars):
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank} and dim(inner_shape)="
                f"{len(inner)}, which take lists of depth {wanted}"
            )
    elif of_scalars is not None and 0 < ragged_rank >= of_scalars:
        raise ValueError(
            f"pylist has scalar values depth {of_scalars}, but ragged_rank={ragged_rank} requires scalar value depth "
            f"greater than {ragged_rank}"
        )
    return ragged_rank


def _flat_values(flat: list[Any], dtype: Any, wanted: tuple[int, ...] | None) -> Any:
    """wanted: their shape; None: as it is."""
    texts = any(isinstance(each, (str, bytes)) for each in flat) or (dtype in (object, np.bytes_))
    if texts:
        values: Any = np.empty(len(flat), object)
        values[:] = [each.encode() if isinstance(each, str) else each for each in flat]
        return values
    try:
        values = np.array(flat, dtype)
    except ValueError as error:
        raise ValueError(f"inner values have inconsistent shape: {error}") from None
    if wanted is None or values.shape == wanted:
        return values
    if not flat and 0 in wanted:
        return values.reshape(wanted)
    raise TypeError(
        f"Expected Tensor's shape: {wanted}, but got {values.shape}: inner_shape is that of what is below the ragged "
        "dimensions"
    )


def ragged_constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: str = "int64",
) -> Any:
    """Nested lists as a RaggedTensorValue: what a ragged tensor is fed.  dtype: NumPy's.

    Raises ValueError for lists that are nested in another way, TypeError for other inner values.
    """
    inner = None if inner_shape is None else tuple(inner_shape)
    many = _checked_rank(pylist, ragged_rank, inner)
    if not isinstance(pylist, (list, tuple, np.ndarray)):
        return np.array(pylist, dtype)
    flat, splits = _split(pylist, many)
    kinds = [np.array(each, row_splits_dtype) for each in splits]
    wanted = inner if inner is None or not many else (len(flat), *inner)
    return RaggedTensorValue.from_nested(_flat_values(flat, dtype, wanted), kinds)


def ragged_constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """Nested lists as a RaggedTensor of constants; a Tensor for a flat list."""
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    numpy = None if kind is None else kind.np
    splits = dtypes.as_dtype(row_splits_dtype).name
    value = ragged_constant_value(pylist, numpy, ragged_rank, inner_shape, splits)
    with name_scope(name, "RaggedConstant"):
        if not isinstance(value, RaggedTensorValue):
            return constant(pylist, kind, inner_shape, name="values")
        flat = value.flat_values
        if kind is None and flat.dtype == np.float64:
            kind = dtypes.float32
        if kind is None and flat.dtype == np.int64 and (flat == flat.astype(np.int32)).all():
            kind = dtypes.int32
        made: Any = constant(flat, kind, name="values")
        for each in reversed(value.nested_row_splits):
            made = RaggedTensor(made, constant(each))
        return made


def ragged_placeholder(
    dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None
) -> Any:
    """A RaggedTensor that each run must be fed.  value_shape: of one innermost value."""
    if ragged_rank == 0:
        return dense_placeholder(dtype, value_shape, name)
    with name_scope(name, "RaggedPlaceholder"):
        inner = TensorShape(
            None if value_shape is None else [None, *TensorShape(value_shape).as_list()]
        )
        found: Any = dense_placeholder(dtype, inner, "flat_values")
        for at in reversed(range(ragged_rank)):
            splits = dense_placeholder(dtypes.int64, [None], f"row_splits_{at}")
            found = RaggedTensor(found, splits)
        return found


def ragged_range(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> RaggedTensor:
    """A row of numbers for each start, limit and step; from 0 on if there are no limits."""
    if limits is None:
        starts, limits = 0, starts
    with name_scope(name, "RaggedRange", [starts, limits, deltas]) as scope:
        last = convert(limits, dtype, name="limits")
        first = convert(starts, last.dtype, name="starts")
        step = convert(deltas, last.dtype, name="deltas")
        splits, values = ragged_range_op(first, last, step, Tsplits=row_splits_dtype, name=scope)
        return RaggedTensor(values, splits)


def ragged_gather(params: RaggedTensor, indices: Any, name: str | None = None) -> Any:
    """The rows of a ragged tensor at `indices`, whose rank must be known."""
    with name_scope(name, "RaggedGather", [indices]):
        at: Tensor = convert(indices)
        if at.shape.ndims is None:
            raise ValueError("the rank of the indices must be known statically")
        nested = list(params.nested_row_splits)
        rank = len(nested) + at.shape.ndims - 1
        splits, values = ragged_gather_op(nested, params.flat_values, at, OUTPUT_RAGGED_RANK=rank)
        return RaggedTensor.from_nested_row_splits(values, splits, validate=False)


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`op` of the innermost values of all ragged arguments, in the rows of the first one.

    Raises ValueError if two have different ragged ranks, InvalidArgument if they have different rows.
    """
    given = [each for each in (*args, *kwargs.values()) if isinstance(each, RaggedTensor)]
    if not given:
        return op(*args, **kwargs)
    first = given[0]
    flat = [same_rows(first, each) if isinstance(each, RaggedTensor) else each for each in args]
    named = {
        key: same_rows(first, each) if isinstance(each, RaggedTensor) else each
        for key, each in kwargs.items()
    }
    return first.with_flat_values(op(*flat, **named))
