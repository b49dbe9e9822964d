"""Wait queues: operations that wait, with a counter as the state that they wait for."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.base import errors
from headrace.run.pending import Pending
from headrace.run.scope import Scope
from headrace.run.state.wait_queues import WAIT, WaitingResource, WaitQueue


class Counter(WaitingResource):
    """Takes wait until there is enough; in a passing line small ones pass large ones."""

    def __init__(self, strict: bool) -> None:
        self.queue = WaitQueue(strict)
        super().__init__("counter", self.queue)
        self.count = 0

    def add(self, number: int) -> None:
        def action() -> None:
            self.count += number

        self.change(action)

    def take(self, number: int) -> Pending[Any]:
        def attempt() -> Any:
            if number < 0:
                raise errors.invalid_argument("below 0")
            if number > 99:
                raise MemoryError("too large")
            if self.count < number:
                return WAIT
            self.count -= number
            return number

        return self.wait_in(self.queue, f"take({number})", attempt)

    def state(self) -> str:
        return f"it has {self.count}"


def test_in_a_strict_line_nobody_passes() -> None:
    counter = Counter(strict=True)
    large, small = counter.take(5), counter.take(1)
    counter.add(4)
    assert not small.done
    counter.add(2)
    assert (large.result(), small.result()) == (5, 1)


def test_in_another_line_those_pass_who_can() -> None:
    counter = Counter(strict=False)
    large, small = counter.take(5), counter.take(1)
    counter.add(4)
    assert (large.done, small.result(), counter.count) == (False, 1, 3)


def test_who_gives_up_leaves_the_line_and_the_next_is_tried() -> None:
    counter = Counter(strict=True)
    large, small = counter.take(5), counter.take(1)
    counter.add(1)
    assert large.abandon(errors.aborted("given up"))
    assert small.result() == 1
    assert not small.abandon(errors.aborted("too late"))
    assert len(counter.queue) == 0


def test_what_an_attempt_raises_rejects_it_alone() -> None:
    counter = Counter(strict=True)
    waits = counter.take(1)
    bad, large = counter.take(-1), counter.take(100)
    assert not bad.done
    counter.add(1)
    assert waits.result() == 1
    with pytest.raises(errors.InvalidArgumentError, match="below 0"):
        bad.result()
    with pytest.raises(errors.ResourceExhaustedError, match="too large"):
        large.result()


def test_what_an_action_raises_goes_to_its_caller() -> None:
    counter = Counter(strict=True)

    def action() -> None:
        raise errors.cancelled("no")

    with pytest.raises(errors.CancelledError, match="no"):
        counter.change(action)
    counter.add(1)
    assert counter.take(1).result() == 1


def test_who_waits_can_be_asked_for_what() -> None:
    counter = Counter(strict=True)
    counter.take(5)
    second = counter.take(3)
    counter.add(2)
    assert second.wait_info is not None
    assert "take(3) on Counter 'counter'" in str(second.wait_info)
    assert "it has 2, 1 more wait before this" in str(second.wait_info)
    described = counter.describe()
    assert [str(info).partition(" on ")[0] for info in described["waiting"]] == [
        "take(5)",
        "take(3)",
    ]
    assert (described["kind"], described["name"], described["state"]) == (
        "Counter", "counter", "it has 2",
    )  # fmt: skip


def test_a_deadline_says_what_was_waited_for() -> None:
    counter = Counter(strict=True)
    with pytest.raises(errors.DeadlineExceededError, match=r"take\(5\) on Counter.*it has 0"):
        counter.take(5).wait(Scope(timeout_s=0.01))
    assert len(counter.queue) == 0


def test_callbacks_may_use_the_resource_again() -> None:
    counter = Counter(strict=True)
    counter.take(1).on_done(lambda _: counter.add(5))
    counter.add(1)
    assert counter.take(5).result() == 5


def test_a_dropped_one_serves_what_is_there_but_nobody_waits_for_it() -> None:
    counter = Counter(strict=True)
    waits = counter.take(1)
    counter.dropped()
    assert isinstance(waits.error, errors.CancelledError)
    counter.add(1)
    assert counter.take(1).result() == 1
    assert isinstance(counter.take(1).error, errors.CancelledError)
