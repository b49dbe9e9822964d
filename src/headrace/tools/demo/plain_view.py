"""The progress of the demo as lines, where rich is not installed: one for each tenth of the examples.

Called by: views, in one thread.
"""

from __future__ import annotations

from headrace.tools.demo.collect import Collector
from headrace.tools.terminal import Console


class PlainView:
    """`refresh` prints a line when another tenth has been trained on."""

    def __init__(self, console: Console, collector: Collector, total: int) -> None:
        self._console = console
        self._collector = collector
        self._total = total
        self._tenths = 0

    def refresh(self) -> None:
        """Cheap enough to be called for every message."""
        collector = self._collector
        tenths = collector.examples * 10 // max(1, self._total)
        if tenths <= self._tenths:
            return
        self._tenths = tenths
        depth = f", {collector.depth[-1][1]:,} waiting" if collector.depth else ""
        losses = ", ".join(
            f"{name} loss {live.loss:.4f}"
            for name, live in collector.live.items()
            if live.loss is not None
        )
        self._console.print(
            f"  {collector.examples:,} of {self._total:,} examples{depth}; {losses}"
        )
