"""`tf.contrib.losses`, `slim.losses`: as tf.losses, with predictions before labels and weights by example.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare values, names and collections with tf-slim's.
"""

from __future__ import annotations

from typing import Any

from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import get_collection, name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.contrib.arg_scope import add_arg_scope
from headrace.library.nn import losses
from headrace.ops.array.shapes import reshape
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.math.casting import to_float
from headrace.ops.math.reductions import reduce_prod, reduce_sum
from headrace.ops.math.sums import add_n
from headrace.ops.nn.activations import relu
from headrace.ops.tables import make

__all__ = [
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


def _spread(weights: Any, rank: int | None) -> Any:
    """Weights of examples as weights of all that belongs to them."""
    if weights is None:
        raise ValueError("`weights` cannot be None: None values not supported.")
    given = to_float(weights)
    own = given.shape.ndims
    if own is None or rank is None or own == 0 or own >= rank:
        return given
    return reshape(
        given, [*(-1 if n is None else n for n in given.shape.as_list()), *[1] * (rank - own)]
    )


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: Any = None) -> Tensor:
    """The mean of losses, each times its weight, over those whose weight is not 0; put into LOSSES.

    weights: a number, [n], or as many dimensions as `losses` [n, …].  Raises ValueError: None, shapes that do not fit.
    """
    with name_scope(scope, "weighted_loss", [losses, weights]) as inner:
        values = to_float(convert(losses))
        return _mean(values, weights, inner)


def _mean(values: Tensor, weights: Any, scope: str) -> Tensor:
    found: Tensor = losses.compute_weighted_loss(
        values, _spread(weights, values.shape.ndims), scope=scope
    )
    return found


@add_arg_scope
def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Put a loss into the collection."""
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """Those of the collection, in that scope."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """The penalties, in that scope."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss") -> Tensor:
    """The sum of all losses, and of penalties.  Raises ValueError: there are none."""
    found = get_losses()
    if add_regularization_losses:
        found = found + get_regularization_losses()
    return add_n(found, name=name)


def absolute_difference(
    predictions: Any,
    labels: Any = None,
    weights: Any = 1.0,
    scope: Any = None,
) -> Tensor:
    """The mean of |predictions - labels|."""
    values = convert(predictions)
    found: Tensor = losses.absolute_difference(
        labels, values, weights=_spread(weights, values.shape.ndims), scope=scope
    )
    return found


def mean_squared_error(
    predictions: Any,
    labels: Any = None,
    weights: Any = 1.0,
    scope: Any = None,
) -> Tensor:
    """The mean of (predictions - labels)²."""
    values = convert(predictions)
    found: Tensor = losses.mean_squared_error(
        labels, values, weights=_spread(weights, values.shape.ndims), scope=scope
    )
    return found


def log_loss(
    predictions: Any,
    labels: Any = None,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: Any = None,
) -> Tensor:
    """The mean of -log of what was predicted for what is true."""
    values = convert(predictions)
    found: Tensor = losses.log_loss(
        labels, values, weights=_spread(weights, values.shape.ndims), epsilon=epsilon, scope=scope
    )
    return found


def sigmoid_cross_entropy(
    logits: Any,
    multi_class_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
) -> Tensor:
    """The mean of the cross entropies of independent classes [n, classes]."""
    values = convert(logits)
    found: Tensor = losses.sigmoid_cross_entropy(
        multi_class_labels,
        values,
        weights=_spread(weights, values.shape.ndims),
        label_smoothing=label_smoothing,
        scope=scope,
    )
    return found


def softmax_cross_entropy(
    logits: Any,
    onehot_labels: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
) -> Tensor:
    """The mean of the cross entropies of classes of which one is right [n, classes]."""
    values = convert(logits)
    found: Tensor = losses.softmax_cross_entropy(
        onehot_labels,
        values,
        weights=_spread(weights, 1),
        label_smoothing=label_smoothing,
        scope=scope,
    )
    return found


def sparse_softmax_cross_entropy(
    logits: Any, labels: Any, weights: Any = 1.0, scope: Any = None
) -> Tensor:
    """The mean of the cross entropies of classes of which `labels` [n] says which is right."""
    numbers = convert(labels)
    numbers = reshape(numbers, [-1]) if numbers.shape.ndims == 2 else numbers
    given = _spread(weights, 1)
    if given.shape.ndims == 2:
        given = reshape(given, [-1])
    found: Tensor = losses.sparse_softmax_cross_entropy(
        numbers, convert(logits), weights=given, scope=scope
    )
    return found


def hinge_loss(logits: Any, labels: Any = None, scope: Any = None) -> Tensor:
    """max(0, 1 - logits) where the label is 1, max(0, 1 + logits) where it is 0: for each, in no collection."""
    with name_scope(scope, "hinge_loss", [logits, labels]):
        values = convert(logits)
        signs = 2 * to_float(convert(labels)) - 1.0
        found: Tensor = relu(1.0 - signs * values)
        return found


def mean_pairwise_squared_error(
    predictions: Any, labels: Any = None, weights: Any = 1.0, scope: Any = None
) -> Tensor:
    """The sum over examples of the mean of ((a - b) of predictions - (a - b) of labels)² over pairs in each.

    A pair of an element with itself counts too.  weights: a number, or [n].
    """
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        values, wanted = to_float(predictions), to_float(labels)
        values.shape.assert_is_compatible_with(wanted.shape)
        given = _spread(weights, 1)
        apart = values - wanted
        axes = list(range(1, apart.shape.ndims or 1))
        count = to_float(reduce_prod(shape_of(apart)[1:]))
        squares = make.DivNoNan(reduce_sum(make.Square(apart), axes), count, name="value")
        total = make.Square(reduce_sum(apart, axes))
        square = make.DivNoNan(total, make.Square(count), name="value")
        found: Tensor = reduce_sum((2.0 * squares - 2.0 * square) * given, name="value")
        get_default_graph().add_to_collection(GraphKeys.LOSSES, found)
        return found


def cosine_distance(
    predictions: Any,
    labels: Any = None,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: Any = None,
    dim: int | None = None,
) -> Tensor:
    """The mean of 1 - the product of unit vectors along `axis` (`dim` is its old name)."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    values = convert(predictions)
    given = _spread(weights, values.shape.ndims)
    found: Tensor = losses.cosine_distance(labels, values, axis=axis, weights=given, scope=scope)
    return found
