"""`tf.contrib.metrics` that tf.metrics has not: counts, covariances, curves, agreement by chance.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare values with tf-slim's.  Covariances in one pass: T. Chan,
G. Golub, R. LeVeque, 1979.  Kappa: J. Cohen, 1960.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
from headrace.graph.tensor import Tensor
from headrace.library.metrics import confusion
from headrace.library.metrics.streams import (
    Metric,
    Names,
    as_floats,
    collected,
    fitting,
    metric_variable,
    ratio,
    squeezed,
)
from headrace.library.metrics.thresholds import ALL, counts_at, spread_thresholds
from headrace.library.metrics.top_k import recall_at_top_k
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.assigning import assign, assign_add
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import constant, ones_like, zeros_like
from headrace.ops.array.gathering import where
from headrace.ops.array.joining import concat
from headrace.ops.array.packing import stack
from headrace.ops.array.ranges import linspace
from headrace.ops.array.shapes import reshape, transpose
from headrace.ops.array.shapes import shape as shape_of
from headrace.ops.array.shapes import size as size_of
from headrace.ops.flow.identities import group, identity
from headrace.ops.flow.py_functions import py_func
from headrace.ops.math.arithmetic import maximum
from headrace.ops.math.casting import cast
from headrace.ops.math.clipping import clip_by_value
from headrace.ops.math.comparisons import equal, logical_not
from headrace.ops.math.elementwise import floor, sqrt
from headrace.ops.math.magnitudes import abs as abs_of
from headrace.ops.math.reductions import reduce_max, reduce_sum
from headrace.ops.math.scans import argmax, argmin, cumsum
from headrace.ops.math.segments import unsorted_segment_sum
from headrace.ops.tables import make

__all__ = [
    "PrecisionRecallData",
    "cohen_kappa",
    "count",
    "f1_score",
    "precision_at_recall",
    "precision_recall_at_equal_thresholds",
    "recall_at_precision",
    "sparse_recall_at_top_k",
    "streaming_concat",
    "streaming_covariance",
    "streaming_curve_points",
    "streaming_dynamic_auc",
    "streaming_false_negative_rate",
    "streaming_false_negative_rate_at_thresholds",
    "streaming_false_positive_rate",
    "streaming_false_positive_rate_at_thresholds",
    "streaming_pearson_correlation",
]

_EPSILON: Final = 1e-7


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
            pair = (wrong, right)
            found = counts_at(labels, predictions, thresholds, weights, pair)
            metric = tuple(at[wrong] / (_EPSILON + at[wrong] + at[right]) for at in found)
            return collected((metric[0], metric[1]), metrics_collections, updates_collections)

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
        recall = (tp + _EPSILON) / (tp + fn + _EPSILON)
        if curve == "ROC":
            x, y = fp / (fp + tn + _EPSILON), recall
        else:
            x, y = recall, (tp + _EPSILON) / (tp + fp + _EPSILON)
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
        found = counts_at(labels, predictions, spread_thresholds(num_thresholds), weights)
        return collected((choose(found[0]), choose(found[1])), *collections)


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
        precision = at["tp"] / (_EPSILON + at["tp"] + at["fp"])
        recall = at["tp"] / (_EPSILON + at["tp"] + at["fn"])
        return reduce_max(2.0 * precision * recall / (precision + recall + _EPSILON))

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
    if not 0 <= target_recall <= 1:
        raise ValueError("`target_recall` must be in the range [0, 1].")

    def highest(at: dict[str, Any]) -> Any:
        recall = at["tp"] / (at["tp"] + at["fn"] + _EPSILON)
        place = reduce_sum(cast(recall >= target_recall, dtypes.int32)) - 1  # recall falls
        tp, fp = at["tp"][place], at["fp"][place]
        return (tp + _EPSILON) / (tp + fp + _EPSILON)

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
    if not 0 <= precision <= 1:
        raise ValueError("`precision` must be in the range [0, 1].")

    def nearest(at: dict[str, Any]) -> Any:
        tp, fn, fp = at["tp"], at["fn"], at["fp"]
        lacking = tp / (tp + fp + _EPSILON) - precision
        if strict_mode:
            place = cast(argmax(1.0 / (lacking + _EPSILON), 0), dtypes.int32)
            found = tp[place] / (tp[place] + fn[place] + _EPSILON)
            return where(lacking[place] >= 0, found, zeros_like(found))
        place = cast(argmin(abs_of(lacking), 0), dtypes.int32)
        return tp[place] / (_EPSILON + tp[place] + fn[place])

    into = metrics_collections, updates_collections
    return _best(
        labels, predictions, weights, num_thresholds, nearest, into, (name, "recall_at_precision")
    )


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


def streaming_covariance(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """The covariance of both, without bias: a scalar float32.  It is kept up to date batch by batch."""
    with variable_scope(name, "covariance", (predictions, labels, weights)):
        guesses, truth, weights = fitting(as_floats(predictions), as_floats(labels), weights)
        share = (
            ones_like(guesses) if weights is None else broadcast_weights(as_floats(weights), truth)
        )
        number, x, y, products = (
            metric_variable([], dtypes.float32, name=each)
            for each in ("count", "mean_prediction", "mean_label", "comoment")
        )
        batch = reduce_sum(share)
        # The order matters: means move by what lies between the batch and the means before it.
        mean_x = ratio(reduce_sum(guesses * share), batch)
        mean_y = ratio(reduce_sum(truth * share), batch)
        both = reduce_sum((guesses - mean_x) * (truth - mean_y) * share)
        before = identity(number.read_value())
        part = ratio(batch, before + batch)
        apart_x, apart_y = mean_x - x.read_value(), mean_y - y.read_value()
        more = both + apart_x * apart_y * before * part
        step_x, step_y = apart_x * part, apart_y * part
        with control_dependencies([more, step_x, step_y]):
            moved = [assign_add(x, step_x), assign_add(y, step_y)]
            total, summed = assign_add(number, batch), assign_add(products, more)
        with control_dependencies(moved):
            update = ratio(summed, total - 1.0, "update_op")
        metric = ratio(products, number - 1.0, "covariance"), update
        return collected(metric, metrics_collections, updates_collections)


def streaming_pearson_correlation(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """Covariance over both standard deviations: a scalar float32 in [-1, 1]."""
    with variable_scope(name, "pearson_r", (predictions, labels, weights)):
        guesses, truth, weights = fitting(as_floats(predictions), as_floats(labels), weights)
        pairs = (
            (guesses, truth, "covariance"),
            (guesses, guesses, "variance_predictions"),
            (
                truth,
                truth,
                "variance_labels",
            ),
        )
        three = [streaming_covariance(a, b, weights, name=each) for a, b, each in pairs]

        def of(at: int, name: str) -> Any:
            joint, one, other = (each[at] for each in three)
            return ratio(joint, sqrt(one) * sqrt(other), name)

        metric = of(0, "pearson_r"), of(1, "update_op")
        return collected(metric, metrics_collections, updates_collections)


def cohen_kappa(
    labels: Any,
    predictions_idx: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How far two raters agree beyond chance: a scalar float64, at most 1; 0 before the first.

    labels, predictions_idx: int [n] or [n, 1], classes below num_classes.  Raises ValueError: a float type.
    """
    with variable_scope(name, "cohen_kappa", (labels, predictions_idx, weights)):
        truth, guesses = convert(labels), convert(predictions_idx)
        if truth.dtype.is_floating or guesses.dtype.is_floating:
            raise ValueError(
                f"labels and predictions_idx are ints, not {truth.dtype} and {guesses.dtype}"
            )
        truth, guesses = squeezed(truth, guesses)
        truth, guesses = (reshape(cast(each, dtypes.int64), [-1]) for each in (truth, guesses))
        kind = dtypes.int64 if weights is None else dtypes.float32
        share = (
            ones_like(truth, kind)
            if weights is None
            else reshape(broadcast_weights(as_floats(weights), convert(labels)), [-1])
        )
        parts = []
        for each, what in (
            ("po", (where(equal(truth, guesses), share, zeros_like(share)), truth)),
            ("pe_row", (share, truth)),
            ("pe_col", (share, guesses)),
        ):
            kept = metric_variable([num_classes], kind, name=each)
            parts.append((kept, assign_add(kept, unsorted_segment_sum(*what, num_classes))))

        def kappa(at: int, name: str) -> Any:
            same, rows, columns = (cast(each[at], dtypes.float64) for each in parts)
            total, agreed = reduce_sum(rows), reduce_sum(same)
            chance = reduce_sum(make.DivNoNan(rows * columns, total))
            return make.DivNoNan(agreed - chance, total - chance, name=name)

        metric = kappa(0, "value"), kappa(1, "update_op")
        return collected(metric, metrics_collections, updates_collections)


def streaming_concat(
    values: Any,
    axis: int = 0,
    max_size: int | None = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """All values so far, one behind the other along `axis`; at most max_size of them.  Memory grows with them.

    The update gives how many there are then.

    Other dimensions have to be known.  Raises ValueError.
    """
    with variable_scope(name, "streaming_concat", (values,)):
        found = convert(values)
        if found.shape.ndims is None:
            raise ValueError("`values` must have known rank")
        rank = found.shape.ndims
        if not -rank <= axis < rank:
            raise ValueError(f"`axis = {axis}` not in [0, {rank})")
        axis %= rank
        sizes = found.shape.as_list()
        if any(n is None for at, n in enumerate(sizes) if at != axis):
            raise ValueError(
                "all dimensions of `values` other than the dimension to concatenate along must be known"
            )
        order = [axis, *(at for at in range(rank) if at != axis)]
        back = [order.index(at) for at in range(rank)]
        others = [sizes[at] for at in order[1:]]
        kept = metric_variable([0, *others], found.dtype, validate_shape=False, name="array")
        kept.set_shape([None, *others])
        count = metric_variable([], dtypes.int32, name="size")
        held = kept.read_value()[: count.read_value()]
        more = concat([held, transpose(found, order)], 0)[:max_size]
        update = assign(kept, more, validate_shape=False)
        with control_dependencies([update]):
            updated = assign(count, shape_of(more)[0])
        metric = transpose(held, back), updated
        return collected(metric, metrics_collections, updates_collections)


def streaming_dynamic_auc(
    labels: Any,
    predictions: Any,
    curve: str = "ROC",
    metrics_collections: Names = (),
    updates_collections: Names = (),
    name: str | None = None,
    weights: Any = None,
) -> tuple[Any, Any]:
    """The area under the curve of all predictions so far, without thresholds: a scalar float32.

    All of them are kept.  labels: 0 or 1.  -1 where there are no positives; of "ROC" also where there are no negatives.
    Raises ValueError: another curve.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    with variable_scope(name, "dynamic_auc"):
        guesses = reshape(as_floats(predictions), [-1])
        truth = reshape(cast(labels, dtypes.float32), [-1])
        share = (
            ones_like(guesses)
            if weights is None
            else reshape(broadcast_weights(as_floats(weights), guesses), [-1])
        )
        rows = streaming_concat(stack([guesses, truth, share], axis=1))

        def area(kept: Any) -> Any:
            found = py_func(_area_of_roc if curve == "ROC" else _area_of_pr, [kept], dtypes.float32)
            found.set_shape([])
            return found

        metric = area(rows[0]), rows[1].op
        return collected(metric, metrics_collections or None, updates_collections or None)


def _steps(rows: Any) -> tuple[Any, Any]:
    """Weights of positives and of negatives at or above each prediction, from the largest on."""
    scores, labels, weights = rows[np.argsort(-rows[:, 0], kind="stable")].astype(np.float64).T
    ends = (
        np.flatnonzero(np.append(np.diff(scores) != 0, True)) if len(scores) else np.zeros(0, int)
    )
    return np.cumsum(labels * weights)[ends], np.cumsum((1 - labels) * weights)[ends]


def _area_of_roc(rows: Any) -> Any:
    tp, fp = _steps(rows)
    if not len(tp) or tp[-1] == 0 or fp[-1] == 0:
        return np.float32(-1)
    return np.float32(np.trapezoid(np.append(0, tp), np.append(0, fp)) / (tp[-1] * fp[-1]))


def _area_of_pr(rows: Any) -> Any:
    tp, fp = _steps(rows)
    if not len(tp) or tp[-1] == 0:
        return np.float32(-1)
    return np.float32(np.sum(np.diff(tp, prepend=0) * tp / (tp + fp)) / tp[-1])
