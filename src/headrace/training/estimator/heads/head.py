"""Head: what the logits of a model mean, and the EstimatorSpec of a model with it.

Called by: training.estimator.heads, programs that write a head of their own.  Threads: as graph.
Source: TF 1.15 behaviour; names of metrics and signatures checked against the oracle
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.graph.collections import GraphKeys
from headrace.graph.names import name_scope
from headrace.graph.scopes import get_default_graph
from headrace.graph.tensor import Tensor
from headrace.library.nn.losses import Reduction, compute_weighted_loss
from headrace.ops.flow.identities import group
from headrace.ops.io.summaries import scalar
from headrace.ops.math.sums import add_n
from headrace.training.estimator.export_outputs import ExportOutput, PredictOutput
from headrace.training.estimator.heads.checks import (
    check_loss_fn,
    checked_labels,
    checked_logits,
    weights_of,
)
from headrace.training.estimator.heads.streams import HeadMetric, mean_of
from headrace.training.estimator.modes import ModeKeys
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.global_step import get_global_step
from headrace.training.saved_model.constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY

__all__ = [
    "CLASSIFY",
    "DEFAULT",
    "PREDICT",
    "REGRESS",
    "Head",
    "OneHead",
    "chosen",
    "regularization",
]

DEFAULT: Final = DEFAULT_SERVING_SIGNATURE_DEF_KEY
CLASSIFY: Final = "classification"
REGRESS: Final = "regression"
PREDICT: Final = "predict"

_REDUCTIONS: Final = {
    "auto": Reduction.SUM_OVER_BATCH_SIZE,
    "sum": Reduction.SUM,
    "sum_over_batch_size": Reduction.SUM_OVER_BATCH_SIZE,
}


class Head(abc.ABC):
    """What the last layer of a model is for: its loss, metrics, predictions and exports."""

    @property
    @abc.abstractmethod
    def name(self) -> str | None:
        """Told from other heads by it; it stands behind the names of metrics."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The size of the last dimension of its logits."""

    @property
    @abc.abstractmethod
    def loss_reduction(self) -> str:
        """How the losses of a batch become one."""

    @abc.abstractmethod
    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Tensor:
        """The loss of a batch, a scalar, with the regularization losses.  Raises ValueError."""

    @abc.abstractmethod
    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """What is predicted, by name: all there is, or `keys` of it.  Raises ValueError."""

    @abc.abstractmethod
    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, HeadMetric]:
        """New metrics by name, to which nothing was added yet."""

    @abc.abstractmethod
    def update_metrics(
        self,
        eval_metrics: dict[str, HeadMetric],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, HeadMetric]:
        """`eval_metrics`, to which a batch is added.  Raises ValueError."""

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Sequence[Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        """The spec of a model that ends with these logits.

        TRAIN wants either an optimizer of tf.train, which minimizes over trainable_variables (all of the graph, if
        None), or train_op_fn, which makes the op from the loss.  update_ops: what runs with the step, those of the
        collection UPDATE_OPS if None.  Raises ValueError.
        """
        with name_scope(self._scope(), "head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(
                    mode, predictions=predictions, export_outputs=self._export_outputs(predictions)
                )
            losses = self._losses(labels, logits, features, mode, regularization_losses)
            loss = dict(losses)["loss"]
            if mode == ModeKeys.EVAL:
                metrics = self.update_metrics(
                    self.metrics(regularization_losses),
                    features,
                    logits,
                    labels,
                    regularization_losses,
                )
                found = {name: metric.as_tuple() for name, metric in metrics.items()}
                return EstimatorSpec(
                    mode, predictions=predictions, loss=loss, eval_metric_ops=found
                )
            train_op = _train_op(loss, optimizer, trainable_variables, train_op_fn, update_ops)
        with name_scope(""):
            for key, value in losses:
                scalar(self._key(key), value)
        return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

    def _scope(self) -> str | None:
        return self.name

    def _key(self, key: str) -> str:
        """A metric's or summary's name with that of the head."""
        return f"{key}/{self.name}" if self.name else key

    def _losses(
        self,
        labels: Any,
        logits: Any,
        features: Any,
        mode: str,
        regularization_losses: Sequence[Any] | None,
    ) -> list[tuple[str, Tensor]]:
        """What is reported of a batch, by name, and of it "loss", which is minimized."""
        found = self.loss(labels, logits, features, mode, regularization_losses)
        return [("loss", found), *regularization(regularization_losses).items()]

    def _export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        """What is exported; of a head that says nothing else, the predictions."""
        output = PredictOutput(predictions)
        return {DEFAULT: output, PREDICT: output}


def regularization(losses: Sequence[Any] | None) -> dict[str, Tensor]:
    """The sum of regularization losses by its name, if there are any."""
    return {"regularization_loss": add_n(list(losses))} if losses else {}


def _train_op(
    loss: Tensor,
    optimizer: Any,
    variables: Sequence[Any] | None,
    train_op_fn: Callable[[Any], Any] | None,
    update_ops: Sequence[Any] | None,
) -> Any:
    if optimizer is not None and train_op_fn is not None:
        raise ValueError("train_op_fn and optimizer cannot both be set.")
    if optimizer is not None:
        step = get_global_step()
        made = optimizer.minimize(
            loss, global_step=step, var_list=None if variables is None else list(variables)
        )
    elif train_op_fn is not None:
        made = train_op_fn(loss)
    else:
        raise ValueError("train_op_fn and optimizer cannot both be None.")
    if update_ops is not None and not isinstance(update_ops, (list, tuple)):
        raise ValueError(f"update_ops should be a list or a tuple. Given type: {type(update_ops)}.")
    if update_ops is None:
        update_ops = get_default_graph().get_collection(GraphKeys.UPDATE_OPS)
    return group(made, *update_ops) if update_ops else made


class OneHead(Head):
    """A head with one loss: what all but MultiHead have in common."""

    _classic = False
    """Whether it is a head of tf.contrib.estimator and of canned estimators, whose reports differ a little."""

    def __init__(
        self,
        logits_dimension: int,
        weight_column: Any,
        loss_reduction: str,
        loss_fn: Callable[..., Any] | None,
        name: str | None,
    ) -> None:
        known = Reduction.all() if self._classic else ("none", *_REDUCTIONS)
        if loss_reduction not in known or loss_reduction == "none":
            raise ValueError(
                f"Invalid loss_reduction: {loss_reduction}. See `tf.losses.Reduction` for valid options: here they are "
                f"{', '.join(sorted(set(known) - {'none'}))}"
            )
        check_loss_fn(loss_fn)
        self._logits_dimension = logits_dimension
        self._weight_column = weight_column
        self._loss_reduction = loss_reduction
        self._loss_fn = loss_fn
        self._name = name

    @property
    def name(self) -> str | None:
        """See `Head`."""
        return self._name

    @property
    def logits_dimension(self) -> int:
        """See `Head`."""
        return self._logits_dimension

    @property
    def loss_reduction(self) -> str:
        """See `Head`."""
        return self._loss_reduction

    def _processed(self, labels: Any, logits: Tensor) -> Any:
        """Labels as the loss and the metrics take them.  Raises ValueError."""
        return checked_labels(labels, logits, self._logits_dimension)

    def _unweighted(self, labels: Any, logits: Tensor, features: Any) -> Tensor:
        """The losses of a batch, [batch, …, 1 or as many as logits]."""
        raise NotImplementedError

    def _weighted(self, labels: Any, logits: Tensor, features: Any) -> tuple[Tensor, Tensor, Any]:
        """The loss without regularization, what it is reduced from, and the weights of that."""
        losses = self._unweighted(labels, logits, features)
        weights = weights_of(features, self._weight_column, logits)
        if self._classic:
            loss = compute_weighted_loss(losses, weights, reduction=self._loss_reduction)
        else:
            reduction = _REDUCTIONS[self._loss_reduction]
            loss = compute_weighted_loss(losses, weights, None, None, reduction)
        return loss, losses, weights

    def _of_batch(
        self, labels: Any, logits: Any, features: Any, regularization_losses: Sequence[Any] | None
    ) -> tuple[Tensor, Tensor, Any]:
        """As `_weighted`, of labels and logits that are looked at first, and with regularization."""
        with name_scope(None, "losses", (logits,)):
            logits = checked_logits(logits, self._logits_dimension)
            loss, losses, weights = self._weighted(
                self._processed(labels, logits), logits, features
            )
            more = regularization(regularization_losses)
            return add_n([loss, *more.values()]) if more else loss, losses, weights

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Tensor:
        """See `Head`."""
        return self._of_batch(labels, logits, features, regularization_losses)[0]

    def _losses(
        self,
        labels: Any,
        logits: Any,
        features: Any,
        mode: str,
        regularization_losses: Sequence[Any] | None,
    ) -> list[tuple[str, Tensor]]:
        found, losses, weights = self._of_batch(labels, logits, features, regularization_losses)
        reported = [("loss", found)]
        if self._loss_reduction == Reduction.SUM and mode == ModeKeys.TRAIN:
            mean = compute_weighted_loss(losses, weights, None, None, Reduction.MEAN)
            reported.append(("average_loss", mean))
        return [*reported, *regularization(regularization_losses).items()]

    def _own_metrics(self) -> list[HeadMetric]:
        """The metrics that the head adds to the mean of its losses."""
        raise NotImplementedError

    def _updates(
        self, metrics: Mapping[str, HeadMetric], labels: Any, logits: Tensor, weights: Any
    ) -> None:
        """Add a batch to those of `_own_metrics`."""
        raise NotImplementedError

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, HeadMetric]:
        """See `Head`."""
        found = [mean_of(self._key("average_loss")), *self._own_metrics()]
        if regularization_losses:
            found.append(mean_of(self._key("regularization_loss")))
        return {metric.name: metric for metric in found}

    def update_metrics(
        self,
        eval_metrics: dict[str, HeadMetric],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, HeadMetric]:
        """See `Head`."""
        logits = checked_logits(logits, self._logits_dimension)
        labels = self._processed(labels, logits)
        losses = self._unweighted(labels, logits, features)
        given = weights_of(features, self._weight_column, logits)
        weights = None if self._weight_column is None else given
        eval_metrics[self._key("average_loss")].update_state(losses, weights)
        self._updates(eval_metrics, labels, logits, weights)
        for key, value in regularization(regularization_losses).items():
            eval_metrics[self._key(key)].update_state(value)
        return eval_metrics


def chosen(
    made: Mapping[str, Callable[[], Tensor]], keys: Sequence[str] | None
) -> dict[Any, Tensor]:
    """The predictions of these names, all if None.  Raises ValueError: there are no such."""
    for key in keys or ():
        if key not in made:
            raise ValueError(
                f"Prediction key must be in PredictionKeys, given: {key}. Valid prediction keys include {list(made)}."
            )
    return {key: build() for key, build in made.items() if keys is None or key in keys}
