"""Linear algebra: what a decomposition gives multiplies to what was decomposed; what has none is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace as tf
from headrace.graph.registry import OPS

RNG = np.random.default_rng(12)
KINDS = [np.float32, np.float64, np.complex64, np.complex128]


def matrices(kind: Any, *shape: int) -> Any:
    made = RNG.normal(size=shape)
    if np.dtype(kind).kind == "c":
        made = made + 1j * RNG.normal(size=shape)
    return made.astype(kind)


def kernel(name: str, *inputs: Any, **attrs: Any) -> Any:
    spec = OPS[name]
    defaults = {n: a.default for n, a in spec.attrs.items() if n in spec.kernel_attrs}
    assert spec.kernel is not None
    return spec.kernel(np, *inputs, **{**defaults, **attrs})


def close(found: Any, wanted: Any) -> None:
    assert found.dtype == wanted.dtype
    single = found.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-4 if single else 1e-10)


def turned(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 5, 5), (5, 3), (3, 5), (1, 1)])
def test_factors_multiply_to_what_was_decomposed(kind: Any, shape: tuple[int, ...]) -> None:
    a = matrices(kind, *shape)
    q, r = kernel("Qr", a)
    close(q @ r, a)
    assert not np.tril(r, -1).any()
    s, u, v = kernel("Svd", a)
    close((u * s[..., None, :]) @ turned(v), a)
    s, u, v = kernel("Svd", a, full_matrices=True)
    assert u.shape[-1] == shape[-2]
    assert v.shape[-1] == shape[-1]
    gram = a @ turned(a) + np.eye(shape[-2], dtype=kind)
    lower = kernel("Cholesky", gram)
    close(lower @ turned(lower), gram)
    e, v = kernel("SelfAdjointEigV2", gram)
    close((v * e[..., None, :]) @ turned(v), gram)
    lu, p = kernel("Lu", gram)
    lower = np.tril(lu, -1) + np.eye(shape[-2], dtype=kind)
    close(lower @ np.triu(lu), np.take_along_axis(gram, p[..., None], -2))
    root = kernel("MatrixSquareRoot", gram)
    close(root @ root, gram)
    close(kernel("MatrixDeterminant", gram) / np.linalg.det(gram), np.ones(shape[:-2], kind))
    sign, log = kernel("LogMatrixDeterminant", gram)
    close(sign * np.exp(log) / np.linalg.det(gram), np.ones(shape[:-2], kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 4, 16, 17, 70])
def test_solutions_solve(kind: Any, rows: int) -> None:
    a, b = (
        matrices(kind, 2, rows, rows) / rows + np.eye(rows, dtype=kind),
        matrices(kind, 2, rows, 3),
    )
    close(a @ kernel("MatrixSolve", a, b), b)
    close(turned(a) @ kernel("MatrixSolve", a, b, adjoint=True), b)
    close(np.tril(a) @ kernel("MatrixTriangularSolve", a, b), b)
    close(np.triu(a) @ kernel("MatrixTriangularSolve", a, b, lower=False), b)
    close(turned(np.tril(a)) @ kernel("MatrixTriangularSolve", a, b, adjoint=True), b)
    close(np.tril(a[0]) @ kernel("MatrixTriangularSolve", a[0], b), b)
    close(a @ kernel("MatrixSolveLs", a, b, np.float64(0), fast=False), b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pivoting", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_tridiagonal_systems_are_solved(kind: Any, pivoting: bool, rows: int) -> None:
    bands, b = matrices(kind, 2, 3, rows), matrices(kind, 2, rows, 3)
    bands[:, 1] += 0 if pivoting else 4
    x = kernel("TridiagonalSolve", bands, b, partial_pivoting=pivoting)
    above, main, below = (bands[:, at, None] for at in range(3))
    np.testing.assert_allclose(
        kernel("TridiagonalMatMul", above, main, below, x),
        b,
        atol=3e-3 if x.dtype.itemsize < 9 else 1e-9,
    )


def test_pivots_are_exchanged_where_the_diagonal_is_0() -> None:
    bands = np.array([[1.0, 1, 0], [0, 0, 1], [0, 1, 1]])
    b = np.array([[1.0], [2], [3]])
    x = kernel("TridiagonalSolve", bands, b)
    whole = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 1]])
    np.testing.assert_allclose(whole @ x, b)
    assert np.isnan(kernel("TridiagonalSolve", bands, b, partial_pivoting=False)).any()


LOGARITHMS = [
    [[1, 1], [0, 1]],
    [[2, 1, 0], [0, 2, 1], [0, 0, 2]],
    [[-1, 0], [0, 1]],
    [[0, -1], [1, 0]],
    [[1e-3, 5], [0, 1e3]],
]


@pytest.mark.parametrize("matrix", LOGARITHMS)
def test_the_exponential_of_a_logarithm_is_the_matrix(matrix: Any) -> None:
    x = np.array(matrix, np.complex128)
    with tf.Graph().as_default(), tf.Session() as session:
        back = session.run(tf.linalg.expm(tf.linalg.logm(x)))
    np.testing.assert_allclose(back, x, atol=1e-9 * np.abs(x).max())


def test_what_has_no_root_or_logarithm_is_nan() -> None:
    assert np.isnan(kernel("MatrixLogarithm", np.zeros((2, 2), np.complex64))).all()
    assert np.isnan(kernel("MatrixSquareRoot", np.array([[0.0, 1], [0, 0]]))).any()
    assert np.isnan(kernel("MatrixSquareRoot", np.array([[-1.0, 0], [0, 1]]))).all()


REFUSED = [
    ("Cholesky", (-np.eye(2),), "Cholesky decomposition was not successful"),
    ("Cholesky", (np.full((2, 2), np.nan),), "Cholesky decomposition was not successful"),
    (
        "MatrixTriangularSolve",
        (np.diag([1.0, 0]), np.ones((2, 1))),
        "Input matrix is not invertible",
    ),
    ("MatrixSolveLs", (np.zeros((2, 2)), np.ones((2, 1)), np.float64(0)), "rank deficient"),
]


@pytest.mark.parametrize(("name", "inputs", "says"), REFUSED)
def test_what_cannot_be_solved_is_refused(name: str, inputs: Any, says: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        kernel(name, *inputs)


def test_perturbing_says_what_to_do_instead() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="add a multiple of 1"):
        kernel("TridiagonalSolve", np.ones((3, 2)), np.ones((2, 1)), perturb_singular=True)
