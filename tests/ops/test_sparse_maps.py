"""Sparse tensors kept under handles: taken once, put together as rows, refused when they do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import get
from headrace.run.state.sparse_maps import SparseTensorsMap

NAME = {"shared_name": "m"}


def add(indices: Any, values: Any, shape: Any, many: bool = False) -> Any:
    spec = get("AddManySparseToTensorsMap" if many else "AddSparseToTensorsMap")
    parts = [np.array(part, np.int64) for part in (indices, values, shape)]
    return spec(parts[0].reshape(-1, len(parts[2])), parts[1], parts[2], **NAME)


def take(handles: Any, dtype: Any = tf.int64) -> Any:
    return get("TakeManySparseFromTensorsMap")(np.array(handles, np.int64), dtype=dtype, **NAME)


def test_what_is_taken_is_gone() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        one, two = add([[1]], [5], [3]), add([], [], [7])
        handles = [int(session.run(one)), int(session.run(two)), int(session.run(one))]
        assert handles == [0, 1, 2]
        found = session.run(take([2, 1]))
        assert [part.tolist() for part in found] == [[[0, 1]], [5], [2, 7]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="nothing under handle 1"):
            session.run(take([0, 1]))
        assert session.run(take([0]))[1].tolist() == [5], "what failed took nothing"


def test_rows_of_one_are_kept_apart_in_any_order() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        handles = session.run(add([[2, 1], [0, 3], [2, 0]], [7, 8, 9], [4, 5], many=True))
        assert handles.tolist() == [0, 1, 2, 3]
        indices, values, shape = session.run(take([2, 1, 0]))
        assert indices.tolist() == [[0, 1], [0, 0], [2, 3]]
        assert (values.tolist(), shape.tolist()) == ([7, 9, 8], [3, 5])
        assert session.run(add([], [], [0, 5], many=True)).shape == (0,)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: take([]), "at least one"),
        (lambda: take([0, 1]), "ranks"),
        (lambda: take([0], tf.float32), "int64 under handle 0, and float32"),
        (lambda: add([[0]], [1], [2], many=True), "rank 1"),
        (lambda: add([[5, 0]], [1], [2, 2], many=True), "is out of bounds"),
        (lambda: add([[0, 1]], [1, 2], [3, 3]), "do not match"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, says: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(add([[0]], [1], [2]))
        session.run(add([[0, 0]], [1], [2, 2]))
        with pytest.raises(tf.errors.InvalidArgumentError, match=says):
            session.run(make())


def test_a_map_counts_what_it_keeps() -> None:
    kept = SparseTensorsMap("m")
    part = (np.zeros((0, 1), np.int64), np.zeros(0, np.int64), np.array([3], np.int64))
    assert kept.add(tf.int64, [part, part]) == [0, 1]
    assert kept.take(tf.int64, [1]) == [part]
    assert kept.size() == 1
