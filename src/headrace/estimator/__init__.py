"""`tf.estimator`: a model_fn trained, evaluated, asked for predictions and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.estimator import export
    from headrace.training.estimator.heads.binary import BinaryClassHead
    from headrace.training.estimator.heads.head import Head
    from headrace.training.estimator.heads.multi_class import MultiClassHead
    from headrace.training.estimator.heads.multi_head import MultiHead
    from headrace.training.estimator.heads.multi_label import MultiLabelHead
    from headrace.training.estimator.heads.regression import (
        LogisticRegressionHead,
        PoissonRegressionHead,
        RegressionHead,
    )
    from headrace.training.estimator.modes import ModeKeys
    from headrace.training.estimator.specs import EstimatorSpec
    from headrace.training.hooks.checkpoints import CheckpointSaverHook, CheckpointSaverListener
    from headrace.training.hooks.ending import (
        FinalOpsHook,
        GlobalStepWaiterHook,
        NanLossDuringTrainingError,
        NanTensorHook,
        StopAtStepHook,
    )
    from headrace.training.hooks.feeding import FeedFnHook
    from headrace.training.hooks.protocol import (
        SessionRunArgs,
        SessionRunContext,
        SessionRunHook,
        SessionRunValues,
    )
    from headrace.training.hooks.reporting import (
        LoggingTensorHook,
        ProfilerHook,
        StepCounterHook,
        SummarySaverHook,
    )
    from headrace.training.hooks.steps import SecondOrStepTimer
    from headrace.training.saver.warm_starting import VocabInfo
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.heads.binary": "BinaryClassHead",
            "headrace.training.estimator.heads.head": "Head",
            "headrace.training.estimator.heads.multi_class": "MultiClassHead",
            "headrace.training.estimator.heads.multi_head": "MultiHead",
            "headrace.training.estimator.heads.multi_label": "MultiLabelHead",
            "headrace.training.estimator.heads.regression": (
                "LogisticRegressionHead PoissonRegressionHead RegressionHead"
            ),
            "headrace.training.estimator.modes": "ModeKeys",
            "headrace.training.estimator.specs": "EstimatorSpec",
            "headrace.training.hooks.checkpoints": "CheckpointSaverHook CheckpointSaverListener",
            "headrace.training.hooks.ending": (
                "FinalOpsHook GlobalStepWaiterHook NanLossDuringTrainingError NanTensorHook StopAtStepHook"
            ),
            "headrace.training.hooks.feeding": "FeedFnHook",
            "headrace.training.hooks.protocol": (
                "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues"
            ),
            "headrace.training.hooks.reporting": (
                "LoggingTensorHook ProfilerHook StepCounterHook SummarySaverHook"
            ),
            "headrace.training.hooks.steps": "SecondOrStepTimer",
            "headrace.training.saver.warm_starting": "VocabInfo",
        },
    )

__all__ = [
    "BinaryClassHead",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "EstimatorSpec",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "Head",
    "LoggingTensorHook",
    "LogisticRegressionHead",
    "ModeKeys",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "PoissonRegressionHead",
    "ProfilerHook",
    "RegressionHead",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "VocabInfo",
    "export",
]
