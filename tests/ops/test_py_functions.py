"""py_func: what the function gets and may return, how its errors come out, where it can be called."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import headrace as tf


def run(func: Any, inputs: list[Any], kinds: Any, **more: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(tf.py_func(func, inputs, kinds, **more))


def test_a_function_gets_arrays_numbers_and_bytes() -> None:
    seen: list[Any] = []

    def look(*values: Any) -> Any:
        seen.extend(values)
        return np.float32(1)

    run(look, [[1.0, 2.0], 3, "s", ["a", "b"]], tf.float32)
    array, number, text, texts = seen
    assert (array.dtype, array.tolist()) == (np.float32, [1, 2])
    assert isinstance(number, np.int32)
    assert text == b"s"
    assert texts.tolist() == [b"a", b"b"]


@pytest.mark.parametrize("stateful", [True, False])
def test_one_value_or_several(stateful: bool) -> None:
    one = run(lambda x, y: x + y, [1.0, [2.0]], tf.float32, stateful=stateful)
    assert one.tolist() == [3]
    several = run(
        lambda x: (x, x.astype(np.int32)), [[1.5]], [tf.float32, tf.int32], stateful=stateful
    )
    assert [each.dtype for each in several] == [np.float32, np.int32]
    words = run(lambda: np.array(["é", "b"]), [], tf.string)
    assert words.tolist() == ["é".encode(), b"b"]
    assert run(lambda: 3, [], tf.int64) == 3


def test_a_function_of_no_results_is_an_operation() -> None:
    seen = []
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.py_func(seen.append, [7.0], [])
        assert isinstance(made, tf.Operation)
        session.run(made)
        session.run(made)
    assert seen == [7, 7]


def test_it_is_called_in_every_step_and_has_no_gradient() -> None:
    numbers = iter(range(10))
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(1.0)
        made = tf.numpy_function(lambda _: np.int64(next(numbers)), [x], tf.int64)
        assert made.shape.ndims is None
        assert [int(session.run(made)) for _ in range(3)] == [0, 1, 2]
        assert tf.gradients(tf.py_func(lambda v: v, [x], tf.float32), x) == [None]


def test_arrays_are_the_functions_own_and_its_results_the_steps() -> None:
    kept = np.zeros(3, np.float32)

    def change(x: Any) -> Any:
        x += 1
        kept[:] = x
        return kept

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 2.0, 3.0]) + 0.0
        found, unchanged = session.run([tf.py_func(change, [x], tf.float32), x])
        kept[:] = 0
        assert (found.tolist(), unchanged.tolist()) == ([2, 3, 4], [1, 2, 3])


def raising(error: Exception) -> Any:
    def function() -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("boo"), tf.errors.InvalidArgumentError),
        (TypeError("boo"), tf.errors.InvalidArgumentError),
        (StopIteration("boo"), tf.errors.OutOfRangeError),
        (NotImplementedError("boo"), tf.errors.UnimplementedError),
        (MemoryError("boo"), tf.errors.ResourceExhaustedError),
        (KeyError("boo"), tf.errors.UnknownError),
        (tf.errors.OutOfRangeError(None, None, "boo"), tf.errors.UnknownError),
    ],
)
def test_what_it_raises_is_the_steps_error(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"{type(error).__name__}: .*boo") as caught:
        run(raising(error), [], tf.float32)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("result", "kinds", "text"),
    [
        (np.float32(1), tf.int32, "is float, but expects int32: that is what Tout says"),
        ((1.0, 2.0), tf.float64, "returns 2 values, but expects to see 1 values"),
        (1.0, [tf.float64, tf.float64], "returns 1 values, but expects to see 2 values"),
        (None, tf.float32, "returns 0 values, but expects to see 1 values"),
    ],
)
def test_what_was_not_promised_is_refused(result: Any, kinds: Any, text: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(lambda: result, [], kinds)


def test_it_must_be_callable() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match="func to be callable"):
        tf.py_func(3, [], tf.float32)


def test_a_graph_from_elsewhere_says_that_its_function_is_not_here() -> None:
    with tf.Graph().as_default() as graph:
        tf.py_func(lambda: np.float32(1), [], tf.float32, name="mine")
        written = graph.as_graph_def()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(written, name="")
        assert session.run("mine:0") == 1  # while the first graph lives
        (node,) = [node for node in written.node if node.name == "mine"]
        node.attr["token"].s = b"pyfunc_0"  # as of a process that is no longer there
        tf.import_graph_def(written, name="other")
        with pytest.raises(tf.errors.InvalidArgumentError, match="process that made it"):
            session.run("other/mine:0")


def test_a_function_goes_with_its_graph() -> None:
    from headrace.ops.flow import py_functions

    gc.collect()
    before = len(py_functions._BY_TOKEN)
    with tf.Graph().as_default() as graph:
        tf.py_func(lambda: np.float32(1), [], tf.float32)
        assert len(py_functions._BY_TOKEN) == before + 1
    del graph
    gc.collect()
    assert len(py_functions._BY_TOKEN) == before


def test_the_function_lives_as_long_as_the_graph_of_its_inputs() -> None:
    graph = tf.Graph()
    with graph.as_default():
        x = tf.constant(2.0)
    with tf.Graph().as_default():
        doubled = tf.py_func(lambda value: value * 2, [x], tf.float32)
    gc.collect()
    with tf.Session(graph=graph) as session:
        assert session.run(doubled) == 4
