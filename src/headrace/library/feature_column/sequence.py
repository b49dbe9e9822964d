"""Categories in the order in which each example has them, and how long those sequences are.

Called by: library.feature_column.  Threads: as graph.
Source: TF 1.15 behaviour; messages and values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    CategoricalColumn,
    FeatureColumn,
    Features,
    IdsAndWeights,
)
from headrace.ops.array.constants import zeros
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import cast
from headrace.ops.math.segments import segment_max
from headrace.ops.sparse.calls import sparse_reshape

__all__ = [
    "SequenceCategoricalColumn",
    "SequenceDenseColumn",
    "SequenceValues",
    "check_no_sequence",
    "lengths_of",
    "sequence_of",
]


class SequenceValues(NamedTuple):
    """What a column gives for sequences: float32 [batch, steps, …], and the length of each, int64 [batch]."""

    values: Tensor
    lengths: Tensor


class SequenceDenseColumn(FeatureColumn):
    """A column that gives a dense tensor [batch, steps, …] of floats."""

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """The tensor's shape without batch and steps."""
        raise NotImplementedError

    def sequence_dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> SequenceValues:
        """The tensor, [batch, steps] + variable_shape, and the lengths."""
        raise NotImplementedError


@dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """A column of categories whose second dimension is that of steps."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The categories'."""
        return self.categorical_column.name

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return self.categorical_column.spec

    def transform(self, features: Features) -> Any:
        """The ids."""
        return self.categorical_column.transform(features)

    @property
    def num_buckets(self) -> int:
        """See `CategoricalColumn`."""
        return self.categorical_column.num_buckets

    def sparse(self, features: Features) -> IdsAndWeights:
        """The ids as [batch, steps, categories of a step]."""
        ids = features.get(self)
        shape = shape_of(ids)
        return IdsAndWeights(sparse_reshape(ids, [shape[0], shape[1], -1]), None)


def check_no_sequence(column: Any, kind: str, name: str) -> None:
    """Raises ValueError: a column of sequences where each example is one row."""
    if isinstance(column, SequenceCategoricalColumn):
        raise ValueError(
            f"In {kind}: {name}. categorical_column must not be of type _SequenceCategoricalColumn. Read sequences "
            "with tf.contrib.feature_column.sequence_input_layer; columns for input_layer are made by "
            f"tf.feature_column.categorical_column_with_*. Given (type {type(column)}): {column}"
        )


def sequence_of(column: Any, kind: str, name: str) -> SequenceCategoricalColumn:
    """The column itself.  Raises ValueError: not one of sequences."""
    if not isinstance(column, SequenceCategoricalColumn):
        raise ValueError(
            f"In {kind}: {name}. categorical_column must be of type _SequenceCategoricalColumn to use "
            "sequence_input_layer: make it with tf.feature_column.sequence_categorical_column_with_*. "
            f"Given (type {type(column)}): {column}"
        )
    return column


def lengths_of(sequences: SparseTensor, numbers: int = 1) -> Tensor:
    """How many steps, of so many numbers each, every row of a sparse tensor [batch, steps, …] has: int64 [batch]."""
    rows, columns = sequences.indices[:, 0], sequences.indices[:, 1]
    counts = segment_max(columns + 1, rows)  # 0 where a row between others has none
    lengths = cast((counts + (numbers - 1)) // numbers, dtypes.int64)
    missing = shape_of(sequences)[:1] - shape_of(lengths)[:1]
    return concat([lengths, zeros(missing, dtype=lengths.dtype)], axis=0)
