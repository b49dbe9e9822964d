"""How the demo shows its progress: bars where rich is installed, else lines.

Called by: run, in one thread.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from headrace.tools.demo.collect import Collector
from headrace.tools.terminal import PlainConsole


class View(Protocol):
    """Shows what a collector has."""

    def refresh(self) -> None:
        """Show what is new."""


def view_on(
    console: Any, collector: Collector, total: int, capacity: int
) -> AbstractContextManager[View]:
    """console: of rich, or plain; total: examples; capacity: of the queue, in examples."""
    if isinstance(console, PlainConsole):
        from headrace.tools.demo.plain_view import PlainView

        return nullcontext(PlainView(console, collector, total))
    from headrace.tools.demo.rich_view import RichView

    return RichView(console, collector, total, capacity)
