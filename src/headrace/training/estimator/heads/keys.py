"""What metrics and predictions of heads are called.

Called by: programs.  Threads: any.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MetricKeys", "PredictionKeys"]


class MetricKeys:
    """Names of metrics."""

    LOSS: Final = "loss"
    LOSS_MEAN: Final = "average_loss"
    LOSS_REGULARIZATION: Final = "regularization_loss"
    ACCURACY: Final = "accuracy"
    PRECISION: Final = "precision"
    RECALL: Final = "recall"
    ACCURACY_BASELINE: Final = "accuracy_baseline"
    AUC: Final = "auc"
    AUC_PR: Final = "auc_precision_recall"
    LABEL_MEAN: Final = "label/mean"
    PREDICTION_MEAN: Final = "prediction/mean"


class PredictionKeys:
    """Names of predictions."""

    CLASSES: Final = "classes"
    CLASS_IDS: Final = "class_ids"
    ALL_CLASSES: Final = "all_classes"
    ALL_CLASS_IDS: Final = "all_class_ids"
    LOGISTIC: Final = "logistic"
    LOGITS: Final = "logits"
    PREDICTIONS: Final = "predictions"
    PROBABILITIES: Final = "probabilities"
    TOP_K: Final = "top_k"
