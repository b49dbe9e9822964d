"""Embeddings of ids: `embed_sequence`, `bow_encoder`, `embedding_lookup_unique`.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare values with NumPy.
"""

from __future__ import annotations

from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.contrib.shaping import dense_to_sparse
from headrace.library.contrib.variables import model_variable
from headrace.library.nn.embedding import embedding_lookup
from headrace.library.nn.safe_embedding import safe_embedding_lookup_sparse
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.gathering import gather
from headrace.ops.array.joining import concat
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.unique import unique
from headrace.ops.math.reductions import reduce_mean

__all__ = ["bow_encoder", "embed_sequence", "embedding_lookup_unique"]


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """A row of the variable ``embeddings`` [vocab_size, embed_dim] for each id: [n, length, embed_dim].

    ids: [n, length].  unique: each different id is looked up once.
    Raises ValueError: the variable is to be made, and its shape is not said.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            f"Must specify vocab size and embedding dimension when not reusing. Got vocab_size={vocab_size} and "
            f"embed_dim={embed_dim}"
        )
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim]
        if reuse and (vocab_size is None or embed_dim is None):
            shape = None  # type: ignore[assignment]
        embeddings = model_variable(
            "embeddings",
            shape=shape,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        look_up = embedding_lookup_unique if unique else embedding_lookup
        return look_up(embeddings, ids)


@add_arg_scope
def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """The mean of the embeddings of a document's ids: [n, length] (or sparse) becomes [n, embed_dim].

    sparse_lookup: zeros among dense ids are padding.  Raises TypeError: ids that are sparse, and a lookup that is not.
    """
    with variable_scope(scope, "BowEncoder", [ids], reuse=reuse):
        embeddings = model_variable(
            "embeddings",
            shape=[vocab_size, embed_dim],
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
        )
        if sparse_lookup:
            sparse_ids = ids if isinstance(ids, SparseTensor) else dense_to_sparse(ids)
            return safe_embedding_lookup_sparse(
                [embeddings], sparse_ids, combiner="mean", default_id=0
            )
        if isinstance(ids, SparseTensor):
            raise TypeError("ids are expected to be dense Tensor, got: SparseTensor")
        found: Tensor = reduce_mean(embedding_lookup(embeddings, ids), axis=1)
        return found


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None
) -> Tensor:
    """`tf.nn.embedding_lookup` that takes each different id's row once, and then copies it where it is wanted."""
    with name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = convert(ids)
        shape = shape_of(ids)
        different, places = unique(reshape(ids, [-1]))
        rows = embedding_lookup(params, different, partition_strategy)
        found = gather(rows, places)
        outputs: Tensor = reshape(found, concat([shape, shape_of(found)[1:]], 0))
        outputs.set_shape(ids.shape.concatenate(found.shape[1:]))
        return outputs
