"""Blocked time: a time limit is kept within 100 ms, whatever a step waits in and whichever way it goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import headrace as tf
from headrace.codec import protos as pb
from headrace.python.ops import data_flow_ops
from headrace.serve.rpc.limits import LIMITS
from tests.serve.clusters import Cluster, in_process
from tests.serve.conftest import JOBS, TRANSPORTS
from tests.serve.punctual import (
    CONFIG,
    LIMIT_MS,
    OPTIONS,
    PATIENT,
    SOMEBODY,
    check_kept,
    in_the_end,
)

PATIENCE_S = 10.0


def operations() -> dict[str, tuple[Any, list[Any]]]:
    """What waits for ever, and what has to run before."""
    found: dict[str, tuple[Any, list[Any]]] = {}
    kinds = {
        "fifo": tf.FIFOQueue(1, [tf.int32], [[]]),
        "shuffle": tf.RandomShuffleQueue(3, 1, [tf.int32], [[]]),
        "padding": tf.PaddingFIFOQueue(1, [tf.int32], [[]]),
    }
    for name, queue in kinds.items():
        found[f"dequeue, {name}"] = queue.dequeue(), []
        found[f"dequeue_many, {name}"] = queue.dequeue_many(1), []
    found["dequeue, priority"] = tf.PriorityQueue(1, [tf.int32], [[]]).dequeue()[1], []
    found["dequeue_up_to"] = kinds["fifo"].dequeue_up_to(1), []
    full = tf.FIFOQueue(1, [tf.int32], [[]])
    found["enqueue"] = full.enqueue(2), [full.enqueue(1)]
    found["enqueue_many"] = full.enqueue_many([[2, 3]]), []
    found["dequeue in a cond"] = (
        tf.cond(tf.placeholder_with_default(True, []), kinds["fifo"].dequeue, lambda: 0), []
    )  # fmt: skip
    found["dequeue in a loop"] = (
        tf.while_loop(lambda i: i < 3, lambda i: i + kinds["fifo"].dequeue(), [0]), []
    )  # fmt: skip
    barrier = data_flow_ops.Barrier((tf.float32,), shapes=((),))
    found["take_many, barrier"] = barrier.take_many(1)[1], []
    found["take_grad"] = tf.ConditionalAccumulator(tf.float32, []).take_grad(1), []
    sparse = tf.SparseConditionalAccumulator(tf.float32, [2])
    found["take_grad, sparse"] = sparse.take_indexed_slices_grad(1).values, []
    area = data_flow_ops.StagingArea([tf.int32], [[]], capacity=1)
    found["get, staging"] = area.get(), []
    filled = data_flow_ops.StagingArea([tf.int32], [[]], capacity=1)
    found["put, staging"] = filled.put([2]), [filled.put([1])]
    key = tf.constant(1, tf.int64)
    for ordered in (False, True):
        shelf = data_flow_ops.MapStagingArea([tf.int32], [[]], ordered=ordered)
        found[f"get, map{', ordered' * ordered}"] = shelf.get(key)[1][0], []
    names = tf.FIFOQueue(1, [tf.string], [[]])
    found["read"] = tf.TextLineReader().read(names)[1], []
    found["read_up_to"] = tf.TFRecordReader().read_up_to(names, 2)[1], []
    return found


@pytest.fixture(params=TRANSPORTS)
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """As elsewhere, but never over connections that dawdle or break."""
    TRANSPORTS[request.param](monkeypatch)
    with in_process(JOBS) as cluster:
        yield cluster


def check_operations(session: tf.Session) -> None:
    cases = operations()
    session.run(tf.constant(0))  # which ships them all
    for what, (waiting, before) in cases.items():
        for op in before:
            session.run(op)

        def waits(options: tf.RunOptions, waiting: Any = waiting) -> Any:
            return session.run(waiting, options=options)

        check_kept(partial(waits, OPTIONS), what, SOMEBODY, waits)


def test_of_every_operation_in_this_process() -> None:
    with tf.Session() as session:
        check_operations(session)


def test_of_every_operation_on_another_task(cluster: Cluster) -> None:
    with tf.Session(cluster.target("worker:0")) as session, tf.device("/job:ps"):
        check_operations(session)


Way = tuple[str, Callable[[], Any], str | None, Callable[[tf.RunOptions], Any]]


def ways(target: str, device: str | None) -> Iterator[Way]:
    """What `check_kept` takes for every way to run steps: their node is None if nobody says."""
    with tf.device(device):
        queue = tf.FIFOQueue(1, [tf.int32], [[]])
        take, put = queue.dequeue(name="take"), queue.enqueue(1)
        fed = tf.placeholder(tf.int32, [])
        put_fed = queue.enqueue(fed)
        with tf.control_dependencies([put_fed]):
            twice = queue.enqueue(fed, name="twice")
        sum_ = take + fed
    with tf.device("/job:worker/task:1" if device else None):
        there = take + 1

    def patiently(options: tf.RunOptions) -> Any:
        return session.run(take, options=options)

    with tf.Session(target) as session:
        session.run(queue.size())
        yield "a step", lambda: patiently(OPTIONS), "take", patiently
        traced = tf.RunOptions(timeout_in_ms=LIMIT_MS, trace_level=tf.RunOptions.FULL_TRACE)
        yield (
            "traced",
            lambda: session.run(take, options=traced, run_metadata=tf.RunMetadata()),
            None,
            patiently,
        )
        made = session.make_callable(take, accept_options=True)
        yield (
            "a callable with options",
            lambda: made(options=OPTIONS),
            "take",
            lambda o: made(options=o),
        )
        limited = pb.CallableOptions(fetch=[take.name], run_options=OPTIONS)
        called = in_the_end(lambda: session._make_callable_from_options(limited))
        yield "a callable of options", called, "take", patiently

        def through_both(options: tf.RunOptions) -> Any:
            return session.run(there, options=options)

        yield "through two tasks", lambda: through_both(OPTIONS), "take", through_both
        for _ in range(4):  # known by its number now, and perhaps asked of its task
            session.run(put)
            session.run(take)
        yield "a step that is known", lambda: patiently(OPTIONS), "take", patiently
    with tf.Session(target, config=CONFIG) as session:
        session.run(queue.size(), options=PATIENT)
        yield "a session's step", lambda: session.run(take), "take", patiently

        def feeding(options: tf.RunOptions | None = None) -> Any:
            return session.run(twice, {fed: 1}, options)

        yield "a step that feeds", feeding, SOMEBODY, feeding
        session.run(take, options=PATIENT)
        fetching = pb.CallableOptions(fetch=[take.name])
        own = in_the_end(lambda: session._make_callable_from_options(fetching))
        yield "a session's callable", own, "take", patiently
        yield "a session's simple callable", session.make_callable(take), "take", patiently

        for _ in range(4):
            session.run(put, options=PATIENT)
            session.run(take, options=PATIENT)
        yield "a session's step that is known", lambda: session.run(take), "take", patiently

        def in_pieces() -> None:
            session.partial_run(session.partial_run_setup([sum_], [fed]), sum_, {fed: 1})

        yield "a partial run", in_pieces, None, patiently


def test_on_every_way_in_this_process() -> None:
    for what, call, node, patiently in ways("", None):
        check_kept(call, what, node, patiently)


@pytest.mark.parametrize("device", ["/job:worker/task:0", "/job:ps"])
def test_on_every_way_to_a_task(cluster: Cluster, device: str) -> None:
    """The master's own, and another."""
    for what, call, node, patiently in ways(cluster.target("worker:0"), device):
        check_kept(call, what, node, patiently)


@pytest.fixture
def callers_wait_for_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine: until the task that has the operation has said that it has ended."""
    for name in ("call_patience_s", "step_patience_s"):
        monkeypatch.setattr(LIMITS, name, PATIENCE_S)


def partial_run_that_takes_nothing(target: str) -> None:
    queue = tf.FIFOQueue(1, [tf.int32], [[]])
    fed = tf.placeholder(tf.int32, [])
    sum_, put, size = queue.dequeue() + fed, queue.enqueue(1), queue.size()
    with tf.Session(target, config=CONFIG) as session:
        session.run(size, options=PATIENT)
        handle = in_the_end(lambda: session.partial_run_setup([sum_], [fed]))
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.partial_run(handle, sum_, {fed: 1})
        session.run(put, options=PATIENT)
        assert session.run(size, options=PATIENT) == 1


def test_a_partial_run_that_times_out_takes_nothing_in_this_process() -> None:
    partial_run_that_takes_nothing("")


@pytest.mark.usefixtures("callers_wait_for_the_last_word")
def test_a_partial_run_that_times_out_takes_nothing_on_a_task(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        partial_run_that_takes_nothing(cluster.target("worker:0"))


def test_a_step_may_take_longer_than_its_session_allows_others(cluster: Cluster) -> None:
    """A step that is known by its number, too."""
    with tf.device("/job:worker/task:0"):
        queue = tf.FIFOQueue(1, [tf.int32], [[]])
        take, put = queue.dequeue(name="take"), queue.enqueue(1)
    target = cluster.target("worker:0")
    with tf.Session(target, config=CONFIG) as session:
        for _ in range(3):
            session.run(put, options=PATIENT)
            session.run(take, options=PATIENT)
        longer = tf.RunOptions(timeout_in_ms=5 * LIMIT_MS)
        started = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(take, options=longer)
        assert time.monotonic() - started > 4 * LIMIT_MS / 1000
