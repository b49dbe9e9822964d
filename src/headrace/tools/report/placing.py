"""The cluster: servers, programs, and what was placed where.

Called by: page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.tools.report.record import Client, Record, Task, TracedStep, Variable
from headrace.tools.report.svg import Markup, bytes_text, el, figure, join, line, text, tick_text

WIDTH = 960
PS_X, PS_WIDTH, PS_Y = 176, 776, 14
WORKER_Y, WORKER_HEIGHT = 356, 96
CLIENT_HEIGHT = 46
ROW = 21


def task_of(device: str) -> str:
    """`/job:ps/task:0` from a device name with replica and device, or `/job:ps` for its task 0."""
    parts = dict(part.split(":", 1) for part in device.strip("/").split("/") if ":" in part)
    return f"/job:{parts.get('job', '')}/task:{parts.get('task', '0')}"


def moved_bytes(traced: Iterable[TracedStep]) -> Counter[tuple[str, str]]:
    """Bytes of the traced steps by (source task, destination task)."""
    moved: Counter[tuple[str, str]] = Counter()
    for row in (row for step in traced for row in step.rows):
        for span in row.spans:
            if span.transfer is not None:
                pair = task_of(span.transfer.source), task_of(span.transfer.destination)
                moved[pair] += span.transfer.num_bytes
    return moved


def nodes_by_task(traced: Iterable[TracedStep]) -> Counter[str]:
    """How many nodes of the traced steps ran on each task, transfers not counted."""
    return Counter(
        task_of(row.device)
        for row in (row for step in traced for row in step.rows)
        for span in row.spans
        if span.transfer is None and span.name != "_SOURCE"
    )


def diagram(record: Record) -> Markup:
    """The parameter server on top, the workers below, each program at the task it talks to."""
    servers = [task for task in record.tasks if task.name.startswith("/job:ps/")]
    workers = [task for task in record.tasks if task not in servers]
    ps = servers[0] if servers else record.tasks[0]
    rows = grouped(record.variables)
    ps_height = 84 + ROW * max(len(rows), 6) + 12
    shift = PS_Y + ps_height + 92 - WORKER_Y
    width = (PS_WIDTH - 24 * (len(workers) - 1)) / max(len(workers), 1)
    moved, nodes = moved_bytes(record.traced), nodes_by_task(record.traced)
    drawn = []
    for index, worker in enumerate(workers):
        x = PS_X + index * (width + 24)
        drawn.append(_worker(record, worker, index, x, WORKER_Y + shift, width, nodes[worker.name]))
        drawn.append(
            _exchange(x + width / 2, PS_Y + ps_height, WORKER_Y + shift, ps, worker, moved)
        )
    return figure(
        WIDTH,
        WORKER_Y + shift + WORKER_HEIGHT + 44 + CLIENT_HEIGHT + 8,
        "The cluster and what was placed on each task",
        _server(record, ps, ps_height, rows),
        _loader(record, ps_height),
        drawn,
    )


def _box(
    x: float, y: float, width: float, height: float, class_: str, title: str | None = None
) -> Markup:
    inner = el("title", title) if title else None
    return el("rect", inner, x=x, y=y, width=width, height=height, rx=6, class_=f"box {class_}")


def _head(x: float, y: float, width: float, task: Task) -> Markup:
    return join(
        text(x + 16, y + 26, task.name, "box-title"),
        text(x + width - 16, y + 26, f"{task.address}   pid {task.pid}", "fine", text_anchor="end"),
    )


def grouped(variables: Sequence[Variable]) -> list[tuple[str, str, int]]:
    """(name, what, bytes): the trainable ones one by one, then slots and counters together."""
    rows = [
        (v.name, f"{v.dtype} {shape_text(v.shape)}", v.num_bytes) for v in variables if v.trainable
    ]
    rest = [v for v in variables if not v.trainable]
    for label, members in (
        ("optimizer slots", [v for v in rest if v.shape]),
        ("counters and powers", [v for v in rest if not v.shape]),
    ):
        if members:
            what = f"{len(members)} variable{'s' if len(members) > 1 else ''}"
            rows.append((label, what, sum(v.num_bytes for v in members)))
    return rows


def shape_text(shape: Iterable[int]) -> str:
    """`[64, 10]`, `[]`."""
    return f"[{', '.join(map(str, shape))}]"


def _server(record: Record, ps: Task, height: float, rows: list[tuple[str, str, int]]) -> Markup:
    left, split = PS_X + 16, PS_X + 262
    right = PS_X + PS_WIDTH - 16
    top = PS_Y + 56
    most = max((count for _, _, count in rows), default=1)
    total = sum(count for _, _, count in rows)
    bar_x, bar_width = right - 240, 160
    entries = []
    for index, (name, what, count) in enumerate(rows):
        y = top + 32 + index * ROW
        entries.append(
            el(
                "g",
                el("title", f"{name}: {what}, {count:,} bytes"),
                text(split + 16, y, name, "mono"),
                text(bar_x - 14, y, what, "fine", text_anchor="end"),
                el(
                    "rect",
                    x=bar_x,
                    y=y - 9,
                    width=max(bar_width * count / most, 1.5),
                    height=10,
                    rx=2,
                    class_="bar",
                ),
                text(right, y, bytes_text(count), "fine", text_anchor="end"),
            )
        )
    return el(
        "g",
        _box(PS_X, PS_Y, PS_WIDTH, height, "ps"),
        _head(PS_X, PS_Y, PS_WIDTH, ps),
        line(PS_X, PS_Y + 40, PS_X + PS_WIDTH, PS_Y + 40, "box-rule"),
        line(split, PS_Y + 40, split, PS_Y + height, "box-rule"),
        _queue(record, left, top, split - left - 16),
        text(split + 16, top + 8, f"{len(record.variables)} variables", "box-kicker"),
        text(right, top + 8, bytes_text(total), "box-kicker", text_anchor="end"),
        entries,
    )


def _queue(record: Record, x: float, top: float, width: float) -> Markup:
    """The queue as a tube with one slot per hundredth of its capacity, and its bounds."""
    queue = record.queue
    peak = max((point.depth for point in record.depth), default=0)
    slots = 20
    slot = width / slots
    return el(
        "g",
        text(x, top + 8, "queue", "box-kicker"),
        text(x, top + 32, queue.name, "mono"),
        text(x + width, top + 32, queue.kind, "fine", text_anchor="end"),
        [
            el(
                "rect",
                x=x + i * slot,
                y=top + 46,
                width=slot - 2,
                height=26,
                rx=2,
                class_="slot full" if (i + 1) / slots <= peak / queue.capacity else "slot",
            )
            for i in range(slots)
        ],
        text(x, top + 92, f"at most {peak:,} of {queue.capacity:,} elements", "fine"),
        text(x, top + 118, "an element", "box-kicker"),
        [
            text(x, top + 140 + i * 18, component, "mono")
            for i, component in enumerate(queue.components)
        ],
    )


def _client(x: float, y: float, width: float, client: Client) -> Markup:
    return el(
        "g",
        el("title", f"{client.name}: {client.doing}"),
        el(
            "rect",
            x=x,
            y=y,
            width=width,
            height=CLIENT_HEIGHT,
            rx=CLIENT_HEIGHT / 2,
            class_="box client",
        ),
        text(x + width / 2, y + 20, client.name, "box-title", text_anchor="middle"),
        text(x + width / 2, y + 36, f"pid {client.pid}", "fine", text_anchor="middle"),
    )


def _clients_at(record: Record, task: str) -> list[Client]:
    return [client for client in record.clients if client.task == task]


def _loader(record: Record, height: float) -> Markup | None:
    here = [c for c in record.clients if not c.task.startswith("/job:worker")]
    if not here:
        return None
    y = PS_Y + 112.0
    return el(
        "g",
        _client(0, y - CLIENT_HEIGHT / 2, 116, here[0]),
        line(118, y, PS_X - 3, y, "arrow", marker_end="url(#head)"),
        text(58, y + 44, f"{tick_text(sum(record.records))} rows", "fine", text_anchor="middle"),
        text(58, y + 60, f"{len(record.records)} readers", "fine", text_anchor="middle"),
    )


def _worker(
    record: Record, worker: Task, index: int, x: float, y: float, width: float, nodes: int
) -> Markup:
    trainer = record.trainers[index] if index < len(record.trainers) else None
    clients = _clients_at(record, worker.name)
    client_y = y + WORKER_HEIGHT + 44
    says = []
    if trainer is not None:
        says.append(f"{len(trainer.points):,} steps, {trainer.examples:,} examples")
    says.append(
        f"{nodes} nodes of its traced step ran here" if nodes else "forward and backward pass"
    )
    return el(
        "g",
        _box(x, y, width, WORKER_HEIGHT, f"worker w{index}"),
        _head(x, y, width, worker),
        line(x, y + 40, x + width, y + 40, "box-rule"),
        [text(x + 16, y + 62 + i * 19, each, "fine") for i, each in enumerate(says)],
        line(
            x + width / 2,
            client_y,
            x + width / 2,
            y + WORKER_HEIGHT + 3,
            "arrow",
            marker_end="url(#head)",
        )
        if clients
        else None,
        text(x + width / 2 + 10, y + WORKER_HEIGHT + 27, "session", "fine") if clients else None,
        [_client(x + width / 2 - 64, client_y, 128, client) for client in clients[:1]],
    )


def _exchange(
    x: float,
    top: float,
    bottom: float,
    ps: Task,
    worker: Task,
    moved: Counter[tuple[str, str]],
) -> Markup:
    """The two arrows between the parameter server and a worker, with bytes if they were traced."""
    down, up = moved[ps.name, worker.name], moved[worker.name, ps.name]
    middle = (top + bottom) / 2 + 4
    down_text = "variables, batches" + (f": {bytes_text(down)}" if down else "")
    up_text = "gradients" + (f": {bytes_text(up)}" if up else "")
    return el(
        "g",
        line(x - 12, top + 3, x - 12, bottom - 4, "arrow", marker_end="url(#head)"),
        line(x + 12, bottom - 3, x + 12, top + 4, "arrow", marker_end="url(#head)"),
        text(x - 22, middle, down_text, "fine", text_anchor="end"),
        text(x + 22, middle, up_text, "fine"),
    )


def arrow_head() -> Markup:
    """The marker that the arrows refer to; once per page."""
    return el(
        "svg",
        el(
            "defs",
            el(
                "marker",
                el("path", d="M0 0L8 4L0 8Z", class_="head"),
                id="head",
                viewBox="0 0 8 8",
                refX=7,
                refY=4,
                markerWidth=7,
                markerHeight=7,
                orient="auto-start-reverse",
            ),
        ),
        width=0,
        height=0,
        style="position:absolute",
        aria_hidden="true",
    )
