"""What steps that fail leave behind in the processes that live through it: nothing, however many and in whichever way.

Less than a tenth of what `make soak` does, which sets HEADRACE_TEST_FAILURES=10.  The tests are a file a transport
(`test_failed_steps_*.py`), so that files take turns.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import headrace as tf
from tests.serve.clusters import ProcessCluster, processes
from tests.serve.failing_client import KINDS, TENTHS, tenth_of

TIMES = int(os.environ.get("HEADRACE_TEST_FAILURES", "1"))
STEPS, DEATHS = 200 * TIMES if TIMES > 1 else 120, 7 * TIMES
KILL_NOBODY = [kind for kind in KINDS if kind not in ("blocked", "peers_gone")]
MOST_KB = 2048
AT_ONCE = (
    2  # threads or connections more that happen to be in use at the same time, however many steps
)
OF_A_CONNECTION = (
    2  # descriptors on one host: its socket, and the memory file in which tensors pass
)
SMALL, LARGE = 8, 100_000  # floats that each step is fed: a dozen of 120 that are kept are seen
HUGE = 250_000  # the same of few steps
SIZES = [SMALL, LARGE] if TIMES > 1 else [LARGE]  # both over one transport, in a soak over each
BREATH_S, AT_REST_AFTER = 0.1, 10

# What malloc keeps for the next time is not what this is about: it gives back at once what is free.
FRUGAL = {
    "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536",
}  # fmt: skip


@dataclass(frozen=True)
class Has:
    """What a process has."""

    memory_kb: int
    descriptors: int
    threads: int

    @classmethod
    def now(cls, pid: int) -> Has:
        """Source: Linux's /proc."""
        lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        status = {words[0]: words[1] for words in lines if len(words) > 1}
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        return cls(int(status["VmRSS:"]), descriptors, int(status["Threads:"]))


def at_rest(pids: dict[str, int]) -> dict[str, Has]:
    """What each has when no more goes away: what was given up is confirmed a moment later, and freed then."""
    pause = threading.Event()
    found = {name: Has.now(pid) for name, pid in pids.items()}
    for _ in range(AT_REST_AFTER):
        pause.wait(BREATH_S)
        before, found = found, {name: Has.now(pid) for name, pid in pids.items()}
        if before == found:
            break
    return found


def check(name: str, samples: list[Has], most_kb: int = MOST_KB) -> None:
    """What a process had after each tenth of the steps does not grow.

    A connection more or less at one moment is none of it: what is kept of every step only gets more.
    """
    first, last = samples[:3], samples[-3:]
    story = "\n  ".join(map(str, samples))
    grown_kb = sorted(s.memory_kb for s in last)[1] - sorted(s.memory_kb for s in first)[1]
    assert grown_kb < most_kb, f"{name} keeps {grown_kb} kB more:\n  {story}"
    for what, more in (("descriptors", AT_ONCE * OF_A_CONNECTION), ("threads", AT_ONCE)):
        before, after = (max(getattr(s, what) for s in first), min(getattr(s, what) for s in last))
        assert after <= before + more, f"{name} has {after - before} more {what}:\n  {story}"


@contextlib.contextmanager
def client(target: str, kind: str, elements: int, steps: int) -> Iterator[subprocess.Popen[str]]:
    """A failing_client, which is gone after the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serve.failing_client", target, kind, str(elements), str(steps)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def next_line(failing: subprocess.Popen[str]) -> None:
    """Block until the client has done some more."""
    assert failing.stdout is not None
    assert failing.stdout.readline(), "the client has failed"


def go_on(failing: subprocess.Popen[str]) -> None:
    """Let it."""
    assert failing.stdin is not None
    failing.stdin.write("\n")
    failing.stdin.flush()


@contextlib.contextmanager
def frugal_processes(lane: str) -> Iterator[ProcessCluster]:
    """A cluster of processes over one transport (off: gRPC)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_LANE", lane)
        for name, value in FRUGAL.items():
            patch.setenv(name, value)
        with processes({"ps": 1, "worker": 1}) as cluster:
            yield cluster


def keeps_nothing(cluster: ProcessCluster, kind: str, elements: int) -> None:
    """Steps that fail in that way leave nothing in the tasks, nor in the client."""
    every_time(lambda: _keeps_nothing(cluster, kind, elements))


def keeps_nothing_of_killed(lane: str) -> None:
    """Steps whose worker is killed leave nothing in the ps, nor in the client."""
    every_time(lambda: _keeps_nothing_of_killed(lane))


def every_time(keeps: Callable[[], None]) -> None:
    """What is kept of each step is kept of those of a second client, too.

    A process may also have more from some step on, once: on a busy machine it has more connections made, which are kept
    for a minute.
    """
    try:
        keeps()
    except AssertionError:
        keeps()


def _keeps_nothing(cluster: ProcessCluster, kind: str, elements: int) -> None:
    with client(cluster.target("worker:0"), kind, elements, STEPS) as failing:
        pids = {task: process.pid for task, process in cluster.processes.items()}
        pids["client"] = failing.pid
        samples: dict[str, list[Has]] = {name: [] for name in pids}
        for _ in range(TENTHS):
            next_line(failing)
            for name, found in at_rest(pids).items():
                samples[name].append(found)
            go_on(failing)
        assert failing.wait(60) == 0
    shared_kb = (
        AT_ONCE * 3 * elements * 4 // 1024
    )  # of a connection, with what it sends and receives
    for name, found_each in samples.items():
        check(name, found_each, MOST_KB + shared_kb)


def _keeps_nothing_of_killed(lane: str) -> None:
    samples: dict[str, list[Has]] = {"ps:0": [], "client": []}
    with (
        frugal_processes(lane) as cluster,
        client(cluster.target("ps:0"), "peers_gone", HUGE, DEATHS) as failing,
        taking_begun(cluster.target("ps:0")) as wait_for_a_step,
    ):
        pids = {"ps:0": cluster.processes["ps:0"].pid, "client": failing.pid}
        for number in range(DEATHS):
            wait_for_a_step()
            cluster.kill("worker:0")
            cluster.start("worker:0")
            if (number + 1) % tenth_of(DEATHS):
                continue
            next_line(failing)
            for name, found in at_rest(pids).items():
                samples[name].append(found)
            go_on(failing)
    for name, found_each in samples.items():
        check(name, found_each, MOST_KB * 3 // 2)  # one of each death is more


@contextlib.contextmanager
def taking_begun(target: str) -> Iterator[Callable[[], object]]:
    """What waits until a step of a failing_client has begun."""
    with tf.Graph().as_default():
        with tf.device("/job:ps"):
            begun = tf.FIFOQueue(1, [tf.int32], [[]], shared_name="began").dequeue()
        with tf.Session(target) as session:
            yield lambda: session.run(begun)
