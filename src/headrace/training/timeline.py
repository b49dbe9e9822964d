"""A traced step as rows of spans, and those rows in Chrome's trace format.

Called by: users, as `tf.python.client.timeline.Timeline` (the JSON opens in Perfetto and in
    chrome://tracing), and the report of `headrace demo`, which draws the same spans itself.
Reads: a StepStats message, ours or TensorFlow's; nothing else, and changes nothing.
Threads: none of its own; objects here are not shared between threads.
Source: TF 1.15 core/framework/step_stats.proto; the Trace Event Format document of Chrome
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_NODE_LABEL = re.compile(r"^(?P<name>.+?) = (?P<op>[^\s(]+)\((?P<inputs>.*)\)$", re.DOTALL)
_SHORT_LABEL = re.compile(r"^(?P<name>[^\s:=]+):(?P<op>[A-Za-z_]\w*)(#.*#)?$")
_RECV_LABEL = re.compile(
    r"^\[(?P<amount>\d+(?:\.\d+)?)(?P<unit>M?)B\].*? (?P<edge>\S+) from (?P<src>\S+) to (?P<dst>\S+)"
)
_EDGE = re.compile(r"^edge_(?P<number>\d+)_(?P<node>.+)$")
_RECV_SUFFIX = re.compile(r"_S\d+$")
_OUTPUT_NUMBER = re.compile(r":\d+$")


@dataclass(frozen=True)
class Transfer:
    """What a RecvTensor brought: the node it came from, both devices, and the bytes.

    `sent_as` is the name `node/_number` of the edge, by which our partitions call their _Send.
    """

    node: str
    sent_as: str
    source: str
    destination: str
    num_bytes: int


@dataclass
class Output:
    """One output of a node: who allocated it, its bytes, and the description as text."""

    slot: int
    allocator: str
    num_bytes: int
    description: str


@dataclass
class Span:
    """One node's execution; `start_us` and `start_ns` count from the Unix epoch.

    Nanoseconds are exact where they were recorded.  Microseconds are as they were reported, except
    that `duration_us` does not reach into the next span of the lane.
    """

    device: str
    name: str
    op: str
    inputs: tuple[str, ...]
    start_us: int
    duration_us: int
    start_ns: int
    duration_ns: int
    op_end_us: int
    label: str
    transfer: Transfer | None = None
    outputs: tuple[Output, ...] = ()
    lane: int = 0

    @property
    def end_us(self) -> int:
        """When the node had finished, after its outputs were handed on."""
        return self.start_us + self.duration_us

    @property
    def end_ns(self) -> int:
        """The same, exactly."""
        return self.start_ns + self.duration_ns


@dataclass
class DeviceRow:
    """All spans of one device, by start; spans of one lane never overlap."""

    device: str
    spans: list[Span]
    lanes: int


class Dependency(NamedTuple):
    """`consumer` used what `producer` made."""

    producer: Span
    consumer: Span


def parse_label(label: str) -> tuple[str, tuple[str, ...]]:
    """The op type and the inputs in a timeline label; ("unknown", ()) if it has another form."""
    if match := _NODE_LABEL.match(label):
        inputs = match["inputs"].strip()
        return match["op"], tuple(inputs.split(", ")) if inputs else ()
    if match := _SHORT_LABEL.match(label):
        return match["op"], ()
    return "unknown", ()


def node_of(tensor: str) -> str:
    """The node behind an input as labels write it: `w/read`, `w/read:1`, `^w/read`."""
    return _OUTPUT_NUMBER.sub("", tensor.removeprefix("^"))


def read_step(step_stats: Any) -> list[DeviceRow]:
    """The devices of a StepStats in order of first appearance, each with its spans in lanes.

    A device that occurs more than once (each task reports what it saw of it) becomes one row.
    """
    spans: dict[str, list[Span]] = {}
    for device_stats in step_stats.dev_stats:
        row = spans.setdefault(device_stats.device, [])
        row += (_span(device_stats.device, node) for node in device_stats.node_stats)
    return [DeviceRow(device, row, assign_lanes(row)) for device, row in spans.items()]


def _span(device: str, node: Any) -> Span:
    op, inputs = parse_label(node.timeline_label)
    transfer = None
    if match := _RECV_LABEL.match(node.timeline_label):
        op = "RecvTensor"
        edge = _EDGE.match(match["edge"])
        name = node_of(edge["node"] if edge else match["edge"])
        sent_as = f"{name}/_{edge['number']}" if edge else name
        transfer = Transfer(name, sent_as, match["src"], match["dst"], _moved_bytes(node, match))
    elif op == "unknown" and node.node_name == "RecvTensor":
        op = "RecvTensor"
    return Span(
        device=device,
        name=node.node_name,
        op=op,
        inputs=inputs,
        start_us=node.all_start_micros,
        duration_us=node.all_end_rel_micros,
        start_ns=node.all_start_nanos or node.all_start_micros * 1000,
        duration_ns=node.all_end_rel_nanos or node.all_end_rel_micros * 1000,
        op_end_us=node.all_start_micros + node.op_end_rel_micros,
        label=node.timeline_label,
        transfer=transfer,
        outputs=tuple(
            Output(
                slot=o.slot,
                allocator=o.tensor_description.allocation_description.allocator_name,
                num_bytes=o.tensor_description.allocation_description.requested_bytes,
                description=str(o.tensor_description),
            )
            for o in node.output
        ),
    )


def _moved_bytes(node: Any, label: re.Match[str]) -> int:
    """Bytes of a transfer: exactly from its output; the label rounds large ones to 0.1 MiB."""
    sizes = [o.tensor_description.allocation_description.requested_bytes for o in node.output]
    if any(sizes):
        return sum(sizes)
    return round(float(label["amount"]) * (1 << 20 if label["unit"] else 1))


def assign_lanes(spans: list[Span]) -> int:
    """Sort by start and give each span the first lane that is free then; the number of lanes."""
    spans.sort(key=lambda span: (span.start_ns, span.end_ns))
    last: list[Span] = []
    for span in spans:
        for lane, before in enumerate(last):
            if before.end_ns <= span.start_ns:
                span.lane = lane
                # Microseconds are rounded, and may overlap where nanoseconds do not.
                room_us = max(span.start_us - before.start_us, 0)
                before.duration_us = min(before.duration_us, room_us)
                last[lane] = span
                break
        else:
            span.lane = len(last)
            last.append(span)
    return len(last)


def dependencies(rows: Sequence[DeviceRow]) -> Iterator[Dependency]:
    """Who used whose output: within a device by node name, across devices through RecvTensor.

    A name that its own device did not run, and did not receive, is looked up on the others.
    """
    anywhere: dict[str, Span] = {}
    local: dict[tuple[str, str], Span] = {}
    received: dict[tuple[str, str], Span] = {}
    for row in rows:
        for span in row.spans:
            if span.transfer is not None:
                for name in (span.transfer.node, span.transfer.sent_as):
                    received[span.transfer.destination, name] = span
            else:
                anywhere.setdefault(span.name, span)
                local.setdefault((row.device, span.name), span)
    for row in rows:
        for span in row.spans:
            if span.transfer is not None:
                source = span.transfer.source
                producer = local.get((source, span.transfer.sent_as)) or local.get(
                    (source, span.transfer.node)
                )
                if producer is not None:
                    yield Dependency(producer, span)
                continue
            for tensor in span.inputs:
                node = node_of(tensor)
                bare = _RECV_SUFFIX.sub("", node)
                producer = (
                    local.get((row.device, node))
                    or received.get((row.device, node))
                    or received.get((row.device, bare))
                    or anywhere.get(node)
                )
                if producer is not None and producer is not span:
                    yield Dependency(producer, span)


@dataclass
class AllocationMaximum:
    """The most that one allocator held at a time: when (microseconds), how much, which tensors."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class StepStatsAnalysis(NamedTuple):
    """The trace, and the peak of each allocator by its name."""

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


@dataclass
class ChromeTrace:
    """Events in Chrome's trace format: metadata first, then the rest in order of emission."""

    metadata: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def process(self, pid: int, name: str) -> None:
        """Name a row group; viewers show them in the order of their pids."""
        self.metadata += (
            {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}},
            {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}},
        )

    def event(self, ph: str, cat: str, name: str, pid: int, tid: int, ts: int, **more: Any) -> None:
        """One event of phase `ph` at `ts` microseconds; `more` are keys that its phase has."""
        self.events.append(
            {"ph": ph, "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, **more}
        )

    def format_to_string(self, pretty: bool = False) -> str:
        """The whole trace as one JSON object, indented by four if `pretty`."""
        trace = {"traceEvents": self.metadata + self.events}
        if pretty:
            return json.dumps(trace, indent=4)
        return json.dumps(trace, separators=(",", ":"))


class _TensorLife(NamedTuple):
    name: str
    span: Span
    output: Output
    created_us: int
    released_us: int


class Timeline:
    """The Chrome trace of one traced step.

    `step_stats` is `run_metadata.step_stats` of a run with `RunOptions.FULL_TRACE`.  `graph` is
    accepted for compatibility; the labels in the statistics say everything that is shown.
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._step_stats = step_stats
        self._graph = graph

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = False, op_time: str = "schedule"
    ) -> str:
        """JSON for Perfetto or chrome://tracing: one process per device of every task.

        `show_dataflow` draws arrows from producers to consumers; `show_memory` adds tensors and
        allocator counters.  `op_time` ("schedule", "gpu" or "all") chooses which clock times ops
        that ran on a GPU; there are none here, so that all three give the same.
        """
        analysis = self.analyze_step_stats(show_dataflow, show_memory, op_time)
        return analysis.chrome_trace.format_to_string(pretty=True)

    def analyze_step_stats(
        self, show_dataflow: bool = True, show_memory: bool = True, op_time: str = "schedule"
    ) -> StepStatsAnalysis:
        """The trace as an object, and the peak memory of each allocator."""
        rows = read_step(self._step_stats)
        found = list(dependencies(rows))
        lives = list(_tensor_lives(rows, found))
        trace = ChromeTrace()
        trace.process(0, "Allocators")
        pids = {row.device: 1 + 2 * index for index, row in enumerate(rows)}
        for device, pid in pids.items():
            trace.process(pid, f"{device} Compute")
            trace.process(pid + 1, f"{device} Tensors")
        for row in rows:
            for span in row.spans:
                _emit_span(trace, pids[row.device], span)
        if show_dataflow:
            _emit_flows(trace, pids, found)
        maximums = _allocator_maximums(lives, trace if show_memory else None)
        if show_memory:
            _emit_tensors(trace, pids, lives)
        return StepStatsAnalysis(trace, maximums)


def _emit_span(trace: ChromeTrace, pid: int, span: Span) -> None:
    args: dict[str, Any] = {"name": span.name, "op": span.op}
    args |= {f"input{i}": tensor for i, tensor in enumerate(span.inputs)}
    if span.transfer is not None:
        args |= {
            "tensor": span.transfer.node,
            "from": span.transfer.source,
            "to": span.transfer.destination,
            "bytes": span.transfer.num_bytes,
        }
    trace.event("X", "Op", span.op, pid, span.lane, span.start_us, dur=span.duration_us, args=args)


def _emit_flows(trace: ChromeTrace, pids: dict[str, int], found: Sequence[Dependency]) -> None:
    """An arrow for every dependency between two lanes; within a lane the order says it."""
    flow_id = 0
    for producer, consumer in found:
        start, end = (pids[producer.device], producer.lane), (pids[consumer.device], consumer.lane)
        if start == end:
            continue
        name = producer.transfer.node if producer.transfer else producer.name
        # A flow event belongs to the slice around it, so it leaves just before the slice's end.
        leaves_us = producer.start_us + max(producer.duration_us - 1, 0)
        trace.event("s", "DataFlow", name, *start, leaves_us, id=flow_id)
        trace.event("f", "DataFlow", name, *end, consumer.start_us, id=flow_id, bp="e")
        flow_id += 1


def _tensor_lives(rows: Sequence[DeviceRow], found: Sequence[Dependency]) -> Iterator[_TensorLife]:
    """Each output, from its node's start to the end of the node's last consumer."""
    released: dict[int, int] = {}
    for producer, consumer in found:
        key = id(producer)
        released[key] = max(released.get(key, 0), consumer.op_end_us)
    for row in rows:
        for span in row.spans:
            gone_us = max(released.get(id(span), 0), span.end_us)
            for output in span.outputs:
                name = f"{span.name}:{output.slot}" if output.slot else span.name
                yield _TensorLife(name, span, output, span.start_us, gone_us)


def _emit_tensors(trace: ChromeTrace, pids: dict[str, int], lives: Sequence[_TensorLife]) -> None:
    for number, life in enumerate(lives):
        common = ("Tensor", life.name, pids[life.span.device] + 1, life.span.lane)
        snapshot = {"snapshot": {"tensor_description": life.output.description}}
        ready_us = max(life.span.op_end_us, life.created_us)
        trace.event("N", *common, life.created_us, id=number)
        trace.event("O", *common, ready_us, id=number, args=snapshot)
        trace.event("D", *common, life.released_us, id=number)


def _allocator_maximums(
    lives: Sequence[_TensorLife], trace: ChromeTrace | None
) -> dict[str, AllocationMaximum]:
    """Sum the lives up per allocator, emitting a counter event at each change if there is a trace."""
    changes: dict[str, list[tuple[int, int, str]]] = {}
    for life in lives:
        changes.setdefault(life.output.allocator or "tensors", []).extend(
            (
                (life.created_us, life.output.num_bytes, life.name),
                (life.released_us, -life.output.num_bytes, life.name),
            )
        )
    maximums: dict[str, AllocationMaximum] = {}
    for allocator, steps in changes.items():
        # What is released at an instant makes room for what is created then.
        steps.sort(key=lambda change: (change[0], change[1]))
        held, tensors = 0, set[str]()
        maximum = maximums[allocator] = AllocationMaximum(0, 0, set())
        for index, (timestamp, num_bytes, name) in enumerate(steps):
            held += num_bytes
            if num_bytes < 0:
                tensors.discard(name)
            else:
                tensors.add(name)
            if held > maximum.num_bytes:
                maximum.timestamp, maximum.num_bytes = timestamp, held
                maximum.tensors = set(tensors)
            last_at_this_time = index + 1 == len(steps) or steps[index + 1][0] != timestamp
            if trace is not None and last_at_this_time:
                trace.event("C", "Memory", allocator, 0, 0, timestamp, args={allocator: held})
    return maximums
