"""The parts of the graph that the demo's programs share, built alike in each of them.

State is shared by name: every program that builds `examples_queue` gets the one queue on the
parameter server, and every program that builds `network` the same variables.

Called by: loader, trainer, evaluate, run (the depth of the queue).
"""

from __future__ import annotations

from typing import Any

import headrace as tf
from headrace.tools.demo.data import PIXELS

CLASSES = 10
HIDDEN = (128, 64)
PS = "/job:ps/task:0"
QUEUE = "examples"
CAPACITY = 2000
MIN_AFTER_DEQUEUE = 500


def examples_queue() -> Any:
    """The shuffle queue on the ps; its elements are (pixels float32 [64], label int32 [])."""
    with tf.device(PS):
        return tf.RandomShuffleQueue(
            capacity=CAPACITY,
            min_after_dequeue=MIN_AFTER_DEQUEUE,
            dtypes=[tf.float32, tf.int32],
            shapes=[[PIXELS], []],
            shared_name=QUEUE,
            name=QUEUE,
        )


def _dense(x: Any, name: str, inputs: int, outputs: int) -> Any:
    with tf.variable_scope(name):
        weights = tf.get_variable(
            "weights",
            [inputs, outputs],
            initializer=tf.truncated_normal_initializer(stddev=(2.0 / inputs) ** 0.5),
        )
        biases = tf.get_variable("biases", [outputs], initializer=tf.zeros_initializer())
        return tf.matmul(x, weights) + biases


def network(pixels: Any, noise: float = 0.0) -> Any:
    """pixels [n, 64] in 0..16 -> logits [n, 10].

    `noise` is the standard deviation of what is added to pixels scaled to 0..1: a net that is
    trained on blurred digits reads clean ones better.
    """
    x = pixels * (1.0 / 16.0)
    if noise:
        x += tf.random_normal(tf.shape(x), stddev=noise)
    width = PIXELS
    for number, hidden in enumerate(HIDDEN, start=1):
        x = tf.nn.relu(_dense(x, f"hidden{number}", width, hidden))
        width = hidden
    return _dense(x, "logits", width, CLASSES)
