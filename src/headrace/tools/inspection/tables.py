"""A snapshot in a terminal: tables that fit into 80 columns and use more.

Called by: run.  Pure: from a Snapshot to a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.base import dtypes
from headrace.codec import protos as pb
from headrace.serve.observe.blocked import BlockedStep, seconds
from headrace.tools.inspection.layout import Cell, Line, Part, grid, line
from headrace.tools.inspection.snapshot import (
    Rates,
    Snapshot,
    is_iterator,
    is_queue,
    is_variable,
    queue_key,
    shape_of,
)

if TYPE_CHECKING:
    from headrace.tools.inspection.watching import Latency, TaskFigures, View

WIDE = 100
"""Columns from which on there is room for more."""

LONG_S = 1.0
"""A step that has waited for less is not called blocked here."""

_BAR = 8
_MOST_ROWS = 40
_UNITS = ("", "k", "M", "G")

Row = Sequence[Cell]


def everything(snapshot: Snapshot, width: int, most_rows: int | None = _MOST_ROWS) -> list[Part]:
    """All tables that are not empty.  most_rows: of each, None for all."""
    return _apart(
        _tasks(snapshot, width, most_rows),
        _devices(snapshot, most_rows),
        _sessions(snapshot, width, most_rows),
        _containers(snapshot, most_rows),
        _variables(snapshot, most_rows),
        queues(snapshot, width, most_rows),
        _iterators(snapshot, most_rows),
        _others(snapshot, most_rows),
        _checkpoints(snapshot, most_rows),
        blocked(snapshot.blocked(), most_rows),
    )


def _apart(*groups: list[Part]) -> list[Part]:
    """Those that are not empty, with a line between."""
    spaced: list[Part] = []
    for group in groups:
        spaced += [line(), *group] if spaced and group else group
    return spaced


def live(snapshot: Snapshot, width: int, height: int, view: View | None = None) -> list[Part]:
    """What fits on a screen, the most telling first: blocked steps, queues, tasks, variables, sessions.

    view: what there is to be said of the snapshot beside.
    """
    steps = [step for step in snapshot.blocked() if step.waited_s >= LONG_S]
    left = max(4, height - 3)
    head = line(
        (f" {snapshot.target} ", "reverse"),
        f"  {_count(len(snapshot.tasks), 'task')}, {_count(len(list(snapshot.sessions)), 'session')}, ",
        f"{_count(sum(task.steps for task in snapshot.tasks), 'step')} under way, ",
        (f"{len(steps)} blocked", "bold yellow" if steps else "green"),
        _pace(None if view is None else view.steps),
    )
    figures = {} if view is None else view.figures
    tasks = _tasks(snapshot, width, max(1, left // 4), brief=True, figures=figures)
    devices = _devices(snapshot, max(1, left // 4))
    moving = queues(snapshot, width, max(1, left // 3), most_moving=True)
    in_devices = sum(len(each.device) for each in snapshot.tasks)
    lengths = (len(snapshot.tasks), in_devices, _number(snapshot, is_queue))
    for part, rows in zip((tasks, devices, moving), lengths, strict=True):
        if part:
            left -= min(rows, left // 3) + 4
    found = blocked(steps, max(1, left // 4))
    updated = _variables(snapshot, max(1, left // 4), most_updated=True)
    sessions = _sessions(snapshot, width, max(1, left // 4))
    return _apart(
        [head, *_last_checkpoint(snapshot)], tasks, devices, moving, found, updated, sessions
    )


# -- tables ---------------------------------------------------------------------------------------


def _table(title: str, columns: Sequence[str], rows: Sequence[Row], most: int | None) -> list[Part]:
    """Nothing if there is nothing to show.  columns: see `layout.grid`."""
    if not rows:
        return []
    shown = rows if most is None else rows[:most]
    more = len(rows) - len(shown)
    return [grid(title, columns, shown, f"… and {more} more (--all, --json)" if more else "")]


def _pace(steps: Latency | None) -> str:
    """How many steps end a second, and how long most take; "" if none do."""
    if steps is None or steps.median_s is None or steps.p95_s is None:
        return ""
    return f", {_rate(steps.per_s)} steps/s ({duration_of(steps.median_s)}, 95 %: {duration_of(steps.p95_s)})"


def _tasks(
    snapshot: Snapshot,
    width: int,
    most: int | None = None,
    brief: bool = False,
    figures: Mapping[str, TaskFigures] = MappingProxyType({}),
) -> list[Part]:
    """figures: shown beside, if there are any."""
    wide = width >= WIDE
    more = [">parts/s", ">cpu", ">memory"] if figures else []
    columns = ["task", "~address", "~process", ">up", ">steps", ">sessions", ">state", *more]
    rows: list[Row] = []
    for task in snapshot.tasks:
        size = sum(resource.bytes for resource in task.resource)
        process = f"{task.pid} on {task.host}" if wide else str(task.pid)
        if task.silent:
            blank = [""] * (4 + len(more))
            rows.append([short_task(task.task), task.address, line(("silent", "red")), *blank])
            continue
        rows.append(
            [
                short_task(task.task),
                task.address,
                process,
                _duration(task.up_s),
                str(task.steps),
                str(len(task.session)),
                bytes_of(size),
                *(_figures(figures.get(task.task)) if figures else ()),
            ]
        )
    silent = [
        line((f"{short_task(task.task)} {task.silent}", "red"), wraps=not brief)
        for task in snapshot.tasks
        if task.silent
    ]
    table = _table("Tasks", columns, rows, most)
    return [*table, *silent[:most]] if table else []


def _devices(snapshot: Snapshot, most: int | None) -> list[Part]:
    """How much of its memory each has given; nothing where there are CPUs only."""
    columns = ["task", "~device", ">variables", ">all arrays", ">of", ""]
    rows: list[Row] = [
        [
            short_task(task.task),
            each.name,
            bytes_of(each.variables),
            bytes_of(each.held),
            bytes_of(each.limit),
            f"{each.held / each.limit:.0%}" if each.limit else "",
        ]
        for task in snapshot.tasks
        for each in task.device
    ]
    return _table("Devices", columns, rows, most)


def _figures(found: TaskFigures | None) -> list[Cell]:
    """Parts of steps a second, processors kept busy, memory."""
    if found is None:
        return [""] * 3
    return [
        "" if found.parts is None else _rate(found.parts.per_s),
        "" if found.cpu is None else f"{found.cpu:.0%}",
        bytes_of(found.memory_bytes) if found.memory_bytes else "",
    ]


def _last_checkpoint(snapshot: Snapshot) -> list[Part]:
    """Which one was written or read last, and when; nothing if none was of late."""
    found = [(task, each) for task in snapshot.tasks for each in task.checkpoint]
    if not found:
        return []
    task, last = min(found, key=lambda pair: pair[1].ago_s)
    failed = bool(last.error)
    how = f", {bytes_of(last.bytes)} in {duration_of(last.took_s)}"
    return [
        line(
            f"  {last.prefix} ",
            (f"could not be {last.kind}" if failed else last.kind, "red" if failed else "green"),
            f" {_duration(last.ago_s)} ago by {short_task(task.task)}{'' if failed else how}",
        )
    ]


def _sessions(snapshot: Snapshot, width: int, most: int | None) -> list[Part]:
    wide = width >= WIDE
    columns = ["session", "master", "~client", ">age", ">nodes", ">steps"]
    rows: list[Row] = [
        [
            session.handle if wide else session.handle[:8],
            short_task(task.task),
            session.client or line(("does not say", "dim")),
            _duration(session.age_s),
            str(session.nodes),
            str(session.steps),
        ]
        for task, session in snapshot.sessions
    ]
    return _table("Sessions", columns, rows, most)


def _containers(snapshot: Snapshot, most: int | None) -> list[Part]:
    columns = ["task", "~container", ">variables", ">queues", ">others", ">bytes"]
    rows: list[Row] = []
    for task in snapshot.tasks:
        ordered = sorted(task.resource, key=lambda each: each.container)
        for container, group in groupby(ordered, key=lambda each: each.container):
            kept = list(group)
            variables, queues = sum(map(is_variable, kept)), sum(map(is_queue, kept))
            rows.append(
                [
                    short_task(task.task),
                    container,
                    str(variables),
                    str(queues),
                    str(len(kept) - variables - queues),
                    bytes_of(sum(each.bytes for each in kept)),
                ]
            )
    return _table("Containers", columns, rows, most)


def _variables(snapshot: Snapshot, most: int | None, most_updated: bool = False) -> list[Part]:
    """The largest first; most_updated: those alone that are updated, the most first."""
    columns = ["task", "~variable", "dtype", "~shape", ">bytes", ">updates", ">updates/s"]
    per_s = snapshot.updates
    found = [(task, each) for task, each in snapshot.resources if is_variable(each)]
    if most_updated:
        found = [pair for pair in found if per_s.get(queue_key(*pair))]
        found.sort(key=lambda pair: -per_s[queue_key(*pair)])
    else:
        found.sort(key=lambda pair: -pair[1].bytes)
    rows: list[Row] = []
    for task, variable in found:
        shape = shape_of(variable)
        text = (
            "unknown"
            if shape is None
            else f"[{', '.join('?' if s is None else str(s) for s in shape)}]"
        )
        size: Cell = bytes_of(variable.bytes)
        if variable.device:
            size = f"{size} on {variable.device}"
        if not variable.initialized:
            size = line(("uninitialized", "yellow"))
        dtype = dtypes.as_dtype(variable.dtype).name
        made = per_s.get(queue_key(task, variable))
        updates = [_thousands(variable.updates, 1000, _UNITS), "" if made is None else _rate(made)]
        rows.append([short_task(task.task), _name(variable), dtype, text, size, *updates])
    return _table("Variables", columns, rows, most)


def queues(
    snapshot: Snapshot, width: int, most: int | None, most_moving: bool = False
) -> list[Part]:
    """How full each is, and how fast it moves."""
    wide = width >= WIDE
    kind = ["kind"] if wide else []
    columns = ["task", "~queue", *kind, "", ">elements", ">in/s", ">out/s", "waiting", "notes"]
    found = [(task, each) for task, each in snapshot.resources if is_queue(each)]
    if most_moving:
        found.sort(key=lambda pair: -_moves(snapshot.rates.get(queue_key(*pair))))
    rows: list[Row] = []
    for task, queue in found:
        rates = snapshot.rates.get(queue_key(task, queue))
        rows.append(
            [
                short_task(task.task),
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
    return _table("Queues", columns, rows, most)


def _iterators(snapshot: Snapshot, most: int | None) -> list[Part]:
    """Their stages, the last one first."""
    columns = ["task", "~iterator", "~stage", ">elements", ">bytes", "waiting"]
    rows: list[Row] = []
    for task, each in snapshot.resources:
        first: list[Cell] = [short_task(task.task), _name(each)]
        for stage in each.stage:
            of = f"/{stage.most}" if stage.most else ""
            held = [f"{stage.elements}{of}", bytes_of(stage.bytes)] if stage.holds else ["", ""]
            rows.append([*first, stage.label, *held, _waiting(each) if first[0] else ""])
            first = ["", ""]
    return _table("Iterators", columns, rows, most)


def _others(snapshot: Snapshot, most: int | None) -> list[Part]:
    columns = ["task", "~kind", "~name", "~state"]
    rows: list[Row] = [
        [short_task(task.task), each.kind, _name(each), each.state]
        for task, each in snapshot.resources
        if not is_queue(each) and not is_variable(each) and not is_iterator(each)
    ]
    return _table("Others", columns, rows, most)


def _checkpoints(snapshot: Snapshot, most: int | None) -> list[Part]:
    """The latest first."""
    columns = ["task", "", "~checkpoint", ">tensors", ">bytes", ">took", ">ago"]
    found = [(task, each) for task in snapshot.tasks for each in task.checkpoint]
    found.sort(key=lambda pair: pair[1].ago_s)
    rows: list[Row] = [
        [
            short_task(task.task),
            line((f"not {each.kind}", "red")) if each.error else each.kind,
            each.prefix,
            str(each.tensors),
            bytes_of(each.bytes),
            duration_of(each.took_s),
            _duration(each.ago_s),
        ]
        for task, each in found
    ]
    return _table("Checkpoints", columns, rows, most)


def blocked(steps: Sequence[BlockedStep], most: int | None) -> list[Part]:
    """Each step in a few lines: who, on what, in which state, and why."""
    long = [step for step in steps if step.waited_s >= LONG_S]
    if not long:
        return []
    lines: list[Part] = [line(("Blocked steps", "bold"))]
    for step in long if most is None else long[:most]:
        built = f"  {step.built_at}" if step.built_at else ""
        client = f" ({step.client})" if step.client else ""
        session = f"  session {step.session[:8]}{client}" if step.session else ""
        lines.append(
            line(
                (f"{seconds(step.waited_s):>7} ", "bold yellow"),
                f"{step.op} ",
                (step.node, "bold"),
                (built + session, "dim"),
            )
        )
        _, _, rest = str(step).partition(": ")
        what, _, cause = rest.partition(". Likely cause: ")
        lines.append(line(what, indent=8, wraps=True))
        if cause:
            lines.append(line((f"→ {cause}", "yellow"), indent=8, wraps=True))
    if most is not None and len(long) > most:
        lines.append(line((f"… and {len(long) - most} more", "dim italic")))
    return lines


# -- cells ----------------------------------------------------------------------------------------


def short_task(name: str) -> str:
    """Without the replica, which is always 0."""
    return name.removeprefix("/job:").replace("/replica:0", "").replace("/task:", ":")


def _name(resource: pb.ResourceState) -> Line:
    elsewhere = resource.container != "localhost"
    return line(
        (f"{resource.container}/" if elsewhere else "", "cyan"),
        resource.name,
        (f" @{resource.session[:6]}" if resource.session else "", "dim"),
    )


def _bar(queue: pb.ResourceState) -> Line:
    """How full it is; of one without a limit, whether it has anything."""
    if not queue.capacity:
        return line(("∞" if queue.size else "", "dim"))
    full = min(1.0, queue.size / queue.capacity)
    cells = round(full * _BAR)
    style = "red" if full >= 1 else "green"
    return line(("█" * cells, style), ("·" * (_BAR - cells), "dim"))


def _elements(queue: pb.ResourceState) -> str:
    aside = f"+{queue.set_aside}" if queue.set_aside else ""
    limit = f"/{queue.capacity}" if queue.capacity else ""
    return f"{queue.size}{aside}{limit}"


def _waiting(queue: pb.ResourceState) -> Line:
    puts = sum(waiter.kind.startswith(("enqueue", "close")) for waiter in queue.waiter)
    takes = len(queue.waiter) - puts
    words = [f"{n} {way}" for n, way in ((puts, "in"), (takes, "out")) if n]
    return line((", ".join(words), "yellow"))


def _notes(queue: pb.ResourceState) -> Line:
    notes = []
    if queue.min_after_dequeue:
        notes.append(f"min {queue.min_after_dequeue}")
    if queue.closed:
        notes.append("closed")
    return line((", ".join(notes), "dim"))


def _moves(rates: Rates | None) -> float:
    return 0.0 if rates is None else rates.entered + rates.left


def _rate(per_s: float) -> str:
    if per_s < 10:
        return f"{per_s:.1f}"
    return _thousands(per_s, 1000, _UNITS)


def bytes_of(count: int) -> str:
    """As people say it."""
    return _thousands(float(count), 1024, (" B", " KiB", " MiB", " GiB", " TiB"))


def _thousands(value: float, base: int, units: Sequence[str]) -> str:
    for unit in units:
        if value < base or unit == units[-1]:
            break
        value /= base
    digits = 0 if unit == units[0] or value >= 100 else 1
    return f"{value:.{digits}f}{unit}"


def duration_of(took_s: float) -> str:
    """Of a step, as people say it."""
    if took_s < 1e-3:
        return f"{took_s * 1e6:.0f} µs"
    if took_s < 1:
        return f"{took_s * 1e3:.{1 if took_s < 0.1 else 0}f} ms"
    return seconds(took_s)


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
