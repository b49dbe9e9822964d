"""Recorded steps in Chrome's trace format: a row of steps, and below it a group of rows a device.

Called by: command.  Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.codec import protos as pb
from headrace.tools.profiling.steps import Step
from headrace.training.timeline import Timeline

_STEPS = 0  # the group of rows that is first


def chrome_trace(steps: Sequence[Step]) -> str:
    """JSON for Perfetto or chrome://tracing."""
    everything = pb.StepStats()
    for step in steps:
        everything.dev_stats.extend(step.stats.dev_stats)
    trace = Timeline(everything).analyze_step_stats(show_memory=False).chrome_trace
    trace.process(_STEPS, "Steps")
    ends_ns: list[int] = []
    for step in sorted(steps, key=lambda each: each.begin_ns):
        free = (n for n, end_ns in enumerate(ends_ns) if end_ns <= step.begin_ns)
        lane = next(free, len(ends_ns))
        ends_ns[lane : lane + 1] = [step.end_ns]
        args = {"step": str(step.number), "nodes": len(step.nodes)}
        took_us = step.took_ns // 1000
        trace.event(
            "X", "Step", step.name, _STEPS, lane, step.begin_ns // 1000, dur=took_us, args=args
        )
    return trace.format_to_string()
