"""What can be known of a tensor's value, or of a shape, while the graph is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph import const_value
from headrace.graph.const_value import as_shape, constant_value, folded

Make = Callable[[], Any]


def x(*shape: int | None) -> tf.Tensor:
    return tf.placeholder(tf.float32, shape)


def unknown() -> tf.Tensor:
    return tf.placeholder(tf.int32, None)


# what it is, the value that kernels give while the graph is built, and what programs are told
KNOWN: dict[str, tuple[Make, Any, Any]] = {
    "a constant": (lambda: tf.constant([1, 2]), [1, 2], [1, 2]),
    "a scalar": (lambda: tf.constant(3.5), 3.5, 3.5),
    "a shape": (lambda: tf.shape(x(2, 3)), [2, 3], [2, 3]),
    "a size": (lambda: tf.size(x(2, 3)), 6, 6),
    "a rank": (lambda: tf.rank(x(None, None)), 2, 2),
    "a range": (lambda: tf.range(1, 7, 2), [1, 3, 5], [1, 3, 5]),
    "a cast": (lambda: tf.cast(tf.constant(2.9), tf.int32), 2, 2),
    "a pack": (lambda: tf.stack([1, tf.rank(x(1))]), [1, 1], [1, 1]),
    "a concat": (lambda: tf.concat([[1], tf.shape(x(4))], 0), [1, 4], [1, 4]),
    "a fill": (lambda: tf.fill([2], 7), [7, 7], [7, 7]),
    "a comparison": (lambda: tf.equal(tf.constant(1), 1), True, True),
    "arithmetic": (lambda: tf.constant(2) * 3 + 1, 7, None),
    "an element of a shape": (lambda: tf.shape(x(5, None))[0], 5, None),
    "a part of a shape": (lambda: tf.shape(x(None, 4, 5))[1:], [4, 5], None),
    "a product of sizes": (lambda: tf.reduce_prod(tf.shape(x(3, 4))), 12, None),
    "a placeholder": (lambda: unknown(), None, None),
    "a shape that is not known": (lambda: tf.shape(x(2, None)), None, None),
    "a shape of no known rank": (lambda: tf.shape(unknown()), None, None),
    "what depends on a feed": (lambda: tf.constant(1) + unknown(), None, None),
    "a random number": (lambda: tf.random_uniform([2]), None, None),
    "a variable": (lambda: tf.Variable(1)._ref(), None, None),
    "much data": (lambda: tf.zeros([5000]) + 1.0, None, None),
    "what fails": (lambda: tf.floordiv(tf.constant(1), tf.constant(0)), None, None),
}


@pytest.mark.parametrize(("make", "value", "told"), KNOWN.values(), ids=KNOWN)
def test_values_that_follow_from_the_graph_alone(
    default: tf.Graph, make: Make, value: Any, told: Any
) -> None:
    tensor = make()
    for _ in range(2):  # what was found is remembered
        found = folded(tensor)
        assert (None if found is None else found.tolist()) == value
    found = constant_value(tensor)
    assert (None if found is None else np.asarray(found).tolist()) == told
    assert default.is_feedable(tensor) == (told is None)


def test_what_is_known_is_what_a_step_gives(default: tf.Graph) -> None:
    for make, value, _ in KNOWN.values():
        if value is None:
            continue
        with tf.Graph().as_default() as graph, tf.Session() as session:
            tensor = make()
            placeholders = [op for op in graph.get_operations() if op.type == "Placeholder"]
            fed = {
                op.outputs[0]: np.ones([n or 8 for n in op.outputs[0].shape.as_list()])
                for op in placeholders
            }
            found = folded(tensor)
            assert np.array_equal(found, session.run(tensor, fed))
            assert found.dtype == tensor.dtype.as_numpy_dtype


SHAPES: dict[str, tuple[Make, Any]] = {
    "a constant": (lambda: tf.constant([2, -1]), (2, None)),
    "a scalar -1": (lambda: tf.constant(-1), None),
    "an empty one": (lambda: tf.constant([], tf.int32), ()),
    "a shape": (lambda: tf.shape(x(None, 3)), (None, 3)),
    "packed": (lambda: tf.stack([tf.shape(x(None, 3))[1], unknown_size()]), (3, None)),
    "joined": (lambda: tf.concat([tf.shape(x(None)), [7]], 0), (None, 7)),
    "a part": (lambda: tf.shape(x(None, 3, 4))[:2], (None, 3)),
    "a part from the end": (lambda: tf.shape(x(None, 3, 4))[-2:], (3, 4)),
    "every other": (lambda: tf.shape(x(None, 3, 4))[::2], (None, 4)),
    "cast": (lambda: tf.cast(tf.shape(x(None, 3)), tf.int64), (None, 3)),
    "its length alone": (lambda: tf.placeholder(tf.int32, [2]), (None, None)),
    "nothing": (unknown, None),
}


def unknown_size() -> tf.Tensor:
    return tf.placeholder(tf.int32, [])


@pytest.mark.parametrize(("make", "shape"), SHAPES.values(), ids=SHAPES)
def test_shapes_are_known_as_far_as_their_sizes_are(
    default: tf.Graph, make: Make, shape: Any
) -> None:
    assert as_shape(make()) == shape


@pytest.mark.parametrize(
    ("value", "phrase"),
    [([-2], "Invalid value in tensor used for shape: -2"), ([[1]], "must be rank 1 but is rank 2")],
)
def test_what_is_no_shape_is_refused(default: tf.Graph, value: Any, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        as_shape(tf.constant(value))


def test_chains_are_followed_only_so_deep(default: tf.Graph) -> None:
    """Though what was found on the way up counts."""
    tensor = tf.constant(0)
    for _ in range(3 * const_value._DEEPEST):
        tensor = tensor + 1
    assert folded(tensor) is None
    with tf.Session() as session:
        assert session.run(tensor) == 3 * const_value._DEEPEST


def test_numbers_are_themselves_and_other_things_nothing(default: tf.Graph) -> None:
    assert constant_value(3) == 3
    assert constant_value(np.float32(1.5)) == 1.5
    assert constant_value("text") is None
