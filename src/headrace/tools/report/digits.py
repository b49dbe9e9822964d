"""The test set: which digits were taken for which, and the misread ones as pictures.

Called by: page.
"""

from __future__ import annotations

import numpy as np

from headrace.tools.report.record import Results
from headrace.tools.report.svg import Markup, el, figure, text

CLASSES = 10
CELL = 32
PIXEL = 6
MOST_SHOWN = 16
SIDE = 8


def confusion(results: Results) -> Markup:
    """A matrix: rows are what the digits are, columns what they were taken for."""
    counts = np.zeros((CLASSES, CLASSES), dtype=int)
    np.add.at(counts, (results.labels, results.predictions), 1)
    left, top = 54, 50
    cells = [
        _cell(left + column * CELL, top + row * CELL, row, column, counts)
        for row in range(CLASSES)
        for column in range(CLASSES)
    ]
    heads = [
        text(left + i * CELL + CELL / 2, top - 9, str(i), "tick-label", text_anchor="middle")
        for i in range(CLASSES)
    ]
    sides = [
        text(left - 12, top + i * CELL + CELL / 2 + 4, str(i), "tick-label", text_anchor="middle")
        for i in range(CLASSES)
    ]
    size = CLASSES * CELL
    middle = top + size / 2
    return figure(
        left + size + 6,
        top + size + 6,
        "What each digit was taken for",
        text(left, 18, "read as", "axis-title"),
        text(
            14,
            middle,
            "is",
            "axis-title",
            transform=f"rotate(-90 14 {middle})",
            text_anchor="middle",
        ),
        heads,
        sides,
        cells,
    )


def _cell(x: float, y: float, row: int, column: int, counts: np.ndarray) -> Markup:
    count = int(counts[row, column])
    of = int(counts[row].sum())
    share = count / of if of else 0.0
    kind = "right" if row == column else "wrong"
    # Errors are few: a floor keeps a single one visible.
    strength = share if row == column else (0.25 + 0.75 * share if count else 0.0)
    verb = "read right" if row == column else f"read as {column}"
    return el(
        "g",
        el("title", f"{count} of {of} {row}s {verb}"),
        el("rect", x=x + 1, y=y + 1, width=CELL - 2, height=CELL - 2, rx=3, class_="cell"),
        el(
            "rect",
            x=x + 1,
            y=y + 1,
            width=CELL - 2,
            height=CELL - 2,
            rx=3,
            class_=f"cell-{kind}",
            fill_opacity=float(strength),
        ),
        text(x + CELL / 2, y + CELL / 2 + 4, str(count), f"count-{kind}", text_anchor="middle")
        if count
        else None,
    )


def misread(results: Results) -> list[Markup]:
    """The first misread digits, each a small picture with what it is and what it was taken for."""
    wrong = np.flatnonzero(results.labels != results.predictions)[:MOST_SHOWN]
    return [
        el(
            "figure",
            picture(results.pixels[index]),
            el(
                "figcaption",
                el("b", str(results.labels[index])),
                " read as ",
                el("b", str(results.predictions[index]), class_="wrong"),
            ),
            class_="digit",
        )
        for index in wrong
    ]


def picture(pixels: np.ndarray) -> Markup:
    """64 pixels of 0..16 as an 8 by 8 drawing in the ink of the page."""
    ink = [
        el(
            "rect",
            x=column * PIXEL,
            y=row * PIXEL,
            width=PIXEL,
            height=PIXEL,
            fill_opacity=float(value) / 16,
        )
        for row, values in enumerate(pixels.reshape(SIDE, SIDE))
        for column, value in enumerate(values)
        if value > 0
    ]
    return el(
        "svg",
        ink,
        viewBox=f"0 0 {SIDE * PIXEL} {SIDE * PIXEL}",
        class_="ink",
        role="img",
        shape_rendering="crispEdges",
    )
