"""A table of rows that are looked up and trained, on some device: what it becomes, and what that moves."""

from __future__ import annotations

from typing import Any

import numpy as np

import headrace as tf
from headrace.run.devices.device import Device

START = np.linspace(-1, 1, 4000, dtype=np.float32).reshape(1000, 4)
OPTIMIZERS = {
    "SGD": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "Adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "Adam": lambda: tf.train.AdamOptimizer(0.1),
}


def trained(where: str, device: Device, optimizer: str, handles: bool) -> tuple[Any, int]:
    """The table after four steps on the device of that name; bytes that the last three moved to and from `device`.

    Some ids are named several times.  handles: the table is a resource variable.
    """

    def moved() -> int:
        return device.transfers["put bytes"] + device.transfers["got bytes"]

    with tf.Graph().as_default(), tf.device(where):
        table = tf.Variable(START, use_resource=handles)
        ids = tf.placeholder(tf.int32, [6])
        loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids) - 0.25))
        with tf.device(None):
            train = OPTIMIZERS[optimizer]().minimize(loss)
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {ids: [3, 999, 3, 0, 17, 3]})
            before = moved()
            for n in range(3):
                session.run(train, {ids: [3, 999, 3, 0, 18 + n, 3]})
            copied = moved() - before
            return session.run(table), copied
