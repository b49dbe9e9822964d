"""`python -m benchmarks.watching [WORK ...]`: what being watched costs a busy cluster, in its servers' processor time.

A cluster of a ps and a worker is at work.  By turns of a second it is watched and not: at the beginning of a watched
turn comes the one look that `headrace top` and an open page take in a second, and until its end tasks count their
steps.  Counted is what processors did for the servers, for each step; each watched turn is compared with the one beside
it, so that nothing else a machine does weighs on one more than on the other, and the cost is the mean of the pairs,
with its standard error.  Then `headrace top` and the page themselves watch the cluster when its clients are gone: what
that takes of the servers, as a share of what they take at work.
Exit code: 0, 1 if a measurement failed or a cost is above --most, 2 on wrong arguments, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import machine, mlp
from benchmarks.libraries import HEADRACE
from benchmarks.lifeline import end_with_stdin
from benchmarks.processes import ROOT, ProcessFailed, Servers, cluster, process

if TYPE_CHECKING:
    from headrace.tools.inspection.snapshot import Observer

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
    """Seconds of processor of a process since it began.  Source: clock_getcpuclockid(3), of all its threads."""
    return time.clock_gettime((~pid << 3) | 2)


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


def cost_of_a_step(
    cluster: Busy, seconds: float, observer: Observer | None = None
) -> tuple[float, float]:
    """Seconds of processor of a step, and steps a second.  observer: looks once.  Raises ProcessFailed.

    Clients that have not got to a step meanwhile, on a busy machine, get more time.
    """
    before_s, before, begin = cluster.cpu_s(), cluster.steps(), time.perf_counter()
    if observer is not None:
        observer.look(count_for_s=seconds)
    end, steps = begin, 0
    while steps <= 0:
        end += seconds
        if end - begin > max(seconds, START_WITHIN_S):
            raise ProcessFailed("the clients have made no step")
        threading.Event().wait(end - time.perf_counter())
        cpu_s, steps = cluster.cpu_s() - before_s, cluster.steps() - before
    return cpu_s / steps, steps / (time.perf_counter() - begin)


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
            shown = threading.Event()

            def read() -> None:
                with urllib.request.urlopen(f"{url}events") as events:
                    for line in events:
                        if line.startswith(b"event: view"):
                            shown.set()

            threading.Thread(target=read, daemon=True).start()
            if not shown.wait(START_WITHIN_S):
                raise ProcessFailed("the page has shown nothing")
            yield
        finally:
            served.terminate()


WATCHERS: dict[str, Callable[[str], AbstractContextManager[None]]] = {
    "top": by_top,
    "page": by_page,
}


# -- the whole --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """rate: steps a second of a cluster that nobody watches; step_s: their processor time.  costs: of each pair.

    looks_s: of processor a second, for the looks alone, by who took them.
    """

    rate: float
    step_s: float
    costs: Sequence[float]
    looks_s: Mapping[str, float]

    @property
    def cost(self) -> float:
        """More processor time, as a share."""
        return math.expm1(statistics.fmean(map(math.log1p, self.costs)))

    @property
    def error(self) -> float:
        """The standard error of the cost."""
        return statistics.stdev(self.costs) / math.sqrt(len(self.costs))

    def looks(self, watcher: str) -> float:
        """What the looks alone cost, as a share of what the steps do."""
        return self.looks_s[watcher] / (self.rate * self.step_s)


def measure(work: str, watchers: Sequence[str], args: argparse.Namespace) -> Found:
    """All of a work.  Raises ProcessFailed."""
    from headrace.tools.inspection.snapshot import Observer

    alone, costs = [], []
    with busy(work, args.clients) as cluster:
        with Observer(cluster.target) as observer:
            for pair in range(max(2, round(args.seconds / args.turn))):
                turns = {}
                for watched in (pair % 2 == 0, pair % 2 == 1):
                    turns[watched] = cost_of_a_step(
                        cluster, args.turn, observer if watched else None
                    )
                alone.append(turns[False])
                costs.append(turns[True][0] / turns[False][0] - 1)
        cluster.clients.close()
        looks_s = {}
        for watcher in watchers:
            threading.Event().wait(args.settle)
            looks_s[watcher] = cost_of_looks(
                cluster, watcher, args.seconds / 3, min(args.settle, _BEGIN_S)
            )
    steps_s, rates = zip(*alone, strict=True)
    return Found(statistics.fmean(rates), statistics.fmean(steps_s), costs, looks_s)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parsed and checked; ends the process on an error, as argparse does."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.watching", description=__doc__)
    add = parser.add_argument
    add("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}; all without")
    add("--seconds", type=float, default=60.0, help="of watching (default 60)")
    add("--turn", type=float, default=1.0, help="seconds, watched or not (default 1)")
    add(
        "--settle",
        type=float,
        default=SETTLE_S,
        help=f"before each who looks (default {SETTLE_S:g})",
    )
    add("--clients", type=int, default=1, help="of the cluster (default 1)")
    add("--by", choices=list(WATCHERS), action="append", help="whose looks; each in turn without")
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
    watchers = args.by or list(WATCHERS)
    heads = "".join(f"{f'looks of {each}':>15}" for each in watchers)
    print(f"{'work':<10}{'steps/s':>9}{'CPU a step':>12}{heads}{'cost':>9}")
    most = 0.0
    for work in args.works or WORKS:
        try:
            found = measure(work, watchers, args)
        except ProcessFailed as failed:
            print(f"{work:<10}{failed}")
            return 1
        looks = "".join(f"{found.looks(each):>15.2%}" for each in watchers)
        cpu = f"{found.step_s * 1e6:.1f} µs"
        cost = f"{found.cost:>+9.2%} ± {found.error:.2%}"
        print(f"{work:<10}{found.rate:>9,.0f}{cpu:>12}{looks}{cost}", flush=True)
        most = max(most, found.cost)
    return int(most > args.most)


if __name__ == "__main__":
    if sys.argv[1:2] == ["client"]:
        client(*sys.argv[2:])
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
