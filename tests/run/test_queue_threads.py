"""Queues under many threads: nothing is lost, nothing comes twice, nobody is left waiting."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.crew import Crew
from headrace.run.fifo_queue import FIFOQueue
from headrace.run.pending import Pending
from headrace.run.queues import Queue, QueueSpec
from headrace.run.scope import Scope
from headrace.run.shuffle_queue import RandomShuffleQueue

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
    with Crew("takers", Scope(timeout_s=100)) as takers:
        for seed, got in enumerate(takings):
            takers.start(consume, queue, takers.scope, seed, got)
        with Crew("producers", takers.scope) as producers:
            for number in range(PRODUCERS):
                producers.start(produce, queue, producers.scope, number * PER_PRODUCER)
        queue.close().wait(takers.scope)
    counts = Counter(n for got in takings for n in got)
    assert counts == Counter(range(PRODUCERS * PER_PRODUCER))


def test_each_producers_elements_keep_their_order_for_one_taker() -> None:
    queue = FIFOQueue("q", SPEC)
    got: list[int] = []
    with Crew("taker", Scope(timeout_s=100)) as taker:
        taker.start(consume, queue, taker.scope, 1, got)
        with Crew("producers", taker.scope) as producers:
            for number in range(PRODUCERS):
                producers.start(produce, queue, producers.scope, number * PER_PRODUCER)
        queue.close().wait(taker.scope)
    for number in range(PRODUCERS):
        first = number * PER_PRODUCER
        mine = [n for n in got if first <= n < first + PER_PRODUCER]
        assert mine == list(range(first, first + PER_PRODUCER))


def test_one_enqueue_many_releases_300_waiting_dequeues_without_a_thread_each() -> None:
    queue = FIFOQueue("q", QueueSpec.make([dtypes.int64], [()]))
    before = threading.active_count()
    waiting = [queue.dequeue() for _ in range(300)]
    assert threading.active_count() == before
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

        with Crew("race") as crew:
            crew.start(give_up)
            both.wait()
            queue.enqueue((np.int64(number),))
        if abandoned == [True]:
            assert isinstance(pending.error, errors.AbortedError)
            assert queue.dequeue_many(2).result()[0].tolist() == [-1, number]
        else:
            assert pending.result()[0].tolist() == [-1, number]
        assert queue.size() == 0
