"""The table: lines for the terminal, and Markdown between two markers of README.md.

Called by: __main__.  No processes, no measuring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.compare import Effort, Outcome
from benchmarks.libraries import HEADRACE, TENSORFLOW
from benchmarks.row import TIMES, Row, Unit

README = Path(__file__).with_name("README.md")
BEGIN = "<!-- results: written by make bench -->"
END = "<!-- end of results -->"
HEADER = ("row", "", "headrace", "TensorFlow", "ratio", "target", "floor")
MOVES = "a step of headrace moves"
NONE = "–"  # noqa: RUF001
WIDTHS = (23, 12, 12, 22, 22)

_SCALES = {
    Unit.SECONDS: [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")],
    Unit.BYTES: [(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
    Unit.PER_SECOND: [(1.0, "/s")],
}


def shown(figure: float | None, unit: Unit) -> str:
    """`12.3 µs`, `1.62 GB`, `1,234 /s`; a dash for None."""
    if figure is None:
        return NONE
    scale, name = next((s for s in _SCALES[unit] if figure >= s[0]), _SCALES[unit][-1])
    return f"{three_digits(figure / scale)} {name}"


def three_digits(number: float) -> str:
    """Without an exponent, and with no more digits than mean something."""
    decimals = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:,.{decimals}f}"


def ratio(outcome: Outcome) -> str:
    """`12.3× (11.8 to 12.9)`: of the medians, and the range over the pairs of runs."""
    if outcome.ratio is None:
        return NONE
    text = f"{three_digits(outcome.ratio)}{TIMES}"
    ratios = outcome.ratios
    if len(ratios) > 1:
        text += f" ({three_digits(min(ratios))} to {three_digits(max(ratios))})"
    return text


def targets(outcome: Outcome) -> list[tuple[str, bool | None]]:
    """(target, met?) for each target of the row; None where it could not be judged."""
    row, ours = outcome.row, outcome.median(HEADRACE.name)
    found: list[tuple[str, bool | None]] = []
    if row.faster is not None:
        got = outcome.ratio
        found.append((f"≥ {row.faster:g}{TIMES}", None if got is None else got >= row.faster))
    if row.at_most is not None:
        text = f"≤ {shown(row.at_most, row.unit)}"
        found.append((text, None if ours is None else ours <= row.at_most))
    if row.of_floor is not None:
        floors = outcome.floors
        met = None if ours is None or not floors else ours <= row.of_floor * floors[0][1]
        found.append((f"≤ {row.of_floor:g}{TIMES} floor", met))
    return found


def target(outcome: Outcome) -> str:
    """`≥ 10×: met`; a dash without a target."""
    words = {True: "met", False: "missed", None: "not judged"}
    return ", ".join(f"{text}: {words[met]}" for text, met in targets(outcome)) or NONE


def floor(outcome: Outcome) -> str:
    """`44.1 µs (TCP ×2)`, one for each floor."""
    unit = outcome.row.unit
    return ", ".join(f"{shown(figure, unit)} ({text})" for text, figure in outcome.floors) or NONE


def cells(outcome: Outcome) -> tuple[str, str, str, str, str]:
    """headrace, TensorFlow, ratio, target, floor."""
    unit = outcome.row.unit
    return (
        shown(outcome.median(HEADRACE.name), unit),
        shown(outcome.median(TENSORFLOW.name), unit),
        ratio(outcome),
        target(outcome),
        floor(outcome),
    )


def heading() -> str:
    """The terminal's first line."""
    columns = (HEADER[0], *HEADER[2:6])
    return padded(columns) + HEADER[6]


def line(outcome: Outcome) -> str:
    """A row for the terminal, without its name, and what failed on lines of their own."""
    *columns, last = cells(outcome)
    failures = "".join(f"\n  {who} failed: {why}" for who, why in outcome.failures.items())
    return padded(columns, WIDTHS[1:]) + last + failures


def name(row: Row) -> str:
    """The start of a terminal's row."""
    return padded([row.name], WIDTHS[:1])


def padded(columns: Sequence[str], widths: Sequence[int] = WIDTHS) -> str:
    """Columns of the terminal, each followed by a blank at least."""
    pairs = zip(columns, widths, strict=True)
    return "".join(f"{text:<{width}} " for text, width in pairs)


def markdown(
    outcomes: Mapping[str, Sequence[Outcome]], about: Sequence[str], effort: Effort, date: str
) -> str:
    """The section for README.md: a table for each area, and what it was measured on."""
    lines = [
        f"Measured on {date}: {effort.text}, in turn; ratio of the medians (range over the runs)."
    ]
    lines += ["", *(f"- {fact}" for fact in about), ""]
    for area, of_area in outcomes.items():
        lines += [f"### {area.capitalize()}", ""]
        moving = any(outcome.row.moves for outcome in of_area)
        header = (*HEADER, MOVES) if moving else HEADER
        lines += [
            "| " + " | ".join(header) + " |",
            "|---|---|--:|--:|--:|---|---|" + "---|" * moving,
        ]
        for outcome in of_area:
            row = (outcome.row.title, f"`{outcome.row.name}`", *cells(outcome))
            if moving:
                row = (*row, outcome.row.moves or NONE)
            lines.append("| " + " | ".join(row) + " |")
        lines.append("")
    return "\n".join(lines)


def write(section: str, path: Path = README, begin: str = BEGIN, end: str = END) -> None:
    """Put the section between the markers.  Raises ValueError if they are not there once each, in order."""
    before, found, rest = path.read_text().partition(begin)
    _, found_too, after = rest.partition(end)
    if not found or not found_too or begin in rest or end in after:
        raise ValueError(f"{path.name} needs the lines {begin!r} and {end!r}, once each")
    path.write_text(f"{before}{begin}\n\n{section.strip()}\n\n{end}{after}")
