"""Hooks that tell how the training goes: in the log, in summaries, in traces.

Summaries go to an event writer, the one of the directory that all who write there share.
Called by: programs, monitored sessions.  Threads: the caller's.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.codec import protos as pb
from headrace.training.global_step import get_global_step
from headrace.training.hooks.files import writer_of
from headrace.training.hooks.protocol import SessionRunArgs, SessionRunHook
from headrace.training.hooks.resting import Rest
from headrace.training.hooks.steps import (
    NeverTimer,
    SecondOrStepTimer,
    graph_element,
    next_due,
    step_read_for,
)
from headrace.training.logging import log_first_n

if TYPE_CHECKING:
    from headrace.training.scaffold import Scaffold

__all__ = ["LoggingTensorHook", "ProfilerHook", "StepCounterHook", "SummarySaverHook"]

log = logging.getLogger("headrace")


class LoggingTensorHook(SessionRunHook):
    """Logs values every so many calls of `run`, or seconds, or at the end."""

    def __init__(
        self,
        tensors: Mapping[str, Any] | Sequence[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        """tensors: from tags to tensors or names, or a list, whose items are their own tags.

        formatter: makes a line of tags and values.  Raises ValueError unless it is said once when to log.
        """
        self._only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not self._only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be provided. "
                f"every_n_iter is {every_n_iter}, every_n_secs {every_n_secs}"
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}. It must be 1 or more")
        if isinstance(tensors, dict):
            self._tag_order = sorted(tensors)
            self._tensors = dict(tensors)
        else:
            self._tag_order = list(tensors)
            self._tensors = {item: item for item in tensors}
        self._formatter = formatter
        self._at_end = at_end
        self._timer: Any = (
            NeverTimer()
            if self._only_at_end
            else SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        )
        self._calls = 0
        self._due = False
        self._current: dict[Any, Any] = {}

    def begin(self) -> None:
        """Look the tensors up.  Raises as `graph_element`."""
        self._timer.reset()
        self._calls = 0
        self._current = {tag: graph_element(tensor) for tag, tensor in self._tensors.items()}

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Fetch them when they are to be logged."""
        self._due = self._timer.should_trigger_for_step(self._calls)
        return SessionRunArgs(self._current) if self._due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log what was fetched."""
        if self._due:
            self._tell(run_values.results)
        self._calls += 1

    _rests_from = (before_run, after_run)

    def _rest(self) -> Rest | None:
        self._due = False
        due = next_due(self._timer)
        return None if due is None else Rest(runs=due[0] - self._calls, before_s=due[1])

    def _rested(self, runs: int, stale: Any) -> None:
        self._calls += runs

    def end(self, session: Any) -> None:
        """Log them once more, if asked to."""
        if self._at_end:
            self._tell(session.run(self._current))

    def _tell(self, values: Mapping[Any, Any]) -> None:
        passed_s, _ = self._timer.update_last_triggered_step(self._calls)
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                log.info(self._formatter(values))
                return
            line = ", ".join(f"{_tag(tag)} = {values[tag]}" for tag in self._tag_order)
        if passed_s is None:
            log.info("%s", line)
        else:
            log.info("%s (%.3f sec)", line, passed_s)


def _tag(tag: Any) -> str:
    return str(tag)


class StepCounterHook(SessionRunHook):
    """Logs how many global steps a second are made, and writes it as a summary."""

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        """Raises ValueError unless one of `every_n_steps` and `every_n_secs` is given."""
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError(
                "exactly one of every_n_steps and every_n_secs should be provided. They are "
                f"{every_n_steps} and {every_n_secs}"
            )
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._writer = summary_writer
        self._output_dir = output_dir
        self._steps_per_run = 1
        self._previous: int | None = None
        self._read: Any = None
        self._args: SessionRunArgs | None = None
        self._tag = ""

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        """By how much a call of `run` raises the step."""
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        if self._writer is None and self._output_dir:
            self._writer = writer_of(self._output_dir)
        self._read = step_read_for("StepCounterHook")
        self._args = SessionRunArgs(self._read)
        self._tag = f"{get_global_step().op.name}/sec"

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Fetch the step."""
        return self._args

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """What was fetched may be from before the step: it is asked for again when something is due."""
        stale = run_values.results
        if self._timer.should_trigger_for_step(stale + self._steps_per_run):
            step = run_context.session.run(self._read)
            if self._timer.should_trigger_for_step(step):
                passed_s, steps = self._timer.update_last_triggered_step(step)
                if passed_s is not None:
                    assert steps is not None
                    self._log_and_record(steps, passed_s, step)
        if stale == self._previous:
            log_first_n(
                logging.WARNING,
                "It seems that global step (tf.train.get_global_step) has not been increased: it was %s before this "
                "step and is %s. Give it to Optimizer.minimize or apply_gradients as global_step, which counts it up",
                5,
                self._previous,
                stale,
            )
        self._previous = stale

    _rests_from = (before_run, after_run)

    def _rest(self) -> Rest | None:
        due, last = next_due(self._timer), self._previous
        if due is None or last is None:
            return None
        return Rest(self._args, self._read, due[0] - self._steps_per_run, last, after_s=due[1])

    def _rested(self, runs: int, stale: Any) -> None:
        if runs:
            self._previous = stale

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        per_s = elapsed_steps / elapsed_time if elapsed_time else float("inf")
        if self._writer is not None:
            value = pb.Summary.Value(tag=self._tag, simple_value=per_s)
            self._writer.add_summary(pb.Summary(value=[value]), global_step)
        log.info("%s: %g", self._tag, per_s)


class SummarySaverHook(SessionRunHook):
    """Writes summaries every so many steps or seconds, and at the first step."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Scaffold | None = None,
        summary_op: Any = None,
    ) -> None:
        """summary_op: a tensor of a serialized Summary, or a list; else the scaffold's.  Raises ValueError."""
        if (scaffold is None) == (summary_op is None):
            raise ValueError(
                "Exactly one of scaffold or summary_op must be provided. "
                f"{'Neither is' if scaffold is None else 'Both are'}"
            )
        self._summary_op = summary_op
        self._scaffold = scaffold
        self._writer = summary_writer
        self._output_dir = output_dir
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._read: Any = None
        self._next: int | None = None
        self._due = False
        self._plain: SessionRunArgs | None = None
        self._with_summary: SessionRunArgs | None = None

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        if self._writer is None and self._output_dir:
            self._writer = writer_of(self._output_dir)
        self._next = None
        self._read = step_read_for("SummarySaverHook")
        self._plain = SessionRunArgs({"global_step": self._read})
        self._with_summary = None

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Fetch the step, and summaries when they are due."""
        self._due = self._next is None or self._timer.should_trigger_for_step(self._next)
        if not self._due:
            return self._plain
        if self._with_summary is None:
            summaries = self._get_summary_op()
            fetches = {"global_step": self._read}
            if summaries is not None:
                fetches["summary"] = summaries
            self._with_summary = SessionRunArgs(fetches)
        return self._with_summary

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write what was fetched."""
        if not self._writer:
            return
        step = run_values.results["global_step"] + 1
        if self._due and (self._next is None or "summary" in run_values.results):
            step = run_context.session.run(self._read)
        if self._next is None:
            self._writer.add_session_log(pb.SessionLog(status=pb.SessionLog.START), step)
        if "summary" in run_values.results:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results["summary"]:
                self._writer.add_summary(summary, step)
        self._next = step + 1

    _rests_from = (before_run, after_run)

    def _rest(self) -> Rest | None:
        due = next_due(self._timer)
        if not self._writer or due is None or self._next is None:
            return None
        if self._timer.should_trigger_for_step(self._next):
            return None
        return Rest(self._plain, self._read, due[0] - 2, before_s=due[1])

    def _rested(self, runs: int, stale: Any) -> None:
        self._due = False
        if runs:
            self._next = stale + 2

    def end(self, session: Any = None) -> None:
        """Flush."""
        if self._writer:
            self._writer.flush()

    def _get_summary_op(self) -> list[Any] | None:
        """What to fetch, as a list; None if the graph has no summaries."""
        found = self._summary_op
        if found is None and self._scaffold is not None:
            found = self._scaffold.summary_op
        if found is None:
            return None
        return list(found) if isinstance(found, list) else [found]


class ProfilerHook(SessionRunHook):
    """Traces a step every so often: ``timeline-STEP.json`` for chrome://tracing, and run metadata for TensorBoard.

    The first step, which compiles, is never traced.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._output_file = os.path.join(output_dir, "timeline-{}.json")
        self._output_dir = output_dir
        self._writer: Any = None
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._show_dataflow, self._show_memory = show_dataflow, show_memory
        self._read: Any = None
        self._next: int | None = None
        self._due = False
        self._plain: SessionRunArgs | None = None
        self._traced: SessionRunArgs | None = None

    def begin(self) -> None:
        """Raises RuntimeError if there is no global step."""
        self._next = None
        self._writer = writer_of(self._output_dir)
        self._read = step_read_for("ProfilerHook")
        fetches = {"global_step": self._read}
        options = pb.RunOptions(trace_level=pb.RunOptions.FULL_TRACE)
        self._plain = SessionRunArgs(fetches)
        self._traced = SessionRunArgs(fetches, options=options)

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Fetch the step, and trace when it is due."""
        self._due = self._next is not None and self._timer.should_trigger_for_step(self._next)
        return self._traced if self._due else self._plain

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write the trace."""
        stale = run_values.results["global_step"]
        if self._next is None:
            self._timer.update_last_triggered_step(stale)
        step = stale + 1
        if self._due:
            step = run_context.session.run(self._read)
            self._timer.update_last_triggered_step(step)
            self._save(step, self._output_file.format(step), run_values.run_metadata.step_stats)
            self._writer.add_run_metadata(run_values.run_metadata, f"step_{step}")
        self._next = step + 1

    def _save(self, step: int, path: str, step_stats: Any) -> None:
        from headrace.training.gfile import GFile
        from headrace.training.timeline import Timeline

        log.info("Saving timeline for %d into '%s'.", step, path)
        with GFile(path, "w") as file:
            file.write(
                Timeline(step_stats).generate_chrome_trace_format(
                    show_dataflow=self._show_dataflow, show_memory=self._show_memory
                )
            )
