"""`slim.evaluation`: evaluation of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.contrib.evaluation import (
        StopAfterNEvalsHook,
        SummaryAtEndHook,
        checkpoints_iterator,
        evaluate_repeatedly,
        evaluation_loop,
        get_or_create_eval_step,
        wait_for_new_checkpoint,
    )
    from headrace.training.contrib.evaluation import slim_evaluate_once as evaluate_once
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.contrib.evaluation": (
                "StopAfterNEvalsHook SummaryAtEndHook checkpoints_iterator "
                "evaluate_once=slim_evaluate_once evaluate_repeatedly evaluation_loop "
                "get_or_create_eval_step wait_for_new_checkpoint"
            ),
        },
        _names_beneath(__name__),
    )

__all__ = [
    "StopAfterNEvalsHook",
    "SummaryAtEndHook",
    "checkpoints_iterator",
    "evaluate_once",
    "evaluate_repeatedly",
    "evaluation_loop",
    "get_or_create_eval_step",
    "wait_for_new_checkpoint",
]
