"""Metrics that are means: of values, of errors, of how often something holds.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes are the oracle's.
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.library.metrics.streams import (
    Metric,
    Names,
    added,
    as_floats,
    collected,
    fitting,
    metric_variable,
    ratio,
    squeezed,
)
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.assigning import assign_add
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import ones_like, zeros_like
from headrace.ops.array.gathering import where
from headrace.ops.array.shapes import size
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = [
    "accuracy",
    "mean",
    "mean_absolute_error",
    "mean_cosine_distance",
    "mean_relative_error",
    "mean_squared_error",
    "mean_tensor",
    "percentage_below",
    "root_mean_squared_error",
]


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean of all values so far, by weight: a scalar float32, 0 before the first.

    weights: a scalar, or what broadcasts to the values.  metrics_collections, updates_collections: what the value and
    the update are added to.  Raises ValueError if weights do not fit.
    """
    with variable_scope(name, "mean", (values, weights)):
        values = as_floats(values)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            number = cast(size(values), dtypes.float32)
        else:
            values, _, weights = fitting(values, weights=weights)
            weights = broadcast_weights(as_floats(weights), values)
            values = make.Mul(values, weights)
            number = reduce_sum(weights)
        more = added(total, values)
        with scopes.get_default_graph().control_dependencies([values]):
            counted = assign_add(count, number)
        value = ratio(total, count, "value")
        found = value, ratio(more, counted, "update_op")
    return collected(found, metrics_collections, updates_collections)


def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean of each element, by weight: float32 in the values' shape, which has to be known."""
    with variable_scope(name, "mean", (values, weights)):
        values = as_floats(values)
        total = metric_variable(values.get_shape(), dtypes.float32, name="total_tensor")
        count = metric_variable(values.get_shape(), dtypes.float32, name="count_tensor")
        number = ones_like(values)
        if weights is not None:
            values, _, weights = fitting(values, weights=weights)
            weights = broadcast_weights(as_floats(weights), values)
            values = make.Mul(values, weights)
            number = make.Mul(number, weights)
        more = assign_add(total, values)
        with scopes.get_default_graph().control_dependencies([values]):
            counted = assign_add(count, number)
        value = ratio(total, count, "value")
        found = value, ratio(more, counted, "update_op")
    return collected(found, metrics_collections, updates_collections)


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How often predictions are the labels.  Raises ValueError: shapes do not fit, or there are no labels."""
    if labels is None:
        raise ValueError("None values not supported: accuracy needs labels")
    predictions, labels, weights = fitting(predictions, labels, weights)
    if labels.dtype != predictions.dtype:
        predictions = cast(predictions, labels.dtype)
    right = as_floats(make.Equal(predictions, labels))
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean of |prediction - label|."""
    predictions, labels, weights = fitting(predictions, labels, weights)
    errors = make.Abs(predictions - labels)
    return mean(
        errors, weights, metrics_collections, updates_collections, name or "mean_absolute_error"
    )


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean of (prediction - label)²."""
    predictions, labels, weights = fitting(predictions, labels, weights)
    errors = make.SquaredDifference(labels, predictions)
    return mean(
        errors, weights, metrics_collections, updates_collections, name or "mean_squared_error"
    )


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The root of the mean of (prediction - label)²."""
    predictions, labels, weights = fitting(predictions, labels, weights)
    value, update = mean_squared_error(
        labels, predictions, weights, name=name or "root_mean_squared_error"
    )
    found = make.Sqrt(value), make.Sqrt(update)
    return collected(found, metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean of |label - prediction| / normalizer; of 0 where the normalizer is 0."""
    predictions, labels, weights = fitting(predictions, labels, weights)
    predictions, normalizer = squeezed(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    zero = make.Equal(normalizer, 0.0)
    errors = where(zero, zeros_like(labels), make.Abs(labels - predictions) / normalizer)
    return mean(
        errors, weights, metrics_collections, updates_collections, name or "mean_relative_error"
    )


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """1 - the mean of the products of labels and predictions, both of length 1, summed along `dim`."""
    predictions, labels, weights = fitting(predictions, labels, weights)
    cosines = reduce_sum(make.Mul(predictions, labels), [dim], keepdims=True)
    value, update = mean(cosines, weights, name=name or "mean_cosine_distance")
    found = make.Sub(1.0, value), make.Sub(1.0, update)
    return collected(found, metrics_collections, updates_collections)


def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How often values are below the threshold."""
    below = as_floats(make.Less(values, threshold))
    return mean(
        below,
        weights,
        metrics_collections,
        updates_collections,
        name or "percentage_below_threshold",
    )
