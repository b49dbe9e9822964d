"""Steps whose kernels are known to be small run without the task's worker pool; all others have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace as tf
from tests.plan.programs import compiled


def variable(*shape: int) -> Any:
    return tf.Variable(tf.zeros(shape))


BUILT: dict[str, tuple[Callable[[], Any], bool]] = {
    "small": (lambda: tf.nn.relu(variable(10, 10)), False),
    "just below the limit": (lambda: tf.reduce_max(variable(4095)), False),
    "at the limit": (lambda: tf.reduce_max(variable(4096)), True),
    "a large result of small inputs": (lambda: tf.matmul(variable(64, 1), tf.ones([1, 64])), True),
    "a large one among small ones": (
        lambda: tf.reduce_sum(tf.nn.relu(variable(100, 100))) + tf.reduce_max(tf.ones([3])),
        True,
    ),
    "unknown size": (lambda: tf.nn.relu(tf.placeholder(tf.float32, [None, 3])), True),
    "unknown rank": (lambda: tf.nn.relu(tf.placeholder(tf.float32)), True),
    "nothing to share": (lambda: -variable(100, 100), False),
}


@pytest.mark.parametrize("name", BUILT)
def test_who_has_the_worker_pool(name: str) -> None:
    build, shares = BUILT[name]
    with tf.Graph().as_default() as graph:
        made = build()
        feeds = [each.outputs[0] for each in graph.get_operations() if each.type == "Placeholder"]
        assert compiled([made], feeds).shares is shares
