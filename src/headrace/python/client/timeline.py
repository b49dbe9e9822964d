"""`headrace.python.client.timeline`: the Chrome trace of a traced step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.training.timeline import AllocationMaximum, StepStatsAnalysis, Timeline
from headrace.unmodified.facade import names_beneath as _names_beneath

if not TYPE_CHECKING:
    __getattr__ = _names_beneath(__name__)

__all__ = ["AllocationMaximum", "StepStatsAnalysis", "Timeline"]
