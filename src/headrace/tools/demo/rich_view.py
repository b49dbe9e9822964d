"""The progress of the demo in a terminal: bars for examples and queue depth, a line per trainer.

Called by: views, in one thread.  rich redraws from a thread of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from headrace.tools.demo.collect import Collector, Live

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 22


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """`values` as one line of blocks from 0 to their maximum; "" if there are none."""
    if not values:
        return ""
    cells = min(width, len(values))
    picked = [values[(i + 1) * len(values) // cells - 1] for i in range(cells)]
    top = max(picked) or 1.0
    return "".join(BLOCKS[min(int(value / top * len(BLOCKS)), len(BLOCKS) - 1)] for value in picked)


def trainer_text(live: Live) -> str:
    """`loss 0.1234   4,321 examples/s  step 210`."""
    if live.loss is None:
        return "waiting for examples"
    rate = f"{live.examples_per_s:7,.0f} examples/s"
    return f"loss [bold]{live.loss:.4f}[/] {rate}  step {live.steps:,}"


class _BarOrSparkline(ProgressColumn):
    """A bar, or the sparkline of a task that has one; both as wide."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=WIDTH, complete_style="cyan", finished_style="green")

    def render(self, task: Task) -> Text | ProgressBar:
        spark = task.fields.get("spark")
        return self._bar.render(task) if spark is None else Text(f"{spark:<{WIDTH}}", "cyan")


class RichView:
    """A context manager; `refresh` takes over what the collector has."""

    def __init__(self, console: Console, collector: Collector, total: int, capacity: int) -> None:
        self._collector = collector
        self._total = total
        self._progress = Progress(
            TextColumn("  {task.description:<8}"),
            _BarOrSparkline(),
            TextColumn("{task.fields[text]}"),
            console=console,
        )
        add = self._progress.add_task
        self._examples = add("examples", total=total, text="")
        self._queue = add("queue", total=capacity, text="")
        self._trainers = {name: add(name, total=None, text="", spark="") for name in collector.live}

    def refresh(self) -> None:
        """Show the collector's state; cheap enough to be called for every message."""
        collector = self._collector
        self._progress.update(
            self._examples,
            completed=collector.examples,
            text=f"{collector.examples:,} of {self._total:,}",
        )
        if collector.depth:
            depth = collector.depth[-1][1]
            self._progress.update(self._queue, completed=depth, text=f"{depth:,} waiting")
        for name, live in collector.live.items():
            self._progress.update(
                self._trainers[name], text=trainer_text(live), spark=sparkline(live.history)
            )

    def __enter__(self) -> RichView:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.refresh()
        self._progress.stop()
