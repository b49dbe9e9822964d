"""`tf.contrib.layers` and `tf.contrib.framework`; tests/oracle/test_contrib.py compares with tf-slim."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import headrace as tf

layers, framework = tf.contrib.layers, tf.contrib.framework
X = np.array([1.0, -2.0, 3.0], np.float32)


@framework.add_arg_scope
def first(x: int, a: int = 1, b: int = 2) -> tuple[int, ...]:
    """Of the first."""
    return x, a, b


@framework.add_arg_scope
def second(x: int, b: int = 2) -> tuple[int, ...]:
    return x, b


def test_scopes_give_defaults_of_arguments() -> None:
    with framework.arg_scope([first, second], b=5) as outer:
        assert (first(1), first(1, b=7), second(1)) == ((1, 1, 5), (1, 1, 7), (1, 5))
        with framework.arg_scope([first], a=9) as inner:
            assert first(1) == (1, 9, 5)
        with framework.arg_scope({}):
            assert first(1) == (1, 1, 2)
        assert first(1) == (1, 1, 5)
        assert framework.current_arg_scope() == outer
    assert first(1) == (1, 1, 2)
    with framework.arg_scope(inner):
        assert (first(1), second(1)) == ((1, 9, 5), (1, 5))
    assert framework.current_arg_scope() == {}


def test_what_scopes_know_of_functions() -> None:
    assert (framework.has_arg_scope(first), framework.has_arg_scope(len)) == (True, False)
    assert framework.arg_scoped_arguments(first) == ("a", "b")
    assert (first.__name__, first.__doc__) == ("first", "Of the first.")


@pytest.mark.parametrize(
    ("given", "kwargs", "error", "says"),
    [
        ([len], {"b": 1}, ValueError, "len is not decorated with @add_arg_scope"),
        (first, {"b": 1}, TypeError, "list/tuple or reused scope"),
        ({}, {"b": 1}, ValueError, r"takes no arguments, and there are \['b'\]"),
    ],
)
def test_scopes_that_are_refused(given: Any, kwargs: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says), framework.arg_scope(given, **kwargs):
        pass
    assert framework.current_arg_scope() == {}


def test_a_thread_has_its_own_scopes() -> None:
    found = []
    with framework.arg_scope([second], b=5):
        thread = threading.Thread(target=lambda: found.append(second(1)))
        thread.start()
        thread.join()
    assert found == [(1, 2)]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: layers.l1_regularizer(0.5), 3.0),
        (lambda: layers.l2_regularizer(0.5), 3.5),
        (lambda: layers.l1_l2_regularizer(0.5, 0.25), 4.75),
        (lambda: layers.l1_l2_regularizer(0.0, 0.5), 3.5),
        (lambda: layers.l1_l2_regularizer(0.5, 0.0), 3.0),
        (
            lambda: layers.sum_regularizer(
                [layers.l1_regularizer(0.5), None, layers.l1_regularizer(0.0)]
            ),
            3.0,
        ),
    ],
)
def test_penalties(make: Any, expected: float) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(make()(tf.constant(X))) == pytest.approx(expected)


def test_penalties_of_nothing_are_none() -> None:
    assert layers.l1_regularizer(0.0)(X) is None
    assert layers.l2_regularizer(0.0)(X) is None
    assert layers.sum_regularizer([None]) is None
    with tf.Graph().as_default():
        assert layers.sum_regularizer([layers.l1_regularizer(0.0)])(tf.constant(X)) is None


@pytest.mark.parametrize(
    "make", [layers.l1_regularizer, layers.l2_regularizer, layers.l1_l2_regularizer]
)
def test_scales_are_floats_that_are_not_negative(make: Any) -> None:
    with pytest.raises(ValueError, match="cannot be an integer: 1"):
        make(1)
    with pytest.raises(ValueError, match=r"less than 0 on a regularizer: -1\.0"):
        make(-1.0)


def test_penalties_of_all_weights_are_losses() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=X, collections=["weights", "variables"])
        w = tf.get_variable("w", initializer=X)
        session.run([v.initializer, w.initializer])
        total = layers.apply_regularization(layers.l2_regularizer(0.5))
        both = layers.apply_regularization(layers.l2_regularizer(0.5), [v, w])
        assert session.run([total, both]) == [3.5, 7.0]
        assert tf.get_collection("regularization_losses") == [total, both]
        assert session.run(layers.apply_regularization(layers.l1_regularizer(0.0), [v])) == 0.0
        with pytest.raises(ValueError, match=r"must return a scalar Tensor, and of v:0"):
            layers.apply_regularization(tf.identity, [v])
    with tf.Graph().as_default(), pytest.raises(ValueError, match="No weights to regularize"):
        layers.apply_regularization(layers.l2_regularizer(0.5))


@pytest.mark.parametrize(
    ("mode", "uniform", "shape", "expected"),
    [
        ("FAN_IN", False, [2, 3], 1.140175),
        ("FAN_OUT", False, [2, 3, 4, 5], 0.294392),
        ("FAN_AVG", True, [2, 3], 1.549193),
        ("FAN_IN", False, [7], 0.609449),
        ("FAN_AVG", True, [], 2.449490),
    ],
)
def test_deviations_and_limits(mode: str, uniform: bool, shape: list[int], expected: float) -> None:
    with tf.Graph().as_default() as graph:
        layers.variance_scaling_initializer(mode=mode, uniform=uniform)(shape)
        nodes = {node.name.rpartition("/")[2]: node for node in graph.as_graph_def().node}
        found = tf.make_ndarray(nodes["max" if uniform else "stddev"].attr["value"].tensor)
        assert found == pytest.approx(expected, rel=1e-5)


def test_initializers_of_whole_and_of_partitioned_variables() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        parts = tf.get_variable(
            "v",
            [4000, 2],
            initializer=layers.xavier_initializer(seed=3),
            partitioner=tf.fixed_size_partitioner(2),
        )
        session.run(tf.global_variables_initializer())
        limit = np.sqrt(3.0 / 2001.0)
        assert 0.9 * limit < np.abs(session.run(parts.as_tensor())).max() < limit
    for bad, says in (({"mode": "x"}, "Unknown mode x"), ({"dtype": tf.int32}, "floating")):
        with pytest.raises(TypeError, match=says):
            layers.variance_scaling_initializer(**bad)
    with tf.Graph().as_default(), pytest.raises(TypeError, match="floating"):
        layers.xavier_initializer()([2], dtype=tf.int32)


def test_slim_has_them_too() -> None:
    slim = tf.contrib.slim
    assert (slim.arg_scope, slim.l2_regularizer) == (framework.arg_scope, layers.l2_regularizer)
    assert slim.losses.log_loss is tf.contrib.losses.log_loss
