"""Gradients that are summed along the axes of a broadcast: what was not stretched is handed on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import together_and_apart

SHAPES = [
    ((), ()),
    ((3,), (3,)),
    ((2, 500), (2, 500)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((0, 2), (2,)),
]


def _fed(shape: tuple[int, ...], first: float) -> Any:
    return (np.arange(np.prod(shape), dtype=np.float32) * 0.1 + first).reshape(shape)


@pytest.mark.parametrize(("of_x", "of_y"), SHAPES)
def test_gradients_are_those_of_sums_and_reshapes(
    runtime: Runtime, of_x: tuple[int, ...], of_y: tuple[int, ...]
) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
        grads = tf.gradients(tf.tanh(x * y), [x, y])
        fed = {x: _fed(of_x, -0.5), y: _fed(of_y, 1.5)}
        found, wanted, _ = together_and_apart(grads, fed, runtime)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)
    assert "unstretched" in "".join(said)


def test_a_product_of_nothing_below_zero_keeps_its_sign(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
        grads = tf.gradients(x * y, [x, y])
        fed = {x: np.array([-0.0, 1], np.float32), y: np.array([-0.0, 2], np.float32)}
        found, wanted, _ = together_and_apart(grads, fed, runtime)
    assert [np.signbit(each).tolist() for each in found] == [[True, False]] * 2
    assert [np.signbit(each).tolist() for each in wanted] == [[True, False]] * 2


def test_what_others_have_too_is_not_handed_on() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, axes = tf.placeholder(tf.float32, None), tf.placeholder(tf.int32, [None])
        double = x * 2
        whole = tf.reshape(tf.reduce_sum(double, axes), tf.shape(x))
        of_fed = tf.reshape(tf.reduce_sum(x, axes), tf.shape(x))
        fed = np.ones((2, 2), np.float32)
        found = session.run([double, whole, of_fed], {x: fed, axes: []})
    for at, one in enumerate(found):
        for other in [*found[at + 1 :], fed]:
            assert not np.may_share_memory(one, other)


def test_in_a_loop_gradients_are_those_of_nodes_one_by_one() -> None:
    said: list[str] = []
    one_by_one = tf.ConfigProto()
    one_by_one.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    with tf.Graph().as_default(), explaining(said.append):
        x, w = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
        _, end = tf.while_loop(
            lambda n, state: n < 5,
            lambda n, state: (n + 1, tf.sigmoid(state * w)),
            [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)],
        )
        grads = tf.gradients(end, [x, w])
        with tf.Session() as together, tf.Session(config=one_by_one) as apart:
            for shape in ((3, 4), (4,), (1, 4), ()):
                fed = {x: _fed((3, 4), 0.3), w: _fed(shape, 0.7)}
                for one, other in zip(together.run(grads, fed), apart.run(grads, fed), strict=True):
                    assert np.array_equal(one, other)
    assert "unstretched" in "".join(said)
