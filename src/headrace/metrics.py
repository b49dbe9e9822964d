"""`tf.metrics`: values over a stream of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.library.metrics.classes import mean_iou, mean_per_class_accuracy
    from headrace.library.metrics.confusion import (
        false_negatives,
        false_positives,
        precision,
        recall,
        true_negatives,
        true_positives,
    )
    from headrace.library.metrics.means import (
        accuracy,
        mean,
        mean_absolute_error,
        mean_cosine_distance,
        mean_relative_error,
        mean_squared_error,
        mean_tensor,
        percentage_below,
        root_mean_squared_error,
    )
    from headrace.library.metrics.thresholds import (
        auc,
        false_negatives_at_thresholds,
        false_positives_at_thresholds,
        precision_at_thresholds,
        recall_at_thresholds,
        sensitivity_at_specificity,
        specificity_at_sensitivity,
        true_negatives_at_thresholds,
        true_positives_at_thresholds,
    )
    from headrace.library.metrics.top_k import (
        average_precision_at_k,
        precision_at_k,
        precision_at_top_k,
        recall_at_k,
        recall_at_top_k,
        sparse_average_precision_at_k,
        sparse_precision_at_k,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.metrics.classes": "mean_iou mean_per_class_accuracy",
            "headrace.library.metrics.confusion": (
                "false_negatives false_positives precision recall true_negatives true_positives"
            ),
            "headrace.library.metrics.means": (
                "accuracy mean mean_absolute_error mean_cosine_distance mean_relative_error mean_squared_error "
                "mean_tensor percentage_below root_mean_squared_error"
            ),
            "headrace.library.metrics.thresholds": (
                "auc false_negatives_at_thresholds false_positives_at_thresholds precision_at_thresholds "
                "recall_at_thresholds sensitivity_at_specificity specificity_at_sensitivity "
                "true_negatives_at_thresholds true_positives_at_thresholds"
            ),
            "headrace.library.metrics.top_k": (
                "average_precision_at_k precision_at_k precision_at_top_k recall_at_k recall_at_top_k "
                "sparse_average_precision_at_k sparse_precision_at_k"
            ),
        },
    )

__all__ = [
    "accuracy",
    "auc",
    "average_precision_at_k",
    "false_negatives",
    "false_negatives_at_thresholds",
    "false_positives",
    "false_positives_at_thresholds",
    "mean",
    "mean_absolute_error",
    "mean_cosine_distance",
    "mean_iou",
    "mean_per_class_accuracy",
    "mean_relative_error",
    "mean_squared_error",
    "mean_tensor",
    "percentage_below",
    "precision",
    "precision_at_k",
    "precision_at_thresholds",
    "precision_at_top_k",
    "recall",
    "recall_at_k",
    "recall_at_thresholds",
    "recall_at_top_k",
    "root_mean_squared_error",
    "sensitivity_at_specificity",
    "sparse_average_precision_at_k",
    "sparse_precision_at_k",
    "specificity_at_sensitivity",
    "true_negatives",
    "true_negatives_at_thresholds",
    "true_positives",
    "true_positives_at_thresholds",
]
