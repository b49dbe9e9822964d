"""CheckpointInputPipelineHook: where a worker's iterators are, in checkpoints of their own beside the model's.

Called by: programs.  Threads: the caller's.
Source: TF 1.15 behaviour of tf.data.experimental.CheckpointInputPipelineHook
"""

from __future__ import annotations

from typing import Any

from headrace.graph import scopes
from headrace.library.data.iterators import ITERATORS
from headrace.training.hooks.checkpoints import CheckpointSaverHook
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook
from headrace.training.saver.checkpoint_management import latest_checkpoint
from headrace.training.saver.iterators import IteratorSaveable
from headrace.training.saver.saver import Saver

__all__ = ["CheckpointInputPipelineHook"]


class CheckpointInputPipelineHook(SessionRunHook):
    """Saves the positions of all iterators of the graph with the model's period, and restores the last ones.

    A new session begins where the last checkpoint of iterators was written, when its iterators were initialized (by an
    initializer in TABLE_INITIALIZERS, or another hook).  The model's checkpoint is another file: after a kill between
    the two, elements of one period may come twice or be left out.
    """

    def __init__(
        self,
        estimator: Any = None,
        external_state_policy: str | None = None,
        *,
        checkpoint_dir: str | None = None,
        save_secs: float | None = None,
        save_steps: int | None = None,
        task: tuple[str, int] | None = None,
    ) -> None:
        """estimator: has `model_dir` and `config`, as TensorFlow's; else checkpoint_dir and one of the periods.

        task: (job, index) where several workers have iterators of their own, each with its own checkpoints.
        external_state_policy: see `make_saveable_from_iterator`.  Raises ValueError.
        """
        if (estimator is None) == (checkpoint_dir is None):
            raise ValueError(
                "CheckpointInputPipelineHook needs an estimator, or checkpoint_dir and save_steps or save_secs"
            )
        if estimator is not None:
            config = estimator.config
            checkpoint_dir = estimator.model_dir
            save_secs, save_steps = config.save_checkpoints_secs, config.save_checkpoints_steps
            if config.num_worker_replicas > 1:
                task = (config.task_type, config.task_id)
        assert checkpoint_dir is not None
        prefix = "input" if task is None else f"input_{task[0]}_{task[1]}"
        self._policy = external_state_policy
        self._directory, self._latest = checkpoint_dir, f"checkpoint_{prefix}"
        self._hook = CheckpointSaverHook(
            checkpoint_dir,
            save_secs,
            save_steps,
            checkpoint_basename=f"{prefix}.ckpt",
            save_graph_def=False,
        )
        self._saver: _NamedSaver | None = None
        self._begun = False

    def begin(self) -> None:
        """Build the saver.  Raises RuntimeError if there is no global step, ValueError if there is no iterator."""
        if self._saver is None:
            handles = scopes.get_default_graph().get_collection(ITERATORS)
            if not handles:
                raise ValueError(
                    "CheckpointInputPipelineHook found no iterator in the graph: make it before the session"
                )
            saveables = [IteratorSaveable(each, self._policy) for each in handles]
            self._saver = self._hook._saver = _NamedSaver(saveables, self._latest)
        self._hook.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """The next step restores, or saves first: later than hooks that initialize iterators here."""
        self._begun = False

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Before the first step take up the last position, or save the first.  Raises what savers raise."""
        if not self._begun:
            self._restore_or_save(run_context.session)
            self._begun = True
        return self._hook.before_run(run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save if it is due."""
        self._hook.after_run(run_context, run_values)

    def end(self, session: Any) -> None:
        """Save what was not saved yet."""
        self._hook.end(session)

    def _restore_or_save(self, session: Any) -> None:
        assert self._saver is not None
        latest = latest_checkpoint(self._directory, latest_filename=self._latest)
        step = session.run(self._hook._read)
        if latest is not None:
            self._saver.restore(session, latest)
        else:
            self._hook._save(session, step)
        self._hook._timer.update_last_triggered_step(step)


class _NamedSaver(Saver):
    """A saver whose list of checkpoints has a name of its own, beside the model's."""

    def __init__(self, saveables: list[IteratorSaveable], latest_filename: str) -> None:
        super().__init__(saveables)
        self._latest_filename = latest_filename

    def save(self, *args: Any, **keywords: Any) -> Any:
        """See `Saver`."""
        keywords.setdefault("latest_filename", self._latest_filename)
        return super().save(*args, **keywords)
