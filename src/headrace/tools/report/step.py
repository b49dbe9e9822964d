"""The traced step: a row per device, a bar per node, a curve per tensor that changed devices.

Called by: page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

from headrace.tools.report.placing import task_of
from headrace.tools.report.record import TracedStep
from headrace.tools.report.svg import Linear, Markup, bytes_text, el, figure, line, text
from headrace.training.timeline import DeviceRow, Span, assign_lanes, dependencies

WIDTH = 960
LEFT, RIGHT = 10, 950
LANE, BAR = 17, 13
TITLE = 34
GAP = 22
LETTER = 6.1
KINDS = (
    ("compute", "computes"),
    ("state", "reads or changes state"),
    ("transfer", "waits for a tensor"),
    ("quiet", "constants, control, sends"),
)
_STATE = ("Variable", "VarHandle", "Assign", "Apply", "ResourceApply", "Scatter", "Reader")
_QUIET = {"Const", "NoOp", "Identity", "Placeholder", "_Arg", "_Retval", "_Send", "_HostSend"}


def kind_of(span: Span) -> str:
    """Which colour a node has: what it does to the world around it."""
    if span.transfer is not None or span.op in ("RecvTensor", "_Recv", "_HostRecv"):
        return "transfer"
    if span.op.startswith(_STATE) or "Queue" in span.op or span.op.startswith("TextLineReader"):
        return "state"
    if span.op in _QUIET:
        return "quiet"
    return "compute"


def microseconds(ns: int) -> str:
    """`1,234.5`."""
    return f"{ns / 1000:,.1f}"


def title_of(span: Span, start_ns: int) -> str:
    """What hovering over a bar shows."""
    when = f"{microseconds(span.start_ns - start_ns)} µs, for {microseconds(span.duration_ns)} µs"
    if span.transfer is not None:
        t = span.transfer
        moved = f"{bytes_text(t.num_bytes)} from {task_of(t.source)}"
        return f"RecvTensor {t.node}\n{moved} to {task_of(t.destination)}\n{when}"
    inputs = f"\n({', '.join(span.inputs)})" if span.inputs else ""
    return f"{span.name}\n{span.op}{inputs}\n{when}"


def work(rows: Sequence[DeviceRow]) -> list[DeviceRow]:
    """The rows without `_SOURCE`, which does nothing."""
    kept = (
        DeviceRow(row.device, [s for s in row.spans if s.name != "_SOURCE"], row.lanes)
        for row in rows
    )
    return [row for row in kept if row.spans]


def arranged(row: DeviceRow) -> DeviceRow:
    """The row with its work in the first lanes and what waits for other devices below it."""
    working = [copy(span) for span in row.spans if span.transfer is None]
    waiting = [copy(span) for span in row.spans if span.transfer is not None]
    first = assign_lanes(working)
    lanes = first + assign_lanes(waiting)
    for span in waiting:
        span.lane += first
    return DeviceRow(row.device, working + waiting, lanes)


def legend() -> Markup:
    """The colours, as a line of HTML."""
    return el(
        "p",
        [
            el("span", el("i", class_=f"swatch {kind}"), f" {meaning}", class_="key")
            for kind, meaning in KINDS
        ],
        class_="legend",
    )


def timeline(traced: TracedStep) -> Markup:
    """Swim lanes over microseconds since the step's first node."""
    rows = [arranged(row) for row in work(traced.rows)]
    start = min(span.start_ns for row in rows for span in row.spans)
    end = max(span.end_ns for row in rows for span in row.spans)
    x = Linear(0, max(end - start, 1000), LEFT, RIGHT)
    tops: list[float] = []
    y = 8.0
    for row in rows:
        tops.append(y + TITLE)
        y += TITLE + row.lanes * LANE + GAP
    bottom = y - GAP / 2
    lane_y = {
        id(span): top + span.lane * LANE
        for row, top in zip(rows, tops, strict=True)
        for span in row.spans
    }
    return figure(
        WIDTH,
        int(bottom + 44),
        "One step of training, node by node",
        _grid(x, bottom),
        [_lanes(row, top) for row, top in zip(rows, tops, strict=True)],
        list(_flows(rows, x, start, lane_y)),
        [_device(row, top, x, start) for row, top in zip(rows, tops, strict=True)],
    )


def shortened(name: str, room: int) -> str:
    """As many of the last parts of a node's name as fit into `room` letters, "" if none does."""
    parts = name.split("/")
    fitting = ("/".join(parts[i:]) for i in range(len(parts)))
    return next((short for short in fitting if 3 <= len(short) <= room), "")


def _grid(x: Linear, bottom: float) -> Markup:
    unit, name = (1_000_000, "ms") if x.high >= 10_000_000 else (1000, "µs")
    scaled = Linear(0, x.high / unit, x.start, x.end)
    marks = []
    for value in scaled.ticks(10):
        at = scaled(value)
        marks.append(line(at, 8, at, bottom, "rule"))
        anchor = "start" if value == 0 else "middle"
        marks.append(text(at, bottom + 17, f"{value:,.6g}", "tick-label", text_anchor=anchor))
    title = text(
        RIGHT, bottom + 36, f"{name} since the step began", "axis-title", text_anchor="end"
    )
    return el("g", marks, title)


def _lanes(row: DeviceRow, top: float) -> Markup:
    height = row.lanes * LANE + 6
    return el("rect", x=LEFT, y=top - 4, width=RIGHT - LEFT, height=height, rx=3, class_="lane")


def _device(row: DeviceRow, top: float, x: Linear, start: int) -> Markup:
    busy = sum(span.duration_ns for span in row.spans if span.transfer is None) // 1000
    received = sum(s.transfer.num_bytes for s in row.spans if s.transfer is not None)
    nodes = sum(1 for span in row.spans if span.transfer is None)
    says = f"{nodes} nodes, {busy:,} µs of work"
    if received:
        says += f", {bytes_text(received)} received"
    return el(
        "g",
        text(LEFT + 2, top - 12, row.device, "mono halo"),
        text(RIGHT - 2, top - 12, says, "fine halo", text_anchor="end"),
        [_bar(span, top + span.lane * LANE, x, start) for span in row.spans],
    )


def _bar(span: Span, y: float, x: Linear, start: int) -> Markup:
    left = x(span.start_ns - start)
    width = max(x(span.end_ns - start) - left, 1.5)
    kind = kind_of(span)
    label = span.op if span.transfer is None else span.transfer.node
    label = shortened(label, int((width - 8) / LETTER))
    return el(
        "g",
        el("title", title_of(span, start)),
        el("rect", x=left, y=y, width=width, height=BAR, rx=2, class_=f"bar {kind}"),
        text(left + 4, y + BAR - 3, label, f"bar-label {kind}") if label else None,
    )


def _flows(
    rows: Sequence[DeviceRow], x: Linear, start: int, lane_y: dict[int, float]
) -> Iterator[Markup]:
    """From where a tensor was made to where it had arrived."""
    for producer, consumer in dependencies(rows):
        if producer.device == consumer.device or consumer.transfer is None:
            continue
        x1, y1 = x(producer.end_ns - start), lane_y[id(producer)] + BAR / 2
        x2, y2 = x(consumer.end_ns - start), lane_y[id(consumer)] + BAR / 2
        bend = max(abs(x2 - x1) / 2, 12)
        d = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        yield el("path", el("title", title_of(consumer, start)), d=d, class_="flow")


def node_table(traced: TracedStep) -> list[Markup]:
    """For each device a table of its nodes by start, with inputs and times."""
    rows = work(traced.rows)
    start = min(span.start_ns for row in rows for span in row.spans)
    head = el("tr", [el("th", name) for name in ("node", "op", "from", "µs", "for µs")])
    tables = []
    for row in rows:
        body = [
            el(
                "tr",
                el("td", span.transfer.node if span.transfer else span.name, class_="code"),
                el("td", span.op, class_="code"),
                el("td", _sources(span), class_="code dim"),
                el("td", microseconds(span.start_ns - start), class_="num"),
                el("td", microseconds(span.duration_ns), class_="num"),
            )
            for span in row.spans
        ]
        tables.append(
            el(
                "div",
                el("h4", row.device),
                el("table", el("thead", head), el("tbody", body), class_="nodes"),
                class_="scroll",
            )
        )
    return tables


def _sources(span: Span) -> str:
    if span.transfer is not None:
        return f"{task_of(span.transfer.source)}, {bytes_text(span.transfer.num_bytes)}"
    return ", ".join(span.inputs)
