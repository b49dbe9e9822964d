"""Queues against a model that moves one element at a time through plain lists.

Every operation, in any order, any of them abandoned at any moment: after each step the queue's size
and which operations are done must be the model's, and so must the elements (of a FIFO queue; of a
shuffle queue how many, and in the end that none was lost or came twice).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.base import dtypes, errors
from headrace.run.pending import Pending
from headrace.run.queues.fifo import FIFOQueue
from headrace.run.queues.padding import PaddingFIFOQueue
from headrace.run.queues.priority import PriorityQueue, priority_spec
from headrace.run.queues.queue import Queue
from headrace.run.queues.shuffle import RandomShuffleQueue
from headrace.run.queues.spec import QueueSpec

TYPES = [dtypes.int64, dtypes.string]
GIVEN_UP = errors.aborted("given up")


class Operation:
    """One operation: how far it is, and what became of it ("" while it waits)."""

    def __init__(self, kind: str, wanted: int, elements: list[int]) -> None:
        self.kind = kind
        self.wanted = wanted  # by a dequeue
        self.elements = elements  # still to go in, or come out so far
        self.outcome = ""
        self.pending: Pending[Any]


class Model:
    """TensorFlow's rules, and that an abandoned dequeue gives its elements back."""

    sorts = False
    """Smallest first; a dequeue_many waits for all its elements at once, and so does up_to."""

    def __init__(self, capacity: int, keep: int) -> None:
        self.capacity, self.keep = capacity, keep
        self.elements: list[int] = []
        self.closed = False
        self.ins: list[Operation] = []
        self.outs: list[Operation] = []

    def add(self, operation: Operation) -> None:
        (self.ins if operation.kind in ("enqueue", "close") else self.outs).append(operation)
        self.run()

    def run(self) -> None:
        """Enqueues as far as they go, then dequeues, and again while anything moves."""
        moved = True
        while moved:
            moved = False
            while self.ins and self.step_in(self.ins[0]):
                moved = True
            while self.outs and self.step_out(self.outs[0]):
                moved = True

    def end(self, operation: Operation, outcome: str) -> bool:
        operation.outcome = outcome
        (self.ins if operation in self.ins else self.outs).remove(operation)
        return True

    def step_in(self, first: Operation) -> bool:
        if self.closed:
            return self.end(first, "CancelledError")
        if first.kind == "close":
            self.closed = True
            return self.end(first, "ok")
        if len(self.elements) >= self.capacity:
            return False
        self.elements.append(first.elements.pop(0))
        if self.sorts:
            self.elements.sort(key=priority)
        return bool(first.elements) or self.end(first, "ok")

    def step_out(self, first: Operation) -> bool:
        there, missing = len(self.elements), first.wanted - len(first.elements)
        if self.closed and there < missing:
            self.give_back(first)
            if first.kind == "dequeue_up_to" and self.elements and not self.sorts:
                first.elements, self.elements = self.elements, []
                return self.end(first, "ok")
            return self.end(first, "OutOfRangeError")
        if there <= (0 if self.closed else self.keep) or (self.sorts and there < missing):
            return False
        first.elements.append(self.elements.pop(0))
        return len(first.elements) < first.wanted or self.end(first, "ok")

    def give_back(self, operation: Operation) -> None:
        self.elements = operation.elements + self.elements
        operation.elements = []

    def abandon(self, operation: Operation) -> None:
        if operation in self.outs:
            self.give_back(operation)
        self.end(operation, "AbortedError")
        self.run()

    def cancel(self) -> None:
        self.closed = True
        for operation in list(self.ins):
            self.end(operation, "CancelledError")
        self.run()


class SortingModel(Model):
    """A priority queue's."""

    sorts = True


def priority(number: int) -> int:
    """Of the element with that number: small, so that many are equal, and not the order of arrival."""
    return number * 7 % 5 - 2


class QueueMachine(RuleBasedStateMachine):
    """Drives a queue and its model together."""

    ordered = True

    def __init__(self) -> None:
        super().__init__()
        self.next = 0
        self.operations: list[Operation] = []
        self.queue: Queue
        self.model: Model

    @initialize(capacity=st.integers(1, 6), keep=st.integers(0, 3))
    def make(self, capacity: int, keep: int) -> None:
        self.queue, self.model = self.made(capacity, keep)

    def made(self, capacity: int, keep: int) -> tuple[Queue, Model]:
        return FIFOQueue("q", QueueSpec.make(TYPES, [(), (1,)], capacity)), Model(capacity, 0)

    def start(self, kind: str, wanted: int, elements: list[int], pending: Pending[Any]) -> None:
        operation = Operation(kind, wanted, elements)
        operation.pending = pending
        self.operations.append(operation)
        self.model.add(operation)

    def fresh(self, count: int) -> tuple[list[int], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        numbers = list(range(self.next, self.next + count))
        self.next += count
        texts = np.array([b"%d" % n for n in numbers], object).reshape(-1, 1)
        return numbers, np.array(numbers, np.int64), texts

    @rule()
    def enqueue(self) -> None:
        numbers, values, texts = self.fresh(1)
        self.start("enqueue", 0, numbers, self.queue.enqueue(self.one(values[0], texts[0])))

    def one(self, value: Any, text: Any) -> tuple[Any, ...]:
        """An element."""
        return value, text

    def many(self, values: Any, texts: Any) -> tuple[Any, ...]:
        """A batch."""
        return values, texts

    @rule(count=st.integers(1, 9))
    def enqueue_many(self, count: int) -> None:
        numbers, values, texts = self.fresh(count)
        self.start("enqueue", 0, numbers, self.queue.enqueue_many(self.many(values, texts)))

    @rule()
    def dequeue(self) -> None:
        self.start("dequeue", 1, [], self.queue.dequeue())

    @rule(count=st.integers(1, 9))
    def dequeue_many(self, count: int) -> None:
        self.start("dequeue_many", count, [], self.queue.dequeue_many(count))

    @rule(count=st.integers(1, 9))
    def dequeue_up_to(self, count: int) -> None:
        self.start("dequeue_up_to", count, [], self.queue.dequeue_up_to(count))

    @precondition(lambda self: self.next > 8)
    @rule()
    def close(self) -> None:
        self.start("close", 0, [], self.queue.close())

    @precondition(lambda self: self.next > 8)
    @rule()
    def close_and_cancel(self) -> None:
        assert self.queue.close(cancel_pending_enqueues=True).error is None
        self.model.cancel()

    @precondition(lambda self: any(not o.outcome for o in self.operations))
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        waiting = [o for o in self.operations if not o.outcome]
        operation = data.draw(st.sampled_from(waiting))
        assert operation.pending.abandon(GIVEN_UP)
        self.model.abandon(operation)

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.queue.size() == len(self.model.elements)
        assert self.queue.is_closed() == self.model.closed
        for operation in self.operations:
            pending = operation.pending
            assert outcome_of(pending) == operation.outcome, operation.kind
            if operation.outcome == "ok" and operation.wanted:
                got = numbers_in(pending)
                assert len(got) == len(operation.elements)
                assert not self.ordered or got == operation.elements

    def teardown(self) -> None:
        """Whatever went in has come out once, or is still there."""
        if not hasattr(self, "model"):
            return
        for operation in self.operations:
            if not operation.outcome:
                assert operation.pending.abandon(GIVEN_UP)
                self.model.abandon(operation)
        self.close_and_cancel()
        self.they_agree()
        out = Counter[int]()
        for operation in self.operations:
            if operation.outcome == "ok" and operation.wanted:
                out.update(numbers_in(operation.pending))
        while self.queue.size():
            out.update(numbers_in(self.queue.dequeue()))
        for operation in self.operations:
            if operation.kind == "enqueue" and operation.outcome == "ok":
                assert not operation.elements
        never_in = {n for o in self.operations if o.kind == "enqueue" for n in o.elements}
        late = set(range(self.next)) - set(out)
        assert late <= never_in, "an element was lost"
        assert set(out.values()) <= {1}, "an element came twice"


def outcome_of(pending: Pending[Any]) -> str:
    if not pending.done:
        return ""
    return "ok" if pending.error is None else type(pending.error).__name__


def numbers_in(pending: Pending[Any]) -> list[int]:
    *priorities, values, texts = pending.result()
    numbers: list[int] = np.atleast_1d(values).tolist()
    rows = [texts] if not np.ndim(values) else texts
    unpadded = [[text for text in row.tolist() if text] for row in rows]
    assert all({*row} == {b"%d" % n} for n, row in zip(numbers, unpadded, strict=True)), "torn"
    for found in priorities:
        assert np.atleast_1d(found).tolist() == [priority(n) for n in numbers], "torn"
    return numbers


class ShuffleMachine(QueueMachine):
    """The same for a shuffle queue."""

    ordered = False

    def made(self, capacity: int, keep: int) -> tuple[Queue, Model]:
        keep = min(keep, capacity - 1)
        spec = QueueSpec.make(TYPES, [(), (1,)], capacity, keep, seed=1)
        return RandomShuffleQueue("q", spec), Model(capacity, keep)


class PaddingMachine(QueueMachine):
    """The same for a padding queue: the second component has one to three equal texts."""

    def made(self, capacity: int, keep: int) -> tuple[Queue, Model]:
        spec = QueueSpec.make(TYPES, [(), (None,)], capacity, sizes_vary=True)
        return PaddingFIFOQueue("q", spec), Model(capacity, 0)

    def one(self, value: Any, text: Any) -> tuple[Any, ...]:
        return value, np.repeat(text, int(value) % 3 + 1)


class PriorityMachine(QueueMachine):
    """The same for a priority queue; equal priorities are frequent."""

    def made(self, capacity: int, keep: int) -> tuple[Queue, Model]:
        return PriorityQueue("q", priority_spec(TYPES, [(), (1,)], capacity)), SortingModel(
            capacity, 0
        )

    def one(self, value: Any, text: Any) -> tuple[Any, ...]:
        return np.int64(priority(int(value))), value, text

    def many(self, values: Any, texts: Any) -> tuple[Any, ...]:
        return np.array([priority(n) for n in values.tolist()], np.int64), values, texts


SETTINGS = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestFIFOQueue = QueueMachine.TestCase
TestRandomShuffleQueue = ShuffleMachine.TestCase
TestPaddingFIFOQueue = PaddingMachine.TestCase
TestPriorityQueue = PriorityMachine.TestCase
TestFIFOQueue.settings = TestRandomShuffleQueue.settings = SETTINGS
TestPaddingFIFOQueue.settings = TestPriorityQueue.settings = SETTINGS
