"""A line that estimators of the tests fit: y = 2 x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as tf

XS = np.arange(6, dtype=np.float32)
E = tf.estimator


def line(features: Any, labels: Any, mode: str, params: Any = None) -> Any:
    """y = slope x, from a slope of 0."""
    slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
    y = features["x"] * slope
    if mode == E.ModeKeys.PREDICT:
        return E.EstimatorSpec(mode, predictions={"y": y})
    loss = tf.reduce_mean(tf.squared_difference(y, labels))
    optimizer = tf.train.GradientDescentOptimizer((params or {}).get("rate", 0.02))
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    metrics = {"error": tf.metrics.mean_absolute_error(labels, y)}
    return E.EstimatorSpec(mode, {"y": y}, loss, train_op, metrics)


def rows(epochs: int | None = None, batch: int = 3) -> Callable[[], Any]:
    """An input_fn of the line's points."""
    return lambda: (
        tf.data.Dataset.from_tensor_slices(({"x": XS}, 2 * XS)).repeat(epochs).batch(batch)
    )


def estimator(directory: Any, params: Any = None, **config: Any) -> Any:
    """One that fits it."""
    return E.Estimator(line, str(directory), E.RunConfig(**config), params or {"rate": 0.02})


def receiver() -> Any:
    """What an exported line is fed."""
    x = tf.placeholder(tf.float32, [None], name="x")
    return E.export.ServingInputReceiver({"x": x}, {"x": x})
