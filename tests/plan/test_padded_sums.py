"""Sums of padded tensors that lie side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import together_and_apart


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.float16])
@pytest.mark.parametrize(
    "cuts",
    [
        [(0, 2), (2, 5)],
        [(2, 5), (0, 2)],
        [(0, 1), (1, 1), (2, 3)],
        [(0, 3), (2, 3)],
        [(0, 2), (3, 2)],
        [(0, 5), (0, 5)],
        [(1, 4), (0, 0)],
    ],
)
def test_gradients_of_slices_are_their_sums(
    runtime: Runtime, cuts: list[tuple[int, int]], dtype: Any
) -> None:
    """Slices beside each other, out of order, that overlap, and with gaps."""
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        x = tf.placeholder(dtype, [5, 3])
        parts = [tf.placeholder(dtype, [min(size, 5 - first), 3]) for first, size in cuts]
        padded = [
            tf.pad(part, [[first, 5 - first - part.shape[0].value], [0, 0]])
            for part, (first, _) in zip(parts, cuts, strict=True)
        ]
        fed: dict[Any, Any] = {x: np.zeros((5, 3), dtype)}
        for number, part in enumerate(parts, 1):
            shape = part.shape.as_list()
            fed[part] = (np.arange(np.prod(shape)).reshape(shape) - number).astype(dtype)
            fed[part][:1] *= dtype(-1) * dtype(0)  # zeros below zero, of floats
        found, wanted, _ = together_and_apart([tf.add_n(padded)], fed, runtime)
    assert found[0].tobytes() == wanted[0].tobytes()
    assert "padded-sums [Pad Pad" in "".join(said)


def test_other_axes_unknown_shapes_and_scalars_run_one_by_one(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        one, other = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, None)
        pads = [tf.placeholder(tf.int32, [None, 2]) for _ in range(2)]
        total = tf.add_n([tf.pad(one, pads[0]), tf.pad(other, pads[1])])
        for fed in (
            [np.ones((2, 2)), np.ones((2, 1)), [[0, 0], [0, 1]], [[0, 0], [2, 0]]],
            [np.ones((2, 2)), np.ones((1, 2)), [[0, 1], [0, 0]], [[2, 0], [0, 0]]],
            [np.ones(()), np.ones(()), np.zeros((0, 2)), np.zeros((0, 2))],
        ):
            values = [np.array(each, np.float32) for each in fed[:2]]
            values += [np.array(each, np.int32) for each in fed[2:]]
            given = dict(zip([one, other, *pads], values, strict=True))
            found, wanted, _ = together_and_apart([total], given, runtime)
            assert np.array_equal(found[0], wanted[0])


def test_a_padding_that_does_not_fit_names_its_node(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        one, pads = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, None)
        total = tf.add_n([tf.pad(one, pads, name="first"), tf.pad(one, pads, name="second")])
        fed = {one: np.ones(2, np.float32), pads: np.array([[0, 1], [0, 1]], np.int32)}
        with pytest.raises(tf.errors.InvalidArgumentError, match="first"):
            together_and_apart([total], fed, runtime)
