"""`tf.contrib.tpu`: estimators that were written for TPUs, without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.base.lazy import names_of as _names_of
from headrace.unmodified.facade import names_beneath as _names_beneath

if TYPE_CHECKING:
    from headrace.training.estimator.tpu.config import InputPipelineConfig, RunConfig, TPUConfig
    from headrace.training.estimator.tpu.estimator import TPUEstimator
    from headrace.training.estimator.tpu.optimizer import CrossShardOptimizer
    from headrace.training.estimator.tpu.spec import TPUEstimatorSpec
else:
    __getattr__, __dir__ = _names_of(
        __name__,
        {
            "headrace.training.estimator.tpu.config": "InputPipelineConfig RunConfig TPUConfig",
            "headrace.training.estimator.tpu.estimator": "TPUEstimator",
            "headrace.training.estimator.tpu.optimizer": "CrossShardOptimizer",
            "headrace.training.estimator.tpu.spec": "TPUEstimatorSpec",
        },
        _names_beneath(__name__),
    )

__all__ = [
    "CrossShardOptimizer",
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
]
