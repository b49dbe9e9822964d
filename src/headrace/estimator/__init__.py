"""`tf.estimator`: a model_fn trained, evaluated, asked for predictions and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.estimator import experimental, export, inputs
    from headrace.training.estimator.added_metrics import add_metrics
    from headrace.training.estimator.canned.baseline import (
        BaselineClassifier,
        BaselineEstimator,
        BaselineRegressor,
    )
    from headrace.training.estimator.canned.combined import (
        DNNLinearCombinedClassifier,
        DNNLinearCombinedEstimator,
        DNNLinearCombinedRegressor,
    )
    from headrace.training.estimator.canned.dnn import DNNClassifier, DNNEstimator, DNNRegressor
    from headrace.training.estimator.canned.linear import (
        LinearClassifier,
        LinearEstimator,
        LinearRegressor,
    )
    from headrace.training.estimator.estimator import Estimator
    from headrace.training.estimator.exporters import (
        BestExporter,
        Exporter,
        FinalExporter,
        LatestExporter,
    )
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
    from headrace.training.estimator.parse_specs import (
        classifier_parse_example_spec,
        regressor_parse_example_spec,
    )
    from headrace.training.estimator.run_config import RunConfig
    from headrace.training.estimator.specs import EstimatorSpec
    from headrace.training.estimator.train_and_evaluate import train_and_evaluate
    from headrace.training.estimator.train_specs import EvalSpec, TrainSpec
    from headrace.training.estimator.warm_start import WarmStartSettings
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
            "headrace.training.estimator.added_metrics": "add_metrics",
            "headrace.training.estimator.canned.baseline": (
                "BaselineClassifier BaselineEstimator BaselineRegressor"
            ),
            "headrace.training.estimator.canned.combined": (
                "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor"
            ),
            "headrace.training.estimator.canned.dnn": "DNNClassifier DNNEstimator DNNRegressor",
            "headrace.training.estimator.canned.linear": "LinearClassifier LinearEstimator LinearRegressor",
            "headrace.training.estimator.estimator": "Estimator",
            "headrace.training.estimator.exporters": (
                "BestExporter Exporter FinalExporter LatestExporter"
            ),
            "headrace.training.estimator.heads.binary": "BinaryClassHead",
            "headrace.training.estimator.heads.head": "Head",
            "headrace.training.estimator.heads.multi_class": "MultiClassHead",
            "headrace.training.estimator.heads.multi_head": "MultiHead",
            "headrace.training.estimator.heads.multi_label": "MultiLabelHead",
            "headrace.training.estimator.heads.regression": (
                "LogisticRegressionHead PoissonRegressionHead RegressionHead"
            ),
            "headrace.training.estimator.modes": "ModeKeys",
            "headrace.training.estimator.parse_specs": (
                "classifier_parse_example_spec regressor_parse_example_spec"
            ),
            "headrace.training.estimator.run_config": "RunConfig",
            "headrace.training.estimator.specs": "EstimatorSpec",
            "headrace.training.estimator.train_and_evaluate": "train_and_evaluate",
            "headrace.training.estimator.train_specs": "EvalSpec TrainSpec",
            "headrace.training.estimator.warm_start": "WarmStartSettings",
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
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "BestExporter",
    "BinaryClassHead",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FeedFnHook",
    "FinalExporter",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "Head",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
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
    "RunConfig",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "classifier_parse_example_spec",
    "experimental",
    "export",
    "inputs",
    "regressor_parse_example_spec",
    "train_and_evaluate",
]
