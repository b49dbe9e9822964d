"""Processes that use queues on order, quick to start and fit to be killed: forks of one that has imported headrace.

An order is a line of JSON; the client says "begun" when it is about to make the step, and then what became of it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import headrace as tf

WITHIN_S = 60.0


@dataclass(frozen=True)
class Named:
    """A queue on the ps, as every client makes it; elements are a number and its text."""

    name: str
    shuffles: bool
    capacity: int
    keep: int

    def make(self) -> Any:
        types, shapes = [tf.int64, tf.string], [[], [1]]
        with tf.device("/job:ps"):
            if self.shuffles:
                return tf.RandomShuffleQueue(
                    self.capacity, self.keep, types, shapes, seed=3, shared_name=self.name
                )
            return tf.FIFOQueue(self.capacity, types, shapes, shared_name=self.name)


class User:
    """A session that uses a queue."""

    def __init__(self, target: str, queue: Named) -> None:
        with tf.Graph().as_default() as graph, tf.device("/job:ps"):
            made = queue.make()
            self._number, self._text = tf.placeholder(tf.int64), tf.placeholder(tf.string)
            self._count = tf.placeholder(tf.int32, [])
            number, text = tf.reshape(self._number, []), tf.reshape(self._text, [1])
            self._put = made.enqueue([number, text])
            self._put_many = made.enqueue_many([self._number, self._text])
            self._takes = {
                "dequeue": made.dequeue(),
                "dequeue_many": made.dequeue_many(self._count),
                "dequeue_up_to": made.dequeue_up_to(self._count),
            }
            self._close = made.close(cancel_pending_enqueues=True)
            size = made.size()
        self.session = tf.Session(target, graph=graph)
        self.session.run(size)  # what takes time at first is no part of what may be limited

    def put(self, elements: list[int]) -> None:
        """One element by enqueue, more by enqueue_many."""
        feed = {self._number: elements, self._text: [[b"%d" % n] for n in elements]}
        self.session.run(self._put if len(elements) == 1 else self._put_many, feed)

    def take(self, kind: str, count: int, limit_ms: int) -> list[int]:
        options = tf.RunOptions(timeout_in_ms=limit_ms) if limit_ms else None
        feed = {} if kind == "dequeue" else {self._count: count}
        numbers, texts = self.session.run(self._takes[kind], feed, options)
        found: list[int] = [int(n) for n in numbers] if kind != "dequeue" else [int(numbers)]
        assert [b"%d" % n for n in found] == texts.reshape(-1).tolist(), "torn"
        return found

    def close_queue(self) -> None:
        """What waits to go in is cancelled."""
        self.session.run(self._close)


def serve(orders: int, answers: int) -> None:
    """What a client does until nobody orders anything more; orders and answers go through pipes."""
    users: dict[Any, User] = {}
    with open(orders) as told, open(answers, "w", buffering=1) as tells:

        def say(what: Any) -> None:
            tells.write(json.dumps(what) + "\n")

        for line in told:
            order = json.loads(line)
            key = (order["target"], *order["queue"])
            if key not in users:
                for user in users.values():
                    user.session.close()
                users = {key: User(order["target"], Named(*order["queue"]))}
            say("begun")
            try:
                if order["kind"] == "put":
                    users[key].put(order["elements"])
                    say(["ok", [], ""])
                else:
                    taken = users[key].take(order["kind"], order["count"], order["limit_ms"])
                    say(["ok", taken, ""])
            except tf.errors.OpError as error:
                say([type(error).__name__, [], str(error)])


def nursery(requests: socket.socket) -> None:
    """Fork a client for each pair of pipes that comes, until no more can."""
    from headrace.client import remote  # noqa: F401 -- now, not once in every client
    from headrace.serve.connect import routed  # noqa: F401
    from headrace.serve.lane import client as lane_client  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        _, fds, _, _ = socket.recv_fds(requests, 1, 2)
        if not fds:
            return
        pid = os.fork()
        if pid == 0:
            requests.close()
            try:
                serve(*fds)
            finally:
                os._exit(0)
        for fd in fds:
            os.close(fd)
        requests.sendall(b"%10d" % pid)


class Client:
    """A process that does as it is told."""

    def __init__(self, pid: int, orders: int, answers: int) -> None:
        self._pid = pid
        self._orders = open(orders, "w", buffering=1)  # noqa: SIM115 -- see `forget`
        self._answers = answers
        self._rest = b""

    def order(self, **what: Any) -> None:
        """Have it do something; `hear` twice what becomes of it."""
        self._orders.write(json.dumps(what) + "\n")

    def hear(self) -> Any:
        """What it says next.  Raises AssertionError if it has died, or says nothing for long."""
        while b"\n" not in self._rest:
            assert select.select([self._answers], [], [], WITHIN_S)[0], f"client {self._pid} hangs"
            more = os.read(self._answers, 4096)
            assert more, f"client {self._pid} has died"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def kill(self) -> list[Any]:
        """kill -9; what it had said, and nobody had heard."""
        os.kill(self._pid, signal.SIGKILL)
        while more := os.read(self._answers, 4096):
            self._rest += more
        *said, _ = self._rest.split(b"\n")
        self.forget()
        return [json.loads(line) for line in said]

    def forget(self) -> None:
        """It ends by itself when it has nothing to do."""
        self._orders.close()
        os.close(self._answers)


class Nursery:
    """Where clients come from.  A context manager; its clients end with it."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        self._requests.settimeout(WITHIN_S)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def client(self) -> Client:
        """A new one."""
        orders, told = os.pipe()
        heard, answers = os.pipe()
        socket.send_fds(self._requests, [b"c"], [orders, answers])
        os.close(orders)
        os.close(answers)
        return Client(int(self._requests.recv(10, socket.MSG_WAITALL)), told, heard)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *exc: object) -> None:
        self._requests.close()
        self._process.wait(WITHIN_S)


if __name__ == "__main__":
    nursery(socket.socket(fileno=int(sys.argv[1])))
