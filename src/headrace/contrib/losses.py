"""`tf.contrib.losses`: losses that take predictions before labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.losses import (
        absolute_difference,
        add_loss,
        compute_weighted_loss,
        cosine_distance,
        get_losses,
        get_regularization_losses,
        get_total_loss,
        hinge_loss,
        log_loss,
        mean_pairwise_squared_error,
        mean_squared_error,
        sigmoid_cross_entropy,
        softmax_cross_entropy,
        sparse_softmax_cross_entropy,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.losses": (
                "absolute_difference add_loss compute_weighted_loss cosine_distance get_losses "
                "get_regularization_losses get_total_loss hinge_loss log_loss "
                "mean_pairwise_squared_error mean_squared_error sigmoid_cross_entropy "
                "softmax_cross_entropy sparse_softmax_cross_entropy"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]
