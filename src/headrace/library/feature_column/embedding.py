"""Columns that look up a row of a variable for each category, and combine the rows of an example.

Called by: programs; headrace.feature_column says what restores from checkpoints.  Threads: as graph.
Source: TF 1.15 behaviour; messages and nodes checked against the oracle
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.base import dtypes
from headrace.graph.names import add_to_collection, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.feature_column.categorical import WeightedCategoricalColumn
from headrace.library.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    listed,
)
from headrace.library.nn.embedding import embedding_lookup_sparse
from headrace.library.nn.safe_embedding import safe_embedding_lookup_sparse
from headrace.library.variables.initializers import truncated_normal_initializer
from headrace.library.variables.variable_scope import get_variable

__all__ = [
    "EmbeddingColumn",
    "Restorer",
    "SharedEmbeddingColumn",
    "embedding_column",
    "shared_embedding_columns",
]

Restorer = Callable[[Any, dict[str, Any]], None]
"""tf.train.init_from_checkpoint, which is above this folder: the public functions hand it to the columns."""


@dataclass(frozen=True)
class _Embedding(DenseColumn):
    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: Any
    tensor_name_in_ckpt: str | None
    max_norm: Any
    trainable: bool
    use_safe_embedding_lookup: bool
    restorer: Restorer | None

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
        if self.ckpt_to_load_from is not None and self.restorer is not None:
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
    """See `embedding_column`."""

    @property
    def name(self) -> str:
        """The categories', and what is done to them."""
        return f"{self.categorical_column.name}_embedding"

    def dense(
        self, features: Features, collections: Sequence[Any] | None, trainable: bool
    ) -> Tensor:
        """See `DenseColumn`."""
        return self._looked_up(features, lambda: self._variable(collections, trainable))


@dataclass(frozen=True)
class SharedEmbeddingColumn(_Embedding):
    """See `shared_embedding_columns`."""

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
        """See `DenseColumn`.  Raises ValueError: what is in the collection is another variable."""
        with name_scope(None, self.name):
            return self._looked_up(features, lambda: self._shared(collections, trainable))


def _check(dimension: Any, checkpoint: Any, tensor_name: Any) -> None:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor_name is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )


def _started(initializer: Any, dimension: int, what: str) -> Any:
    if initializer is not None and not callable(initializer):
        raise ValueError(f"initializer must be callable if specified. {what}")
    return initializer or truncated_normal_initializer(0.0, 1 / math.sqrt(dimension))


def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: Any = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
    *,
    restorer: Restorer | None = None,
) -> EmbeddingColumn:
    """A dense column of one row [dimension] an example: the rows of its categories in a variable, combined.

    combiner: "mean", "sum" or "sqrtn".  initializer: truncated normal of deviation 1/√dimension, if not given.
    ckpt_to_load_from, tensor_name_in_ckpt: the rows are those of a tensor in a checkpoint; max_norm: longer rows are
    made that long.  Raises ValueError.
    """
    _check(dimension, ckpt_to_load_from, tensor_name_in_ckpt)
    if initializer is None or not callable(initializer):
        what = f"Embedding of column_name: {getattr(categorical_column, 'name', None)}"
        initializer = _started(initializer, dimension, what)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
        restorer,
    )


def _check_alike(columns: Sequence[Any]) -> None:
    first = columns[0]
    kind = _kind(first)
    for column in columns[1:]:
        if _kind(column) is not kind:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                f"weighted_categorical_column or sequence column of the same type. Given column: {first} of type: "
                f"{type(first)} does not match given column: {column} of type: {type(column)}"
            )
        if column.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number of buckets. "
                f"Given column: {first} with buckets: {first.num_buckets} does  not match column: {column} with "
                f"buckets: {column.num_buckets}"
            )


def _kind(column: Any) -> type:
    return type(
        column.categorical_column if isinstance(column, WeightedCategoricalColumn) else column
    )


def shared_embedding_columns(
    categorical_columns: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: Any = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
    *,
    restorer: Restorer | None = None,
) -> list[SharedEmbeddingColumn]:
    """As `embedding_column` for each of several columns, with one variable for all of them, which a collection holds.

    categorical_columns: of one kind, with as many categories.  Raises ValueError.
    """
    _check(dimension, ckpt_to_load_from, tensor_name_in_ckpt)
    initializer = _started(
        initializer, dimension, f"Embedding of {len(categorical_columns)} columns"
    )
    _check_alike(sorted(categorical_columns, key=lambda column: column.name))
    name = shared_embedding_collection_name
    if not name:
        names = sorted(column.name for column in categorical_columns)
        name = "_".join(names) + "_shared_embedding"
    return [
        SharedEmbeddingColumn(
            column,
            dimension,
            combiner,
            initializer,
            ckpt_to_load_from,
            tensor_name_in_ckpt,
            max_norm,
            trainable,
            use_safe_embedding_lookup,
            restorer,
            name,
        )
        for column in categorical_columns
    ]
