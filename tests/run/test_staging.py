"""Staging areas: their rules one by one, and against a model under random operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.state.staging import StagingArea, StagingMap

GIVEN_UP = errors.aborted("given up")
ONE = [dtypes.int32]
TWO = [dtypes.int32, dtypes.int32]


def put(area: StagingArea, number: int) -> Pending[None]:
    return area.put([np.int32(number)])


def test_a_get_waits_for_a_put_and_gets_are_served_in_the_order_of_arrival() -> None:
    area = StagingArea("a")
    waiting = [area.get(ONE) for _ in range(3)]
    assert [p.done for p in waiting] == [False] * 3
    for number in range(3):
        assert put(area, number).done
    assert [p.result() for p in waiting] == [(0,), (1,), (2,)]


def test_puts_wait_for_room_in_the_order_of_arrival() -> None:
    area = StagingArea("a", capacity=1)
    puts = [put(area, number) for number in range(3)]
    assert [p.done for p in puts] == [True, False, False]
    assert [area.get(ONE).result() for _ in range(2)] == [(0,), (1,)]
    assert [p.done for p in puts] == [True, True, True]


def test_a_small_put_does_not_pass_a_large_one_that_waits_for_memory() -> None:
    area = StagingArea("a", memory_limit=16)
    area.put([np.zeros(3, np.int32)])
    large, small = area.put([np.zeros(4, np.int32)]), put(area, 1)
    assert not large.done
    assert not small.done
    assert large.abandon(GIVEN_UP)
    assert small.done
    assert area.size() == 2


def test_what_can_never_fit_is_refused() -> None:
    area = StagingArea("a", memory_limit=8)
    with pytest.raises(errors.ResourceExhaustedError, match=r"combined size of '12' bytes .*8"):
        area.put([np.zeros(3, np.int32)]).result()


def test_a_peek_that_waits_lets_gets_pass_and_gives_copies() -> None:
    area = StagingArea("a")
    second = area.peek(1, ONE)
    area.put([np.arange(2, dtype=np.int32)])
    (seen,) = area.peek(0, ONE).result()
    seen[:] = 9
    assert area.get(ONE).result()[0].tolist() == [0, 1]
    put(area, 5)
    assert not second.done
    put(area, 6)
    assert second.result() == (6,)


def test_clearing_makes_room() -> None:
    area = StagingArea("a", capacity=1)
    put(area, 1)
    waits = put(area, 2)
    area.clear()
    assert waits.done
    assert area.get(ONE).result() == (2,)


def test_other_types_than_expected_stay_where_they_are() -> None:
    area = StagingArea("a")
    put(area, 1)
    for wrong in ([dtypes.float32], TWO):
        with pytest.raises(errors.InvalidArgumentError, match="expects"):
            area.get(wrong).result()
    assert area.get(ONE).result() == (1,)


def test_what_is_put_is_copied() -> None:
    area = StagingArea("a", capacity=1)
    value = np.array([1, 2], np.int32)
    area.put([value])
    waits = area.put([value])
    value[:] = 0
    assert area.get(ONE).result()[0].tolist() == [1, 2]
    assert waits.done
    assert area.get(ONE).result()[0].tolist() == [1, 2]


def test_who_waits_is_cancelled_when_the_area_is_dropped() -> None:
    area = StagingArea("a")
    waits = area.get(ONE)
    area.dropped()
    assert isinstance(waits.error, errors.CancelledError)
    assert isinstance(area.get(ONE).error, errors.CancelledError)


def test_a_get_for_a_key_that_is_not_there_lets_others_pass() -> None:
    area = StagingMap("m")
    absent = area.get(7, [0], ONE)
    area.put(3, [0], [np.int32(30)], 1)
    assert area.get(None, [0], ONE).result() == (3, 30)
    area.put(7, [0], [np.int32(70)], 1)
    assert absent.result() == (70,)


def test_a_tuple_is_there_when_its_last_part_is() -> None:
    area = StagingMap("m", capacity=1)
    waits = area.get(1, [1, 0][::-1], TWO)
    area.put(1, [1], [np.int32(11)], 2)
    assert (waits.done, area.size(), area.incomplete_size()) == (False, 0, 1)
    area.put(1, [0], [np.int32(10)], 2)
    assert waits.result() == (10, 11)
    assert (area.size(), area.incomplete_size()) == (0, 0)


def test_parts_may_be_arrays() -> None:
    area = StagingMap("m")
    for at in (0, 1):
        area.put(1, [at], [np.full(3, at, np.int32)], 2)
    first, second = area.get(1, [0, 1], TWO).result()
    assert [first.tolist(), second.tolist()] == [[0, 0, 0], [1, 1, 1]]


def test_the_smallest_key_leaves_an_ordered_map_first_however_keys_come_and_go() -> None:
    area = StagingMap("m", ordered=True)
    for turn in range(50):
        for key in (5 - turn, -3, 4 + turn):
            area.put(key, [0], [np.int32(key)], 1)
        area.get(4 + turn, [0], ONE)
        key, value = area.get(None, [0], ONE).result()
        assert key == value == min(5 - turn, -3)
        area.clear()


class MapModel(RuleBasedStateMachine):
    """Two components; keys 0 to 3; capacity 2."""

    def __init__(self) -> None:
        super().__init__()
        self.complete: dict[int, list[int | None]] = {}
        self.incomplete: dict[int, dict[int, int]] = {}
        self.puts: list[tuple[int, list[int], Pending[Any]]] = []
        self.gets: list[tuple[int | None, list[int], Pending[Any]]] = []
        self.expected: list[tuple[Pending[Any], Any]] = []
        self.next = 0
        self.ordered = False

    @initialize(ordered=st.booleans())
    def make(self, ordered: bool) -> None:
        self.ordered = ordered
        self.area = StagingMap("m", capacity=2, ordered=ordered)

    @rule(key=st.integers(0, 3), at=st.sampled_from([[0], [1], [0, 1]]))
    def put(self, key: int, at: list[int]) -> None:
        self.next += 1
        values = [np.int32(self.next * 10 + i) for i in at]
        self.puts.append((self.next * 100 + key, at, self.area.put(key, at, values, 2)))
        self.run()

    @rule(key=st.none() | st.integers(0, 3), at=st.sampled_from([[0], [1], [0, 1]]))
    def get(self, key: int | None, at: list[int]) -> None:
        types = TWO[: len(at)]
        self.gets.append((key, at, self.area.get(key, at, types)))
        self.run()

    @precondition(lambda self: self.puts or self.gets)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        operation: Any = data.draw(st.sampled_from([*self.puts, *self.gets]))
        line: list[Any] = self.puts if operation in self.puts else self.gets
        assert operation[2].abandon(GIVEN_UP)
        line.remove(operation)
        self.run()

    @rule()
    def clear(self) -> None:
        self.area.clear()
        self.complete.clear()
        self.incomplete.clear()
        self.run()

    def run(self) -> None:
        moved = True
        while moved:
            moved = False
            while self.puts and self.step_put(*self.puts[0]):
                self.puts.pop(0)
                moved = True
            for operation in list(self.gets):
                if self.step_get(*operation):
                    self.gets.remove(operation)
                    moved = True

    def step_put(self, code: int, at: list[int], pending: Pending[Any]) -> bool:
        key, number = code % 100, code // 100
        values = {i: number * 10 + i for i in at}
        if len(at) == 2:
            if len(self.complete) >= 2:
                return False
            self.complete.setdefault(key, [values[0], values[1]])
        else:
            parts = self.incomplete.setdefault(key, {})
            if at[0] in parts:
                self.expected.append((pending, "InvalidArgumentError"))
                return True
            parts.update(values)
            if len(parts) == 2:
                del self.incomplete[key]
                self.complete.setdefault(key, [parts[0], parts[1]])
        self.expected.append((pending, None))
        return True

    def step_get(self, key: int | None, at: list[int], pending: Pending[Any]) -> bool:
        if key is None:
            found = (
                min(self.complete, default=None)
                if self.ordered
                else next(iter(self.complete), None)
            )
        else:
            found = key if key in self.complete else None
        if found is None:
            return False
        values = self.complete[found]
        taken = [values[i] for i in at]
        if None in taken:
            self.expected.append((pending, "InvalidArgumentError"))
            return True
        for i in at:
            values[i] = None
        if values == [None, None]:
            del self.complete[found]
        self.expected.append((pending, taken if key is not None else [found, *taken]))
        return True

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "area"):
            return
        for pending, expected in self.expected:
            assert pending.done
            if isinstance(expected, str):
                assert type(pending.error).__name__ == expected
            else:
                result = pending.result()
                assert (None if result is None else [int(v) for v in result]) == expected
        self.expected.clear()
        assert not any(operation[2].done for operation in [*self.puts, *self.gets])
        assert self.area.size() == len(self.complete)
        assert self.area.incomplete_size() == len(self.incomplete)
        wanted = sum(4 for v in self.complete.values() for x in v if x is not None)
        assert self.area._bytes == wanted + sum(4 * len(p) for p in self.incomplete.values())


TestStagingMap = MapModel.TestCase
TestStagingMap.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
