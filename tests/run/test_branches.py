"""Random programs of nested branches and loops: both executors agree with Python, gradients among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.run.exec.dataflow import DataflowProgram
from tests.flow_programs import EXPRESSIONS, as_graph, in_python, smooth

Execute = Callable[..., Any]


@given(EXPRESSIONS, st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_random_branches_and_loops_give_what_python_gives(
    executors: tuple[Execute, Execute], expression: Any, inputs: list[int]
) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.int64, [])
        names = {"x": x, "i": tf.constant(1, tf.int64), "a": tf.constant(4, tf.int64)}
        result = tf.identity(as_graph(expression, names))
        programs = [execute.compile([result], [x]) for execute in executors]  # type: ignore[attr-defined]
        assert not isinstance(programs[0], DataflowProgram)
        assert isinstance(programs[1], DataflowProgram)
        for value in inputs:
            want = in_python(expression, {"x": value, "i": 1, "a": 4})
            for execute in executors:
                assert execute(result, {x: np.int64(value)}) == want


@given(EXPRESSIONS)
def test_gradients_of_random_branches_and_loops_are_the_same_in_both_executors(
    executors: tuple[Execute, Execute], expression: Any
) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [])
        names = {"x": x, "i": x * 2.0, "a": tf.sin(x)}
        y = smooth(expression, names) + x
        (slope,) = tf.gradients(y, x)
        at = 0.3
        values = [execute(slope, {x: np.float64(at)}) for execute in executors]
        np.testing.assert_allclose(values[0], values[1], rtol=1e-12)
        step = 1e-6
        up, down = (executors[0](y, {x: np.float64(at + by)}) for by in (step, -step))
        np.testing.assert_allclose(values[0], (up - down) / (2 * step), rtol=1e-4, atol=1e-6)
