"""Hooks that decide when the work begins and ends, and what is computed at the end.

Called by: programs, monitored sessions.  Threads: the caller's.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import numpy as np

from headrace.base import errors
from headrace.run.scope import sleep_limit
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook
from headrace.training.hooks.resting import Rest
from headrace.training.hooks.steps import step_read_for

__all__ = [
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "StopAtStepHook",
]

log = logging.getLogger("headrace")


class StopAtStepHook(SessionRunHook):
    """Stops once the global step has reached `last_step`, or `num_steps` more than it was at first."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Raises ValueError unless exactly one is given."""
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified. Neither is")
        if num_steps is not None and last_step is not None:
            raise ValueError(
                f"Only one of num_steps or last_step can be specified. {num_steps} and {last_step} are"
            )
        self._num_steps = num_steps
        self._last_step = last_step
        self._read: Any = None
        self._args: SessionRunArgs | None = None

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        self._read = step_read_for("StopAtStepHook")
        self._args = SessionRunArgs(self._read)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """`num_steps` count from the first session's step; a session made after a failure changes nothing."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = session.run(self._read) + self._num_steps

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Fetch the step."""
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """What was fetched may be from before the step: it is asked for again when the end may be there."""
        if run_values.results + 1 >= self._last_step and (
            run_context.session.run(self._read) >= self._last_step
        ):
            run_context.request_stop()

    _rests_from = (before_run, after_run)

    def _rest(self) -> Rest | None:
        return (
            None if self._last_step is None else Rest(self._args, self._read, self._last_step - 1)
        )

    def _rested(self, runs: int, stale: Any) -> None:
        """Nothing is counted."""


class NanLossDuringTrainingError(RuntimeError):
    """The loss is not a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Stops the training when the loss is not a number."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        """loss_tensor: a scalar, or its name.  fail_on_nan_loss: raise; False: stop as if all were done."""
        self._args = SessionRunArgs(loss_tensor)
        self._fail = fail_on_nan_loss

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Fetch the loss."""
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises NanLossDuringTrainingError."""
        loss = run_values.results
        is_scalar = isinstance(loss, np.floating)  # of which its own comparison is quicker
        if not (loss != loss if is_scalar else np.isnan(loss)):
            return
        message = "Model diverged with loss = NaN."
        if self._fail:
            log.error(message)
            raise NanLossDuringTrainingError
        log.warning(message)
        run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Runs something once, at the end; the values are in `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        """final_ops: fetches, or None."""
        self._final_ops = final_ops
        self._feed_dict = final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """What the fetches gave at the end; None before, and if there are none."""
        return self._values

    def end(self, session: Any) -> None:
        """Raises what the fetches raise; a warning says what an input that has ended means."""
        if self._final_ops is None:
            return
        try:
            self._values = session.run(self._final_ops, feed_dict=self._feed_dict)
        except (errors.OutOfRangeError, StopIteration) as end:
            log.warning(
                "the final ops could not be computed, since an input had ended before them; they should read nothing "
                "that the steps read: %s",
                end,
            )
            raise


class GlobalStepWaiterHook(SessionRunHook):
    """Delays a worker's first step until the global step, which others count, is `wait_until_step`."""

    ask_every_s = 0.5

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step
        self._read: Any = None
        self._started = False

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        self._started = False
        self._read = step_read_for("_GlobalStepWaiterHook")

    def before_run(self, run_context: Any) -> None:
        """Wait, in the first step; Ctrl-C ends the wait.

        Nobody tells of a step that others count, so it is asked for every half second, as TensorFlow does.
        """
        if self._started:
            return
        self._started = True
        if self._wait_until_step <= 0:
            return
        log.info("Waiting for global step %d before starting training.", self._wait_until_step)
        told = 0
        pause = threading.Event()
        while (step := run_context.session.run(self._read)) < self._wait_until_step:
            if step - told > 1000:
                log.info("Waiting for global step %d; it is %d.", self._wait_until_step, step)
                told = step
            left = self.ask_every_s
            while left > 0:
                part = min(left, sleep_limit(left) or left)
                pause.wait(part)
                left -= part
        log.info("Starting training.")
