"""`slim.learning`: a training op, and the loop that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.contrib.gradients import (
        add_gradients_summaries,
        clip_gradient_norms,
        multiply_gradients,
    )
    from headrace.training.contrib.learning import create_train_op, train, train_step
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.contrib.learning": "create_train_op train train_step",
            "headrace.training.contrib.gradients": (
                "add_gradients_summaries clip_gradient_norms multiply_gradients"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "create_train_op",
    "multiply_gradients",
    "train",
    "train_step",
]
