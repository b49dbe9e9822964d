"""Tensors and examples to strings and back; what is no such string is refused with what it is."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import headrace as tf

VALUES = [
    np.float32(3), np.arange(6).reshape(2, 3), np.array([b"a" * 300, b""], object), np.zeros((0, 2), np.int8),
    np.array([True, False]), np.array([1 + 2j]), np.array([1.5], np.float16),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_a_tensor_comes_back(value: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = tf.constant(value)
        back = session.run(tf.parse_tensor(tf.serialize_tensor(tensor), tensor.dtype))
    assert back.dtype == np.asarray(value).dtype
    np.testing.assert_array_equal(back, value)


@pytest.mark.parametrize("kind", [np.float32, np.int64, object])
def test_sparse_tensors_come_back_as_rows(kind: Any) -> None:
    values = np.array([b"x" * 200, b""], object) if kind is object else np.array([7, 8], kind)
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor([[0, 1], [2, 0]], values, [3, 4])
        rows = tf.serialize_many_sparse(sparse)
        back = session.run(
            tf.deserialize_many_sparse(rows, values.dtype if kind is not object else tf.string)
        )
    assert [part.tolist() for part in back] == [[[0, 1], [2, 0]], values.tolist(), [3, 4]]


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: tf.parse_tensor(b"\x0a\x7fq", tf.int32), tf.errors.InvalidArgumentError, "TensorProto"),
        (lambda: tf.parse_tensor(tf.serialize_tensor(1.5), tf.int32), tf.errors.InvalidArgumentError,
         "parsed tensor \\(float\\) and dtype \\(int32\\)"),
        (lambda: tf.decode_json_example("[]"), tf.errors.InvalidArgumentError, "no|not a JSON object"),
        (lambda: tf.decode_json_example('{"x": 1}'), tf.errors.InvalidArgumentError, "is not an Example"),
        (lambda: tf.decode_compressed(["abc"], "ZLIB"), tf.errors.DataLossError, "ZLIB"),
        (lambda: tf.decode_compressed(["x"], "LZ4"), tf.errors.InvalidArgumentError, "'LZ4'"),
    ],
)  # fmt: skip
def test_what_is_no_such_string_is_refused(make: Any, kind: Any, says: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session, pytest.raises(kind, match=says):
        session.run(make())


def test_examples_in_json_and_compressed_strings_are_read() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        example = tf.decode_json_example(
            '{"features":{"feature":{"a":{"int64List":{"value":[1,"2"]}}}}}'
        )
        parsed = tf.parse_single_example(example, {"a": tf.FixedLenFeature([2], tf.int64)})
        packed = [[zlib.compress(b"one")], [zlib.compress(b"two")]]
        found, plain = session.run([parsed["a"], tf.decode_compressed(packed, "ZLIB")])
    assert (found.tolist(), plain.tolist()) == ([1, 2], [[b"one"], [b"two"]])
