"""Losses of pairs, and losses over replicas.

Called by: programs.  Threads: as graph.
Source: behaviour of TF 1.15 (python/ops/losses/losses_impl.py, python/ops/nn_impl.py); nodes of the first as 2.21
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert_to_tensor
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.tensor import Tensor
from headrace.library.nn.losses import add_loss
from headrace.library.nn.weights_broadcast import assert_broadcastable, broadcast_weights
from headrace.ops.array.constants import ones_like, zeros_like
from headrace.ops.array.ranges import range as numbers
from headrace.ops.array.shapes import rank
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.arithmetic import div_no_nan, maximum, multiply, subtract
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal, greater
from headrace.ops.math.magnitudes import square
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = ["compute_average_loss", "mean_pairwise_squared_error", "scale_regularization_loss"]


def _present(losses: Tensor, weights: Tensor) -> Tensor:
    """How many losses of each batch have a weight other than 0."""
    with name_scope(None, "num_present", [losses, weights]) as scope:
        absent = equal(weights, 0.0)
        ones = make.Select(absent, zeros_like(weights), ones_like(weights))
        counted = broadcast_weights(ones, losses)
        axes = numbers(1, rank(losses))
        made: Tensor = reduce_sum(counted, axis=axes, keepdims=True, name=scope)
        return made


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """How far the differences between the entries of each row of predictions [batch, ...] are from those of labels.

    weights: a scalar, or of one entry a row.  Raises ValueError.
    """
    for name, value in (("labels", labels), ("predictions", predictions)):
        if value is None:
            raise ValueError(f"{name} must not be None.")
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        weights = cast(weights, dtypes.float32)
        labels = cast(labels, dtypes.float32)
        check = assert_broadcastable(weights, labels)
        with control_dependencies([check]):
            predictions = cast(predictions, dtypes.float32)
            predictions.shape.assert_is_compatible_with(labels.shape)
            off = subtract(predictions, labels)
            axes = numbers(1, rank(off))
            squares = reduce_sum(square(off), axis=axes, keepdims=True)
            count = _present(off, weights)
            one = 2.0 * div_no_nan(squares, maximum(count - 1, 0), name="value")
            total = reduce_sum(off, axis=axes, keepdims=True)
            pairs = maximum(multiply(count, count - 1), 0)
            two = 2.0 * div_no_nan(square(total), pairs, name="value")
            weighted = multiply(one - two, weights)
            loss = reduce_sum(weighted)
            some = greater(reduce_sum(count), 0)
            made: Tensor = make.Select(some, loss, zeros_like(loss), name="value")
            add_loss(made, loss_collection)
            return made


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """The sum of the losses of examples, weighted, over global_batch_size, or how many there are."""
    losses = convert_to_tensor(per_example_loss)
    kind = losses.dtype.base_dtype
    if sample_weight is not None:
        weights = cast(convert_to_tensor(sample_weight), kind)
        losses = multiply(losses, weights)
    if global_batch_size is None:
        global_batch_size = shape_of(losses)[0]
    made: Tensor = div_no_nan(reduce_sum(losses), cast(global_batch_size, kind))
    return made


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """The sum of the loss: there is one replica, whose part is all of it."""
    made: Tensor = reduce_sum(regularization_loss)
    return made
