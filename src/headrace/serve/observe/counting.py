"""Counting: whether steps are counted, which is so as long as somebody wants it.

Called by: serve.worker.inspects, serve.master.master.  Threads: the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.serve.observe.meter import Meter


NOW_AND_THEN: Final = 4095
"""When who counts steps that take no time looks whether it is to go on: at numbers that have none of these bits."""


def renewed(meter: Meter | None, for_s: float) -> Meter | None:
    """What counts for so long from now on, which may be another one; None if nobody wants anything to be counted."""
    if meter is not None and meter.over:
        meter = None
    if for_s > 0:
        if meter is None:
            from headrace.serve.observe.meter import Meter  # which few servers need

            meter = Meter()
        meter.want(for_s)
    return meter
