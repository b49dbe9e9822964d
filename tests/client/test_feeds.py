"""What may be fed for a tensor, and what it is then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.client import feeds
from headrace.client.feeds import register_feed_conversion
from headrace.graph.const_value import constant_value

F32, I32, I64, U8, STRING, BOOL = (
    tf.float32,
    tf.int32,
    tf.int64,
    tf.uint8,
    tf.string,
    tf.bool,
)


GIVEN: list[tuple[Any, Any, Any, Any]] = [
    # dtype, static shape, what is fed, what the step gets
    (F32, [], 1, 1.0),
    (F32, [], True, 1.0),
    (F32, [], np.float64(0.1), np.float32(0.1)),
    (F32, [2], [1, 2.5], [1.0, 2.5]),
    (F32, [2], (1, np.int8(2)), [1.0, 2.0]),
    (F32, None, [[1], [2]], [[1.0], [2.0]]),
    (F32, [None, 1], np.zeros((0, 1)), np.zeros((0, 1))),
    (I32, [3], range(3), [0, 1, 2]),
    (I64, [], np.int32(-7), -7),
    (U8, [], 255, 255),
    (BOOL, [2], [0, "x"], [False, True]),
    (STRING, [], "é", "é".encode()),
    (STRING, [], b"\x00", b"\x00"),
    (STRING, [2], np.array(["a", "bc"]), [b"a", b"bc"]),
    (STRING, [2], ["a", bytearray(b"b")], [b"a", b"b"]),
    (STRING, [0], [], []),
]


@pytest.mark.parametrize(("dtype", "shape", "value", "expected"), GIVEN)
def test_what_is_fed_arrives_in_the_tensors_type(
    session: tf.Session, dtype: Any, shape: Any, value: Any, expected: Any
) -> None:
    x = tf.placeholder(dtype, shape)
    found = session.run(tf.identity(x), {x: value})
    if dtype is STRING:
        assert (found.tolist() if isinstance(found, np.ndarray) else found) == expected
        return
    assert np.array_equal(found, np.array(expected, dtype.np))
    assert found.dtype == dtype.np


REFUSED: list[tuple[Any, Any, Any, type[Exception], str]] = [
    (
        F32,
        [],
        "a",
        ValueError,
        r"could not convert string to float.*Placeholder:0, which is float32\[\]",
    ),
    (
        F32,
        [2],
        [1, 2, 3],
        ValueError,
        r"Cannot feed value of shape \(3,\) for Tensor .*:0, which has shape \(2,\)",
    ),
    (
        F32,
        [None, 2],
        np.zeros(2),
        ValueError,
        r"of shape \(2,\) for Tensor .* which has shape \(\?, 2\)",
    ),
    (F32, None, [[1], [1, 2]], ValueError, "inhomogeneous"),
    (F32, [], 1j, TypeError, "complex"),
    (U8, [], 256, TypeError, "Type of feed value 256 with type <class 'int'> is not compatible"),
    (U8, [], -1, TypeError, "is not compatible with Tensor type <class 'numpy.uint8'>"),
    (I32, [], 2**31, TypeError, "is not compatible with Tensor type <class 'numpy.int32'>"),
    (tf.bool, [], 300, TypeError, "300 with type <class 'int'> is not compatible with Tensor type"),
    (STRING, [], 3, TypeError, "element 3 is not a string"),
    (STRING, [2], ["a", None], TypeError, "element None is not a string"),
]


@pytest.mark.parametrize(("dtype", "shape", "value", "error", "phrase"), REFUSED)
def test_what_cannot_be_fed_is_refused_before_anything_runs(
    session: tf.Session, dtype: Any, shape: Any, value: Any, error: type[Exception], phrase: str
) -> None:
    x = tf.placeholder(dtype, shape)
    with pytest.raises(error, match=phrase):
        session.run(tf.identity(x), {x: value})


def test_an_array_of_the_right_type_is_not_copied(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [3])
    array = np.ones(3, np.float32)
    assert feeds.to_array(x, array) is array
    assert session.run(x, {x: array}) is array


def test_anything_but_a_placeholder_may_be_fed_too_by_tensor_or_name(session: tf.Session) -> None:
    total = tf.add(tf.constant(1.0), 2.0, name="total")
    doubled = total * 2.0
    assert session.run(doubled, {total: 10.0}) == 20.0
    assert session.run(doubled, {"total:0": 11.0}) == 22.0
    variable = tf.Variable(1.0, name="v")
    assert session.run(variable + 1.0, {variable: 4.0}) == 5.0  # which nobody has initialized


KEYS: list[tuple[Any, type[Exception], str]] = [
    ("nowhere:0", TypeError, "Cannot interpret feed_dict key as Tensor: .*does not exist"),
    ("x", TypeError, "refers to an Operation, not a Tensor"),
    ("x:1", TypeError, "'x' .*has 1 outputs"),
    (3, TypeError, "Can not convert a int into a Tensor"),
    (None, TypeError, "Can not convert a NoneType into a Tensor"),
]


@pytest.mark.parametrize(("key", "error", "phrase"), KEYS)
def test_a_key_names_a_tensor(
    session: tf.Session, key: Any, error: type[Exception], phrase: str
) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    with pytest.raises(error, match=phrase):
        session.run(x + 1.0, {key: 1.0})


def test_a_tensor_of_another_graph_is_no_key_and_a_tensor_no_value(session: tf.Session) -> None:
    x = tf.placeholder(tf.float32, [])
    with tf.Graph().as_default():
        other = tf.placeholder(tf.float32, [])
    with pytest.raises(TypeError, match="is not an element of this graph"):
        session.run(x, {other: 1.0})
    with pytest.raises(TypeError, match="The value of a feed cannot be a tf"):
        session.run(x, {x: tf.constant(1.0)})
    with pytest.raises(TypeError, match="'dict' must be a dictionary"):
        session.run(x, [(x, 1.0)])  # type: ignore[arg-type]


def test_what_the_graph_relied_on_cannot_be_fed(graph: tf.Graph, session: tf.Session) -> None:
    sizes = tf.constant([2, 3])
    assert constant_value(sizes).tolist() == [2, 3]
    with pytest.raises(
        ValueError, match="may not be fed: the graph was built relying on its value"
    ):
        session.run(sizes, {sizes: [4, 5]})
    assert not graph.is_feedable(sizes)


def test_tuples_and_bundles_are_fed_part_by_part(session: tf.Session) -> None:
    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    assert session.run(x - y, {(x, y): (5.0, 3.0)}) == 2.0
    assert session.run(x - y, {(x, (y,)): [1.0, [4.0]]}) == -3.0
    with pytest.raises(ValueError, match="Key had 2 elements, but value had 1 elements"):
        session.run(x - y, {(x, y): (5.0,)})
    sparse = tf.sparse_placeholder(tf.float32)
    value = tf.SparseTensorValue([[0, 1]], [7.0], [1, 2])
    assert session.run(tf.sparse_tensor_to_dense(sparse), {sparse: value}).tolist() == [[0.0, 7.0]]
    with pytest.raises(TypeError, match="a SparseTensor is fed a SparseTensorValue, or a tuple"):
        session.run(sparse.values, {sparse: 3})


def test_other_kinds_of_things_can_be_taught_to_be_fed(session: tf.Session) -> None:
    class Pair:
        def __init__(self, low: tf.Tensor, high: tf.Tensor) -> None:
            self.low, self.high = low, high

    register_feed_conversion(Pair, lambda pair, both: [(pair.low, both[0]), (pair.high, both[1])])
    pair = Pair(tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, []))
    assert session.run(pair.high - pair.low, {pair: (3, 10)}) == 7


def test_each_step_gets_what_it_is_fed(session: tf.Session) -> None:
    """Though the second run of a signature takes a shorter way."""
    x = tf.placeholder(tf.int64, [None])
    total = tf.reduce_sum(x)
    assert [session.run(total, {x: range(n)}) for n in range(6)] == [0, 0, 1, 3, 6, 10]
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        session.run(total, {x: 3})
    assert session.run(total, {x: [3]}) == 3
