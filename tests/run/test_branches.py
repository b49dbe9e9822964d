"""Random programs of nested branches and loops: both executors agree with Python, gradients among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import headrace as tf
from headrace.run.dataflow import DataflowProgram

Execute = Callable[..., Any]
MODULUS = 1009

# An expression is a nested tuple.  "x" is the input, "i" and "a" are the innermost loop's counter and variable.
LEAVES = st.sampled_from(["x", "i", "a", 2, 3])


def longer(part: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.tuples(st.sampled_from(["+", "*", "-"]), part, part),
        st.tuples(st.just("if"), part, st.integers(0, 6), part, part),
        st.tuples(st.just("loop"), st.integers(0, 3), part, part),
    )


EXPRESSIONS = st.recursive(LEAVES, longer, max_leaves=12)


def in_python(e: Any, names: dict[str, int]) -> int:
    if isinstance(e, int):
        return e
    if isinstance(e, str):
        return names[e]
    if e[0] == "if":
        _, test, limit, yes, no = e
        return in_python(yes if in_python(test, names) % 7 > limit else no, names)
    if e[0] == "loop":
        _, times, start, body = e
        value = in_python(start, names)
        for i in range(times):
            value = in_python(body, {**names, "i": i, "a": value})
        return value
    left, right = in_python(e[1], names), in_python(e[2], names)
    return {"+": left + right, "-": left - right, "*": left * right}[e[0]] % MODULUS


def as_graph(e: Any, names: dict[str, Any]) -> Any:
    if isinstance(e, int):
        return tf.constant(e, tf.int64)
    if isinstance(e, str):
        return names[e]
    if e[0] == "if":
        _, test, limit, yes, no = e
        pred = as_graph(test, names) % 7 > limit
        return tf.cond(pred, lambda: as_graph(yes, names), lambda: as_graph(no, names))
    if e[0] == "loop":
        _, times, start, body = e
        step = lambda i, a: (i + 1, as_graph(body, {**names, "i": i, "a": a}))  # noqa: E731
        zero = tf.constant(0, tf.int64)
        return tf.while_loop(lambda i, a: i < times, step, [zero, as_graph(start, names)])[1]
    left, right = as_graph(e[1], names), as_graph(e[2], names)
    return {"+": left.__add__, "-": left.__sub__, "*": left.__mul__}[e[0]](right) % MODULUS


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


def smooth(e: Any, names: dict[str, Any]) -> Any:
    """`e` on floats, with operations that stay small."""
    if isinstance(e, int):
        return tf.constant(e / 7, tf.float64)
    if isinstance(e, str):
        return names[e]
    if e[0] == "if":
        _, test, limit, yes, no = e
        pred = tf.sin(smooth(test, names)) * 3.0 > limit - 2.0
        return tf.cond(pred, lambda: smooth(yes, names), lambda: smooth(no, names))
    if e[0] == "loop":
        _, times, start, body = e

        def step(i: Any, a: Any) -> Any:
            return i + 1.0, smooth(body, {**names, "i": i, "a": a})

        zero = tf.constant(0, tf.float64)
        return tf.while_loop(lambda i, a: i < times, step, [zero, smooth(start, names)])[1]
    left, right = smooth(e[1], names), smooth(e[2], names)
    return {"+": left + tf.sin(right), "-": left - right * 0.5, "*": tf.tanh(left) * right}[e[0]]


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
