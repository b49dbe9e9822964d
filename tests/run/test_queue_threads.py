"""Queues under many threads: nothing is lost, nothing comes twice, nobody is left waiting."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.padding import PaddingFIFOQueue
from headrace.run.queues.priority import PriorityQueue
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec
from headrace.run.scope import Scope
from headrace.run.thread_group import ThreadGroup

SPEC = QueueSpec.make([dtypes.int64, dtypes.int64], [(), ()], capacity=7)
PER_PRODUCER = 2000
PRODUCERS = 4


@pytest.fixture(autouse=True)
def _threads_switch_often() -> Iterator[None]:
    """Make races likely."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def rows(numbers: list[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    values = np.array(numbers, np.int64)
    return values, -values


def produce(queue: Queue, scope: Scope, first: int) -> None:
    dice = random.Random(first)
    numbers = list(range(first, first + PER_PRODUCER))
    while numbers:
        count = dice.randint(1, 10)
        part, numbers = numbers[:count], numbers[count:]
        if len(part) == 1:
            queue.enqueue((np.int64(part[0]), np.int64(-part[0]))).wait(scope)
        else:
            queue.enqueue_many(rows(part)).wait(scope)


def consume(queue: Queue, scope: Scope, seed: int, got: list[int]) -> None:
    """Until the end; half of the operations are abandoned, if they can be."""
    dice = random.Random(seed)
    while True:
        many = dice.random() < 0.7
        pending: Pending[Any] = queue.dequeue_up_to(dice.randint(1, 9)) if many else queue.dequeue()
        if dice.random() < 0.5 and pending.abandon(errors.aborted("given up")):
            continue
        try:
            values, negatives = pending.wait(scope)
        except errors.OutOfRangeError:
            return
        assert np.array_equal(values, -negatives)
        got.extend(np.atleast_1d(values).tolist())


@pytest.mark.parametrize("cls", [FIFOQueue, RandomShuffleQueue])
def test_every_element_arrives_once_however_often_takers_give_up(cls: type[Queue]) -> None:
    queue = cls("q", SPEC)
    takings: list[list[int]] = [[] for _ in range(3)]
    with ThreadGroup("takers", Scope(timeout_s=100)) as takers:
        for seed, got in enumerate(takings):
            takers.start(consume, queue, takers.scope, seed, got)
        with ThreadGroup("producers", takers.scope) as producers:
            for number in range(PRODUCERS):
                producers.start(produce, queue, producers.scope, number * PER_PRODUCER)
        queue.close().wait(takers.scope)
    counts = Counter(n for got in takings for n in got)
    assert counts == Counter(range(PRODUCERS * PER_PRODUCER))


def test_each_producers_elements_keep_their_order_for_one_taker() -> None:
    queue = FIFOQueue("q", SPEC)
    got: list[int] = []
    with ThreadGroup("taker", Scope(timeout_s=100)) as taker:
        taker.start(consume, queue, taker.scope, 1, got)
        with ThreadGroup("producers", taker.scope) as producers:
            for number in range(PRODUCERS):
                producers.start(produce, queue, producers.scope, number * PER_PRODUCER)
        queue.close().wait(taker.scope)
    for number in range(PRODUCERS):
        first = number * PER_PRODUCER
        mine = [n for n in got if first <= n < first + PER_PRODUCER]
        assert mine == list(range(first, first + PER_PRODUCER))


def test_one_enqueue_many_releases_300_waiting_dequeues_without_a_thread_each() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.int64], [()]))
    before = set(threading.enumerate())
    waiting = [queue.dequeue() for _ in range(300)]
    assert set(threading.enumerate()) <= before
    queue.enqueue_many((np.arange(300),))
    assert [int(p.result()[0]) for p in waiting] == list(range(300))


def test_abandoning_races_with_serving_and_one_of_them_wins() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.int64], [()]))
    for number in range(300):
        pending = queue.dequeue_many(2)
        queue.enqueue((np.int64(-1),))
        both = threading.Barrier(2)
        abandoned: list[bool] = []

        def give_up(
            p: Pending[Any] = pending, b: threading.Barrier = both, a: list[bool] = abandoned
        ) -> None:
            b.wait()
            a.append(p.abandon(errors.aborted("given up")))

        with ThreadGroup("race") as group:
            group.start(give_up)
            both.wait()
            queue.enqueue((np.int64(number),))
        if abandoned == [True]:
            assert isinstance(pending.error, errors.AbortedError)
            assert queue.dequeue_many(2).result()[0].tolist() == [-1, number]
        else:
            assert pending.result()[0].tolist() == [-1, number]
        assert queue.size() == 0


Operation = tuple[str, int, int, int]
"""Kind, value, and when it was called and returned, by one clock."""


def history(queue: Queue, threads: int, each: int) -> list[Operation]:
    """Half of the threads enqueue single elements, half dequeue them; note when."""
    ticks = itertools.count()  # next() is atomic
    operations: list[Operation] = []

    def work(number: int, scope: Scope) -> None:
        kind = "put" if number % 2 else "take"
        for turn in range(2 * each):
            value = number * 2 * each + turn
            called = next(ticks)
            if kind == "put":
                queue.enqueue((np.int64(value), np.int64(-value))).wait(scope)
            else:
                value = int(queue.dequeue().wait(scope)[0])
            operations.append((kind, value, called, next(ticks)))

    with ThreadGroup("threads", Scope(timeout_s=100)) as group:
        for number in range(threads):
            group.start(work, number, group.scope)
    return operations


def disorder(operations: list[Operation]) -> list[str]:
    """Why a history of a FIFO queue with distinct values is not linearizable; [] if it is.

    Without dequeues of an empty queue it is, just when no value comes twice or from nowhere or before
    it was put, and no two leave in an order opposite to the one in which they certainly came.
    """
    puts = {value: (called, done) for kind, value, called, done in operations if kind == "put"}
    takes: dict[int, tuple[int, int]] = {}
    found = []
    for kind, value, called, done in operations:
        if kind == "put":
            continue
        if value in takes:
            found.append(f"{value} was taken twice")
        if value not in puts or done < puts[value][0]:
            found.append(f"{value} was taken before it was put")
        takes[value] = called, done
    never = (2**62, 2**62)
    for a, (_, a_put) in puts.items():
        for b, (b_put, _) in puts.items():
            if a_put < b_put and b in takes and takes[b][1] < takes.get(a, never)[0]:
                found.append(f"{a} was put before {b}, and {b} taken before {a}")
    return found


def test_what_the_check_calls_disorder() -> None:
    fine = [("put", 1, 0, 1), ("put", 2, 2, 3), ("take", 1, 4, 7), ("take", 2, 5, 6)]
    assert disorder(fine) == []
    assert disorder([*fine[:2], ("take", 2, 4, 5), ("take", 1, 6, 7)]) != []
    assert disorder([*fine[:2], ("take", 2, 4, 5)]) != []
    assert (
        disorder([("put", 1, 0, 3), ("put", 2, 1, 2), ("take", 2, 4, 5), ("take", 1, 6, 7)]) == []
    )
    assert disorder([("take", 1, 0, 1), ("put", 1, 2, 3)]) != []
    assert disorder([*fine, ("take", 1, 8, 9)]) != []


@pytest.mark.parametrize("cls", [FIFOQueue, PaddingFIFOQueue])
@pytest.mark.parametrize("capacity", [1, 3, -1])
def test_histories_of_a_fifo_queue_are_linearizable(cls: type[Queue], capacity: int) -> None:
    spec = QueueSpec.make([dtypes.int64, dtypes.int64], [(), ()], capacity, sizes_vary=True)
    for _ in range(3):
        operations = history(cls("q", spec), 4, 60)
        assert len(operations) == 2 * 4 * 60
        assert disorder(operations) == []


@pytest.mark.parametrize("cls", [RandomShuffleQueue, PriorityQueue])
def test_histories_of_other_queues_lose_and_repeat_nothing(cls: type[Queue]) -> None:
    spec = QueueSpec.make([dtypes.int64, dtypes.int64], [(), ()], 5)
    operations = history(cls("q", spec), 4, 60)
    out = Counter(value for kind, value, _, _ in operations if kind == "take")
    assert out == Counter(value for kind, value, _, _ in operations if kind == "put")
