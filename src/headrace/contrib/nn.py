"""`tf.contrib.nn`: cross entropies that take logits first, samples of classes, gradients forwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.library.contrib.nn import (
        alpha_dropout,
        deprecated_flipped_sigmoid_cross_entropy_with_logits,
        deprecated_flipped_softmax_cross_entropy_with_logits,
        deprecated_flipped_sparse_softmax_cross_entropy_with_logits,
        fwd_gradients,
        nth_element,
        rank_sampled_softmax_loss,
        sampled_sparse_softmax_loss,
        scaled_softplus,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.library.contrib.nn": (
                "alpha_dropout deprecated_flipped_sigmoid_cross_entropy_with_logits "
                "deprecated_flipped_softmax_cross_entropy_with_logits "
                "deprecated_flipped_sparse_softmax_cross_entropy_with_logits fwd_gradients nth_element "
                "rank_sampled_softmax_loss sampled_sparse_softmax_loss scaled_softplus"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "alpha_dropout",
    "deprecated_flipped_sigmoid_cross_entropy_with_logits",
    "deprecated_flipped_softmax_cross_entropy_with_logits",
    "deprecated_flipped_sparse_softmax_cross_entropy_with_logits",
    "fwd_gradients",
    "nth_element",
    "rank_sampled_softmax_loss",
    "sampled_sparse_softmax_loss",
    "scaled_softplus",
]
