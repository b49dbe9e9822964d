"""Evaluation of checkpoints: `tf.contrib.training.evaluate_once` and kin, and those of `slim.evaluation`.

Called by: programs.  Threads: the caller's; what waits for a checkpoint looks once a second.
Source: behaviour of TensorFlow 1.15's contrib; tests compare with tf-slim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.graph.collections import GraphKeys
from headrace.graph.scopes import get_default_graph
from headrace.library.variables.assigning import assign_add
from headrace.library.variables.initializers import zeros_initializer
from headrace.library.variables.variable_scope import get_variable
from headrace.ops.flow.identities import identity
from headrace.ops.io.summaries import merge_all
from headrace.training import logging
from headrace.training.global_step import get_global_step
from headrace.training.hooks.ending import FinalOpsHook
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook
from headrace.training.monitored_session import MonitoredSession
from headrace.training.saver.checkpoint_management import latest_checkpoint
from headrace.training.saver.checkpoint_readers import checkpoints_iterator
from headrace.training.saver.saver import Saver
from headrace.training.scaffold import Scaffold
from headrace.training.session_creators import ChiefSessionCreator
from headrace.training.summary_writer import FileWriterCache

__all__ = [
    "PreparedEvaluation",
    "StopAfterNEvalsHook",
    "SummaryAtEndHook",
    "checkpoints_iterator",
    "evaluate_once",
    "evaluate_repeatedly",
    "evaluation_loop",
    "get_or_create_eval_step",
    "wait_for_new_checkpoint",
]

_USE_DEFAULT: Final = 0


def get_or_create_eval_step() -> Any:
    """The local variable ``eval_step``, which counts evaluations, made at 0 if there is none.

    Raises ValueError: there is more than one.
    """
    found = get_default_graph().get_collection(GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if found:
        return found[0]
    return get_variable(
        GraphKeys.EVAL_STEP,
        shape=[],
        dtype=dtypes.int64,
        initializer=zeros_initializer(),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP],
    )


class StopAfterNEvalsHook(SessionRunHook):
    """Asks for the stop after so many evaluations; none if num_evals is None."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals, self._log_progress = num_evals, log_progress
        self._completed: Any = None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._completed = updated_eval_step

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Fetch how many there were."""
        return SessionRunArgs({"evals_completed": self._completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Say so, and stop if it is enough."""
        done = run_values.results["evals_completed"]
        if self._log_progress:
            logging.info("Evaluation [%s/%s]", done, self._num_evals or "inf")
        if self._num_evals is not None and done >= self._num_evals:
            run_context.request_stop()


class SummaryAtEndHook(SessionRunHook):
    """Writes summaries once, when the evaluation has ended."""

    def __init__(
        self,
        log_dir: str | None = None,
        summary_writer: Any = None,
        summary_op: Any = None,
        feed_dict: Mapping[Any, Any] | None = None,
    ) -> None:
        """summary_op: all of the graph's if None.  Raises ValueError: neither log_dir nor summary_writer."""
        if summary_writer is None and not log_dir:
            raise ValueError("One of log_dir or summary_writer should be used.")
        self._summary_op, self._replaced = summary_op, summary_op is None
        self._feed_dict, self._writer, self._log_dir = feed_dict, summary_writer, log_dir
        self._global_step: Any = None

    def begin(self) -> None:
        """Find the step, and the graph's summaries."""
        if self._replaced:
            self._summary_op = merge_all()
        self._global_step = get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Open the event file."""
        if self._writer is None and self._log_dir:
            self._writer = FileWriterCache.get(self._log_dir)
            self._writer.add_graph(session.graph)

    def end(self, session: Any) -> None:
        """Run the summaries, and write them."""
        step = 0 if self._global_step is None else session.run(self._global_step)
        if self._summary_op is None:
            return
        summary = session.run(self._summary_op, self._feed_dict)
        if self._writer is not None:
            self._writer.add_summary(summary, step)
            self._writer.flush()


def wait_for_new_checkpoint(
    checkpoint_dir: str,
    last_checkpoint: str | None = None,
    seconds_to_sleep: float = 1,
    timeout: float | None = None,
) -> str | None:
    """The latest checkpoint, once there is one, and another than last_checkpoint; None after `timeout` seconds."""
    logging.info("Waiting for new checkpoint at %s", checkpoint_dir)
    known = latest_checkpoint(checkpoint_dir)
    if known is not None and known != last_checkpoint:
        return known
    for path in checkpoints_iterator(checkpoint_dir, seconds_to_sleep, timeout, lambda: True):
        if path != last_checkpoint:
            return path
    return None


def _counted(eval_ops: Any, eval_step: Any) -> tuple[Any, Any]:
    """(what is run, with the count of evaluations; the new count)."""
    update = assign_add(eval_step, 1)
    if isinstance(eval_ops, dict):
        ops: Any = {**eval_ops, "update_eval_step": update}
    elif isinstance(eval_ops, (list, tuple)):
        ops = [*eval_ops, update]
    else:
        ops = [eval_ops, update]
    listed = list(ops.values()) if isinstance(ops, dict) else ops
    with get_default_graph().control_dependencies(listed):
        return ops, identity(eval_step)


class PreparedEvaluation:
    """An evaluation whose nodes are made: it runs in a session of its own, as often as it is asked for.

    scaffold: of its sessions; None for a default one.
    """

    def __init__(
        self,
        master: str,
        scaffold: Scaffold | None,
        eval_ops: Any,
        feed_dict: Any,
        final_ops: Any,
        final_ops_feed_dict: Any,
        hooks: Sequence[Any] | None,
        config: pb.ConfigProto | None,
    ) -> None:
        self._master, self.scaffold, self._config = master, scaffold, config
        self._feed_dict = feed_dict
        self._final = FinalOpsHook(final_ops, final_ops_feed_dict)
        self._hooks = [*(hooks or ()), self._final]
        eval_step = get_or_create_eval_step()
        self._eval_ops = eval_ops
        if eval_ops is not None:
            self._eval_ops, completed = _counted(eval_ops, eval_step)
            for hook in self._hooks:
                if isinstance(hook, StopAfterNEvalsHook):
                    hook._set_evals_completed_tensor(completed)

    def evaluate(self, checkpoint_path: str | None, scaffold: Scaffold | None = None) -> Any:
        """Run the evaluation; gives the values of the final ops.  scaffold: another than the own one."""
        creator = ChiefSessionCreator(
            scaffold=scaffold or self.scaffold,
            checkpoint_filename_with_path=checkpoint_path,
            master=self._master,
            config=self._config,
        )
        with MonitoredSession(session_creator=creator, hooks=self._hooks) as session:
            if self._eval_ops is not None:
                while not session.should_stop():
                    session.run(self._eval_ops, self._feed_dict)
        return self._final.final_ops_values


def evaluate_once(
    checkpoint_path: str | None,
    master: str = "",
    scaffold: Scaffold | None = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Sequence[Any] | None = None,
    config: pb.ConfigProto | None = None,
) -> Any:
    """Restore a checkpoint, run eval_ops until a hook or the end of an input stops it, and give final_ops' values."""
    return PreparedEvaluation(
        master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config
    ).evaluate(checkpoint_path)


def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str = "",
    scaffold: Scaffold | None = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    eval_interval_secs: float = 60,
    hooks: Sequence[Any] | None = None,
    config: pb.ConfigProto | None = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Any:
    """`evaluate_once` of the latest checkpoint, and then of each new one; gives the values of the last time.

    eval_interval_secs: between two.  It ends after max_number_of_evaluations, or `timeout` seconds without a new one.
    """
    work = PreparedEvaluation(
        master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config
    )
    values = None
    paths = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for done, path in enumerate(paths, 1):
        values = work.evaluate(path)
        if max_number_of_evaluations is not None and done >= max_number_of_evaluations:
            break
    return values


def _slim_hooks(
    num_evals: int | None, logdir: str | None, summary_op: Any, feeds: Any, hooks: Any
) -> list[Any]:
    found: list[Any] = [StopAfterNEvalsHook(num_evals)]
    if summary_op == _USE_DEFAULT:
        summary_op = merge_all()
    if summary_op is not None and logdir:
        found.append(SummaryAtEndHook(log_dir=logdir, summary_op=summary_op, feed_dict=feeds))
    return [*found, *(hooks or ())]


def _saver(variables_to_restore: Any) -> Any:
    return Saver(variables_to_restore) if variables_to_restore else None


def slim_evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: str | None,
    num_evals: int | None = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    session_config: pb.ConfigProto | None = None,
    hooks: Sequence[Any] | None = None,
) -> Any:
    """Restore a checkpoint, run eval_op num_evals times, write summaries to logdir, and give final_op's values."""
    all_hooks = _slim_hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks)
    return evaluate_once(
        checkpoint_path,
        master=master,
        scaffold=Scaffold(
            init_op=initial_op,
            init_feed_dict=initial_op_feed_dict,
            saver=_saver(variables_to_restore),
        ),
        eval_ops=eval_op,
        feed_dict=eval_op_feed_dict,
        final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        hooks=all_hooks,
        config=session_config,
    )


def evaluation_loop(
    master: str,
    checkpoint_dir: str,
    logdir: str | None,
    num_evals: int | None = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    init_fn: Callable[..., object] | None = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None,
    session_config: pb.ConfigProto | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
    hooks: Sequence[Any] | None = None,
) -> Any:
    """`evaluate_once` of slim, of the latest checkpoint of a directory and then of each new one."""
    all_hooks = _slim_hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks)
    return evaluate_repeatedly(
        checkpoint_dir,
        master=master,
        scaffold=Scaffold(
            init_op=initial_op,
            init_feed_dict=initial_op_feed_dict,
            init_fn=init_fn,
            saver=_saver(variables_to_restore),
        ),
        eval_ops=eval_op,
        feed_dict=eval_op_feed_dict,
        final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        eval_interval_secs=eval_interval_secs,
        hooks=all_hooks,
        config=session_config,
        max_number_of_evaluations=max_number_of_evaluations,
        timeout=timeout,
        timeout_fn=timeout_fn,
    )
