"""Every operation that may wait keeps a step's time limit, on every path, and leaves no trace when it passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.python.ops import data_flow_ops
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster, Jobs
from tests.serve.conftest import JOBS, Blocked
from tests.serve.punctual import PATIENT, in_the_end

LIMIT_MS = 50
PATIENCE_S = 10.0
ENDED_WITHIN_S = 30.0  # a busy machine is slow; without the limit it would never end

Run = Callable[..., Any]
Case = tuple[Any, list[Any], Callable[[Run], None]]
"""What is limited, what runs before, and what must hold afterwards."""


def expect(run: Run, fetch: Any, value: Any) -> None:
    np.testing.assert_array_equal(run(fetch), value)


def dequeue(_: Path) -> Case:
    queue = tf.FIFOQueue(3, [tf.int32], [[]])
    put, take, size = queue.enqueue(1), queue.dequeue(), queue.size()

    def after(run: Run) -> None:
        run(put)
        expect(run, size, 1)
        expect(run, take, 1)

    return take, [], after


def dequeue_many(_: Path) -> Case:
    queue = tf.FIFOQueue(3, [tf.int32], [[]])
    take, size = queue.dequeue(), queue.size()

    def after(run: Run) -> None:
        expect(run, size, 1)
        expect(run, take, 7)

    return queue.dequeue_many(2), [queue.enqueue(7)], after


def enqueue(_: Path) -> Case:
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    take, size = queue.dequeue(), queue.size()

    def after(run: Run) -> None:
        expect(run, take, 1)
        expect(run, size, 0)

    return queue.enqueue(2), [queue.enqueue(1)], after


def shuffled(_: Path) -> Case:
    queue = tf.RandomShuffleQueue(9, 1, [tf.int32], [[]])
    size = queue.size()
    return queue.dequeue(), [queue.enqueue(1)], lambda run: expect(run, size, 1)


def padded(_: Path) -> Case:
    queue = tf.PaddingFIFOQueue(9, [tf.int32], [[None]])
    take, size = queue.dequeue(), queue.size()

    def after(run: Run) -> None:
        expect(run, size, 1)
        expect(run, take, [1, 2])

    return queue.dequeue_many(2), [queue.enqueue([[1, 2]])], after


def by_priority(_: Path) -> Case:
    queue = tf.PriorityQueue(9, [tf.int32], [[]])
    put, take, size = queue.enqueue((1, 5)), queue.dequeue(), queue.size()

    def after(run: Run) -> None:
        run(put)
        expect(run, size, 1)
        assert list(run(take)) == [1, 5]

    return take, [], after


def barrier(_: Path) -> Case:
    barrier = data_flow_ops.Barrier((tf.float32,), shapes=((),))
    put = barrier.insert_many(0, ["a"], [4.0])
    take, ready = barrier.take_many(1), barrier.ready_size()

    def after(run: Run) -> None:
        run(put)
        expect(run, ready, 1)
        expect(run, take[1], [b"a"])

    return take[1], [], after


def accumulator(_: Path) -> Case:
    accumulator = tf.ConditionalAccumulator(tf.float32, [])
    count, take = accumulator.num_accumulated(), accumulator.take_grad(1)

    def after(run: Run) -> None:
        expect(run, count, 1)
        expect(run, take, 4.0)

    return accumulator.take_grad(2), [accumulator.apply_grad(4.0)], after


def sparse_accumulator(_: Path) -> Case:
    accumulator = tf.SparseConditionalAccumulator(tf.float32, [2])
    count = accumulator.num_accumulated()
    put = accumulator.apply_grad([1], [4.0])
    take = accumulator.take_indexed_slices_grad(1)

    def after(run: Run) -> None:
        run(put)
        expect(run, count, 1)
        expect(run, take.values, [4.0])

    return take.values, [], after


def staged(_: Path) -> Case:
    area = data_flow_ops.StagingArea([tf.int32], [[]])
    put, take, size = area.put([3]), area.get(), area.size()

    def after(run: Run) -> None:
        run(put)
        expect(run, size, 1)
        expect(run, take, 3)

    return take, [], after


def staging(_: Path) -> Case:
    area = data_flow_ops.StagingArea([tf.int32], [[]], capacity=1)
    take, size = area.get(), area.size()

    def after(run: Run) -> None:
        expect(run, take, 1)
        expect(run, size, 0)

    return area.put([2]), [area.put([1])], after


def staged_by_key(_: Path) -> Case:
    area = data_flow_ops.MapStagingArea([tf.int32], [[]])
    key = tf.constant(1, tf.int64)
    put, size = area.put(key, [3], [0]), area.size()
    (take,) = area.get(key)[1:]

    def after(run: Run) -> None:
        run(put)
        expect(run, size, 1)
        expect(run, take, 3)

    return take, [], after


def read(folder: Path) -> Case:
    path = folder / "lines"
    path.write_text("first\nsecond\n")
    names = tf.FIFOQueue(3, [tf.string], [[]])
    reader = tf.TextLineReader()
    line = reader.read(names)[1]
    put = names.enqueue(str(path))
    count = reader.num_records_produced()

    def after(run: Run) -> None:
        expect(run, count, 0)
        run(put)
        expect(run, line, b"first")

    return line, [], after


def received(_: Path) -> Case:
    queue = tf.FIFOQueue(3, [tf.int32], [[]])
    put, size = queue.enqueue(1), queue.size()
    taken = queue.dequeue()
    with tf.device("/job:worker/task:1" if "job:" in taken.device else None):
        there = taken + 1

    def after(run: Run) -> None:
        run(put)
        expect(run, size, 1)
        expect(run, there, 2)

    return there, [], after


CASES = [
    dequeue, dequeue_many, enqueue, shuffled, padded, by_priority, barrier, accumulator, sparse_accumulator,
    staged, staging, staged_by_key, read, received,
]  # fmt: skip


@pytest.fixture
def session(transport: str, cluster_of: Callable[[Jobs], Cluster]) -> Iterator[tf.Session]:
    """A session without a limit of its own, in this process or on a cluster."""
    target = "" if transport == "local" else cluster_of(JOBS).target("worker:0")
    with tf.Session(target) as session:
        yield session


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine, callers wait for the word of the task that has the operation."""
    for name in ("call_patience_s", "step_patience_s"):
        monkeypatch.setattr(LIMITS, name, PATIENCE_S)


def limited(session: tf.Session, build: Callable[[Path], Case], folder: Path) -> Case:
    """The case, built on the ps, with what comes before it done."""
    remote = bool(session.sess_str)
    with session.graph.as_default():
        if remote:  # the limit is not for getting to know each other
            with tf.device("/job:ps"):
                here = tf.identity(1)
            with tf.device("/job:worker/task:1"):
                session.run(here + 1)
        with tf.device("/job:ps" if remote else None):
            case = build(folder)
            session.run(tf.no_op())  # nor for sending the graph
    for op in case[1]:
        session.run(op)
    return case


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_a_step_ends_at_its_limit_and_leaves_no_trace(
    session: tf.Session, blocked: Blocked, build: Callable[[Path], Case], tmp_path: Path
) -> None:
    waiting, _, after = limited(session, build, tmp_path)
    started = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError):
        session.run(waiting, options=tf.RunOptions(timeout_in_ms=LIMIT_MS))
    assert LIMIT_MS / 1000 * 0.9 < time.monotonic() - started < ENDED_WITHIN_S
    blocked.wait_until_all_ended()
    after(session.run)


@pytest.mark.parametrize("waits_on", ["/job:worker/task:0", "/job:worker/task:1", "/job:ps"])
def test_a_partial_run_that_times_out_has_ended_on_every_task(
    session: tf.Session, monkeypatch: pytest.MonkeyPatch, waits_on: str
) -> None:
    """On those from which nothing was asked for, too: an element that comes then is nobody's."""
    monkeypatch.setattr(LIMITS, "partial_ends_within_s", PATIENCE_S)
    remote = bool(session.sess_str)
    with tf.device("/job:ps" if remote else None):
        queue = tf.FIFOQueue(3, [tf.int32], [[]])
        fed = tf.placeholder(tf.int32, [])
        take = queue.dequeue()
        first, put, size = take + fed, queue.enqueue(1), queue.size()
    with tf.device(waits_on if remote else None):
        second = tf.FIFOQueue(3, [tf.int32], [[]]).dequeue() + fed
    config = tf.ConfigProto(operation_timeout_in_ms=LIMIT_MS)
    with tf.Session(session.sess_str, config=config) as limited:
        limited.run(size, options=PATIENT)
        for _ in range(3):
            handle = in_the_end(lambda: limited.partial_run_setup([first, second], [fed]))
            with pytest.raises(tf.errors.DeadlineExceededError):
                limited.partial_run(handle, second, {fed: 1})
            limited.run(put, options=PATIENT)
            assert limited.run(size, options=PATIENT) == 1
            limited.run(take, options=PATIENT)
