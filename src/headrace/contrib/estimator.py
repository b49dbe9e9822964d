"""`tf.contrib.estimator`: heads, and what else estimators had there before tf.estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.estimator.added_metrics import add_metrics
    from headrace.training.estimator.canned.baseline import BaselineEstimator
    from headrace.training.estimator.canned.combined import DNNLinearCombinedEstimator
    from headrace.training.estimator.canned.dnn import DNNEstimator
    from headrace.training.estimator.canned.linear import LinearEstimator
    from headrace.training.estimator.canned.logits import (
        call_logit_fn,
        dnn_logit_fn_builder,
        linear_logit_fn_builder,
    )
    from headrace.training.estimator.early_stopping import (
        make_early_stopping_hook,
        make_stop_at_checkpoint_step_hook,
        read_eval_metrics,
        stop_if_higher_hook,
        stop_if_lower_hook,
        stop_if_no_decrease_hook,
        stop_if_no_increase_hook,
    )
    from headrace.training.estimator.heads.classic import (
        binary_classification_head,
        logistic_regression_head,
        multi_class_head,
        multi_head,
        multi_label_head,
        poisson_regression_head,
        regression_head,
    )
    from headrace.training.estimator.in_memory_evaluator import InMemoryEvaluatorHook
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.added_metrics": "add_metrics",
            "headrace.training.estimator.canned.baseline": "BaselineEstimator",
            "headrace.training.estimator.canned.combined": "DNNLinearCombinedEstimator",
            "headrace.training.estimator.canned.dnn": "DNNEstimator",
            "headrace.training.estimator.canned.linear": "LinearEstimator",
            "headrace.training.estimator.canned.logits": (
                "call_logit_fn dnn_logit_fn_builder linear_logit_fn_builder"
            ),
            "headrace.training.estimator.early_stopping": (
                "make_early_stopping_hook make_stop_at_checkpoint_step_hook read_eval_metrics stop_if_higher_hook "
                "stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook"
            ),
            "headrace.training.estimator.heads.classic": (
                "binary_classification_head logistic_regression_head multi_class_head multi_head multi_label_head "
                "poisson_regression_head regression_head"
            ),
            "headrace.training.estimator.in_memory_evaluator": "InMemoryEvaluatorHook",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "BaselineEstimator",
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "InMemoryEvaluatorHook",
    "LinearEstimator",
    "add_metrics",
    "binary_classification_head",
    "call_logit_fn",
    "dnn_logit_fn_builder",
    "linear_logit_fn_builder",
    "logistic_regression_head",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "read_eval_metrics",
    "regression_head",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]
