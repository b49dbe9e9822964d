"""`tf.estimator.experimental`: logits of features, and what models exported for training or evaluation are fed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.estimator.canned.logits import (
        call_logit_fn,
        dnn_logit_fn_builder,
        linear_logit_fn_builder,
    )
    from headrace.training.estimator.receivers import build_raw_supervised_input_receiver_fn
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.canned.logits": (
                "call_logit_fn dnn_logit_fn_builder linear_logit_fn_builder"
            ),
            "headrace.training.estimator.receivers": "build_raw_supervised_input_receiver_fn",
        },
    )

__all__ = [
    "build_raw_supervised_input_receiver_fn",
    "call_logit_fn",
    "dnn_logit_fn_builder",
    "linear_logit_fn_builder",
]
