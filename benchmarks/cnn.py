"""The convolutional network of the training rows: two convolutions with pooling, two dense layers, Adam.

`products_alone` is the floor of its step: the matrix products that it is made of, and a pass over what Adam keeps.

Used by: rows.arithmetic.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.row import Bench

BATCH = 50
SIDE = 28
CLASSES = 10
CHECKED_STEPS = 5
PARAMETERS = 5 * 5 * 32 + 32 + 5 * 5 * 32 * 64 + 64 + 7 * 7 * 64 * 1024 + 1024 + 1024 * 10 + 10
PRODUCTS = (  # rows, what is summed up, columns
    (BATCH * 28 * 28, 25, 32),
    (25, BATCH * 28 * 28, 32),  # the filter's gradient
    (
        BATCH * 14 * 14,
        5 * 32,
        5 * 64,
    ),  # one dimension of the window side by side: OpenBLAS likes wide products
    (BATCH * 14 * 14, 5 * 64, 5 * 32),
    (5 * 32, BATCH * 14 * 14, 5 * 64),
    (BATCH, 7 * 7 * 64, 1024),
    (7 * 7 * 64, 1024, BATCH),
    (7 * 7 * 64, BATCH, 1024),
)
PARTS, THREADS = 8, 2


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images [50, 28, 28, 1] and labels [50], the same in every process."""
    random = np.random.default_rng(2)
    images = random.random((BATCH, SIDE, SIDE, 1), np.float32)
    return images, random.integers(0, CLASSES, BATCH).astype(np.int32)


def build(tf: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """The loss, and a step of Adam: 5x5 convolutions to 32 and 64 channels, each with 2x2 pooling, 1024 units, 10."""
    random = np.random.default_rng(1)

    def variable(*shape: int) -> Any:
        width = np.sqrt(2 / np.prod(shape[:-1])) if len(shape) > 1 else 0.0
        return tf.Variable((random.standard_normal(shape) * width).astype(np.float32))

    signal = images
    for channels, filters in ((1, 32), (32, 64)):
        made = tf.nn.conv2d(signal, variable(5, 5, channels, filters), [1, 1, 1, 1], "SAME")
        active = tf.nn.relu(tf.nn.bias_add(made, variable(filters)))
        signal = tf.nn.max_pool(active, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(signal, [-1, 7 * 7 * 64])
    hidden = tf.nn.relu(tf.matmul(flat, variable(7 * 7 * 64, 1024)) + variable(1024))
    logits = tf.matmul(hidden, variable(1024, CLASSES)) + variable(CLASSES)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return loss, tf.train.AdamOptimizer(1e-4).minimize(loss)


def _thread_share(number: int) -> Callable[[], float]:
    """What one of THREADS does in a step; gives an element of a product of ones.

    Windows of images are laid out once and stay in the cache; each part of the dense layer's weights has memory of its
    own.
    """
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for rows, summed, columns in PRODUCTS:
        if rows >= summed:
            rows //= PARTS
        else:
            summed //= PARTS
        out = np.empty((rows, columns), np.float32)
        for place in range(number, PARTS, THREADS):
            if place == number or 1024 in (rows, summed, columns):  # weights that no cache holds
                a, b = np.ones((rows, summed), np.float32), np.ones((summed, columns), np.float32)
            steps.append((a, b, out))
    kept = [np.zeros(PARAMETERS // THREADS, np.float32) for _ in range(3)]
    one = np.float32(1)

    def step() -> float:
        for a, b, out in steps:
            np.matmul(a, b, out=out)
        for array in kept:
            np.add(array, one, out=array)
        return float(steps[-1][2][-1, -1])

    return step


def products_alone(bench: Bench) -> None:
    """The products of a step, laid out beforehand, in parts of which each thread has half and never waits for another.

    Then a pass over the variables and what Adam keeps of them.
    """
    from headrace.run import (
        blas,
    )  # TensorFlow's process, which reads this file too, has no headrace

    own, other = (_thread_share(number) for number in range(THREADS))
    asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
    done: queue.SimpleQueue[float] = queue.SimpleQueue()

    def help() -> None:
        while asked.get():
            done.put(other())

    def step() -> tuple[float, float]:
        asked.put(True)
        return own(), done.get()

    helper = threading.Thread(target=help, daemon=True)
    helper.start()
    with blas.threads(1):
        bench.expect(step(), (BATCH, BATCH))
        bench.time(step)
    asked.put(False)
    helper.join()
