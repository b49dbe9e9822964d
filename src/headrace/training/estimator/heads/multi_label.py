"""MultiLabelHead: any number of several classes, by a logit for each.

Called by: programs, training.estimator.heads.classic.  Threads: as graph.
Source: TF 1.15 behaviour; values checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.base import dtypes
from headrace.graph.names import control_dependencies, name_scope
from headrace.graph.sparse import SparseTensor
from headrace.graph.tensor import Tensor
from headrace.library.vocabularies import index_table_from_tensor
from headrace.ops.flow.checks import assert_less_equal, assert_non_negative
from headrace.ops.flow.identities import identity
from headrace.ops.math.casting import cast
from headrace.ops.math.reductions import reduce_mean
from headrace.ops.nn.basics import sigmoid_cross_entropy_with_logits
from headrace.ops.sparse.calls import sparse_to_indicator
from headrace.ops.tables import make
from headrace.training.estimator.export_outputs import (
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
)
from headrace.training.estimator.heads.binary import (
    checked_thresholds,
    threshold_metrics,
    update_at_thresholds,
)
from headrace.training.estimator.heads.checks import (
    check_vocabulary,
    checked_labels,
    checked_logits,
    loss_by,
)
from headrace.training.estimator.heads.classes import class_names, tiled
from headrace.training.estimator.heads.head import CLASSIFY, DEFAULT, PREDICT, OneHead, chosen
from headrace.training.estimator.heads.streams import HeadMetric, area, means_at

__all__ = ["MultiLabelHead"]


class MultiLabelHead(OneHead):
    """Classes of which each example has any number, by the sigmoids of as many logits."""

    def __init__(
        self,
        n_classes: int,
        weight_column: Any = None,
        thresholds: Sequence[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = "sum_over_batch_size",
        loss_fn: Callable[..., Any] | None = None,
        classes_for_class_based_metrics: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Labels are dense, 1 or 0 for each class, or a SparseTensor of classes: integers, or words of the vocabulary.

        classes_for_class_based_metrics: numbers or words of classes that get metrics of their own.  thresholds,
        weight_column, loss_reduction, loss_fn: as `BinaryClassHead` has them.  Raises ValueError.
        """
        if n_classes is None or n_classes < 2:
            raise ValueError(
                f"n_classes must be > 1 for multi-label classification. Given: {n_classes}"
            )
        check_vocabulary(label_vocabulary)
        if label_vocabulary is not None and len(label_vocabulary) != n_classes:
            raise ValueError(
                f"Length of label_vocabulary must be n_classes ({n_classes}). Given: {len(label_vocabulary)}"
            )
        self._thresholds = checked_thresholds(thresholds)
        self._vocabulary = label_vocabulary
        self._apart = _classes_apart(classes_for_class_based_metrics, label_vocabulary, n_classes)
        super().__init__(n_classes, weight_column, loss_reduction, loss_fn, name)

    def _processed(self, labels: Any, logits: Tensor) -> Any:
        if isinstance(labels, SparseTensor):
            return self._of_sparse(labels)
        found = checked_labels(labels, logits, self._logits_dimension)
        if found.dtype == dtypes.string:
            raise ValueError(
                "dense labels are 1 or 0 for each class. Labels that are words come as a SparseTensor, as "
                f"tf.io.VarLenFeature parses them. Instead got {found.dtype}"
            )
        says = "labels must be an integer indicator Tensor with values in [0, 1]"
        return cast(_within(found, found, 1, says), dtypes.float32)

    def _of_sparse(self, labels: SparseTensor) -> Tensor:
        """1 for each class that is there: [batch, classes]."""
        size = self._logits_dimension
        if self._vocabulary is not None:
            table = index_table_from_tensor(tuple(self._vocabulary), name="class_id_lookup")
            labels = table.lookup(labels)
        ids = cast(labels.values, dtypes.int64)
        says = f"labels must be an integer SparseTensor with values in [0, {size})"
        ids = _within(ids, ids, size - 1, says)
        known = SparseTensor(labels.indices, ids, labels.dense_shape)
        found: Tensor = cast(sparse_to_indicator(known, size), dtypes.float32)
        found.set_shape([None, size])
        return found

    def _unweighted(self, labels: Any, logits: Tensor, features: Any) -> Tensor:
        if self._loss_fn is not None:
            return loss_by(self._loss_fn, labels, logits, features, self._loss_reduction)
        losses = sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        found: Tensor = reduce_mean(losses, axis=-1, keepdims=True)
        return found

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[Any, Tensor]:
        """logits, probabilities [batch, classes], and classes, the names of all."""
        with name_scope(None, "predictions", (logits,)):
            known = checked_logits(logits, self._logits_dimension)
            names = class_names
            return chosen(
                {
                    "logits": lambda: known,
                    "probabilities": lambda: make.Sigmoid(known, name="probabilities"),
                    "classes": lambda: tiled(
                        names(self._logits_dimension, self._vocabulary), known
                    ),
                },
                keys,
            )

    def _own_metrics(self) -> list[HeadMetric]:
        key = self._key
        found = [
            area(key("auc"), "ROC", self._classic),
            area(key("auc_precision_recall"), "PR", self._classic),
            *threshold_metrics(self._thresholds, self._classic, key),
        ]
        for number, name in self._apart.items():
            found += [
                means_at(key(f"probability_mean/{name}"), number),
                area(key(f"auc/{name}"), "ROC", self._classic),
                area(key(f"auc_precision_recall/{name}"), "PR", self._classic),
            ]
        return found

    def _updates(
        self, metrics: Mapping[str, HeadMetric], labels: Any, logits: Tensor, weights: Any
    ) -> None:
        key = self._key
        said = self.predictions(logits, ["probabilities"])["probabilities"]
        for each in ("auc", "auc_precision_recall"):
            metrics[key(each)].update_state(labels, said, weights=weights)
        batch = labels, said, weights
        update_at_thresholds(metrics, self._thresholds, self._classic, key, batch)
        for number, name in self._apart.items():
            metrics[key(f"probability_mean/{name}")].update_state(said, weights)
            for each in ("auc", "auc_precision_recall"):
                one = slice(number, number + 1)
                metrics[key(f"{each}/{name}")].update_state(
                    labels[..., one], said[..., one], weights=weights
                )

    def _export_outputs(self, predictions: Mapping[Any, Tensor]) -> dict[str, ExportOutput]:
        scores = predictions["probabilities"]
        names = tiled(class_names(self._logits_dimension, self._vocabulary), scores)
        output = ClassificationOutput(scores, names)
        return {DEFAULT: output, CLASSIFY: output, PREDICT: PredictOutput(predictions)}


def _within(labels: Any, values: Any, most: int, says: str) -> Any:
    with name_scope(None, "check_label_range", (values,)):
        checks = [
            assert_less_equal(values, cast(most, values.dtype), message=says),
            assert_non_negative(values, message=says),
        ]
        with control_dependencies(checks):
            return identity(labels)


def _classes_apart(given: Sequence[Any] | None, vocabulary: Any, n_classes: int) -> dict[int, str]:
    """The numbers of the classes with metrics of their own, and what those are called.  Raises ValueError."""
    found = {}
    for each in given or ():
        if isinstance(each, str):
            if vocabulary is None or each not in vocabulary:
                raise ValueError(
                    f"classes_for_class_based_metrics: {each!r} is not in label_vocabulary {vocabulary}"
                )
            found[list(vocabulary).index(each)] = each
        elif not 0 <= each < n_classes:
            raise ValueError(
                f"All classes_for_class_based_metrics must be in range [0, {n_classes - 1}]. Given: {each}"
            )
        else:
            found[each] = f"class{each}"
    return found
