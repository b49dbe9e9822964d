"""tf.layers.InputSpec: what a layer's calls check of their inputs."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as tf

Spec = tf.layers.InputSpec
REFUSED: list[tuple[Any, str]] = [
    (Spec(ndim=3), "expected ndim=3, found ndim=2"),
    (Spec(min_ndim=3), "expected min_ndim=3, found ndim=2"),
    (Spec(max_ndim=1), "expected max_ndim=1, found ndim=2"),
    (Spec(dtype=tf.float64), "expected dtype=float64"),
    (Spec(axes={-1: 5}), "expected axis -1 of input shape to have value 5"),
    (Spec(shape=(None, 5)), "expected shape="),
    ([Spec(), Spec()], "expects 2 inputs, but it received 1"),
]


@pytest.mark.parametrize(("spec", "says"), REFUSED)
def test_inputs_that_are_not_as_a_layer_says_are_refused(spec: Any, says: str) -> None:
    with tf.Graph().as_default():
        layer = tf.layers.Dense(2)
        layer.input_spec = spec
        with pytest.raises(ValueError, match=says):
            layer(tf.zeros([3, 4]))


def test_what_fits_or_is_not_known_passes() -> None:
    with tf.Graph().as_default():
        layer = tf.layers.Dense(2)
        layer.input_spec = [Spec("float32", shape=(None, 4), axes={1: 4}, min_ndim=1, max_ndim=3)]
        assert layer(tf.zeros([3, 4])).shape == (3, 2)
        assert layer(tf.placeholder(tf.float32, [None, 4])).shape.as_list() == [None, 2]


def test_a_spec_says_what_it_asks_for() -> None:
    spec = Spec(tf.float32, ndim=2, axes={1: 3})
    assert repr(spec) == "InputSpec(dtype=float32, ndim=2, axes={1: 3})"
    with pytest.raises(ValueError, match="Axis 2 is greater than the maximum allowed value: 1"):
        Spec(ndim=2, axes={2: 3})
