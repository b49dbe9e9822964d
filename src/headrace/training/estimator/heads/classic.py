"""Heads as tf.contrib.estimator spells them, which canned estimators have too.

They differ from those of tf.estimator in what they report: reductions are those of tf.losses, losses are in the
collection LOSSES, average_loss is in the summaries, areas under curves are tf.metrics.auc's.
Called by: programs, training.estimator.canned.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.library.nn.losses import Reduction
from headrace.training.estimator.heads.binary import BinaryClassHead
from headrace.training.estimator.heads.head import Head
from headrace.training.estimator.heads.multi_class import MultiClassHead
from headrace.training.estimator.heads.multi_head import MultiHead
from headrace.training.estimator.heads.multi_label import MultiLabelHead
from headrace.training.estimator.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)

__all__ = [
    "binary_classification_head",
    "logistic_regression_head",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "regression_head",
]

_MEAN = Reduction.SUM_OVER_BATCH_SIZE


class _Binary(BinaryClassHead):
    _classic = True


class _MultiClass(MultiClassHead):
    _classic = True


class _Regression(RegressionHead):
    _classic = True


class _Logistic(LogisticRegressionHead):
    _classic = True


class _Poisson(PoissonRegressionHead):
    _classic = True


class _MultiLabel(MultiLabelHead):
    _classic = True


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Head:
    """As `tf.estimator.BinaryClassHead`; loss_reduction: of tf.losses.Reduction.  Raises ValueError."""
    return _Binary(weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name)


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Head:
    """As `tf.estimator.MultiClassHead`; loss_reduction: of tf.losses.Reduction.  Raises ValueError."""
    return _MultiClass(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    inverse_link_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> Head:
    """As `tf.estimator.RegressionHead`; loss_reduction: of tf.losses.Reduction.  Raises ValueError."""
    return _Regression(
        label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name
    )


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: str = _MEAN, name: str | None = None
) -> Head:
    """As `tf.estimator.LogisticRegressionHead`; loss_reduction: of tf.losses.Reduction.  Raises ValueError."""
    return _Logistic(weight_column, loss_reduction, name)


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = _MEAN,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> Head:
    """As `tf.estimator.PoissonRegressionHead`; loss_reduction: of tf.losses.Reduction.  Raises ValueError."""
    return _Poisson(label_dimension, weight_column, loss_reduction, compute_full_loss, name)


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Sequence[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = _MEAN,
    loss_fn: Callable[..., Any] | None = None,
    classes_for_class_based_metrics: Sequence[Any] | None = None,
    name: str | None = None,
) -> Head:
    """As `tf.estimator.MultiLabelHead`; loss_reduction: of tf.losses.Reduction.  Raises ValueError."""
    return _MultiLabel(
        n_classes,
        weight_column,
        thresholds,
        label_vocabulary,
        loss_reduction,
        loss_fn,
        classes_for_class_based_metrics,
        name,
    )


def multi_head(heads: Sequence[Any], head_weights: Sequence[float] | None = None) -> Head:
    """As `tf.estimator.MultiHead`.  Raises ValueError."""
    return MultiHead(heads, head_weights)
