"""train_and_evaluate: the part of this process in a training, which TF_CONFIG says.

Called by: programs.  Threads: the caller's; a task's server has its own, and goes on until the process ends.
Source: TF 1.15 behaviour; compared with the oracle
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.evaluator import (
    EvaluatingListener,
    Evaluator,
    evaluate_continuously,
)
from headrace.training.estimator.run_config import RunConfig, TaskType
from headrace.training.estimator.train_specs import EvalSpec, TrainSpec
from headrace.training.hooks.checkpoints import CheckpointSaverListener

if TYPE_CHECKING:
    from headrace.serve.server import Server

__all__ = ["train_and_evaluate"]

log = logging.getLogger("headrace")

_WORKER_DELAY_SECS: Final = 5
_MAX_WORKER_DELAY_SECS: Final = 60


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any] | None] | None:
    """Train, evaluate and export: as one process, or as the task of a cluster that TF_CONFIG says this is.

    | this process | does |
    |---|---|
    | alone | trains; evaluates after each checkpoint. Returns (metrics of the last evaluation, what exporters gave) |
    | chief | trains, saves |
    | worker | trains, beginning 5 s later than the one before it, 60 s at most |
    | ps | serves until it is killed |
    | evaluator | evaluates each new checkpoint until that of max_steps, or SIGTERM, which lets it finish |
    | master | as the chief, and evaluates as one alone |

    The tasks of a cluster return None.  Blocks until it is done; on a ps, for ever.
    Raises TypeError, ValueError (arguments, a task that has no part), and as `Estimator.train` and `evaluate`.
    """
    for name, value, wanted in (
        ("eval_spec", eval_spec, EvalSpec),
        ("estimator", estimator, Estimator),
        ("train_spec", train_spec, TrainSpec),
    ):
        if not isinstance(value, wanted):
            raise TypeError(
                f"`{name}` must have type `tf.estimator.{wanted.__name__}`. Got: {type(value)}"
            )
    config = estimator.config
    evaluator = Evaluator(estimator, eval_spec, train_spec.max_steps)
    if config.task_type == TaskType.EVALUATOR:
        if config.task_id > 0:
            raise ValueError(
                "For distributed training, there can only be one `evaluator` task (with task id 0).  Given task id "
                f"{config.task_id}"
            )
        evaluate_continuously(evaluator, eval_spec)
        return None
    listener = EvaluatingListener(evaluator, eval_spec.throttle_secs)
    if not config.cluster_spec:
        log.info(
            "Start train and evaluate loop. The evaluate will happen after every checkpoint, every %s steps or %s s.",
            config.save_checkpoints_steps,
            config.save_checkpoints_secs,
        )
        _train(estimator, train_spec, [listener])
        return evaluator.metrics, evaluator.exports
    parts: dict[str, Callable[[], None]] = {
        TaskType.CHIEF: lambda: _train(estimator, train_spec, ()),
        TaskType.MASTER: lambda: _train(estimator, train_spec, [listener]),
        TaskType.PS: lambda: _serve(config),
        TaskType.WORKER: lambda: _train_later(estimator, train_spec),
    }
    if config.task_type == "local":
        raise ValueError(
            "`task.type` in TF_CONFIG cannot be `local`. Leaving `cluster` and `task` properties in TF_CONFIG absent "
            "triggers train and evaluate `Estimator` locally (non-distributed)."
        )
    if config.task_type not in parts:
        raise ValueError(
            f"Task type {config.task_type} is not supported. Supported task types are "
            f"{sorted([*parts, TaskType.EVALUATOR])}"
        )
    parts[config.task_type]()
    return None


def _train(
    estimator: Estimator, spec: TrainSpec, listeners: Sequence[CheckpointSaverListener]
) -> None:
    config = estimator.config
    if config.master:
        _server(config)
    estimator.train(
        spec.input_fn,
        hooks=list(spec.hooks),
        max_steps=spec.max_steps,
        saving_listeners=[*spec.saving_listeners, *listeners],
    )


def _train_later(estimator: Estimator, spec: TrainSpec) -> None:
    """The part of a worker.  Raises ValueError: there is nobody to share variables with."""
    config = estimator.config
    if not config.num_ps_replicas and config.device_fn is None:
        raise ValueError(
            "a worker needs a ps, where variables are that all tasks train: add a job `ps` to the cluster in TF_CONFIG "
            "(`headrace launch --ps 1`), or place them elsewhere with RunConfig(device_fn=…)"
        )
    _server(config)
    most = config.experimental_max_worker_delay_secs
    delay_s = min(
        _MAX_WORKER_DELAY_SECS if most is None else int(most),
        (config.task_id + 1) * _WORKER_DELAY_SECS,
    )
    if delay_s > 0:
        log.info("Waiting %d secs before starting training.", delay_s)
        time.sleep(delay_s)
    _train(estimator, spec, ())


def _serve(config: RunConfig) -> None:
    """The part of a ps."""
    _server(config).join()


def _server(config: RunConfig) -> Server:
    """The server of this task: one for a process, whichever of its calls begins it.  Raises as `Server`."""
    from headrace.serve.connect import (
        local_servers,  # which a training without a cluster has no use for
    )
    from headrace.serve.server import Server

    address = config.cluster_spec.task_address(config.task_type, config.task_id)
    found = local_servers.find(address)
    if found is None:
        return Server(
            config.cluster_spec,
            job_name=config.task_type,
            task_index=config.task_id,
            protocol=config.protocol,
            config=config.session_config,
        )
    return found  # type: ignore[no-any-return]
