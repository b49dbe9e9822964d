"""A task's metrics for Prometheus, asked of its worker whenever somebody scrapes them.

docs/watching.md lists names and units.  No label has unbounded values: tasks, error codes, and the queues that
sessions share, the first hundred of them by name; what belongs to one session alone is summed up.
Called by: serve.server, where HEADRACE_METRICS asks for it.  Threads: those of the HTTP server.
Source: Prometheus's text format, by prometheus_client
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from headrace.base import errors
from headrace.base.version import VERSION
from headrace.codec import protos as pb
from headrace.run import long_waits
from headrace.run.scope import Scope
from headrace.serve.http.guard import Environ
from headrace.serve.http.server import HttpServer, parse_place
from headrace.serve.rpc.security import Security

MOST_QUEUES: Final = 100
OTHERS: Final = "_others"
"""As what queues of single sessions, and those beyond MOST_QUEUES, are summed up: no queue has such a name."""

_EDGES: Final = tuple(
    range(4, 31, 2)
)  # buckets of a meter that end a bucket here: 16 µs to 18 minutes
_NAMES: Final = {
    code: name for name, code in vars(errors).items() if name.isupper() and isinstance(code, int)
}


class Task(Protocol):
    """A worker, as far as it is asked here."""

    task: str

    def inspect(self, request: pb.InspectRequest, scope: Scope) -> pb.InspectResponse:
        """What it has and has done."""


def serve_metrics(worker: Task, place: str, security: Security) -> HttpServer:
    """Have them served at `[ADDRESS:]PORT`, and the steps counted as long as the worker lasts.

    Raises FailedPrecondition: prometheus_client is not installed, or strangers would reach it; InvalidArgument: no such
    place; Unknown: it is taken.
    """
    where = parse_place(place, "HEADRACE_METRICS")
    try:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder
    except ImportError:
        raise errors.failed_precondition(
            "HEADRACE_METRICS (--metrics) needs prometheus_client: pip install 'headrace[metrics]'"
        ) from None
    registry = CollectorRegistry()
    registry.register(_Collector(worker))
    ProcessCollector(registry=registry)

    def application(environ: Environ, start_response: Any) -> Iterable[bytes]:
        if environ.get("PATH_INFO") not in ("/metrics", "/"):
            start_response("404 Not Found", [("Content-Type", "text/plain")])
            return [b"metrics are at /metrics\n"]
        encode, content_type = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        text = encode(registry)
        start_response("200 OK", [("Content-Type", content_type)])
        return [text]

    server = HttpServer(application, where, security, f"metrics of {worker.task}")
    worker.inspect(pb.InspectRequest(count_for_s=math.inf), Scope())
    return server


class _Collector:
    """See prometheus_client.registry.Collector."""

    def __init__(self, worker: Task) -> None:
        self._worker = worker

    def describe(self) -> list[Any]:
        """Nothing: names are known to be no others' here."""
        return []

    def collect(self) -> Iterator[Any]:
        """What there is now."""
        (state,) = self._worker.inspect(pb.InspectRequest(), Scope()).task
        yield from families(state, time.time())


def families(state: pb.TaskState, now_s: float) -> Iterator[Any]:
    """What a task says of itself, as metrics."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

    def gauge(name: str, text: str, value: float) -> Any:
        return GaugeMetricFamily(f"headrace_{name}", text, value=value)

    about = {"task": state.task, "version": VERSION, "host": state.host}
    yield InfoMetricFamily("headrace_task", "The task that this is of.", value=about)
    yield gauge("task_start_time_seconds", "When the task began, in Unix time.", now_s - state.up_s)
    yield gauge("sessions", "Sessions that have this task's master.", len(state.session))
    yield gauge("steps_under_way", "Steps that this task runs a part of now.", state.steps)
    waits = [
        step for step in state.blocked if step.waited_s >= (long_waits.threshold_s or math.inf)
    ]
    yield gauge(
        "blocked_steps",
        "Nodes here that have waited for longer than HEADRACE_BLOCKED_AFTER_S.",
        len(waits),
    )
    yield from _steps("task_step", "Parts of steps that ran on this task", state.parts)
    yield from _steps(
        "session_step", "Steps of the sessions that have this task's master", state.mastered
    )
    restarts = CounterMetricFamily(
        "headrace_restarts_seen", "Restarts of other tasks that this task's master has seen."
    )
    restarts.add_metric([], state.restarts_seen)
    yield restarts
    yield from _traffic(state)
    variables = [each for each in state.resource if each.dtype != pb.DT_INVALID]
    yield gauge("variables", "Variables.", len(variables))
    yield gauge("variables_bytes", "What their values take.", sum(each.bytes for each in variables))
    uninitialized = sum(not each.initialized for each in variables)
    yield gauge("variables_uninitialized", "Variables that have no value yet.", uninitialized)
    yield from _queues([each for each in state.resource if each.component])


def _steps(name: str, text: str, counts: pb.StepCounts) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    buckets: list[tuple[str, float]] = []
    total = 0
    for number, count in enumerate([*counts.bucket, *[0] * (_EDGES[-1] + 1 - len(counts.bucket))]):
        total += count
        if number in _EDGES:
            buckets.append((repr(2.0**number / 1e6), total))
    buckets.append(("+Inf", sum(counts.bucket)))
    found = HistogramMetricFamily(f"headrace_{name}_seconds", f"{text}, by how long they took.")
    found.add_metric([], buckets, counts.sum_s)
    yield found
    failed = CounterMetricFamily(
        f"headrace_failed_{name}s", f"{text} and failed, by error.", labels=["code"]
    )
    for code, count in sorted(counts.failed.items()):
        failed.add_metric([_NAMES.get(code, str(code))], count)
    yield failed


def _traffic(state: pb.TaskState) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    sent = CounterMetricFamily(
        "headrace_sent_bytes",
        "Sent to another task over connections that this one made.",
        labels=["peer"],
    )
    received = CounterMetricFamily(
        "headrace_received_bytes", "Received over the same.", labels=["peer"]
    )
    for each in state.traffic:
        sent.add_metric([each.task], each.sent)
        received.add_metric([each.task], each.received)
    yield from (sent, received)


def _queues(found: Sequence[pb.ResourceState]) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    labels = ["container", "queue"]
    elements = GaugeMetricFamily("headrace_queue_elements", "Elements in a queue.", labels=labels)
    capacity = GaugeMetricFamily(
        "headrace_queue_capacity", "Its capacity; +Inf: no limit.", labels=labels
    )
    text = "Operations that wait to put elements in, or to take them out."
    waiting = GaugeMetricFamily("headrace_queue_waiting", text, labels=[*labels, "side"])
    entered = CounterMetricFamily(
        "headrace_queue_entered", "Elements that ever went in.", labels=labels
    )
    shared = sorted(
        (each for each in found if not each.session), key=lambda q: (q.container, q.name)
    )
    named = shared[:MOST_QUEUES]
    others = [each for each in found if each.session] + shared[MOST_QUEUES:]
    rows = [((each.container, each.name), [each]) for each in named]
    if others:
        rows.append(((OTHERS, OTHERS), others))
    for key, queues in rows:
        elements.add_metric(key, sum(each.size + each.set_aside for each in queues))
        limits = [each.capacity or math.inf for each in queues]
        capacity.add_metric(key, sum(limits))
        entered.add_metric(key, sum(each.entered for each in queues))
        puts = sum(_puts(waiter) for each in queues for waiter in each.waiter)
        waiting.add_metric([*key, "in"], puts)
        waiting.add_metric([*key, "out"], sum(len(each.waiter) for each in queues) - puts)
    yield from (elements, capacity, entered, waiting)


def _puts(waiter: pb.WaiterState) -> bool:
    return waiter.kind.startswith(("enqueue", "close"))
