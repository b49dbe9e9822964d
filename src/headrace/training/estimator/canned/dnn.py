"""DNNClassifier, DNNRegressor, DNNEstimator: networks of dense layers over feature columns.

Called by: programs.  Threads: as `Estimator`.
Source: TF 1.15 behaviour; compared with the oracle (tests/estimator_oracle)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.library.nn.losses import Reduction
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.nn.activations import relu
from headrace.training.estimator.canned.common import (
    LARGE_SLICE,
    checked_dict,
    classes_head,
    numbers_head,
    partitioner_for,
)
from headrace.training.estimator.canned.logits import dnn_logit_fn_builder
from headrace.training.estimator.canned.optimizers import optimizer_of
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.specs import EstimatorSpec

__all__ = ["DNNClassifier", "DNNEstimator", "DNNRegressor"]

_LEARNING_RATE: Final = 0.05


def _model_fn(head: Any, columns: Any, optimizer: Any, cut_inputs: Any, layers: Any) -> Any:
    """layers: hidden_units, activation_fn, dropout and batch_norm of `dnn_logit_fn_builder`."""

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        values = tuple(checked_dict(features).values())
        chosen = optimizer_of(optimizer, _LEARNING_RATE)
        with variable_scope("dnn", values=values, partitioner=partitioner_for(config)):
            build = dnn_logit_fn_builder(
                units=head.logits_dimension,
                feature_columns=columns,
                input_layer_partitioner=cut_inputs or partitioner_for(config, LARGE_SLICE),
                **layers,
            )
            return head.create_estimator_spec(  # type: ignore[no-any-return]
                features, mode, build(features, mode), labels=labels, optimizer=chosen
            )

    return model_fn


class DNNEstimator(Estimator):
    """A network with a head of one's choice."""

    def __init__(
        self,
        head: Any,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: str | None = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
    ) -> None:
        """hidden_units: the width of each layer.  feature_columns: dense ones.  dropout: what part of a layer is 0.

        optimizer: a name, an optimizer, or what makes one.  input_layer_partitioner: cuts the variables of columns;
        into a part of 64 MiB or more for each parameter server if None.  batch_norm: layers are normalized.
        model_dir, config, warm_start_from: as `Estimator` has them.  Raises ValueError.
        """
        layers = {
            "hidden_units": hidden_units,
            "activation_fn": activation_fn,
            "dropout": dropout,
            "batch_norm": batch_norm,
        }
        model_fn = _model_fn(head, feature_columns, optimizer, input_layer_partitioner, layers)
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNClassifier(DNNEstimator):
    """A network for classes: one of n_classes each example."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: str | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.  label_vocabulary: n_classes names.

        The rest: as `DNNEstimator` has them.  Raises ValueError.
        """
        super().__init__(
            classes_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )


class DNNRegressor(DNNEstimator):
    """A network for label_dimension numbers an example."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: str | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Any = relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.

        The rest: as `DNNEstimator` has them.  Raises ValueError.
        """
        super().__init__(
            numbers_head(label_dimension, weight_column, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )
