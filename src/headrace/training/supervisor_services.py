"""What a chief's supervisor does every so often, each in a thread.

Called by: training.supervisor.  Threads: one each; they end when its coordinator stops.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from headrace.codec import protos as pb
from headrace.training.coordinator import LooperThread
from headrace.training.global_step import global_step as value_of_step
from headrace.training.logging import log_first_n

if TYPE_CHECKING:
    from headrace.training.supervisor import Supervisor

__all__ = ["CheckpointThread", "StepCounterThread", "SummaryThread"]

log = logging.getLogger("headrace")


class SummaryThread(LooperThread):
    """Writes the summaries."""

    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor = supervisor
        self._session = session

    def run_loop(self) -> None:
        """Compute and write them."""
        supervisor = self._supervisor
        step = None
        if supervisor.global_step is not None:
            summaries, step = self._session.run([supervisor.summary_op, supervisor.global_step])
        else:
            summaries = self._session.run(supervisor.summary_op)
        if supervisor.summary_writer:
            log.info("Recording summary at step %s.", step)
            supervisor.summary_writer.add_summary(summaries, step)


class StepCounterThread(LooperThread):
    """Logs and writes how many steps a second are made."""

    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor = supervisor
        self._session = session
        self._last_time = 0.0
        self._last_step = 0
        self._tag = f"{supervisor.global_step.op.name}/sec"

    def start_loop(self) -> None:
        """Begin to count."""
        self._last_time = time.time()
        self._last_step = value_of_step(self._session, self._supervisor.global_step)

    def run_loop(self) -> None:
        """Count since the last time."""
        step = value_of_step(self._session, self._supervisor.global_step)
        now = time.time()
        passed_s = now - self._last_time
        per_s = (step - self._last_step) / passed_s if passed_s > 0 else float("inf")
        self._last_time, self._last_step = now, step
        if self._supervisor.summary_writer:
            value = pb.Summary.Value(tag=self._tag, simple_value=per_s)
            self._supervisor.summary_writer.add_summary(pb.Summary(value=[value]), step)
        log_first_n(logging.INFO, "%s: %g", 10, self._tag, per_s)


class CheckpointThread(LooperThread):
    """Saves checkpoints."""

    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_model_secs)
        self._supervisor = supervisor
        self._session = session

    def run_loop(self) -> None:
        """Save one."""
        supervisor = self._supervisor
        log.info("Saving checkpoint to path %s", supervisor.save_path)
        supervisor.saver.save(
            self._session, supervisor.save_path, global_step=supervisor.global_step
        )
        if supervisor.summary_writer and supervisor.global_step is not None:
            supervisor.summary_writer.add_session_log(
                pb.SessionLog(
                    status=pb.SessionLog.CHECKPOINT, checkpoint_path=supervisor.save_path
                ),
                value_of_step(self._session, supervisor.global_step),
            )
