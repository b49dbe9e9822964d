"""`python -m benchmarks.many_tasks [--tasks N ...]`: what a cluster costs by its number of tasks, drawn and in a table.

All tasks are servers of one process, which talk over the transport of the tests: messages pass through memory, each as
late as `--latency-ms` says, and are counted.  For each number of tasks a process of its own measures

    memory       of a task that has been started, and of one after the first step on all
    first step   of a new session: it initializes a variable of each task
    a step       that reads a variable of each
    connections  after that step, and of a session whose steps need four tasks only
    liveness     messages a second while nothing is asked, and while one step waits for a queue of one task
    death        of a task: after how long a session that uses it has its error, and what others notice

Exit code: 0, 1 if a measurement failed.  Needs matplotlib for the plot (the extra `plots`); without it there is none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

FROZEN_AFTER_S = "1.5"
TASKS = [8, 32, 128, 512]
STEPS = 20
WATCHED_S = 3.0
FEW = 4
WITHIN_S = 900
FIGURES = {
    "started_kb": "memory of a task, started (kB)",
    "used_kb": "after the first step (kB)",
    "first_ms": "first step (ms)",
    "step_ms": "a step (ms)",
    "connections": "connections",
    "few_connections": f"for steps on {FEW} tasks",
    "idle_messages": "messages/s, idle",
    "waiting_messages": "messages/s, one step waits",
    "death_ms": "a death is noticed (ms)",
    "others_noticed": "errors of others",
}
PLOTTED = ("first_ms", "step_ms", "used_kb", "waiting_messages")


def rss_kb() -> int:
    """Memory that this process occupies."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def measure(tasks: int, latency_s: float) -> dict[str, float]:
    """The figures, in this process."""
    import headrace as tf
    from tests.support.memory_transport import Network

    network = Network(latency_s)
    spec = {
        "ps": [f"127.0.0.1:{30_000 + task}" for task in range(tasks)],
        "worker": ["127.0.0.1:29000", "127.0.0.1:29001"],
    }
    found: dict[str, float] = {}
    with network.used():
        servers = [tf.train.Server(spec, job_name="worker", task_index=index) for index in (0, 1)]
        before = rss_kb()
        servers += [tf.train.Server(spec, job_name="ps", task_index=task) for task in range(tasks)]
        found["started_kb"] = (rss_kb() - before) / tasks
        try:
            _few(tf, network, spec, found)
            _all(tf, network, spec, found)
            found["used_kb"] = (rss_kb() - before) / tasks
            _death(tf, network, spec, found)
        finally:
            for server in servers:
                server.stop()
    return found


def _variables(tf: Any, tasks: range) -> list[Any]:
    made = []
    for task in tasks:
        with tf.device(f"/job:ps/task:{task}"):
            made.append(tf.Variable(float(task), name=f"on_{task}"))
    return made


def _few(tf: Any, network: Any, spec: Any, found: dict[str, float]) -> None:
    """Steps that need few tasks: connections, and what passes when nothing does and when one waits."""
    with tf.Graph().as_default():
        variables = _variables(tf, range(FEW))
        with tf.device("/job:ps/task:1"):
            queue = tf.FIFOQueue(1, tf.int32, [], shared_name="waited_for")
            taken, put = queue.dequeue(), queue.enqueue(1)
        begin = tf.global_variables_initializer()
        with tf.Session(f"grpc://{spec['worker'][1]}") as session:
            session.run(begin)
            session.run(variables)
            found["few_connections"] = network.connections
            found["idle_messages"] = _messages_a_second(network)
            waiting = threading.Thread(target=session.run, args=(taken,))
            waiting.start()
            found["waiting_messages"] = _messages_a_second(network)
            session.run(put)
            waiting.join()


def _messages_a_second(network: Any) -> float:
    network.reset_counts()
    time.sleep(WATCHED_S)
    return float(sum(network.messages.values())) / WATCHED_S


def _all(tf: Any, network: Any, spec: Any, found: dict[str, float]) -> None:
    """Steps on all tasks."""
    with tf.Graph().as_default():
        variables = _variables(tf, range(len(spec["ps"])))
        begin = tf.global_variables_initializer()
        start = time.perf_counter()
        with tf.Session(f"grpc://{spec['worker'][0]}") as session:
            session.run(begin)
            found["first_ms"] = (time.perf_counter() - start) * 1e3
            took_ms = []
            for _ in range(STEPS):
                start = time.perf_counter()
                got = session.run(variables)
                took_ms.append((time.perf_counter() - start) * 1e3)
            if [*map(float, got)] != [*map(float, range(len(variables)))]:
                raise RuntimeError(f"the variables are {got}")
            found["step_ms"] = statistics.median(took_ms)
            found["connections"] = network.connections


def _death(tf: Any, network: Any, spec: Any, found: dict[str, float]) -> None:
    """Two sessions with tasks of their own; one of the first's is killed while both wait in a step."""
    last = len(spec["ps"]) - 1
    with tf.Graph().as_default():
        queues = []
        for task in (last, 0):
            with tf.device(f"/job:ps/task:{task}"):
                queues.append(tf.FIFOQueue(1, tf.int32, [], shared_name=f"never_{task}"))
        doomed, spared = (queue.dequeue() for queue in queues)
        put = queues[1].enqueue(7)
        died: list[float] = []
        others: list[BaseException] = []

        def lose(session: Any) -> None:
            try:
                session.run(doomed)
            except tf.errors.OpError:
                died.append(time.perf_counter())

        def keep(session: Any) -> None:
            try:
                if session.run(spared) != 7:
                    raise RuntimeError("a wrong element")
            except BaseException as error:
                others.append(error)

        with (
            tf.Session(f"grpc://{spec['worker'][0]}") as one,
            tf.Session(f"grpc://{spec['worker'][1]}") as two,
        ):
            steps = [
                threading.Thread(target=lose, args=(one,)),
                threading.Thread(target=keep, args=(two,)),
            ]
            for step in steps:
                step.start()
            time.sleep(1.0)  # both are under way
            start = time.perf_counter()
            network.kill(spec["ps"][last])
            steps[0].join()
            two.run(put)
            steps[1].join()
        found["death_ms"] = (died[0] - start) * 1e3
        found["others_noticed"] = len(others)


def table(figures: dict[int, dict[str, float]]) -> str:
    """Markdown."""
    lines = ["| tasks | " + " | ".join(FIGURES.values()) + " |", "|--:" * (len(FIGURES) + 1) + "|"]
    for tasks, found in figures.items():
        cells = [
            f"{found[name]:,.3g}" if found[name] < 100 else f"{found[name]:,.0f}"
            for name in FIGURES
        ]
        lines.append(f"| {tasks} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(figures: dict[int, dict[str, float]], path: Path) -> None:
    """The plot, if there is matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: no plot", file=sys.stderr)
        return
    matplotlib.use("agg")
    matplotlib.rcParams.update({"svg.hashsalt": "many-tasks", "font.size": 10})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PLOTTED), figsize=(3.2 * len(PLOTTED), 3))
    for axis, name in zip(axes, PLOTTED, strict=True):
        axis.plot([*figures], [found[name] for found in figures.values()], "o-", color="#1f9d6b")
        axis.set_title(FIGURES[name], fontsize=10)
        axis.set_xscale("log", base=2)
        axis.set_xticks([*figures], [str(tasks) for tasks in figures])
        axis.set_ylim(bottom=0)
        axis.set_xlabel("tasks")
        axis.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None}, transparent=True)
    pyplot.close(figure)


def main(argv: list[str] | None = None) -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_tasks")
    parser.add_argument("--tasks", type=int, nargs="+", default=TASKS, metavar="N")
    parser.add_argument("--latency-ms", type=float, default=0.5)
    parser.add_argument("--plot", type=Path, default=Path(__file__).with_name("many-tasks.svg"))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.here:
        print(json.dumps(measure(args.tasks[0], args.latency_ms / 1e3)))
        return 0
    figures: dict[int, dict[str, float]] = {}
    for tasks in args.tasks:
        command = [sys.executable, "-m", "benchmarks.many_tasks", "--here", "--tasks", str(tasks)]
        ended = subprocess.run(
            [*command, "--latency-ms", str(args.latency_ms)], stdout=subprocess.PIPE, text=True,
            timeout=WITHIN_S, env={**os.environ, "HEADRACE_FROZEN_AFTER_S": FROZEN_AFTER_S},
        )  # fmt: skip
        if ended.returncode:
            return 1
        figures[tasks] = json.loads(ended.stdout.splitlines()[-1])
        print(tasks, figures[tasks], file=sys.stderr)
    print(table(figures))
    draw(figures, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
