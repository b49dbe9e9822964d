"""Metrics of tf.contrib of how two go together: covariance, correlation, agreement beyond chance.

Called by: programs.  Threads: as graph.
Source: behaviour of TensorFlow 1.15's contrib; tests compare values with tf-slim's.  Covariances in one pass: T.
Chan, G. Golub, R. LeVeque, 1979.  Kappa: J. Cohen, 1960.
"""

from __future__ import annotations

from typing import Any

from headrace.base import dtypes
from headrace.graph.convert import convert
from headrace.graph.names import control_dependencies
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
from headrace.library.nn.weights_broadcast import broadcast_weights
from headrace.library.variables.assigning import assign_add
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.constants import ones_like, zeros_like
from headrace.ops.array.gathering import where
from headrace.ops.array.shapes import reshape
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal
from headrace.ops.math.elementwise import sqrt
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.math.segments import unsorted_segment_sum
from headrace.ops.tables import make

__all__ = [
    "cohen_kappa",
    "streaming_covariance",
    "streaming_pearson_correlation",
]


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
