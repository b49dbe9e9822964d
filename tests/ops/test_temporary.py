"""Temporary variables, made and ended in a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def temporary(shape: Any = (2,), dtype: Any = tf.float32, **attrs: Any) -> Any:
    return get("TemporaryVariable")(shape=tf.TensorShape(shape), dtype=dtype, **attrs)


def end(ref: Any, name: str) -> Any:
    return get("DestroyTemporaryVariable")(ref, var_name=name)


def test_a_temporary_variable_collects_within_a_step_and_forgets_after_it() -> None:
    total = tf.assign(temporary(var_name="sum"), [1.0, 2.0])
    for _ in range(3):
        total = tf.assign_add(total, [1.0, 10.0])
    last = end(total, "sum")
    with tf.Session() as session:
        assert session.run(last).tolist() == [4, 32]
        assert session.run(last).tolist() == [4, 32]


@pytest.mark.parametrize(
    ("dtype", "start"), [(tf.float32, 0), (tf.bool, False), (tf.string, b""), (tf.bfloat16, 0)]
)
def test_it_starts_with_zeros_and_is_named_as_its_node(dtype: Any, start: Any) -> None:
    ref = temporary((2, 1), dtype, name="node")
    with tf.Session() as session:
        value = session.run(end(ref, "node"))
    assert value.dtype == dtype.as_numpy_dtype
    assert value.tolist() == np.full((2, 1), start, value.dtype).tolist()


def test_what_is_wrong_with_a_temporary_variable_is_told() -> None:
    with tf.Session() as session:
        with pytest.raises(tf.errors.NotFoundError, match="'a', not 'b'"):
            session.run(end(temporary(var_name="a"), "b"))
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"fully defined shape, not \[\?\]"
        ):
            session.run(end(temporary((None,), var_name="a"), "a"))


def test_loops_make_one_for_each_iteration() -> None:
    def body(i: Any, total: Any) -> Any:
        return i + 1, end(tf.assign_add(tf.assign(temporary((), var_name="t"), total), 2.0), "t")

    result = tf.while_loop(lambda i, total: i < 4, body, [0, 1.0])[1]
    with tf.Session() as session:
        assert session.run(result) == 9
