"""Barriers: waiting and closing one by one, and against a model under random operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.state.barrier import Barrier, BarrierSpec

GIVEN_UP = errors.aborted("given up")
SPEC = BarrierSpec.make([dtypes.int32, dtypes.int32], [(), ()], -1)


def insert(barrier: Barrier, component: int, **values: int) -> None:
    keys = np.array([key.encode() for key in values], object)
    barrier.insert_many(component, keys, np.array([*values.values()], np.int32))


def keys_of(pending: Pending[Any]) -> str:
    joined: bytes = b"".join(pending.result()[1].tolist())
    return joined.decode()


def test_takes_wait_and_are_served_in_the_order_of_arrival() -> None:
    barrier = Barrier("b", SPEC)
    two, one = barrier.take_many(2), barrier.take_many(1)
    insert(barrier, 0, a=1, b=2, c=3)
    insert(barrier, 1, c=30)
    assert not one.done
    insert(barrier, 1, b=20, a=10)
    assert [v.tolist() for v in two.result()[1:]] == [[b"c", b"b"], [3, 2], [30, 20]]
    assert keys_of(one) == "a"


def test_an_abandoned_take_lets_the_next_go_on_and_takes_nothing() -> None:
    barrier = Barrier("b", SPEC)
    two, one = barrier.take_many(2), barrier.take_many(1)
    insert(barrier, 0, a=1)
    insert(barrier, 1, a=1)
    assert not one.done
    assert two.abandon(GIVEN_UP)
    assert keys_of(one) == "a"


def test_an_insert_that_fails_has_inserted_nothing() -> None:
    barrier = Barrier("b", SPEC)
    insert(barrier, 0, b=1)
    with pytest.raises(errors.InvalidArgumentError, match="Key b already has a value"):
        insert(barrier, 0, a=1, b=2)
    assert barrier.incomplete_size() == 1
    insert(barrier, 0, a=1)


def test_a_take_that_waits_when_it_closes_gets_what_is_left_if_that_will_do() -> None:
    barrier = Barrier("b", SPEC)
    small, exact = barrier.take_many(3, allow_small_batch=True), barrier.take_many(1)
    insert(barrier, 0, a=1, b=2)
    insert(barrier, 1, a=1)
    barrier.close()
    assert not small.done
    insert(barrier, 1, b=1)
    assert keys_of(small) == "ab"
    assert isinstance(exact.error, errors.OutOfRangeError)


def test_closing_and_cancelling_drops_what_is_incomplete() -> None:
    barrier = Barrier("b", SPEC)
    waits = barrier.take_many(1)
    insert(barrier, 0, a=1)
    barrier.close()
    assert not waits.done
    barrier.close(cancel_pending_enqueues=True)
    assert isinstance(waits.error, errors.OutOfRangeError)
    assert barrier.incomplete_size() == 0
    with pytest.raises(errors.CancelledError):
        insert(barrier, 1, a=1)


def test_a_barrier_that_is_dropped_cancels_those_who_wait() -> None:
    barrier = Barrier("b", SPEC)
    waits = barrier.take_many(1)
    barrier.dropped()
    assert isinstance(waits.error, errors.CancelledError)


def test_what_is_inserted_is_copied() -> None:
    barrier = Barrier("b", BarrierSpec.make([dtypes.int32], [(2,)], -1))
    values = np.array([[1, 2]], np.int32)
    barrier.insert_many(0, np.array([b"a"], object), values)
    values[:] = 0
    assert barrier.take_many(1).result()[2].tolist() == [[1, 2]]


REFUSED: list[tuple[Any, str]] = [
    (lambda: BarrierSpec.make([dtypes.int32], [()], 5), "capacity"),
    (lambda: BarrierSpec.make([dtypes.int32], [(), ()], -1), "2 shapes"),
    (lambda: BarrierSpec.make([dtypes.int32], [(None,)], -1), "fully defined"),
    (lambda: Barrier("b", SPEC).take_many(-1).result(), "-1"),
    (lambda: insert(Barrier("b", SPEC), 2, a=1), "component ID is out of range 2"),
    (
        lambda: Barrier("b", SPEC).insert_many(0, np.array([b"a"], object), np.zeros((1, 2), np.int32)),
        "Expected",
    ),
    (lambda: Barrier("b", SPEC).insert_many(0, np.array(b"a", object), np.zeros(1, np.int32)), "vector"),
    (lambda: Barrier("b", SPEC).insert_many(0, np.array([b"a"], object), np.zeros(1)), "float64"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_does_not_fit_is_refused(number: int) -> None:
    make, text = REFUSED[number]
    with pytest.raises(errors.InvalidArgumentError, match=text):
        make()


class Model(RuleBasedStateMachine):
    """Nothing is lost, nothing comes twice, and every tuple is put together from its own parts."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = Barrier("b", SPEC)
        self.half: dict[str, dict[int, int]] = {}
        self.whole: list[tuple[int, int, str, list[int]]] = []
        self.takes: list[tuple[int, Pending[Any]]] = []
        self.settled: list[tuple[Pending[Any], Any]] = []
        self.batch = self.order = self.next = 0
        self.closed = False
        self.born: dict[str, int] = {}

    @rule(
        component=st.integers(0, 1), keys=st.lists(st.sampled_from("abcd"), max_size=3, unique=True)
    )
    def insert(self, component: int, keys: list[str]) -> None:
        values = {key: self.next + at for at, key in enumerate(keys)}
        self.next += len(keys)
        done = self.closed and not self.half
        new = [key for key in keys if key not in self.half]
        clash = [key for key in keys if component in self.half.get(key, {})]
        if done or clash or (self.closed and new):
            with pytest.raises((errors.CancelledError, errors.InvalidArgumentError)):
                insert(self.barrier, component, **values)
            return
        insert(self.barrier, component, **values)
        for key, value in values.items():
            parts = self.half.setdefault(key, {})
            self.born.setdefault(key, self.batch)
            parts[component] = value
            if len(parts) == 2:
                self.whole.append((self.born.pop(key), self.order, key, [parts[0], parts[1]]))
                self.order += 1
                del self.half[key]
        self.batch += bool(new)
        self.whole.sort()
        self.run()

    @rule(count=st.integers(0, 3))
    def take(self, count: int) -> None:
        self.takes.append((count, self.barrier.take_many(count)))
        self.run()

    @precondition(lambda self: self.takes)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(self.takes))
        assert operation[1].abandon(GIVEN_UP)
        self.takes.remove(operation)
        self.run()

    @precondition(lambda self: self.next > 8 and not self.closed)
    @rule()
    def close(self) -> None:
        self.barrier.close()
        self.closed = True
        self.run()

    def run(self) -> None:
        while self.takes:
            count, pending = self.takes[0]
            if self.closed and len(self.whole) + len(self.half) < max(count, 1):
                self.settled.append((pending, None))
            elif len(self.whole) >= count:
                self.settled.append((pending, self.whole[:count]))
                self.whole = self.whole[count:]
            else:
                return
            self.takes.pop(0)

    @invariant()
    def they_agree(self) -> None:
        for pending, expected in self.settled:
            if expected is None:
                assert isinstance(pending.error, errors.OutOfRangeError)
                continue
            _, keys, first, second = pending.result()
            assert [k.decode() for k in keys] == [key for _, _, key, _ in expected]
            assert [*zip(first, second, strict=True)] == [tuple(v) for _, _, _, v in expected]
        self.settled.clear()
        assert not any(pending.done for _, pending in self.takes)
        assert self.barrier.ready_size() == len(self.whole)
        assert self.barrier.incomplete_size() == len(self.half)


TestBarrierModel = Model.TestCase
TestBarrierModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
