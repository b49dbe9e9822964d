"""Metrics of predictions that are one of several classes.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes are the oracle's.
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.library.metrics.streams import (
    Metric,
    Names,
    as_floats,
    collected,
    flat,
    metric_variable,
    ratio,
)
from headrace.library.sorting import confusion_matrix
from headrace.library.variables.assigning import assign_add, scatter_add
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import ones, ones_like
from headrace.ops.array.gathering import where
from headrace.ops.array.shapes import size
from headrace.ops.linalg.bands import diag_part
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_mean, reduce_sum
from headrace.ops.tables import make

__all__ = ["mean_iou", "mean_per_class_accuracy"]


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean over classes of intersection over union: of how many are the class and predicted so, over one of both.

    The update is the matrix of labels (rows) and predictions (columns), [num_classes, num_classes] float64.
    """
    with variable_scope(name, "mean_iou", (predictions, labels, weights)):
        predictions, labels = convert(predictions), convert(labels)
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
        matrix = metric_variable(
            [num_classes, num_classes], dtypes.float64, name="total_confusion_matrix"
        )
        predictions, labels = cast(predictions, dtypes.int64), cast(labels, dtypes.int64)
        count = cast(num_classes, dtypes.int64)
        predictions, labels = flat(predictions), flat(labels)
        if weights is not None:
            weights = flat(convert(weights))
        more = confusion_matrix(labels, predictions, count, weights=weights, dtype=dtypes.float64)
        update = assign_add(matrix, more)
        found = _mean_of_unions(matrix), update
    return collected(found, metrics_collections, updates_collections)


def _mean_of_unions(matrix: Any) -> Any:
    predicted = as_floats(reduce_sum(matrix, 0))
    labelled = as_floats(reduce_sum(matrix, 1))
    both = as_floats(diag_part(matrix))
    union = predicted + labelled - both
    number = reduce_sum(as_floats(make.NotEqual(union, 0.0)))
    union = where(make.Greater(union, 0.0), union, ones_like(union))
    share = both / union
    return where(make.Greater(number, 0.0), reduce_sum(share, name="mean_iou") / number, 0.0)


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The mean over classes of how often labels of the class are predicted.  The update is that of each class."""
    with variable_scope(name, "mean_accuracy", (predictions, labels, weights)):
        labels, predictions = cast(labels, dtypes.int64), convert(predictions)
        labels, predictions = flat(labels), flat(predictions)
        predictions.get_shape().assert_is_compatible_with(labels.get_shape())
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        number = ones([size(labels)], dtypes.float32)
        if labels.dtype != predictions.dtype:
            predictions = cast(predictions, labels.dtype)
        right = as_floats(make.Equal(predictions, labels))
        if weights is not None:
            weights = as_floats(flat(convert(weights)))
            right = right * weights
            number = number * weights
        more = scatter_add(total, labels, number)
        counted = scatter_add(count, labels, right)
        value = reduce_mean(ratio(count, total, "div_no_nan"), name="mean_accuracy")
        found = value, ratio(counted, more, "update_op")
    return collected(found, metrics_collections, updates_collections)
