"""Metrics of tf.contrib of predictions that mean yes above a threshold: shares of errors, curves, the best threshold.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare values with tf-slim's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.tensor import Tensor
from headrace.library.metrics import confusion
from headrace.library.metrics.streams import (
    Metric,
    Names,
    collected,
    metric_variable,
    ratio,
)
from headrace.library.metrics.thresholds import (
    ALL,
    EPSILON,
    check_share,
    counts_at,
    of_counts,
    spread_thresholds,
)
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.array.gathering import where
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import linspace
from headrace.ops.array.shapes import reshape
from headrace.ops.flow.identities import group
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.comparisons import logical_not
from headrace.ops.math.elementwise import floor
from headrace.ops.math.magnitudes import abs as abs_of
from headrace.ops.math.reductions import reduce_max, reduce_sum
from headrace.ops.math.scans import argmax, argmin, cumsum
from headrace.ops.math.segments import unsorted_segment_sum
from headrace.ops.tables import make

__all__ = [
    "PrecisionRecallData",
    "f1_score",
    "precision_at_recall",
    "precision_recall_at_equal_thresholds",
    "recall_at_precision",
    "streaming_curve_points",
    "streaming_false_negative_rate",
    "streaming_false_negative_rate_at_thresholds",
    "streaming_false_positive_rate",
    "streaming_false_positive_rate_at_thresholds",
]


def _rate(wrong: str, right: str, default: str) -> Callable[..., Metric]:
    """The share of what is wrong among labels of one kind."""

    def metric(
        predictions: Any,
        labels: Any,
        weights: Any = None,
        metrics_collections: Names = None,
        updates_collections: Names = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, default, (predictions, labels, weights)):
            (bad, more_bad), (good, more_good) = (
                getattr(confusion, kind)(labels, predictions, weights) for kind in (wrong, right)
            )
            metric = (
                ratio(bad, bad + good, "value"),
                ratio(more_bad, more_bad + more_good, "update_op"),
            )
            return collected(metric, metrics_collections, updates_collections)

    metric.__name__ = metric.__qualname__ = f"streaming_{default}"
    metric.__doc__ = f"{wrong} / ({wrong} + {right}): a scalar float32, 0 before the first."
    return metric


streaming_false_positive_rate = _rate("false_positives", "true_negatives", "false_positive_rate")


streaming_false_negative_rate = _rate("false_negatives", "true_positives", "false_negative_rate")


def _rate_at_thresholds(wrong: str, right: str, default: str) -> Callable[..., Metric]:
    def metric(
        predictions: Any,
        labels: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Names = None,
        updates_collections: Names = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, default, (predictions, labels, weights)):

            def share(at: dict[str, Any], name: str) -> Any:
                return make.RealDiv(at[wrong], EPSILON + at[wrong] + at[right], name=name)

            pair = (wrong, right)
            metric = of_counts(labels, predictions, thresholds, weights, share, pair)
            return collected(metric, metrics_collections, updates_collections)

    metric.__name__ = metric.__qualname__ = f"streaming_{default}"
    metric.__doc__ = f"`streaming_{default.removesuffix('_at_thresholds')}` for each threshold: [thresholds] float32."
    return metric


streaming_false_positive_rate_at_thresholds = _rate_at_thresholds(
    "fp", "tn", "false_positive_rate_at_thresholds"
)


streaming_false_negative_rate_at_thresholds = _rate_at_thresholds(
    "fn", "tp", "false_negative_rate_at_thresholds"
)


def streaming_curve_points(
    labels: Any = None,
    predictions: Any = None,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    curve: str = "ROC",
    name: str | None = None,
) -> Metric:
    """Points of a curve, [num_thresholds, 2]: (false positives, recall) of "ROC", (recall, precision) of "PR".

    Raises ValueError: another curve.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")

    def points(at: dict[str, Any]) -> Tensor:
        tp, fn, tn, fp = (at[each] for each in ALL)
        recall = (tp + EPSILON) / (tp + fn + EPSILON)
        if curve == "ROC":
            x, y = fp / (fp + tn + EPSILON), recall
        else:
            x, y = recall, (tp + EPSILON) / (tp + fp + EPSILON)
        found: Tensor = stack([x, y], axis=1)
        return found

    with variable_scope(name, "curve_points", (labels, predictions, weights)):
        found = counts_at(labels, predictions, spread_thresholds(num_thresholds), weights)
        metric = points(found[0]), group(*found[1].values())
        return collected(metric, metrics_collections, updates_collections)


class PrecisionRecallData(NamedTuple):
    """Counts and shares at thresholds, each [thresholds] float32."""

    tp: Any
    fp: Any
    tn: Any
    fn: Any
    precision: Any
    recall: Any
    thresholds: Any


def precision_recall_at_equal_thresholds(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int | None = None,
    use_locking: bool | None = None,
    name: str | None = None,
) -> tuple[PrecisionRecallData, Any]:
    """Counts, precision and recall at num_thresholds (201) equally far thresholds from 0 to 1, and the update.

    A prediction that is the threshold means yes.  labels: bool.  Work is in proportion to the predictions, and does not
    grow with thresholds.
    """
    number = 201 if num_thresholds is None else num_thresholds
    with variable_scope(
        name, "precision_recall_at_equal_thresholds", (labels, predictions, weights)
    ):
        guesses = reshape(convert(predictions), [-1])
        truth = reshape(cast(labels, dtypes.bool), [-1])
        share = (
            ones_like(guesses)
            if weights is None
            else reshape(
                broadcast_weights(cast(weights, guesses.dtype), convert(predictions)), [-1]
            )
        )
        kind = guesses.dtype
        bins = cast(floor(clip_by_value(guesses, 0.0, 1.0) * (number - 1)), dtypes.int32)
        yes = unsorted_segment_sum(share * cast(truth, kind), bins, number)
        no = unsorted_segment_sum(share * cast(logical_not(truth), kind), bins, number)
        right, wrong = (
            metric_variable([number], kind, name=each) for each in ("tp_buckets", "fp_buckets")
        )
        locking = bool(use_locking)
        updated = (
            right.assign_add(yes, use_locking=locking),
            wrong.assign_add(no, use_locking=locking),
        )
        tp, fp = cumsum(right, reverse=True), cumsum(wrong, reverse=True)
        fn, tn = tp[0] - tp, fp[0] - fp
        floor_of = constant(float(np.finfo(kind.as_numpy_dtype).tiny), kind)
        precision = tp / maximum(floor_of, tp + fp)
        recall = tp / maximum(floor_of, tp + fn)
        limits = cast(linspace(0.0, 1.0, number), kind)
        return PrecisionRecallData(tp, fp, tn, fn, precision, recall, limits), group(*updated)


def _best(
    labels: Any,
    predictions: Any,
    weights: Any,
    num_thresholds: int,
    choose: Callable[[dict[str, Any]], Any],
    collections: tuple[Names, Names],
    scope: tuple[str | None, str],
) -> Metric:
    """What `choose` makes of the counts at thresholds."""
    with variable_scope(*scope, (predictions, labels, weights)):
        limits = spread_thresholds(num_thresholds)
        metric = of_counts(labels, predictions, limits, weights, lambda at, _: choose(at))
        return collected(metric, *collections)


def f1_score(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The largest of 2 precision recall / (precision + recall) among thresholds: a scalar float32."""

    def largest(at: dict[str, Any]) -> Any:
        precision = at["tp"] / (EPSILON + at["tp"] + at["fp"])
        recall = at["tp"] / (EPSILON + at["tp"] + at["fn"])
        return reduce_max(2.0 * precision * recall / (precision + recall + EPSILON))

    into = metrics_collections, updates_collections
    return _best(labels, predictions, weights, num_thresholds, largest, into, (name, "f1"))


def precision_at_recall(
    labels: Any,
    predictions: Any,
    target_recall: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The precision at the highest threshold of recall target_recall or more.  Raises ValueError: not in [0, 1]."""
    check_share("target_recall", target_recall)

    def highest(at: dict[str, Any]) -> Any:
        recall = at["tp"] / (at["tp"] + at["fn"] + EPSILON)
        place = reduce_sum(cast(recall >= target_recall, dtypes.int32)) - 1  # recall falls
        tp, fp = at["tp"][place], at["fp"][place]
        return (tp + EPSILON) / (tp + fp + EPSILON)

    into = metrics_collections, updates_collections
    return _best(
        labels, predictions, weights, num_thresholds, highest, into, (name, "precision_at_recall")
    )


def recall_at_precision(
    labels: Any,
    predictions: Any,
    precision: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
    strict_mode: bool = False,
) -> Metric:
    """The recall at the threshold whose precision is nearest to `precision`.  Raises ValueError: not in [0, 1].

    strict_mode: of those whose precision is `precision` or more, the threshold of the least; 0 where there is none.
    """
    check_share("precision", precision)

    def nearest(at: dict[str, Any]) -> Any:
        tp, fn, fp = at["tp"], at["fn"], at["fp"]
        lacking = tp / (tp + fp + EPSILON) - precision
        if strict_mode:
            place = cast(argmax(1.0 / (lacking + EPSILON), 0), dtypes.int32)
            found = tp[place] / (tp[place] + fn[place] + EPSILON)
            return where(lacking[place] >= 0, found, zeros_like(found))
        place = cast(argmin(abs_of(lacking), 0), dtypes.int32)
        return tp[place] / (EPSILON + tp[place] + fn[place])

    into = metrics_collections, updates_collections
    return _best(
        labels, predictions, weights, num_thresholds, nearest, into, (name, "recall_at_precision")
    )
