"""Evaluations of new checkpoints, and what is exported after each: in the process that trains, or in one beside it.

Called by: training.estimator.train_and_evaluate.  Threads: the caller's; an evaluator's main thread handles SIGTERM.
Source: TF 1.15 behaviour; compared with the oracle
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.base import errors
from headrace.training.estimator.estimator import Estimator
from headrace.training.estimator.evaluating import GLOBAL_STEP
from headrace.training.estimator.train_specs import EvalSpec
from headrace.training.hooks.checkpoints import CheckpointSaverListener
from headrace.training.hooks.steps import SecondOrStepTimer

__all__ = ["EvaluatingListener", "Evaluator", "evaluate_continuously"]

log = logging.getLogger("headrace")


class Evaluator:
    """Evaluates the last checkpoint, each once, and calls the exporters.

    metrics, exports: of the last evaluation; None before the first.
    """

    def __init__(self, estimator: Estimator, spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator = estimator
        self._spec = spec
        self._max_steps = max_steps
        self._evaluated: str | None = None
        self.metrics: dict[str, Any] | None = None
        self.exports: list[Any] | None = None

    def evaluate_and_export(self) -> bool:
        """Evaluate the last checkpoint, if there is one that was not evaluated; whether it was.

        One that its writer removes meanwhile, because newer ones are there, or writes once more, as a chief does that
        came back, was not.  Raises what is raised by model_fn, by steps and by exporters.
        """
        path = self._estimator.latest_checkpoint()
        if path is None:
            log.warning(
                "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready."
            )
            return False
        if path == self._evaluated:
            log.info("No new checkpoint ready for evaluation.")
            return False
        spec, written = self._spec, _written(path)
        try:
            metrics = self._estimator.evaluate(
                spec.input_fn, spec.steps, list(spec.hooks), checkpoint_path=path, name=spec.name
            )
            self.metrics = metrics
            self.exports = self._export(path, metrics, self.is_done())
        except (ValueError, OSError, errors.OpError) as error:
            if written is not None and _written(path) == written:
                raise
            log.warning(
                "%s was removed or written again while it was evaluated: what is there then will be. %s",
                path,
                error,
            )
            return False
        self._evaluated = path
        return True

    def is_done(self) -> bool:
        """Whether the checkpoint of max_steps was evaluated."""
        return (
            self.metrics is not None
            and self._max_steps is not None
            and bool(self.metrics[GLOBAL_STEP] >= self._max_steps)
        )

    def _export(self, path: str, metrics: dict[str, Any], is_the_final_export: bool) -> list[Any]:
        base = os.path.join(self._estimator.model_dir, "export")
        return [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(base, exporter.name),
                checkpoint_path=path,
                eval_result=metrics,
                is_the_final_export=is_the_final_export,
            )
            for exporter in self._spec.exporters
        ]


def _written(path: str) -> tuple[int, int] | None:
    """What tells a checkpoint from another one of that name; None if there is none."""
    for index in (f"{path}.index", path):
        try:
            found = os.stat(index)
        except FileNotFoundError:
            continue
        return found.st_ino, found.st_mtime_ns
    return None


class EvaluatingListener(CheckpointSaverListener):
    """Evaluates after a checkpoint was saved, but for the first, which is what a session begins with.

    Not sooner than the throttle allows; the last checkpoint is evaluated at any rate.
    """

    def __init__(self, evaluator: Evaluator, throttle_secs: float) -> None:
        self._evaluator = evaluator
        self._throttle_secs = throttle_secs
        self._timer = SecondOrStepTimer(every_secs=throttle_secs)
        self._is_first = True

    def begin(self) -> None:
        """A training begins."""
        self._timer.reset()
        self._is_first = True

    def after_save(self, session: Any, global_step_value: int) -> None:
        """Evaluate, if it is time."""
        if self._is_first:
            self._is_first = False
        elif self._timer.should_trigger_for_step(global_step_value):
            self._evaluate(global_step_value)
        else:
            log.info(
                "Skip the current checkpoint eval due to throttle secs (%s secs).",
                self._throttle_secs,
            )

    def end(self, session: Any, global_step_value: int) -> None:
        """Evaluate the last one, if it was not."""
        if global_step_value != self._timer.last_triggered_step():
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> None:
        self._timer.update_last_triggered_step(step)
        self._evaluator.evaluate_and_export()


class _Told(BaseException):
    """SIGTERM came while there was nothing to do."""


class _Sigterm:
    """In an evaluator the first SIGTERM asks for the end: after the evaluation under way, and that of what is new.

    A second one is as if this were not there.
    """

    def __init__(self) -> None:
        self.told = False
        self._may_raise = False
        self._before: Any = signal.SIG_DFL

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Inside, SIGTERM is noted; at the end it takes effect.  Elsewhere than in the main thread it just kills."""
        try:
            self._before = signal.signal(signal.SIGTERM, self._note)
        except ValueError:
            yield
            return
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, self._before)
        if self.told:
            os.kill(os.getpid(), signal.SIGTERM)

    def _note(self, number: int, frame: Any) -> None:
        if self.told:
            signal.signal(signal.SIGTERM, self._before)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        log.warning("SIGTERM: the evaluator ends with what it has begun, and the last checkpoint")
        self.told = True
        if self._may_raise:
            self._may_raise = False
            raise _Told

    def wait(self, seconds: float) -> None:
        """Until the time is over, or SIGTERM comes."""
        try:
            self._may_raise = True
            if seconds > 0 and not self.told:
                time.sleep(seconds)
            self._may_raise = False
        except _Told:
            pass


def evaluate_continuously(evaluator: Evaluator, spec: EvalSpec) -> None:
    """Evaluate each new checkpoint until that of max_steps was, or SIGTERM comes: see `_Sigterm`.

    Begins after `spec.start_delay_secs`; looks for the next checkpoint `spec.throttle_secs` after it began with the
    one before, and not more than once a second.
    """
    sigterm = _Sigterm()
    with sigterm.handled():
        if spec.start_delay_secs:
            log.info("Waiting %f secs before starting eval.", spec.start_delay_secs)
            sigterm.wait(spec.start_delay_secs)
        while not evaluator.is_done():
            is_last, began_s = sigterm.told, time.monotonic()
            evaluated = evaluator.evaluate_and_export()
            if is_last:
                break
            passed_s = time.monotonic() - began_s
            sigterm.wait(max(spec.throttle_secs - passed_s, 0.0 if evaluated else 1.0 - passed_s))
        if evaluator.is_done():
            log.info("Exiting evaluation: the checkpoint of max_steps was evaluated.")
            sigterm.told = False  # it would have ended anyway, and well
