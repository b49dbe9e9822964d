"""Screens that snapshots are shown on: rich's where it is installed, with colours and tables; else plain text.

Called by: run.  Threads: the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TextIO

from headrace.tools import terminal
from headrace.tools.inspection.layout import Part

Replace = Callable[[Sequence[Part]], None]


class Screen(Protocol):
    """See the module header."""

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""

    def show(self, parts: Sequence[Part]) -> None:
        """Print them."""

    def live(self) -> AbstractContextManager[Replace]:
        """Inside, a function shows parts in place of what it showed before, or below it if this is no terminal."""


def screen_on(file: TextIO) -> Screen:
    """The best one that there is."""
    console = terminal.rich_console(file)
    return PlainScreen(file) if console is None else _RichScreen(console)


class _RichScreen:
    def __init__(self, console: Any) -> None:
        self._console = console

    @property
    def size(self) -> tuple[int, int]:
        return self._console.size.width, self._console.size.height

    def show(self, parts: Sequence[Part]) -> None:
        from headrace.tools.inspection.rich_layout import drawn

        self._console.print(drawn(parts))

    @contextmanager
    def live(self) -> Iterator[Replace]:
        from rich.live import Live

        from headrace.tools.inspection.rich_layout import drawn

        console = self._console
        with Live(console=console, screen=console.is_terminal, auto_refresh=False) as live:
            yield lambda parts: live.update(drawn(parts), refresh=True)


class PlainScreen:
    """Of text alone."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    @property
    def size(self) -> tuple[int, int]:
        """See `Screen`."""
        return terminal.size()

    def show(self, parts: Sequence[Part]) -> None:
        """See `Screen`."""
        from headrace.tools.inspection.plain_layout import drawn

        self._file.write(drawn(parts, self.size[0]))
        self._file.flush()

    @contextmanager
    def live(self) -> Iterator[Replace]:
        """See `Screen`.  Whole screens, one below the other, a line between."""
        first = True

        def replace(parts: Sequence[Part]) -> None:
            nonlocal first
            if not first:
                self._file.write("\n")
            first = False
            self.show(parts)

        yield replace
