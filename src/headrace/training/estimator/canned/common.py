"""What the model_fns of canned estimators share: heads by the number of classes, partitioners, features, summaries.

Called by: training.estimator.canned.  Threads: as graph.
Source: TF 1.15 behaviour; names checked against the oracle
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.base import dtypes
from headrace.graph.tensor import Tensor
from headrace.library.nn.losses import Reduction
from headrace.library.variables.partitioned import min_max_variable_partitioner
from headrace.ops.io.summaries import histogram, scalar
from headrace.ops.math.casting import cast
from headrace.ops.math.comparisons import equal
from headrace.ops.math.reductions import reduce_mean
from headrace.training.estimator.heads.classic import (
    binary_classification_head,
    multi_class_head,
    regression_head,
)
from headrace.training.estimator.heads.head import Head

__all__ = [
    "activity_summaries",
    "checked_dict",
    "classes_head",
    "numbers_head",
    "partitioner_for",
    "zero_fraction",
]

LARGE_SLICE: Final = 64 << 20
"""Bytes that a part of an embedding or of linear weights has at least."""


def checked_dict(features: Any) -> Mapping[Any, Any]:
    """Raises ValueError: not a dictionary."""
    if not isinstance(features, Mapping):
        raise ValueError(
            f"features should be a dictionary of `Tensor`s. Given type: {type(features)}"
        )
    return features


def partitioner_for(config: Any, min_slice_size: int | None = None) -> Any:
    """Cuts large variables into a part for each parameter server."""
    parts = config.num_ps_replicas if config else 0
    if min_slice_size is None:
        return min_max_variable_partitioner(max_partitions=parts)
    return min_max_variable_partitioner(max_partitions=parts, min_slice_size=min_slice_size)


def _check_reduction(loss_reduction: str) -> None:
    if loss_reduction not in Reduction.all() or loss_reduction == Reduction.NONE:
        raise ValueError(
            f"Invalid loss_reduction: {loss_reduction}. See `tf.losses.Reduction` for valid options"
        )


def classes_head(
    n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: str
) -> Head:
    """The head of a classifier.  Raises ValueError."""
    _check_reduction(loss_reduction)
    if n_classes == 2:
        return binary_classification_head(
            weight_column=weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
        )
    return multi_class_head(
        n_classes,
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
    )


def numbers_head(label_dimension: int, weight_column: Any, loss_reduction: str) -> Head:
    """The head of a regressor.  Raises ValueError."""
    _check_reduction(loss_reduction)
    return regression_head(
        weight_column=weight_column,
        label_dimension=label_dimension,
        loss_reduction=loss_reduction,
    )


def zero_fraction(values: Tensor) -> Tensor:
    """How many of the values are 0, of one."""
    found: Tensor = reduce_mean(cast(equal(values, 0.0), dtypes.float32))
    return found


def activity_summaries(values: Tensor, tag: str) -> None:
    """Summaries of what a layer gives: how much of it is 0, and its values."""
    scalar(f"{tag}/fraction_of_zero_values", zero_fraction(values))
    histogram(f"{tag}/activation", values)
