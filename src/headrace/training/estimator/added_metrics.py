"""add_metrics: an estimator that reports more.

Called by: programs.  Threads: as `Estimator`.
Source: TF 1.15 behaviour; messages checked against the oracle
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headrace.training.estimator.calls import takes
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.modes import ModeKeys
from headrace.training.estimator.specs import EstimatorSpec

__all__ = ["add_metrics"]

_ARGUMENTS: Final = frozenset({"features", "labels", "predictions", "config", "self"})


def add_metrics(estimator: Estimator, metric_fn: Callable[..., Any]) -> Estimator:
    """An estimator with the model, directory and config of `estimator`, which also evaluates what metric_fn gives.

    metric_fn([features][, labels][, predictions][, config]): (value, update_op) by name; of a name that is there
    already, the new one counts.  Raises ValueError: it takes something else.
    """
    names = takes(metric_fn)
    unknown = sorted(set(names) - _ARGUMENTS)
    if unknown:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {unknown}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        known = {
            "features": features,
            "labels": labels,
            "predictions": spec.predictions,
            "config": config,
        }
        more = metric_fn(**{name: value for name, value in known.items() if name in names})
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **(more or {})})

    return Estimator(
        model_fn,
        estimator.model_dir,
        estimator.config,
        warm_start_from=estimator._warm_start_settings,
    )
