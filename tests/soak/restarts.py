"""One ps that is killed and started again, over and over, under the sessions of two clients.

Each session hears of each restart once, and reads nothing before; the ps is reached at the first attempt when it is
up.  What the survivors (two workers, which are the clients' masters, and the clients) keep of all that is counted:
descriptors, threads and memory, after some restarts to warm up and at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import headrace as tf
from tests.serve.clusters import ProcessCluster, processes
from tests.serve.conftest import Background
from tests.serve.restarts import JOBS as MODEL_JOBS
from tests.serve.restarts import Model
from tests.soak import cycles
from tests.soak.restart_client import Program

ROOT = Path(__file__).resolve().parents[2]
JOBS = {"ps": 1, "worker": 2}
WARM_UP = 10
KB_PER_RESTART = 40.0  # that is more than noise
FROM_RESTARTS = 50  # on which that is judged
ROUNDS = 5
SETTINGS: tuple[dict[str, str], ...] = (
    {}, {"HEADRACE_LANE": "tcp"}, {"HEADRACE_LANE": "off"}, {"HEADRACE_DIRECT": "off"},
)  # fmt: skip


class Client:
    """A client process."""

    def __init__(self, stack: ExitStack, target: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.restart_client", target], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        )  # fmt: skip
        stack.callback(self.process.communicate)
        stack.callback(self.process.kill)
        self.hear()

    def say(self, line: str) -> None:
        """Have it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """What came of it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the client has ended"
        found: dict[str, Any] = json.loads(line)
        return found


def run(
    restarts: int, progress: Callable[[int, dict[str, cycles.Kept]], None] = lambda done, kept: None
) -> None:
    """So many restarts.  Raises AssertionError if one was not told once, or something is left behind."""
    with ExitStack() as stack:
        stack.enter_context(tf.Graph().as_default())
        cluster = stack.enter_context(processes(JOBS))
        program = Program()
        initialize(cluster, program, 0)
        clients = [Client(stack, cluster.target(f"worker:{index}")) for index in (0, 1)]
        ask(clients, "read 0")
        survivors = {
            "worker:0": cluster.processes["worker:0"].pid,
            "worker:1": cluster.processes["worker:1"].pid,
            "client 0": clients[0].process.pid,
            "client 1": clients[1].process.pid,
        }
        at_first: dict[str, cycles.Kept] = {}
        for number in range(1, restarts + 1):
            restart(cluster, program, clients, number)
            if number == min(WARM_UP, restarts // 2):
                at_first = {name: cycles.Kept.of(pid) for name, pid in survivors.items()}
            if number % 10 == 0:
                progress(number, {name: cycles.Kept.of(pid) for name, pid in survivors.items()})
        for name, pid in survivors.items():
            check(name, at_first[name], pid, restarts - min(WARM_UP, restarts // 2))


def generated(seed: int, count: int, say: Callable[[str], None]) -> None:
    """So many clusters of processes whose tasks are killed and started again out of seeds: `tests.serve.restarts`."""
    for number in range(seed, seed + count):
        settings = SETTINGS[number % len(SETTINGS)]
        say(f"restarts out of seed {number}, with {settings}")
        steps: list[Background] = []

        def start(call: Callable[[], Any], steps: list[Background] = steps) -> Background:
            steps.append(Background(call))
            return steps[-1]

        with mock.patch.dict(os.environ, settings), tf.Graph().as_default():
            with processes(MODEL_JOBS) as cluster:
                Model(cluster, number, start).run(ROUNDS)
            for step in steps:
                step.join()


def restart(cluster: ProcessCluster, program: Program, clients: list[Client], number: int) -> None:
    """Once, under blocked steps.  Raises AssertionError."""
    ask(clients, "block")
    cluster.kill("ps:0")
    cluster.start("ps:0")
    initialize(cluster, program, number)
    for answer in ask(clients, f"read {number}"):
        for raised in map(Counter[str], answer["raised"]):
            told = raised["AbortedError"] + raised["the blocked step's AbortedError"]
            others = sum(raised.values()) - told - raised["the blocked step's UnavailableError"]
            assert (told, others) == (1, 0), f"restart {number} was told so: {dict(raised)}"


def initialize(cluster: ProcessCluster, program: Program, number: int) -> None:
    """By a session of its own, which has used nothing."""
    with tf.Session(cluster.target("ps:0")) as session:
        session.run(program.init, {program.given: number})


def ask(clients: list[Client], line: str) -> list[dict[str, Any]]:
    """Both at once."""
    for client in clients:
        client.say(line)
    return [client.hear() for client in clients]


def check(name: str, at_first: cycles.Kept, pid: int, restarts: int) -> None:
    """Raises AssertionError if the process has kept something."""
    left = cycles.settled(at_first, pid)
    more = cycles.more(left, at_first)
    assert not more, f"{restarts} restarts of the ps left behind at {name}: {more}"
    grown = (left.memory_kb - at_first.memory_kb) / restarts
    assert grown < KB_PER_RESTART or restarts < FROM_RESTARTS, (
        f"each restart of the ps left {grown:.1f} kB behind at {name}"
    )
