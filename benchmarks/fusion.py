"""`python -m benchmarks.fusion [WORK ...]`: steps with and without XLA, beside TensorFlow's.

Each figure is of a process of its own: the median time of a step when all that is compiled has been, and what the first
step took.  The ways take turns, several times; printed are medians.  headrace's XLA is JAX's (`make bench-fusion`
installs it), TensorFlow's its own, asked for by global_jit_level.
Exit code: 0, 1 if a measurement failed, 2 on wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import cnn as pictures
from benchmarks import machine, models
from benchmarks.libraries import HEADRACE, TENSORFLOW, Library
from benchmarks.processes import ROOT

WITHIN_S = 300.0
WARM_RUNS, WARM_S = 100, 5.0
MOST_RUNS, LONGEST_S = 300, 2.0


class Way(NamedTuple):
    """A column."""

    title: str
    library: Library
    xla: str


WAYS = (
    Way("headrace, off", HEADRACE, "off"),
    Way("headrace, on", HEADRACE, "on"),
    Way("headrace, auto", HEADRACE, "auto"),
    Way("TensorFlow", TENSORFLOW, "off"),
    Way("TensorFlow, XLA", TENSORFLOW, "on"),
)
Made = tuple[Any, dict[Any, Any]]


def chain(tf: Any) -> Made:
    """A thousand small nodes."""
    x = tf.placeholder(tf.float32, [16])
    y = x
    for _ in range(500):
        y = y * 1.0001 + 0.5
    return y, {x: np.ones(16, np.float32)}


def elementwise(tf: Any) -> Made:
    """Ten functions of four million elements, summed up."""
    x = tf.Variable(np.linspace(-1, 1, 1 << 22).astype(np.float32))
    return tf.reduce_sum(tf.tanh(x) * 2.0 + tf.exp(-x) * x + tf.square(x)), {}


def normalized(tf: Any) -> Made:
    """A layer norm and a softmax of 256 by 512."""
    x = tf.placeholder(tf.float32, [256, 512])
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.squared_difference(x, mean), -1, keepdims=True)
    normed = (x - mean) * tf.rsqrt(variance + 1e-6) * 1.5 + 0.1
    return tf.nn.softmax(normed), {x: np.random.default_rng(0).random((256, 512), np.float32)}


def lstm(tf: Any) -> Made:
    """A training step of an LSTM by dynamic_rnn: 32 sequences of 20 steps, 64 units."""
    x = tf.placeholder(tf.float32, [32, 20, 32])
    cell = tf.nn.rnn_cell.LSTMCell(64)
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.square(outputs)))
    return train, {x: np.random.default_rng(0).random((32, 20, 32), np.float32)}


def mlp(tf: Any) -> Made:
    """A training step of an MLP: 64 rows, 256 units twice."""
    x = tf.placeholder(tf.float32, [64, 128])
    labels = tf.constant(np.arange(64) % 10)
    hidden, last = x, 128
    for number, units in enumerate((256, 256, 10)):
        weights = tf.get_variable(f"w{number}", [last, units])
        bias = tf.get_variable(f"b{number}", [units], initializer=tf.zeros_initializer())
        hidden = tf.matmul(hidden, weights) + bias
        hidden, last = (tf.nn.relu(hidden) if units > 10 else hidden), units
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
    train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(loss))
    return train, {x: np.random.default_rng(0).random((64, 128), np.float32)}


def autoencoder(tf: Any) -> Made:
    """A training step of the autoencoder that the row `autoencoder_step` is of."""
    built = models.AUTOENCODER.build(tf)
    return built.train, dict(built.feed)


def cnn(tf: Any) -> Made:
    """A training step of the network that the row `cnn_step` is of."""
    images = tf.placeholder(tf.float32, [None, pictures.SIDE, pictures.SIDE, 1])
    labels = tf.placeholder(tf.int32, [None])
    _, train = pictures.build(tf, images, labels)
    return train, dict(zip((images, labels), pictures.batch(), strict=True))


WORKS: dict[str, Callable[[Any], Made]] = {
    each.__name__: each for each in (chain, elementwise, normalized, lstm, mlp, autoencoder, cnn)
}


def measure(work: str, library: Library, xla: str) -> dict[str, float]:
    """In this process: the first step and the median of later ones, in seconds."""
    os.environ["HEADRACE_XLA"] = xla
    tf = library.load()
    config = tf.ConfigProto()
    if library is TENSORFLOW and xla == "on":
        level = tf.OptimizerOptions.ON_1
        config.graph_options.optimizer_options.global_jit_level = level
        os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit"
    fetch, fed = WORKS[work](tf)
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())
        began = time.perf_counter()
        session.run(fetch, fed)
        first_s = time.perf_counter() - began
        _warm(lambda: session.run(fetch, fed), library)
        taken: list[float] = []
        ends = time.perf_counter() + LONGEST_S
        while len(taken) < MOST_RUNS and time.perf_counter() < ends:
            began = time.perf_counter()
            session.run(fetch, fed)
            taken.append(time.perf_counter() - began)
    return {"first": first_s, "step": statistics.median(taken)}


def _warm(step: Callable[[], object], library: Library) -> None:
    """Run until all that is to be compiled has been, and it is decided what is used of it."""
    taken_s, runs = 0.0, 0
    while runs < WARM_RUNS or (library is HEADRACE and taken_s < WARM_S):
        began = time.perf_counter()
        step()
        taken_s, runs = taken_s + time.perf_counter() - began, runs + 1
        if library is HEADRACE:
            from headrace.run.exec.fused import compiler

            compiler.wait(WITHIN_S)


def measured(work: str, way: Way) -> dict[str, float] | None:
    """The same in a process of its own; None if that fails."""
    python = sys.executable if way.library is HEADRACE else os.environ["HEADRACE_ORACLE_PYTHON"]
    arguments = ["-m", "benchmarks.fusion", "--measure", work, way.library.name, way.xla]
    done = subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "HEADRACE_MEASURED": "off"},
    )
    if done.returncode:
        print(f"{work}, {way.title}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> int:
    """See the module header."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion")
    parser.add_argument("works", nargs="*", metavar="WORK", help=", ".join(WORKS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.measure:
        work, library, xla = given.measure
        found = measure(work, HEADRACE if library == HEADRACE.name else TENSORFLOW, xla)
        print(json.dumps(found))
        return 0
    unknown = set(given.works) - set(WORKS)
    if unknown:
        parser.error(f"no such work: {', '.join(sorted(unknown))}")
    if warning := machine.busy():
        print(warning)
    failed = False
    print("| step (first step) |", " | ".join(way.title for way in WAYS), "|")
    print("|---" * (len(WAYS) + 1) + "|")
    for work in given.works or WORKS:
        found: dict[Way, list[dict[str, float]]] = {way: [] for way in WAYS}
        for _ in range(given.runs):
            for way in WAYS:
                result = measured(work, way)
                failed = failed or result is None
                if result is not None:
                    found[way].append(result)
        cells = []
        for results in found.values():
            step, first = (
                statistics.median(each[key] for each in results) * 1e6 if results else float("nan")
                for key in ("step", "first")
            )
            cells.append(f"{step:,.0f} µs ({first / 1e3:,.0f} ms)")
        print(f"| `{work}` |", " | ".join(cells), "|", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
