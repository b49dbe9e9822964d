"""RegressionHead and its kin: numbers.

Called by: programs, training.estimator.heads.classic.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.math.casting import cast
from headrace.ops.nn.basics import log_poisson_loss, sigmoid_cross_entropy_with_logits
from headrace.ops.tables import make
from headrace.training.estimator.export_outputs import (
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from headrace.training.estimator.heads.checks import checked_logits, loss_by
from headrace.training.estimator.heads.head import DEFAULT, PREDICT, REGRESS, OneHead, chosen
from headrace.training.estimator.heads.streams import HeadMetric, mean_of

__all__ = ["LogisticRegressionHead", "PoissonRegressionHead", "RegressionHead"]


class RegressionHead(OneHead):
    """label_dimension numbers an example: the logits, or what inverse_link_fn makes of them."""

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        inverse_link_fn: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> None:
        """loss_fn: of labels and logits (and features), gives [batch, label_dimension], instead of the squared error.

        inverse_link_fn: what makes predictions of logits.  weight_column, loss_reduction: as `BinaryClassHead` has
        them.  Raises ValueError.
        """
        if label_dimension < 1:
            raise ValueError(f"Invalid label_dimension {label_dimension}: it must be at least 1")
        self._inverse_link_fn = inverse_link_fn
        super().__init__(label_dimension, weight_column, loss_reduction, loss_fn, name)

    def _processed(self, labels: Any, logits: Tensor) -> Any:
        return cast(super()._processed(labels, logits), dtypes.float32)

    def _unweighted(self, labels: Any, logits: Tensor, features: Any) -> Tensor:
        if self._loss_fn is not None:
            dimension = self._logits_dimension
            return loss_by(self._loss_fn, labels, logits, features, self._loss_reduction, dimension)
        found: Tensor = make.SquaredDifference(labels, logits)
        return found

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """predictions [batch, label_dimension]; logits, if they are others."""
        with name_scope(None, "predictions", (logits,)):
            known = checked_logits(logits, self._logits_dimension)
            link = self._inverse_link_fn
            if link is None:
                return chosen({"predictions": lambda: known}, keys)
            return chosen({"predictions": lambda: link(known), "logits": lambda: known}, keys)

    def _own_metrics(self) -> list[HeadMetric]:
        return [mean_of(self._key("prediction/mean")), mean_of(self._key("label/mean"))]

    def _updates(
        self, metrics: Mapping[str, HeadMetric], labels: Any, logits: Tensor, weights: Any
    ) -> None:
        said = self.predictions(logits)["predictions"]
        metrics[self._key("prediction/mean")].update_state(said, weights)
        metrics[self._key("label/mean")].update_state(labels, weights)

    def _export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        output = RegressionOutput(predictions["predictions"])
        return {DEFAULT: output, REGRESS: output, PREDICT: PredictOutput(predictions)}


def _logistic(labels: Any, logits: Any) -> Any:
    return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


class LogisticRegressionHead(RegressionHead):
    """One number in [0, 1] an example, the sigmoid of its logit, whose loss is the cross entropy."""

    def __init__(
        self,
        weight_column: Any = None,
        loss_reduction: str = "sum_over_batch_size",
        name: str | None = None,
    ) -> None:
        """weight_column, loss_reduction: as `BinaryClassHead` has them.  Raises ValueError."""
        link: Any = make.Sigmoid
        super().__init__(1, weight_column, loss_reduction, _logistic, link, name)


class PoissonRegressionHead(RegressionHead):
    """label_dimension counts an example, the exponentials of its logits, with the loss of a Poisson distribution."""

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: Any = None,
        loss_reduction: str = "sum_over_batch_size",
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        """compute_full_loss: with the term that depends on the labels alone.

        weight_column, loss_reduction: as `BinaryClassHead` has them.  Raises ValueError.
        """

        def losses(labels: Any, logits: Any) -> Any:
            return log_poisson_loss(
                targets=labels, log_input=logits, compute_full_loss=compute_full_loss
            )

        link: Any = make.Exp
        super().__init__(label_dimension, weight_column, loss_reduction, losses, link, name)
