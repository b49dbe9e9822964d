"""Steps whose connections break: a program that counts what it did, and what must be true of it afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import headrace as tf
from tests.serve.clusters import Cluster

STEPS = 12
HUNG_AFTER_S = 60.0
ELEMENTS = 10_000
MOST_BYTES = 60_000  # before a cut; the tensor has 40,000


def seeds(count: int) -> range:
    """So many from the one in HEADRACE_TEST_SEED on, which `make soak` chooses; without it half as many from 0 on."""
    first = os.environ.get("HEADRACE_TEST_SEED")
    return range(count // 2) if first is None else range(int(first), int(first) + count)


def names_in(cluster: Cluster) -> list[str]:
    """What errors may call the tasks."""
    names = [server.worker.task for server in cluster.servers.values()]
    return names + [cluster.address(task) for task in cluster.servers]


@dataclass
class Account:
    """What the client knows of its steps: how many were done, which numbers it put, and the errors of the rest."""

    done: int = 0
    put: list[int] = field(default_factory=list)
    failures: list[tf.errors.OpError] = field(default_factory=list)

    def check(self, other: Any, program: Program, names: Iterable[str]) -> None:
        """No step was lost that was done, none was applied twice, and every error names a task.

        other: a session whose connections are whole.
        """
        assert self.done <= other.run(program.counter) <= STEPS
        if other.run(program.size):
            found = other.run(program.all).tolist()
            assert set(self.put) <= set(found)
            assert len(set(found)) == len(found)
        else:
            assert self.put == []
        for error in self.failures:
            assert isinstance(error, tf.errors.UnavailableError), error
            assert any(name in str(error) for name in names), error


class Program:
    """Steps that update a counter and a queue of the ps; some take a large value to another worker as well."""

    def __init__(self) -> None:
        self.number = tf.placeholder(tf.int32, [])
        with tf.device("/job:ps"):
            self.counter = tf.Variable(0, name="counter")
            large = tf.Variable(tf.ones([ELEMENTS]), name="large")
            queue = tf.FIFOQueue(10 * STEPS, [tf.int32], [[]], shared_name="numbers")
            self.size, self.put = queue.size(), queue.enqueue(self.number)
            self.all = queue.dequeue_up_to(self.size)
            self.add = self.counter.assign_add(1)
        with tf.device("/job:worker/task:1"):
            computed = tf.reduce_sum(large) + tf.to_float(self.add)
        self.init = tf.global_variables_initializer()
        self.steps = [self.add, computed, [self.add, large], self.add.op, [self.put, self.add]]

    def tried(self, session: Any) -> Account:
        """Run the steps, each once."""
        account = Account()
        options = tf.RunOptions(timeout_in_ms=round(HUNG_AFTER_S * 1000))
        for number in range(STEPS):
            step = self.steps[number % len(self.steps)]
            try:
                session.run(step, {self.number: number}, options)
            except tf.errors.OpError as error:
                account.failures.append(error)
            else:
                account.done += 1
                if step is self.steps[-1]:
                    account.put.append(number)
        return account
