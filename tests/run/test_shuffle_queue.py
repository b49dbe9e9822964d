"""Shuffle queues: what they keep back, what is random about them, and in which order.

The orders in ORDERS are TensorFlow 2.21's for these seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.columns import row
from headrace.run.queues.philox import Philox
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import Bag, LargeBag, RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec

GIVEN_UP = errors.aborted("given up")


def shuffle(capacity: int = 10, min_after_dequeue: int = 2, seed: int = 7, seed2: int = 0) -> Queue:
    spec = QueueSpec.make([dtypes.int32], [()], capacity, min_after_dequeue, seed, seed2)
    return RandomShuffleQueue("q", spec)


def put(queue: Queue, *numbers: int) -> Pending[None]:
    return queue.enqueue_many((np.array(numbers, np.int32),))


def value(pending: Pending[Any]) -> Any:
    return pending.result()[0].tolist()


def drain(queue: Queue) -> list[int]:
    queue.close(cancel_pending_enqueues=True)
    return [value(queue.dequeue()) for _ in range(queue.size())]


def test_an_open_shuffle_queue_keeps_its_minimum() -> None:
    queue = shuffle(min_after_dequeue=2)
    put(queue, 1, 2)
    pending = queue.dequeue()
    assert not pending.done
    put(queue, 3)
    assert value(pending) in (1, 2, 3)
    assert queue.size() == 2


def test_a_closed_shuffle_queue_gives_up_its_minimum() -> None:
    queue = shuffle(min_after_dequeue=2)
    put(queue, 1, 2)
    pending = queue.dequeue_many(2)
    assert not pending.done
    queue.close()
    assert sorted(value(pending)) == [1, 2]


def test_a_waiting_dequeue_many_leaves_the_minimum_in_the_queue() -> None:
    queue = shuffle(capacity=5, min_after_dequeue=2)
    put(queue, 0, 1, 2, 3)
    pending = queue.dequeue_many(3)
    assert queue.size() == 2
    pending.abandon(GIVEN_UP)
    assert sorted(drain(queue)) == [0, 1, 2, 3]


def test_shuffling_loses_and_repeats_nothing_and_does_shuffle() -> None:
    queue = shuffle(capacity=-1, min_after_dequeue=0)
    put(queue, *range(500))
    got = value(queue.dequeue_many(200)) + [value(queue.dequeue()) for _ in range(100)]
    got += value(queue.dequeue_many(200))
    assert sorted(got) == list(range(500))
    assert got != sorted(got)


def test_one_by_one_and_many_at_once_draw_alike() -> None:
    one, many = shuffle(-1, 0, seed=3), shuffle(-1, 0, seed=3)
    for queue in (one, many):
        put(queue, *range(50))
    assert [value(one.dequeue()) for _ in range(50)] == value(many.dequeue_many(50))


@pytest.mark.parametrize("count", [1, 3])
def test_every_element_is_equally_likely(count: int) -> None:
    queue = shuffle(-1, 0, seed=11)
    hits = np.zeros(5)
    for _ in range(2000):
        put(queue, *range(5))
        for number in value(queue.dequeue_many(count)):
            hits[number] += 1
        queue.dequeue_many(5 - count)
    expected = 2000 * count / 5
    deviation = (2000 * count / 5 * (1 - count / 5)) ** 0.5
    assert np.all(np.abs(hits - expected) < 5 * deviation)


# (seed, seed2), then of 20 elements the first 8 by dequeue_many and 6 by dequeue
ORDERS = [
    ((1, 2), [19, 7, 6, 1, 3, 16, 14, 11], [5, 13, 4, 2, 8, 18]),
    ((0, 5), [4, 1, 7, 19, 6, 17, 0, 18], [2, 10, 5, 13, 11, 15]),
    ((7, 0), [17, 12, 18, 16, 11, 6, 15, 8], [4, 3, 0, 9, 14, 10]),
    ((2**40 + 3, -1), [15, 18, 14, 11, 19, 0, 10, 3], [13, 17, 5, 1, 16, 2]),
]


@pytest.mark.parametrize(("seeds", "many", "single"), ORDERS)
def test_the_order_is_tensorflows(
    seeds: tuple[int, int], many: list[int], single: list[int]
) -> None:
    queue = shuffle(100, 0, *seeds)
    put(queue, *range(20))
    assert value(queue.dequeue_many(8)) == many
    assert [value(queue.dequeue()) for _ in range(6)] == single


def test_the_order_is_tensorflows_after_elements_were_given_back() -> None:
    queue = shuffle(100, 0, 3, 4)
    put(queue, *range(6))
    queue.dequeue_many(8)
    queue.close()
    assert value(queue.dequeue_up_to(10)) == [5, 3, 0, 2, 1, 4]


@pytest.mark.parametrize("count", [15, 20, 40])
def test_many_are_drawn_as_one_after_the_other_is(count: int) -> None:
    """Of a large queue all at once, where none of those drawn is in the way of another."""
    many, single = (Bag([dtypes.int64, dtypes.string], [(), ()], Philox(5, 6)) for _ in range(2))
    numbers = np.arange(8000)
    words = np.array([b"%d" % n for n in numbers], object)
    for bag in (many, single):
        bag.put_many((numbers, words), 0, len(numbers))
    while many.size >= count:
        found = many.take_many(count)
        wanted = [single.take() for _ in range(count)]
        assert found[0].tolist() == [number for number, _ in wanted]
        assert found[1].tolist() == [word[()] for _, word in wanted]


COMPONENTS = [dtypes.int64, dtypes.float32, dtypes.string, dtypes.string]
SHAPES: list[tuple[int, ...]] = [(), (2, 3), (), (2,)]


def elements(first: int, count: int) -> tuple[np.ndarray[Any, Any], ...]:
    numbers = np.arange(first, first + count)
    words = np.array([b"%d" % n for n in numbers], object)
    return (
        numbers,
        np.repeat(numbers, 6).reshape(-1, 2, 3).astype(np.float32),
        words,
        np.stack([words, words[::-1]], axis=1),
    )


def plain(values: Any) -> list[Any]:
    return [(np.asarray(each).dtype, np.asarray(each).tolist()) for each in values]


class TwoBags(RuleBasedStateMachine):
    """Whatever is done, elements with arrays of their own come out as those in rows of one array do."""

    def __init__(self) -> None:
        super().__init__()
        self.bags = [kind(COMPONENTS, SHAPES, Philox(5, 6)) for kind in (Bag, LargeBag)]
        self.next = 0

    def made(self, count: int) -> tuple[np.ndarray[Any, Any], ...]:
        self.next += count
        return elements(self.next - count, count)

    @rule()
    def put(self) -> None:
        batch = self.made(1)
        for bag in self.bags:
            bag.put([values[0] if values.ndim > 1 else row(values, 0) for values in batch])

    @rule(count=st.integers(1, 40), before=st.integers(0, 3), behind=st.integers(0, 3))
    def put_many(self, count: int, before: int, behind: int) -> None:
        batch = self.made(before + count + behind)
        for bag in self.bags:
            bag.put_many(batch, before, before + count)

    @precondition(lambda self: self.bags[0].size)
    @rule()
    def take(self) -> None:
        one, other = (bag.take() for bag in self.bags)
        assert plain(one) == plain(other)

    @precondition(lambda self: self.bags[0].size)
    @rule(data=st.data())
    def take_many(self, data: Any) -> None:
        count = data.draw(st.integers(1, self.bags[0].size))
        one, other = (bag.take_many(count) for bag in self.bags)
        assert plain(one) == plain(other)

    @precondition(lambda self: self.bags[0].size)
    @rule(data=st.data())
    def gather(self, data: Any) -> None:
        count = data.draw(st.integers(1, self.bags[0].size))
        for bag in self.bags:
            bag.gather(count)

    @rule(count=st.integers(1, 20))
    def swap_many(self, count: int) -> None:
        batch = self.made(count + 2)
        for bag in self.bags:
            bag.swap_many(batch, 1, count + 1)

    @rule(taken=st.booleans())
    def take_gathered(self, taken: bool) -> None:
        if taken:
            one, other = (bag.take_gathered() for bag in self.bags)
            assert plain(one) == plain(other)
        else:
            for bag in self.bags:
                bag.restore()

    @invariant()
    def as_many(self) -> None:
        one, other = self.bags
        assert (one.size, one.gathered) == (other.size, other.gathered)


TestTwoBags = TwoBags.TestCase
TestTwoBags.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_large_elements_have_arrays_of_their_own() -> None:
    def store(*shape: int) -> Any:
        spec = QueueSpec.make([dtypes.float32, dtypes.int64], [shape, ()], 9, 0, 1, 2)
        return RandomShuffleQueue.make_store(spec)

    assert isinstance(store(64, 64), LargeBag)
    assert isinstance(store(8, 8), Bag)


def test_nothing_is_lost_where_there_is_no_memory_for_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bag = LargeBag(COMPONENTS, SHAPES, Philox(5, 6))
    bag.put_many(elements(0, 9), 0, 9)
    bag.gather(3)

    def refused(self: LargeBag, count: int) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(LargeBag, "_room", refused)
        for take in (lambda: bag.take_many(4), bag.take_gathered):
            with pytest.raises(MemoryError):
                take()
    assert (bag.size, bag.gathered) == (6, 3)
    found = [*bag.take_gathered()[0].tolist(), *bag.take_many(6)[0].tolist()]
    assert sorted(found) == list(range(9))
