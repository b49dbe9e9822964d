"""Early stopping: hooks that end a training, on all of its workers, when what its evaluator wrote says so.

The chief asks now and then; when it is to stop, it sets a variable that all share, which the other workers read in each
step.
Called by: programs.  Threads: the caller's.
Source: TF 1.15 behaviour (tensorflow_estimator, early_stopping.py); stops and files are compared with the oracle
"""

from __future__ import annotations

import glob
import logging
import operator
import os
from collections.abc import Callable, Iterator
from typing import Any

from headrace.base import dtypes, errors
from headrace.graph.collections import GraphKeys
from headrace.library.variables.assigning import assign
from headrace.library.variables.initializers import constant_initializer
from headrace.library.variables.variable_scope import AUTO_REUSE, get_variable, variable_scope
from headrace.training.estimator.estimator import Estimator
from headrace.training.event_reader import summary_iterator
from headrace.training.hooks.ending import StopAtStepHook
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook
from headrace.training.hooks.steps import SecondOrStepTimer, step_read_for
from headrace.training.saver.checkpoint_management import latest_checkpoint
from headrace.training.saver.checkpoint_readers import load_variable

__all__ = [
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "read_eval_metrics",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]

log = logging.getLogger("headrace")

Better = Callable[[Any, Any], bool]


def make_early_stopping_hook(
    estimator: Any,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """A hook for `train` that stops once should_stop_fn gives True; all workers of the training have it.

    run_every_secs, run_every_steps: how often the chief asks; one of them.  Raises TypeError, ValueError.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}"
        )
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError(
            "Only one of `run_every_secs` and `run_every_steps` must be set: they are "
            f"{run_every_secs} and {run_every_steps}"
        )
    if estimator.config.is_chief:
        return _StopOnPredicateHook(should_stop_fn, run_every_secs, run_every_steps)
    return _CheckForStoppingHook()


def stop_if_higher_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops once a metric of an evaluation is above the threshold.  Others: see `stop_if_no_increase_hook`."""
    return _crossing(
        estimator,
        metric_name,
        threshold,
        operator.gt,
        eval_dir,
        min_steps,
        run_every_secs,
        run_every_steps,
    )


def stop_if_lower_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops once a metric of an evaluation is below the threshold.  Others: see `stop_if_no_increase_hook`."""
    return _crossing(
        estimator,
        metric_name,
        threshold,
        operator.lt,
        eval_dir,
        min_steps,
        run_every_secs,
        run_every_steps,
    )


def stop_if_no_increase_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops once a metric has not risen for so many steps.

    eval_dir: of the evaluations' events; the estimator's own if it is not given.  min_steps: evaluations of earlier
    steps do not count.  Others: see `make_early_stopping_hook`.
    """
    return _standing(
        estimator,
        metric_name,
        max_steps_without_increase,
        operator.gt,
        eval_dir,
        min_steps,
        run_every_secs,
        run_every_steps,
    )


def stop_if_no_decrease_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> SessionRunHook:
    """Stops once a metric has not fallen for so many steps.  Others: see `stop_if_no_increase_hook`."""
    return _standing(
        estimator,
        metric_name,
        max_steps_without_decrease,
        operator.lt,
        eval_dir,
        min_steps,
        run_every_secs,
        run_every_steps,
    )


def read_eval_metrics(eval_dir: Any) -> dict[int, dict[str, float]]:
    """Step -> name -> number, of all evaluations that wrote events there, by step."""
    found: dict[int, dict[str, float]] = {}
    for event in _events(os.fspath(eval_dir)):
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found.setdefault(event.step, {})[value.tag] = value.simple_value
    return dict(sorted(found.items()))


def make_stop_at_checkpoint_step_hook(
    estimator: Any, last_step: int, wait_after_file_check_secs: float = 30
) -> SessionRunHook:
    """Stops the chief at last_step, and another worker when a checkpoint of that step is there.

    wait_after_file_check_secs: what such a worker waits before it looks again.
    """
    if estimator.config.is_chief:
        return StopAtStepHook(last_step=last_step)
    return _StopAtCheckpointStepHook(estimator.model_dir, last_step, wait_after_file_check_secs)


# -- when to stop -----------------------------------------------------------------------------


def _events(directory: str) -> Iterator[Any]:
    for path in sorted(glob.glob(os.path.join(glob.escape(directory), "*.tfevents.*"))):
        try:
            yield from summary_iterator(path)
        except errors.DataLossError as error:  # the evaluator is writing the last one
            log.debug("The rest of %s cannot be read: %s", path, error)


def _results(directory: str, name: str, first: int) -> Iterator[tuple[int, Any]]:
    """[step, value] of a metric from a step on.  Raises KeyError (an evaluation without it)."""
    for step, metrics in read_eval_metrics(directory).items():
        if step >= first:
            yield step, metrics[name]


def _crossing(
    estimator: Any,
    name: str,
    threshold: float,
    is_beyond: Better,
    eval_dir: str | None,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> SessionRunHook:
    directory = eval_dir or estimator.eval_dir()

    def should_stop() -> bool:
        for step, value in _results(directory, name, min_steps):
            if is_beyond(value, threshold):
                log.info("At step %s, metric %r is %s, beyond %s.", step, name, value, threshold)
                return True
        return False

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _standing(
    estimator: Any,
    name: str,
    most: int,
    is_better: Better,
    eval_dir: str | None,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> SessionRunHook:
    directory = eval_dir or estimator.eval_dir()

    def should_stop() -> bool:
        best: Any = None
        since = 0
        for step, value in _results(directory, name, min_steps):
            if best is None or is_better(value, best):
                best, since = value, step
            if step - since >= most:
                log.info(
                    "No better %r for %d steps than %s at step %d.", name, step - since, best, since
                )
                return True
        return False

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


# -- hooks ------------------------------------------------------------------------------------


def _stop_variable() -> Any:
    """What tells all workers to stop."""
    with variable_scope("signal_early_stopping", values=[], reuse=AUTO_REUSE):
        return get_variable(
            "STOP",
            shape=[],
            dtype=dtypes.bool,
            initializer=constant_initializer(False),
            collections=[GraphKeys.GLOBAL_VARIABLES],
            trainable=False,
        )


class _StopOnPredicateHook(SessionRunHook):
    """The chief's."""

    def __init__(
        self,
        should_stop_fn: Callable[[], bool],
        run_every_secs: float | None,
        run_every_steps: int | None,
    ) -> None:
        if not callable(should_stop_fn):
            raise TypeError(f"`should_stop_fn` must be callable, and is {should_stop_fn!r:.80}")
        self._should_stop = should_stop_fn
        self._timer = SecondOrStepTimer(run_every_secs, run_every_steps)
        self._step: Any = None
        self._stop: Any = None

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        self._step = step_read_for("early stopping")
        self._stop = assign(_stop_variable(), True)

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Fetch the step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ask, if it is time to."""
        step = run_values.results
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop():
            log.info("Requesting early stopping at global step %d", step)
            run_context.session.run(self._stop)
            run_context.request_stop()


class _CheckForStoppingHook(SessionRunHook):
    """Another worker's."""

    def __init__(self) -> None:
        self._stop: Any = None

    def begin(self) -> None:
        """The variable that is read in each step."""
        self._stop = _stop_variable()

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Fetch it."""
        return SessionRunArgs(self._stop)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stop if it is set."""
        if run_values.results:
            log.info("Early stopping requested, suspending run.")
            run_context.request_stop()


class _StopAtCheckpointStepHook(SessionRunHook):
    """Of a worker that looks for a checkpoint."""

    def __init__(self, model_dir: str, last_step: int, wait_s: float) -> None:
        if last_step is None:
            raise ValueError("last_step must be specified.")
        if model_dir is None:
            raise ValueError("model_dir must be specified.")
        self._model_dir, self._last_step, self._wait_s = model_dir, last_step, wait_s
        self._step: Any = None
        self._coord: Any = None

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        self._step = step_read_for("_StopAtCheckpointStepHook")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """With whom it waits."""
        self._coord = coord

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Fetch the step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Once the step is there, stop if its checkpoint is, too; else wait before the next one."""
        if run_values.results + 1 < self._last_step:
            return
        if _saved_step(self._model_dir) >= self._last_step:
            run_context.request_stop()
        else:
            self._coord.wait_for_stop(self._wait_s)


def _saved_step(model_dir: str) -> int:
    """The global step of the last checkpoint; 0 if there is none."""
    path = latest_checkpoint(model_dir)
    try:
        return 0 if path is None else int(load_variable(path, GraphKeys.GLOBAL_STEP))
    except errors.NotFoundError:  # another one has taken its place
        return 0
