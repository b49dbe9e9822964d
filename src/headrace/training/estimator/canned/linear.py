"""LinearClassifier, LinearRegressor, LinearEstimator: weighted sums of feature columns.

Called by: programs.  Threads: as `Estimator`.
Source: TF 1.15 behaviour; compared with the oracle (tests/estimator_oracle)
"""

from __future__ import annotations

import math
from typing import Any

from headrace.library.feature_column.column import FeatureColumn
from headrace.library.nn.losses import Reduction
from headrace.library.variables.variable_scope import variable_scope
from headrace.training.estimator.canned.common import (
    LARGE_SLICE,
    checked_dict,
    classes_head,
    numbers_head,
    partitioner_for,
)
from headrace.training.estimator.canned.logits import linear_logit_fn_builder
from headrace.training.estimator.canned.optimizers import optimizer_of
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.specs import EstimatorSpec

__all__ = ["LinearClassifier", "LinearEstimator", "LinearRegressor", "linear_learning_rate"]


def linear_learning_rate(feature_columns: Any, most: float) -> float:
    """The learning rate of a linear model, less with many columns."""
    count = 1 if isinstance(feature_columns, FeatureColumn) else len(feature_columns or ())
    return min(most, 1.0 / math.sqrt(count)) if count else most


def _model_fn(
    head: Any, feature_columns: Any, optimizer: Any, partitioner: Any, sparse_combiner: str
) -> Any:
    columns = (
        feature_columns
        if isinstance(feature_columns, FeatureColumn)
        else tuple(feature_columns or ())
    )

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        values = tuple(checked_dict(features).values())
        chosen = optimizer_of(optimizer or "Ftrl", linear_learning_rate(columns, 0.2))
        cut = partitioner or partitioner_for(config, LARGE_SLICE)
        with variable_scope("linear", values=values, partitioner=cut):
            build = linear_logit_fn_builder(head.logits_dimension, columns, sparse_combiner)
            return head.create_estimator_spec(  # type: ignore[no-any-return]
                features, mode, build(features), labels=labels, optimizer=chosen
            )

    return model_fn


class LinearEstimator(Estimator):
    """A linear model with a head of one's choice."""

    def __init__(
        self,
        head: Any,
        feature_columns: Any,
        model_dir: str | None = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
    ) -> None:
        """feature_columns: dense and categorical ones.  optimizer: a name, an optimizer, or what makes one.

        partitioner: cuts the weights; into a part of 64 MiB or more for each parameter server if None.
        sparse_combiner: "sum", "mean" or "sqrtn" of the categories of an example.
        model_dir, config, warm_start_from: as `Estimator` has them.  Raises ValueError.
        """
        model_fn = _model_fn(head, feature_columns, optimizer, partitioner, sparse_combiner)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearClassifier(LinearEstimator):
    """A linear model of classes: one of n_classes each example."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.  label_vocabulary: n_classes names.

        The rest: as `LinearEstimator` has them.  Raises ValueError.
        """
        head = classes_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        super().__init__(
            head,
            feature_columns,
            model_dir,
            optimizer,
            config,
            partitioner,
            sparse_combiner,
            warm_start_from,
        )


class LinearRegressor(LinearEstimator):
    """A linear model of label_dimension numbers an example."""

    def __init__(
        self,
        feature_columns: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: Any = None,
        partitioner: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.

        The rest: as `LinearEstimator` has them.  Raises ValueError.
        """
        head = numbers_head(label_dimension, weight_column, loss_reduction)
        super().__init__(
            head,
            feature_columns,
            model_dir,
            optimizer,
            config,
            partitioner,
            sparse_combiner,
            warm_start_from,
        )
