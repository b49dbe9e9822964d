"""Tracing for the page: the next steps, drawn by device, and in words where their time goes.

Called by: app.  Threads: any; one trace at a time.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from headrace.tools.profiling.advice import report
from headrace.tools.profiling.recording import Recording, record
from headrace.tools.profiling.steps import Step
from headrace.tools.profiling.trace import chrome_trace
from headrace.training.timeline import read_step

WITHIN_S: Final = 20.0
MOST_STEPS: Final = 50
_DRAWN: Final = 3
_MOST_SPANS: Final = 2000


class Tracer:
    """See the module header."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._latest: Recording | None = None

    def trace(self, steps: int) -> dict[str, Any] | None:
        """The next steps, as the page draws them; None if somebody is at it.  Raises CommandError."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            self._latest = record(
                self._target, min(max(steps, 1), MOST_STEPS), WITHIN_S, self._stop
            )
            return drawing(self._latest)
        finally:
            self._lock.release()

    def latest(self) -> dict[str, Any] | None:
        """The last trace again, if there is one."""
        return None if self._latest is None else drawing(self._latest)

    def chrome(self) -> str | None:
        """The last trace, for Perfetto."""
        return None if self._latest is None else chrome_trace(self._latest.steps)

    def stop(self) -> None:
        """End what is under way."""
        self._stop.set()


def drawing(recording: Recording) -> dict[str, Any]:
    """What the page draws: the report, and the last steps of the kind that takes the most time."""
    found = recording.kinds
    steps = found[0].steps[-_DRAWN:] if found else []
    return {
        "report": report(recording),
        "traced": len(recording.steps),
        "steps": [_step(step) for step in steps],
    }


def _step(step: Step) -> dict[str, Any]:
    left = _MOST_SPANS
    devices = []
    for row in read_step(step.stats):
        spans = sorted(row.spans, key=lambda span: -span.duration_ns)[: max(left, 0)]
        left -= len(spans)
        devices.append(
            {
                "device": row.device,
                "lanes": row.lanes,
                "spans": [
                    [
                        span.name if span.transfer is None else span.transfer.node,
                        span.op,
                        (span.start_ns - step.begin_ns) / 1e3,
                        span.duration_ns / 1e3,
                        span.lane,
                    ]
                    for span in spans
                ],
            }
        )
    return {"name": step.name, "took_us": step.took_ns / 1e3, "devices": devices}
