"""In words: where a step's time goes, and what to change.

Called by: command, tools.dashboard.  Pure: from a recording to sentences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from headrace.tools.inspection.tables import bytes_of, duration_of, short_task
from headrace.tools.profiling.recording import Fill, QueueName, Recording
from headrace.tools.profiling.steps import Doing, Kind, Part, stays

WORTH = 0.15
"""The share of a step from which on something is worth a word."""

_SMALL_BYTES = 4096
_MANY_VALUES = 16
_SHORT_NS = 2e6
_MOST_KINDS = 3


def report(recording: Recording) -> list[str]:
    """Lines, the most telling kinds of steps first."""
    lines = [f"{task} is not in the trace: {why}" for task, why in recording.silent.items()]
    found = recording.kinds
    if not found:
        return [
            *lines,
            f"no step has ended within {recording.took_s:.0f} s: `headrace inspect` says what waits, and why",
        ]
    for number, kind in enumerate(found[:_MOST_KINDS]):
        lines += ["", *of_kind(kind, recording.fills, sets_the_pace=number == 0)]
    if len(found) > _MOST_KINDS:
        more = found[_MOST_KINDS:]
        count = sum(len(kind.steps) for kind in more)
        lines += ["", f"… and {count} steps of {len(more)} other kinds, which take less"]
    return lines


def of_kind(kind: Kind, fills: Mapping[QueueName, Fill], sets_the_pace: bool = True) -> list[str]:
    """What there is to be said of steps that ran the same.  sets_the_pace: it is them that the program is about."""
    parts = kind.parts()
    whole = max(sum(parts.values()), 1.0)
    count = len(kind.steps)
    lines = [
        f"{count} step{'' if count == 1 else 's'} that end{'s' if count == 1 else ''} with {kind.name!r}: "
        f"{duration_of(kind.mean_ns / 1e9)} each on the tasks"
    ]
    lines += [
        f"  {ns / whole:4.0%}  {duration_of(ns / 1e9):>9}  {words}"
        for ns, words in _rows(parts, kind)
    ]
    advice = _advice(kind, parts, whole, fills, sets_the_pace)
    lines += [f"  → {sentence}" for sentence in advice]
    return lines


def _rows(parts: Mapping[Part, float], kind: Kind) -> list[tuple[float, str]]:
    """What takes at least 1 % of it, in words, the longest first."""
    sums: dict[str, float] = defaultdict(float)
    nodes: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    moved = kind.moved()
    for part, ns in parts.items():
        text = _words(part)
        values, size = moved.get((part.what, part.task), (0.0, 0.0))
        if part.doing is Doing.MOVING and values:
            plural = "" if round(values) == 1 else "s"
            text += f" ({values:.0f} value{plural}, {bytes_of(round(size))})"
        sums[text] += ns
        nodes[text][part.node] += ns
    whole = sum(sums.values())
    rows = []
    for text, ns in sums.items():
        if ns < whole / 100:
            continue
        most = max(nodes[text], key=lambda node: nodes[text][node])
        if most and text.startswith("computes"):
            more = len(nodes[text]) - 1
            text += f" ({most!r}{f' and {more} more' if more else ''})"
        rows.append((ns, text))
    return sorted(rows, key=lambda row: -row[0])


def _words(part: Part) -> str:
    task = short_task(part.task)
    if part.doing is Doing.COMPUTING:
        return f"computes {part.what} on {task}"
    if part.doing is Doing.ENQUEUING:
        return f"waits to put into queue {part.what!r} on {task}"
    if part.doing is Doing.DEQUEUING:
        return f"waits to take from queue {part.what!r} on {task}"
    if part.doing is Doing.WAITING:
        return f"waits in {part.what} {part.node!r} on {task}"
    if part.doing is Doing.MOVING:
        if part.what == part.task:
            return f"values on their way to and from {task}"
        return f"values on their way from {short_task(part.what)} to {task}"
    return "requests and replies: nothing of it is under way on a task"


def _advice(
    kind: Kind,
    parts: Mapping[Part, float],
    whole: float,
    fills: Mapping[QueueName, Fill],
    sets_the_pace: bool,
) -> Iterator[str]:
    by_doing: dict[Doing, float] = defaultdict(float)
    for part, ns in parts.items():
        by_doing[part.doing] += ns
    yield from _of_queues(parts, whole, fills)
    yield from _of_placement(parts, whole)
    yield from _of_moves(kind, by_doing[Doing.MOVING] / whole)
    gap = kind.between_ns()
    if sets_the_pace and gap is not None and len(kind.steps) > 2 and gap > kind.mean_ns * 0.5:
        yield (
            f"between two such steps {duration_of(gap / 1e9)} pass in which none runs, which is the program's own time "
            "and that of requests: prepare what is fed in another thread, through a queue or tf.data, and fetch less "
            "often"
        )
    between = by_doing[Doing.BETWEEN] / whole
    if between > 0.4 and kind.mean_ns < _SHORT_NS:
        yield (
            f"the step is short, and {between:.0%} of it is spent on asking for it: let a step do more, with larger "
            "batches or several of them (tf.while_loop, enqueue_many)"
        )
    computing = by_doing[Doing.COMPUTING] / whole
    if computing > 1 - WORTH:
        most = max((p for p in parts if p.doing is Doing.COMPUTING), key=lambda part: parts[part])
        yield (
            f"it computes nearly all the time, most of it in {most.what} {most.node!r}: more workers, or less to "
            "compute, is what helps"
        )


def _of_queues(
    parts: Mapping[Part, float], whole: float, fills: Mapping[QueueName, Fill]
) -> Iterator[str]:
    for doing in (Doing.DEQUEUING, Doing.ENQUEUING):
        waits: dict[tuple[str, str], float] = defaultdict(float)
        for part, ns in parts.items():
            if part.doing is doing:
                waits[part.task, part.what] += ns
        for (task, queue), ns in waits.items():
            if ns / whole < WORTH:
                continue
            fill = _fill(fills, task, queue)
            share = f"{ns / whole:.0%} of the step is a wait to"
            if doing is Doing.ENQUEUING:
                yield f"{share} put into queue {queue!r}: " + _why_full(fill)
            else:
                yield f"{share} take from queue {queue!r}: " + _why_empty(fill)


def _fill(fills: Mapping[QueueName, Fill], task: str, queue: str) -> Fill | None:
    """The queue's, whose name may be that of its node, or a shared one."""
    on_task = {name: fill for (where, name), fill in fills.items() if where == task}
    if queue in on_task:
        return on_task[queue]
    return next(iter(on_task.values())) if len(on_task) == 1 else None


def _why_empty(fill: Fill | None) -> str:
    if fill is not None and fill.capacity and any(fill.puts) and max(fill.elements, default=0):
        return (
            f"at times it is full (it holds {fill.capacity} at most) and its producers wait, at times it is empty: it "
            "is too small; make its capacity several batches"
        )
    return (
        "its producers are too slow: more of them (QueueRunner threads, num_threads, loader processes), or less work "
        "in each; a larger queue does not help"
    )


def _why_full(fill: Fill | None) -> str:
    small = fill is not None and 0 < fill.capacity < 4
    if small:
        assert fill is not None
        return f"it holds {fill.capacity} at most, which lets nobody work ahead: make it larger"
    return "its consumers are the slower side: that is as it should be, unless nobody takes anything out"


def _of_placement(parts: Mapping[Part, float], whole: float) -> Iterator[str]:
    """Work that lies on a parameter server, and need not."""
    moveable: dict[tuple[str, str], float] = defaultdict(float)
    tasks = {part.task for part in parts if part.task}
    for part, ns in parts.items():
        on_ps = part.task.startswith("/job:ps/") and any(
            not t.startswith("/job:ps/") for t in tasks
        )
        if part.doing is Doing.COMPUTING and on_ps and not stays(part.what):
            moveable[part.task, part.what] += ns
    total = sum(moveable.values())
    if total / whole < WORTH:
        return
    task, op = max(moveable, key=lambda key: moveable[key])
    yield (
        f"{total / whole:.0%} of the step is computed on parameter servers, most of it {op} on {short_task(task)}: "
        "put it under tf.device of a worker (tf.train.replica_device_setter leaves only variables on them)"
    )


def _of_moves(kind: Kind, share: float) -> Iterator[str]:
    if share < WORTH:
        return
    moved = kind.moved()
    if not moved:
        return
    (source, destination), (_, size) = max(moved.items(), key=lambda each: each[1][1])
    values = sum(each[0] for each in moved.values())
    mean = sum(each[1] for each in moved.values()) / max(values, 1)
    text = (
        f"{share:.0%} of the step values are on their way, {bytes_of(round(size))} of them from {short_task(source)} "
        f"to {short_task(destination)}: "
    )
    if values >= _MANY_VALUES and mean < _SMALL_BYTES:
        yield text + (
            f"they are {values:.0f} values of {bytes_of(round(mean))} on average: put what belongs together on one "
            "task, or stack small tensors before they leave"
        )
    else:
        yield text + (
            "bring the work to where they are (tf.device, colocate_with), send less of them (gather the rows that are "
            "needed, tf.IndexedSlices, a smaller dtype), or spread large variables over more parameter servers "
            "(tf.fixed_size_partitioner)"
        )
