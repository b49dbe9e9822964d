"""Columns of numbers: as they are, and by the ranges that they are in.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    IdsAndWeights,
    checked_shape,
)
from headrace.library.parsing import FixedLenFeature
from headrace.ops.array.one_hot import one_hot
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.ranges import range as range_of
from headrace.ops.array.shapes import expand_dims, reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.math.order_statistics import bucketize_op

__all__ = [
    "BucketizedColumn",
    "NumericColumn",
    "bucketized_column",
    "checked_default",
    "numeric_column",
]


def _fits(dtype: DType, value: Any) -> bool:
    kind = np.asarray(value).dtype.kind
    return kind in "iub" if dtype.is_integer else kind in "iubf"


def _rows(default: Any, shape: Sequence[int]) -> Any:
    """A default as nested tuples."""
    return (
        tuple(_rows(each, shape[1:]) for each in default)
        if isinstance(default, (list, tuple))
        else default
    )


def checked_default(shape: tuple[int, ...], default: Any, dtype: DType, key: str) -> Any:
    """The default of a feature, one number repeated if it is one, as nested tuples.  Raises TypeError, ValueError."""
    if default is None:
        return None
    value = default.tolist() if isinstance(default, np.ndarray) else default
    if isinstance(value, (int, float)) and _fits(dtype, value):
        filled = np.full(shape, value, dtype.as_numpy_dtype).tolist()
        return _rows(filled, shape)
    given = np.asarray(value)
    if given.shape != shape and given.dtype.kind in "iubf" and given.ndim:
        raise ValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {default}, shape: {shape}, key: {key}"
        )
    if given.dtype.kind not in "iubf" or not _fits(dtype, value):
        raise TypeError(
            f"default_value must be compatible with dtype. default_value: {default}, dtype: {dtype}, key: {key}"
        )
    return _rows(given.astype(dtype.as_numpy_dtype).tolist(), shape)


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """See `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: DType
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        """The feature's."""
        return self.key

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform(self, features: Features) -> Any:
        """The numbers, normalized, as float32.  Raises ValueError: a sparse feature."""
        given = features.get(self.key)
        if isinstance(given, SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                f"key: {self.key}"
            )
        if self.normalizer_fn is not None:
            given = self.normalizer_fn(given)
        return cast(given, dtypes.float32)

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """See `DenseColumn`."""
        return self.shape

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """See `DenseColumn`."""
        found: Tensor = features.get(self)
        return found


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """A column of the numbers [batch] + shape of a dense feature, as float32.

    default_value: where an example has none, one number or as many as `shape` says.  normalizer_fn: what is called
    with the tensor.  Raises TypeError, ValueError.
    """
    sizes = checked_shape(shape, key)
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    default = checked_default(sizes, default_value, kind, key)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return NumericColumn(key, sizes, default, kind, normalizer_fn)


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """See `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The source's, and what is done to it."""
        return f"{self.source_column.name}_bucketized"

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return self.source_column.spec

    def transform(self, features: Features) -> Any:
        """The range of each number, int32."""
        return bucketize_op(features.get(self.source_column), boundaries=list(self.boundaries))

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """See `DenseColumn`."""
        return (*self.source_column.shape, len(self.boundaries) + 1)

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """See `DenseColumn`: one of each range is 1."""
        return one_hot(cast(features.get(self), dtypes.int64), len(self.boundaries) + 1, 1.0, 0.0)

    @property
    def num_buckets(self) -> int:
        """Ranges of each number of an example."""
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def sparse(self, features: Features) -> IdsAndWeights:
        """See `CategoricalColumn`: each number of an example has ids of its own."""
        found = features.get(self)
        batch = shape_of(found)[0]
        width = self.source_column.shape[0]
        rows = reshape(tile(expand_dims(range_of(0, batch), 1), [1, width]), (-1,))
        columns = tile(range_of(0, width), [batch])
        ids = reshape(found, (-1,)) + (len(self.boundaries) + 1) * columns
        places = cast(transpose(stack((rows, columns))), dtypes.int64)
        shape = cast(stack([batch, width]), dtypes.int64)
        return IdsAndWeights(SparseTensor(places, ids, shape), None)


def bucketized_column(source_column: Any, boundaries: Any) -> BucketizedColumn:
    """A column of the ranges that the numbers of a numeric column are in.

    boundaries: [0, 1] makes (-∞, 0), [0, 1) and [1, ∞).  source_column: of one dimension.  Raises ValueError.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            f"source_column must be a column generated with numeric_column(). Given: {source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    if not boundaries:
        raise ValueError("boundaries must not be empty.")
    if not isinstance(boundaries, (list, tuple)) or any(
        low >= high for low, high in pairwise(boundaries)
    ):
        raise ValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))
