"""`headrace.python.client.timeline`: the Chrome trace of a traced step."""

from __future__ import annotations

from headrace.training.timeline import AllocationMaximum, StepStatsAnalysis, Timeline

__all__ = ["AllocationMaximum", "StepStatsAnalysis", "Timeline"]
