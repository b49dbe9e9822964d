"""What is told of two looks at a cluster: rates, latencies, and what has happened in between."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as tf
from headrace.base import errors
from headrace.codec import protos as pb
from headrace.serve.connect import local_servers
from headrace.tools.inspection import watching
from headrace.tools.inspection.snapshot import Snapshot, as_data
from headrace.tools.inspection.tables import live
from headrace.tools.inspection.watching import (
    GONE,
    LONG_S,
    OTHER,
    SLOW,
    UP,
    View,
    Watcher,
    quantile,
    state_of,
)
from tests.serve.clusters import Cluster, in_process

PS = "/job:ps/replica:0/task:0"


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    with Watcher("grpc://127.0.0.1:1") as watcher:
        yield watcher


def task(start: int = 1, **fields: object) -> pb.TaskState:
    return pb.TaskState(task=PS, incarnation=start, **fields)  # type: ignore[arg-type]


def seen(watcher: Watcher, at_s: float, *tasks: pb.TaskState) -> View:
    return watcher.add(Snapshot("grpc://127.0.0.1:1", at_s, list(tasks)), 1000 + at_s)


def counts(*bucket: int, counted_s: float = 1.0, failed: int = 0) -> pb.StepCounts:
    return pb.StepCounts(bucket=bucket, counted_s=counted_s, failed={3: failed} if failed else {})


def test_the_first_look_has_no_rates(watcher: Watcher) -> None:
    figures = seen(watcher, 0, task(parts=counts(5))).figures[PS]
    assert (figures.state, figures.cpu, figures.parts, figures.passed) == (UP, None, None, {})


def test_rates_are_of_what_two_looks_tell(watcher: Watcher) -> None:
    other = "/job:worker/replica:0/task:0"
    for number, at_s in enumerate((0.0, 2.0)):
        view = seen(
            watcher,
            at_s,
            task(
                process=pb.ProcessState(memory_bytes=7, cpu_s=10 + number),
                parts=counts(0, 0, 10 * number, counted_s=1 + at_s, failed=number),
                traffic=[pb.TrafficState(task=other, sent=100 * number, received=50 * number)],
            ),
        )
    figures = view.figures[PS]
    assert (figures.cpu, figures.memory_bytes) == (0.5, 7)
    assert figures.passed == {other: (50.0, 25.0)}
    assert figures.parts is not None
    assert (figures.parts.per_s, figures.parts.failed_per_s) == (5.0, 0.5)
    assert figures.parts.median_s == pytest.approx(3e-6)


def test_counts_that_began_anew_are_not_compared(watcher: Watcher) -> None:
    seen(watcher, 0, task(parts=counts(0, 100, counted_s=60)))
    view = seen(watcher, 1, task(parts=counts(0, 4, counted_s=0.5)))
    assert view.figures[PS].parts is not None
    assert view.figures[PS].parts.per_s == 4.0


def test_a_restart_is_an_event_and_its_numbers_are_not_compared(watcher: Watcher) -> None:
    seen(watcher, 0, task(process=pb.ProcessState(cpu_s=100)))
    seen(watcher, 1, pb.TaskState(task=PS, silent="does not answer", silent_code=14))
    view = seen(watcher, 2, task(start=2, process=pb.ProcessState(cpu_s=1)))
    assert (view.figures[PS].cpu, view.figures[PS].restarts) == (None, 1)
    assert [event.kind for event in watcher.events] == [GONE, "restarted"]


def test_a_task_that_answers_again_was_not_restarted(watcher: Watcher) -> None:
    seen(watcher, 0, task())
    seen(watcher, 1, pb.TaskState(task=PS, silent="has not answered", silent_code=4))
    view = seen(watcher, 2, task())
    assert view.figures[PS].restarts == 0
    assert [event.kind for event in watcher.events] == [SLOW, UP]


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (errors.DEADLINE_EXCEEDED, SLOW),
        (errors.UNAVAILABLE, GONE),
        (errors.UNIMPLEMENTED, OTHER),
    ],
)
def test_states_of_tasks_that_say_nothing(code: int, state: str) -> None:
    assert state_of(pb.TaskState(silent="why", silent_code=code)) == state


def test_sessions_queues_and_long_waits_are_events_once(watcher: Watcher) -> None:
    queue = {"name": "q", "component": [pb.DT_FLOAT]}
    session = pb.SessionState(handle="abcdefghij", client="train.py")
    blocked = pb.BlockedStepState(session="s", step=1, node="get", op="Op", waited_s=LONG_S)
    seen(watcher, 0, task(resource=[pb.ResourceState(**queue)]))  # type: ignore[arg-type]
    for at_s in (1, 2):
        seen(
            watcher,
            at_s,
            task(
                resource=[pb.ResourceState(**queue, closed=True)],  # type: ignore[arg-type]
                session=[session],
                blocked=[blocked],
            ),
        )
    seen(watcher, 3, task(resource=[pb.ResourceState(**queue, closed=True)]))  # type: ignore[arg-type]
    texts = [event.text for event in watcher.events]
    assert texts[0] == "session abcdefgh of train.py began"
    assert texts[1] == f"queue 'q' of {PS} was closed"
    assert "has waited 10 s in Op 'get'" in texts[2]
    assert texts[3] == "session abcdefgh of train.py ended"
    assert len(texts) == 4


def record(number: int, **fields: object) -> pb.CheckpointRecord:
    known = {"kind": "saved", "prefix": "model", "tensors": 2, "bytes": 2048, "took_s": 0.25}
    return pb.CheckpointRecord(number=number, **{**known, **fields})  # type: ignore[arg-type]


def test_checkpoints_that_were_written_meanwhile_are_events_once(watcher: Watcher) -> None:
    before, failed = record(1), record(3, kind="merged", error="no room", ago_s=0.5)
    seen(watcher, 0, task(checkpoint=[before]))
    seen(watcher, 1, task(checkpoint=[before, record(2, ago_s=0.75), failed]))
    seen(watcher, 2, pb.TaskState(task=PS, silent="has not answered", silent_code=4))
    seen(watcher, 3, task(checkpoint=[record(2), failed]))
    found = [event for event in watcher.events if event.kind in ("saved", "merged")]
    assert [event.text for event in found] == [
        f"{PS} saved model: 2 tensors, 2.0 KiB, in 250 ms",
        f"{PS} failed with model: it was to be merged; no room",
    ]
    assert [(event.at_s, event.task) for event in found] == [(1000.25, "ps:0"), (1000.5, "ps:0")]


def test_a_task_that_was_restarted_numbers_its_checkpoints_anew(watcher: Watcher) -> None:
    seen(watcher, 0, task(checkpoint=[record(7)]))
    seen(watcher, 1, task(start=2, checkpoint=[record(1, kind="restored")]))
    assert [event.kind for event in watcher.events] == ["restarted", "restored"]


def test_a_cluster_that_has_much_to_tell_is_looked_at_less_often(watcher: Watcher) -> None:
    assert watcher.pause_s(1.0) == 1.0
    seen(watcher, 0, task(told_in_s=0.001))
    assert watcher.pause_s(1.0) == 1.0
    seen(watcher, 1, task(told_in_s=0.05))
    assert watcher.pause_s(1.0) == pytest.approx(10.0)


def test_quantiles_lie_within_their_bucket() -> None:
    assert quantile([], 0.5) is None
    assert quantile([0, 0, 0], 0.5) is None
    buckets = [0, 0, 50, 0, 50]
    assert quantile(buckets, 0.5) == pytest.approx(4e-6)
    assert 8e-6 < (quantile(buckets, 0.95) or 0) < 16e-6
    assert math.isclose(quantile([1], 1.0) or 0, 1e-6)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(local_servers, "find", lambda address: None)
    monkeypatch.setattr(watching, "COUNT_FOR_S", 60.0)  # the machine may be busy
    with in_process({"ps": 1, "worker": 1}) as cluster, tf.Graph().as_default():
        yield cluster


def test_a_cluster_counts_its_steps_while_it_is_watched(cluster: Cluster) -> None:
    with tf.device("/job:ps/task:0"):
        doubled = tf.Variable(1.0).initializer
    with tf.Session(cluster.target("worker:0")) as session, Watcher(cluster.target("ps:0")) as w:
        w.look()
        for _ in range(10):
            session.run(doubled)
        view = w.look()
    parts = view.figures[PS].parts
    assert parts is not None
    assert parts.median_s is not None
    assert view.point.parts_per_s >= parts.per_s > 0
    text = str(live(view.snapshot, 120, 40, view))
    assert "parts/s" in text
    assert cluster.servers["ps:0"].worker.meter is not None


def test_variables_have_the_rate_of_their_updates_and_checkpoints_are_told(
    cluster: Cluster, tmp_path: Path
) -> None:
    with tf.device("/job:ps/task:0"):
        weights = tf.get_variable("weights", [3, 2], initializer=tf.zeros_initializer())
        tf.get_variable("idle", [], initializer=tf.zeros_initializer())
        update = weights.assign_add(tf.ones([3, 2]))
    saver = tf.train.Saver()
    with tf.Session(cluster.target("worker:0")) as session, Watcher(cluster.target("ps:0")) as w:
        session.run(tf.global_variables_initializer())
        w.look()
        for _ in range(10):
            session.run(update)
        path = saver.save(session, str(tmp_path / "model"))
        saver.restore(session, path)
        spec = saver.as_saver_def()
        with pytest.raises(tf.errors.NotFoundError):
            session.run(spec.restore_op_name, {spec.filename_tensor_name: f"{path}-not-there"})
        view = w.look()
    snapshot = view.snapshot
    rates = {key[-1]: rate for key, rate in snapshot.updates.items()}
    assert rates["weights"] == pytest.approx(11 * rates["idle"])
    ps, _ = as_data(snapshot)["tasks"]
    updates = {each["name"]: each["updates"] for each in ps["variables"]}
    assert updates == {"weights": 12, "idle": 2}
    known = [(each["kind"], each["prefix"], each["error"] is None) for each in ps["checkpoints"]]
    assert known[:2] == [("saved", path, True), ("restored", path, True)]
    assert [(each["tensors"], each["bytes"]) for each in ps["checkpoints"][:2]] == [(2, 28)] * 2
    assert known[2][0] == "restored"
    assert known[2][2] is False
    assert [event.kind for event in view.events[-3:]] == ["saved", "restored", "restored"]
    shown = str(live(snapshot, 120, 40, view))
    assert "weights" in shown
    assert "could not be restored" in shown
