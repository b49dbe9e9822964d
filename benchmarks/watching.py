"""`python -m benchmarks.watching [WORK ...]`: what being watched costs a busy cluster, in its servers' processor time.

Two clusters of a ps and a worker do the same work at the same time; one of them is watched, by `headrace top` or by an
open page of `headrace dashboard`, which look once a second.  After half of the time they change places.  Counted is
what processors did for the servers, for each step: whatever else the machine does concerns both alike.  The cost is the
mean of both halves.  Tasks go on counting steps for a while when nobody looks any more, so they are left alone between.
Two clusters at the same work differ by a hundredth or two, so the looks are counted by themselves, too: what servers
take whose clients are gone, watched and left alone, as a share of what they take at work.
Exit code: 0, 1 if a measurement failed or a cost is above --most, 2 on wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import machine, mlp
from benchmarks.libraries import HEADRACE
from benchmarks.lifeline import end_with_stdin
from benchmarks.processes import ROOT, ProcessFailed, Servers, cluster, process

JOBS = {"ps": 1, "worker": 1}
SETTLE_S = 16.0  # longer than tasks count steps for nobody
START_WITHIN_S = 60.0
_BEGIN_S = 4.0
COMMAND = (sys.executable, "-m", "headrace.tools.main")


# -- what clients do --------------------------------------------------------------------------------


def _updates(tf: Any) -> tuple[Any, dict[Any, Any]]:
    """The shortest step: a number of the ps, which is asked for without the master."""
    with tf.device("/job:ps/task:0"):
        return tf.train.get_or_create_global_step().assign_add(1), {}


def _training(tf: Any) -> tuple[Any, dict[Any, Any]]:
    """A step of the MLP of the table: the worker computes with variables of the ps."""
    with tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")):
        images = tf.placeholder(tf.float32, [None, mlp.SIZES[0]])
        labels = tf.placeholder(tf.int32, [None])
        _, train = mlp.build(tf, images, labels)
        with tf.control_dependencies([train]):
            counted = tf.train.get_or_create_global_step().assign_add(1)
    return counted, dict(zip((images, labels), mlp.batch(), strict=True))


WORKS: dict[str, Callable[[Any], tuple[Any, dict[Any, Any]]]] = {
    "updates": _updates,
    "training": _training,
}


def client(work: str, target: str, first: str) -> None:
    """Step after step, until the lifeline is cut; says when it has begun."""
    end_with_stdin()
    tf = HEADRACE.load()
    step, feed = WORKS[work](tf)
    with tf.Session(target) as session:
        if first == "first":
            session.run(tf.global_variables_initializer())
        session.run(step, feed)
        print("steps", flush=True)
        while True:
            session.run(step, feed)


# -- what is counted --------------------------------------------------------------------------------


def cpu_s(pid: int) -> float:
    """Seconds of processor of a process since it began.  Source: proc(5) stat."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Busy:
    """A cluster whose clients are at work.  steps: how many they have made.  clients: closed when they are to go."""

    servers: Servers
    steps: Callable[[], int]
    clients: ExitStack

    @property
    def target(self) -> str:
        """Of the worker."""
        return f"grpc://{self.servers.addresses['worker'][0]}"

    def cpu_s(self) -> float:
        """Of all servers."""
        return sum(cpu_s(pid) for pids in self.servers.pids.values() for pid in pids)


@contextmanager
def busy(work: str, clients: int) -> Iterator[Busy]:
    """A cluster at work, for as long as the block lasts."""
    tf = HEADRACE.load()
    with ExitStack() as stack:
        servers = stack.enter_context(cluster(HEADRACE, JOBS))
        target = f"grpc://{servers.addresses['worker'][0]}"
        at_work = stack.enter_context(ExitStack())
        for number in range(clients):
            words = ("client", work, target, "first" if number == 0 else "more")
            started = at_work.enter_context(
                process([sys.executable, "-m", "benchmarks.watching", *words])
            )
            started.first_line(START_WITHIN_S)
        graph = stack.enter_context(tf.Graph().as_default())
        with tf.device("/job:ps/task:0"):
            count = tf.train.get_or_create_global_step()
        session = stack.enter_context(tf.Session(target, graph=graph))
        yield Busy(servers, lambda: int(session.run(count)), at_work)


def cost_of_a_step(clusters: Sequence[Busy], seconds: float) -> list[tuple[float, float]]:
    """For each cluster at the same time: seconds of processor of a step, and steps a second.  Raises ProcessFailed."""
    before = [(each.cpu_s(), each.steps()) for each in clusters]
    begin = time.perf_counter()
    threading.Event().wait(seconds)
    after = [(each.cpu_s(), each.steps()) for each in clusters]
    took_s = time.perf_counter() - begin
    found = []
    for (cpu_0, steps_0), (cpu_1, steps_1) in zip(before, after, strict=True):
        if steps_1 <= steps_0:
            raise ProcessFailed("the clients have made no step")
        found.append(((cpu_1 - cpu_0) / (steps_1 - steps_0), (steps_1 - steps_0) / took_s))
    return found


def cost_of_looks(cluster: Busy, watcher: str, seconds: float, begin_s: float) -> float:
    """Seconds of processor a second that the servers of a cluster without clients take for being looked at.

    begin_s: after which the watcher's own beginning is over.
    """
    took_s = []
    for watch in (nullcontext, WATCHERS[watcher]):
        with watch(cluster.target):
            threading.Event().wait(begin_s)
            before_s = cluster.cpu_s()
            threading.Event().wait(seconds)
            took_s.append(cluster.cpu_s() - before_s)
    return (took_s[1] - took_s[0]) / seconds


# -- who watches ------------------------------------------------------------------------------------


@contextmanager
def by_top(target: str) -> Iterator[None]:
    """`headrace top`, for a screen that nobody sees."""
    with subprocess.Popen([*COMMAND, "top", target], stdout=subprocess.DEVNULL, cwd=ROOT) as top:
        try:
            yield
            if top.poll() is not None:
                raise ProcessFailed(f"headrace top ended with exit code {top.returncode}")
        finally:
            top.terminate()


@contextmanager
def by_page(target: str) -> Iterator[None]:
    """`headrace dashboard`, and a page that is open."""
    command = [*COMMAND, "dashboard", target, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as served:
        try:
            assert served.stdout is not None
            url = served.stdout.readline().split()[-1]
            looks = 0

            def read() -> None:
                nonlocal looks
                with urllib.request.urlopen(f"{url}events") as events:
                    for line in events:
                        looks += line.startswith(b"event: view")

            threading.Thread(target=read, daemon=True).start()
            yield
            if not looks:
                raise ProcessFailed("the page has shown nothing")
        finally:
            served.terminate()


WATCHERS: dict[str, Callable[[str], AbstractContextManager[None]]] = {
    "top": by_top,
    "page": by_page,
}


# -- the whole --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """rate: steps a second of a cluster that nobody watches; step_s: their processor time.  costs: of each half.

    looks_s: of processor a second, for the looks alone.
    """

    rate: float
    step_s: float
    costs: Sequence[float]
    looks_s: float

    @property
    def cost(self) -> float:
        """More processor time, as a share."""
        return math.exp(sum(math.log1p(each) for each in self.costs) / len(self.costs)) - 1

    @property
    def looks(self) -> float:
        """What the looks alone cost, as a share of what the steps do."""
        return self.looks_s / (self.rate * self.step_s)


def measure(work: str, watcher: str, clients: int, seconds: float, settle_s: float) -> Found:
    """Both halves.  Raises ProcessFailed."""
    costs, alone = [], []
    with busy(work, clients) as one, busy(work, clients) as other:
        clusters = [one, other]
        for watched in range(2):
            threading.Event().wait(settle_s)
            with WATCHERS[watcher](clusters[watched].target):
                found = cost_of_a_step(clusters, seconds / 2)
            costs.append(found[watched][0] / found[1 - watched][0] - 1)
            alone.append(found[1 - watched])
        for each in clusters:
            each.clients.close()
        threading.Event().wait(settle_s)
        looks_s = cost_of_looks(one, watcher, seconds / 2, min(settle_s, _BEGIN_S))
    rates, steps_s = zip(*((rate, step_s) for step_s, rate in alone), strict=True)
    return Found(sum(rates) / 2, sum(steps_s) / 2, costs, looks_s)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parsed and checked; ends the process on an error, as argparse does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watching", description=__doc__)
    add = parser.add_argument
    add("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}; all without")
    add("--seconds", type=float, default=60.0, help="of watching, both halves (default 60)")
    add("--settle", type=float, default=SETTLE_S, help=f"before each (default {SETTLE_S:g})")
    add("--clients", type=int, default=1, help="of each cluster (default 1)")
    add("--by", choices=list(WATCHERS), action="append", help="who watches; each in turn without")
    add("--most", type=float, default=0.01, help="the share that it may cost (default 0.01)")
    found = parser.parse_args(argv)
    for name in found.works:
        if name not in WORKS:
            parser.error(f"there is no work {name!r}; there is {', '.join(WORKS)}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """As the module says."""
    args = arguments(argv)
    print(machine.hardware())
    if warning := machine.busy():
        print(warning)
    print(
        f"{'work':<10} {'watched by':<10} {'steps/s':>9} {'CPU a step':>11} {'looks':>8} {'cost':>8}  of each half"
    )
    most = 0.0
    for work in args.works or WORKS:
        for watcher in args.by or WATCHERS:
            try:
                found = measure(work, watcher, args.clients, args.seconds, args.settle)
            except ProcessFailed as failed:
                print(f"{work:<10} {watcher:<10} {failed}")
                return 1
            halves = ", ".join(f"{each:+.2%}" for each in found.costs)
            cpu = f"{found.step_s * 1e6:.1f} µs"
            figures = f"{cpu:>11} {found.looks:>8.2%} {found.cost:>+8.2%}"
            print(
                f"{work:<10} {watcher:<10} {found.rate:>9,.0f} {figures}  {halves}",
                flush=True,
            )
            most = max(most, found.cost)
    return int(most > args.most)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(*sys.argv[2:])
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
