"""DNNLinearCombinedClassifier and its kin: a linear model and a network, whose logits are added ("wide and deep").

Called by: programs.  Threads: as `Estimator`.
Source: TF 1.15 behaviour; compared with the oracle (tests/estimator_oracle)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headrace.graph.collections import GraphKeys
from headrace.graph.names import control_dependencies
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.nn.losses import Reduction
from headrace.library.variables.assigning import assign_add
from headrace.library.variables.variable_scope import variable_scope
from headrace.ops.flow.identities import group
from headrace.ops.nn.activations import relu
from headrace.training.estimator.canned.common import (
    LARGE_SLICE,
    activity_summaries,
    checked_dict,
    classes_head,
    numbers_head,
    partitioner_for,
)
from headrace.training.estimator.canned.linear import linear_learning_rate
from headrace.training.estimator.canned.logits import (
    dnn_logit_fn_builder,
    linear_logit_fn_builder,
)
from headrace.training.estimator.canned.optimizers import optimizer_of
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.global_step import get_global_step

__all__ = [
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
]

_DNN_LEARNING_RATE: Final = 0.001
_LINEAR_LEARNING_RATE: Final = 0.005


class _Linear(NamedTuple):
    columns: Any
    optimizer: Any
    combiner: str


class _Deep(NamedTuple):
    columns: Any
    optimizer: Any
    layers: dict[str, Any]


def _linear(columns: Any, optimizer: Any, combiner: str) -> _Linear:
    return _Linear(tuple(columns or ()), optimizer, combiner)


def _deep(
    columns: Any,
    optimizer: Any,
    hidden_units: Sequence[int] | None,
    activation_fn: Any,
    dropout: float | None,
    batch_norm: bool,
) -> _Deep:
    layers = {
        "hidden_units": hidden_units,
        "activation_fn": activation_fn,
        "dropout": dropout,
        "batch_norm": batch_norm,
    }
    return _Deep(tuple(columns or ()), optimizer, layers)


def _check(linear: _Linear, deep: _Deep) -> None:
    if not linear.columns and not deep.columns:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")


def _trained(scope: str) -> list[Any]:
    found: list[Any] = get_default_graph().get_collection(
        GraphKeys.TRAINABLE_VARIABLES, scope=f"{scope}/"
    )
    return found


def _model_fn(head: Any, linear: _Linear, deep: _Deep, cut_inputs: Any) -> Any:
    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        values = tuple(checked_dict(features).values())
        cut = cut_inputs or partitioner_for(config, LARGE_SLICE)
        units = head.logits_dimension
        optimizers: dict[str, Any] = {}
        found: list[Tensor] = []
        if deep.columns:
            if not deep.layers["hidden_units"]:
                raise ValueError(
                    "dnn_hidden_units must be defined when dnn_feature_columns is specified."
                )
            optimizers["dnn"] = optimizer_of(deep.optimizer, _DNN_LEARNING_RATE)
            with variable_scope("dnn", values=values, partitioner=partitioner_for(config)):
                build = dnn_logit_fn_builder(
                    units=units,
                    feature_columns=deep.columns,
                    input_layer_partitioner=cut,
                    **deep.layers,
                )
                found.append(build(features, mode))
        if linear.columns:
            rate = linear_learning_rate(linear.columns, _LINEAR_LEARNING_RATE)
            optimizers["linear"] = optimizer_of(linear.optimizer, rate)
            with variable_scope("linear", values=values, partitioner=cut):
                wide = linear_logit_fn_builder(units, linear.columns, linear.combiner)(features)
                activity_summaries(wide, "linear")
                found.append(wide)
        logits = found[0] if len(found) == 1 else found[0] + found[1]

        def train_op_fn(loss: Tensor) -> Any:
            steps = [
                optimizer.minimize(loss, var_list=_trained(scope))
                for scope, optimizer in optimizers.items()
            ]
            with control_dependencies([group(*steps)]):
                step = get_global_step()
                return assign_add(step, 1).op

        return head.create_estimator_spec(  # type: ignore[no-any-return]
            features, mode, logits, labels=labels, train_op_fn=train_op_fn
        )

    return model_fn


class DNNLinearCombinedEstimator(Estimator):
    """A linear model and a network, with a head of one's choice."""

    def __init__(
        self,
        head: Any,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        """linear_…: as `LinearEstimator` has them; dnn_…: as `DNNEstimator` has them.  One of the two may be missing.

        input_layer_partitioner: cuts linear weights and the variables of columns; into a part of 64 MiB or more for
        each parameter server if None.  model_dir, config: as `Estimator` has them.  Raises ValueError.
        """
        self._init(
            head,
            model_dir,
            _linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner),
            _deep(
                dnn_feature_columns,
                dnn_optimizer,
                dnn_hidden_units,
                dnn_activation_fn,
                dnn_dropout,
                batch_norm,
            ),
            input_layer_partitioner,
            config,
            None,
        )

    def _init(
        self,
        head: Any,
        model_dir: str | None,
        linear: _Linear,
        deep: _Deep,
        cut_inputs: Any,
        config: Any,
        warm_start_from: Any,
    ) -> None:
        _check(linear, deep)
        model_fn = _model_fn(head, linear, deep, cut_inputs)
        Estimator.__init__(self, model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedClassifier(DNNLinearCombinedEstimator):
    """A linear model and a network for classes: one of n_classes each example."""

    def __init__(
        self,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.  label_vocabulary: n_classes names.

        The rest: as `DNNLinearCombinedEstimator` has them.  Raises ValueError.
        """
        self._init(
            classes_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            model_dir,
            _linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner),
            _deep(
                dnn_feature_columns,
                dnn_optimizer,
                dnn_hidden_units,
                dnn_activation_fn,
                dnn_dropout,
                batch_norm,
            ),
            input_layer_partitioner,
            config,
            warm_start_from,
        )


class DNNLinearCombinedRegressor(DNNLinearCombinedEstimator):
    """A linear model and a network for label_dimension numbers an example."""

    def __init__(
        self,
        model_dir: str | None = None,
        linear_feature_columns: Any = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Any = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = Reduction.SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.

        The rest: as `DNNLinearCombinedEstimator` has them.  Raises ValueError.
        """
        self._init(
            numbers_head(label_dimension, weight_column, loss_reduction),
            model_dir,
            _linear(linear_feature_columns, linear_optimizer, linear_sparse_combiner),
            _deep(
                dnn_feature_columns,
                dnn_optimizer,
                dnn_hidden_units,
                dnn_activation_fn,
                dnn_dropout,
                batch_norm,
            ),
            input_layer_partitioner,
            config,
            warm_start_from,
        )
