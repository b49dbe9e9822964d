"""Histories of a queue on a server, with clients that are killed: what was acknowledged is there, once, and in order.

Clients that are killed are processes; each says what it has done when it knows of it.  It may have done one step more
than it said: an element that it put in, or those of one step that it took out.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace as tf
from headrace.base import errors
from headrace.run.queues import Queue
from headrace.run.scope import Scope
from tests.serve.clusters import in_process

WITHIN_S = 60.0
COUNT = 60
BATCH = 4

CLIENT = """
import sys
import headrace as tf

target, kind, what, batch, count = sys.argv[1:]
types, shapes = [tf.int64, tf.int64], [[], []]
if kind == "fifo":
    queue = tf.FIFOQueue(50, types, shapes, shared_name="q")
else:
    queue = tf.RandomShuffleQueue(50, 5, types, shapes, shared_name="q")
number = tf.placeholder(tf.int64, [])
put = queue.enqueue([int(what) if what != "take" else 0, number])
taken = queue.dequeue_many(int(batch))
with tf.Session(target) as session:
    try:
        n = 0
        while what == "take":
            rows = zip(*session.run(taken))
            print("".join(f"{who} {n}\\n" for who, n in rows), end="", flush=True)
        while n < int(count):
            session.run(put, {number: n})
            print(what, n, flush=True)
            n += 1
    except tf.errors.OutOfRangeError:
        pass
"""

Pair = tuple[int, int]
"""Who put it in, and its number there."""


class Client:
    """A process that puts numbers in, or takes them out."""

    def __init__(self, target: str, kind: str, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, target, kind, what, str(BATCH), str(COUNT)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said: list[Pair] = []

    def hear(self, count: int) -> None:
        """Until it has said so much."""
        assert self.process.stdout is not None
        while len(self.said) < count:
            line = self.process.stdout.readline()
            assert line, "the client ended too early"
            self._note(line)

    def kill(self) -> None:
        """It may be anywhere; what it had said before counts."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Hear the rest."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._note(line)
        self.process.wait(WITHIN_S)

    def _note(self, line: str) -> None:
        if line.endswith("\n"):
            who, number = line.split()
            self.said.append((int(who), int(number)))


@pytest.fixture
def start() -> Iterator[Callable[[str, str, str], Client]]:
    made: list[Client] = []

    def started(target: str, kind: str, what: str) -> Client:
        made.append(Client(target, kind, what))
        return made[-1]

    yield started
    for client in made:
        client.kill()
        assert client.process.stdout is not None
        client.process.stdout.close()


def queue_of(kind: str) -> Any:
    """As the clients make it."""
    types, shapes = [tf.int64, tf.int64], [[], []]
    if kind == "fifo":
        return tf.FIFOQueue(50, types, shapes, shared_name="q")
    return tf.RandomShuffleQueue(50, 5, types, shapes, shared_name="q")


def left_in(queue: Queue) -> list[Pair]:
    """Close it, and take everything out."""
    queue.close().wait(Scope(WITHIN_S))
    found: list[Pair] = []
    while queue.size():
        who, number = queue.dequeue().wait(Scope(WITHIN_S))
        found.append((int(who), int(number)))
    return found


@pytest.mark.parametrize("kind", ["fifo", "shuffle"])
def test_nothing_acknowledged_is_lost_or_doubled_when_clients_are_killed(
    kind: str, start: Callable[[str, str, str], Client]
) -> None:
    mine = [(1, number) for number in range(COUNT // 3)]
    with in_process({"local": 1}) as cluster:
        target = cluster.target("local:0")
        putter, taker = start(target, kind, "0"), start(target, kind, "take")
        fed = tf.placeholder(tf.int64, [2])
        put = queue_of(kind).enqueue([fed[0], fed[1]])
        with tf.Session(target) as session:
            for pair in mine:
                session.run(put, {fed: pair})
            taker.hear(3 * BATCH)
            taker.kill()
            putter.hear(COUNT // 3)
            putter.kill()
        server = cluster.servers["local:0"]
        refused = errors.unavailable("draining")
        server.master.drain(refused, Scope(WITHIN_S))
        server.worker.drain(refused, Scope(WITHIN_S))
        (queue,) = server.worker.runtime.resources.all()
        assert isinstance(queue, Queue)
        left = left_in(queue)

    acknowledged = {*putter.said, *mine}
    came = taker.said + left
    assert len(came) == len(set(came)), "an element came twice"
    assert set(came) <= acknowledged | {(0, len(putter.said))}
    assert len(acknowledged - set(came)) <= BATCH, "more than was on its way to the taker is lost"
    if kind == "fifo":
        for who in range(2):
            numbers = [number for whose, number in came if whose == who]
            assert numbers == sorted(numbers)
