"""What a master keeps of steps is bounded; what falls out is forgotten on the tasks too, and nobody notices."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.serve.master.lru import LruTable
from headrace.serve.rpc.limits import LIMITS
from headrace.serve.worker.worker import Worker
from tests.serve.clusters import Cluster
from tests.serve.conftest import Background, Blocked

Start = Callable[[Callable[[], Any]], Background]
MOST = 3
WITHIN_S = 60.0


class Entry:
    def __init__(self, pins: int = 0) -> None:
        self.used = False
        self.pins = pins


def names(fallen: list[tuple[str, Entry]]) -> str:
    return "".join(name for name, _ in fallen)


def test_the_oldest_falls_out_unless_it_was_used() -> None:
    table: LruTable[str, Entry] = LruTable(3)
    assert [names(table.add(name, Entry())) for name in "abcd"] == ["", "", "", "a"]
    table.get("b")
    assert names(table.add("e", Entry())) == "c"
    table.get("b")
    assert names(table.add("f", Entry())) == "d"
    assert "".join(name for name, _ in table.items()) == "bef"
    assert table.get("a") is None


def test_what_is_pinned_stays_though_there_be_more_than_the_most() -> None:
    table: LruTable[str, Entry] = LruTable(1)
    pinned = Entry(pins=1)
    table.add("p", pinned)
    assert [names(table.add(name, Entry(pins=1))) for name in "qr"] == ["", ""]
    assert len(table) == 3
    pinned.pins = 0
    assert names(table.add("s", Entry())) == "p"


@pytest.mark.parametrize("seed", range(20))
def test_it_never_keeps_more_than_the_most_and_loses_nothing_unsaid(seed: int) -> None:
    source = random.Random(seed)
    table: LruTable[int, Entry] = LruTable(4)
    here: set[int] = set()
    for _ in range(200):
        key = source.randrange(12)
        if source.random() < 0.5:
            assert (table.get(key) is not None) == (key in here)
        elif source.random() < 0.2:
            assert (table.pop(key) is not None) == (key in here)
            here.discard(key)
        elif key not in here:
            fallen = {name for name, _ in table.add(key, Entry())}
            here = (here | {key}) - fallen
            assert key in here
        assert here == {name for name, _ in table.items()}
        assert len(table) <= 4


# -- sessions -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masters keep little."""
    monkeypatch.setattr(LIMITS, "most_plans", MOST)
    monkeypatch.setattr(LIMITS, "most_prepared", MOST)


@pytest.fixture
def forgotten(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Counts partitions that workers were told to forget."""
    count = threading.Semaphore(0)
    deregister = Worker.deregister_graph

    def counting(self: Worker, request: Any, scope: Any) -> Any:
        reply = deregister(self, request, scope)
        count.release()
        return reply

    monkeypatch.setattr(Worker, "deregister_graph", counting)
    return count


def test_steps_beyond_the_most_run_as_ever_and_tasks_forget_the_others(
    forgotten: threading.Semaphore, cluster: Cluster
) -> None:
    with tf.device("/job:ps"):
        x = tf.placeholder(tf.int32, [], name="x")
        sums = [x + number for number in range(10)]
    with tf.Session(cluster.target("worker:0")) as session:
        for _ in range(3):
            for number, total in enumerate(sums):
                assert session.run(total, {x: 5}) == 5 + number
                assert session.run(total, {x: 6}) == 6 + number  # by its number
        master = cluster.servers["worker:0"].master
        (table,) = master._sessions.values()
        assert len(table.prepared_by_number) == len(table._prepared_by_names) == MOST
        for _ in range(27):
            assert forgotten.acquire(timeout=WITHIN_S)
        worker = cluster.servers["ps:0"].worker
        assert len(worker._graphs) == MOST


def test_a_step_under_way_ends_well_though_its_plan_falls_out(
    forgotten: threading.Semaphore, cluster: Cluster, blocked: Blocked, background: Start
) -> None:
    with tf.device("/job:ps"):
        queue = tf.FIFOQueue(10, [tf.int32], [[]], shared_name="q")
        take, size = queue.dequeue(), queue.size()
        others = [tf.constant(number) + 1 for number in range(2 * MOST)]
    with tf.device("/job:worker/task:1"):
        far = take + 1
    with tf.Session(cluster.target("worker:0")) as session:
        session.run(size)
        (held,) = cluster.servers["ps:0"].worker.runtime.resources.all()
        held.enqueue([np.int32(1)])  # type: ignore[attr-defined]
        assert session.run(far) == 2
        step = background(lambda: session.run(far))
        blocked.wait()
        for number, other in enumerate(others):
            assert session.run(other) == number + 1
        held.enqueue([np.int32(4)])  # type: ignore[attr-defined]
        assert step.value() == 5
        held.enqueue([np.int32(6)])  # type: ignore[attr-defined]
        assert session.run(far) == 7


def test_a_partial_run_and_a_callable_outlive_the_table(cluster: Cluster) -> None:
    with tf.device("/job:ps"):
        x, y = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
        first = x + 1
    with tf.device("/job:worker/task:1"):
        second = first + y
        others = [tf.constant(number) + 1 for number in range(2 * MOST)]
    with tf.Session(cluster.target("worker:0")) as session:
        called = session.make_callable(second, [x, y])
        handle = session.partial_run_setup([first, second], [x, y])
        assert session.partial_run(handle, first, {x: 1}) == 2
        for number, other in enumerate(others):
            assert session.run(other) == number + 1
            assert called(number, 1) == number + 2
        assert session.partial_run(handle, second, {y: 3}) == 5
        for number, other in enumerate(others):
            assert session.run(other) == number + 1


def test_many_threads_beyond_the_most(cluster: Cluster, background: Start) -> None:
    with tf.device("/job:ps"):
        x = tf.placeholder(tf.int32, [])
        sums = [x + number for number in range(2 * MOST)]
    with tf.device("/job:worker/task:1"):
        sums = [total + 1 for total in sums]
    with tf.Session(cluster.target("worker:0")) as session:

        def work(seed: int) -> bool:
            source = random.Random(seed)
            return all(
                session.run(sums[number], {x: seed}) == seed + number + 1
                for number in (source.randrange(len(sums)) for _ in range(30))
            )

        for each in [background(lambda seed=seed: work(seed)) for seed in range(4)]:  # type: ignore[misc]
            assert each.value()
