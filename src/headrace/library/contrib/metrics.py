"""`tf.contrib.metrics`, `slim.metrics`: as tf.metrics, with predictions before labels.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from headrace.base import dtypes
from headrace.base.arguments import check_mapping
from headrace.graph.convert import convert
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.metrics import classes, confusion, means, thresholds, top_k
from headrace.library.metrics.streams import (
    Metric,
    Names,
    as_floats,
    collected,
    fitting,
    metric_variable,
)
from headrace.library.metrics.top_k import recall_at_top_k
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.assigning import assign_add
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.shapes import size as size_of
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast, to_float
from headrace.ops.math.comparisons import equal
from headrace.ops.math.reductions import reduce_mean, reduce_sum
from headrace.ops.tables import make

__all__ = [
    "accuracy",
    "aggregate_metric_map",
    "aggregate_metrics",
    "count",
    "sparse_recall_at_top_k",
    "streaming_accuracy",
    "streaming_auc",
    "streaming_false_negatives",
    "streaming_false_negatives_at_thresholds",
    "streaming_false_positives",
    "streaming_false_positives_at_thresholds",
    "streaming_mean",
    "streaming_mean_absolute_error",
    "streaming_mean_cosine_distance",
    "streaming_mean_iou",
    "streaming_mean_relative_error",
    "streaming_mean_squared_error",
    "streaming_mean_tensor",
    "streaming_percentage_less",
    "streaming_precision",
    "streaming_precision_at_thresholds",
    "streaming_recall",
    "streaming_recall_at_k",
    "streaming_recall_at_thresholds",
    "streaming_root_mean_squared_error",
    "streaming_sensitivity_at_specificity",
    "streaming_sparse_average_precision_at_k",
    "streaming_sparse_precision_at_k",
    "streaming_sparse_precision_at_top_k",
    "streaming_sparse_recall_at_k",
    "streaming_specificity_at_sensitivity",
    "streaming_true_negatives",
    "streaming_true_negatives_at_thresholds",
    "streaming_true_positives",
    "streaming_true_positives_at_thresholds",
]


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Tensor:
    """What share of the predictions is right.

    weights: how much each counts.  Raises ValueError: labels are no numbers of classes, types that differ.
    """
    guesses, truth = convert(predictions), convert(labels)
    kind = truth.dtype.base_dtype
    if not (kind.is_integer or kind in (dtypes.bool, dtypes.string)):
        raise ValueError(f"Labels should have bool, integer, or string dtype, not {truth.dtype!r}")
    if not truth.shape.is_compatible_with(guesses.shape):
        raise ValueError(f"Shapes {guesses.shape} and {truth.shape} are incompatible")
    if guesses.dtype != truth.dtype:
        raise ValueError(
            f"Dtypes of predictions and labels should match. Given: predictions ({guesses.dtype!r}) and labels "
            f"({truth.dtype!r})"
        )
    with name_scope(name, "accuracy", [guesses, truth]):
        right = cast(equal(guesses, truth), dtypes.float32)
        if weights is None:
            return reduce_mean(right)  # type: ignore[no-any-return]
        right = make.Mul(right, weights)
        counted = make.Mul(to_float(weights), make.OnesLike(right))
        return make.RealDiv(reduce_sum(right), reduce_sum(counted), name="div")  # type: ignore[no-any-return]


def aggregate_metrics(*value_update_tuples: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """(values, updates) of several metrics.  Raises ValueError: there are none."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(
    names_to_tuples: Mapping[str, tuple[Any, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(values by name, updates by name) of several metrics."""
    check_mapping(
        "aggregate_metric_map", "names_to_tuples", names_to_tuples, "(value, update) by names"
    )
    if not names_to_tuples:
        raise ValueError("aggregate_metric_map: names_to_tuples has no metric")
    values, updates = zip(*names_to_tuples.values(), strict=True)
    return (
        dict(zip(names_to_tuples, values, strict=True)),
        dict(zip(names_to_tuples, updates, strict=True)),
    )


def _swapped(function: Callable[..., Any], first: str = "predictions") -> Callable[..., Any]:
    """A metric of tf.metrics that takes predictions before labels."""
    labels, guesses, *others = inspect.signature(function).parameters.values()
    parameters = [guesses.replace(name=first), labels, *others]
    signature = inspect.Signature(parameters)

    def metric(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        predictions, truth = given.pop(first), given.pop(labels.name)
        return function(truth, predictions, **given)

    metric.__name__ = metric.__qualname__ = f"streaming_{function.__name__}"
    metric.__doc__ = f"`tf.metrics.{function.__name__}`, with predictions before labels."
    metric.__signature__ = signature  # type: ignore[attr-defined]
    return metric


streaming_accuracy = _swapped(means.accuracy)
streaming_auc = _swapped(thresholds.auc)
streaming_false_negatives = _swapped(confusion.false_negatives)
streaming_false_negatives_at_thresholds = _swapped(thresholds.false_negatives_at_thresholds)
streaming_false_positives = _swapped(confusion.false_positives)
streaming_false_positives_at_thresholds = _swapped(thresholds.false_positives_at_thresholds)
streaming_mean = means.mean
streaming_mean_absolute_error = _swapped(means.mean_absolute_error)
streaming_mean_cosine_distance = _swapped(means.mean_cosine_distance)
streaming_mean_iou = _swapped(classes.mean_iou)
streaming_mean_relative_error = _swapped(means.mean_relative_error)
streaming_mean_squared_error = _swapped(means.mean_squared_error)
streaming_mean_tensor = means.mean_tensor
streaming_percentage_less = means.percentage_below
streaming_precision = _swapped(confusion.precision)
streaming_precision_at_thresholds = _swapped(thresholds.precision_at_thresholds)
streaming_recall = _swapped(confusion.recall)
streaming_recall_at_thresholds = _swapped(thresholds.recall_at_thresholds)
streaming_root_mean_squared_error = _swapped(means.root_mean_squared_error)
streaming_sensitivity_at_specificity = _swapped(thresholds.sensitivity_at_specificity)
streaming_sparse_average_precision_at_k = _swapped(top_k.average_precision_at_k)
streaming_sparse_precision_at_k = _swapped(top_k.precision_at_k)
streaming_sparse_precision_at_top_k = _swapped(top_k.precision_at_top_k, "top_k_predictions")
streaming_sparse_recall_at_k = _swapped(top_k.recall_at_k)
streaming_specificity_at_sensitivity = _swapped(thresholds.specificity_at_sensitivity)
streaming_true_negatives = _swapped(confusion.true_negatives)
streaming_true_negatives_at_thresholds = _swapped(thresholds.true_negatives_at_thresholds)
streaming_true_positives = _swapped(confusion.true_positives)
streaming_true_positives_at_thresholds = _swapped(thresholds.true_positives_at_thresholds)


def streaming_recall_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Any:
    """How often the label [n] is among the k classes with the largest predictions [n, classes]."""
    found = to_float(make.InTopK(predictions, labels, k=k))
    return means.mean(
        found, weights, metrics_collections, updates_collections, name or f"recall_at_{k}"
    )


def count(
    values: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How many values there were, or the sum of their weights: a scalar float32."""
    with variable_scope(name, "count", (values, weights)):
        total = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            number = cast(size_of(convert(values)), dtypes.float32)
        else:
            found, _, weights = fitting(as_floats(values), weights=weights)
            number = reduce_sum(broadcast_weights(as_floats(weights), found))
        metric = identity(total), assign_add(total, number)
        return collected(metric, metrics_collections, updates_collections)


def sparse_recall_at_top_k(
    labels: Any,
    top_k_predictions: Any,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """`tf.metrics.recall_at_top_k`."""
    return recall_at_top_k(
        labels,
        top_k_predictions,
        None,
        class_id,
        weights,
        metrics_collections,
        updates_collections,
        name,
    )
