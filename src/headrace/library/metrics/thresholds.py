"""Metrics of predictions in [0, 1], which mean yes above a threshold.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes are the oracle's.  Interpolation between points of a precision-recall curve: J. Davis,
M. Goadrich, The relationship between Precision-Recall and ROC curves, ICML 2006.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.base.arguments import check_python_number, check_word, whole_number
from headrace.graph import scopes
from headrace.graph.tensor import Tensor
from headrace.library.metrics.streams import (
    Metric,
    Names,
    added,
    as_floats,
    collected,
    fitting,
    metric_variable,
)
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import constant, ones_like
from headrace.ops.array.gathering import where
from headrace.ops.array.packing import stack
from headrace.ops.array.shapes import expand_dims, reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.flow.checks import assert_greater_equal, assert_less_equal
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_min, reduce_sum
from headrace.ops.math.scans import argmax, argmin, cumsum
from headrace.ops.tables import make

__all__ = [
    "auc",
    "false_negatives_at_thresholds",
    "false_positives_at_thresholds",
    "precision_at_thresholds",
    "recall_at_thresholds",
    "sensitivity_at_specificity",
    "specificity_at_sensitivity",
    "true_negatives_at_thresholds",
    "true_positives_at_thresholds",
]

EPSILON = 1e-7
ALL = ("tp", "fn", "tn", "fp")
METHODS = ("trapezoidal", "careful_interpolation", "minoring", "majoring")
_NAMES = {
    "tp": "true_positives",
    "fn": "false_negatives",
    "tn": "true_negatives",
    "fp": "false_positives",
}


def counts_at(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    includes: Sequence[str] = ALL,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables [thresholds] of how many there are of each kind, and these after the batch was added."""
    kind = predictions.dtype if isinstance(predictions, Tensor) else None
    says = "predictions must be in [0, 1]"
    checks = [
        assert_greater_equal(predictions, cast(0.0, kind or dtypes.float32), message=says),
        assert_less_equal(predictions, cast(1.0, kind or dtypes.float32), message=says),
    ]
    with scopes.get_default_graph().control_dependencies(checks):
        predictions, labels, weights = fitting(
            as_floats(predictions), cast(labels, dtypes.bool), weights
        )
    number = len(thresholds)
    column = reshape(predictions, [-1, 1])
    row = reshape(labels, [1, -1])
    known = column.raw_shape
    count = known[0] if known and known[0] is not None else shape_of(column)[0]
    limits = make.Tile(expand_dims(constant(list(thresholds)), [1]), stack([1, count]))
    positive = make.Greater(make.Tile(transpose(column), [number, 1]), limits)
    negative = make.LogicalNot(positive) if {"fn", "tn"} & {*includes} else None
    true = make.Tile(row, [number, 1])
    false = make.LogicalNot(true) if {"fp", "tn"} & {*includes} else None
    if weights is not None:
        weights = broadcast_weights(as_floats(weights), predictions)
        weights = make.Tile(reshape(weights, [1, -1]), [number, 1])
    both = {
        "tp": (true, positive),
        "fn": (true, negative),
        "tn": (false, negative),
        "fp": (false, positive),
    }
    values, updates = {}, {}
    for each in ALL:
        if each in includes:
            values[each] = metric_variable([number], dtypes.float32, name=_NAMES[each])
            found = as_floats(make.LogicalAnd(*both[each]))
            if weights is not None:
                found = found * weights
            updates[each] = added(values[each], found, 1)
    return values, updates


def of_counts(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any,
    function: Callable[[dict[str, Any], str], Any],
    includes: Sequence[str] = ALL,
) -> Metric:
    """What `function` (counts, name of its node) makes of the counts so far, and of those with the batch."""
    values, updates = counts_at(labels, predictions, thresholds, weights, includes)
    value = function(values, "value")
    return value, function(updates, "update_op")


def _at_thresholds(kind: str) -> Callable[..., Metric]:
    name_of = f"{_NAMES[kind]}"

    def counted(
        labels: Any,
        predictions: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Names = None,
        updates_collections: Names = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, name_of, (predictions, labels, weights)):
            values, updates = counts_at(labels, predictions, thresholds, weights, (kind,))
            found = identity(values[kind]), updates[kind]
            return collected(found, metrics_collections, updates_collections)

    counted.__name__ = counted.__qualname__ = f"{name_of}_at_thresholds"
    counted.__doc__ = (
        f"The {name_of.replace('_', ' ')} where predictions above a threshold mean yes: [thresholds] float32.\n\n"
        "labels: cast to bool.  predictions: in [0, 1]; others are an InvalidArgumentError of the step."
    )
    return counted


true_positives_at_thresholds = _at_thresholds("tp")
false_positives_at_thresholds = _at_thresholds("fp")
true_negatives_at_thresholds = _at_thresholds("tn")
false_negatives_at_thresholds = _at_thresholds("fn")


def _share_at_thresholds(
    kind: str, other: str, given: tuple[Any, ...], collections: tuple[Any, Any], name: str | None
) -> Metric:
    labels, predictions, thresholds, weights = given
    with variable_scope(name, f"{kind}_at_thresholds", (predictions, labels, weights)):

        def share(counts: dict[str, Any], name: str) -> Any:
            right, wrong = counts["tp"], counts[other]
            return make.RealDiv(right, EPSILON + right + wrong, name=f"{kind}_{name}")

        found = of_counts(labels, predictions, thresholds, weights, share, ("tp", other))
    return collected(found, *collections)


def precision_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """`tf.metrics.precision` for each threshold: [thresholds] float32."""
    collections = metrics_collections, updates_collections
    return _share_at_thresholds(
        "precision", "fp", (labels, predictions, thresholds, weights), collections, name
    )


def recall_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """`tf.metrics.recall` for each threshold: [thresholds] float32."""
    collections = metrics_collections, updates_collections
    return _share_at_thresholds(
        "recall", "fn", (labels, predictions, thresholds, weights), collections, name
    )


def spread_thresholds(count: int, last: float = 1.0 + EPSILON) -> list[float]:
    """So many thresholds at equal distances; the first is a little below 0."""
    count = whole_number("metrics", "num_thresholds", count)
    inner = [(each + 1) * 1.0 / (count - 1) for each in range(count - 2)]
    return [0.0 - EPSILON, *inner, last]


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Metric:
    """The area under a curve, from the counts at thresholds: a scalar float32.

    curve: "ROC", true positives over false positives, or "PR", precision over recall.  summation_method: "trapezoidal",
    "minoring", "majoring", "careful_interpolation" (of ROC as "trapezoidal").  thresholds: instead of num_thresholds at
    equal distances.
    Raises ValueError: another curve or method.
    """
    check_word("auc", "curve", curve, ("ROC", "PR"))
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    if summation_method not in METHODS:
        raise ValueError(f"Invalid summation_method: {summation_method}: it is one of {METHODS}")
    with variable_scope(name, "auc", (labels, predictions, weights)):
        if thresholds is None:
            limits = spread_thresholds(num_thresholds)
        else:
            limits = [0.0 - EPSILON, *sorted(thresholds), 1.0 + EPSILON]

        def area(counts: dict[str, Any], name: str) -> Any:
            if (curve, summation_method) == ("PR", "careful_interpolation"):
                return _interpolated(counts, len(limits))
            return _area(counts, len(limits), curve, summation_method, name)

        found = of_counts(labels, predictions, limits, weights, area)
    return collected(found, metrics_collections, updates_collections)


def _area(counts: dict[str, Any], number: int, curve: str, method: str, name: str) -> Any:
    """Sums of the strips between the points of the curve."""
    epsilon = 1.0e-6
    tp, fn, tn, fp = (counts[each] for each in ALL)
    recall = (tp + epsilon) / (tp + fn + epsilon)
    if curve == "ROC":
        x, y = fp / (fp + tn + epsilon), recall
    else:
        x, y = recall, (tp + epsilon) / (tp + fp + epsilon)
    widths = x[: number - 1] - x[1:]
    if method in ("trapezoidal", "careful_interpolation"):
        heights = (y[: number - 1] + y[1:]) / 2.0
    elif method == "minoring":
        heights = make.Minimum(y[: number - 1], y[1:])
    else:
        heights = make.Maximum(y[: number - 1], y[1:])
    return reduce_sum(make.Mul(widths, heights), name=name)


def _interpolated(counts: dict[str, Any], number: int) -> Any:
    """The area under a precision-recall curve whose points are joined as true positives grow with positives."""
    tp, fn, fp = counts["tp"], counts["fn"], counts["fp"]
    last = number - 1
    growth = tp[:last] - tp[1:]
    positives = tp + fp
    slope = make.DivNoNan(
        growth, make.Maximum(positives[:last] - positives[1:], 0.0), name="prec_slope"
    )
    start = tp[1:] - make.Mul(slope, positives[1:])
    relative = where(
        make.LogicalAnd(positives[:last] > 0, positives[1:] > 0),
        make.DivNoNan(
            positives[:last], make.Maximum(positives[1:], 0.0), name="recall_relative_ratio"
        ),
        ones_like(positives[1:]),
    )
    strips = make.DivNoNan(
        slope * (growth + start * make.Log(relative)),
        make.Maximum(tp[1:] + fn[1:], 0.0),
        name="pr_auc_increment",
    )
    return reduce_sum(strips, name="interpolate_pr_auc")


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The recall at the threshold where the share of negatives that are found is nearest to `specificity`.

    Raises ValueError: a specificity that is not in [0, 1].
    """
    check_share("specificity", specificity)
    with variable_scope(name, "sensitivity_at_specificity", (predictions, labels, weights)):
        limits = spread_thresholds(num_thresholds)

        def sensitivity(counts: dict[str, Any], name: str) -> Any:
            tp, fn, tn, fp = (counts[each] for each in ALL)
            found = tn / (tn + fp + EPSILON)
            at = cast(argmin(make.Abs(found - specificity), 0), dtypes.int32)
            return make.RealDiv(tp[at], tp[at] + fn[at] + EPSILON, name=name)

        result = of_counts(labels, predictions, limits, weights, sensitivity)
    return collected(result, metrics_collections, updates_collections)


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The share of negatives that are found at the highest threshold where the recall is nearest to `sensitivity`.

    Raises ValueError: a sensitivity that is not in [0, 1].
    """
    check_share("sensitivity", sensitivity)
    with variable_scope(name, "specificity_at_sensitivity", (predictions, labels, weights)):
        limits = spread_thresholds(num_thresholds, 1.0 - EPSILON)

        def specificity(counts: dict[str, Any], name: str) -> Any:
            tp, fn, tn, fp = (counts[each] for each in ALL)
            found = tp / (tp + fn + EPSILON)
            least = reduce_min(make.Abs(found - sensitivity))
            nearest = make.Equal(make.Abs(found - sensitivity), least)
            counted = cumsum(cast(nearest, dtypes.int64))
            at = cast(argmax(counted, 0), dtypes.int32)
            return make.RealDiv(tn[at], tn[at] + fp[at] + EPSILON, name=name)

        result = of_counts(labels, predictions, limits, weights, specificity)
    return collected(result, metrics_collections, updates_collections)


def check_share(name: str, value: float) -> None:
    """Raise ValueError unless the argument `name` is between 0 and 1."""
    check_python_number("metrics", name, value)
    if not 0 <= value <= 1:
        raise ValueError(
            f"`{name}` must be in the range [0, 1]. Currently, `{name}` got {value:f}."
        )
