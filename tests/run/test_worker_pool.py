"""Worker pool: parts of one operation on several threads; BLAS told to keep out of the way."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import headrace as tf
from headrace.ops.linalg import products as linear
from headrace.run import long_waits
from headrace.run.exec import blas, worker_pool
from headrace.run.exec.worker_pool import WorkerPool
from headrace.run.thread_group import ThreadGroup

WAIT_S = 60.0


@pytest.fixture
def three() -> Iterator[WorkerPool]:
    found = WorkerPool(3)
    yield found
    found.close()


def test_every_part_is_done_once_whatever_their_number(three: WorkerPool) -> None:
    for count in (0, 1, 2, 3, 100):
        done: list[int] = []
        three.parallel_for(done.append, range(count))
        assert sorted(done) == list(range(count))


def test_parts_run_side_by_side(three: WorkerPool) -> None:
    meeting = threading.Barrier(3)
    three.parallel_for(lambda part: meeting.wait(WAIT_S), range(3))
    assert not meeting.broken


def test_no_thread_is_started_before_there_is_something_to_share() -> None:
    with WorkerPool(3) as idle:
        idle.parallel_for(lambda part: None, [1])
        assert idle.started == 0
    alone = WorkerPool(1)
    alone.parallel_for(lambda part: None, range(10))
    assert alone.started == 0


def test_a_failure_is_raised_where_the_operation_was_called(three: WorkerPool) -> None:
    def fail(part: int) -> None:
        if part == 5:
            raise KeyError(part)

    with pytest.raises(KeyError, match="5"):
        three.parallel_for(fail, range(10))
    done: list[int] = []
    three.parallel_for(done.append, range(10))
    assert len(done) == 10


def test_helpers_have_left_an_operation_when_it_returns(three: WorkerPool) -> None:
    for _ in range(200):
        under_way: set[int] = set()

        def part(number: int, under_way: set[int] = under_way) -> None:
            under_way.add(number)
            np.sum(np.ones(1000))
            under_way.discard(number)

        three.parallel_for(part, range(7))
        assert not under_way


def test_several_steps_may_use_a_team_at_once(three: WorkerPool) -> None:
    sums = [0] * 4

    def step(number: int) -> None:
        totals = np.zeros(50, np.int64)

        def part(at: int) -> None:
            totals[at] += at

        for _ in range(20):
            three.parallel_for(part, range(50))
        sums[number] = int(totals.sum())

    threads = [threading.Thread(target=step, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sums == [20 * sum(range(50))] * 4


def test_where_the_system_gives_no_thread_the_calling_one_does_it_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: list[int] = []
    with WorkerPool(3) as worker_pool:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            worker_pool.parallel_for(done.append, range(4))
        assert done == [0, 1, 2, 3]
        worker_pool.parallel_for(done.append, range(4))
        assert sorted(done) == [0, 0, 1, 1, 2, 2, 3, 3]
        assert worker_pool.started == 2
        worker_pool.close()


def test_a_closed_team_works_on_the_calling_thread() -> None:
    closed = WorkerPool(3)
    closed.parallel_for(lambda part: None, range(3))
    assert closed.started == 2
    closed.close()
    closed.close()
    threads: set[threading.Thread] = set()
    closed.parallel_for(lambda part: threads.add(threading.current_thread()), range(3))
    assert threads == {threading.current_thread()}
    assert closed.started == 0


def test_threads_end_with_a_team_that_nobody_holds() -> None:
    lost = WorkerPool(2)
    lost.parallel_for(lambda part: None, range(2))
    (thread,) = lost._threads
    del lost
    gc.collect()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_warnings_of_numpy_are_off_in_all_threads(three: WorkerPool) -> None:
    meeting = threading.Barrier(3)

    def part(_: int) -> None:
        meeting.wait(WAIT_S)
        np.log(np.zeros(1, np.float32))

    with np.errstate(all="ignore"):
        three.parallel_for(part, range(3))


def test_within_a_part_there_is_no_team(three: WorkerPool) -> None:
    meeting = threading.Barrier(3)
    sizes: set[int] = set()

    def part(_: int) -> None:
        meeting.wait(WAIT_S)
        if threading.current_thread() is not threading.main_thread():
            sizes.add(worker_pool.size())

    with three:
        assert worker_pool.size() == 3
        worker_pool.parallel_for(part, range(3))
    assert sizes == {1}
    assert worker_pool.size() == 1


told = pytest.mark.skipif(blas.current() is None, reason="NumPy's BLAS cannot be told")


@told
def test_blas_uses_one_thread_a_call_while_parts_multiply(three: WorkerPool) -> None:
    before = blas.current()
    seen: set[int | None] = set()
    three.parallel_for(lambda part: seen.add(blas.current()), range(5), products=True)
    assert seen == {1}
    assert blas.current() == before
    with WorkerPool(1):
        assert blas.current() == 1
    assert blas.current() == before


@told
def test_the_lowest_number_asked_of_blas_holds_until_the_last_has_given_it_back() -> None:
    before = blas.current()
    first, second, third = blas.threads(1), blas.threads(1), blas.threads(2)
    for each in (third, first, second):
        each.__enter__()
    for each in (third, first):
        each.__exit__()
        assert blas.current() == 1
    blas.threads(1).__exit__()  # has not asked
    assert blas.current() == 1
    second.__exit__()
    assert blas.current() == before


@pytest.fixture
def holds(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Threads that BLAS used for the large products since."""
    found: list[int | None] = []

    def hold_blas() -> bool:
        held = worker_pool.hold_blas()
        found.append(blas.current())
        return held

    monkeypatch.setattr(linear, "hold_blas", hold_blas)
    return found


@told
@pytest.mark.parametrize(
    ("left", "right", "large"),
    [
        ((2, 2), (2, 2), False), ((60, 60), (60, 60), False), ((64, 64), (64, 64), True),
        ((1, 100), (100, 100), True), ((3, 1, 100), (100, 90), False), ((3, 7, 100), (3, 100, 70), True),
    ],
)  # fmt: skip
def test_only_steps_with_a_large_product_ask_something_of_blas(
    left: tuple[int, ...], right: tuple[int, ...], large: bool, holds: list[int | None]
) -> None:
    before = blas.current()
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = (tf.placeholder(tf.float32, [None] * len(shape)) for shape in (left, right))
        a, b = np.ones(left, np.float32), np.ones(right, np.float32)
        np.testing.assert_array_equal(session.run(tf.matmul(x, y), {x: a, y: b}), a @ b)
    assert holds == ([1] if large else [])
    assert blas.current() == before


@told
def test_a_step_that_waits_or_fails_gives_blas_back(
    monkeypatch: pytest.MonkeyPatch, holds: list[int | None]
) -> None:
    before = blas.current()
    waited: list[int | None] = []
    waits = threading.Event()

    class Waiting(dict[object, None]):
        def __setitem__(self, step: object, _: None) -> None:
            super().__setitem__(step, None)
            waited.append(blas.current())
            waits.set()

    monkeypatch.setattr(long_waits, "waiting", Waiting())
    square = np.eye(100, dtype=np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, None])
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        first = tf.matmul(x, x)
        put, last = queue.enqueue(1.0), tf.matmul(first * queue.dequeue(), first)

        def feed() -> None:
            assert waits.wait(WAIT_S)
            session.run(put)

        with ThreadGroup("feeder") as group:
            group.start(feed)
            np.testing.assert_array_equal(session.run(last, {x: square}), square)
        assert (holds, waited) == ([1, 1], [before])
        assert blas.current() == before
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.matmul(first, x[1:]), {x: square})
        assert holds == [1, 1, 1, 1]  # the product that fails has asked, too
    assert blas.current() == before


def test_products_are_not_shared_for_a_while_after_helpers_were_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = WorkerPool(2)
    here = threading.get_ident()

    def shared(late: bool) -> None:
        meeting, worked = threading.Barrier(2), threading.Event()
        times = iter([0.0, 1.0, 3.0 if late else 1.5])  # begun, own work done, helpers done

        def clock() -> float:
            now = next(times)
            if now == 1.0:
                worked.set()
            return now

        def part(_: int) -> None:
            meeting.wait(WAIT_S)
            if threading.get_ident() != here:
                worked.wait(WAIT_S)

        monkeypatch.setattr(worker_pool, "clock", clock)
        two.parallel_for(part, range(2), products=True)

    def alone(count: int) -> None:
        seen: set[int] = set()
        for _ in range(count):
            two.parallel_for(lambda part: seen.add(threading.get_ident()), range(2), products=True)
        assert seen == {here}

    try:
        shared(late=False)
        shared(late=True)
        alone(8)
        shared(late=True)
        alone(16)
        shared(late=False)
        shared(late=True)
        alone(8)
    finally:
        two.close()


class Watched(WorkerPool):
    """Remembers the sizes of the worker pools that operations ran on."""

    seen: list[int]

    def parallel_for(self, function, parts, products=False):  # type: ignore[no-untyped-def]
        type(self).seen.append(self.size)
        super().parallel_for(function, parts, products)


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_session_obeys_its_config(asked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.client.local.WorkerPool", Watched)
    Watched.seen = []
    x = np.ones((4, 64, 64, 4), np.float32)
    with tf.Graph().as_default():
        config = tf.ConfigProto(intra_op_parallelism_threads=asked)
        y = tf.nn.max_pool(tf.placeholder_with_default(x, x.shape), 2, 2, "SAME")
        with tf.Session(config=config) as session:
            assert session.run(y).shape == (4, 32, 32, 4)
    assert set(Watched.seen) == {asked}
