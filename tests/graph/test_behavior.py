"""The switches between TensorFlow 1.x and 2.x."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headrace as tf


def test_programs_that_ask_for_1x_get_it() -> None:
    tf.disable_v2_behavior()
    tf.disable_eager_execution()
    tf.disable_resource_variables()
    assert not tf.executing_eagerly()
    assert not tf.resource_variables_enabled()


@pytest.mark.parametrize("switch", [tf.enable_eager_execution, tf.enable_v2_behavior])
def test_programs_that_ask_for_2x_are_told(switch: Callable[[], object]) -> None:
    with pytest.raises(tf.errors.UnimplementedError):
        switch()


def test_what_is_a_tensor() -> None:
    with tf.Graph().as_default():
        tensor = tf.constant(1.0)
        sparse = tf.SparseTensor([[0]], [1.0], [2])
        slices = tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
        assert all(map(tf.is_tensor, (tensor, tf.Variable(1.0), sparse, slices)))
        assert not any(map(tf.is_tensor, (1.0, [tensor], tensor.op, "x", None)))
