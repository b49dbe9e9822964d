"""MonitoredTrainingSession: a monitored session with what a training on a cluster wants.

Called by: programs.  Threads: the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headrace.codec import protos as pb
from headrace.training.hooks.checkpoints import CheckpointSaverHook, SaveOnSigtermHook
from headrace.training.hooks.protocol import SessionRunHook
from headrace.training.hooks.reporting import StepCounterHook, SummarySaverHook
from headrace.training.monitored_session import MonitoredSession
from headrace.training.scaffold import Scaffold
from headrace.training.session_creators import ChiefSessionCreator, WorkerSessionCreator

__all__ = ["MonitoredTrainingSession"]


class _UseDefault:
    def __repr__(self) -> str:
        return "USE_DEFAULT"


USE_DEFAULT: Final[Any] = _UseDefault()


def MonitoredTrainingSession(  # a name of TensorFlow's
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = USE_DEFAULT,
    save_summaries_steps: int | None = USE_DEFAULT,
    save_summaries_secs: float | None = USE_DEFAULT,
    config: pb.ConfigProto | None = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: int | None = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
    *,
    save_checkpoint_in_background: bool = False,
    save_on_sigterm: bool = False,
    max_recovery_secs: float | None = None,
) -> MonitoredSession:
    """A MonitoredSession at `master`; blocks until it is ready.

    The chief restores from `checkpoint_dir` or initializes, and saves there every `save_checkpoint_secs` (600) or
    `save_checkpoint_steps`.  It writes summaries to `summary_dir` (or `checkpoint_dir`) every `save_summaries_steps`
    (100) or `save_summaries_secs`, steps a second every `log_step_count_steps`.
    max_wait_secs: how long others wait for the chief, and anybody for a task.  max_recovery_secs: how long for one that
    was lost, or is missing at a barrier; None: as long as for any.
    save_checkpoint_in_background: see CheckpointSaverHook.  save_on_sigterm: SIGTERM to this process ends the
    training after the step that runs, with a checkpoint in `checkpoint_dir`.
    Raises ValueError, DeadlineExceededError, and what the steps raise.
    """
    summaries_steps, summaries_secs = _either(
        save_summaries_steps, save_summaries_secs, (100, None)
    )
    checkpoint_steps, checkpoint_secs = _either(
        save_checkpoint_steps, save_checkpoint_secs, (None, 600)
    )
    if save_on_sigterm and not checkpoint_dir:
        raise ValueError("save_on_sigterm needs a checkpoint_dir to save to")
    scaffold = scaffold or Scaffold()
    saves = is_chief and bool(checkpoint_dir) and _wanted(checkpoint_steps, checkpoint_secs)
    all_hooks = list((chief_only_hooks if is_chief else None) or ())
    if is_chief and (directory := summary_dir or checkpoint_dir):
        summaries = summaries_steps, summaries_secs
        all_hooks += _reports(directory, scaffold, summaries, log_step_count_steps)
    if saves:
        assert checkpoint_dir is not None
        when = checkpoint_secs, checkpoint_steps
        more: Any = {
            "save_graph_def": save_graph_def,
            "in_background": save_checkpoint_in_background,
        }
        all_hooks.append(CheckpointSaverHook(checkpoint_dir, *when, scaffold=scaffold, **more))
    all_hooks += hooks or ()
    if save_on_sigterm:
        assert checkpoint_dir is not None
        all_hooks.append(SaveOnSigtermHook(checkpoint_dir, scaffold=scaffold, save=not saves))
    creator = (
        ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
        if is_chief
        else WorkerSessionCreator(scaffold, master, config, max_wait_secs)
    )
    return MonitoredSession(
        creator,
        all_hooks,
        stop_grace_period_secs,
        max_recovery_secs=max_wait_secs if max_recovery_secs is None else max_recovery_secs,
        max_wait_secs=max_wait_secs,
    )


def _wanted(steps: float | None, secs: float | None) -> bool:
    return (steps or 0) > 0 or (secs or 0) > 0


def _reports(
    directory: str,
    scaffold: Scaffold,
    summaries: tuple[Any, Any],
    log_step_count_steps: int | None,
) -> list[SessionRunHook]:
    """The chief's hooks that write to `directory`: steps a second, and summaries every (steps, seconds)."""
    made: list[SessionRunHook] = []
    if _wanted(log_step_count_steps, None):
        assert log_step_count_steps is not None
        made.append(StepCounterHook(output_dir=directory, every_n_steps=log_step_count_steps))
    steps, secs = summaries
    if _wanted(steps, secs):
        made.append(
            SummarySaverHook(
                scaffold=scaffold, save_steps=steps, save_secs=secs, output_dir=directory
            )
        )
    return made


def _either(steps: Any, secs: Any, default: tuple[Any, Any]) -> tuple[Any, Any]:
    """Steps and seconds as given; where one is, the other is none by default."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default
    return None if steps is USE_DEFAULT else steps, None if secs is USE_DEFAULT else secs
