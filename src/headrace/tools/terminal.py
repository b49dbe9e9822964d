"""What commands draw on: a console of rich (`pip install headrace[terminal]`), or a plain one where that is missing.

Called by: inspection.run, demo.run.  Threads: the caller's.
"""

from __future__ import annotations

import re
import shutil
from typing import Any, Protocol, TextIO

_MARKUP = re.compile(r"\[(?:/|(?:bold|dim)(?: [a-z]+)?)\]")


class Console(Protocol):
    """The part of rich's console that both have."""

    def print(self, text: str = ..., *, soft_wrap: bool = ...) -> None:
        """A line with markup, such as "[bold]this[/]"; with soft_wrap it is left as long as it is."""


class PlainConsole:
    """Prints lines without their markup."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def print(self, text: str = "", *, soft_wrap: bool = True) -> None:
        """See `Console`.  Lines are left as long as they are."""
        self._file.write(_MARKUP.sub("", text) + "\n")
        self._file.flush()


def rich_console(file: TextIO) -> Any:
    """A `rich.console.Console`, or None if rich is not installed."""
    try:
        from rich.console import Console as RichConsole
    except ImportError:
        return None
    return RichConsole(file=file, highlight=False)


def size() -> tuple[int, int]:
    """Columns and lines of the terminal: COLUMNS and LINES if they are set; 80 and 24 if there is none."""
    columns, lines = shutil.get_terminal_size((80, 24))
    return columns, lines
