"""Chaos: real processes that train and share a queue, and faults that are chosen by a seed.

A run is a cluster of a ps and two workers, two clients, and some faults: a task or client is killed (-9) and started
again, or stopped (SIGSTOP) and let go on, at once or when somebody has noticed.  A fault comes when the clients have
made so many steps more, and the next one when every client has got a training step done since.  Afterwards the books
are checked: nothing was applied twice, nothing that was confirmed is missing, every error named a task, nothing hung.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import headrace as tf
from tests.serve.clusters import ProcessCluster, processes
from tests.soak.journal import Journal, Step, check_errors, check_queue, check_training
from tests.soak.program import Program

ROOT = Path(__file__).resolve().parents[2]
TASKS = ("ps:0", "worker:0", "worker:1")
JOBS = {"ps": 1, "worker": 2}
CLIENTS = 2
WITHIN_S = 100.0  # for what takes a few seconds
FROZEN_AFTER_S = "2.4"
LANES = ("on", "on", "tcp", "off")
KINDS = ("kill", "pause", "freeze")
MOST_STEPS_BEFORE = 20

Say = Callable[[str], None]


class Client:
    """A client process; a thread of its own reads what it says."""

    def __init__(self, stack: ExitStack, journal: Journal, number: int, *arguments: str) -> None:
        self.number = number
        self.expected = False
        self._journal = journal
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.client", *arguments], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        stack.callback(self._clean_up)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self._journal.add(json.loads(line))
            except ValueError:
                self._journal.note(line)

    def kill(self) -> None:
        """kill -9, and hear its last words."""
        self.process.kill()
        self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)

    def stop(self) -> int:
        """Have it end its step and itself; the exit code."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("stop\n")
            self.process.stdin.flush()
        code = self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        return code

    def _clean_up(self) -> None:
        self.process.kill()
        self.process.wait(WITHIN_S)
        self._reader.join(WITHIN_S)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@dataclass(frozen=True)
class Fault:
    """kind: see KINDS.  victim: a task, or "client:N" for the Nth of those that run."""

    kind: str
    victim: str
    after_steps: int


def plan(seed: int, faults: int) -> tuple[str, list[Fault]]:
    """(HEADRACE_LANE, faults) of a run.  As long as there are enough, every victim has its turn."""
    dice = random.Random(seed)
    victims = [*TASKS, "client:0"]
    dice.shuffle(victims)
    found = []
    for number in range(faults):
        victim = victims[number] if number < len(victims) else dice.choice(victims)
        found.append(Fault(dice.choice(KINDS), victim, dice.randint(1, MOST_STEPS_BEFORE)))
    return dice.choice(LANES), found


class Run:
    """One run; see the module header."""

    def __init__(self, seed: int, faults: int, say: Say) -> None:
        self.seed = seed
        self.journal = Journal()
        self.lane, self.faults = plan(seed, faults)
        self._say = say
        self._cluster: ProcessCluster
        self._stack: ExitStack
        self._clients: list[Client] = []
        self._made = 0
        self._initialized = 0.0
        self._state_was_lost = False

    def __call__(self) -> Counter[str]:
        """How many steps ended how.  Raises AssertionError."""
        self._say(f"seed {self.seed}: lane {self.lane}")
        settings = {"HEADRACE_LANE": self.lane, "HEADRACE_FROZEN_AFTER_S": FROZEN_AFTER_S}
        with ExitStack() as stack, tf.Graph().as_default():
            stack.enter_context(_environment(settings))
            self._stack, self._cluster = stack, stack.enter_context(processes(JOBS))
            self._program = Program()
            self._initialize()
            for _ in range(CLIENTS):
                self._start_client()
            for fault in self.faults:
                self._say(f"  {fault.kind} {fault.victim} after {fault.after_steps} steps")
                self._wait_for_steps(fault.after_steps)
                self._inject(fault)
                self._wait_for_everybody()
            for client in self._clients:
                assert client.stop() == 0, f"client {client.number} failed; {self.journal.story()}"
            self._check()
        return Counter(step.error or "done" for step in self.journal.steps.values())

    def _start_client(self) -> None:
        number, self._made = self._made, self._made + 1
        home = number % JOBS["worker"]
        target = self._cluster.target(f"worker:{home}")
        other = (home + 1) % JOBS["worker"]
        arguments = (target, str(number), str(other), str(self.seed))
        self._clients.append(Client(self._stack, self.journal, number, *arguments))

    def _initialize(self) -> None:
        """Initialize the variables of the ps, which is new."""
        with _patient_session(self._cluster.target("ps:0")) as session:
            session.run(self._program.init)
        self._initialized = time.monotonic()

    def _wait_for_steps(self, count: int) -> None:
        wanted = self._ended() + count
        self.journal.wait_until(
            lambda steps: sum(step.ended is not None for step in steps) >= wanted,
            WITHIN_S, f"{count} steps more",
        )  # fmt: skip

    def _ended(self) -> int:
        return sum(step.ended is not None for step in list(self.journal.steps.values()))

    def _wait_for_everybody(self) -> None:
        """Every client gets a training step done that began from now on."""
        now = time.monotonic()
        alive = {client.number for client in self._clients}

        def trained(steps: list[Step]) -> bool:
            return alive <= {
                step.client
                for step in steps
                if step.kind == "train" and step.done and step.at > now
            }

        self.journal.wait_until(trained, WITHIN_S, "every client works again")

    def _inject(self, fault: Fault) -> None:
        if fault.victim.startswith("client"):
            client = self._clients[0]
            if fault.kind == "kill":
                self._clients.remove(client)
                client.kill()
                self._start_client()
                return
            client.process.send_signal(signal.SIGSTOP)
            os.waitpid(client.process.pid, os.WUNTRACED)
            if fault.kind == "freeze":
                self._others_go_on(client)
            client.process.send_signal(signal.SIGCONT)
        elif fault.kind == "kill":
            self._cluster.kill(fault.victim)
            self._cluster.start(fault.victim)
            if fault.victim == "ps:0":
                self._state_was_lost = True
                self._initialize()
        else:
            self._cluster.freeze(fault.victim)
            try:
                if fault.kind == "freeze":
                    self._somebody_notices()
            finally:
                self._cluster.thaw(fault.victim)

    def _others_go_on(self, frozen: Client) -> None:
        """While one client is frozen, the other ones get a step done."""
        now = time.monotonic()

        def went_on(steps: list[Step]) -> bool:
            return any(
                step.done and step.at > now and step.client != frozen.number for step in steps
            )

        self.journal.wait_until(went_on, WITHIN_S, "the other client goes on")

    def _somebody_notices(self) -> None:
        now = time.monotonic()

        def noticed(steps: list[Step]) -> bool:
            return any(
                step.ended is not None and step.ended > now and step.error == "UnavailableError"
                for step in steps
            )

        self.journal.wait_until(noticed, WITHIN_S, "the frozen task is found out")

    def _check(self) -> None:
        steps = list(self.journal.steps.values())
        program, cluster = self._program, self._cluster
        with _patient_session(cluster.target("ps:0")) as session:
            counts, global_step = session.run([program.counts, program.global_step])
            rest: list[int] = []
            if session.run(program.size):
                rest = session.run(program.rest).tolist()
        names = [cluster.full_name(task) for task in TASKS]
        names += [cluster.address(task) for task in TASKS]
        check_errors(steps, names, self._state_was_lost)
        check_training(steps, counts, int(global_step), self._initialized)
        check_queue(steps, rest, self._initialized)


@contextlib.contextmanager
def _patient_session(target: str) -> Iterator[tf.Session]:
    """Of the one who runs the chaos, for whom a task that is only slow is not frozen."""
    with _environment({"HEADRACE_FROZEN_AFTER_S": str(WITHIN_S)}), tf.Session(target) as session:
        yield session


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Any:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
