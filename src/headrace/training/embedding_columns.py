"""embedding_column and shared_embedding_columns: the columns, with what restores them from checkpoints.

Called by: public namespaces.  Threads: as graph.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from headrace.library.feature_column.categorical import WeightedCategoricalColumn
from headrace.library.feature_column.embedding import EmbeddingColumn, SharedEmbeddingColumn
from headrace.library.variables.initializers import truncated_normal_initializer
from headrace.training.saver.warm_starting import init_from_checkpoint

__all__ = ["embedding_column", "shared_embedding_columns"]


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
        init_from_checkpoint,
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
            init_from_checkpoint,
            name,
        )
        for column in categorical_columns
    ]
