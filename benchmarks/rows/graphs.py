"""Graphs of many small nodes: to build them, to run them for the first time, and to run them again."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.row import FEWEST_SAMPLES, Bench, Floor, row

NODES = 3000


def _layers(tf: Any, nodes: int) -> tuple[Any, Any, Any]:
    """(graph, placeholder, last tensor) of so many nodes, a third of them constants."""
    graph = tf.Graph()
    with graph.as_default():
        x = last = tf.placeholder(tf.float32, [])
        for _ in range(nodes // 3):
            last = tf.tanh(last * 0.5)
    return graph, x, last


def _in_numpy(nodes: int, x: float) -> np.float32:
    value = np.float32(x)
    for _ in range(nodes // 3):
        value = np.tanh(value * np.float32(0.5))
    return value


@row("build a graph of 3,000 nodes", faster=6)
def build_graph(tf: Any, bench: Bench, nodes: int = NODES) -> None:
    """x = tanh(x * 0.5), again and again: a constant and two operations each."""
    graph, _, last = _layers(tf, nodes)
    bench.expect(len(graph.get_operations()), nodes // 3 * 3 + 1)
    bench.expect(last.shape.as_list(), [])
    bench.time(lambda: _layers(tf, nodes))


@row("its first run", faster=6)
def first_run(tf: Any, bench: Bench, nodes: int = NODES) -> None:
    """The same graph in a session that has not seen it: all that comes before the step, and the step."""
    graph, x, last = _layers(tf, nodes)
    took_s: list[float] = []
    end = time.perf_counter() + bench.seconds
    while len(took_s) < FEWEST_SAMPLES or time.perf_counter() < end:
        with tf.Session(graph=graph) as session:
            start = time.perf_counter()
            got = session.run(last, {x: 0.5})
            took_s.append(time.perf_counter() - start)
        bench.expect(got, _in_numpy(nodes, 0.5), relative=1e-5)
    bench.record(statistics.median(took_s))


def _chain_by_hand(bench: Bench) -> None:
    first, other = np.full(10, 0.5, np.float32), np.full(10, 1.25, np.float32)

    def step() -> Any:
        value = first
        for _ in range(250):
            value = np.tanh((value * other + other) - other)
        return value

    wanted = 0.5
    for _ in range(250):
        wanted = math.tanh(wanted * 1.25 + 1.25 - 1.25)
    bench.expect(step(), np.full(10, wanted), relative=1e-4)
    bench.time(step)


CALLS = Floor("the same calls of NumPy in a row", _chain_by_hand)


@row("chain of 1,000 small operations", faster=0.9, floors=[CALLS])
def chain(tf: Any, bench: Bench, nodes: int = 1000) -> None:
    """Sums, differences, products and tanhs of 10 floats, each of the one before and of a feed; nothing is constant."""
    x, y = (tf.placeholder(tf.float32, [10]) for _ in range(2))
    last, value = x, np.full(10, 0.5, np.float32)
    other = np.full(10, 1.25, np.float32)
    steps = [lambda a, b: a * b, lambda a, b: a + b, lambda a, b: a - b]
    for number in range(nodes):
        if number % 4 == 3:
            last, value = tf.tanh(last), np.tanh(value)
        else:
            last, value = (steps[number % 4](*pair) for pair in ((last, y), (value, other)))
    feed = {x: np.full(10, 0.5, np.float32), y: other}
    with tf.Session() as session:
        bench.expect(session.run(last, feed), value, relative=1e-4)
        bench.time(lambda: session.run(last, feed))
