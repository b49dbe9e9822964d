"""A snapshot in a terminal: tables that fit into 80 columns and use more.

Called by: run.  Pure: from a Snapshot to what rich prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.serve.observe.blocked import BlockedStep, seconds
from headrace.tools.inspection.snapshot import (
    Rates,
    Snapshot,
    is_queue,
    is_variable,
    queue_key,
    shape_of,
)

WIDE = 100
"""Columns from which on there is room for more."""

LONG_S = 1.0
"""A step that has waited for less is not called blocked here."""

_BAR = 8
_MOST_ROWS = 40

Row = Sequence[RenderableType]


def everything(snapshot: Snapshot, width: int, most_rows: int | None = _MOST_ROWS) -> Group:
    """All tables that are not empty.  most_rows: of each, None for all."""
    parts = [
        _tasks(snapshot, width),
        _sessions(snapshot, width, most_rows),
        _containers(snapshot, most_rows),
        _variables(snapshot, width, most_rows),
        _queues(snapshot, width, most_rows),
        _others(snapshot, most_rows),
        blocked(snapshot.blocked(), most_rows),
    ]
    return _apart([part for part in parts if part is not None])


def _apart(parts: Sequence[RenderableType]) -> Group:
    """One below the other, with a line between."""
    spaced: list[RenderableType] = []
    for part in parts:
        spaced += [part, Text("")]
    return Group(*spaced[:-1])


def live(snapshot: Snapshot, width: int, height: int) -> Group:
    """What fits on a screen, the most telling first: blocked steps, queues, tasks, sessions."""
    steps = [step for step in snapshot.blocked() if step.waited_s >= LONG_S]
    left = max(4, height - 3)
    head = Text.assemble(
        (f" {snapshot.target} ", "reverse"),
        f"  {_count(len(snapshot.tasks), 'task')}, {_count(len(list(snapshot.sessions)), 'session')}, ",
        f"{_count(sum(task.steps for task in snapshot.tasks), 'step')} under way, ",
        (f"{len(steps)} blocked", "bold yellow" if steps else "green"),
        overflow="ellipsis",
        no_wrap=True,
    )
    parts: list[RenderableType] = [head]
    tasks = _tasks(snapshot, width, max(1, left // 4), brief=True)
    queues = _queues(snapshot, width, max(1, left // 3), most_moving=True)
    for part, rows in ((tasks, len(snapshot.tasks)), (queues, _number(snapshot, is_queue))):
        if part is not None:
            parts.append(part)
            left -= min(rows, left // 3) + 4
    found = blocked(steps, max(1, left // 4))
    sessions = _sessions(snapshot, width, max(1, left // 4))
    parts += [part for part in (found, sessions) if part is not None]
    return _apart(parts)


# -- tables ---------------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    """A title and columns.  One that begins with ">" is of numbers; what is in one with "~" gives way
    when there is not enough room.
    """
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="dim",
    )
    for column in columns:
        table.add_column(
            column.lstrip(">~"),
            justify="right" if column.startswith(">") else "left",
            no_wrap=not column.startswith("~"),
            overflow="ellipsis",
        )
    return table


def _filled(table: Table, rows: Sequence[Row], most: int | None) -> Table | None:
    """None if there is nothing to show."""
    if not rows:
        return None
    shown = rows if most is None or len(rows) <= most else rows[:most]
    flexible = [not column.no_wrap for column in table.columns]
    for row in shown:
        table.add_row(
            *[_short(cell) if gives else cell for cell, gives in zip(row, flexible, strict=True)]
        )
    if len(shown) < len(rows):
        table.caption = f"… and {len(rows) - len(shown)} more (--all, --json)"
        table.caption_justify = "left"
    return table


def _short(cell: RenderableType) -> Text:
    """In one line, however short that is."""
    found = cell.copy() if isinstance(cell, Text) else Text(str(cell))
    found.no_wrap, found.overflow = True, "ellipsis"
    return found


def _tasks(
    snapshot: Snapshot, width: int, most: int | None = None, brief: bool = False
) -> RenderableType | None:
    wide = width >= WIDE
    table = _table("Tasks", "task", "~address", "~process", ">up", ">steps", ">sessions", ">state")
    rows: list[Row] = []
    for task in snapshot.tasks:
        size = sum(resource.bytes for resource in task.resource)
        process = f"{task.pid} on {task.host}" if wide else str(task.pid)
        if task.silent:
            rows.append([_task(task.task), task.address, Text("silent", "red"), *[""] * 4])
            continue
        rows.append(
            [
                _task(task.task),
                task.address,
                process,
                _duration(task.up_s),
                str(task.steps),
                str(len(task.session)),
                _bytes(size),
            ]
        )
    silent = [
        Text(f"{_task(task.task)} {task.silent}", "red") for task in snapshot.tasks if task.silent
    ]
    if brief:
        silent = [_short(text) for text in silent]
    filled = _filled(table, rows, most)
    return None if filled is None else Group(filled, *silent[:most])


def _sessions(snapshot: Snapshot, width: int, most: int | None) -> Table | None:
    wide = width >= WIDE
    table = _table("Sessions", "session", "master", "~client", ">age", ">nodes", ">steps")
    rows: list[Row] = [
        [
            session.handle if wide else session.handle[:8],
            _task(task.task),
            session.client or Text("does not say", "dim"),
            _duration(session.age_s),
            str(session.nodes),
            str(session.steps),
        ]
        for task, session in snapshot.sessions
    ]
    return _filled(table, rows, most)


def _containers(snapshot: Snapshot, most: int | None) -> Table | None:
    table = _table("Containers", "task", "~container", ">variables", ">queues", ">others", ">bytes")
    rows: list[Row] = []
    for task in snapshot.tasks:
        ordered = sorted(task.resource, key=lambda each: each.container)
        for container, group in groupby(ordered, key=lambda each: each.container):
            kept = list(group)
            variables, queues = sum(map(is_variable, kept)), sum(map(is_queue, kept))
            rows.append(
                [
                    _task(task.task),
                    container,
                    str(variables),
                    str(queues),
                    str(len(kept) - variables - queues),
                    _bytes(sum(each.bytes for each in kept)),
                ]
            )
    return _filled(table, rows, most)


def _variables(snapshot: Snapshot, width: int, most: int | None) -> Table | None:
    table = _table("Variables", "task", "~variable", "dtype", "~shape", ">bytes")
    found = [(task, each) for task, each in snapshot.resources if is_variable(each)]
    found.sort(key=lambda pair: -pair[1].bytes)
    rows: list[Row] = []
    for task, variable in found:
        shape = shape_of(variable)
        text = (
            "unknown"
            if shape is None
            else f"[{', '.join('?' if s is None else str(s) for s in shape)}]"
        )
        size: RenderableType = _bytes(variable.bytes)
        if not variable.initialized:
            size = Text("uninitialized", "yellow")
        dtype = dtypes.as_dtype(variable.dtype).name
        rows.append([_task(task.task), _name(variable), dtype, Text(text), size])
    return _filled(table, rows, most)


def _queues(
    snapshot: Snapshot, width: int, most: int | None, most_moving: bool = False
) -> Table | None:
    wide = width >= WIDE
    columns = ["task", "~queue", *(["kind"] if wide else []), "", ">elements", ">in/s", ">out/s"]
    table = _table("Queues", *columns, "waiting", "notes")
    found = [(task, each) for task, each in snapshot.resources if is_queue(each)]
    if most_moving:
        found.sort(key=lambda pair: -_moves(snapshot.rates.get(queue_key(*pair))))
    rows: list[Row] = []
    for task, queue in found:
        rates = snapshot.rates.get(queue_key(task, queue))
        rows.append(
            [
                _task(task.task),
                _name(queue),
                *([queue.kind] if wide else []),
                _bar(queue),
                _elements(queue),
                "" if rates is None else _rate(rates.entered),
                "" if rates is None else _rate(rates.left),
                _waiting(queue),
                _notes(queue),
            ]
        )
    return _filled(table, rows, most)


def _others(snapshot: Snapshot, most: int | None) -> Table | None:
    table = _table("Others", "task", "~kind", "~name", "~state")
    rows: list[Row] = [
        [_task(task.task), each.kind, _name(each), each.state]
        for task, each in snapshot.resources
        if not is_queue(each) and not is_variable(each)
    ]
    return _filled(table, rows, most)


def blocked(steps: Sequence[BlockedStep], most: int | None) -> RenderableType | None:
    """Each step in a few lines: who, on what, in which state, and why."""
    long = [step for step in steps if step.waited_s >= LONG_S]
    if not long:
        return None
    lines: list[RenderableType] = [Text("Blocked steps", "bold")]
    for step in long if most is None else long[:most]:
        head = Text.assemble(
            (f"{seconds(step.waited_s):>7} ", "bold yellow"),
            f"{step.op} ",
            (step.node, "bold"),
            overflow="ellipsis",
            no_wrap=True,
        )
        if step.built_at:
            head.append(f"  {step.built_at}", "dim")
        if step.session:
            client = f" ({step.client})" if step.client else ""
            head.append(f"  session {step.session[:8]}{client}", "dim")
        lines.append(head)
        _, _, rest = str(step).partition(": ")
        what, _, cause = rest.partition(". Likely cause: ")
        lines.append(Padding(Text(what), (0, 0, 0, 8)))
        if cause:
            lines.append(Padding(Text(f"→ {cause}", "yellow"), (0, 0, 0, 8)))
    if most is not None and len(long) > most:
        lines.append(Text(f"… and {len(long) - most} more", "dim italic"))
    return Group(*lines)


# -- cells ----------------------------------------------------------------------------------------


def _task(name: str) -> str:
    """Without the replica, which is always 0."""
    return name.removeprefix("/job:").replace("/replica:0", "").replace("/task:", ":")


def _name(resource: pb.ResourceState) -> Text:
    found = Text(overflow="ellipsis", no_wrap=True)
    if resource.container != "localhost":
        found.append(f"{resource.container}/", "cyan")
    found.append(resource.name)
    if resource.session:
        found.append(f" @{resource.session[:6]}", "dim")
    return found


def _bar(queue: pb.ResourceState) -> Text:
    """How full it is; of one without a limit, whether it has anything."""
    if not queue.capacity:
        return Text("∞" if queue.size else "", "dim")
    full = min(1.0, queue.size / queue.capacity)
    cells = round(full * _BAR)
    style = "red" if full >= 1 else "green"
    return Text.assemble(("█" * cells, style), ("·" * (_BAR - cells), "dim"))


def _elements(queue: pb.ResourceState) -> str:
    aside = f"+{queue.set_aside}" if queue.set_aside else ""
    limit = f"/{queue.capacity}" if queue.capacity else ""
    return f"{queue.size}{aside}{limit}"


def _waiting(queue: pb.ResourceState) -> Text:
    puts = sum(waiter.kind.startswith(("enqueue", "close")) for waiter in queue.waiter)
    takes = len(queue.waiter) - puts
    words = [f"{n} {way}" for n, way in ((puts, "in"), (takes, "out")) if n]
    return Text(", ".join(words), "yellow")


def _notes(queue: pb.ResourceState) -> Text:
    notes = []
    if queue.min_after_dequeue:
        notes.append(f"min {queue.min_after_dequeue}")
    if queue.closed:
        notes.append("closed")
    return Text(", ".join(notes), "dim")


def _moves(rates: Rates | None) -> float:
    return 0.0 if rates is None else rates.entered + rates.left


def _rate(per_s: float) -> str:
    if per_s < 10:
        return f"{per_s:.1f}"
    return _thousands(per_s, 1000, ("", "k", "M", "G"))


def _bytes(count: int) -> str:
    return _thousands(float(count), 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def _thousands(value: float, base: int, units: Sequence[str]) -> str:
    for unit in units:
        if value < base or unit == units[-1]:
            break
        value /= base
    digits = 0 if unit == units[0] or value >= 100 else 1
    return f"{value:.{digits}f}{unit}"


def _duration(duration_s: float) -> str:
    if duration_s < 60:
        return f"{duration_s:.0f} s"
    if duration_s < 3600:
        return f"{duration_s / 60:.0f} min"
    if duration_s < 48 * 3600:
        return f"{duration_s / 3600:.1f} h"
    return f"{duration_s / 86400:.0f} d"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _number(snapshot: Snapshot, kind: Callable[[pb.ResourceState], bool]) -> int:
    resources: Iterable[tuple[pb.TaskState, pb.ResourceState]] = snapshot.resources
    return sum(kind(resource) for _, resource in resources)
