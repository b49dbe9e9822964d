"""Metrics that count right and wrong answers to yes-or-no questions.

Called by: programs.  Threads: as graph.
Source: TF 1.15 behaviour; nodes are the oracle's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.base import dtypes
from headrace.graph import scopes
from headrace.library.checks.ranks import assert_rank_in
from headrace.library.checks.types import assert_type
from headrace.library.metrics.streams import (
    Metric,
    Names,
    added,
    as_floats,
    collected,
    fitting,
    metric_variable,
)
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.array.gathering import where
from headrace.ops.array.shapes import rank
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.tables import make

__all__ = [
    "false_negatives",
    "false_positives",
    "precision",
    "recall",
    "true_negatives",
    "true_positives",
]


def _count(values: Any, weights: Any, metrics: Names, updates: Names) -> Metric:
    """How often `values` are true, by weight."""
    assert_type(values, dtypes.bool)
    count = metric_variable([], dtypes.float32, name="count")
    values = as_floats(values)
    if weights is not None:
        check = assert_rank_in(weights, (0, rank(values)))
        with scopes.get_default_graph().control_dependencies([check]):
            values = make.Mul(values, as_floats(weights))
    value = identity(count)
    return collected((value, added(count, values)), metrics, updates)


def _counting(kind: str, label: bool, prediction: bool, what: str) -> Callable[..., Metric]:
    def counted(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Names = None,
        updates_collections: Names = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, kind, (predictions, labels, weights)):
            predictions, labels, weights = fitting(
                cast(predictions, dtypes.bool), cast(labels, dtypes.bool), weights
            )
            found = make.LogicalAnd(make.Equal(labels, label), make.Equal(predictions, prediction))
            return _count(found, weights, metrics_collections, updates_collections)

    counted.__name__ = counted.__qualname__ = kind
    counted.__doc__ = (
        f"How many {what}, by weight: a scalar float32.  Labels and predictions are cast to bool."
    )
    return counted


true_positives = _counting("true_positives", True, True, "labels and predictions are both true")
false_positives = _counting("false_positives", False, True, "predictions of false labels are true")
true_negatives = _counting("true_negatives", False, False, "labels and predictions are both false")
false_negatives = _counting("false_negatives", True, False, "predictions of true labels are false")


def _share(
    kind: str,
    other: Callable[..., Metric],
    given: tuple[Any, ...],
    collections: tuple[Any, Any],
    name: str | None,
) -> Metric:
    """True positives over them and the others; 0 if there are none of both."""
    labels, predictions, weights = given
    with variable_scope(name, kind, (predictions, labels, weights)):
        predictions, labels, weights = fitting(
            cast(predictions, dtypes.bool), cast(labels, dtypes.bool), weights
        )
        right, more_right = true_positives(labels, predictions, weights)
        wrong, more_wrong = other(labels, predictions, weights)

        def share(some: Any, others: Any, name: str) -> Any:
            some_at_all = make.Greater(some + others, 0.0)
            return where(some_at_all, some / (some + others), 0.0, name)

        value = share(right, wrong, "value")
        found = value, share(more_right, more_wrong, "update_op")
    return collected(found, *collections)


def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How many of those predicted to be true are, by weight; 0 without any."""
    collections = metrics_collections, updates_collections
    return _share("precision", false_positives, (labels, predictions, weights), collections, name)


def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Names = None,
    updates_collections: Names = None,
    name: str | None = None,
) -> Metric:
    """How many of the true ones are predicted to be, by weight; 0 without any."""
    collections = metrics_collections, updates_collections
    return _share("recall", false_negatives, (labels, predictions, weights), collections, name)
