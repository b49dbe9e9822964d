"""The evaluation of an estimator's model: its metrics over some steps, as a dict and as an event.

Called by: training.estimator.estimator.  Threads: the caller's.
Source: TF 1.15 behaviour; results and events are compared with the oracle
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from headrace.codec import protos as pb
from headrace.codec.tensors import make_tensor_proto
from headrace.library.metrics.means import mean
from headrace.ops.flow.identities import group
from headrace.training.contrib.evaluation import (
    PreparedEvaluation,
    StopAfterNEvalsHook,
    get_or_create_eval_step,
)
from headrace.training.estimator.run_config import RunConfig
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.scaffold import Scaffold
from headrace.training.summary_writer import FileWriterCache

__all__ = [
    "GLOBAL_STEP",
    "LOSS",
    "metrics_with_loss",
    "prepared",
    "steps_hooks",
    "write_checkpoint_path",
    "write_results",
]

log = logging.getLogger("headrace")

GLOBAL_STEP = "global_step"
LOSS = "loss"


def metrics_with_loss(spec: EstimatorSpec) -> dict[str, Any]:
    """Its metrics, and the mean of its loss.  Raises ValueError (there is a metric of that name)."""
    if LOSS in spec.eval_metric_ops:
        raise ValueError(
            f'Metric with name "{LOSS}" is not allowed, because Estimator already defines a default metric with the '
            "same name."
        )
    return {**spec.eval_metric_ops, LOSS: mean(spec.loss)}


def steps_hooks(steps: int | None) -> list[SessionRunHook]:
    """What ends an evaluation after so many steps.  Raises ValueError."""
    if steps is None:
        return []
    if steps <= 0:
        raise ValueError(f"Must specify steps > 0, given: {steps}")
    return [StopAfterNEvalsHook(num_evals=steps)]


def prepared(
    spec: EstimatorSpec,
    config: RunConfig,
    hooks: Sequence[SessionRunHook],
    global_step: Any,
    session_config: Any,
) -> PreparedEvaluation:
    """What gives the values of all metrics, and the global step of a checkpoint; of a new model without one.

    The default graph is that of `spec`.  Raises ValueError (a metric called global_step).
    """
    metrics = metrics_with_loss(spec)
    values: dict[str, Any] = {}
    updates = []
    for name, (value, update) in sorted(metrics.items()):
        values[name] = value
        updates.append(update)
    if GLOBAL_STEP in values:
        raise ValueError(
            f"Metric with name `{GLOBAL_STEP}` is not allowed, because Estimator already defines a default metric with "
            "the same name."
        )
    values[GLOBAL_STEP] = global_step
    scaffold = spec.scaffold
    if (
        scaffold.local_init_op is not None
    ):  # metrics have local variables, too, and what counts steps is one
        get_or_create_eval_step()
        both = group(scaffold.local_init_op, Scaffold.default_local_init_op())
        scaffold = Scaffold(local_init_op=both, copy_from_scaffold=scaffold)
    return PreparedEvaluation(
        master=config.evaluation_master,
        scaffold=scaffold,
        eval_ops=group(*updates),
        feed_dict=None,
        final_ops=values,
        final_ops_feed_dict=None,
        hooks=[*hooks, *spec.evaluation_hooks],
        config=session_config,
    )


def write_results(directory: str, results: Mapping[str, Any]) -> None:
    """An event of the step with each result: numbers, serialized Summaries, and other arrays as tensors."""
    step = results.get(GLOBAL_STEP, 0)
    log.info(
        "Saving dict for global step %d: %s",
        step,
        ", ".join(f"{name} = {value}" for name, value in sorted(results.items())),
    )
    summary = pb.Summary()
    for name in sorted(results):
        value = results[name]
        if name == GLOBAL_STEP or value is None:
            continue
        if isinstance(value, (float, int, np.floating, np.integer)):
            summary.value.add(tag=name, simple_value=float(value))
        elif isinstance(value, bytes):
            _add_summaries(summary, name, value)
        elif isinstance(value, np.ndarray):
            summary.value.add(tag=name).tensor.MergeFromString(
                make_tensor_proto(value).SerializeToString()
            )
        else:
            log.warning(
                "Skipping summary for %s: a number, an array or a serialized Summary is written, and it is a %s",
                name,
                type(value).__name__,
            )
    writer = FileWriterCache.get(directory)
    writer.add_summary(summary, step)
    writer.flush()


def _add_summaries(summary: pb.Summary, name: str, value: bytes) -> None:
    """Those of a serialized Summary, numbered."""
    try:
        inner = pb.Summary.FromString(value)
    except DecodeError:
        log.warning("Skipping summary for %s, cannot parse string to Summary.", name)
        return
    for at, each in enumerate(inner.value):
        each.tag = f"{name}/{at}"
        summary.value.add().CopyFrom(each)


def write_checkpoint_path(directory: str, checkpoint_path: str, step: int) -> None:
    """An event of the step that says which checkpoint its results are of."""
    log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint_path)
    summary = pb.Summary()
    summary.value.add(tag="checkpoint_path").tensor.MergeFromString(
        make_tensor_proto(checkpoint_path).SerializeToString()
    )
    writer = FileWriterCache.get(directory)
    writer.add_summary(summary, step)
    writer.flush()
