"""The convolutional network of the training rows: two convolutions with pooling, two dense layers, Adam.

Used by: rows.arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BATCH = 50
SIDE = 28
CLASSES = 10
CHECKED_STEPS = 5


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
