"""BinaryClassHead: yes or no, by one logit.

Called by: programs, training.estimator.heads.classic.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.library.metrics.confusion import precision, recall
from headrace.ops.array.constants import zeros_like
from headrace.ops.array.joining import concat
from headrace.ops.math.casting import cast
from headrace.ops.nn.basics import sigmoid_cross_entropy_with_logits
from headrace.ops.tables import make
from headrace.training.estimator.export_outputs import ExportOutput, RegressionOutput
from headrace.training.estimator.heads.checks import (
    check_vocabulary,
    checked_logits,
    in_range,
    loss_by,
)
from headrace.training.estimator.heads.classes import class_exports, class_predictions, looked_up
from headrace.training.estimator.heads.head import REGRESS, OneHead, chosen
from headrace.training.estimator.heads.streams import (
    HeadMetric,
    accuracy_of,
    area,
    baseline_of,
    mean_of,
)

__all__ = ["BinaryClassHead", "checked_thresholds", "threshold_metrics", "update_at_thresholds"]


def checked_thresholds(thresholds: Sequence[float] | None) -> tuple[float, ...]:
    """Raises ValueError: one that is not between 0 and 1."""
    found = tuple(dict.fromkeys(thresholds or ()))
    for each in found:
        if not 0 < each < 1:
            raise ValueError(f"thresholds not in (0, 1): {found}. Given: {each}")
    return found


def _at(key: str, threshold: float, classic: bool) -> str:
    shown = f"{threshold:f}" if classic else f"{threshold:g}"
    return f"{key}/positive_threshold_{shown}"


def threshold_metrics(
    thresholds: Sequence[float], classic: bool, key: Callable[[str], str]
) -> list[HeadMetric]:
    """Accuracy, precision and recall where yes begins at each threshold."""
    kinds: dict[str, Any] = {"precision": precision, "recall": recall}
    found = []
    for each in thresholds:
        found.append(accuracy_of(key(_at("accuracy", each, classic))))
        for kind, metric in kinds.items():
            found.append(HeadMetric(key(_at(kind, each, classic)), metric))
    return found


def update_at_thresholds(
    metrics: Mapping[str, HeadMetric],
    thresholds: Sequence[float],
    classic: bool,
    key: Callable[[str], str],
    batch: tuple[Any, Any, Any],
) -> None:
    """Add labels, probabilities and weights to `threshold_metrics`."""
    labels, probabilities, weights = batch
    for each in thresholds:
        said = cast(probabilities > each, dtypes.float32)
        for kind in ("accuracy", "precision", "recall"):
            metrics[key(_at(kind, each, classic))].update_state(labels, said, weights=weights)


class BinaryClassHead(OneHead):
    """Two classes by one logit, whose sigmoid is how likely the second is."""

    def __init__(
        self,
        weight_column: Any = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        """weight_column: the feature, or numeric column, of examples' weights.  label_vocabulary: two names, which
        labels are then.  thresholds: where yes begins for further metrics.  loss_reduction: "sum_over_batch_size" or
        "sum".  loss_fn: of labels and logits (and features), gives [batch, 1], instead of the sigmoid cross entropy.
        Raises ValueError.
        """
        if label_vocabulary is not None:
            check_vocabulary(label_vocabulary)
        self._thresholds = checked_thresholds(thresholds)
        self._vocabulary = label_vocabulary
        super().__init__(1, weight_column, loss_reduction, loss_fn, name)

    def _processed(self, labels: Any, logits: Tensor) -> Any:
        found = super()._processed(labels, logits)
        if self._vocabulary is not None:
            found = looked_up(found, self._vocabulary)
        elif found.dtype == dtypes.string:
            raise ValueError(
                "Labels dtype should be a number; labels that are strings need a label_vocabulary. "
                f"Instead got {found.dtype}"
            )
        return in_range(cast(found, dtypes.float32), 2, self._classic)

    def _unweighted(self, labels: Any, logits: Tensor, features: Any) -> Tensor:
        if self._loss_fn is not None:
            return loss_by(self._loss_fn, labels, logits, features, self._loss_reduction)
        found: Tensor = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return found

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """logits, logistic, probabilities [batch, 2], class_ids, classes, all_class_ids, all_classes."""
        with name_scope(None, "predictions", (logits,)):
            known = checked_logits(logits, 1)

            def two() -> Tensor:
                found: Tensor = concat((zeros_like(known), known), axis=-1, name="two_class_logits")
                return found

            return chosen(
                {
                    "logits": lambda: known,
                    "logistic": lambda: make.Sigmoid(known, name="logistic"),
                    **class_predictions(two, known, 2, self._vocabulary),
                },
                keys,
            )

    def _own_metrics(self) -> list[HeadMetric]:
        key = self._key
        return [
            accuracy_of(key("accuracy")),
            HeadMetric(key("precision"), precision),
            HeadMetric(key("recall"), recall),
            mean_of(key("prediction/mean")),
            mean_of(key("label/mean")),
            baseline_of(key("accuracy_baseline")),
            area(key("auc"), "ROC", self._classic),
            area(key("auc_precision_recall"), "PR", self._classic),
            *threshold_metrics(self._thresholds, self._classic, key),
        ]

    def _updates(
        self, metrics: Mapping[str, HeadMetric], labels: Any, logits: Tensor, weights: Any
    ) -> None:
        key = self._key
        said = self.predictions(logits, ["logistic", "class_ids"])
        logistic = said["logistic"]
        for each in ("accuracy", "precision", "recall"):
            metrics[key(each)].update_state(labels, said["class_ids"], weights=weights)
        metrics[key("prediction/mean")].update_state(logistic, weights)
        metrics[key("label/mean")].update_state(labels, weights)
        metrics[key("accuracy_baseline")].update_state(labels, weights)
        for each in ("auc", "auc_precision_recall"):
            metrics[key(each)].update_state(labels, logistic, weights=weights)
        batch = labels, logistic, weights
        update_at_thresholds(metrics, self._thresholds, self._classic, key, batch)

    def _export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        found = class_exports(predictions, 2, self._vocabulary)
        return {**found, REGRESS: RegressionOutput(predictions["logistic"])}
