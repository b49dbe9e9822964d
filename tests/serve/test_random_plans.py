"""Random graphs: a local plan, a remote plan and a partitioned plan give what the naive interpreter gives.

A graph is a list of small numbers, from which it is built twice, with and without devices.  What touches a variable or
a queue is tied to what touched it before, on its device: nothing else would have one right answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as tf
from headrace.graph.graph import Operation
from headrace.graph.tensor import Tensor
from headrace.plan import check
from headrace.plan.partition import partition
from headrace.plan.place import place
from headrace.plan.prune import needed
from headrace.run.exec.keys import task_of
from tests.naive import Naive
from tests.serve.clusters import Cluster, in_process

DEVICES = [None, "/job:ps", "/job:worker/task:0", "/job:worker/task:1"]
TASKS = ["ps:0", "worker:0", "worker:1"]
SIZE = 2  # of every tensor that is not an element

Recipe = list[tuple[int, int, int, int, int]]
"""(kind of node, first choice, second choice, device, control input)"""

small = st.integers(0, 11)
recipes = st.lists(
    st.tuples(small, small, small, st.integers(0, 3), small), min_size=3, max_size=30
)


class Built:
    """A graph made from a recipe, and what may be fetched, fed and run of it."""

    def __init__(self, recipe: Recipe, placed: bool) -> None:
        self.values: list[Tensor] = []
        self.placeholders: list[Tensor] = []
        self.operations: list[Operation] = []
        self.initializers: list[Operation] = []
        self.ties: set[Operation] = set()  # nodes that touch variables and queues
        self._placed = placed
        self._references: list[tuple[Any, int]] = []  # (reference, number of its variable)
        self._variables: list[Any] = []
        self._queues: list[Any] = []
        self._fill: list[int] = []
        self._touched: dict[Any, Operation] = {}  # variable or queue -> what touched it last
        self._where: dict[Any, Any] = {}
        with tf.Graph().as_default() as self.graph:
            self._constant(1, 2, 0, 0)
            self._variable(3, 5, 1, 0)
            for kind, a, b, device, control in recipe:
                KINDS[kind % len(KINDS)](self, a, b, device, control)

    def _on(self, device: int) -> Any:
        return tf.device(DEVICES[device] if self._placed else None)

    def _value(self, choice: int) -> Tensor:
        return self.values[-1 - choice % len(self.values)]

    def _after(self, control: int) -> Any:
        """Control inputs: none, or one of the nodes so far."""
        ops = [*(tensor.op for tensor in self.values), *self.operations]
        return tf.control_dependencies([ops[-1 - control % len(ops)]] if control % 3 == 0 else [])

    @contextmanager
    def _touching(self, owner: Any, choice: int) -> Iterator[None]:
        """Nodes made here are where `owner` is, after whatever touched it before.

        Now and then also after what touched another one, which then comes after these.
        """
        owners = [owner]
        if choice % 2:
            others = [*self._variables, *self._queues]
            owners.append(others[choice % len(others)])
        before = [self._touched[each] for each in owners if each in self._touched]
        count = len(self.graph.get_operations())
        with self._on(self._where[owner]), tf.control_dependencies(before):
            yield
        last = self.graph.get_operations()[-1]
        assert last.id >= count
        self.ties.add(last)
        for each in owners:
            self._touched[each] = last

    # -- kinds of nodes -----------------------------------------------------------------------

    def _constant(self, a: int, b: int, device: int, control: int) -> None:
        with self._on(device):
            self.values.append(tf.constant([a, b], tf.float32))

    def _placeholder(self, a: int, b: int, device: int, control: int) -> None:
        with self._on(device):
            self.placeholders.append(tf.placeholder(tf.float32, [SIZE]))
        self.values.append(self.placeholders[-1])

    def _binary(self, a: int, b: int, device: int, control: int) -> None:
        make = [tf.add, tf.subtract, tf.multiply, tf.maximum][(a + b) % 4]
        with self._on(device), self._after(control):
            self.values.append(make(self._value(a), self._value(b)))

    def _identity(self, a: int, b: int, device: int, control: int) -> None:
        with self._on(device), self._after(control):
            self.values.append(tf.identity(self._value(a)))

    def _swapped(self, a: int, b: int, device: int, control: int) -> None:
        """Of a node with two outputs."""
        with self._on(device):
            first, second = tf.unstack(self._value(a), SIZE)
        with self._on(b % 4), self._after(control):
            self.values.append(tf.stack([second, first]))

    def _nothing(self, a: int, b: int, device: int, control: int) -> None:
        ops = [*(tensor.op for tensor in self.values), *self.operations]
        chosen = {ops[-1 - choice % len(ops)] for choice in (a, b)}
        with self._on(device), tf.control_dependencies(sorted(chosen, key=lambda op: op.id)):
            self.operations.append(tf.no_op())

    def _variable(self, a: int, b: int, device: int, control: int) -> None:
        number = len(self._variables)
        if number == 3:  # few, so that they are used together
            return
        with self._on(device or 1):
            variable = tf.Variable(tf.constant([a, b], tf.float32), name=f"variable_{number}")
        self._variables.append(variable)
        self._where[variable] = device or 1
        self._references.append((variable._ref(), number))
        self.initializers.append(variable.initializer)

    def _assign(self, a: int, b: int, device: int, control: int) -> None:
        if self._variables:
            number = a % len(self._variables)
            variable = self._variables[number]
            make = [variable.assign, variable.assign_add, variable.assign_sub][b % 3]
            with self._touching(variable, control):
                assigned = make(self._value(b))
            self._references.append((assigned, number))
            self.operations.append(assigned.op)

    def _reference(self, a: int, b: int, device: int, control: int) -> None:
        if self._references:
            reference, number = self._references[-1 - a % len(self._references)]
            variable = self._variables[number]
            with self._touching(variable, control):
                passed = tf.identity(reference)
            self._references.append((passed, number))

    def _read(self, a: int, b: int, device: int, control: int) -> None:
        if self._references:
            reference, number = self._references[-1 - a % len(self._references)]
            variable = self._variables[number]
            with self._touching(variable, control):
                self.values.append(tf.add(reference, self._value(b)))

    def _queue(self, a: int, b: int, device: int, control: int) -> None:
        with self._on(device or 1):
            self._queues.append(tf.FIFOQueue(1000, [tf.float32], [[SIZE]]))
        self._where[self._queues[-1]] = device or 1
        self._fill.append(0)

    def _use_queue(self, a: int, b: int, device: int, control: int) -> None:
        if self._queues:
            number = a % len(self._queues)
            queue = self._queues[number]
            with self._touching(queue, control):
                if b % 2 and self._fill[number]:
                    self._fill[number] -= 1
                    self.values.append(queue.dequeue())
                else:
                    self._fill[number] += 1
                    self.operations.append(queue.enqueue([self._value(b)]))


KINDS: list[Callable[[Built, int, int, int, int], None]] = [
    Built._binary, Built._read, Built._assign, Built._reference, Built._use_queue, Built._variable, Built._queue,
    Built._swapped, Built._identity, Built._nothing, Built._placeholder, Built._constant,
    Built._read, Built._assign, Built._reference, Built._use_queue, Built._read, Built._assign, Built._reference,
    Built._read,
]  # fmt: skip


class Request:
    """What one run asks for, by positions, so that it can be asked of two graphs."""

    def __init__(self, built: Built, choose: random.Random, everything: bool = False) -> None:
        values = range(len(built.values))
        operations = range(len(built.operations))
        self.fetches, self.targets = list(values), list(operations)
        if not everything:
            self.fetches = choose.sample(values, choose.randint(1, min(4, len(values))))
            self.targets = choose.sample(operations, choose.randint(0, min(2, len(operations))))
        fed = {built.values.index(tensor) for tensor in built.placeholders}
        if choose.random() < 0.4:
            # An input may be all that ties a node to what was touched before; feeding it would cut the tie.
            fed.add(choose.choice([n for n in values if built.values[n].op not in built.ties]))
        self.feeds = {
            number: np.array([choose.randint(-3, 3) for _ in range(SIZE)], np.float32)
            for number in sorted(fed)
        }

    def of(self, built: Built) -> tuple[list[Tensor], list[Operation], dict[Tensor, Any]]:
        """(fetches, targets, feeds) in `built`."""
        return (
            [built.values[number] for number in self.fetches],
            [built.operations[number] for number in self.targets],
            {built.values[number]: value for number, value in self.feeds.items()},
        )


def requests_of(built: Built, seed: int) -> list[Request]:
    choose = random.Random(seed)
    return [Request(built, choose, everything) for everything in (False, True, False)]


def by_naive(built: Built, requests: list[Request]) -> list[list[Any]]:
    naive = Naive()
    naive.run([], {}, built.initializers)
    results = []
    for request in requests:
        fetches, targets, feeds = request.of(built)
        results.append([value.tolist() for value in naive.run(fetches, feeds, targets)])
    return results


def by_session(session: tf.Session, built: Built, requests: list[Request]) -> list[list[Any]]:
    session.run(built.initializers)
    results = []
    for request in requests:
        fetches, targets, feeds = request.of(built)
        values, _ = session.run((fetches, targets), feeds)
        results.append([value.tolist() for value in values])
    return results


@given(recipe=recipes, seed=st.integers(0, 1000))
@settings(max_examples=150)
def test_a_local_plan_agrees_with_the_naive_interpreter(recipe: Recipe, seed: int) -> None:
    built = Built(recipe, placed=False)
    requests = requests_of(built, seed)
    with tf.Session(graph=built.graph) as session:
        assert by_session(session, built, requests) == by_naive(built, requests)


@given(recipe=recipes, seed=st.integers(0, 1000))
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_remote_plan_agrees_with_the_naive_interpreter(
    one_task: Cluster, recipe: Recipe, seed: int
) -> None:
    built = Built(recipe, placed=False)
    requests = requests_of(built, seed)
    with tf.Session(one_task.target("local:0"), graph=built.graph) as session:
        assert by_session(session, built, requests) == by_naive(built, requests)


@given(recipe=recipes, seed=st.integers(0, 1000), master=st.sampled_from(TASKS))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_partitioned_plan_agrees_with_the_naive_interpreter(
    three_tasks: Cluster, recipe: Recipe, seed: int, master: str
) -> None:
    built = Built(recipe, placed=True)
    requests = requests_of(built, seed)
    with tf.Session(three_tasks.target(master), graph=built.graph) as session:
        assert by_session(session, built, requests) == by_naive(built, requests)


@given(recipe=recipes, seed=st.integers(0, 1000))
@settings(max_examples=100)
def test_partitions_are_complete_and_every_node_runs_once(recipe: Recipe, seed: int) -> None:
    built = Built(recipe, placed=True)
    fetches, targets, feeds = Request(built, random.Random(seed)).of(built)
    fetches = [tensor for tensor in fetches if tensor not in feeds]
    pruned = needed(feeds, fetches, targets)
    tasks = [f"/job:{task.replace(':', '/replica:0/task:')}" for task in TASKS]
    everything = list(dict.fromkeys([*pruned.ops, *(tensor.op for tensor in feeds)]))
    devices = place(everything, [f"{task}/device:CPU:0" for task in tasks])
    incarnations = {task: 2**64 - 1 - number for number, task in enumerate(tasks)}
    parts = partition(
        pruned, list(feeds), fetches, devices, lambda device: incarnations[task_of(device)]
    )
    check.check_partitions(parts)
    placed = {node.name: part.task for part in parts for node in part.graph_def.node}
    for op in pruned.ops:
        assert placed[op.name] == task_of(devices[op])
    crossing = {
        (source, devices[op])
        for op in pruned.ops
        for source in (*op.inputs, *pruned.controls[op])
        if devices[source.op if isinstance(source, Tensor) else source] != devices[op]
    }
    # When a value of a node has come, the node has run: that need not be said as well.
    values = {(s.op, to) for s, to in crossing if isinstance(s, Tensor) and s not in feeds}
    crossing -= values
    sends = [key for part in parts for key in part.sends]
    receives = [key for part in parts for key in part.receives]
    assert sorted(sends) == sorted(receives)
    assert len(sends) == len(set(sends)) == len(crossing)  # one transfer, however many users
    assert {tensor for part in parts for tensor in part.fetches} == set(fetches)
    assert {tensor for part in parts for tensor in part.feeds} == set(feeds)


@pytest.fixture
def one_task() -> Iterator[Cluster]:
    with in_process({"local": 1}) as cluster:
        yield cluster


@pytest.fixture
def three_tasks() -> Iterator[Cluster]:
    with in_process({"ps": 1, "worker": 2}) as cluster:
        yield cluster
