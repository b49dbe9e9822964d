"""Crosses of features: every combination of one element of each tensor, row by row, as text or as numbers.

Called by: users.  Threads: any.
Source: behaviour of TF 1.15 (core/kernels/sparse_cross_op.cc); GraphDefs as 2.21
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.limits import Growth
from headrace.base.shapes import Shape, text
from headrace.base.traits import SIZED_BY_VALUES
from headrace.graph.convert import convert
from headrace.graph.registry import op
from headrace.graph.shape_fns import ShapeContext
from headrace.graph.sparse import SparseTensor, SparseTensorValue
from headrace.graph.tensor import Tensor
from headrace.ops._kernels.fingerprints import farm, joined
from headrace.ops._kernels.sparse_keys import is_counting
from headrace.ops.array.constants import constant
from headrace.ops.math.casting import cast
from headrace.ops.sparse.cutting import checked_indices
from headrace.ops.sparse.maps import checked_sparse
from headrace.ops.string.strings import scalar_string

__all__ = ["sparse_cross", "sparse_cross_hashed"]

Array = np.ndarray[Any, Any]
Column = tuple[Array, Array | None]
"""Elements by rows, and how many each row has; None: one."""

_HASH_KEY = 0xDECAFCAFFE
_INPUTS = "indices: N * int64; values: sparse_types; shapes: N * int64; dense_inputs: dense_types"
_TYPES = "sparse_types: list({int64, string}) >= 0; dense_types: list({int64, string}) >= 0"


def _shapes(c: ShapeContext) -> list[Shape]:
    return [(None, 2), (None,), (2,)]


def _columns(parts: tuple[Any, ...], count: int) -> tuple[list[Column], int]:
    """The elements of every input, sparse ones first, and the number of rows.

    Raises InvalidArgument if their rows are not as many.
    """
    indices, values, shapes = (parts[at * count : (at + 1) * count] for at in range(3))
    dense = parts[3 * count :]
    if not parts:
        raise errors.invalid_argument("a cross needs a tensor at least, and was given none")
    sizes = []
    for at in range(count):
        checked_sparse(indices[at], values[at], shapes[at])
        if len(shapes[at]) != 2:
            raise errors.invalid_argument(
                f"shape of input {at} has {len(shapes[at])} elements, and must have 2: crosses are of matrices"
            )
        sizes.append(int(shapes[at][0]))
    for each in dense:
        if each.ndim != 2:
            raise errors.invalid_argument(
                f"Dense inputs should be a matrix but received shape {text(each.shape)}"
            )
        sizes.append(len(each))
    if min(sizes) != max(sizes):
        raise errors.invalid_argument(f"Expected batch sizes to be equal, but they are {sizes}")
    rows = sizes[0]
    found: list[Column] = []
    for at in range(count):
        checked_indices(indices[at], shapes[at])
        here = indices[at][:, 0]
        if is_counting(here, rows):
            found.append((values[at], None))
            continue
        order = np.argsort(here, kind="stable")
        found.append((values[at][order], np.bincount(here, minlength=rows)))
    for each in dense:
        width = each.shape[1]
        found.append((each.reshape(-1), None if width == 1 else np.full(rows, width)))
    return found, rows


def _crossed(columns: list[Column], count: int) -> tuple[Array, Array, list[Any]]:
    """Indices [m, 2] and shape [2] of the crosses, and of each column which element goes into each.

    count: of rows.
    """
    if count and all(counts is None for _, counts in columns):
        indices = np.zeros((count, 2), np.int64)
        indices[:, 0] = np.arange(count)
        return indices, np.array([count, 1], np.int64), [slice(None)] * len(columns)
    ones = np.ones(count, np.int64)
    numbers = np.array([ones if counts is None else counts for _, counts in columns])
    wanted = np.prod(numbers.astype(np.float64), axis=0).sum()
    Growth("the crosses that are made here").add(int(wanted) * 16 * (len(columns) + 1))
    totals = np.prod(numbers, axis=0)
    rows = np.repeat(np.arange(len(totals)), totals)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(totals) - totals, totals)
    indices = np.stack([rows, place], axis=1).astype(np.int64)
    shape = np.array([len(totals), totals.max(initial=0)], np.int64)
    chosen: list[Any] = []
    for counts in numbers[::-1]:
        starts = np.cumsum(counts) - counts
        place, here = np.divmod(place, counts[rows])
        chosen.append(starts[rows] + here)
    return indices, shape, chosen[::-1]


def _texts(columns: list[Column], count: int, separator: bytes) -> tuple[Array, Array, Array]:
    indices, shape, chosen = _crossed(columns, count)
    parts = []
    for (values, _), at in zip(columns, chosen, strict=True):
        listed = values[at].tolist()
        parts.append(listed if values.dtype.kind == "O" else [b"%d" % each for each in listed])
    out = np.empty(len(indices), object)
    out[:] = [separator.join(each) for each in zip(*parts, strict=True)]
    return indices, out, shape


def _numbers(
    columns: list[Column], count: int, key: int, buckets: int
) -> tuple[Array, Array, Array]:
    indices, shape, chosen = _crossed(columns, count)
    found: Any = np.uint64(key & (1 << 64) - 1)
    for (values, _), at in zip(columns, chosen, strict=True):
        prints = farm(values.tolist()) if values.dtype.kind == "O" else values.astype(np.uint64)
        found = joined(found, prints[at])
    most = buckets or (1 << 63) - 1
    return indices, (found % np.uint64(most)).view(np.int64), shape


@op(
    "SparseCross",
    inputs=_INPUTS,
    outputs="output_indices: int64; output_values: out_type; output_shape: int64",
    attrs="N: int >= 0; hashed_output: bool; num_buckets: int >= 0; hash_key: int; "
    f"{_TYPES}; out_type: {{int64, string}}; internal_type: {{int64, string}}",
    shape=_shapes,
    traits={SIZED_BY_VALUES},
    differentiable=False,
)
def sparse_cross_op(
    xp: Any,
    *parts: Any,
    N: int,
    hashed_output: bool,
    num_buckets: int,
    hash_key: int,
) -> tuple[Array, Array, Array]:
    """Every combination of one element of each input, row by row: text joined by "_X_", or numbers.

    num_buckets: numbers are below it, if it is not 0.  Raises InvalidArgument, ResourceExhausted (`base.limits`).
    """
    columns, count = _columns(parts, N)
    if hashed_output:
        return _numbers(columns, count, hash_key, num_buckets)
    return _texts(columns, count, b"_X_")


@op(
    "SparseCrossV2",
    inputs=f"{_INPUTS}; sep: string",
    outputs="output_indices: int64; output_values: string; output_shape: int64",
    attrs=f"N: int >= 0; {_TYPES}",
    shape=_shapes,
    differentiable=False,
)
def sparse_cross_v2_op(xp: Any, *parts: Any, N: int) -> tuple[Array, Array, Array]:
    """Every combination of one element of each input, row by row, joined by `sep`.

    Raises InvalidArgument, ResourceExhausted (`base.limits`).
    """
    return _texts(*_columns(parts[:-1], N), scalar_string(parts[-1], "sep"))


def _prepared(inputs: Any) -> tuple[list[SparseTensor], list[Tensor], bool]:
    """The sparse and the dense inputs, integers as int64, and whether all are strings."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Inputs must be a list of tensors, and not {inputs!r:.80}")
    given = [
        SparseTensor.from_value(each) if isinstance(each, SparseTensorValue) else each
        for each in inputs
    ]
    if not all(isinstance(each, (SparseTensor, Tensor)) for each in given):
        raise TypeError(f"All inputs must be Tensor or SparseTensor, and not {given!r:.80}")
    sparse = [each for each in given if isinstance(each, SparseTensor)]
    dense = [convert(each) for each in given if not isinstance(each, SparseTensor)]
    kinds = [each.dtype for each in sparse] + [each.dtype for each in dense]
    strings = all(kind.base_dtype is dtypes.string for kind in kinds)
    return sparse, dense, strings


def _as_int64(values: list[Tensor]) -> list[Tensor]:
    return [
        each if each.dtype.base_dtype is dtypes.string else cast(each, dtypes.int64)
        for each in values
    ]


def sparse_cross(
    inputs: Any, name: str | None = None, separator: str | None = None
) -> SparseTensor:
    """A SparseTensor of strings: every combination of one element of each input, row by row.

    inputs: matrices, sparse or dense, of integers or strings.  separator: "_X_" if not given.  Raises TypeError.
    """
    sparse, dense, _ = _prepared(inputs)
    mark = constant("_X_" if separator is None else separator, dtypes.string)
    indices, values, shape = sparse_cross_v2_op(
        [each.indices for each in sparse],
        _as_int64([each.values for each in sparse]),
        [each.dense_shape for each in sparse],
        _as_int64(dense),
        mark,
        name=name,
    )
    return SparseTensor(indices, values, shape)


def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """A SparseTensor of int64: every combination of one element of each input, row by row, as a number.

    num_buckets: numbers are below it, if it is not 0; hash_key: what the numbers begin with.  Raises TypeError.
    """
    sparse, dense, strings = _prepared(inputs)
    indices, values, shape = sparse_cross_op(
        [each.indices for each in sparse],
        _as_int64([each.values for each in sparse]),
        [each.dense_shape for each in sparse],
        _as_int64(dense),
        hashed_output=True,
        num_buckets=num_buckets,
        hash_key=hash_key or _HASH_KEY,
        out_type=dtypes.int64,
        internal_type=dtypes.string if strings else dtypes.int64,
        name=name,
    )
    return SparseTensor(indices, values, shape)
