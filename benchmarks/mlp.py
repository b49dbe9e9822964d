"""The network of the training-step rows, its data, and the same training by hand in NumPy.

784-300-100-10 with ReLU, softmax cross entropy, plain gradient descent, batches of 50; float32 throughout.
`losses` is what the libraries' results are checked against, `by_hand` the floor of their steps.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.processes import START_WITHIN_S, Process, ProcessFailed, process
from benchmarks.row import Bench

SIZES = (784, 300, 100, 10)
BATCH = 50
LEARNING_RATE = 0.01
CHECKED_STEPS = 5

Array = np.ndarray
Layers = list[tuple[Array, Array]]


def batch(seed: int = 1) -> tuple[Array, Array]:
    """Images [50, 784] float32 in [0, 1), labels [50] int32 in [0, 10)."""
    random = np.random.default_rng(seed)
    images = random.random((BATCH, SIZES[0]), np.float32)
    return images, random.integers(0, SIZES[-1], BATCH, np.int32)


def initial_layers() -> Layers:
    """(weights [in, out], bias [out]) of each layer, the same every time."""
    random = np.random.default_rng(0)
    return [
        (random.standard_normal((n, m), np.float32) * np.float32(n**-0.5), np.zeros(m, np.float32))
        for n, m in itertools.pairwise(SIZES)
    ]


def gradients(layers: Layers, images: Array, labels: Array, into: Layers) -> float:
    """Write the gradients of the layers `into` arrays of their shapes; returns the loss."""
    signals = [images]
    for weights, bias in layers[:-1]:
        signals.append(np.maximum(signals[-1] @ weights + bias, 0))
    logits = signals[-1] @ layers[-1][0] + layers[-1][1]

    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    gradient = shifted / shifted.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -float(np.log(gradient[rows, labels]).mean())
    gradient[rows, labels] -= 1
    gradient /= len(labels)

    for at in reversed(range(len(layers))):
        np.matmul(signals[at].T, gradient, out=into[at][0])
        np.sum(gradient, axis=0, out=into[at][1])
        if at:
            gradient = (gradient @ layers[at][0].T) * (signals[at] > 0)
    return loss


def like(layers: Layers) -> Layers:
    """Arrays of the same shapes."""
    return [(np.empty_like(weights), np.empty_like(bias)) for weights, bias in layers]


def train_step(layers: Layers, images: Array, labels: Array) -> float:
    """Update the layers in place; returns the loss before the update."""
    into = like(layers)
    loss = gradients(layers, images, labels, into)
    for ours, found in zip(layers, into, strict=True):
        for variable, gradient in zip(ours, found, strict=True):
            gradient *= np.float32(LEARNING_RATE)
            variable -= gradient
    return loss


def losses(steps: int) -> list[float]:
    """Loss before each of the first updates."""
    layers, data = initial_layers(), batch()
    return [train_step(layers, *data) for _ in range(steps)]


def build(tf: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """The network in a graph: its loss, and a step of gradient descent."""
    signal, (*hidden, last) = images, initial_layers()
    for weights, bias in hidden:
        signal = tf.nn.relu(tf.matmul(signal, tf.Variable(weights)) + tf.Variable(bias))
    logits = tf.matmul(signal, tf.Variable(last[0])) + tf.Variable(last[1])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    return loss, tf.train.GradientDescentOptimizer(LEARNING_RATE).minimize(loss)


def by_hand(bench: Bench) -> None:
    """The floor: nothing but the arithmetic."""
    layers, data = initial_layers(), batch()
    first = train_step(layers, *data)
    for _ in range(CHECKED_STEPS):
        last = train_step(layers, *data)
    bench.expect(last < first, True)
    bench.time(lambda: train_step(layers, *data))


def by_hand_in_processes(bench: Bench, count: int) -> None:
    """The floor of several workers that know nothing of each other: the arithmetic, on a thread of a process each."""
    with ExitStack() as stack:
        workers = [stack.enter_context(process(_WORKER)) for _ in range(count)]
        losses = [json.loads(worker.first_line(START_WITHIN_S)) for worker in workers]
        bench.expect([last < first for first, last in losses], [True] * count)
        bench.rate([partial(_turn, worker) for worker in workers], each_counts=_STEPS_OF_A_TURN)


_STEPS_OF_A_TURN = 20
_WORKER = ["env", "OPENBLAS_NUM_THREADS=1", sys.executable, "-m", "benchmarks.mlp"]


def _turn(worker: Process) -> None:
    """Have it make some steps.  Raises ProcessFailed."""
    asked, done = worker.popen.stdin, worker.popen.stdout
    assert asked is not None
    assert done is not None
    os.write(asked.fileno(), b".")
    if not os.read(done.fileno(), 1):
        raise ProcessFailed("a worker by hand has ended")


def _work() -> None:
    """What a worker by hand does: a line with its first losses, then steps for every byte of stdin until that ends."""
    layers, data = initial_layers(), batch()
    losses = [train_step(layers, *data) for _ in range(CHECKED_STEPS)]
    print(json.dumps([losses[0], losses[-1]]), flush=True)
    while os.read(sys.stdin.fileno(), 1):
        for _ in range(_STEPS_OF_A_TURN):
            train_step(layers, *data)
        os.write(sys.stdout.fileno(), b".")


if __name__ == "__main__":
    _work()
