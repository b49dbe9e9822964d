"""StepLog: statistics of a task's recent steps, for whoever asks for them later.

Recording is off until Logging turns it on, or Tracing for a while.
Called by: serve.worker.worker.  Threads: any.
Source: TensorFlow's worker_service (Logging); its RPC log holds only transfers, this one everything that ran here.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from headrace.base import errors
from headrace.codec import protos as pb
from headrace.run.scope import Scope

MOST_STEPS = 256  # kept; older ones are forgotten


class StepLog:
    """See the module header.  off: nothing is recorded, as nearly always; else `recording` says whether."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._steps: OrderedDict[int, pb.StepStats] = OrderedDict()
        self._enabled = False
        self._until_s: float | None = None
        self.off = True

    @property
    def recording(self) -> bool:
        """Whether a step that begins now is to be recorded."""
        if self._enabled:
            return True
        until = self._until_s
        return until is not None and self._clock_s() < until

    def enable(self) -> None:
        """Record from now on."""
        self._enabled, self.off = True, False

    def enable_for(self, seconds: float) -> None:
        """Record what begins within the next `seconds`."""
        self._until_s = self._clock_s() + seconds
        self.off = False

    def disable(self) -> None:
        """Record no more; what was recorded stays."""
        self._enabled, self._until_s = False, None
        self.off = True

    def clear(self) -> None:
        """Forget what was recorded."""
        with self._lock:
            self._steps.clear()

    def add(self, step_id: int, stats: pb.StepStats) -> None:
        """Keep what a partition of a step did here."""
        with self._lock:
            known = self._steps.setdefault(step_id, pb.StepStats())
            for device in stats.dev_stats:
                _add(known, device)
            if len(self._steps) > MOST_STEPS:
                self._steps.popitem(last=False)

    def take(self, step_ids: Iterable[int]) -> list[pb.LabeledStepStats]:
        """What is known of these steps, which is forgotten; of none in particular: everything, oldest first."""
        with self._lock:
            wanted = list(step_ids) or list(self._steps)
            return [
                pb.LabeledStepStats(step_id=step_id, step_stats=self._steps.pop(step_id))
                for step_id in wanted
                if step_id in self._steps
            ]


def _add(known: pb.StepStats, more: pb.DeviceStepStats) -> None:
    """What another partition of the step did on a device."""
    for device in known.dev_stats:
        if device.device == more.device:
            device.MergeFrom(more)
            return
    known.dev_stats.append(more)


class Logged:
    """A worker whose steps are logged if that is asked for."""

    def __init__(self) -> None:
        self.log = StepLog()

    def logging(self, request: pb.LoggingRequest, scope: Scope) -> pb.LoggingResponse:
        """Turn the log of steps on or off, empty it, or take what it has on steps.

        A request for nothing in particular takes everything, oldest first.
        """
        if request.enable_rpc_logging:
            self.log.enable()
        if request.disable_rpc_logging:
            self.log.disable()
        if request.clear:
            self.log.clear()
        if not (request.fetch_step_id or request == pb.LoggingRequest()):
            return pb.LoggingResponse()
        return pb.LoggingResponse(step=self.log.take(request.fetch_step_id))

    def tracing(self, request: pb.TracingRequest, scope: Scope) -> pb.TracingResponse:
        """Log the steps that begin within the next options.duration seconds; Logging has them then.

        Raises InvalidArgument without a duration.
        """
        duration_s = request.options.duration
        if not duration_s > 0:
            raise errors.invalid_argument(
                f"options.duration is {duration_s:g}: say for how many seconds steps are to be logged"
            )
        self.log.enable_for(duration_s)
        return pb.TracingResponse()
