"""`tf.estimator.experimental`: what a model that is exported for training or evaluation is fed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.estimator.receivers import build_raw_supervised_input_receiver_fn
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.receivers": "build_raw_supervised_input_receiver_fn",
        },
    )

__all__ = [
    "build_raw_supervised_input_receiver_fn",
]
