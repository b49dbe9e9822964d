"""Accumulators: gradients add up, takes wait, stale ones are dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.accumulators import DenseAccumulator, SparseAccumulator, divided, merge
from headrace.run.thread_group import ThreadGroup

GIVEN_UP = errors.aborted("given up")


def dense(mean: bool = True) -> DenseAccumulator:
    return DenseAccumulator("a", dtypes.float32, (2,), mean)


def gradient(*values: float) -> Any:
    return np.array(values, np.float32)


def test_takes_are_served_in_the_order_of_arrival_with_all_that_is_there() -> None:
    accumulator = dense()
    three, one = accumulator.take(3), accumulator.take(1)
    for number in (1.0, 2.0):
        accumulator.apply(gradient(number, 0), 0)
    assert not three.done
    assert not one.done
    accumulator.apply(gradient(6, 0), 0)
    assert three.result().tolist() == [3, 0]
    accumulator.apply(gradient(5, 5), 0)
    assert not one.done, "a gradient from before the take is stale"
    accumulator.apply(gradient(5, 5), 1)
    assert one.result().tolist() == [5, 5]


def test_an_abandoned_take_takes_nothing_and_lets_the_next_go_on() -> None:
    accumulator = dense()
    two, one = accumulator.take(2), accumulator.take(1)
    accumulator.apply(gradient(4, 2), 0)
    assert two.abandon(GIVEN_UP)
    assert one.result().tolist() == [4, 2]
    assert accumulator.num_accumulated() == 0


def test_what_is_applied_is_copied_and_what_is_taken_is_the_takers_own() -> None:
    accumulator, value = dense(mean=False), gradient(1, 2)
    accumulator.apply(value, 0)
    value[:] = 9
    accumulator.apply(value, 0)
    taken = accumulator.take(1).result()
    accumulator.apply(value, 1)
    assert taken.tolist() == [10, 11]
    taken[:] = 0
    assert accumulator.take(1).result().tolist() == [9, 9]


def test_one_that_is_dropped_cancels_those_who_wait() -> None:
    accumulator = dense()
    waits = accumulator.take(1)
    accumulator.dropped()
    assert isinstance(waits.error, errors.CancelledError)


def test_no_gradient_is_lost_or_counted_twice_under_threads() -> None:
    accumulator = DenseAccumulator("a", dtypes.int64, (), mean=False)
    taken: list[int] = []
    done: list[bool] = []

    def apply() -> None:
        for _ in range(500):
            accumulator.apply(np.int64(1), 2**40)

    def take(scope: Scope) -> None:
        for _ in range(20):
            taken.append(int(accumulator.take(100).wait(scope)))
        done.append(True)

    with ThreadGroup("threads", Scope(timeout_s=60)) as group:
        group.start(take, group.scope)
        with ThreadGroup("appliers", group.scope) as appliers:
            for _ in range(4):
                appliers.start(apply)
        while not (done or group.scope.error):  # takes of more than 100 leave too few for the last
            accumulator.apply(np.int64(0), 2**40)
    left = int(accumulator._sum) if accumulator.num_accumulated() else 0
    assert sum(taken) + left == 2000


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "complex64", "bfloat16"])
def test_a_mean_has_the_type_of_its_gradients_and_integers_are_rounded_towards_zero(
    dtype: str,
) -> None:
    kind = dtypes.as_dtype(dtype)
    accumulator = DenseAccumulator("a", kind, (), mean=True)
    for value in (3, 4):
        accumulator.apply(np.array(value, kind.np), 0)
    mean = accumulator.take(1).result()
    assert mean.dtype == kind.np
    assert mean == (3 if kind.is_integer else 3.5)
    assert divided(np.array([-7], np.int32), np.int64(2)).tolist() == [-3]


@given(
    st.lists(st.integers(0, 12), max_size=8, unique=True).map(sorted),
    st.lists(st.integers(0, 12), max_size=8, unique=True).map(sorted),
)
def test_sorted_indices_are_merged(left: list[int], right: list[int]) -> None:
    merged, mine, theirs = merge(np.array(left, np.int64), np.array(right, np.int64))
    assert merged.tolist() == sorted({*left, *right})
    assert merged[mine].tolist() == left
    assert merged[theirs].tolist() == right


@given(st.lists(st.integers(0, 5), max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_unsorted_ones_lose_nothing(left: list[int], right: list[int]) -> None:
    merged, mine, theirs = merge(np.array(left, np.int64), np.array(right, np.int64))
    assert merged[mine].tolist() == left
    assert merged[theirs].tolist() == right
    assert sorted({*mine.tolist(), *theirs.tolist()}) == list(range(len(merged)))


class SparseModel(RuleBasedStateMachine):
    """Sums by index, stale gradients dropped, takes in order."""

    def __init__(self) -> None:
        super().__init__()
        self.accumulator = SparseAccumulator("s", dtypes.int64, (6,), mean=False)
        self.sums: dict[int, int] = {}
        self.count = self.step = self.next = 0
        self.takes: list[tuple[int, Pending[Any]]] = []
        self.settled: list[tuple[Pending[Any], dict[int, int]]] = []

    @rule(at=st.sets(st.integers(0, 5)), behind=st.integers(-1, 2))
    def apply(self, at: set[int], behind: int) -> None:
        self.next += 1
        indices = np.array(sorted(at), np.int64)
        values = indices * 100 + self.next
        self.accumulator.apply(indices, values, None, self.step - behind)
        if behind <= 0:
            self.count += 1
            for index in at:
                self.sums[index] = self.sums.get(index, 0) + index * 100 + self.next
        self.run()

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        self.takes.append((count, self.accumulator.take(count)))
        self.run()

    @rule(step=st.integers(0, 5))
    def set_step(self, step: int) -> None:
        self.accumulator.set_global_step(step)
        self.step = step

    @precondition(lambda self: self.takes)
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(self.takes))
        assert operation[1].abandon(GIVEN_UP)
        self.takes.remove(operation)
        self.run()

    def run(self) -> None:
        while self.takes and self.takes[0][0] <= self.count:
            self.settled.append((self.takes.pop(0)[1], self.sums))
            self.sums, self.count, self.step = {}, 0, self.step + 1

    @invariant()
    def they_agree(self) -> None:
        for pending, sums in self.settled:
            indices, values, shape = pending.result()
            assert dict(zip(indices.tolist(), values.tolist(), strict=True)) == sums
            assert (indices.tolist(), shape.tolist()) == (sorted(sums), [6])
        self.settled.clear()
        assert not any(pending.done for _, pending in self.takes)
        assert self.accumulator.num_accumulated() == self.count


TestSparseModel = SparseModel.TestCase
TestSparseModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_who_brought_gradients_is_remembered_and_whose_are_there() -> None:
    made = DenseAccumulator("a", dtypes.float32, (), True)

    def there() -> dict[str, bool]:
        return {giver: here for giver, _, here in made.describe()["contributors"]}

    one = np.float32(1)
    made.apply(one, 0, "x")
    made.apply(one, 0, "y")
    assert there() == {"x": True, "y": True}
    made.take(2)
    assert there() == {"x": False, "y": False}
    made.apply(one, 0, "x")  # of an earlier step: it is dropped
    made.apply(one, 1, "y")
    assert there() == {"x": False, "y": True}
    for n in range(300):
        made.apply(one, 1, str(n))
    assert len(there()) == 256
    assert "y" not in there()
    assert there()["299"]


def test_who_takes_gradients_out_is_remembered() -> None:
    made = DenseAccumulator("a", dtypes.float32, (), True)
    assert made.describe()["takers"] == []
    waits = made.take(1, "x")
    assert [taker for taker, _ in made.describe()["takers"]] == ["x"]
    assert waits.abandon(errors.cancelled("enough"))
    for n in range(300):
        made.apply(np.float32(1), 10**6, "y")
        made.take(1, str(n))
    takers = dict(made.describe()["takers"])
    assert len(takers) == 256
    assert "x" not in takers
