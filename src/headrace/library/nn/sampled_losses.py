"""Losses of very many classes by few of them: noise-contrastive estimation, sampled softmax.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour (python/ops/nn_impl.py); GraphDefs checked against the oracle
"""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.nn.embedding import embedding_lookup
from headrace.library.variables.partitioned import PartitionedVariable
from headrace.ops.array.constants import ones, ones_like, zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import expand_dims, reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.slicing import slice as slice_of
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.linalg.products import matmul
from headrace.ops.math.arithmetic import multiply
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import log
from headrace.ops.nn.basics import sigmoid_cross_entropy_with_logits
from headrace.ops.nn.candidates import compute_accidental_hits, log_uniform_candidate_sampler
from headrace.ops.nn.softmax import softmax_cross_entropy_with_logits_v2
from headrace.ops.sparse.dense import sparse_to_dense

__all__ = ["nce_loss", "sampled_softmax_loss"]


class Sampling(NamedTuple):
    """How classes are drawn, and what is made of it."""

    num_sampled: int
    num_classes: int
    num_true: int
    sampled_values: Any
    remove_accidental_hits: bool
    partition_strategy: str
    seed: int | None


def _row_sums(x: Tensor) -> Tensor:
    """[rows, columns] to [rows], by a product with ones."""
    columns = shape_of(x)[1]
    return reshape(matmul(x, ones(stack([columns, 1]), x.dtype)), [-1])


def compute_sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    how: Sampling,
    name: str | None,
    default: str,
) -> tuple[Tensor, Tensor]:
    """Logits and labels [batch, num_true + num_sampled], less the logarithm of how often classes are expected."""
    if isinstance(weights, PartitionedVariable):
        weights = list(weights)
    parts = list(weights) if isinstance(weights, (list, tuple)) else [weights]
    with name_scope(name, default, [*parts, biases, inputs, labels]):
        labels = convert(labels, name="labels")
        if labels.dtype != dtypes.int64:
            labels = cast(labels, dtypes.int64)
        flat = reshape(labels, [-1])
        values = how.sampled_values
        if values is None:
            values = log_uniform_candidate_sampler(
                labels, how.num_true, how.num_sampled, True, how.num_classes, seed=how.seed
            )
        sampled, true_count, sampled_count = (stop_gradient(value) for value in values)
        sampled = cast(sampled, dtypes.int64)
        ids = concat([flat, sampled], 0)
        rows = embedding_lookup(parts, ids, how.partition_strategy)
        true_rows = slice_of(rows, [0, 0], stack([shape_of(flat)[0], -1]))
        sampled_rows = slice_of(rows, stack([shape_of(flat)[0], 0]), [-1, -1])
        sampled_logits = matmul(inputs, sampled_rows, transpose_b=True)
        offsets = embedding_lookup(biases, ids, how.partition_strategy)
        true_offsets = slice_of(offsets, [0], shape_of(flat))
        sampled_offsets = slice_of(offsets, shape_of(flat), [-1])
        true_logits = _products(inputs, true_rows, how.num_true)
        true_logits = true_logits + reshape(true_offsets, [-1, how.num_true])
        sampled_logits = sampled_logits + sampled_offsets
        if how.remove_accidental_hits:
            sampled_logits = sampled_logits + _hits(labels, sampled, sampled_logits, how)
        true_logits = true_logits - log(true_count)
        sampled_logits = sampled_logits - log(sampled_count)
        logits = concat([true_logits, sampled_logits], 1)
        shares = [ones_like(true_logits) / how.num_true, zeros_like(sampled_logits)]
        return logits, concat(shares, 1)


def _products(inputs: Any, rows: Tensor, num_true: int) -> Tensor:
    """[batch, num_true]: each of the inputs times the rows of its true classes."""
    depth = shape_of(rows)[1:2]
    shape = concat([[-1, num_true], depth], 0)
    products = multiply(expand_dims(inputs, 1), reshape(rows, shape))
    return reshape(_row_sums(reshape(products, concat([[-1], depth], 0))), [-1, num_true])


def _hits(labels: Tensor, sampled: Tensor, logits: Tensor, how: Sampling) -> Tensor:
    """What takes sampled classes that are true ones out of the loss: a very low number at their places."""
    rows, places, low = compute_accidental_hits(labels, sampled, how.num_true)
    indices = concat(
        [reshape(rows, [-1, 1]), reshape(cast(places, dtypes.int32), [-1, 1])], 1, "sparse_indices"
    )
    shape = concat([shape_of(labels)[:1], expand_dims(how.num_sampled, 0)], 0)
    if logits.dtype != low.dtype:
        low = cast(low, logits.dtype)
    return sparse_to_dense(indices, shape, low, default_value=0.0, validate_indices=False)


def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """Noise-contrastive estimation, [batch]: is it the true class or one of num_sampled others?

    weights [num_classes, depth], in parts if partitioned; biases [num_classes]; labels int64 [batch, num_true]; inputs
    [batch, depth].  sampled_values: of a candidate sampler, by default the log-uniform one.
    """
    how = Sampling(
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        None,
    )
    logits, shares = compute_sampled_logits(
        weights, biases, labels, inputs, how, name, "compute_sampled_logits"
    )
    losses = sigmoid_cross_entropy_with_logits(labels=shares, logits=logits, name="sampled_losses")
    return _row_sums(losses)


def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """Cross entropy [batch] of the true classes among them and num_sampled others.  Arguments: as of nce_loss."""
    how = Sampling(
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        remove_accidental_hits,
        partition_strategy,
        seed,
    )
    logits, shares = compute_sampled_logits(
        weights, biases, labels, inputs, how, name, "compute_sampled_logits"
    )
    shares = stop_gradient(shares, name="labels_stop_gradient")
    found: Tensor = softmax_cross_entropy_with_logits_v2(labels=shares, logits=logits)
    return found
