"""Columns of embeddings that a checkpoint may hold: `library.feature_column.embedding`, with what restores them.

Called by: public namespaces.  Threads: as graph.
"""

from __future__ import annotations

from typing import Any

from headrace.library.feature_column import embedding
from headrace.training.saver.warm_starting import init_from_checkpoint

__all__ = ["embedding_column", "shared_embedding_columns"]


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
) -> embedding.EmbeddingColumn:
    """See `library.feature_column.embedding`.  Raises ValueError."""
    return embedding.embedding_column(
        categorical_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
        restorer=init_from_checkpoint,
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
) -> list[embedding.SharedEmbeddingColumn]:
    """See `library.feature_column.embedding`.  Raises ValueError."""
    return embedding.shared_embedding_columns(
        categorical_columns,
        dimension,
        combiner,
        initializer,
        shared_embedding_collection_name,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
        restorer=init_from_checkpoint,
    )
