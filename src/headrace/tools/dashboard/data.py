"""Views as JSON, for the page: what `headrace inspect --json` has, with rates and states, and a bounded number of rows.

Called by: feed.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Final

from headrace.codec import protos as pb
from headrace.tools.inspection.snapshot import (
    QueueKey,
    Snapshot,
    as_data,
    is_queue,
    is_variable,
    queue_key,
)
from headrace.tools.inspection.tables import LONG_S, short_task
from headrace.tools.inspection.watching import Point, TaskFigures, View

MOST_ROWS: Final = 200
_MOST_WAITERS: Final = 5


def key_of(key: QueueKey) -> str:
    """A queue's, as the page knows it."""
    return "\n".join(key)


def point(found: Point) -> dict[str, Any]:
    """A look of the past."""
    return {
        **{
            name: getattr(found, name)
            for name in ("at_s", "steps_per_s", "parts_per_s", "median_s", "p95_s", "p99_s")
        },
        "fills": {key_of(key): size for key, size in found.fills.items()},
    }


def view(found: View) -> dict[str, Any]:
    """A look, and what goes with it."""
    snapshot = found.snapshot
    told = as_data(snapshot)
    tasks = [
        _task(state, data, found.figures[state.task])
        for state, data in zip(snapshot.tasks, told["tasks"], strict=True)
    ]
    variables, others, sessions, checkpoints = (
        [
            {"task": task["name"], **each}
            for task, data in zip(tasks, told["tasks"], strict=True)
            for each in data[kind]
        ]
        for kind in ("variables", "others", "sessions", "checkpoints")
    )
    queues = _queues(snapshot, told)
    blocked = [step for step in told["blocked_steps"] if step["waited_s"] >= LONG_S]
    for each in checkpoints:
        each["at_s"] = found.at_s - each["ago_s"]
    checkpoints.sort(key=lambda each: -each["at_s"])
    queues.sort(key=lambda each: (-len(each["waiting"]), each["name"]))
    return {
        "at_s": found.at_s,
        "target": snapshot.target,
        "tasks": tasks,
        "steps": None if found.steps is None else asdict(found.steps),
        "queues": _most(queues),
        "variables": _shown(variables),
        "others": _most(others),
        "sessions": _most(sessions),
        "checkpoints": _most(checkpoints),
        "blocked": _most(blocked),
        "counts": {
            "queues": len(queues),
            "variables": len(variables),
            "others": len(others),
            "sessions": len(sessions),
            "blocked": len(blocked),
        },
        "bytes": sum(each["bytes"] for each in variables),
        "events": [asdict(event) for event in found.events],
        "point": point(found.point),
    }


def _most(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return rows[:MOST_ROWS]


def _shown(variables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The largest, largest first; of too many those too that are updated the most."""
    ordered = sorted(variables, key=lambda each: -each["bytes"])
    if len(ordered) <= MOST_ROWS:
        return ordered
    busiest = sorted(ordered, key=lambda each: -(each["updates_per_s"] or 0.0))[: MOST_ROWS // 2]
    kept = {id(each) for each in busiest}
    rest = [each for each in ordered if id(each) not in kept][: MOST_ROWS - len(busiest)]
    return sorted([*busiest, *rest], key=lambda each: -each["bytes"])


def _task(state: pb.TaskState, data: dict[str, Any], figures: TaskFigures) -> dict[str, Any]:
    passed = {short_task(task): rates for task, rates in figures.passed.items()}
    variables: Iterable[pb.ResourceState] = filter(is_variable, state.resource)
    return {
        "name": short_task(state.task),
        **{
            name: data[name]
            for name in ("address", "why_silent", "host", "pid", "up_s", "steps_under_way")
        },
        **asdict(figures),
        "passed": passed,
        "sessions": len(state.session),
        "variable_bytes": sum(each.bytes for each in variables),
        "devices": data["devices"],
    }


def _queues(snapshot: Snapshot, told: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for state, data in zip(snapshot.tasks, told["tasks"], strict=True):
        states = [each for each in state.resource if is_queue(each)]
        for queue, each in zip(states, data["queues"], strict=True):
            waiting = each["waiting"]
            puts = sum(waiter["kind"].startswith(("enqueue", "close")) for waiter in waiting)
            found.append(
                {
                    **each,
                    "key": key_of(queue_key(state, queue)),
                    "task": short_task(state.task),
                    "puts": puts,
                    "takes": len(waiting) - puts,
                    "waiting": waiting[:_MOST_WAITERS],
                }
            )
    return found
