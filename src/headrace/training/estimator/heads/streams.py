"""Metrics of heads: named, made when a batch is given to them, and (value, update_op) for an EstimatorSpec.

Called by: training.estimator.heads, programs that call a head's metrics.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.metrics.means import accuracy, mean
from headrace.library.metrics.streams import Metric, ratio
from headrace.library.metrics.thresholds import auc, of_counts, spread_thresholds
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.math.reductions import reduce_sum
from headrace.ops.tables import make

__all__ = ["HeadMetric", "accuracy_of", "area", "baseline_of", "mean_of", "means_at"]


class HeadMetric:
    """A metric of a head: `update_state` adds a batch, in the graph, and `result` is its value."""

    def __init__(self, name: str, build: Callable[..., Metric]) -> None:
        """build: (value, update_op) of a batch."""
        self.name = name
        self._build = build
        self._made: Metric | None = None

    def update_state(self, *batch: Any, **more: Any) -> Any:
        """The op that adds a batch.  Raises ValueError: there is one already."""
        if self._made is not None:
            raise ValueError(
                f"the metric {self.name!r} has a batch already; ask the head for new metrics"
            )
        with name_scope(None, self.name.replace("/", "_")):
            self._made = self._build(*batch, **more)
        return self._made[1]

    def result(self) -> Any:
        """The value, a scalar.  Raises ValueError: nothing was added."""
        return self.as_tuple()[0]

    def as_tuple(self) -> Metric:
        """(value, update_op).  Raises ValueError: nothing was added."""
        if self._made is None:
            raise ValueError(
                f"the metric {self.name!r} has no batch yet; call the head's update_metrics"
            )
        return self._made


def mean_of(name: str) -> HeadMetric:
    """The mean of values, weighted."""
    return HeadMetric(name, lambda values, weights=None: mean(values, weights))


def means_at(name: str, classes: int) -> HeadMetric:
    """The mean of one class's column of [batch, …, classes]."""
    return HeadMetric(name, lambda values, weights=None: mean(values[..., classes], _last(weights)))


def _last(weights: Any) -> Any:
    return weights[..., 0] if isinstance(weights, Tensor) and weights.shape.ndims else weights


def baseline_of(name: str) -> HeadMetric:
    """How accurate it would be to always say what is said more often: labels of 0 and 1."""

    def build(labels: Any, weights: Any = None) -> Metric:
        value, update = mean(labels, weights)
        return make.Maximum(value, 1.0 - value), make.Maximum(update, 1.0 - update)

    return HeadMetric(name, build)


def accuracy_of(name: str) -> HeadMetric:
    """How often labels and predictions are the same."""
    return HeadMetric(
        name, lambda labels, predictions, weights=None: accuracy(labels, predictions, weights)
    )


def area(name: str, curve: str, classic: bool) -> HeadMetric:
    """The area under a curve, "ROC" or "PR".

    classic: as tf.metrics.auc has it by default; else points of a PR curve are joined as true positives grow, and what
    has no examples is 0.
    """

    def build(labels: Any, predictions: Any, weights: Any = None) -> Metric:
        if classic:
            return auc(labels, predictions, weights, curve=curve)
        if curve == "PR":
            return auc(
                labels, predictions, weights, curve="PR", summation_method="careful_interpolation"
            )
        with variable_scope(None, "auc", (labels, predictions)):
            return of_counts(labels, predictions, spread_thresholds(200), weights, _under_roc)

    return HeadMetric(name, build)


def _under_roc(counts: dict[str, Any], name: str) -> Any:
    """Trapezoids under true positives over false positives."""
    y = ratio(counts["tp"], counts["tp"] + counts["fn"])
    x = ratio(counts["fp"], counts["fp"] + counts["tn"])
    return reduce_sum((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2.0, name=name)
