"""`tf.contrib.nn`: cross entropies that take logits first, alpha dropout, softmax over samples, gradients forwards.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib.  Alpha dropout: G. Klambauer et al., Self-Normalizing Neural Networks,
2017.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.base import dtypes
from headrace.graph.const_value import constant_value
from headrace.graph.convert import convert
from headrace.graph.gradients import gradients
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.nn.embedding import embedding_lookup
from headrace.library.nn.sampled_losses import (
    Sampling,
    compute_sampled_logits,
    sampled_softmax_loss,
)
from headrace.ops.array.constants import ones_like, zeros, zeros_like
from headrace.ops.array.gathering import gather
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.unique import top_k
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.linalg.products import matmul
from headrace.ops.math.arithmetic import minimum
from headrace.ops.math.casting import cast
from headrace.ops.math.elementwise import rsqrt
from headrace.ops.math.reductions import reduce_logsumexp
from headrace.ops.nn.activations import softplus
from headrace.ops.nn.basics import sigmoid_cross_entropy_with_logits
from headrace.ops.nn.candidates import log_uniform_candidate_sampler
from headrace.ops.nn.softmax import (
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from headrace.ops.random.draws import random_uniform

__all__ = [
    "alpha_dropout",
    "deprecated_flipped_sigmoid_cross_entropy_with_logits",
    "deprecated_flipped_softmax_cross_entropy_with_logits",
    "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
    "fwd_gradients",
    "nth_element",
    "rank_sampled_softmax_loss",
    "sampled_sparse_softmax_loss",
    "scaled_softplus",
]

_SATURATED: Final = -1.7580993408473766
"""What selu tends to for small inputs: -scale * alpha."""


def deprecated_flipped_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Any:
    """`tf.nn.softmax_cross_entropy_with_logits`, with logits before labels."""
    return softmax_cross_entropy_with_logits(labels=labels, logits=logits, dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> Any:
    """`tf.nn.sparse_softmax_cross_entropy_with_logits`, with logits before labels."""
    return sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(
    logits: Any, targets: Any, name: str | None = None
) -> Any:
    """`tf.nn.sigmoid_cross_entropy_with_logits`, with logits before targets."""
    return sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name=name)


def alpha_dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Dropout that leaves mean 0 and variance 1 as they are: what falls out gets selu's lowest value.

    keep_prob: a number or scalar in (0, 1].  noise_shape: as of tf.nn.dropout.  Raises ValueError.
    """
    with name_scope(name, "alpha_dropout", [x]):
        x = convert(x, name="x")
        if isinstance(keep_prob, float | int) and not 0 < keep_prob <= 1:
            raise ValueError(
                f"keep_prob must be a scalar tensor or a float in the range (0, 1], got {keep_prob}"
            )
        share = convert(keep_prob, x.dtype, "keep_prob")
        share.shape.assert_has_rank(0)
        known = constant_value(share)
        if known is not None and known == 1:
            unchanged: Tensor = x
            return unchanged
        shape = shape_of(x) if noise_shape is None else noise_shape
        kept = cast(share + random_uniform(shape, seed=seed, dtype=x.dtype) >= 1.0, x.dtype)
        mixed = x * kept + _SATURATED * (1 - kept)
        scale = rsqrt(share + share * (1 - share) * _SATURATED**2)
        found: Tensor = scale * mixed - scale * _SATURATED * (1 - share)
        return found


def scaled_softplus(x: Any, alpha: Any, clip: Any = None, name: str | None = None) -> Tensor:
    """alpha * log(1 + exp(x / alpha)), and at most `clip`: a relu with a round corner, sharper for small alpha."""
    with name_scope(name, "scaled_softplus", [x, alpha]):
        x = convert(x, name="x")
        width = convert(alpha, x.dtype.base_dtype, "alpha")
        found: Tensor = width * softplus(x / width)
        if clip is not None:
            found = minimum(found, convert(clip, x.dtype.base_dtype, "clip"))
        return found


def nth_element(input: Any, n: Any, reverse: bool = False, name: str | None = None) -> Tensor:
    """The element at place n of each row [..., size], were they sorted; downwards if reverse: [...]."""
    with name_scope(name, "nth_element", [input, n]):
        rows = convert(input, name="input")
        values, _ = top_k(rows if reverse else -rows, convert(n, dtypes.int32) + 1)
        found: Tensor = values[..., -1]
        return found if reverse else -found


def fwd_gradients(
    ys: Any, xs: Any, grad_xs: Any = None, stop_gradients: Any = None, assert_unused: bool = False
) -> list[Any]:
    """How ys move when xs move along grad_xs (default: ones): a tensor for each of ys, or None.

    stop_gradients: tensors taken as constants.  It is the gradient of a gradient, by which nothing is computed that the
    result does not need.
    """
    of, by = (list(each) if isinstance(each, list | tuple) else [each] for each in (ys, xs))
    weights = [zeros_like(y) for y in of]
    back = gradients(of, by, grad_ys=weights, stop_gradients=stop_gradients)
    along = grad_xs if grad_xs is not None else [None] * len(by)
    along = list(along) if isinstance(along, list | tuple) else [along]
    pairs = [(d, g) for d, g in zip(back, along, strict=True) if d is not None]
    if not pairs:
        return [None] * len(of)
    moved = [ones_like(d) if g is None else g for d, g in pairs]
    return gradients([d for d, _ in pairs], weights, grad_ys=moved, stop_gradients=stop_gradients)


def sampled_sparse_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_sparse_softmax_loss",
) -> Tensor:
    """Cross entropy [batch] of the true class among it and num_sampled others.

    labels: int64 [batch, 1].  Other arguments: as of tf.nn.sampled_softmax_loss, of which it is the form for one class.
    """
    logits, _ = compute_sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        Sampling(
            num_sampled,
            num_classes,
            1,
            sampled_values,
            remove_accidental_hits,
            partition_strategy,
            None,
        ),
        name,
        "compute_sampled_logits",
    )
    first = zeros(shape_of(logits)[:1], dtypes.int64)
    found: Tensor = sparse_softmax_cross_entropy_with_logits(labels=first, logits=logits)
    return found


def rank_sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_resampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    resampling_temperature: Any,
    remove_accidental_hits: bool,
    partition_strategy: str,
    name: str | None = None,
) -> Tensor:
    """Sampled softmax over the num_resampled classes of a sample that the whole batch finds likeliest, [batch].

    A class's rank is that of the sum over the batch of exp(logit / resampling_temperature).  Other arguments: as of
    tf.nn.sampled_softmax_loss.  Raises ValueError: more are to be kept than are sampled.
    """
    if num_resampled > num_sampled:
        raise ValueError(
            f"num_resampled={num_resampled} must be less than or equal to num_sampled={num_sampled}"
        )
    with name_scope(name, "rank_sampled_softmax_loss", [inputs, labels]):
        if sampled_values is None:
            sampled_values = log_uniform_candidate_sampler(
                labels, num_true, num_sampled, True, num_classes
            )
        classes, true_count, counts = (stop_gradient(each) for each in sampled_values)
        classes = cast(classes, dtypes.int64)
        rows = embedding_lookup(weights, classes, partition_strategy)
        offsets = embedding_lookup(biases, classes, partition_strategy)
        logits = (matmul(inputs, rows, transpose_b=True) + offsets) / resampling_temperature
        likely = stop_gradient(reduce_logsumexp(logits, axis=0))
        _, best = top_k(likely, k=num_resampled, sorted=False)
        kept = gather(classes, best), true_count, gather(counts, best)
        return sampled_softmax_loss(
            weights,
            biases,
            labels,
            inputs,
            num_resampled,
            num_classes,
            num_true,
            kept,
            remove_accidental_hits,
            partition_strategy,
        )
