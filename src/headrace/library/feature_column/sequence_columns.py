"""sequence_numeric_column, and sequence_categorical_column_with_…: columns of features that are sequences.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import dtypes
from headrace.base.dtypes import DType
from headrace.graph.sparse import SparseTensor
from headrace.library.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from headrace.library.feature_column.column import Features, checked_shape, elements
from headrace.library.feature_column.sequence import (
    SequenceCategoricalColumn,
    SequenceDenseColumn,
    SequenceValues,
    lengths_of,
)
from headrace.library.parsing import VarLenFeature
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.sparse.dense import sparse_tensor_to_dense

__all__ = [
    "SequenceNumericColumn",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_numeric_column",
]


@dataclass(frozen=True)
class SequenceNumericColumn(SequenceDenseColumn):
    """See `sequence_numeric_column`."""

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
        return {self.key: VarLenFeature(self.dtype)}

    def transform(self, features: Features) -> Any:
        """The numbers, normalized, still sparse.  Raises TypeError: a dense feature."""
        given = features.get(self.key)
        if not isinstance(given, SparseTensor):
            raise TypeError(
                "Input must be a SparseTensor: sequences of different lengths are one, as tf.io.VarLenFeature parses "
                f"them and tf.sparse.from_dense makes them. key: {self.key}. Given: {given}"
            )
        return given if self.normalizer_fn is None else self.normalizer_fn(given)

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """See `SequenceDenseColumn`."""
        return self.shape

    def sequence_dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> SequenceValues:
        """See `SequenceDenseColumn`."""
        sequences = features.get(self)
        dense = sparse_tensor_to_dense(cast(sequences, dtypes.float32), self.default_value)
        rank = dense.shape.ndims
        steps = shape_of(dense)[1:2] if rank == 3 else [-1]
        shaped = reshape(dense, concat([shape_of(dense)[:1], steps, self.shape], axis=0))
        numbers = elements(self.shape) if rank == 2 else 1
        return SequenceValues(shaped, lengths_of(sequences, numbers))


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = 0.0,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """A column of the numbers [batch, steps] + shape of a sparse feature, as float32.

    default_value: what fills shorter sequences.  normalizer_fn: what is called with the SparseTensor.
    Raises TypeError, ValueError.
    """
    sizes = checked_shape(shape, key)
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {dtype}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return SequenceNumericColumn(key, sizes, default_value, kind, normalizer_fn)


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """As `categorical_column_with_identity`, of sequences [batch, steps] or [batch, steps, …].

    Raises ValueError.
    """
    return SequenceCategoricalColumn(
        categorical_column_with_identity(key, num_buckets, default_value)
    )


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> SequenceCategoricalColumn:
    """As `categorical_column_with_hash_bucket`, of sequences [batch, steps] or [batch, steps, …].

    Raises ValueError.
    """
    return SequenceCategoricalColumn(
        categorical_column_with_hash_bucket(key, hash_bucket_size, dtype)
    )


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = dtypes.string,
) -> SequenceCategoricalColumn:
    """As `categorical_column_with_vocabulary_file`, of sequences [batch, steps] or [batch, steps, …].

    Raises ValueError.
    """
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """As `categorical_column_with_vocabulary_list`, of sequences [batch, steps] or [batch, steps, …].

    Raises ValueError.
    """
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_list(
            key, vocabulary_list, dtype, default_value, num_oov_buckets
        )
    )
