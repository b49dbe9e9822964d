"""Functions as nodes: what the function gets, what comes out, and which error, as in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as hr

SOURCE = """
def show(*values):
    return np.array([repr((type(v).__name__, getattr(v, "dtype", None), np.shape(v))) for v in values])

def fail(error):
    def function():
        raise error
    return function

with tf.Graph().as_default(), tf.Session() as session:
    try:
        made = eval(program)
        result = made.type if isinstance(made, tf.Operation) else session.run(made)
    except Exception as error:
        result = type(error).__name__
result = [np.asarray(each).tolist() for each in result] if isinstance(result, list) else np.asarray(result).tolist()
"""
PROGRAMS = [
    "tf.py_func(show, [1.0, [2.0], 'a', ['b'], [[True]], 3], tf.string)",
    "tf.py_func(lambda x, y: x + y, [1.0, [2.0]], tf.float32)",
    "tf.py_func(lambda x: (x, x.astype(np.int32)), [[1.0]], [tf.float32, tf.int32], stateful=False)",
    "tf.py_func(lambda x: [x], [[1.0]], tf.float32)",
    "tf.py_func(lambda: None, [], [])",
    "tf.numpy_function(lambda: np.array(['a', 'b']), [], tf.string)",
    "tf.py_func(lambda: b'bytes', [], tf.string)",
    "tf.py_func(lambda: 3, [], tf.int64)",
    "tf.py_func(lambda x: x, [[1.0]], tf.int32)",
    "tf.py_func(lambda x: (x, x), [[1.0]], tf.float32)",
    "tf.py_func(lambda x: x, [[1.0]], [tf.float32, tf.float32])",
    "tf.py_func(3, [], tf.float32)",
    *(
        f"tf.py_func(fail({error}), [], tf.float32)"
        for error in (
            "ValueError('x')", "TypeError('x')", "KeyError('x')", "StopIteration('x')", "MemoryError('x')",
            "NotImplementedError('x')", "RuntimeError('x')", "tf.errors.OutOfRangeError(None, None, 'x')",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_function_does_what_it_does_in_tensorflow(program: str, oracle: Any) -> None:
    names: dict[str, Any] = {"tf": hr, "np": np, "program": program}
    exec(SOURCE, names)
    assert names["result"] == oracle.run(SOURCE, program=program)
