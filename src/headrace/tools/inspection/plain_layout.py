"""Draws a snapshot as plain text.

Called by: run, where rich is not installed.  Pure: from parts to lines.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from textwrap import wrap

from headrace.tools.inspection.layout import Column, Grid, Line, Part

_BETWEEN = "  "
_LEAST = 4
"""Cells that a flexible column keeps."""


def drawn(parts: Iterable[Part], width: int) -> str:
    """Lines of at most `width` cells, one below the other."""
    lines = (
        text
        for part in parts
        for text in (_table(part, width) if isinstance(part, Grid) else _lines(part, width))
    )
    return "".join(f"{text.rstrip()}\n" for text in lines)


def _lines(line: Line, width: int) -> Iterator[str]:
    room = max(1, width - line.indent)
    text = line.text
    for piece in wrap(text, room) if line.wraps and text else [_cut(text, room)]:
        yield " " * line.indent + _cut(piece, room)


def _table(grid: Grid, width: int) -> Iterator[str]:
    heads = [column.title for column in grid.columns]
    rows = [[cell.text for cell in row] for row in grid.rows]
    widths = _widths(grid.columns, [heads, *rows], width)
    yield _cut(grid.title, width)
    for number, row in enumerate([heads, *rows]):
        cells = [
            _padded(cell, room, column.of_numbers)
            for cell, room, column in zip(row, widths, grid.columns, strict=True)
        ]
        yield _cut(_BETWEEN.join(cells), width)
        if not number:
            yield _cut("-" * (sum(widths) + len(_BETWEEN) * (len(widths) - 1)), width)
    if grid.caption:
        yield _cut(grid.caption, width)


def _widths(columns: tuple[Column, ...], rows: list[list[str]], width: int) -> list[int]:
    """Of each column: the widest cell's, or less, of the widest flexible ones first, if that is too much."""
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)]
    too_much = sum(widths) + len(_BETWEEN) * (len(widths) - 1) - width
    flexible = [number for number, column in enumerate(columns) if column.flexible]
    while too_much > 0 and flexible:
        widest = max(flexible, key=widths.__getitem__)
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
        too_much -= 1
    return widths


def _padded(text: str, room: int, to_the_right: bool) -> str:
    cut = _cut(text, room)
    gap = " " * (room - _cells(cut))
    return gap + cut if to_the_right else cut + gap


def _cut(text: str, room: int) -> str:
    """With an ellipsis if it is too long."""
    if _cells(text) <= room:
        return text
    while text and _cells(text) >= room:
        text = text[:-1]
    return f"{text}…"


def _cells(text: str) -> int:
    """How much of a line it takes: East Asian wide characters two cells, marks above others none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )
