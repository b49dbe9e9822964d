"""`tf.contrib.metrics`: metrics that take predictions before labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.concatenated_metrics import (
        streaming_concat,
        streaming_dynamic_auc,
    )
    from headrace.library.contrib.correlation_metrics import (
        cohen_kappa,
        streaming_covariance,
        streaming_pearson_correlation,
    )
    from headrace.library.contrib.metrics import (
        accuracy,
        aggregate_metric_map,
        aggregate_metrics,
        count,
        sparse_recall_at_top_k,
        streaming_accuracy,
        streaming_auc,
        streaming_false_negatives,
        streaming_false_negatives_at_thresholds,
        streaming_false_positives,
        streaming_false_positives_at_thresholds,
        streaming_mean,
        streaming_mean_absolute_error,
        streaming_mean_cosine_distance,
        streaming_mean_iou,
        streaming_mean_relative_error,
        streaming_mean_squared_error,
        streaming_mean_tensor,
        streaming_percentage_less,
        streaming_precision,
        streaming_precision_at_thresholds,
        streaming_recall,
        streaming_recall_at_k,
        streaming_recall_at_thresholds,
        streaming_root_mean_squared_error,
        streaming_sensitivity_at_specificity,
        streaming_sparse_average_precision_at_k,
        streaming_sparse_precision_at_k,
        streaming_sparse_precision_at_top_k,
        streaming_sparse_recall_at_k,
        streaming_specificity_at_sensitivity,
        streaming_true_negatives,
        streaming_true_negatives_at_thresholds,
        streaming_true_positives,
        streaming_true_positives_at_thresholds,
    )
    from headrace.library.contrib.threshold_metrics import (
        PrecisionRecallData,
        f1_score,
        precision_at_recall,
        precision_recall_at_equal_thresholds,
        recall_at_precision,
        streaming_curve_points,
        streaming_false_negative_rate,
        streaming_false_negative_rate_at_thresholds,
        streaming_false_positive_rate,
        streaming_false_positive_rate_at_thresholds,
    )
    from headrace.library.sorting import (
        confusion_matrix,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.metrics": (
                "accuracy aggregate_metric_map aggregate_metrics count sparse_recall_at_top_k "
                "streaming_accuracy streaming_auc "
                "streaming_false_negatives streaming_false_negatives_at_thresholds "
                "streaming_false_positives streaming_false_positives_at_thresholds streaming_mean "
                "streaming_mean_absolute_error streaming_mean_cosine_distance streaming_mean_iou "
                "streaming_mean_relative_error streaming_mean_squared_error streaming_mean_tensor "
                "streaming_percentage_less streaming_precision streaming_precision_at_thresholds "
                "streaming_recall streaming_recall_at_k streaming_recall_at_thresholds "
                "streaming_root_mean_squared_error streaming_sensitivity_at_specificity "
                "streaming_sparse_average_precision_at_k streaming_sparse_precision_at_k "
                "streaming_sparse_precision_at_top_k streaming_sparse_recall_at_k "
                "streaming_specificity_at_sensitivity streaming_true_negatives "
                "streaming_true_negatives_at_thresholds streaming_true_positives "
                "streaming_true_positives_at_thresholds"
            ),
            "headrace.library.contrib.concatenated_metrics": "streaming_concat streaming_dynamic_auc",
            "headrace.library.contrib.correlation_metrics": (
                "cohen_kappa streaming_covariance streaming_pearson_correlation"
            ),
            "headrace.library.contrib.threshold_metrics": (
                "PrecisionRecallData f1_score precision_at_recall "
                "precision_recall_at_equal_thresholds recall_at_precision "
                "streaming_curve_points streaming_false_negative_rate "
                "streaming_false_negative_rate_at_thresholds "
                "streaming_false_positive_rate "
                "streaming_false_positive_rate_at_thresholds"
            ),
            "headrace.library.sorting": "confusion_matrix",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "PrecisionRecallData",
    "accuracy",
    "aggregate_metric_map",
    "aggregate_metrics",
    "cohen_kappa",
    "confusion_matrix",
    "count",
    "f1_score",
    "precision_at_recall",
    "precision_recall_at_equal_thresholds",
    "recall_at_precision",
    "sparse_recall_at_top_k",
    "streaming_accuracy",
    "streaming_auc",
    "streaming_concat",
    "streaming_covariance",
    "streaming_curve_points",
    "streaming_dynamic_auc",
    "streaming_false_negative_rate",
    "streaming_false_negative_rate_at_thresholds",
    "streaming_false_negatives",
    "streaming_false_negatives_at_thresholds",
    "streaming_false_positive_rate",
    "streaming_false_positive_rate_at_thresholds",
    "streaming_false_positives",
    "streaming_false_positives_at_thresholds",
    "streaming_mean",
    "streaming_mean_absolute_error",
    "streaming_mean_cosine_distance",
    "streaming_mean_iou",
    "streaming_mean_relative_error",
    "streaming_mean_squared_error",
    "streaming_mean_tensor",
    "streaming_pearson_correlation",
    "streaming_percentage_less",
    "streaming_precision",
    "streaming_precision_at_thresholds",
    "streaming_recall",
    "streaming_recall_at_k",
    "streaming_recall_at_thresholds",
    "streaming_root_mean_squared_error",
    "streaming_sensitivity_at_specificity",
    "streaming_sparse_average_precision_at_k",
    "streaming_sparse_precision_at_k",
    "streaming_sparse_precision_at_top_k",
    "streaming_sparse_recall_at_k",
    "streaming_specificity_at_sensitivity",
    "streaming_true_negatives",
    "streaming_true_negatives_at_thresholds",
    "streaming_true_positives",
    "streaming_true_positives_at_thresholds",
]
