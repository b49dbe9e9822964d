"""Columns that look up a row of a variable for each category, and combine the rows of an example.

Called by: training.embedding_columns.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.base import dtypes
from headrace.graph.names import add_to_collection, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    listed,
)
from headrace.library.feature_column.sequence import (
    SequenceDenseColumn,
    SequenceValues,
    check_no_sequence,
    lengths_of,
    sequence_of,
)
from headrace.library.nn.embedding import embedding_lookup_sparse
from headrace.library.nn.safe_embedding import safe_embedding_lookup_sparse
from headrace.library.variables.variable_scope import get_variable

__all__ = [
    "EmbeddingColumn",
    "SharedEmbeddingColumn",
]

Restorer = Callable[[Any, dict[str, Any]], None]
"""tf.train.init_from_checkpoint, which is above this folder: who makes columns hands it to them."""


@dataclass(frozen=True)
class _Embedding(DenseColumn, SequenceDenseColumn):
    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: Any
    tensor_name_in_ckpt: str | None
    max_norm: Any
    trainable: bool
    use_safe_embedding_lookup: bool
    restorer: Restorer = field(repr=False, compare=False)

    @property
    def spec(self) -> dict[str, Any]:
        """See `FeatureColumn`."""
        return self.categorical_column.spec

    @property
    def variable_shape(self) -> tuple[int, ...]:
        """See `DenseColumn`."""
        return (self.dimension,)

    def transform(self, features: Features) -> Any:
        """The ids."""
        return features.get(self.categorical_column)

    def _variable(self, collections: Sequence[Any] | None, trainable: bool) -> Any:
        return get_variable(
            "embedding_weights",
            shape=(self.categorical_column.num_buckets, self.dimension),
            dtype=dtypes.float32,
            initializer=self.initializer,
            trainable=self.trainable and trainable,
            collections=None if collections is None else list(collections),
        )

    def _looked_up(self, features: Features, weights_of: Callable[[], Any]) -> Tensor:
        ids, weights = self.categorical_column.sparse(features)
        variable = weights_of()
        if self.ckpt_to_load_from is not None:
            whole = listed(variable)
            found = whole[0] if whole[0] is variable else whole
            self.restorer(self.ckpt_to_load_from, {str(self.tensor_name_in_ckpt): found})
        look_up: Any = (
            safe_embedding_lookup_sparse
            if self.use_safe_embedding_lookup
            else embedding_lookup_sparse
        )
        made: Tensor = look_up(
            variable,
            ids,
            weights,
            combiner=self.combiner,
            name=f"{self.name}_weights",
            max_norm=self.max_norm,
        )
        return made


@dataclass(frozen=True)
class EmbeddingColumn(_Embedding):
    """See `training.embedding_columns`."""

    @property
    def name(self) -> str:
        """The categories', and what is done to them."""
        return f"{self.categorical_column.name}_embedding"

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """See `DenseColumn`.  Raises ValueError: a column of sequences."""
        check_no_sequence(self.categorical_column, "embedding_column", self.name)
        return self._looked_up(features, lambda: self._variable(collections, trainable))

    def sequence_dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> SequenceValues:
        """See `SequenceDenseColumn`.  Raises ValueError: a column without sequences."""
        column = sequence_of(self.categorical_column, "embedding_column", self.name)
        values = self._looked_up(features, lambda: self._variable(collections, trainable))
        return SequenceValues(values, lengths_of(column.sparse(features).ids))


@dataclass(frozen=True)
class SharedEmbeddingColumn(_Embedding):
    """See `training.embedding_columns`."""

    shared_embedding_collection_name: str

    @property
    def name(self) -> str:
        """The categories', and what is done to them."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def scope_name(self) -> str:
        """That of all that share the variable."""
        return self.shared_embedding_collection_name

    def _shared(self, collections: Sequence[Any] | None, trainable: bool) -> Any:
        """The variable, made when the first of its columns is read."""
        where = self.shared_embedding_collection_name
        known = get_default_graph().get_collection(where)
        if not known:
            made = self._variable(collections, trainable)
            add_to_collection(where, made)
            return made
        if len(known) > 1:
            raise ValueError(
                f"Collection {known} can only contain one variable. Give the columns another "
                f"shared_embedding_collection_name than {where!r}"
            )
        wanted = (self.categorical_column.num_buckets, self.dimension)
        if tuple(known[0].get_shape().as_list()) != wanted:
            raise ValueError(
                f"Shared embedding collection {where} contains variable {known[0].name} of unexpected shape "
                f"{known[0].get_shape()}. Expected shape is {wanted}: give the columns another "
                "shared_embedding_collection_name, or make them in another graph"
            )
        return known[0]

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """See `DenseColumn`.  Raises ValueError: what is in the collection is another variable; sequences."""
        check_no_sequence(self.categorical_column, "shared_embedding_column", self.name)
        return self._of_shared(features, collections, trainable)

    def _of_shared(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        with name_scope(None, self.name):
            return self._looked_up(features, lambda: self._shared(collections, trainable))

    def sequence_dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> SequenceValues:
        """See `SequenceDenseColumn`.  Raises ValueError: a column without sequences."""
        column = sequence_of(self.categorical_column, "shared_embedding_column", self.name)
        values = self._of_shared(features, collections, trainable)
        return SequenceValues(values, lengths_of(column.sparse(features).ids))
