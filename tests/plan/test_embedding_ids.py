"""Ids of embeddings that are sorted out in one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.run.exec.kernel import Runtime
from tests.plan.programs import compiled, nodes, run, together_and_apart

ROWS: dict[str, list[list[int]]] = {
    "one each": [[3], [1], [3], [0]],
    "one each, many": [[int(each)] for each in np.random.default_rng(3).integers(0, 9, 200)],
    "some without, some that do not count": [[3, -1], [], [2, 2, 5], [-4]],
    "none that counts": [[-1], [-2]],
    "no row": [],
    "only empty rows": [[], [], []],
}
WEIGHTS = np.random.default_rng(5).standard_normal((9, 3)).astype(np.float32)


def sparse(rows: list[list[int]]) -> tuple[Any, Any, Any]:
    """Indices, values and shape of a matrix with these in its rows."""
    places = [(at, place) for at, row in enumerate(rows) for place in range(len(row))]
    values = [each for row in rows for each in row]
    shape = (len(rows), max(map(len, rows), default=0))
    return (
        np.array(places, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array(shape, np.int64),
    )


class Lookup:
    """A safe lookup of fed ids in fed weights; with a default all of it is no group."""

    def __init__(self, combiner: str = "mean", default: int | None = None) -> None:
        self.weights = tf.placeholder(tf.float32, [9, 3])
        self.parts = (
            tf.placeholder(tf.int64, [None, 2]),
            tf.placeholder(tf.int64, [None]),
            tf.placeholder(tf.int64, [2]),
        )
        self.rows = tf.nn.safe_embedding_lookup_sparse(
            self.weights, tf.SparseTensor(*self.parts), combiner=combiner, default_id=default
        )

    def fed(self, parts: tuple[Any, Any, Any]) -> dict[Any, Any]:
        return {self.weights: WEIGHTS, **dict(zip(self.parts, parts, strict=True))}


def together(program: Any) -> bool:
    """Whether the nodes of a lookup run as one, under the name of that which fills rows."""
    names = set(nodes(program))
    filled = [name for name in names if name.endswith("/SparseFillEmptyRows")]
    return len(filled) == 1 and not any(name.endswith(("/Unique", "/Prod")) for name in names)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("case", ROWS)
def test_rows_and_gradients_are_those_of_the_nodes_one_by_one(
    runtime: Runtime, case: str, combiner: str
) -> None:
    with tf.Graph().as_default():
        lookup = Lookup(combiner, 1)
        slope = tf.gradients(tf.reduce_sum(tf.square(lookup.rows)), lookup.weights)[0]
        found, wanted, program = together_and_apart(
            [lookup.rows, slope.values, slope.indices], lookup.fed(sparse(ROWS[case])), runtime
        )
    assert together(program)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("kind", ["SparseFillEmptyRows", "SparseReshape", "Where", "Unique"])
def test_what_is_fetched_from_inside_is_what_the_node_gives(runtime: Runtime, kind: str) -> None:
    with tf.Graph().as_default() as graph:
        lookup = Lookup(default=1)
        inside = [t for op in graph.get_operations() if op.type == kind for t in op.outputs]
        case = ROWS["some without, some that do not count"]
        found, wanted, _ = together_and_apart(
            [lookup.rows, *inside], lookup.fed(sparse(case)), runtime
        )
    assert len(found) > 1
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)


def test_an_error_is_the_nodes_own(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        lookup = Lookup(default=1)
        indices, values, shape = sparse(ROWS["one each"])
        indices[2, 0] = 7
        fed = lookup.fed((indices, values, shape))
        program = compiled([lookup.rows], list(fed))
        with pytest.raises(tf.errors.InvalidArgumentError, match="SparseFillEmptyRows"):
            run(program, runtime, list(fed.values()))


@pytest.mark.parametrize("shape", [(4, -1), (-4, -1), (4, 1 << 62)])
def test_shapes_that_no_matrix_has_are_refused_by_the_node(
    runtime: Runtime, shape: tuple[int, int]
) -> None:
    with tf.Graph().as_default():
        lookup = Lookup(default=1)
        fed = lookup.fed((*sparse(ROWS["one each"])[:2], np.array(shape, np.int64)))
        program = compiled([lookup.rows], list(fed))
        with pytest.raises(tf.errors.InvalidArgumentError, match="SparseReshape"):
            run(program, runtime, list(fed.values()))


def test_ids_of_more_dimensions_have_the_rows_of_their_last_one(runtime: Runtime) -> None:
    indices = np.array([[0, 0, 0], [0, 1, 1], [1, 1, 0]], np.int64)
    with tf.Graph().as_default():
        weights = tf.placeholder(tf.float32, [9, 3])
        parts = [tf.placeholder(tf.int64, shape) for shape in ([None, 3], [None], [3])]
        rows = tf.nn.safe_embedding_lookup_sparse(weights, tf.SparseTensor(*parts))
        values = [indices, np.array([4, -1, 2], np.int64), np.array([2, 2, 2], np.int64)]
        fed = {weights: WEIGHTS, **dict(zip(parts, values, strict=True))}
        found, wanted, _ = together_and_apart([rows], fed, runtime)
    assert np.array_equal(found[0], wanted[0])
    assert found[0].shape == (2, 2, 3)
    assert np.array_equal(found[0][1, 1], WEIGHTS[2])


def test_two_columns_of_the_same_ids_share_what_is_done_to_them(runtime: Runtime) -> None:
    with tf.Graph().as_default():
        lookup = Lookup(default=1)
        again = tf.nn.safe_embedding_lookup_sparse(
            lookup.weights * 2.0, tf.SparseTensor(*lookup.parts), combiner="sum", default_id=1
        )
        case = ROWS["some without, some that do not count"]
        found, wanted, program = together_and_apart(
            [lookup.rows, again], lookup.fed(sparse(case)), runtime
        )
    assert together(program)
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one, other)
