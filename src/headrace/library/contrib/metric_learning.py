"""`tf.contrib.losses.metric_learning`: losses that bring embeddings of one class together, and move others apart.

Called by: programs.  Threads: as graph.
Source: R. Hadsell, S. Chopra, Y. LeCun, 2006 (contrastive); F. Schroff et al., FaceNet, 2015 (triplets, semi-hard);
K. Sohn, 2016 (n pairs); H. Oh Song et al., 2016 (lifted structure).  Names and details: TF 1.15's contrib
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.ops.array.constants import ones, ones_like
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.padding import tile
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.printing import Print
from headrace.ops.linalg.bands import diag
from headrace.ops.linalg.products import matmul
from headrace.ops.math.arithmetic import maximum, squared_difference
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, greater, logical_and, logical_not
from headrace.ops.math.elementwise import exp, log, sqrt
from headrace.ops.math.magnitudes import square
from headrace.ops.math.reductions import reduce_max, reduce_mean, reduce_min, reduce_sum
from headrace.ops.nn.softmax import softmax_cross_entropy_with_logits
from headrace.ops.sparse.dense import sparse_tensor_to_dense
from headrace.ops.tables import make

__all__ = [
    "contrastive_loss",
    "lifted_struct_loss",
    "npairs_loss",
    "npairs_loss_multilabel",
    "pairwise_distance",
    "triplet_semihard_loss",
]


def pairwise_distance(feature: Any, squared: bool = False) -> Tensor:
    """Euclidean distances between all rows [n, depth], or their squares: [n, n], 0 on the diagonal."""
    x = convert(feature)
    squares = reduce_sum(square(x), axis=[1], keepdims=True)
    found = squares + transpose(squares) - 2.0 * matmul(x, x, transpose_b=True)
    found = maximum(found, 0.0)
    zero = found <= 0.0
    if not squared:
        found = sqrt(found + cast(zero, found.dtype) * 1e-16)
        found = found * cast(logical_not(zero), found.dtype)
    off = ones_like(found) - diag(ones(shape_of(x)[:1], found.dtype))
    result: Tensor = found * off
    return result


def contrastive_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0
) -> Tensor:
    """The mean of d² of pairs of one class, and of max(margin - d, 0)² of others; d is the distance of two rows.

    labels [n]: 1 for a pair of one class, else 0.
    """
    apart = sqrt(reduce_sum(squared_difference(embeddings_anchor, embeddings_positive), axis=1))
    same = cast(labels, apart.dtype)
    found: Tensor = reduce_mean(
        same * square(apart) + (1.0 - same) * square(maximum(margin - apart, 0.0)),
        name="contrastive_loss",
    )
    return found


def _equals(labels: Any) -> Tensor:
    column = reshape(convert(labels), [-1, 1])
    found: Tensor = equal(column, transpose(column))
    return found


def _largest(values: Tensor, mask: Tensor) -> Tensor:
    """The largest of each row where the mask is 1, [n, 1]."""
    low = reduce_min(values, axis=1, keepdims=True)
    found: Tensor = reduce_max((values - low) * mask, axis=1, keepdims=True) + low
    return found


def _smallest(values: Tensor, mask: Tensor) -> Tensor:
    """The smallest of each row where the mask is 1, [n, 1]."""
    high = reduce_max(values, axis=1, keepdims=True)
    found: Tensor = reduce_min((values - high) * mask, axis=1, keepdims=True) + high
    return found


def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """The mean over pairs of one class of max(margin + d² to each other - d² to the nearest farther negative, 0).

    labels: int [n].  embeddings [n, depth], of length 1.  Where no negative is farther, it is the farthest one.
    """
    apart = pairwise_distance(embeddings, squared=True)
    same = _equals(labels)
    kind, number = apart.dtype, shape_of(apart)[0]
    other = cast(logical_not(same), kind)
    # Rows of [n * n, n]: of each pair, the distances from the first to all.
    tiled = tile(apart, [number, 1])
    farther = logical_and(
        tile(logical_not(same), [number, 1]), greater(tiled, reshape(transpose(apart), [-1, 1]))
    )
    mask = cast(farther, kind)
    some = reshape(reduce_sum(mask, axis=1, keepdims=True) > 0.0, [number, number])
    outside = transpose(reshape(_smallest(tiled, mask), [number, number]))
    inside = tile(_largest(apart, other), [1, number])
    negative = where(transpose(some), outside, inside)
    pairs = cast(same, kind) - diag(ones(stack([number]), kind))
    found: Tensor = make.RealDiv(
        reduce_sum(maximum((margin + apart - negative) * pairs, 0.0)),
        reduce_sum(pairs),
        name="triplet_semihard_loss",
    )
    return found


def _cross_entropy(
    targets: Tensor, logits: Tensor, anchor: Any, positive: Any, reg: float
) -> Tensor:
    size = reduce_mean(reduce_sum(square(anchor), 1)) + reduce_mean(reduce_sum(square(positive), 1))
    losses = softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    found: Tensor = make.Mul(size, 0.25 * reg) + reduce_mean(losses, name="xentropy")
    return found


def _shares(same: Tensor) -> Tensor:
    found: Tensor = same / reduce_sum(same, 1, keepdims=True)
    return found


def npairs_loss(
    labels: Any,
    embeddings_anchor: Any,
    embeddings_positive: Any,
    reg_lambda: float = 0.002,
    print_losses: bool = False,
) -> Tensor:
    """Cross entropy of which of all positives belongs to an anchor, plus reg_lambda / 4 times their squared lengths.

    labels: int [n].  embeddings [n, depth].
    """
    anchor, positive = convert(embeddings_anchor), convert(embeddings_positive)
    logits = matmul(anchor, positive, transpose_b=True)
    targets = _shares(cast(_equals(labels), logits.dtype))
    found = _cross_entropy(targets, logits, anchor, positive, reg_lambda)
    return _shown(found, print_losses)


def _shown(loss: Tensor, wanted: bool) -> Tensor:
    found: Tensor = Print(loss, ["npairs loss:", loss]) if wanted else loss
    return found


def npairs_loss_multilabel(
    sparse_labels: Sequence[Any],
    embeddings_anchor: Any,
    embeddings_positive: Any,
    reg_lambda: float = 0.002,
    print_losses: bool = False,
) -> Tensor:
    """`npairs_loss` of rows with several labels: the share of a positive is in proportion to labels in common.

    sparse_labels: n SparseTensors of [1, classes].  Raises TypeError for others.
    """
    if any(not isinstance(each, SparseTensor) for each in sparse_labels):
        raise TypeError("sparse_labels must be a list of SparseTensors")
    anchor, positive = convert(embeddings_anchor), convert(embeddings_positive)
    logits = matmul(anchor, positive, transpose_b=True)
    rows = [cast(sparse_tensor_to_dense(each), logits.dtype) for each in sparse_labels]
    dense = concat(rows, 0)
    targets = _shares(matmul(dense, dense, transpose_b=True))
    return _shown(_cross_entropy(targets, logits, anchor, positive, reg_lambda), print_losses)


def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """The mean over pairs of one class of max(log of exp(margin - d) of all negatives of both + d, 0)² / 2.

    labels: int [n].  embeddings [n, depth], not normalized.
    """
    apart = pairwise_distance(embeddings)
    same = _equals(labels)
    kind, number = apart.dtype, shape_of(apart)[0]
    other = cast(logical_not(same), kind)
    gaps = margin - apart
    row_top = _largest(gaps, other)
    top = maximum(row_top, transpose(row_top))
    # Of each pair, all negatives of the one and of the other; the largest is taken out before exp.
    tiled = tile(gaps, [number, 1])
    tops = reshape(transpose(top), [-1, 1])
    summed = reduce_sum(exp(tiled - tops) * tile(other, [number, 1]), 1, keepdims=True)
    half = reshape(summed, [number, number])
    negative = top + log(half + transpose(half))
    pairs = cast(same, kind) - diag(ones(stack([number]), kind))
    losses = square(maximum(negative + apart, 0.0) * pairs)
    found: Tensor = make.RealDiv(
        reduce_sum(losses) * 0.25, reduce_sum(pairs) / 2.0, name="liftedstruct_loss"
    )
    return found
