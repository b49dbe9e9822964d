"""tf.losses: losses that are weighted, reduced and collected.

Each adds its loss to a collection (LOSSES) that `get_total_loss` sums up.
Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes checked against the oracle
"""

from __future__ import annotations

from typing import Any, Final

from headrace.base import dtypes, shapes
from headrace.base.arguments import check_python_number
from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.nn.weights_broadcast import assert_broadcastable, broadcast_weights
from headrace.library.surplus import weights_as, without_surplus
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.flow.identities import stop_gradient
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.sums import add_n
from headrace.ops.nn.basics import sigmoid_cross_entropy_with_logits
from headrace.ops.nn.softmax import (
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
)
from headrace.ops.tables import make

__all__ = [
    "Reduction",
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_loss",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


class Reduction:
    """How the weighted losses become the loss."""

    NONE: Final = "none"
    SUM: Final = "weighted_sum"
    MEAN: Final = "weighted_mean"
    SUM_OVER_BATCH_SIZE: Final = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS: Final = "weighted_sum_by_nonzero_weights"
    SUM_BY_NONZERO_WEIGHTS: Final = "weighted_sum_by_nonzero_weights"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Every reduction."""
        return (
            cls.NONE,
            cls.SUM,
            cls.MEAN,
            cls.SUM_OVER_BATCH_SIZE,
            cls.SUM_OVER_NONZERO_WEIGHTS,
            cls.SUM_BY_NONZERO_WEIGHTS,
        )

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises ValueError if there is no such reduction."""
        if key not in cls.all():
            raise ValueError(
                f"Invalid Reduction Key {key}: it is one of {', '.join(sorted({*cls.all()}))}"
            )


_BY_WEIGHTS = Reduction.SUM_BY_NONZERO_WEIGHTS


# -- the collection ---------------------------------------------------------------------------


def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Put `loss` among those that `get_total_loss` sums up."""
    if loss_collection:
        scopes.get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    """The collected losses; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    """The regularization losses; `scope`: only names that match this regex."""
    return scopes.get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """The sum of the regularization losses, 0 if there is none."""
    losses = get_regularization_losses(scope)
    return _sum(losses, name) if losses else constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """The sum of the collected losses.  Raises ValueError if there is none."""
    losses = get_losses(scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope)
    return _sum(losses, name)


def _sum(losses: list[Any], name: str) -> Tensor:
    total: Tensor = add_n(losses, name=name)
    return total


# -- weighting and reducing -------------------------------------------------------------------


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """losses * weights, reduced and collected.

    weights: a scalar, or of the rank of losses with sizes 1 or equal.  Raises ValueError.
    """
    Reduction.validate(reduction)
    with name_scope(scope, "weighted_loss", [losses, weights]):
        check = assert_broadcastable(weights, losses)
        with scopes.get_default_graph().control_dependencies([check]):
            losses = convert(losses)
            kind = losses.dtype.base_dtype
            losses = cast(losses, dtypes.float32)
            weights = cast(weights, dtypes.float32)
            loss: Tensor = cast(_reduced(losses, weights, reduction), kind)
            add_loss(loss, loss_collection)
            return loss


def _reduced(losses: Tensor, weights: Tensor, reduction: str) -> Tensor:
    weighted: Tensor = make.Mul(losses, weights)
    if reduction == Reduction.NONE:
        return weighted
    total: Tensor = reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        return _per(total, reduce_sum(ones_like(losses) * weights))
    if reduction == Reduction.SUM_OVER_BATCH_SIZE:
        return _per(total, _elements(losses))
    if reduction == Reduction.SUM:
        return total
    return _per(total, _present(losses, weights))


def _per(total: Tensor, count: Tensor) -> Tensor:
    """total / count, 0 where nothing counts."""
    result: Tensor = make.DivNoNan(reduce_sum(total), count, name="value")
    return result


def _elements(losses: Tensor) -> Tensor:
    with name_scope(None, "num_elements", [losses]) as scope:
        count: Tensor = cast(size_of(losses, name=scope), losses.dtype.base_dtype)
        return count


def _present(losses: Tensor, weights: Tensor) -> Tensor:
    """How many losses have a weight other than 0."""
    with name_scope(None, "num_present", [losses, weights]) as scope:
        absent = make.Equal(weights, 0.0)
        ones = make.Select(absent, zeros_like(weights), ones_like(weights))
        count: Tensor = reduce_sum(broadcast_weights(ones, losses), name=scope)
        return count


def _alike(a: Tensor, b: Tensor, what: str) -> None:
    if not shapes.compatible(a.raw_shape, b.raw_shape):
        raise ValueError(
            f"Shapes {a.shape} and {b.shape} are incompatible: {what} must have one shape, and these are those of "
            f"{a.name} and {b.name}"
        )


def _given(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is None:
            raise ValueError(f"Argument `{name}` must not be None: a loss needs it")


# -- losses -----------------------------------------------------------------------------------


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """|predictions - labels|, weighted."""
    _given(labels=labels, predictions=predictions)
    with name_scope(scope, "absolute_difference", [predictions, labels, weights]) as inner:
        predictions, labels = _floats(predictions, labels)
        losses = make.Abs(make.Sub(predictions, labels))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def _floats(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    predictions = cast(predictions, dtypes.float32)
    labels = cast(labels, dtypes.float32)
    _alike(predictions, labels, "predictions and labels")
    return predictions, labels


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """(predictions - labels) ** 2, weighted."""
    _given(labels=labels, predictions=predictions)
    with name_scope(scope, "mean_squared_error", [predictions, labels, weights]) as inner:
        predictions, labels = _floats(predictions, labels)
        losses = make.SquaredDifference(predictions, labels)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """-labels log(predictions) - (1 - labels) log(1 - predictions), weighted; epsilon keeps logs finite."""
    _given(labels=labels, predictions=predictions)
    with name_scope(scope, "log_loss", [predictions, labels, weights]) as inner:
        predictions, labels = _floats(predictions, labels)
        first = -make.Mul(labels, make.Log(predictions + epsilon))
        second = make.Mul(1 - labels, make.Log(1 - predictions + epsilon))
        return compute_weighted_loss(first - second, weights, inner, loss_collection, reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
    dim: int | None = None,
) -> Tensor:
    """1 - the inner product along `axis`, weighted; labels and predictions are unit vectors there."""
    at = dim if axis is None else axis
    if at is None:
        raise ValueError("You must specify argument `axis`: cosine_distance needs it")
    _given(labels=labels, predictions=predictions)
    with name_scope(scope, "cosine_distance_loss", [predictions, labels, weights]) as inner:
        predictions, labels = _floats(predictions, labels)
        losses = 1 - reduce_sum(make.Mul(predictions, labels), axis=(at,), keepdims=True)
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """max(0, 1 - (2 labels - 1) logits), weighted; labels are 0 or 1."""
    _given(labels=labels, logits=logits)
    with name_scope(scope, "hinge_loss", [logits, labels, weights]) as inner:
        logits, labels = _floats(logits, labels)
        ones = ones_like(labels)
        signs = make.Sub(2 * labels, ones)
        losses = make.Relu(make.Sub(ones, make.Mul(signs, logits)))
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Half the square of the error up to `delta`, linear beyond, weighted."""
    _given(labels=labels, predictions=predictions)
    with name_scope(scope, "huber_loss", [predictions, labels, weights]) as inner:
        predictions, labels = _floats(predictions, labels)
        error = make.Abs(make.Sub(predictions, labels))
        quadratic = make.Minimum(error, delta)
        linear = make.Sub(error, quadratic)
        half = convert(0.5, quadratic.dtype)
        curved = make.Mul(half, make.Mul(quadratic, quadratic))
        losses = make.AddV2(curved, make.Mul(delta, linear), name="Add")
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Sigmoid cross entropy, weighted; label_smoothing moves labels that much towards 1/2."""
    _given(multi_class_labels=multi_class_labels, logits=logits)
    inputs = [logits, multi_class_labels, weights]
    with name_scope(scope, "sigmoid_cross_entropy_loss", inputs) as inner:
        logits = convert(logits)
        labels = cast(multi_class_labels, logits.dtype.base_dtype)
        _alike(logits, labels, "logits and labels")
        check_python_number("sigmoid_cross_entropy", "label_smoothing", label_smoothing)
        if label_smoothing > 0:
            labels = labels * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Softmax cross entropy, weighted; label_smoothing spreads that share over all classes."""
    _given(onehot_labels=onehot_labels, logits=logits)
    with name_scope(scope, "softmax_cross_entropy_loss", [logits, onehot_labels, weights]) as inner:
        logits = convert(logits)
        kind = logits.dtype.base_dtype
        labels = cast(onehot_labels, kind)
        _alike(logits, labels, "logits and labels")
        check_python_number("softmax_cross_entropy", "label_smoothing", label_smoothing)
        if label_smoothing > 0:
            classes = cast(shape_of(labels)[-1], kind)
            spread = label_smoothing / classes
            labels = labels * (1.0 - label_smoothing) + spread
        fixed = stop_gradient(labels, name="labels_stop_gradient")
        losses = softmax_cross_entropy_with_logits_v2(labels=fixed, logits=logits, name="xentropy")
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = _BY_WEIGHTS,
) -> Tensor:
    """Softmax cross entropy at class numbers, weighted; labels may have a last dimension of 1."""
    _given(labels=labels, logits=logits)
    inputs = [logits, labels, weights]
    with name_scope(scope, "sparse_softmax_cross_entropy_loss", inputs) as inner:
        labels, logits, weights = _squeezed(labels, logits, weights)
        losses = sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, inner, loss_collection, reduction)


def _squeezed(labels: Any, logits: Any, weights: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Without a last dimension of 1 where it makes labels have one dimension less than logits."""
    with name_scope(None, "remove_squeezable_dimensions", [labels, logits]):
        logits, labels = convert(logits), convert(labels)
        labels, logits = without_surplus(labels, logits, classes=1)
    return labels, logits, weights_as(convert(weights), labels)
