"""Iterators: who is served when, prefetching threads, and what ends both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest

from headrace.base import dtypes, errors
from headrace.run.data.chunks import Chunk
from headrace.run.data.iterator import DataIterator
from headrace.run.data.prefetching import AUTOTUNE, Prefetch
from headrace.run.data.sources import Range
from headrace.run.data.stage import Blocked, Dataset, Iteration, Made, Stage
from headrace.run.pending import Pending
from headrace.run.scope import Scope


def counting(stop: int) -> Dataset:
    dtype = np.dtype(np.int64)
    return Made("Range", [dtypes.int64], [()], lambda run: Range(run, 0, stop, 1, dtype))


class Gate(Stage):
    """Numbers, each of which comes when it is let through."""

    steady = False

    def __init__(self, run: Iteration) -> None:
        super().__init__(run)
        self.there: list[int] = []
        self.wanted: Pending[None] | None = None
        self.pulled = 0

    def pull(self, most: int) -> Chunk | None:
        assert most == 1, "what is not steady is pulled one by one"
        self.pulled += 1
        if not self.there:
            if self.wanted is None or self.wanted.done:
                self.wanted = Pending()
            raise Blocked(self.wanted)
        return Chunk([np.array([self.there.pop(0)])], 1)

    def give(self, *numbers: int) -> None:
        self.there += numbers
        wanted, self.wanted = self.wanted, None
        if wanted is not None:
            wanted.resolve(None)


@pytest.fixture
def gate() -> Iterator[tuple[DataIterator, Gate]]:
    made: list[Gate] = []

    def make(run: Iteration) -> Stage:
        made.append(Gate(run))
        return made[-1]

    iterator = DataIterator("it")
    iterator.initialize(Made("Gate", [dtypes.int64], [()], make))
    yield iterator, made[0]
    iterator.dropped()


def number(found: Any) -> int:
    (value,) = found.wait(Scope(60)) if isinstance(found, Pending) else found
    return int(value)


def test_elements_come_in_order_and_then_the_end() -> None:
    iterator = DataIterator("it", [dtypes.int64], [()])
    with pytest.raises(errors.FailedPreconditionError, match="has not been initialized"):
        iterator.next()
    iterator.initialize(counting(200))
    assert [number(iterator.next()) for _ in range(200)] == [*range(200)]
    for _ in range(2):
        with pytest.raises(errors.OutOfRangeError, match="End of sequence"):
            iterator.next()
    iterator.initialize(counting(1))
    assert number(iterator.next()) == 0
    iterator.dropped()


def test_another_dataset_than_the_iterators_is_refused() -> None:
    iterator = DataIterator("it", [dtypes.int32], [()])
    with pytest.raises(errors.InvalidArgumentError, match="Data type mismatch at component 0"):
        iterator.initialize(counting(2))


def test_who_asked_first_is_served_first(gate: tuple[DataIterator, Gate]) -> None:
    iterator, stage = gate
    asked = [iterator.next() for _ in range(3)]
    assert all(isinstance(each, Pending) and not each.done for each in asked)
    assert "it" in str(asked[0].wait_info)
    stage.give(7, 8)
    assert [number(each) for each in asked[:2]] == [7, 8]
    assert not asked[2].done
    stage.give(9)
    assert number(asked[2]) == 9


def test_who_gives_up_leaves_no_trace(gate: tuple[DataIterator, Gate]) -> None:
    iterator, stage = gate
    first, second = iterator.next(), iterator.next()
    assert first.abandon(errors.cancelled("enough"))
    stage.give(7)
    assert number(second) == 7
    stage.give(8)
    assert number(iterator.next()) == 8


def test_a_new_dataset_serves_those_who_wait_for_the_old_one(
    gate: tuple[DataIterator, Gate],
) -> None:
    iterator, _ = gate
    waits = iterator.next()
    iterator.initialize(counting(2))
    assert number(waits) == 0
    assert number(iterator.next()) == 1


def test_who_waits_is_told_when_the_iterator_goes(gate: tuple[DataIterator, Gate]) -> None:
    iterator, _ = gate
    waits = iterator.next()
    iterator.dropped()
    with pytest.raises(errors.CancelledError, match="was removed from container"):
        waits.wait(Scope(60))


def test_many_threads_get_each_element_once() -> None:
    iterator = DataIterator("it")
    iterator.initialize(counting(3000))
    found: list[list[int]] = [[] for _ in range(4)]

    def take(mine: list[int]) -> None:
        while True:
            try:
                mine.append(number(iterator.next()))
            except errors.OutOfRangeError:
                return

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(chain.from_iterable(found)) == [*range(3000)]
    assert all(mine == sorted(mine) for mine in found)
    iterator.dropped()


class Slow(Range):
    """Numbers, of which one fails."""

    def pull(self, most: int) -> Chunk | None:
        chunk = super().pull(1)
        if chunk is not None and int(chunk.columns[0][0]) == 3:
            raise errors.invalid_argument("three")
        return chunk


@pytest.mark.parametrize("size", [AUTOTUNE, 0, 1, 4])
@pytest.mark.parametrize("worth_s", [-1.0, 1e9], ids=["thread", "no thread"])
def test_a_thread_makes_the_same_elements_and_errors(size: int, worth_s: float) -> None:
    dtype = np.dtype(np.int64)
    source = Made("Slow", [dtypes.int64], [()], lambda run: Slow(run, 0, 9, 1, dtype))
    made = Made(
        "Prefetch", [dtypes.int64], [()], lambda run: Prefetch.over(run, source, size, worth_s)
    )
    iterator = DataIterator("it")
    for _ in range(2):
        iterator.initialize(made)
        found: list[int] = []
        while len(found) < 9:
            try:
                found.append(number(iterator.next()))
            except errors.InvalidArgumentError:
                found.append(-1)
        assert found == [0, 1, 2, -1, 4, 5, 6, 7, 8]
        with pytest.raises(errors.OutOfRangeError):
            number(iterator.next())
    iterator.dropped()


def test_a_buffer_holds_no_more_than_its_size() -> None:
    made: list[Prefetch] = []

    def make(run: Iteration) -> Stage:
        made.append(Prefetch.over(run, counting(1000), 5, -1.0))
        return made[0]

    iterator = DataIterator("it")
    iterator.initialize(Made("Prefetch", [dtypes.int64], [()], make))
    for expected in range(500):
        assert number(iterator.next()) == expected
        held = made[0].buffered()
        assert held is not None
        assert held[0] <= 5
    assert "Prefetch" in iterator.describe()["state"]
    iterator.dropped()


@pytest.mark.parametrize("worth_s", [-1.0, 1e9], ids=["thread", "no thread"])
def test_a_position_is_taken_up_by_another_iterator(worth_s: float) -> None:
    made = Made(
        "Prefetch", [dtypes.int64], [()], lambda run: Prefetch.over(run, counting(300), 4, worth_s)
    )
    first, second = DataIterator("one"), DataIterator("two")
    for each in (first, second):
        each.initialize(made)
    assert [number(first.next()) for _ in range(77)] == [*range(77)]
    position = first.save()
    assert second.restore(position) is None
    for iterator in (first, second):
        assert [number(iterator.next()) for _ in range(223)] == [*range(77, 300)]
        with pytest.raises(errors.OutOfRangeError):
            number(iterator.next())
        iterator.dropped()


def test_a_position_of_another_chain_is_refused() -> None:
    first, second = DataIterator("one"), DataIterator("two")
    first.initialize(counting(3))
    second.initialize(
        Made("Prefetch", [dtypes.int64], [()], lambda run: Prefetch.over(run, counting(3), 4))
    )
    with pytest.raises(errors.InvalidArgumentError, match="another dataset"):
        second.restore(first.save())
    for each in (first, second):
        each.dropped()
