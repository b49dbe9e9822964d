"""Sessions on a cluster whose tasks are restarted, and what each of them is owed: one AbortedError per restart.

Every ps has a variable, which holds the number of the task's start: whoever reads it says which start they have seen.
The model knows which sessions have used which tasks.  An operation must raise AbortedError if a task that it
needs was restarted since its session used it and that was not told, and else give the numbers of the present starts.
Since the task is up again before anybody asks for it, nothing else may be raised, UnavailableError included.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as tf
from headrace.codec import protos as pb
from tests.serve.clusters import Cluster, ProcessCluster
from tests.serve.conftest import Background

JOBS = {"ps": 2, "worker": 2}
PS = ("ps:0", "ps:1")
WORKERS = ("worker:0", "worker:1")

Clusters = Cluster | ProcessCluster
Operation = tuple[frozenset[str], Callable[[], Any]]
"""The tasks that it needs beside the master, and what gives the number of the start of each ps among them."""


class Program:
    """A variable and a queue on every ps, and steps that read one of the variables by different ways, or both."""

    def __init__(self) -> None:
        self.given = tf.placeholder(tf.int32, [])
        self.variables, self.inits, self.blocked, self.begun = {}, {}, {}, {}
        for task in PS:
            name = task.replace(":", "")
            with tf.device(f"/job:ps/task:{task[-1]}"):
                variable = tf.get_variable(
                    name, [], tf.int32, tf.zeros_initializer(), use_resource=False
                )
                begun = tf.FIFOQueue(9, [tf.int32], [[]], shared_name=f"begun_{name}")
                empty = tf.FIFOQueue(9, [tf.int32], [[]], shared_name=f"empty_{name}")
                self.variables[task], self.inits[task] = variable, variable.assign(self.given)
                with tf.control_dependencies([begun.enqueue(1)]):
                    self.blocked[task] = empty.dequeue()
                self.begun[task] = begun.dequeue()
        self.fed = {}
        for worker in WORKERS:
            with tf.device(f"/job:worker/task:{worker[-1]}"):
                self.fed[worker] = tf.placeholder(tf.int32, [])


class User:
    """A session, and what it is owed."""

    def __init__(self, cluster: Clusters, program: Program, master: str) -> None:
        self.master = master
        self.session = tf.Session(cluster.target(master))
        self.used: set[str] = set()
        self.owed: set[str] = set()
        self._program = program
        self._masters_name = cluster.address(master)
        self._names = itertools.count()
        self._callables: dict[str, Callable[..., Any]] = {}

    def operations(self, ps: str) -> dict[str, Operation]:
        """Everything that reads the variable of `ps`, by name."""
        program, session = self._program, self.session
        variable = program.variables[ps]
        elsewhere = next(worker for worker in WORKERS if worker != self.master)
        place = {task: f"/job:{task[:-2]}/task:{task[-1]}" for task in (*PS, *WORKERS)}

        def made(name: str, device: str, make: Callable[[], tf.Tensor]) -> tf.Tensor:
            with session.graph.as_default():
                found = session.graph._ops.get(name)
                if found is not None:
                    return found.outputs[0]
                with tf.device(device):
                    return tf.identity(make(), name=name)

        key = ps.replace(":", "")
        there = made(f"there_{key}", place[ps], lambda: variable + 0)
        through = {
            worker: made(f"{key}_{worker[-1]}", place[worker], lambda: there + 0)
            for worker in WORKERS
        }
        fed = {
            worker: made(
                f"fed_{key}_{worker[-1]}", place[ps], lambda w=worker: variable + program.fed[w]
            )
            for worker in WORKERS
        }

        other = next(task for task in PS if task != ps)
        sum_ = made(f"sum_{key}", place[ps], lambda: variable + (program.variables[other] + 0) * 0)

        def new() -> int:
            name = f"new_{key}_{self.master[-1]}_{id(self)}_{next(self._names)}"
            return int(session.run(made(name, place[ps], lambda: variable + 0)))

        def called(name: str, options: pb.CallableOptions, *feeds: Any) -> int:
            call = self._callables.get(name)
            if call is None:
                call = self._callables[name] = session._make_callable_from_options(options)
            (value,) = call(*feeds)
            return int(value)

        def in_pieces() -> int:
            worker = program.fed[self.master]
            handle = session.partial_run_setup([fed[self.master]], [worker])
            return int(session.partial_run(handle, fed[self.master], {worker: 0}))

        only, own, both = frozenset([ps]), frozenset([ps, self.master]), frozenset([ps, elsewhere])
        plain = pb.CallableOptions(fetch=[there.name])
        with_feed = pb.CallableOptions(
            feed=[program.fed[self.master].name], fetch=[fed[self.master].name]
        )
        connected = pb.CallableOptions(fetch=[fed[self.master].name])
        zero = made(f"zero_{key}", place[ps], lambda: variable * 0)
        connected.tensor_connection.add(
            from_tensor=zero.name, to_tensor=program.fed[self.master].name
        )
        return {
            "a step of one task": (only, lambda: int(session.run(there))),
            "a step that is fetched on the master": (
                own, lambda: int(session.run(through[self.master])),
            ),
            "a step through another worker": (both, lambda: int(session.run(through[elsewhere]))),
            "a new step": (only, new),
            "a step of both ps": (frozenset(PS), lambda: int(session.run(sum_))),
            "a step fed on the master": (
                only, lambda: int(session.run(fed[self.master], {program.fed[self.master]: 0})),
            ),
            "a step fed elsewhere": (
                only, lambda: int(session.run(fed[elsewhere], {program.fed[elsewhere]: 0})),
            ),
            "a callable": (only, lambda: called(f"plain_{key}", plain)),
            "a callable that is fed": (
                only, lambda: called(f"fed_{key}", with_feed, np.int32(0)),
            ),
            "a callable with a connection": (only, lambda: called(f"conn_{key}", connected)),
            "a partial run": (own, in_pieces),
        }  # fmt: skip

    def told(self, error: tf.errors.AbortedError) -> None:
        """It has raised this: which names what it is owed, and nothing else."""
        text = str(error)
        assert "was restarted" in text, text
        names = {t: ProcessCluster.full_name(t) for t in (*PS, *WORKERS)}
        named = {t for t in names if f"{names[t]} " in text or f"{names[t]}," in text}
        if f"the server at {self._masters_name}" in text:
            named = {self.master}
        assert named, text
        assert named <= self.owed, f"it is told of {named}, and owed {self.owed}: {text}"
        self.owed -= named

    def restarted(self, task: str) -> None:
        if task in self.used:
            self.owed.add(task)
            self.used.discard(task)


class Model:
    """A cluster of two ps and two workers, some sessions on it, and how often each ps was started."""

    def __init__(
        self, cluster: Clusters, seed: int, start: Callable[[Callable[[], Any]], Background]
    ) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._start = start
        self._program = Program()
        self._starts = dict.fromkeys(PS, 0)
        self.story: list[str] = []
        self.operations = 0
        for task in PS:
            self._initialize(task)
        masters = [self._random.choice(WORKERS) for _ in range(self._random.randint(1, 3))]
        self.users = [User(cluster, self._program, master) for master in masters]

    def _initialize(self, task: str) -> None:
        """By a session of its own, which has used nothing and is told nothing."""
        program = self._program
        with tf.Session(self._cluster.target(task)) as session:
            session.run(program.inits[task], {program.given: self._starts[task]})

    def run(self, rounds: int) -> None:
        """Uses and restarts.  Raises AssertionError with the story."""
        try:
            for _ in range(rounds):
                for user in self.users:
                    for _ in range(self._random.randint(1, 3)):
                        self.use(user)
                self.restart()
            for user in self.users:
                self.use(user)
        except BaseException as error:
            error.add_note("\n".join(self.story))
            raise
        finally:
            for user in self.users:
                user.session.close()

    def use(self, user: User) -> None:
        """Run an operation some times, so that it finds its shortest way; at first it may be owed something."""
        ps = self._random.choice(PS)
        operations = user.operations(ps)
        if self._random.random() < 0.1:
            self._list_devices(user)
        name = self._random.choice(list(operations))
        needs, operation = operations[name]
        for _ in range(self._random.choice([1, 2, 4])):
            self._once(user, f"{name} of {ps}", needs | {user.master}, ps, operation)

    def _list_devices(self, user: User) -> None:
        self.story.append(f"session {self.users.index(user)}: the list of devices")
        if user.master in user.owed:  # which only makes the session anew
            try:
                user.session.list_devices()
            except tf.errors.AbortedError as error:
                user.told(error)
        assert len(user.session.list_devices()) == 4
        user.used.add(user.master)

    def _once(
        self, user: User, name: str, needs: frozenset[str], ps: str, operation: Callable[[], int]
    ) -> None:
        """What is owed comes first, all of it; nothing else is raised."""
        which = f"session {self.users.index(user)} of {user.master}: {name}"
        while True:
            owed = user.owed & needs
            self.operations += 1
            self.story.append(f"{which}{', which is owed ' + str(owed) if owed else ''}")
            try:
                found = operation()
            except tf.errors.AbortedError as error:
                self.story.append(f"  {error}"[:200])
                user.told(error)
                continue
            assert not owed, f"it gave {found}, and nothing was said of {owed}"
            break
        user.used |= needs
        assert found == self._starts[ps]

    def restart(self) -> None:
        """Restart some tasks, under a step that is blocked there perhaps, once or twice."""
        tasks = self._random.choice([[PS[0]], [PS[1]], list(PS), [WORKERS[0]], [PS[0], WORKERS[1]]])
        waiting = [
            self._block(user, tasks[0]) for user in self.users if self._random.random() < 0.4
        ]
        times = self._random.choice([1, 1, 2])
        self.story.append(f"{tasks} restarted, {times} times, {len(waiting)} steps blocked")
        for _ in range(times):
            for task in tasks:
                self._end(task)
            for task in tasks:
                self._cluster.start(task)
                if task in PS:
                    self._starts[task] += 1
                    self._initialize(task)
        for user in self.users:
            for task in tasks:
                user.restarted(task)
        for user, step in waiting:
            self._blocked_step_ended(user, step)

    def _end(self, task: str) -> None:
        if isinstance(self._cluster, Cluster):
            self._cluster.servers[task].stop()
        else:
            self._cluster.kill(task)

    def _block(self, user: User, task: str) -> tuple[User, Background | None]:
        """Have a step of the session wait in a queue of the task, if that has one."""
        if task not in PS:
            return user, None
        program, session = self._program, user.session
        while user.owed & {task, user.master}:
            self.use(user)
        step = self._start(lambda: session.run(program.blocked[task]))
        session.run(program.begun[task])
        user.used |= {task, user.master}
        return user, step

    def _blocked_step_ended(self, user: User, step: Background | None) -> None:
        """It was under way: it may be Unavailable, or what tells the session."""
        if step is None:
            return
        error = step.error()
        self.story.append(f"the blocked step of {self.users.index(user)}: {error}"[:200])
        if isinstance(error, tf.errors.AbortedError):
            user.told(error)
        else:
            assert isinstance(error, tf.errors.UnavailableError), error
