"""The Chrome trace of a step: rows, events, arrows and memory, from statistics written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.codec import protos as pb
from headrace.python.client.timeline import Timeline
from headrace.training.timeline import Dependency, dependencies, node_of, parse_label, read_step

PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:1/device:CPU:0"


def node(name: str, label: str, start: int, duration: int, num_bytes: int = 0) -> dict[str, Any]:
    described = {"allocation_description": {"requested_bytes": num_bytes, "allocator_name": "cpu"}}
    return {
        "node_name": name,
        "timeline_label": label,
        "all_start_micros": start,
        "op_end_rel_micros": duration,
        "all_end_rel_micros": duration,
        "output": [{"slot": 0, "tensor_description": described}] if num_bytes else [],
    }


def stats(*devices: tuple[str, list[dict[str, Any]]]) -> Any:
    """A StepStats message: (device, nodes) for each device."""
    return pb.StepStats(
        dev_stats=[
            pb.DeviceStepStats(device=device, node_stats=[pb.NodeExecStats(**n) for n in nodes])
            for device, nodes in devices
        ]
    )


# A worker reads `w` from the ps, multiplies, and the ps applies the gradient.
STEP = stats(
    (
        WORKER,
        [node("RecvTensor", f"[256B] [9.1Mb/s] edge_6_w/read from {PS} to {WORKER}", 120, 30)],
    ),
    (
        PS,
        [
            node("w", "w = VariableV2()", 100, 2, num_bytes=256),
            node("w/read", "w/read = Identity(w)", 103, 4),
            node("apply", "apply = ApplyGradientDescent(w, lr, grad_S7, ^w/read)", 300, 20),
        ],
    ),
    (
        WORKER,
        [
            node("x", "x = Const()", 110, 20, num_bytes=100),
            node("y", "y = MatMul(x, w/read_S3)", 155, 40, num_bytes=40),
            node("grad", "grad = MatMul(x, y:0)", 200, 30),
        ],
    ),
    (PS, [node("RecvTensor", f"[256B] edge_9_grad from {WORKER} to {PS}", 240, 50)]),
)


def trace(step: Any, **options: Any) -> list[dict[str, Any]]:
    text = Timeline(step).generate_chrome_trace_format(**options)
    events: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return events


def process_names(events: list[dict[str, Any]]) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}


@pytest.mark.parametrize(
    ("label", "op", "inputs"),
    [
        ("y = MatMul(x, w/read_S3)", "MatMul", ("x", "w/read_S3")),
        ("Adam = NoOp(^Adam/Assign, ^Adam/mul)", "NoOp", ("^Adam/Assign", "^Adam/mul")),
        ("_SOURCE = NoOp()", "NoOp", ()),
        ("a/b:Cast", "Cast", ()),
        ("a/b:Cast#id=3#", "Cast", ()),
        ("no form we know", "unknown", ()),
        ("", "unknown", ()),
    ],
)
def test_a_label_says_op_and_inputs(label: str, op: str, inputs: tuple[str, ...]) -> None:
    assert parse_label(label) == (op, inputs)


@pytest.mark.parametrize("tensor", ["a/b", "a/b:0", "a/b:12", "^a/b"])
def test_an_input_names_its_node(tensor: str) -> None:
    assert node_of(tensor) == "a/b"


def test_each_device_of_every_task_is_one_row() -> None:
    rows = read_step(STEP)
    assert [(row.device, len(row.spans)) for row in rows] == [(WORKER, 4), (PS, 4)]
    assert list(process_names(trace(STEP)).values()) == [
        "Allocators",
        f"{WORKER} Compute",
        f"{WORKER} Tensors",
        f"{PS} Compute",
        f"{PS} Tensors",
    ]


def test_every_node_is_a_complete_event_with_its_arguments() -> None:
    events = trace(STEP)
    names = process_names(events)
    complete = {e["args"]["name"]: e for e in events if e["ph"] == "X"}
    assert len([e for e in events if e["ph"] == "X"]) == 8
    y = complete["y"]
    assert names[y["pid"]] == f"{WORKER} Compute"
    assert (y["name"], y["cat"], y["ts"], y["dur"]) == ("MatMul", "Op", 155, 40)
    assert y["args"] == {"name": "y", "op": "MatMul", "input0": "x", "input1": "w/read_S3"}


def test_a_received_tensor_says_from_where_and_how_much() -> None:
    received = [e["args"] for e in trace(STEP) if e["name"] == "RecvTensor"]
    assert received[0] == {
        "name": "RecvTensor",
        "op": "RecvTensor",
        "tensor": "w/read",
        "from": PS,
        "to": WORKER,
        "bytes": 256,
    }


def test_spans_of_one_lane_never_overlap() -> None:
    overlapping = stats(
        (
            PS,
            [
                node("a", "a = A()", 10, 30),
                node("b", "b = B()", 20, 5),
                node("c", "c = C()", 25, 9),
            ],
        )
    )
    (row,) = read_step(overlapping)
    assert [(span.name, span.lane) for span in row.spans] == [("a", 0), ("b", 1), ("c", 1)]
    assert row.lanes == 2


def test_spans_that_only_rounding_makes_overlap_share_a_lane() -> None:
    def exact(name: str, start_ns: int, duration_ns: int) -> dict[str, Any]:
        rounded = node(name, f"{name} = A()", start_ns // 1000, -(-duration_ns // 1000))
        return {**rounded, "all_start_nanos": start_ns, "all_end_rel_nanos": duration_ns}

    (row,) = read_step(stats((PS, [exact("a", 10_200, 1_700), exact("b", 11_950, 900)])))
    assert [(s.name, s.lane, s.start_us, s.duration_us) for s in row.spans] == [
        ("a", 0, 10, 1),
        ("b", 0, 11, 1),
    ]


def test_a_dependency_is_found_within_a_device_and_through_a_transfer() -> None:
    def text(found: Dependency) -> tuple[str, str]:
        def name(span: Any) -> str:
            return f"recv {span.transfer.node}" if span.transfer else str(span.name)

        return name(found.producer), name(found.consumer)

    assert sorted(text(found) for found in dependencies(read_step(STEP))) == [
        ("grad", "recv grad"),
        ("recv grad", "apply"),
        ("recv w/read", "y"),
        ("w", "apply"),
        ("w", "w/read"),
        ("w/read", "apply"),
        ("w/read", "recv w/read"),
        ("x", "grad"),
        ("x", "y"),
        ("y", "grad"),
    ]


def test_two_outputs_of_one_node_arrive_where_each_is_used() -> None:
    step = stats(
        (
            PS,
            [
                node("q", "q = QueueDequeueV2(h)", 10, 5),
                node("q/_1", "q/_1 = _Send(q)", 15, 1),
                node("q/_8", "q/_8 = _Send(q:1)", 16, 1),
            ],
        ),
        (
            WORKER,
            [
                node("RecvTensor", f"[8B] edge_1_q from {PS} to {WORKER}", 5, 20),
                node("RecvTensor", f"[4B] edge_8_q from {PS} to {WORKER}", 5, 25),
                node("x", "x = Square(q/_1)", 40, 5),
                node("y", "y = Square(q/_8)", 50, 5),
            ],
        ),
    )
    found = [
        (a.transfer.sent_as if a.transfer else a.name, b.transfer.sent_as if b.transfer else b.name)
        for a, b in dependencies(read_step(step))
    ]
    assert found == [
        ("q", "q/_1"),
        ("q", "q/_8"),
        ("q/_1", "q/_1"),
        ("q/_8", "q/_8"),
        ("q/_1", "x"),
        ("q/_8", "y"),
    ]


def test_arrows_join_lanes_and_start_inside_their_producer() -> None:
    events = trace(STEP)
    slices = [e for e in events if e["ph"] == "X"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert {"w/read", "grad"} <= {e["name"] for e in starts.values()}

    def around(event: dict[str, Any]) -> list[str]:
        at = (event["pid"], event["tid"])
        return [
            s["args"].get("tensor", s["args"]["name"])
            for s in slices
            if (s["pid"], s["tid"]) == at and s["ts"] <= event["ts"] < s["ts"] + s["dur"]
        ]

    for flow_id, start in starts.items():
        end = ends[flow_id]
        assert around(start) == [start["name"]]
        assert len(around(end)) == 1
        assert (start["pid"], start["tid"]) != (end["pid"], end["tid"])


def test_without_dataflow_there_are_no_arrows() -> None:
    assert {e["ph"] for e in trace(STEP, show_dataflow=False)} == {"M", "X"}


def test_memory_counters_rise_with_outputs_and_fall_after_their_last_use() -> None:
    counters = [
        (e["ts"], e["args"]["cpu"]) for e in trace(STEP, show_memory=True) if e["ph"] == "C"
    ]
    # w 100..320 (its last user is apply), x 110..230 (grad), y 155..230 (grad)
    assert counters == [(100, 256), (110, 356), (155, 396), (230, 256), (320, 0)]


def test_the_peak_of_an_allocator_is_named() -> None:
    peak = Timeline(STEP).analyze_step_stats().allocator_maximums["cpu"]
    assert (peak.timestamp, peak.num_bytes, peak.tensors) == (155, 396, {"w", "x", "y"})


def test_a_tensor_is_created_shown_and_deleted() -> None:
    tensors = [e for e in trace(STEP, show_memory=True) if e.get("cat") == "Tensor"]
    events = [e for e in tensors if e["name"] == "x"]
    assert [(e["ph"], e["ts"]) for e in events] == [("N", 110), ("O", 130), ("D", 230)]
    assert "requested_bytes: 100" in events[1]["args"]["snapshot"]["tensor_description"]
