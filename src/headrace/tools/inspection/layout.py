"""What a snapshot shows, before anybody draws it: lines of styled text, and tables of them.

Called by: tables, which makes it; rich_layout and plain_layout, which draw it.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Span = str | tuple[str, str]
"""Text, or text and a style of rich ("bold yellow")."""


@dataclass(frozen=True)
class Line:
    """Text in one line that is cut at the end of the screen, or goes on in the next, as far in, if it `wraps`."""

    spans: tuple[tuple[str, str], ...]
    indent: int = 0
    wraps: bool = False

    @property
    def text(self) -> str:
        """Without styles and indentation."""
        return "".join(text for text, _ in self.spans)


def line(*spans: Span, indent: int = 0, wraps: bool = False) -> Line:
    """A line of these, one behind the other."""
    styled = tuple((span, "") if isinstance(span, str) else span for span in spans)
    return Line(styled, indent, wraps)


Cell = str | Line


@dataclass(frozen=True)
class Column:
    """of_numbers: to the right.  flexible: what is in it gives way when there is not enough room."""

    title: str
    of_numbers: bool
    flexible: bool


@dataclass(frozen=True)
class Grid:
    """A table.  rows: as many cells as there are columns."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Line, ...], ...]
    caption: str = ""


Part = Line | Grid


def grid(title: str, columns: Iterable[str], rows: Sequence[Sequence[Cell]], caption: str) -> Grid:
    """A column that begins with ">" is of numbers; one with "~" is flexible."""
    made = tuple(
        Column(column.lstrip(">~"), column.startswith(">"), column.startswith("~"))
        for column in columns
    )
    cells = tuple(
        tuple(cell if isinstance(cell, Line) else line(cell) for cell in row) for row in rows
    )
    return Grid(title, made, cells, caption)
