"""`tf.estimator.experimental`: logits of features, hooks that stop early or evaluate, what exported models are fed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.estimator.canned.logits import (
        call_logit_fn,
        dnn_logit_fn_builder,
        linear_logit_fn_builder,
    )
    from headrace.training.estimator.early_stopping import (
        make_early_stopping_hook,
        make_stop_at_checkpoint_step_hook,
        stop_if_higher_hook,
        stop_if_lower_hook,
        stop_if_no_decrease_hook,
        stop_if_no_increase_hook,
    )
    from headrace.training.estimator.in_memory_evaluator import InMemoryEvaluatorHook
    from headrace.training.estimator.receivers import build_raw_supervised_input_receiver_fn
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.canned.logits": (
                "call_logit_fn dnn_logit_fn_builder linear_logit_fn_builder"
            ),
            "headrace.training.estimator.early_stopping": (
                "make_early_stopping_hook make_stop_at_checkpoint_step_hook stop_if_higher_hook stop_if_lower_hook "
                "stop_if_no_decrease_hook stop_if_no_increase_hook"
            ),
            "headrace.training.estimator.in_memory_evaluator": "InMemoryEvaluatorHook",
            "headrace.training.estimator.receivers": "build_raw_supervised_input_receiver_fn",
        },
    )

__all__ = [
    "InMemoryEvaluatorHook",
    "build_raw_supervised_input_receiver_fn",
    "call_logit_fn",
    "dnn_logit_fn_builder",
    "linear_logit_fn_builder",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]
