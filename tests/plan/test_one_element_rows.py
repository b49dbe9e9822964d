"""Matrices of categories: where each row has its one element, and where not, the bits are those of the nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.plan.explain import explaining
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import together_and_apart

WORDS: dict[str, Any] = {
    "one each": [[b"a"], [b"b"], [b"a"], [b"c"]],
    "one each, many": [[b"%d" % (at % 7)] for at in range(300)],
    "more than are remembered": [[b"%d" % (at % 7)] for at in range(1 << 15)],
    "some without": [[b"a"], [b""], [b"b"]],
    "two each": [[b"a", b"b"], [b"b", b"c"]],
    "two, and one": [[b"a", b"b"], [b"", b"c"]],
    "none": [[b""], [b""]],
    "no row": np.empty((0, 1), object),
    "no column": np.empty((3, 0), object),
}


@pytest.mark.parametrize("case", WORDS)
def test_a_matrix_as_a_sparse_tensor(runtime: Runtime, case: str) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        words = tf.placeholder(tf.string, [None, None])
        places = tf.where(tf.not_equal(words, ""))
        fetches = [tf.gather_nd(words, places), places]
        fed = {words: np.array(WORDS[case], object)}
        for wanted in (fetches, fetches[:1]):
            found, apart, _ = together_and_apart(wanted, fed, runtime)
            for one, other in (
                zip(found, apart, strict=True) if len(wanted) > 1 else [(found, apart)]
            ):
                assert np.array_equal(one, other)
                assert np.asarray(one).dtype == np.asarray(other).dtype
    assert "sparse-inputs" in "".join(said)


@pytest.mark.parametrize("ignored", [-1, 2])
@pytest.mark.parametrize("used", [False, True])
def test_numbers_and_a_test_that_others_want(runtime: Runtime, ignored: int, used: bool) -> None:
    with tf.Graph().as_default():
        numbers = tf.placeholder(tf.int64, [None, 2])
        test = tf.not_equal(numbers, ignored)
        places = tf.where(test)
        fetches = [tf.gather_nd(numbers, places), tf.reduce_sum(places)]
        if used:
            fetches.append(tf.reduce_all(test))
        fed = {numbers: np.arange(8).reshape(4, 2)}
        found, apart, _ = together_and_apart(fetches, fed, runtime)
    for one, other in zip(found, apart, strict=True):
        assert np.array_equal(one, other)


INDICES: dict[str, tuple[Any, Any, Any]] = {
    "one each": ([[0, 0], [1, 0], [2, 0]], [2, 0, 4], [3, 1]),
    "some that are none": ([[0, 0], [1, 0], [2, 0]], [-1, 5, 1], [3, 1]),
    "one row without": ([[0, 0], [2, 0]], [2, 0], [3, 1]),
    "more columns": ([[0, 0], [0, 1], [1, 0]], [2, 2, 3], [2, 2]),
    "no row": (np.empty((0, 2)), [], [0, 1]),
    "no column": (np.empty((0, 2)), [], [2, 0]),
}


@pytest.mark.parametrize("case", INDICES)
@pytest.mark.parametrize(("on", "off"), [(1.0, 0.0), (-0.0, -0.0), (2, 3)])
@pytest.mark.parametrize("axis", [-2, 1])
def test_how_often_each_number_is_in_a_row(
    runtime: Runtime, case: str, on: float, off: float, axis: int
) -> None:
    said: list[str] = []
    with tf.Graph().as_default(), explaining(said.append):
        parts = [tf.placeholder(tf.int64, shape) for shape in ([None, 2], [None], [2])]
        indices, numbers, shape = parts
        dense = tf.sparse_to_dense(indices, shape, numbers, -1)
        found = tf.reduce_sum(tf.one_hot(dense, 5, on, off), axis=axis)
        fed = {
            part: np.array(value, np.int64)
            for part, value in zip(parts, INDICES[case], strict=True)
        }
        one, other, _ = together_and_apart([found], fed, runtime)
    assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert np.shape(one) == np.shape(other)
    assert "indicators" in "".join(said)


def test_an_index_that_is_out_of_bounds_is_refused(runtime: Runtime) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        indices = tf.placeholder(tf.int64, [None, 2])
        dense = tf.sparse_to_dense(indices, [2, 1], tf.constant([0, 1], tf.int64), -1)
        counts = tf.reduce_sum(tf.one_hot(dense, 2, 1.0, 0.0), axis=[-2])
        assert session.run(counts, {indices: [[0, 0], [1, 0]]}).tolist() == [[1, 0], [0, 1]]
        for bad in ([[0, 0], [2, 0]], [[0, 0], [1, 1]], [[1, 0], [0, 0]]):
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(counts, {indices: bad})
