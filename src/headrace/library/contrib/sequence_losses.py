"""Cross entropies of sequences: tf.contrib.seq2seq.sequence_loss, and the two of legacy_seq2seq over lists of steps.

Called by: library.contrib.legacy_seq2seq, programs.  Threads: as graph.
Source: behaviour of TF 1.15 (contrib/seq2seq/python/ops/loss.py, contrib/legacy_seq2seq)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.arithmetic import div_no_nan
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import count_nonzero, reduce_sum
from headrace.ops.math.sums import add_n
from headrace.ops.nn.softmax import sparse_softmax_cross_entropy_with_logits

__all__ = ["legacy_sequence_loss", "sequence_loss", "sequence_loss_by_example"]

LossFunction = Callable[..., Any]
_SMALL = 1e-12  # so that weights of 0 divide


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: LossFunction | None = None,
    name: str | None = None,
) -> Any:
    """Weighted cross entropy of logits [batch, time, classes] and targets [batch, time].

    A scalar if averaged (or summed) over both, [batch], [time] or [batch, time] else.  A sum is divided by how many
    weights are not 0.  softmax_loss_function(labels=, logits=): in the place of the sparse softmax's.
    Raises ValueError.
    """
    logits, targets, weights = convert(logits), convert(targets), convert(weights)
    for tensor, rank, says in (
        (logits, 3, "Logits must be a [batch_size x sequence_length x logits] tensor"),
        (targets, 2, "Targets must be a [batch_size x sequence_length] tensor"),
        (weights, 2, "Weights must be a [batch_size x sequence_length] tensor"),
    ):
        if tensor.raw_shape is not None and len(tensor.raw_shape) != rank:
            raise ValueError(f"{says}: {tensor.name} has shape {tensor.shape}")
    for one, other, what in (
        (average_across_timesteps, sum_over_timesteps, "timesteps"),
        (average_across_batch, sum_over_batch, "batch"),
    ):
        if one and other:
            raise ValueError(
                f"average_across_{what} and sum_over_{what} cannot be set to True at same time."
            )
    averaged = [at for at, on in enumerate((average_across_batch, average_across_timesteps)) if on]
    over = averaged or [at for at, on in enumerate((sum_over_batch, sum_over_timesteps)) if on]
    with name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = reshape(logits, [-1, shape_of(logits)[2]])
        found = _cross_entropy(flat, reshape(targets, [-1]), softmax_loss_function)
        found = reshape(found * reshape(weights, [-1]), shape_of(logits)[0:2])
        if not over:
            found.set_shape(logits.shape[:2])
            return found
        found = reduce_sum(found, axis=over)
        if not averaged:
            return div_no_nan(found, cast(count_nonzero(weights, axis=over), found.dtype))
        return found / (reduce_sum(weights, axis=over) + _SMALL)


def _cross_entropy(logits: Any, labels: Any, function: LossFunction | None) -> Any:
    return (function or sparse_softmax_cross_entropy_with_logits)(labels=labels, logits=logits)


def check_steps(**given: Any) -> None:
    """Raises TypeError unless each is a list, of a tensor a step."""
    for name, each in given.items():
        if not isinstance(each, (list, tuple)):
            raise TypeError(f"{name} must be a list of tensors, one for each step, and is {each!r}")


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: LossFunction | None = None,
    name: str | None = None,
) -> Any:
    """Weighted cross entropy of each sequence, [batch].

    logits: [batch, classes] a step; targets, weights: [batch] a step.  Raises ValueError.
    """
    check_steps(logits=logits, targets=targets, weights=weights)
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            "Lengths of logits, weights, and targets must be the same "
            f"{len(logits)}, {len(weights)}, {len(targets)}."
        )
    with name_scope(name, "sequence_loss_by_example", [*logits, *targets, *weights]):
        found = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                target = reshape(target, [-1])
            found.append(_cross_entropy(logit, target, softmax_loss_function) * weight)
        total = add_n(found)
        if average_across_timesteps:
            total = total / (add_n(list(weights)) + _SMALL)
        return total


def legacy_sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: LossFunction | None = None,
    name: str | None = None,
) -> Any:
    """The sum of `sequence_loss_by_example`, divided by the batch's size if average_across_batch.

    Raises ValueError.
    """
    check_steps(logits=logits, targets=targets, weights=weights)
    with name_scope(name, "sequence_loss", [*logits, *targets, *weights]):
        total = reduce_sum(
            sequence_loss_by_example(
                logits,
                targets,
                weights,
                average_across_timesteps=average_across_timesteps,
                softmax_loss_function=softmax_loss_function,
            )
        )
        if average_across_batch:
            total = total / cast(shape_of(targets[0])[0], total.dtype)
        return total
