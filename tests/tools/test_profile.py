"""`headrace profile`: to what the time of a step is put down, what is advised, and the whole on a cluster."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.serve.connect import local_servers
from headrace.tools.commands import ExitCode
from headrace.tools.inspection.tables import bytes_of
from headrace.tools.main import main
from headrace.tools.profiling.advice import of_kind, report
from headrace.tools.profiling.recording import Fill, Recording
from headrace.tools.profiling.steps import Doing, Kind, Part, Step, kinds
from headrace.tools.profiling.trace import chrome_trace
from tests.serve.clusters import Cluster, in_process
from tests.serve.meanwhile import running_again_and_again

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"
MS = 1_000_000
Node = tuple[str, str, str, float, float]
"""Task, name, what follows it in its label, and when it began and ended, in milliseconds."""


def step(*nodes: Node, number: int = 1, begins_ms: float = 1000.0) -> Step:
    stats = pb.StepStats()
    for task, name, label, begin_ms, end_ms in nodes:
        begin_ns = round((begins_ms + begin_ms) * MS)
        took_ns = round((end_ms - begin_ms) * MS)
        node = pb.NodeExecStats(
            node_name=name,
            timeline_label=f"{name} = {label}" if "(" in label else label,
            all_start_nanos=begin_ns,
            all_start_micros=begin_ns // 1000,
            all_end_rel_nanos=took_ns,
            all_end_rel_micros=took_ns // 1000,
            op_end_rel_micros=took_ns // 1000,
        )
        device = stats.dev_stats.add(device=f"{task}/device:CPU:0")
        device.node_stats.append(node)
    return Step.of((number, stats))


def moved(
    source: str, to: str, begin_ms: float, end_ms: float, size: int = 100, edge: str = "edge_1_x"
) -> Node:
    label = f"[{size}B] [1Mb/s] {edge} from {source}/device:CPU:0 to {to}/device:CPU:0"
    return to, "RecvTensor", label, begin_ms, end_ms


def advice(steps: Sequence[Step], fills: dict[tuple[str, str], Fill] | None = None) -> str:
    (kind,) = kinds(steps)
    return "\n".join(of_kind(kind, fills or {}))


def test_every_moment_belongs_to_one_thing() -> None:
    found = step(
        moved(PS, WORKER, 0, 6),
        (PS, "batch", "QueueDequeueManyV2(queue, n)", 1, 5),
        (WORKER, "product", "MatMul(a, b)", 7, 9),
        (PS, "sum", "Sum(c)", 4, 5),
    )
    assert found.took_ns == 9 * MS
    assert found.parts() == {
        Part(Doing.MOVING, WORKER, PS, ""): 2 * MS,  # while nobody does anything else
        Part(Doing.DEQUEUING, PS, "queue", "batch"): 3 * MS,
        Part(Doing.COMPUTING, PS, "Sum", "sum"): 1 * MS,
        Part(Doing.BETWEEN, "", "", ""): 1 * MS,
        Part(Doing.COMPUTING, WORKER, "MatMul", "product"): 2 * MS,
    }


def test_what_computes_at_once_shares_the_moment() -> None:
    found = step((PS, "a", "Sum(x)", 0, 4), (WORKER, "b", "MatMul(x)", 0, 2))
    assert found.parts() == {
        Part(Doing.COMPUTING, PS, "Sum", "a"): 3 * MS,
        Part(Doing.COMPUTING, WORKER, "MatMul", "b"): 1 * MS,
    }


def test_a_queue_that_had_enough_was_not_waited_for() -> None:
    found = step((PS, "batch", "QueueDequeueV2(queue)", 0, 0.1))
    assert [part.doing for part in found.parts()] == [Doing.COMPUTING]


def test_steps_that_ran_the_same_are_of_a_kind_and_those_with_most_time_come_first() -> None:
    put = [step((PS, "put", "QueueEnqueueV2(q)", 0, 1), number=n) for n in range(3)]
    train = step((WORKER, "train", "MatMul(a)", 0, 9), number=9)
    assert [(kind.name, len(kind.steps)) for kind in kinds([*put, train])] == [
        ("train", 1),
        ("put", 3),
    ]


def test_slow_producers_are_told_from_a_small_queue() -> None:
    steps = [step((PS, "batch", "QueueDequeueManyV2(examples, n)", 0, 8))]
    slow = {(PS, "examples"): Fill(100, [0, 0, 1], [0, 0, 0], [1, 1, 1])}
    assert "its producers are too slow" in advice(steps, slow)
    small = {(PS, "examples"): Fill(8, [8, 0, 8], [2, 0, 2], [0, 1, 0])}
    assert "it is too small; make its capacity several batches" in advice(steps, small)


def test_a_full_queue_is_its_consumers_pace() -> None:
    steps = [step((PS, "put", "QueueEnqueueV2(examples, x)", 0, 8))]
    assert "its consumers are the slower side" in advice(steps)
    assert "holds 1 at most" in advice(steps, {(PS, "examples"): Fill(1)})


def test_work_on_parameter_servers_is_misplaced_but_not_that_on_state() -> None:
    misplaced = [step((PS, "product", "MatMul(a, b)", 0, 8), (WORKER, "b", "Sum(a)", 8, 9))]
    assert "put it under tf.device of a worker" in advice(misplaced)
    update = [
        step((PS, "update", "ApplyGradientDescent(v, a, g)", 0, 8), (WORKER, "b", "Sum(a)", 8, 9))
    ]
    assert "tf.device of a worker" not in advice(update)


def test_large_values_and_many_small_ones_ask_for_different_things() -> None:
    large = [step(moved(PS, WORKER, 0, 9, 40 << 20), (WORKER, "b", "Sum(a)", 9, 10))]
    assert "40.0 MiB of them from ps:0 to worker:0" in advice(large)
    assert "spread large variables" in advice(large)
    several = [moved(PS, WORKER, 0, 9, 8, f"edge_{n}_x") for n in range(20)]
    small = [step(*several, (WORKER, "b", "Sum(a)", 9, 10))]
    assert f"20 values of {bytes_of(8)} on average" in advice(small)


def test_time_between_steps_is_the_programs() -> None:
    train: Node = (WORKER, "train", "MatMul(a)", 0, 1)
    steps = [step(train, number=n, begins_ms=1000 + 10 * n) for n in range(5)]
    assert "between two such steps 9.0 ms pass" in advice(steps)
    overlapping = [step(train, number=n, begins_ms=1000 + n / 10) for n in range(5)]
    assert Kind(overlapping).between_ns() is None


def test_where_nothing_ended_that_is_what_is_said() -> None:
    (line,) = report(Recording([], {}, {}, 3.0))
    assert "no step has ended within 3 s" in line


def test_the_trace_has_a_row_of_steps_which_do_not_overlap() -> None:
    train: Node = (WORKER, "train", "MatMul(a)", 0, 10)
    steps = [step(train, number=n, begins_ms=1000 + 5 * n) for n in range(3)]
    events = json.loads(chrome_trace(steps))["traceEvents"]
    rows = [(e["tid"], e["ts"], e["dur"]) for e in events if e.get("cat") == "Step"]
    assert rows == [(0, 1_000_000, 10_000), (1, 1_005_000, 10_000), (0, 1_010_000, 10_000)]
    assert {"Steps", f"{WORKER}/device:CPU:0 Compute"} <= {
        e["args"]["name"] for e in events if e["name"] == "process_name"
    }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(["profile", *argv], out, err), out.getvalue(), err.getvalue()


def test_a_running_session_is_traced_and_then_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    with tf.device("/job:ps/task:0"):
        total = tf.Variable(tf.zeros([50]))
    with tf.device("/job:worker/task:0"):
        step = total.assign_add(tf.ones([50]) * 2.0, name="train")
    path = tmp_path / "trace.json"
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(total.initializer)
        with running_again_and_again(session, step):
            code, out, err = run(cluster.target("ps:0"), "--steps", "3", "-o", str(path))
    assert (code, err) == (ExitCode.OK, "")
    assert "that end with 'train'" in out
    events = json.loads(path.read_text())["traceEvents"]
    assert sum(event.get("cat") == "Step" for event in events) >= 3
    assert all(server.worker.log.off for server in cluster.servers.values())


def test_a_cluster_in_which_nothing_runs_says_so(cluster: Cluster) -> None:
    code, out, _ = run(cluster.target("ps:0"), "--within", "0.2")
    assert code == ExitCode.FAILED
    assert "no step has ended" in out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["127.0.0.1:1", "--steps", "0"], "--steps 0 is not above 0"),
        (["127.0.0.1:1", "--within", "0"], "--within 0 is not above 0"),
        (["nowhere"], "'nowhere' is not grpc://HOST:PORT"),
    ],
)
def test_arguments_that_make_no_sense(argv: list[str], says: str) -> None:
    code, _, err = run(*argv)
    assert code == ExitCode.USAGE
    assert says in err
