"""A network of pictures on a GPU: it learns what it learns on the host, and a step moves its feeds and its loss."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import headrace as tf
from headrace.run.devices.table import of_name
from tests.support.window_programs import seeded

PICTURES = seeded(16, 12, 12, 1)
LABELS = np.arange(16) % 10


def _network() -> tuple[Any, Any, Any, Any]:
    pictures = tf.placeholder(tf.float32, [None, 12, 12, 1])
    labels = tf.placeholder(tf.int64, [None])

    def start(*shape: int) -> Any:
        return tf.constant_initializer(0.1 * seeded(*shape))

    made = tf.layers.conv2d(pictures, 8, 3, padding="same", kernel_initializer=start(3, 3, 1, 8))
    made = tf.nn.relu(tf.layers.batch_normalization(made, training=True, fused=True))
    made = tf.layers.max_pooling2d(made, 2, 2)
    made = tf.layers.conv2d(made, 8, 3, padding="same", kernel_initializer=start(3, 3, 8, 8))
    made = tf.layers.flatten(tf.layers.average_pooling2d(tf.nn.relu(made), 2, 2))
    logits = tf.layers.dense(made, 10, kernel_initializer=start(72, 10))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_mean(losses)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return pictures, labels, loss, train


def _trained(device: str) -> tuple[list[float], Counter[str]]:
    """Losses of twelve steps, and what the last of them moved to and from the GPU."""
    with tf.Graph().as_default():
        with tf.device(device):
            pictures, labels, loss, train = _network()
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            losses, moved = [], Counter[str]()
            for _ in range(12):
                before = Counter(of_name("/device:GPU:0").transfers)
                fed = {pictures: PICTURES, labels: LABELS}
                losses.append(float(session.run([loss, train], fed)[0]))
                moved = Counter(of_name("/device:GPU:0").transfers)
                moved.subtract(before)
    return losses, moved


def test_a_step_of_training_moves_what_is_fed_and_fetched() -> None:
    losses, moved = _trained("/gpu:0")
    np.testing.assert_allclose(losses, _trained("/cpu:0")[0], rtol=1e-3)
    assert losses[-1] < losses[0] / 1.5
    assert moved["put bytes"] <= PICTURES.nbytes + LABELS.nbytes + 1000
    assert moved["got bytes"] <= 200  # the loss, and shapes
