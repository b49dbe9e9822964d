"""Sparse tensors and dense ones against NumPy, and embeddings of sparse ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS

F = np.float32
SHAPE = np.array([3, 4])
PLACES = np.array([[0, 1], [0, 3], [2, 0]])
VALUES = F([2, -1, 5])
DENSE = F([[0, 2, 0, -1], [0, 0, 0, 0], [5, 0, 0, 0]])


def run(name: str, *inputs: Any, **attrs: Any) -> Any:
    kernel = OPS[name].kernel
    assert kernel is not None
    return kernel(np, *inputs, **attrs)


def test_elements_stand_at_their_indices() -> None:
    dense = run("SparseToDense", PLACES, SHAPE, VALUES, F(0), validate_indices=True)
    np.testing.assert_array_equal(dense, DENSE)
    assert dense.dtype == F
    names = np.array([b"a", b"b"], object)
    found = run(
        "SparseToDense", np.int32([0, 2]), np.int32([3]), names, np.array(b"-", object), validate_indices=True
    )  # fmt: skip
    assert found.tolist() == [b"a", b"-", b"b"]
    one = run("SparseToDense", np.int32(1), np.int32([3]), F(7), F(1), validate_indices=True)
    assert one.tolist() == [1, 7, 1]


@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32, np.complex64, np.float16])
def test_products(flip_a: bool, flip_b: bool, kind: Any) -> None:
    values = VALUES.astype(kind) * (1j if kind is np.complex64 else 1)
    left = np.zeros(SHAPE, values.dtype)
    left[tuple(PLACES.T)] = values
    left = left.conj().T if flip_a else left
    right = np.arange(left.shape[1] * 2).reshape(left.shape[1], 2).astype(kind)
    given = right.conj().T if flip_b else right
    found = run(
        "SparseTensorDenseMatMul", PLACES, values, SHAPE, given, adjoint_a=flip_a, adjoint_b=flip_b
    )
    assert found.dtype == kind
    np.testing.assert_array_equal(found, left @ right)


def test_equal_indices_add_up_in_a_product_in_whatever_order_they_come() -> None:
    places = np.array([[2, 0], [0, 1], [2, 0]])
    found = run(
        "SparseTensorDenseMatMul", places, VALUES, SHAPE, np.eye(4, dtype=F),
        adjoint_a=False, adjoint_b=False,
    )  # fmt: skip
    assert found.tolist() == [[0, -1, 0, 0], [0, 0, 0, 0], [7, 0, 0, 0]]


def test_a_dense_factor_may_come_first() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor(PLACES, tf.constant(VALUES) + 0, SHAPE)
        rows = np.arange(6, dtype=F).reshape(2, 3)
        found = session.run(tf.sparse.sparse_dense_matmul(rows, sparse))
        np.testing.assert_array_equal(found, rows @ DENSE)
        turned = tf.SparseTensor(PLACES, tf.constant(VALUES * 1j, tf.complex64), SHAPE)
        found = session.run(tf.sparse.matmul(rows * (2 + 1j), turned))
        np.testing.assert_allclose(found, (rows * (2 + 1j)) @ (DENSE * 1j))
        with pytest.raises(TypeError, match="dense"):
            tf.sparse.matmul(sparse, sparse)


def test_sums_leave_out_what_falls_below_the_threshold() -> None:
    other = np.array([[0, 1], [1, 1]])
    indices, values, shape = run(
        "SparseAdd", PLACES, VALUES, SHAPE, other, F([-1.5, 4]), SHAPE, F(1)
    )
    assert indices.tolist() == [[0, 3], [1, 1], [2, 0]]
    assert values.tolist() == [-1, 4, 5]
    assert shape.tolist() == [3, 4]
    d_a, d_b = run("SparseAddGrad", F([10, 20, 30]), PLACES, other, indices)
    assert (d_a.tolist(), d_b.tolist()) == ([0, 10, 30], [0, 20])
    assert (
        run("SparseTensorDenseAdd", PLACES, VALUES, SHAPE, DENSE).tolist() == (2 * DENSE).tolist()
    )


ALL = {"validate_indices": True}
ANY = {"validate_indices": False}
STRAIGHT = {"adjoint_a": False, "adjoint_b": False}
HUGE = np.array([[0, 4]])


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "text"),
    [
        ("SparseToDense", (PLACES[::-1], SHAPE, VALUES, F(0)), ALL, "out of order"),
        ("SparseToDense", (PLACES[[0, 0, 1]], SHAPE, VALUES, F(0)), ALL, "is repeated"),
        ("SparseToDense", (HUGE, SHAPE, F(1), F(0)), ANY, "is out of bounds: need 0 <= index < [3,4]"),
        ("SparseToDense", (-HUGE, SHAPE, F(1), F(0)), ANY, "indices[0] = [0,-4] is out of bounds"),
        ("SparseToDense", (PLACES, SHAPE[:1], VALUES, F(0)), ANY, "1 should be: 2, the columns"),
        ("SparseToDense", (PLACES, SHAPE, VALUES[:2], F(0)), ANY, "should be [] or [3]"),
        ("SparseToDense", (PLACES, SHAPE, VALUES, VALUES), ANY, "default_value should be a scalar"),
        ("SparseToDense", (PLACES, -SHAPE, VALUES, F(0)), ANY, "Dimension -4 must be >= 0"),
        ("SparseTensorDenseMatMul", (PLACES, VALUES, SHAPE, DENSE), STRAIGHT, "does not match: 4 vs. 3"),
        ("SparseTensorDenseMatMul", (HUGE, VALUES[:1], SHAPE, DENSE.T), STRAIGHT, "out of bounds"),
        ("SparseTensorDenseMatMul", (PLACES, VALUES[:2], SHAPE, DENSE.T), STRAIGHT, "values [n]"),
        ("SparseTensorDenseMatMul", (PLACES, VALUES, SHAPE[:1], DENSE.T), STRAIGHT, "is not a matrix"),
        ("SparseTensorDenseAdd", (PLACES, VALUES, SHAPE, DENSE.T), {}, "does not equal"),
        ("SparseTensorDenseAdd", (HUGE, VALUES[:1], SHAPE, DENSE), {}, "out of bounds"),
        ("SparseAdd", (PLACES, VALUES, SHAPE, PLACES, VALUES, SHAPE + 1, F(0)), {}, "shapes do not match"),
        ("SparseAdd", (PLACES, VALUES, SHAPE, PLACES, VALUES[:1], SHAPE, F(0)), {}, "values [n]"),
        ("SparseAddGrad", (VALUES, PLACES, PLACES[:, :1], PLACES), {}, "as many columns"),
    ],
)  # fmt: skip
def test_a_kernel_refuses(name: str, inputs: Any, attrs: Any, text: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run(name, *inputs, **attrs)
    assert text in caught.value.message


TABLE = np.arange(15, dtype=F).reshape(5, 3)
IDS = np.array([1, 3, 1, 0])
WEIGHTS = F([1, 3, 2, 0.5])
WHERE = np.array([[0, 0], [0, 1], [2, 0], [3, 1]])


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn", None])
def test_rows_of_sparse_ids_are_combined(parts: int, weighted: bool, combiner: str | None) -> None:
    weights = WEIGHTS if weighted else np.ones(4, F)
    wanted = np.zeros((4, 3), F)
    for row in range(4):
        mine = WHERE[:, 0] == row
        divisor = {"sum": 1, "sqrtn": np.sqrt((weights[mine] ** 2).sum())}.get(
            combiner or "mean", weights[mine].sum()
        )
        if mine.any():
            wanted[row] = (TABLE[IDS[mine]] * weights[mine, None]).sum(axis=0) / divisor
    with tf.Graph().as_default(), tf.Session() as session:
        table: Any = [tf.constant(TABLE[at::parts]) for at in range(parts)]
        ids = tf.SparseTensor(WHERE, IDS, [4, 2])
        given = tf.SparseTensor(WHERE, WEIGHTS, [4, 2]) if weighted else None
        made = tf.nn.embedding_lookup_sparse(table, ids, given, combiner=combiner)
        np.testing.assert_allclose(session.run(made), wanted, rtol=1e-6)
        if parts == 1:
            (slope,) = tf.gradients(made, table[0])
            assert isinstance(
                slope, tf.IndexedSlices
            )  # rows that were not looked up are left alone
            assert sorted(set(session.run(slope).indices.tolist())) == [0, 1, 3]


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (4, 2), (0, 2)])
@pytest.mark.parametrize("batch", [[], [2], [2, 1]])
def test_eye(shape: tuple[int, int], batch: list[int]) -> None:
    wanted = np.broadcast_to(np.eye(*shape), (*batch, *shape))
    with tf.Graph().as_default(), tf.Session() as session:
        rows, columns = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
        made = [
            tf.eye(*shape, batch),
            tf.eye(rows, columns, tf.constant(batch, tf.int32), tf.float64),
        ]
        for found in session.run(made, {rows: shape[0], columns: shape[1]}):
            np.testing.assert_array_equal(found, wanted)
