"""Crowds: many sessions on one server, variables and queues, graphs of many nodes: what they take in time and memory.

A run takes TensorFlow some ten seconds, so there are two of each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.row import Bench, Unit, row
from benchmarks.rows.graphs import _in_numpy, _layers

CLUSTER = {"ps": 1}
RUNS = 2


def resident() -> int:
    """Bytes of memory that this process occupies."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) * 1024


# -- sessions ---------------------------------------------------------------------------------------


@contextmanager
def _sessions(tf: Any, bench: Bench) -> Iterator[Any]:
    """What makes one more session, which has run a step; all are closed at the end."""
    with tf.device("/job:ps/task:0"):
        x = tf.Variable(42.0)
    with ExitStack() as stack:

        def another(initialize: bool = False) -> Any:
            session = tf.Session(bench.target("ps"))
            stack.callback(session.close)
            if initialize:
                session.run(x.initializer)
            return session.run(x)

        bench.expect(another(initialize=True), 42.0)
        yield another


@row("to make 1,000 sessions on one server, with a step each", cluster=CLUSTER, most_runs=RUNS)
def many_sessions(tf: Any, bench: Bench, many: int = 1000) -> None:
    """All of them stay; a step reads a variable that they share."""
    with _sessions(tf, bench) as another:
        start = time.perf_counter()
        for _ in range(many):
            another()
        took_s = time.perf_counter() - start
        bench.expect(another(), 42.0)
        bench.record(took_s)


@row("memory of the server for them", unit=Unit.BYTES, cluster=CLUSTER, most_runs=RUNS)
def many_sessions_memory(tf: Any, bench: Bench, many: int = 1000) -> None:
    """Resident bytes that its process has grown by since the first of them."""
    with _sessions(tf, bench) as another:
        before = bench.memory("ps")
        for _ in range(many):
            bench.expect(another(), 42.0)
        bench.record(bench.memory("ps") - before)


# -- variables and queues -----------------------------------------------------------------------------


def _state(tf: Any, many: int) -> tuple[Any, Any, Any]:
    """(what makes them, what uses all, the last variable) of half as many variables, and queues."""
    with tf.device("/job:ps/task:0"):
        variables = [
            tf.get_variable(f"v{n}", [], initializer=tf.zeros_initializer())
            for n in range(many // 2)
        ]
        queues = [
            tf.FIFOQueue(10, [tf.float32], [[]], shared_name=f"q{n}") for n in range(many // 2)
        ]
        made = tf.group(
            *[each.initializer for each in variables], *[each.enqueue(1.0) for each in queues]
        )
        used = tf.group(
            *[tf.assign_add(each, 1.0) for each in variables], *[each.size().op for each in queues]
        )
    return made, used, variables[-1]


@row("10,000 variables and queues: the step that makes them", cluster=CLUSTER, most_runs=RUNS)
def many_resources(tf: Any, bench: Bench, many: int = 10_000) -> None:
    """The first step of a session: its graph is shipped and planned, variables are set, queues get an element."""
    made, _, last = _state(tf, many)
    with tf.Session(bench.target("ps")) as session:
        start = time.perf_counter()
        session.run(made)
        took_s = time.perf_counter() - start
        bench.expect(session.run(last), 0.0)
        bench.record(took_s)


@row("a step that uses all of them", cluster=CLUSTER, most_runs=RUNS)
def many_resources_step(tf: Any, bench: Bench, many: int = 10_000) -> None:
    """It adds to every variable, and asks every queue for its size."""
    made, used, last = _state(tf, many)
    with tf.Session(bench.target("ps")) as session:
        session.run(made)
        bench.expect(session.run(last), 0.0)
        calls = bench.time(lambda: session.run(used))
        bench.expect(session.run(last), float(calls))


@row(
    "memory of the server for them and their graph",
    unit=Unit.BYTES,
    cluster=CLUSTER,
    most_runs=RUNS,
)
def many_resources_memory(tf: Any, bench: Bench, many: int = 10_000) -> None:
    """Resident bytes that its process has grown by, after the step that makes them."""
    made, _, last = _state(tf, many)
    with tf.Graph().as_default(), tf.Session(bench.target("ps")) as session:
        bench.expect(session.run(tf.constant(1.0) + 1.0), 2.0)  # what any step has loaded
    before = bench.memory("ps")
    with tf.Session(bench.target("ps")) as session:
        session.run(made)
        bench.expect(session.run(last), 0.0)
        bench.record(bench.memory("ps") - before)


# -- graphs -------------------------------------------------------------------------------------------


@row("build a graph of 100,000 nodes", most_runs=RUNS)
def large_graph(tf: Any, bench: Bench, many: int = 100_000) -> None:
    """x = tanh(x * 0.5), again and again: a constant and two operations each."""
    start = time.perf_counter()
    graph, _, last = _layers(tf, many)
    took_s = time.perf_counter() - start
    bench.expect(len(graph.get_operations()), many // 3 * 3 + 1)
    bench.expect(last.shape.as_list(), [])
    bench.record(took_s)


@row("its first run, of all nodes", most_runs=RUNS)
def large_graph_run(tf: Any, bench: Bench, many: int = 100_000) -> None:
    """In a session that has not seen it: all that comes before the step, and the step."""
    graph, x, last = _layers(tf, many)
    with tf.Session(graph=graph) as session:
        start = time.perf_counter()
        got = session.run(last, {x: 0.5})
        took_s = time.perf_counter() - start
    bench.expect(got, _in_numpy(many, 0.5), relative=1e-5)
    bench.record(took_s)


@row("memory of the process for both", unit=Unit.BYTES, most_runs=RUNS)
def large_graph_memory(tf: Any, bench: Bench, many: int = 100_000) -> None:
    """Resident bytes that it has grown by, with the graph and after the first run, since a run of a small one."""
    small, x, last = _layers(tf, 30)
    with tf.Session(graph=small) as session:
        bench.expect(session.run(last, {x: 0.5}), _in_numpy(30, 0.5), relative=1e-5)
    before = resident()
    graph, x, last = _layers(tf, many)
    with tf.Session(graph=graph) as session:
        bench.expect(session.run(last, {x: 0.5}), _in_numpy(many, 0.5), relative=1e-5)
        bench.record(resident() - before)
