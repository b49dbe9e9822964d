"""Sets: the last dimension of a tensor, dense or sparse, holds the elements of one.

Called by: users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/set_kernels.cc); GraphDefs as 2.21
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base import shapes as shape_rules
from headrace.base.shapes import Shape, text
from headrace.base.traits import OF_COUNTS, SIZED_BY_VALUES
from headrace.graph.convert import convert
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.sparse import (
    SparseTensor,
    SparseTensorValue,
    convert_to_tensor_or_sparse_tensor,
)
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.sparse_keys import places_in_runs, row_keys, runs
from headrace.ops.sparse.cutting import checked_indices
from headrace.ops.sparse.maps import checked_sparse

__all__ = ["set_difference", "set_intersection", "set_size", "set_union"]

Array = np.ndarray[Any, Any]
Elements = tuple[Array, Array]
"""Elements and, of each, the number of its set."""

_T = "T: {int8, int16, int32, int64, uint8, uint16, string}"
_ATTRS = f"set_operation: string; validate_indices: bool = true; {_T}"
_OUTPUTS = "result_indices: int64; result_values: T; result_shape: int64"
_KINDS: dict[bytes, Callable[[Array, Array], Array]] = {
    b"union": np.union1d,
    b"intersection": np.intersect1d,
    b"a-b": np.setdiff1d,
    b"b-a": lambda one, other: np.setdiff1d(other, one),
}


# -- what is in sets --------------------------------------------------------------------------


def _of_dense(values: Array) -> tuple[Elements, list[int]]:
    if values.ndim < 2:
        raise errors.invalid_argument(
            f"Invalid input rank {values.ndim}, below 2: the last dimension holds the elements of a set"
        )
    groups = list(values.shape[:-1])
    numbers = np.repeat(np.arange(prod(groups)), values.shape[-1])
    return (values.reshape(-1), numbers), groups


def _of_sparse(
    indices: Array, values: Array, shape: Array, validate: bool
) -> tuple[Elements, list[int]]:
    checked_sparse(indices, values, shape)
    if len(shape) < 2:
        raise errors.invalid_argument(
            f"Invalid input rank {len(shape)}, below 2: the last dimension holds the elements of a set"
        )
    groups: list[int] = shape[:-1].tolist()
    if min(groups) < 0 or prod(groups) >= 1 << 62:
        raise errors.invalid_argument(f"the shape {shape.tolist()} is negative, or too large")
    checked_indices(indices, shape)
    if validate:
        keys = row_keys(indices)
        wrong = np.flatnonzero(keys[1:] <= keys[:-1])
        if len(wrong):
            at = int(wrong[0]) + 1
            what = "repeated" if keys[at] == keys[at - 1] else "out of order"
            raise errors.invalid_argument(
                f"indices[{at}] = {text(tuple(indices[at]))} is {what}. Sets are of sorted sparse tensors: "
                "tf.sparse.reorder sorts"
            )
    numbers = np.zeros(len(indices), np.int64)
    for column, size in enumerate(groups):
        numbers = numbers * size + indices[:, column]
    return (values, numbers), groups


def _combined(one: Elements, other: Elements, groups: list[int], operation: bytes) -> Any:
    """The sparse tensor of the results, each sorted."""
    kind = _KINDS.get(operation.lower())
    if kind is None:
        raise errors.invalid_argument(
            f"Invalid set_operation {operation.decode(errors='replace')!r}; it may be union, intersection, a-b, b-a"
        )
    distinct, codes = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    codes = codes.reshape(-1)
    width = max(len(distinct), 1)
    if prod(groups) * width >= 1 << 62:
        raise errors.invalid_argument(f"sets of the shape {groups} are too many")
    cut = len(one[0])
    keys = kind(one[1] * width + codes[:cut], other[1] * width + codes[cut:])
    numbers, which = np.divmod(keys, width)
    starts = runs(numbers)
    places = places_in_runs(starts, len(keys))
    indices = np.empty((len(keys), len(groups) + 1), np.int64)
    indices[:, -1] = places
    for at in range(len(groups) - 1, -1, -1):
        numbers, indices[:, at] = np.divmod(numbers, max(groups[at], 1))
    shape = np.array([*groups, places.max(initial=-1) + 1], np.int64)
    return indices, distinct[which], shape


def _same_groups(one: list[int], other: list[int]) -> list[int]:
    if len(one) != len(other):
        raise errors.invalid_argument(
            f"Ranks do not match: sets of shape {one} and of shape {other}"
        )
    if one != other:
        raise errors.invalid_argument(f"Shapes do not match: sets of shape {one} and {other}")
    return one


# -- operations -------------------------------------------------------------------------------


def _results(rank: int | None) -> list[Shape]:
    return [(None, rank), (None,), (rank,)]


def _dense_shapes(c: ShapeContext) -> list[Shape]:
    one, other = c.shape("set1"), c.shape("set2")
    if one is not None and len(one) < 2:
        raise ValueError(f"Input 0 expected rank >= 2, got {len(one)}: set1 {text(one)}")
    if other is None:
        return _results(None if one is None else len(one))
    if one is None:
        return _results(len(other))
    if len(other) != len(one):
        raise ValueError(
            f"Shape must be rank {len(one)} but is rank {len(other)}: set2 has shape {text(other)}"
        )
    shape_rules.merge(one[:-1], other[:-1])
    return _results(len(one))


@op(
    "DenseToDenseSetOperation",
    inputs="set1: T; set2: T",
    outputs=_OUTPUTS,
    attrs=_ATTRS,
    shape=_dense_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def dense_to_dense_op(xp: Any, set1: Array, set2: Array, *, set_operation: bytes) -> Any:
    """The operation on each pair of sets, as a sparse tensor of sorted sets; `union`, `intersection`, `a-b`, `b-a`.

    Raises InvalidArgument for sets that do not fit.
    """
    one, groups = _of_dense(set1)
    other, more = _of_dense(set2)
    return _combined(one, other, _same_groups(groups, more), set_operation)


def _rank_of(c: ShapeContext, side: str) -> int | None:
    indices, shape = c.with_rank(f"{side}_indices", 2), c.with_rank(f"{side}_shape", 1)
    c.with_rank(f"{side}_values", 1)
    assert indices is not None
    rank = shape_rules.merge(indices[1:], shape)
    assert rank is not None
    if rank[0] is not None and rank[0] < 2:
        raise ValueError(f"Input {side} expected rank >= 2, got {rank[0]}")
    return rank[0]


def _mixed_shapes(c: ShapeContext) -> list[Shape]:
    one, other = c.shape("set1"), _rank_of(c, "set2")
    if one is not None and len(one) < 2:
        raise ValueError(f"Input 0 expected rank >= 2, got {len(one)}: set1 {text(one)}")
    if one is not None and other is not None and len(one) != other:
        raise ValueError(f"Ranks do not match: {len(one)} and {other}")
    return _results(other if one is None else len(one))


@op(
    "DenseToSparseSetOperation",
    inputs="set1: T; set2_indices: int64; set2_values: T; set2_shape: int64",
    outputs=_OUTPUTS,
    attrs=_ATTRS,
    shape=_mixed_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def dense_to_sparse_op(
    xp: Any,
    set1: Array,
    set2_indices: Array,
    set2_values: Array,
    set2_shape: Array,
    *,
    set_operation: bytes,
    validate_indices: bool,
) -> Any:
    """As DenseToDenseSetOperation, with a sparse second one.  Raises InvalidArgument."""
    one, groups = _of_dense(set1)
    other, more = _of_sparse(set2_indices, set2_values, set2_shape, validate_indices)
    return _combined(one, other, _same_groups(groups, more), set_operation)


def _sparse_shapes(c: ShapeContext) -> list[Shape]:
    one, other = _rank_of(c, "set1"), _rank_of(c, "set2")
    if one is not None and other is not None and one != other:
        raise ValueError(f"Ranks do not match: {one} and {other}")
    return _results(other if one is None else one)


@op(
    "SparseToSparseSetOperation",
    inputs="set1_indices: int64; set1_values: T; set1_shape: int64; "
    "set2_indices: int64; set2_values: T; set2_shape: int64",
    outputs=_OUTPUTS,
    attrs=_ATTRS,
    shape=_sparse_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def sparse_to_sparse_op(
    xp: Any,
    set1_indices: Array,
    set1_values: Array,
    set1_shape: Array,
    set2_indices: Array,
    set2_values: Array,
    set2_shape: Array,
    *,
    set_operation: bytes,
    validate_indices: bool,
) -> Any:
    """As DenseToDenseSetOperation, of two sparse ones.  Raises InvalidArgument."""
    one, groups = _of_sparse(set1_indices, set1_values, set1_shape, validate_indices)
    other, more = _of_sparse(set2_indices, set2_values, set2_shape, validate_indices)
    return _combined(one, other, _same_groups(groups, more), set_operation)


@op(
    "SetSize",
    inputs="set_indices: int64; set_values: T; set_shape: int64",
    outputs="size: int32",
    attrs=f"validate_indices: bool = true; {_T}",
    shape=lambda c: None,
    traits={OF_COUNTS},
    differentiable=False,
)
def set_size_op(
    xp: Any, set_indices: Array, set_values: Array, set_shape: Array, *, validate_indices: bool
) -> Any:
    """How many elements each set has, those that are equal counted once.  Raises InvalidArgument."""
    (values, numbers), groups = _of_sparse(set_indices, set_values, set_shape, validate_indices)
    codes = np.unique(values, return_inverse=True)[1].reshape(-1)
    pairs = np.unique(np.stack([numbers, codes], axis=1), axis=0)
    out = np.zeros(groups, np.int32)
    np.add.at(out.reshape(-1), pairs[:, 0], 1)
    return out


# -- functions --------------------------------------------------------------------------------

_ALLOWED = frozenset(
    {
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
        dtypes.int64,
        dtypes.uint8,
        dtypes.uint16,
        dtypes.string,
    }
)


def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """How many elements each set of a SparseTensor has; its last dimension holds them.  Raises TypeError."""
    if isinstance(a, SparseTensorValue):
        a = SparseTensor.from_value(a)
    if not isinstance(a, SparseTensor):
        raise TypeError(f"Expected `SparseTensor`, got {a!r:.80}")
    if a.values.dtype.base_dtype not in _ALLOWED:
        raise TypeError(f"Invalid dtype {a.values.dtype!r}: sets are of integers or strings")
    made: Tensor = set_size_op(
        a.indices, a.values, a.dense_shape, validate_indices=validate_indices
    )
    return made


def _operation(a: Any, b: Any, kind: str, validate: bool) -> SparseTensor:
    a, b = (convert_to_tensor_or_sparse_tensor(each, name=n) for each, n in ((a, "a"), (b, "b")))
    for what, each in (("a", a), ("b", b)):
        if each.dtype.base_dtype not in _ALLOWED:
            raise TypeError(
                f"'{what}' has invalid dtype {each.dtype!r}: sets are of integers or strings"
            )
    if a.dtype.base_dtype != b.dtype.base_dtype:
        raise TypeError(f"Types don't match, {a.dtype!r} vs {b.dtype!r}.")
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        a, b = b, a
        kind = {"a-b": "b-a", "b-a": "a-b"}.get(kind, kind)
    given: dict[str, Any] = {"set_operation": kind, "validate_indices": validate}
    if not isinstance(b, SparseTensor):
        return SparseTensor(*dense_to_dense_op(convert(a), b, **given))
    parts = (b.indices, b.values, b.dense_shape)
    if isinstance(a, SparseTensor):
        own = (a.indices, a.values, a.dense_shape)
        return SparseTensor(*sparse_to_sparse_op(*own, *parts, **given))
    return SparseTensor(*dense_to_sparse_op(a, *parts, **given))


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """What is in both of each pair of sets, sorted; tensors or SparseTensors whose last dimension holds a set."""
    return _operation(a, b, "intersection", validate_indices)


def set_difference(
    a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True
) -> SparseTensor:
    """What is in `a` and not in `b`, of each pair of sets, sorted; the reverse without aminusb."""
    return _operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """What is in one of each pair of sets, or in both, sorted."""
    return _operation(a, b, "union", validate_indices)
