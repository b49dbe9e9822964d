"""Integers divided where nothing is, and gradients of reductions of scalars and empties of unknown shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get

DIVISIONS = ["FloorMod", "FloorDiv", "Div", "TruncateDiv", "TruncateMod", "Mod"]
EMPTY: list[tuple[Any, Any, tuple[int, ...]]] = [
    ([], 0, (0,)), ([], [0], (0,)), (np.zeros((0, 1)), [0, 0], (0, 2)), (np.zeros((3, 0)), [[0]], (3, 0)),
    (1, [], (0,)), ([0], np.zeros((0, 1)), (0, 1)),
]  # fmt: skip


def run(op: str, kind: str, x: Any, y: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = tf.placeholder(kind), tf.placeholder(kind)
        return session.run(get(op)(a, b), {a: x, b: y})


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize(("x", "y", "shape"), EMPTY)
def test_nothing_is_divided_by_zero(
    op: str, kind: str, x: Any, y: Any, shape: tuple[int, ...]
) -> None:
    assert run(op, kind, x, y).shape == shape


@pytest.mark.parametrize("op", DIVISIONS)
@pytest.mark.parametrize(("x", "y"), [(1, 0), ([1], 0), ([1, 2], [1, 0]), (1, [1, 0])])
def test_something_is_not(op: str, x: Any, y: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="division by zero"):
        run(op, "int32", x, y)


@pytest.mark.parametrize(("x", "y", "shape"), EMPTY)
def test_nothing_to_a_negative_power_is_nothing(x: Any, y: Any, shape: tuple[int, ...]) -> None:
    assert run("Pow", "int32", x, np.asarray(y) - 1).shape == shape


def test_something_to_a_negative_power_is_an_error() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="negative integer powers"):
        run("Pow", "int32", [2], -1)


def norm(x: tf.Tensor) -> tf.Tensor:
    return tf.norm(x + 1.0)


REDUCTIONS: list[Callable[[tf.Tensor], tf.Tensor]] = [
    tf.reduce_sum, tf.reduce_mean, tf.reduce_prod, tf.reduce_max, tf.reduce_min, tf.reduce_logsumexp,
    tf.math.reduce_variance, tf.math.reduce_std, tf.math.reduce_euclidean_norm, norm, tf.nn.l2_loss,
]  # fmt: skip
FED: list[Any] = [
    2.0,
    [],
    [2.0],
    [1.0, 2.0],
    np.zeros((0, 3)),
    np.zeros((3, 0)),
    [[1.0], [4.0]],
    np.zeros((2, 0, 3)),
]


@pytest.mark.parametrize("value", FED, ids=lambda value: str(np.shape(value)))
@pytest.mark.parametrize("function", REDUCTIONS)
def test_the_gradient_of_a_reduction_is_the_same_whether_the_shape_is_known_or_not(
    function: Callable[[tf.Tensor], tf.Tensor], value: Any
) -> None:
    found = []
    for shape in (None, np.shape(value)):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, shape)
            found.append(session.run(tf.gradients(function(x), x)[0], {x: value}))
    unknown, known = found
    assert unknown.shape == known.shape == np.shape(value)
    np.testing.assert_allclose(unknown, known, rtol=1e-6)
