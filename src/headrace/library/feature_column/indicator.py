"""Columns that count categories: one number for each.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    Features,
)
from headrace.library.feature_column.sequence import (
    SequenceDenseColumn,
    SequenceValues,
    check_no_sequence,
    lengths_of,
    sequence_of,
)
from headrace.ops.array.gathering import scatter_nd
from headrace.ops.array.one_hot import one_hot
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.sparse.calls import sparse_slice
from headrace.ops.sparse.dense import sparse_tensor_to_dense
from headrace.ops.sparse.order import sparse_merge

__all__ = ["IndicatorColumn", "indicator_column"]


@dataclass(frozen=True)
class IndicatorColumn(DenseColumn, SequenceDenseColumn):
    """See `indicator_column`."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The categories', and what is done to them."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return self.categorical_column.spec

    def transform(self, features: Features) -> Any:
        """How often each category is there, or the sum of its weights: [batch, (steps,) num_buckets]."""
        ids, weights = self.categorical_column.sparse(features)
        size = self.variable_shape[-1]
        if weights is not None:
            merged = sparse_merge(ids, weights, int(size))
            merged = sparse_slice(merged, [0, 0], merged.dense_shape)
            return scatter_nd(merged.indices, merged.values, merged.dense_shape)
        listed = sparse_tensor_to_dense(ids, -1)
        return reduce_sum(one_hot(listed, size, 1.0, 0.0), axis=[-2])

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """See `DenseColumn`."""
        return (self.categorical_column.num_buckets,)

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """See `DenseColumn`.  Raises ValueError: a column of sequences."""
        check_no_sequence(self.categorical_column, "indicator_column", self.name)
        found: Tensor = features.get(self)
        return found

    def sequence_dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> SequenceValues:
        """See `SequenceDenseColumn`.  Raises ValueError: a column without sequences."""
        column = sequence_of(self.categorical_column, "indicator_column", self.name)
        return SequenceValues(features.get(self), lengths_of(column.sparse(features).ids))


def indicator_column(categorical_column: Any) -> IndicatorColumn:
    """A dense column of how often each category of a column is in an example, or of the sums of their weights.

    Raises ValueError: a column of no categories.
    """
    if not isinstance(categorical_column, CategoricalColumn):
        raise ValueError(
            f"Unsupported input type. Input must be a CategoricalColumn. Given: {categorical_column}. A numeric column "
            "becomes one by bucketized_column"
        )
    return IndicatorColumn(categorical_column)
