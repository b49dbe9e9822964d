"""Values that are spread over more elements, and then changed by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import together_and_apart


def spread(value: Any, shape: Any) -> Any:
    return tf.broadcast_to(tf.reshape(value, [-1, 1, 3]), shape)


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("tiled", [True, False])
def test_it_is_changed_before(rows: int, tiled: bool, runtime: Runtime) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x, by = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [])
        wide = tf.tile(x, [1, 4]) if tiled else spread(x, [tf.shape(x)[0], 4, 3])
        fed = {x: np.linspace(-1, 1, 3 * rows).reshape(rows, 3).astype(np.float32)}
        fed[by] = np.float32(3)
        found, wanted, _ = together_and_apart([tf.square(wide / by) - 0.1], fed, runtime)
    np.testing.assert_array_equal(found[0], wanted[0])
    assert f"spread [{'Tile' if tiled else 'BroadcastTo'} RealDiv Square Sub]" in "".join(said)


def test_the_gradient_of_a_mean_is_divided_before_it_is_spread(runtime: Runtime) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x = tf.placeholder(tf.float32, [None, 4, 5, 3])
        means = tf.reduce_mean(x, [1, 2])
        gradient = tf.gradients(means * means, x)[0]
        fed = {x: np.linspace(-1, 1, 120, dtype=np.float32).reshape(2, 4, 5, 3)}
        found, wanted, _ = together_and_apart([gradient], fed, runtime)
    np.testing.assert_array_equal(found[0], wanted[0])
    assert "spread [BroadcastTo RealDiv]" in "".join(said)


def test_what_others_want_is_spread_by_itself(runtime: Runtime) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 4, 3])
        wide = spread(x, tf.shape(y))
        fed = {x: np.ones((2, 3), np.float32), y: np.ones((2, 4, 3), np.float32)}
        found, wanted, _ = together_and_apart(
            [wide, wide * 2.0, spread(x, tf.shape(y)) * y], fed, runtime
        )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert "spread [" not in "".join(said)


def test_an_error_names_its_node() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        wrong = tf.broadcast_to(x, tf.placeholder_with_default([2, 4], [2]), name="wrong") / 2.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="wrong"):
            session.run(wrong, {x: np.ones((2, 3))})
