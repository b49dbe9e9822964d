"""Histories of queues on a cluster whose clients are killed: nothing is lost, nothing comes twice, the order is kept.

Clients are processes that are told what to do, and killed at generated moments.  A client that has been killed, or had
no more patience, may have made the step that nobody heard of, or not: see tests.serve.histories.  What is told to whom
is generated beforehand; what becomes of it depends on the moment.
HEADRACE_TEST_HISTORIES=SEED:EXAMPLES makes others, and more.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st

import headrace as tf
from tests.serve.clusters import processes
from tests.serve.histories import NEVER, Put, Take, check
from tests.serve.queue_clients import Client, Named, Nursery, User

WANTED = os.environ.get("HEADRACE_TEST_HISTORIES", "")
CLIENTS = 4
LIMIT_MS = 20
EXAMPLES = {"fifo": 6, "shuffle": 3}
KINDS = ["dequeue", "dequeue_many", "dequeue_up_to"]

small = st.integers(0, 11)
rules = st.sampled_from(["put", "put", "take", "take", "hear", "hear", "hear", "kill"])
scripts = st.lists(st.tuples(rules, small, small, small), min_size=25, max_size=40)


@dataclass
class World:
    """A cluster, and clients that have nothing to do."""

    targets: list[str]
    nursery: Nursery
    idle: list[Client]
    names: Iterator[int]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with processes({"ps": 1, "worker": 1}) as cluster, Nursery() as nursery:
        targets = [cluster.target("ps:0"), cluster.target("worker:0")]
        world = World(targets, nursery, [], itertools.count())
        yield world
        for client in world.idle:
            client.forget()


@dataclass(eq=False)
class Busy:
    """A client that has been told to do something."""

    client: Client
    made: Put | Take
    limited: bool


class History:
    """One queue, and what its clients do with it."""

    def __init__(self, world: World, kind: str, capacity: int, keep: int) -> None:
        self.world = world
        shuffles = kind == "shuffle"
        self.queue = Named(f"q{next(world.names)}", shuffles, capacity, keep if shuffles else 0)
        self.puts: list[Put] = []
        self.takes: list[Take] = []
        self.busy: list[Busy] = []
        self._moments = itertools.count(1)
        self._elements = itertools.count()

    # -- rules; each is given numbers to choose by --------------------------------------------

    def put(self, count: int, master: int, _: int) -> None:
        """One to four elements."""
        if len(self.busy) < CLIENTS:
            elements = list(itertools.islice(self._elements, count % 4 + 1))
            self.puts.append(Put(elements, next(self._moments)))
            self._order(self.puts[-1], master, kind="put", elements=elements)

    def take(self, count: int, kind: int, master: int) -> None:
        """One to four elements; sometimes not for long."""
        if len(self.busy) < CLIENTS:
            how, limit_ms = KINDS[kind % 3], LIMIT_MS if kind > 8 else 0
            wanted = 1 if how == "dequeue" else count % 4 + 1
            self.takes.append(Take(wanted, next(self._moments), short=how == "dequeue_up_to"))
            self._order(self.takes[-1], master, kind=how, count=wanted, limit_ms=limit_ms)

    def hear(self, whom: int, _: int, __: int) -> None:
        """What becomes of a step that ends whatever the others do."""
        sure = self._sure()
        if sure:
            self._listen(sure[whom % len(sure)])

    def kill(self, whom: int, begun: int, _: int) -> None:
        """As soon as it has been told what to do, or when it has begun."""
        if self.busy:
            busy = self.busy.pop(whom % len(self.busy))
            if begun % 2:
                assert busy.client.hear() == "begun"
            for said in busy.client.kill():
                if said != "begun":
                    self._heard(busy, said)

    # -- clients ------------------------------------------------------------------------------

    def _order(self, made: Put | Take, master: int, **what: Any) -> None:
        idle, targets = self.world.idle, self.world.targets
        client = idle.pop() if idle else self.world.nursery.client()
        self.busy.append(Busy(client, made, bool(what.get("limit_ms"))))
        client.order(
            target=targets[master % len(targets)], queue=list(vars(self.queue).values()), **what
        )

    def _sure(self) -> list[Busy]:
        """Those whose steps end whatever the others do, the killed ones included."""
        there = sum(len(put.elements) for put in self.puts if put.known)
        wanted = sum(
            t.wanted if not t.known else len(t.elements) for t in self.takes if not t.failed
        )
        given = sum(len(put.elements) for put in self.puts)
        gone = sum(len(take.elements) for take in self.takes if take.known)
        served, fits = there - wanted >= self.queue.keep, given - gone <= self.queue.capacity
        return [b for b in self.busy if b.limited or (fits if isinstance(b.made, Put) else served)]

    def _listen(self, busy: Busy) -> None:
        """Until its step has ended; then it is idle."""
        self.busy.remove(busy)
        assert busy.client.hear() == "begun"
        self._heard(busy, busy.client.hear())
        self.world.idle.append(busy.client)

    def _heard(self, busy: Busy, said: Any) -> None:
        (outcome, elements, why), made = said, busy.made
        made.known = outcome == "ok"
        late = busy.limited and outcome == "DeadlineExceededError"
        made.ended = NEVER if late else next(self._moments)
        if isinstance(made, Put):
            assert made.known or outcome == "CancelledError", why
            return
        made.elements, made.failed = elements, outcome == "OutOfRangeError"
        assert made.known or made.failed or late, why

    def end(self) -> None:
        """Close the queue, hear of all that waits, and see what is left."""
        user = User(self.world.targets[0], self.queue)
        user.close_queue()
        for busy in list(self.busy):
            self._listen(busy)
        left = True
        while left:
            made = Take(3, next(self._moments), known=True)
            try:
                made.elements = user.take("dequeue_up_to", 3, 0)
            except tf.errors.OutOfRangeError:
                left = False
            made.ended = next(self._moments)
            self.takes.append(made)
        user.session.close()
        note("\n".join(map(str, [*self.puts, *self.takes])))
        check(self.puts, self.takes, in_order=not self.queue.shuffles)


@pytest.mark.timeout(3600 if WANTED else 600)
@pytest.mark.parametrize("kind", ["fifo", "shuffle"])
def test_nothing_is_lost_or_doubled_or_out_of_order_when_clients_are_killed(
    world: World, kind: str
) -> None:
    number, _, examples = WANTED.partition(":")

    @settings(
        max_examples=int(examples) if WANTED else EXAMPLES[kind],
        derandomize=not WANTED,
        database=None,
        phases=[Phase.generate],  # another run would find other moments
        suppress_health_check=list(HealthCheck),
    )
    @given(capacity=st.integers(3, 12), keep=st.integers(0, 2), script=scripts)
    def histories(capacity: int, keep: int, script: list[tuple[str, int, int, int]]) -> None:
        history = History(world, kind, capacity, keep)
        try:
            for name, *numbers in script:
                getattr(history, name)(*numbers)
            history.end()
        finally:
            for busy in history.busy:
                busy.client.kill()

    (seed(int(number))(histories) if WANTED else histories)()


# -- histories that no queue has ------------------------------------------------------------------


def put(elements: list[int], begun: int, ended: int) -> Put:
    return Put(elements, begun, ended, known=True)


def took(elements: list[int], begun: int, ended: int) -> Take:
    return Take(len(elements), begun, ended=ended, known=True, elements=elements)


FINE: list[tuple[list[Put], list[Take]]] = [
    ([put([1, 2], 1, 2)], [took([1], 3, 4), took([2], 5, 6)]),
    ([put([1], 1, 9), put([2], 2, 9)], [took([2, 1], 3, 10)]),  # at the same time
    ([put([1], 1, 2), put([2], 3, 4)], [took([2], 5, 9), took([1], 6, 8)]),  # the same
    ([put([1, 2], 1, 2)], [Take(2, 3)]),  # gone with its client
    ([put([1, 2, 3], 1, 2)], [Take(1, 3), took([2, 3], 4, 5)]),
    ([Put([1, 2], 1), put([3], 4, 5)], [took([1, 3], 6, 7)]),  # 2 did not go in
    ([put([1, 2], 1, 2)], [Take(2, 3, short=True), took([2], 4, 5)]),
]
WRONG: list[tuple[list[Put], list[Take], str]] = [
    ([put([1, 2], 1, 2)], [took([1], 3, 4)], "1 elements are lost"),
    ([put([1], 1, 2)], [took([1], 3, 4), took([1], 5, 6)], "twice"),
    ([put([1], 1, 2)], [took([1, 7], 3, 4)], "never put in"),
    ([put([1], 5, 6)], [took([1], 3, 4)], "before it was put in"),
    ([put([1, 2], 1, 2)], [Take(2, 3), took([2], 4, 5)], "lost"),  # all or nothing
    ([put([1, 2], 1, 2)], [took([2], 3, 4), took([1], 5, 6)], "no order"),
    ([put([1, 2], 1, 2)], [took([2, 1], 3, 4)], "in one batch"),
    ([put([1], 1, 2), put([2], 3, 4)], [took([2], 5, 6), took([1], 7, 8)], "no order"),
    ([put([1], 1, 9), put([2], 1, 9), put([3], 10, 11), put([4], 10, 11)],
     [took([3, 1], 12, 20), took([4], 12, 20), took([2], 12, 20)], "no order|in one batch"),
    ([put([1], 1, 2), put([2], 3, 4)], [took([2], 5, 6), Take(1, 7)], "overtaken"),
]  # fmt: skip


@pytest.mark.parametrize(("puts", "takes"), FINE)
def test_a_history_that_a_queue_may_have(puts: list[Put], takes: list[Take]) -> None:
    check(puts, takes, in_order=True)


@pytest.mark.parametrize(("puts", "takes", "wrong"), WRONG)
def test_a_history_that_no_queue_has(puts: list[Put], takes: list[Take], wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        check(puts, takes, in_order=True)
