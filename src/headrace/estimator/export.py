"""`tf.estimator.export`: what an exported model is fed, and what it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of

if TYPE_CHECKING:
    from headrace.training.estimator.export_outputs import (
        ClassificationOutput,
        EvalOutput,
        ExportOutput,
        PredictOutput,
        RegressionOutput,
    )
    from headrace.training.estimator.receivers import (
        ServingInputReceiver,
        TensorServingInputReceiver,
        build_parsing_serving_input_receiver_fn,
        build_raw_serving_input_receiver_fn,
    )
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.export_outputs": (
                "ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput"
            ),
            "headrace.training.estimator.receivers": (
                "ServingInputReceiver TensorServingInputReceiver build_parsing_serving_input_receiver_fn "
                "build_raw_serving_input_receiver_fn"
            ),
        },
    )

__all__ = [
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    "ServingInputReceiver",
    "TensorServingInputReceiver",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
]
