"""What tells a step from others in what is kept of measurements: not names, but all that is computed."""

from __future__ import annotations

from typing import Any

import headrace as tf
from headrace.plan.fusion import identity
from headrace.plan.ir import Request
from headrace.plan.prune import needed


def of(size: int = 3, name: str = "x", axis: int = 0, swap: bool = False) -> str:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [size, size], name=name)
        y: Any = tf.stack([tf.exp(x), tf.tanh(x)], axis, name=f"{name}_stacked")
        z = y - x[:2] if size == 2 else tf.negative(y)
        fetched = [z, y] if not swap else [y, z]
        pruned = needed([x], fetched, [])
        return identity(Request(pruned, [x], fetched, {}, {}))


def pooled(layout: str, name: str) -> str:
    """A step in which nothing but text says how something is computed."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 4, 4, 4])
        y = tf.nn.max_pool(x, [1] * 4, [1] * 4, "SAME", layout, name=name)
        kept = tf.Variable(tf.zeros([4]), name=f"{name}_kept", trainable=False)
        pruned = needed([x], [y, kept], [])
        return identity(Request(pruned, [x], [y, kept], {}, {}))


def test_names_do_not_matter() -> None:
    assert pooled("NHWC", "one") == pooled("NHWC", "two")
    assert of() == of(name="other")


def test_shapes_attrs_and_what_is_fetched_do() -> None:
    found = {of(), of(size=4), of(axis=1), of(swap=True), of(size=2)}
    assert len(found) == 5
    assert pooled("NHWC", "one") != pooled("NCHW", "one")
