"""The training of an estimator's model: what is added to its graph, and the session that runs it.

Called by: training.estimator.estimator.  Threads: the caller's.
Source: TF 1.15 behaviour; the order of hooks is compared with the oracle
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from headrace.graph import scopes
from headrace.graph.collections import GraphKeys
from headrace.ops.io.summaries import scalar
from headrace.training.device_setter import STANDARD_PS_OPS, replica_device_setter
from headrace.training.estimator.run_config import RunConfig, TaskType
from headrace.training.estimator.specs import EstimatorSpec
from headrace.training.hooks.checkpoints import CheckpointSaverHook, CheckpointSaverListener
from headrace.training.hooks.ending import NanTensorHook
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.hooks.reporting import LoggingTensorHook, StepCounterHook, SummarySaverHook
from headrace.training.monitored_training import MonitoredTrainingSession
from headrace.training.saver.saver import Saver

__all__ = ["device_function", "run_training"]

log = logging.getLogger("headrace")


def device_function(config: RunConfig) -> Callable[[Any], str] | None:
    """Where operations of a training go: the config's own function; else variables to the ps in turn, if there are."""
    if config.device_fn is not None:
        return config.device_fn
    if not config.num_ps_replicas:
        return None
    return replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        merge_devices=True,
        ps_ops=list(STANDARD_PS_OPS),
        cluster=config.cluster_spec,
    )


def run_training(
    spec: EstimatorSpec,
    config: RunConfig,
    model_dir: str,
    input_hooks: Sequence[SessionRunHook],
    hooks: Sequence[SessionRunHook],
    saving_listeners: Sequence[CheckpointSaverListener],
    global_step: Any,
    session_config: Any,
) -> Any:
    """Train until a hook or the end of an input ends it; the last step's loss, None if there was no step.

    The default graph is that of `spec`.  Raises ValueError (listeners without a hook that saves), and what steps raise.
    """
    graph = scopes.get_default_graph()
    if not any(each.op.name == "loss" for each in graph.get_collection(GraphKeys.SUMMARIES)):
        scalar("loss", spec.loss)
    graph.add_to_collection(GraphKeys.LOSSES, spec.loss)
    worker_hooks = [*input_hooks, *hooks, NanTensorHook(spec.loss)]
    if config.log_step_count_steps is not None:
        told = {"loss": spec.loss, "step": global_step}
        worker_hooks.append(LoggingTensorHook(told, every_n_iter=config.log_step_count_steps))
    worker_hooks += spec.training_hooks
    _add_saver(spec, config)
    chief_hooks = _saving_hooks(spec, config, model_dir, worker_hooks, saving_listeners)
    summary_steps, count_steps = config.save_summary_steps, config.log_step_count_steps
    jobs = config.cluster_spec.jobs
    if TaskType.MASTER in jobs and TaskType.WORKER in jobs:  # the master evaluates meanwhile
        if config.task_type == TaskType.WORKER and config.task_id == 0:
            worker_hooks += _report_hooks(spec, config, model_dir)
        summary_steps, count_steps = 0, None
    any_step = False
    loss = None
    with MonitoredTrainingSession(
        master=config.master,
        is_chief=config.is_chief,
        checkpoint_dir=model_dir,
        scaffold=spec.scaffold,
        hooks=worker_hooks,
        chief_only_hooks=[*chief_hooks, *spec.training_chief_hooks],
        save_checkpoint_secs=0,
        save_summaries_steps=summary_steps,
        config=session_config,
        max_wait_secs=config.session_creation_timeout_secs,  # type: ignore[arg-type]
        log_step_count_steps=count_steps,
        save_graph_def=config.checkpoint_save_graph_def,
    ) as session:
        fetches = [spec.train_op, spec.loss]
        while not session.should_stop():
            _, loss = session.run(fetches)
            any_step = True
    if not any_step:
        log.warning(
            "Training with estimator made no steps. Perhaps input is empty or misspecified."
        )
    return loss


def _add_saver(spec: EstimatorSpec, config: RunConfig) -> None:
    """The graph's saver, unless it or the scaffold has one."""
    graph = scopes.get_default_graph()
    if spec.scaffold.saver or graph.get_collection(GraphKeys.SAVERS):
        return
    saver = Saver(
        sharded=True,
        max_to_keep=config.keep_checkpoint_max,
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours or float("inf"),
        defer_build=True,
        save_relative_paths=True,
    )
    graph.add_to_collection(GraphKeys.SAVERS, saver)


def _saving_hooks(
    spec: EstimatorSpec,
    config: RunConfig,
    model_dir: str,
    worker_hooks: Sequence[SessionRunHook],
    saving_listeners: Sequence[CheckpointSaverListener],
) -> list[SessionRunHook]:
    """The hook that saves, unless the program brought one; listeners go to the first that there is."""
    made: list[SessionRunHook] = []
    savers = [
        hook
        for hook in (*worker_hooks, *spec.training_chief_hooks)
        if isinstance(hook, CheckpointSaverHook)
    ]
    if not savers and (config.save_checkpoints_secs or config.save_checkpoints_steps):
        savers = [
            CheckpointSaverHook(
                model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=spec.scaffold,
                save_graph_def=config.checkpoint_save_graph_def,
            )
        ]
        made += savers
    if saving_listeners:
        if not savers:
            raise ValueError(
                "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
                "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
            )
        savers[0]._listeners += saving_listeners
    return made


def _report_hooks(spec: EstimatorSpec, config: RunConfig, model_dir: str) -> list[SessionRunHook]:
    """What writes summaries and steps a second where it is not the chief that does."""
    if not config.save_summary_steps or config.log_step_count_steps is None:
        return []
    return [
        SummarySaverHook(
            save_steps=config.save_summary_steps, output_dir=model_dir, scaffold=spec.scaffold
        ),
        StepCounterHook(every_n_steps=config.log_step_count_steps, output_dir=model_dir),
    ]
