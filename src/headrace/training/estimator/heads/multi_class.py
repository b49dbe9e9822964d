"""MultiClassHead: one class of several, by a logit for each.

Called by: programs, training.estimator.heads.classic.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.graph.names import name_scope
from headrace.graph.tensor import Tensor
from headrace.ops.array.shapes import expand_dims, squeeze
from headrace.ops.nn.softmax import sparse_softmax_cross_entropy_with_logits
from headrace.training.estimator.export_outputs import ExportOutput
from headrace.training.estimator.heads.checks import (
    check_vocabulary,
    checked_labels,
    checked_logits,
    in_range,
    loss_by,
)
from headrace.training.estimator.heads.classes import class_exports, class_predictions, looked_up
from headrace.training.estimator.heads.head import OneHead, chosen
from headrace.training.estimator.heads.streams import HeadMetric, accuracy_of

__all__ = ["MultiClassHead"]


class MultiClassHead(OneHead):
    """More than two classes, of which each example has one, by the softmax of as many logits."""

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        """label_vocabulary: n_classes names, which labels are then; without it labels are integers below n_classes.

        weight_column, loss_reduction, loss_fn: as `BinaryClassHead` has them.  Raises ValueError.
        """
        if n_classes is None:
            raise ValueError("n_classes cannot be None")
        if n_classes <= 2:
            raise ValueError(
                f"n_classes must be > 2: {n_classes}. For two classes use BinaryClassHead"
            )
        check_vocabulary(label_vocabulary, None if self._classic else n_classes)
        self._vocabulary = label_vocabulary
        super().__init__(n_classes, weight_column, loss_reduction, loss_fn, name)

    def _processed(self, labels: Any, logits: Tensor) -> Any:
        found: Any = checked_labels(labels, logits, 1)
        if self._vocabulary is not None:
            found = looked_up(found, self._vocabulary)
        elif not found.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer. Instead got {found.dtype}.")
        return in_range(found, self._logits_dimension, self._classic)

    def _unweighted(self, labels: Any, logits: Tensor, features: Any) -> Tensor:
        if self._loss_fn is not None:
            return loss_by(self._loss_fn, labels, logits, features, self._loss_reduction)
        losses = sparse_softmax_cross_entropy_with_logits(
            labels=squeeze(labels, [-1]), logits=logits
        )
        found: Tensor = expand_dims(losses, -1)
        return found

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """logits, probabilities [batch, classes], class_ids [batch, 1], classes, all_class_ids, all_classes."""
        with name_scope(None, "predictions", (logits,)):
            known = checked_logits(logits, self._logits_dimension)
            made = class_predictions(lambda: known, known, self._logits_dimension, self._vocabulary)
            return chosen({"logits": lambda: known, **made}, keys)

    def _own_metrics(self) -> list[HeadMetric]:
        return [accuracy_of(self._key("accuracy"))]

    def _updates(
        self, metrics: Mapping[str, HeadMetric], labels: Any, logits: Tensor, weights: Any
    ) -> None:
        said = self.predictions(logits, ["class_ids"])["class_ids"]
        metrics[self._key("accuracy")].update_state(labels, said, weights=weights)

    def _export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        return class_exports(predictions, self._logits_dimension, self._vocabulary)
