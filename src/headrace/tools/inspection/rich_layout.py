"""Draws a snapshot with rich.

Called by: run, where rich is installed.  Pure: from parts to what rich prints.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.tools.inspection.layout import Grid, Line, Part


def drawn(parts: Iterable[Part]) -> Group:
    """One below the other."""
    return Group(*[_table(part) if isinstance(part, Grid) else _text(part) for part in parts])


def _table(grid: Grid) -> Table:
    table = Table(
        title=grid.title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="dim",
    )
    for column in grid.columns:
        table.add_column(
            column.title,
            justify="right" if column.of_numbers else "left",
            no_wrap=not column.flexible,
            overflow="ellipsis",
        )
    for row in grid.rows:
        table.add_row(*[_text(cell) for cell in row])
    if grid.caption:
        table.caption = grid.caption
        table.caption_justify = "left"
    return table


def _text(line: Line) -> RenderableType:
    text = Text.assemble(*line.spans)
    if not line.wraps:
        text.no_wrap, text.overflow = True, "ellipsis"
    return Padding(text, (0, 0, 0, line.indent)) if line.indent else text
