"""A small table, and input functions of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import headrace as tf

columns = tf.feature_column
AGE = columns.numeric_column("age", normalizer_fn=lambda years: years / 50.0)
AGES = columns.bucketized_column(columns.numeric_column("age"), [20, 40, 60])
CITY = columns.categorical_column_with_vocabulary_list("city", ["a", "b", "c"])
CROSSED = columns.crossed_column([AGES, CITY], 17)
TABLE = {
    "age": np.array([[15.0], [25.0], [45.0], [65.0], [33.0], [52.0]], np.float32),
    "city": np.array([["a"], ["b"], ["c"], ["a"], ["d"], ["b"]]),
}
YES = np.array([[0], [1], [1], [0], [1], [0]])


def rows(labels: Any = YES, epochs: int | None = None, batch: int = 3) -> Callable[[], Any]:
    """An input_fn of the table, endless unless epochs are given."""
    return lambda: tf.data.Dataset.from_tensor_slices((TABLE, labels)).repeat(epochs).batch(batch)


def once(labels: Any = YES) -> Callable[[], Any]:
    """An input_fn of the table, one epoch."""
    return rows(labels, 1)
