"""RaggedTensor: rows of different lengths, as values and where each row of them begins.

Called by: ops.string.ragged_strings, users.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/ragged); graphs of their own, since TensorFlow's differ from release to release
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headrace.base import dtypes, errors
from headrace.base.dtypes import DType
from headrace.base.shapes import TensorShape
from headrace.graph.const_value import folded
from headrace.graph.convert import convert
from headrace.graph.graph import Graph, Operation
from headrace.graph.names import name_scope
from headrace.graph.ragged import Ragged, RaggedTensorValue
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.broadcast import sequence_mask
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.array.gathering import boolean_mask
from headrace.ops.array.joining import concat
from headrace.ops.array.ragged_broadcasting import rows_of
from headrace.ops.array.ragged_operators import RaggedOperators
from headrace.ops.array.ragged_ops import (
    ragged_tensor_to_sparse_op,
    ragged_tensor_to_tensor_op,
)
from headrace.ops.array.ragged_slices import indexed
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_equal, assert_less_equal
from headrace.ops.flow.identities import with_dependencies
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import not_equal
from headrace.ops.math.reductions import reduce_any, reduce_max
from headrace.ops.math.scans import cumsum
from headrace.ops.math.segments import unsorted_segment_sum

__all__ = [
    "RaggedTensor",
]

_SPLITS = (dtypes.int32, dtypes.int64)


def _as_splits(value: Any, name: str = "row_splits") -> Tensor:
    """A vector of int32 or int64, of int64 unless it says otherwise.  Raises ValueError."""
    if not isinstance(value, Tensor) and getattr(value, "dtype", None) != np.int32:
        value = convert(value, dtypes.int64, name)
    found: Tensor = convert(value, name=name)
    if found.dtype not in _SPLITS:
        raise ValueError(f"{name} must be of dtype int32 or int64, and is {found.dtype.name}")
    found.shape.assert_has_rank(1)
    return found


def _as_values(values: Any) -> Any:
    if isinstance(values, RaggedTensorValue):
        return RaggedTensor.from_row_splits(values.values, values.row_splits)
    if isinstance(values, Ragged):
        return values
    found: Tensor = convert(values, name="values")
    found.shape.with_rank_at_least(1)
    return found


def _count(values: Any, dtype: DType) -> Tensor:
    """How many rows the values have."""
    if isinstance(values, RaggedTensor):
        rows: Tensor = cast(values.nrows(), dtype)
        return rows
    return shape_of(values, out_type=dtype)[0]


def _checked(splits: Tensor, values: Any, function: str, rising: Tensor | None = None) -> Tensor:
    """The splits, which begin with 0, do not fall and end with the number of values; nor does `rising` fall.

    Raises InvalidArgument, now if they are known.
    """
    said = f"Arguments to {function} do not form a valid RaggedTensor"
    count = _count(values, splits.dtype)
    rising = splits if rising is None else rising
    known = [folded(each) for each in (splits, rising, count)]
    if not any(each is None for each in known):
        ends, ids, whole = (np.asarray(each) for each in known)
        if (
            ends[0]
            or ends[-1] != whole
            or (ends[1:] < ends[:-1]).any()
            or (ids[1:] < ids[:-1]).any()
        ):
            raise errors.invalid_argument(f"{said}: {ends.tolist()[:20]} for {int(whole)} values")
        return splits
    checks = [
        assert_equal(splits[:1], constant([0], splits.dtype), message=said),
        assert_equal(splits[-1:], reshape(count, [1]), message=said),
        assert_less_equal(splits[:-1], splits[1:], message=said),
    ]
    if rising is not splits:
        checks.append(assert_less_equal(rising[:-1], rising[1:], message=said))
    checked: Tensor = with_dependencies(checks, splits)
    return checked


class RaggedTensor(RaggedOperators, Ragged):
    """Rows of different lengths.  Made by the `from_` functions."""

    def __init__(self, values: Any, row_splits: Tensor, uniform_row_length: Any = None) -> None:
        """values: a tensor of rank 1 or more, or a RaggedTensor; row_splits: a vector from 0 to their number.

        uniform_row_length: how long each row is, an int or a tensor [] of row_splits' dtype, if all have one length.
        """
        self._values = values
        self._row_splits = row_splits
        self._uniform = uniform_row_length

    # -- made ----------------------------------------------------------------------------------

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i is values[row_splits[i]:row_splits[i + 1]].  Raises ValueError, TypeError."""
        if isinstance(row_splits, (list, tuple)) and not row_splits:
            raise ValueError("row_splits tensor may not be empty: it begins with 0")
        with name_scope(name, "RaggedFromRowSplits", [row_splits]):
            splits = _as_splits(row_splits)
            if splits.shape.as_list() == [0]:
                raise ValueError("row_splits tensor may not be empty: it begins with 0")
            given = _as_values(values)
            return cls(given, _checked(splits, given, "from_row_splits") if validate else splits)

    @classmethod
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: Any,
        nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Value i is in row value_rowids[i], which do not fall; nrows rows, up to the last one's if it is not given.

        Raises ValueError.
        """
        with name_scope(name, "RaggedFromValueRowIds", [value_rowids]):
            ids = _as_splits(value_rowids, "value_rowids")
            if nrows is None:
                nrows = reduce_max(concat([ids, constant([-1], ids.dtype)], 0)) + 1
            rows = cast(convert(nrows), ids.dtype)
            lengths = unsorted_segment_sum(ones_like(ids), ids, rows)
            known = nrows if isinstance(nrows, int) else None
            splits = concat([constant([0], ids.dtype), cumsum(lengths)], 0)
            if known is not None:
                splits.set_shape([known + 1])
            given = _as_values(values)
            given.shape[:1].assert_is_compatible_with(ids.shape)
            if validate:
                splits = _checked(splits, given, "from_value_rowids", rising=ids)
            return cls(given, splits)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i has the next row_lengths[i] values."""
        with name_scope(name, "RaggedFromRowLengths", [row_lengths]):
            lengths = _as_splits(row_lengths, "row_lengths")
            splits = concat([constant([0], lengths.dtype), cumsum(lengths)], 0)
            given = _as_values(values)
            return cls(given, _checked(splits, given, "from_row_lengths") if validate else splits)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i begins at row_starts[i] and ends where the next one begins."""
        with name_scope(name, "RaggedFromRowStarts", [row_starts]):
            given, starts = _as_values(values), _as_splits(row_starts, "row_starts")
            splits = concat([starts, reshape(_count(given, starts.dtype), [1])], 0)
            return cls(given, _checked(splits, given, "from_row_starts") if validate else splits)

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i ends before row_limits[i] and begins where the one before ends."""
        with name_scope(name, "RaggedFromRowLimits", [row_limits]):
            limits = _as_splits(row_limits, "row_limits")
            given = _as_values(values)
            splits = concat([constant([0], limits.dtype), limits], 0)
            return cls(given, _checked(splits, given, "from_row_limits") if validate else splits)

    @classmethod
    def from_nested_row_splits(
        cls,
        flat_values: Any,
        nested_row_splits: Sequence[Any],
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Of innermost values and the row_splits of every dimension, from the outermost on."""
        if isinstance(nested_row_splits, Tensor):
            raise TypeError(
                f"nested_row_splits must be a list of tensors, not {nested_row_splits!r}"
            )
        with name_scope(name, "RaggedFromNestedRowSplits"):
            found: Any = flat_values
            for splits in reversed(list(nested_row_splits)):
                found = cls.from_row_splits(found, splits, validate=validate)
            return found

    @classmethod
    def from_nested_row_lengths(
        cls,
        flat_values: Any,
        nested_row_lengths: Sequence[Any],
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Of innermost values and the lengths of the rows of every dimension, from the outermost on."""
        with name_scope(name, "RaggedFromNestedRowLengths"):
            found: Any = flat_values
            for lengths in reversed(list(nested_row_lengths)):
                found = cls.from_row_lengths(found, lengths, validate=validate)
            return found

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[Any],
        nested_nrows: Sequence[Any] | None = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Of innermost values and the rows of the values of every dimension, from the outermost on."""
        rows = nested_nrows or [None] * len(nested_value_rowids)
        with name_scope(name, "RaggedFromNestedValueRowIds"):
            found: Any = flat_values
            for ids, count in reversed(list(zip(nested_value_rowids, rows, strict=True))):
                found = cls.from_value_rowids(found, ids, count, validate=validate)
            return found

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> RaggedTensor:
        """The rows of a dense tensor: the first lengths[i] of each, or without the padding at their ends.

        ragged_rank: how many dimensions after the first become ragged.  Raises ValueError.
        """
        if lengths is not None and padding is not None:
            raise ValueError("Specify lengths or padding, but not both")
        kind = dtypes.as_dtype(row_splits_dtype)
        with name_scope(name, "RaggedFromTensor", [tensor]):
            dense: Tensor = convert(tensor, name="tensor")
            if dense.shape.ndims is not None and dense.shape.ndims <= ragged_rank:
                raise ValueError(
                    f"ragged_rank {ragged_rank} must be less than the rank of the tensor, {dense.shape.ndims}"
                )
            if ragged_rank > 1 and lengths is None and padding is None:
                sizes = shape_of(dense)
                inner = cls.from_tensor(
                    reshape(dense, concat([[-1], sizes[2:]], 0)),
                    ragged_rank=ragged_rank - 1,
                    row_splits_dtype=kind,
                )
                return cls(inner, _even_splits(dense, kind), _second_size(dense, kind))
            if ragged_rank > 1:
                raise errors.unimplemented(
                    "lengths and padding are supported with ragged_rank 1; make the rows within by "
                    "RaggedTensor.from_nested_row_lengths"
                )
            if padding is not None:
                lengths = _lengths_without(dense, convert(padding, dense.dtype))
            if lengths is None:
                rest = shape_of(dense)[2:]
                flat = reshape(dense, concat([[-1], rest], 0))
                raw = dense.raw_shape
                if raw is not None:
                    flat.set_shape([None, *raw[2:]])
                return cls(flat, _even_splits(dense, kind), _second_size(dense, kind))
            counts = cast(convert(lengths), kind)
            columns = shape_of(dense, out_type=kind)[1]
            kept = sequence_mask(counts, columns)
            return cls.from_row_lengths(boolean_mask(dense, kept), counts, validate=False)

    @classmethod
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: Any = dtypes.int64
    ) -> RaggedTensor:
        """The rows of a sparse matrix, which have no gaps.  Raises TypeError, ValueError."""
        if not isinstance(st_input, SparseTensor):
            raise TypeError(f"Expected SparseTensor, got {type(st_input).__name__}")
        rank = st_input.dense_shape.shape.with_rank(1)[0].value
        for known in (rank, st_input.indices.shape.with_rank(2)[1].value):
            if known not in (None, 2):
                raise ValueError(f"rank(st_input) must be 2, and is {known}")
        with name_scope(name, "RaggedFromSparse", [st_input.values]):
            ids = cast(st_input.indices[:, 0], row_splits_dtype)
            return cls.from_value_rowids(
                st_input.values,
                ids,
                cast(st_input.dense_shape[0], row_splits_dtype),
                validate=False,
            )

    # -- what it is ------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """Of the values."""
        found: DType = self._values.dtype
        return found

    @property
    def shape(self) -> TensorShape:
        """What is known of it; None for a dimension of rows that may differ in length."""
        rows = (self._row_splits.raw_shape or (None,))[0]
        inner = self._values.shape
        if inner.ndims is None:
            return TensorShape(None)
        length = self._uniform if isinstance(self._uniform, int) else None
        return TensorShape([None if rows is None else rows - 1, length, *inner.as_list()[1:]])

    def get_shape(self) -> TensorShape:
        """Same as `shape`."""
        return self.shape

    @property
    def graph(self) -> Graph:
        """Of the values."""
        found: Graph = self.flat_values.graph
        return found

    @property
    def op(self) -> Operation:
        """The operation that makes the values."""
        found: Operation = self.flat_values.op
        return found

    def value_rowids(self, name: str | None = None) -> Tensor:
        """The row of each value."""
        with name_scope(name, "RaggedValueRowIds", [self._row_splits]):
            return rows_of(self._row_splits, _count(self._values, self._row_splits.dtype))

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """value_rowids of this and of the values within."""
        return tuple(each.value_rowids() for each in self._nested())

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """How many rows there are."""
        kind = self._row_splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        with name_scope(name, "RaggedNRows", [self._row_splits]):
            return shape_of(self._row_splits, out_type=kind)[0] - 1

    def row_starts(self, name: str | None = None) -> Tensor:
        """Where each row begins."""
        with name_scope(name, "RaggedRowStarts", [self._row_splits]):
            found: Tensor = self._row_splits[:-1]
            return found

    def row_limits(self, name: str | None = None) -> Tensor:
        """Before which value each row ends."""
        with name_scope(name, "RaggedRowLimits", [self._row_splits]):
            found: Tensor = self._row_splits[1:]
            return found

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """How many values each row has; axis 2 and above: the rows within, as ragged tensors."""
        if axis == 0:
            return self.nrows()
        with name_scope(name, "RaggedRowLengths", [self._row_splits]):
            if axis == 1:
                return self._row_splits[1:] - self._row_splits[:-1]
            if not isinstance(self._values, RaggedTensor):
                raise ValueError(f"there is no ragged dimension {axis} in {self!r}")
            return self.with_values(self._values.row_lengths(axis - 1))

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """row_lengths of this and of the values within."""
        return tuple(each.row_lengths() for each in self._nested())

    def bounding_shape(
        self, axis: int | None = None, name: str | None = None, out_type: Any = None
    ) -> Tensor:
        """The shape of the dense tensor that holds it."""
        kind = self._row_splits.dtype if out_type is None else dtypes.as_dtype(out_type)
        with name_scope(name, "RaggedBoundingBox", [self._row_splits]):
            sizes = [reshape(cast(self.nrows(), kind), [1])]
            for each in self._nested():
                longest = reduce_max(
                    concat([each.row_lengths(), zeros_like(each._row_splits[:1])], 0)
                )
                sizes.append(reshape(cast(longest, kind), [1]))
            found: Tensor = concat([*sizes, shape_of(self.flat_values, out_type=kind)[1:]], 0)
            return found if axis is None else found[axis]

    def _nested(self) -> Iterable[RaggedTensor]:
        found: Any = self
        while isinstance(found, RaggedTensor):
            yield found
            found = found._values

    def consumers(self) -> list[Operation]:
        """The operations that take the values or the row_splits."""
        parts = [self.flat_values, *self.nested_row_splits]
        return [each for part in parts for each in part.consumers()]

    # -- changed ---------------------------------------------------------------------------------

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Other values in the same rows.  Raises ValueError if they are not as many."""
        return RaggedTensor(_as_values(new_values), self._row_splits, self._uniform)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Other innermost values in the same rows."""
        if isinstance(self._values, RaggedTensor):
            return self.with_values(self._values.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same, with row_splits of int32 or int64 in every dimension.  Raises ValueError for other dtypes."""
        kind = dtypes.as_dtype(dtype)
        if kind not in _SPLITS:
            raise ValueError(
                f"Argument `row_splits` dtype must be int32 or int64, and is {kind.name}"
            )
        values, length = self._values, self._uniform
        if isinstance(values, RaggedTensor):
            values = values.with_row_splits_dtype(kind)
        known = cast(length, kind) if isinstance(length, Tensor) else length
        return RaggedTensor(values, cast(self._row_splits, kind), known)

    def to_tensor(
        self, default_value: Any = None, name: str | None = None, shape: Any = None
    ) -> Tensor:
        """As a dense tensor, default_value (None: zero) where rows are short; what is beyond `shape` is left out."""
        with name_scope(name, "RaggedToTensor", [self.flat_values]):
            flat = self.flat_values
            if default_value is None:
                default_value = "" if flat.dtype is dtypes.string else 0
            default = convert(default_value, flat.dtype, "default_value")
            if shape is None:
                wanted: Any = constant(self._uniform_sizes(), dtypes.int64)
            elif isinstance(shape, Tensor):
                wanted = cast(shape, dtypes.int64)
            else:
                sizes = [-1 if size is None else size for size in TensorShape(shape).as_list()]
                wanted = constant(sizes, dtypes.int64)
            splits = list(self.nested_row_splits)
            made: Tensor = ragged_tensor_to_tensor_op(
                wanted, flat, default, splits, row_partition_types=["ROW_SPLITS"] * len(splits)
            )
            rows = self.shape
            if shape is None and rows.ndims is not None:
                made.set_shape(rows)
            return made

    def _uniform_sizes(self) -> Any:
        """The sizes of a dense tensor, -1 for those that the values tell: of no rows at all they do not."""
        lengths = [each._uniform for each in self._nested()]
        rank = self.shape.ndims
        if rank is None or not any(isinstance(each, int) for each in lengths):
            return -1
        known = [each if isinstance(each, int) else -1 for each in lengths]
        return [-1, *known, *[-1] * (rank - 1 - len(known))]

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """The elements as those of a sparse tensor."""
        with name_scope(name, "RaggedToSparse", [self.flat_values]):
            indices, values, sizes = ragged_tensor_to_sparse_op(
                list(self.nested_row_splits), self.flat_values
            )
            return SparseTensor(indices, values, sizes)

    def __getitem__(self, key: Any) -> Any:
        """Rows by number (what is in one row) or slice, columns by slice.  Raises TypeError, ValueError."""
        with name_scope(None, "RaggedGetItem", [self._row_splits]):
            return indexed(self, key)

    __iter__ = None  # rows have numbers, and nobody knows yet how many there are

    def eval(self, feed_dict: Any = None, session: Any = None) -> RaggedTensorValue:
        """The value, in `session` or the default one."""
        from headrace.graph.scopes import session_of

        name = self.flat_values.name
        found: RaggedTensorValue = session_of(
            session, self.graph, "evaluate tensor", "eval()", name
        ).run(self, feed_dict)
        return found

    def __repr__(self) -> str:
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"


def _even_splits(dense: Tensor, kind: DType) -> Tensor:
    """row_splits of rows that all have dense's second size."""
    sizes = shape_of(dense, out_type=kind)
    splits: Tensor = range_of(sizes[0] + 1) * sizes[1]
    raw = dense.raw_shape
    if raw is not None and raw[0] is not None:
        splits.set_shape([raw[0] + 1])
    return splits


def _second_size(dense: Tensor, kind: DType) -> Any:
    """An int if it is known, else a tensor."""
    raw = dense.raw_shape
    known = None if raw is None else raw[1]
    return shape_of(dense, out_type=kind)[1] if known is None else known


def _lengths_without(dense: Tensor, padding: Tensor) -> Tensor:
    """How many columns of each row there are up to the last that is not padding."""
    kept = not_equal(dense, padding)
    rank = dense.shape.ndims
    if rank is None:
        raise ValueError("the rank of a tensor with padding must be known")
    if rank > 2:
        kept = reduce_any(kept, list(range(2, rank)))
    columns = range_of(1, shape_of(dense)[1] + 1)
    found: Tensor = reduce_max(
        concat(
            [zeros_like(cast(kept[:, :1], dtypes.int32)), cast(kept, dtypes.int32) * columns], 1
        ),
        1,
    )
    return found
