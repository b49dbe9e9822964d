"""Functions whose bodies have loops of 1.x: their gradients are those of the loops, wherever the graph goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.library.functions.defun import Defun


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def power(x: Any) -> Any:
    """x to the fourth."""
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])[1]


def branch(x: Any) -> Any:
    """A loop in a branch in a loop: 8 x**2 above 0."""

    def doubled(y: Any) -> Any:
        return tf.while_loop(lambda i, z: i < 1, lambda i, z: (i + 1, z * 2.0), [0, y])[1]

    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.cond(x > 0.0, lambda: doubled(y), lambda: y)

    return tf.while_loop(lambda i, y: i < 3, body, [0, x * x])[1]


def rows(x: Any) -> Any:
    """x squared, element by element."""
    return tf.map_fn(lambda y: y * y, x)


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetches)


@pytest.mark.parametrize(
    ("function", "at", "wanted"),
    [(power, 2.0, 32.0), (branch, 3.0, 48.0), (branch, -3.0, -6.0), (rows, [2.0, 3.0], [4.0, 6.0])],
)
def test_a_gradient_goes_through_a_loop_of_a_function(function: Any, at: Any, wanted: Any) -> None:
    f = Defun(tf.float32, func_name="f")(function)
    x = tf.constant(at)
    (found,) = tf.gradients(f(x), x)
    np.testing.assert_allclose(run(found), wanted)
    # elsewhere nobody knows where the loop was: its gradient goes along
    definition = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        (again,) = tf.import_graph_def(definition, return_elements=[found.name])
        np.testing.assert_allclose(run(again), wanted)


def test_also_where_another_function_calls_it_and_in_another_graph() -> None:
    inner = Defun(tf.float32, func_name="inner")(power)
    outer = Defun(tf.float32, func_name="outer")(lambda Base: inner(Base) * 2.0)
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            x = tf.constant(2.0)
            (found,) = tf.gradients(outer(x) + inner(x), x)
            assert run(found) == 96.0
            made = {each.function_name for each in graph.as_graph_def().library.gradient}
            assert "inner" in made


def test_a_gradient_that_the_program_gives_comes_first() -> None:
    f = Defun(tf.float32, func_name="f", python_grad_func=lambda op, dy: dy * 7.0)(power)
    x = tf.constant(2.0)
    assert run(tf.gradients(f(x), x)) == [7.0]
