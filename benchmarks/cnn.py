"""The convolutional network of the training rows: two convolutions with pooling, two dense layers, Adam.

`LOSSES` is what every subject's first steps are checked against, `by_hand` the floor of its step.

Used by: rows.arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import cnn_by_hand
from benchmarks.row import Bench

BATCH = 50
SIDE = 28
CLASSES = 10
LOSSES = (2.55229, 2.21179, 2.12946, 2.07161, 1.97090)  # before each of the first steps
CLOSE = 1e-4  # relative: subjects add up in orders of their own


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images [50, 28, 28, 1] and labels [50], the same in every process."""
    random = np.random.default_rng(2)
    images = random.random((BATCH, SIDE, SIDE, 1), np.float32)
    return images, random.integers(0, CLASSES, BATCH).astype(np.int32)


def initial_variables() -> list[np.ndarray]:
    """Weights and bias of each layer, the same in every process."""
    random = np.random.default_rng(1)

    def variable(*shape: int) -> np.ndarray:
        width = np.sqrt(2 / np.prod(shape[:-1])) if len(shape) > 1 else 0.0
        return (random.standard_normal(shape) * width).astype(np.float32)

    weights = ((5, 5, 1, 32), (5, 5, 32, 64), (7 * 7 * 64, 1024), (1024, CLASSES))
    return [variable(*of_one) for shape in weights for of_one in (shape, shape[-1:])]


def build(tf: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """The loss, and a step of Adam: 5x5 convolutions to 32 and 64 channels, each with 2x2 pooling, 1024 units, 10."""
    variables = [tf.Variable(value) for value in initial_variables()]
    signal = images
    for filters, bias in (variables[:2], variables[2:4]):
        made = tf.nn.conv2d(signal, filters, [1, 1, 1, 1], "SAME")
        active = tf.nn.relu(tf.nn.bias_add(made, bias))
        signal = tf.nn.max_pool(active, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(signal, [-1, 7 * 7 * 64])
    dense, dense_bias, last, last_bias = variables[4:]
    hidden = tf.nn.relu(tf.matmul(flat, dense) + dense_bias)
    logits = tf.matmul(hidden, last) + last_bias
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return loss, tf.train.AdamOptimizer(1e-4).minimize(loss)


def by_hand(bench: Bench) -> None:
    """The floor: the same step in NumPy, for this network alone."""
    # TensorFlow's process, which reads this file too, has no headrace.
    from headrace.run.exec import blas

    with blas.threads(1), cnn_by_hand.Step(*batch(), initial_variables()) as step:
        bench.expect([step() for _ in LOSSES], LOSSES, relative=CLOSE)
        bench.time(step)
